// Rows of a few bytes that lie one after another at no alignment: a tile of rows is staged through shared memory, and a
// thread a row takes it from there. Other blocks' copies are on their way while this one works.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/shared.cuh"
#include "../monoid/moments.cuh"

// All threads call. Starts copying the tile of rows that begins at row `first`; the end of the operand by elements.
template <class In, int Threads, int Chunks>
GR_HD void stage_rows(const Task<Chunks>& task, u64 first, u8* to) {
    const int V = 16 / sizeof(In);
    const u64 total = task.rows * task.length, begin = first * task.length;
    const u32 packs = (u32)(task.slots * task.length / V);
    const In* from = (const In*)task.base[0].a + begin;
    for (u32 pack = threadIdx.x; pack < packs; pack += Threads) {
        const u64 at = begin + pack * V;
        if (at + V <= total) copy_async(to + 16 * pack, from + pack * V);
        else
            for (int j = 0; j < V && at + j < total; j++) ((In*)to)[pack * V + j] = from[pack * V + j];
    }
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

// Grid: one block a tile of `slots` rows, whose bytes are a multiple of 16; the operand starts at a multiple of 16, and
// its rows of Length elements follow one another. Uses a tile of shared memory. For any operator.
template <class Op, class Emit, int Length, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_staged_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const u64 first = blockIdx.x * task.slots;
    stage_rows<In, Threads>(task, first, (u8*)GR_SHARED);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell + (i64)first * task.row.c[0];
    const u32 rows = (u32)(task.rows - first < task.slots ? task.rows - first : task.slots);
    for (u32 r = threadIdx.x; r < rows; r += Threads) {
        const In* row = (const In*)GR_SHARED + r * Length;
        typename Emit::Out* cell = out + (i64)r * task.row.c[0];
        if constexpr (Clean<Op>::simpler) {
            const auto state = staged_state<typename Clean<Op>::type, Length>(task, row);
            if (!is_suspect(state)) {
                store_once(cell, Emit::of(state, task.option));
                continue;
            }
        }
        store_once(cell, Emit::of(staged_state<Op, Length>(task, row), task.option));
    }
}
