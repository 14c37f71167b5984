// Rows of some hundred elements that lie one after another at no alignment: a tile of rows is staged through shared
// memory, and a team of lanes a row takes it from there.
#pragma once
#include "../monoid/raw.cuh"
#include "../warp/reduce.cuh"
#include "staged.cuh"

// A row in shared memory as 32-bit words of narrow elements, and the elements before the first and after the last.
template <class In> struct Words32 {
    static const int W = sizeof(In) < 4 ? 4 / sizeof(In) : 1;
    const In* row;
    u32 head, words, end;  // the words begin at element `head` and end before element `end`
    GR_HD Words32(const In* from, u32 length) : row(from) {
        head = (W - (u32)((u64)from / sizeof(In) % W)) % W;
        if (head > length) head = length;
        words = (length - head) / W;
        end = head + words * W;
    }
    GR_HD Pack<In, W> word(u32 w) const {
        if constexpr (W == 1) return {row[w]};
        else return bit_cast<Pack<In, W>>(((const u32*)(row + head))[w]);
    }
};

template <class Op, int V>
GR_HD void add_about(typename Raw<Op>::State& state, const Pack<typename Op::In, V>& pack, typename Raw<Op>::Pivot pivot) {
    state = Raw<Op>::combine(state, Raw<Op>::of(pack, pivot, 0, 0, 0));
}

// All lanes of the warp call, each team with a row in shared memory, or with length 0. Result valid in the first lane of
// each team. No block barrier.
template <class Op, int Lanes, int Chunks>
GR_HD typename Op::State team_state(const Task<Chunks>& task, const typename Op::In* row, u32 length) {
    typedef typename Op::In In;
    const int W = Words32<In>::W;
    const Words32<In> line(row, length);
    const i64 index = task.base[0].index, step = task.step_c;
    const u32 lane = threadIdx.x % Lanes;
    u32 w = lane;
    if constexpr (Raw<Op>::pivoted) {  // one pivot for all lanes: they only add
        typename Raw<Op>::State state = Raw<Op>::empty();
        const typename Raw<Op>::Pivot pivot = row[0];
        for (u32 k = lane; k < line.head; k += Lanes) add_about<Op, 1>(state, {row[k]}, pivot);
#pragma unroll 4
        for (; w < line.words; w += Lanes) add_about<Op, W>(state, line.word(w), pivot);
        for (u32 k = line.end + lane; k < length; k += Lanes) add_about<Op, 1>(state, {row[k]}, pivot);
        return Raw<Op>::settle(warp_reduce<Raw<Op>, Lanes>(state), pivot, length, index, step);
    } else {
        const int Items = 4;
        typename Op::Acc acc = Op::start();
        for (u32 k = lane; k < line.head; k += Lanes) Op::absorb(acc, row[k], index + k * step);
        for (; w + (Items - 1) * Lanes < line.words; w += Items * Lanes) {
            Pack<In, W> packs[Items];
#pragma unroll
            for (int i = 0; i < Items; i++) packs[i] = line.word(w + i * Lanes);
            Op::template absorb_packs<1>(acc, packs, index + (line.head + w * W) * step, Lanes * W * step, step);
        }
        for (; w < line.words; w += Lanes) Op::absorb_pack(acc, line.word(w), index + (line.head + w * W) * step, step);
        for (u32 k = line.end + lane; k < length; k += Lanes) Op::absorb(acc, row[k], index + k * step);
        return warp_reduce<Op, Lanes>(Op::settle(acc));
    }
}

// Grid: one block a tile of `slots` rows, whose bytes are a multiple of 16; the operand starts at a multiple of 16, and
// its rows follow one another. Uses a tile of shared memory. For commutative operators.
template <class Op, class Emit, int Threads, int Lanes, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_team_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const u64 first = blockIdx.x * task.slots;
    stage_rows<In, Threads>(task, first, (u8*)GR_SHARED);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell + (i64)first * task.row.c[0];
    const u32 rows = (u32)(task.rows - first < task.slots ? task.rows - first : task.slots);
    // Whole warps go round together: a team without a row still takes part in the shuffles.
    for (u32 round = threadIdx.x / 32 * (32 / Lanes); round < rows; round += Threads / Lanes) {
        const u32 r = round + threadIdx.x % 32 / Lanes, length = r < rows ? (u32)task.length : 0;
        const In* row = (const In*)GR_SHARED + (r < rows ? r * (u32)task.length : 0);
        const bool writes = r < rows && threadIdx.x % Lanes == 0;
        typename Emit::Out* cell = out + (i64)r * task.row.c[0];
        if constexpr (Clean<Op>::simpler) {
            const auto state = team_state<typename Clean<Op>::type, Lanes>(task, row, length);
            if (!__any_sync(0xffffffffu, writes && is_suspect(state))) {
                if (writes) store_once(cell, Emit::of(state, task.option));
                continue;
            }
        }
        const auto state = team_state<Op, Lanes>(task, row, length);
        if (writes) store_once(cell, Emit::of(state, task.option));
    }
}
