// Rows of a few bytes that lie one after another at no alignment: a tile of rows is staged through shared memory, and a
// thread a row takes it from there. Other blocks' copies are on their way while this one works.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/shared.cuh"
#include "../monoid/moments.cuh"

// All threads call. Starts copying the tile that begins with row number `first` of these, from the start of a cache line
// on: the rows before the tile fill that. What does not fill 16 bytes at either end of the operand goes by elements. Where
// the tile's first row is; shared memory holds 142 bytes more than its rows.
template <class In, int Threads, int Chunks>
GR_HD const In* stage_rows(const Task<Chunks>& task, const u8* rows, u64 first, u8* to) {
    const u64 row_bytes = task.length * sizeof(In);
    const u8* from = rows + first * row_bytes;
    const u32 lead = (u32)((u64)from % (first ? 128 : 16));
    const u64 owned = lead + (task.rows - first) * row_bytes, wanted = (lead + task.slots * row_bytes + 15) / 16;
    const u32 whole = (u32)(owned / 16 < wanted ? owned / 16 : wanted), begin = first == 0 && lead ? 1 : 0;
    const u8* line = from - lead;
#pragma unroll 4
    for (u32 pack = begin + threadIdx.x; pack < whole; pack += Threads) copy_async(to + 16 * pack, line + 16 * pack);
    const u32 head = lead + threadIdx.x * sizeof(In), tail = 16 * whole + threadIdx.x * sizeof(In);
    if (begin && head < 16 && head < owned) *(In*)(to + head) = *(const In*)(line + head);
    if (whole < wanted && tail < owned && tail >= 16 * begin) *(In*)(to + tail) = *(const In*)(line + tail);
    return (const In*)(to + lead);
}

// The state of a row of Length elements in shared memory.
template <class Op, int Length, int Chunks>
GR_HD typename Op::State staged_state(const Task<Chunks>& task, const typename Op::In* row) {
    Pack<typename Op::In, 1> packs[Length];
#pragma unroll
    for (int k = 0; k < Length; k++) packs[k].at[0] = row[k];
    typename Op::Acc acc = Op::start();
    Op::template absorb_packs<1>(acc, packs, task.base[0].index, task.step_c, task.step_c);
    return Op::settle(acc);
}

// Grid: one block a tile of `slots` rows, which follow one another, each of Length elements. Uses a tile of shared memory.
// For any operator.
template <class Op, class Emit, int Length, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_staged_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const u64 first = blockIdx.x * task.slots;
    const In* tile = stage_rows<In, Threads>(task, task.base[0].a, first, (u8*)GR_SHARED);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell;
    const u32 rows = (u32)(task.rows - first < task.slots ? task.rows - first : task.slots);
    for (u32 r = threadIdx.x; r < rows; r += Threads) {
        const In* row = tile + r * Length;
        typename Emit::Out* cell = out + task.row.at(first + r).c;
        if constexpr (Clean<Op>::simpler) {
            const auto state = staged_state<typename Clean<Op>::type, Length>(task, row);
            if (!is_suspect(state)) {
                store_streaming(cell, Emit::of(state, task.option));
                continue;
            }
        }
        store_streaming(cell, Emit::of(staged_state<Op, Length>(task, row), task.option));
    }
}
