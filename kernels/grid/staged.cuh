// Rows of a few bytes that lie one after another at no alignment: tiles of rows are staged through shared memory, the
// next one on its way while a thread a row works on this one.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/shared.cuh"

// All threads call. Starts copying the tile of rows that begins at row `first`; the end of the operand by elements.
template <class In, int Threads, int Chunks>
GR_HD void stage_rows(const Task<Chunks>& task, u64 first, u8* to) {
    const int V = 16 / sizeof(In);
    const u64 total = task.rows * task.length, begin = first * task.length, packs = task.slots * task.length / V;
    const In* all = (const In*)task.base[0].a;
    for (u64 pack = threadIdx.x; pack < packs; pack += Threads) {
        const u64 at = begin + pack * V;
        if (at + V <= total) copy_async(to + 16 * pack, all + at);
        else
            for (int j = 0; j < V && at + j < total; j++) ((In*)to)[pack * V + j] = all[at + j];
    }
    commit_copies();
}

// Grid: any number of blocks. `slots` is the number of rows in a tile; a tile's bytes are a multiple of 16, and the
// operand starts at a multiple of 16. Uses two tiles of shared memory. One operand. For any operator.
template <class Op, class Emit, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads) reduce_staged_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const u64 tile_rows = task.slots, tile_bytes = tile_rows * task.length * sizeof(In), stride = gridDim.x * tile_rows;
    u8* const tiles = (u8*)GR_SHARED;
    u64 first = blockIdx.x * tile_rows;
    u32 turn = 0;
    if (first < task.rows) stage_rows<In, Threads>(task, first, tiles);
    for (; first < task.rows; first += stride, turn ^= 1) {
        if (first + stride < task.rows) stage_rows<In, Threads>(task, first + stride, tiles + (turn ^ 1) * tile_bytes);
        else commit_copies();
        wait_copies<1>();
        __syncthreads();
        const In* staged = (const In*)(tiles + turn * tile_bytes);
        for (u64 r = threadIdx.x; r < tile_rows && first + r < task.rows; r += Threads) {
            typename Op::Acc acc = Op::start();
            for (u64 k = 0; k < task.length; k++)
                Op::absorb(acc, staged[r * task.length + k], task.base[0].index + (i64)k * task.step_c);
            const Offset at = task.row.at(first + r);
            ((typename Emit::Out*)task.out)[task.first_cell + at.c] = Emit::of(Op::settle(acc), task.option);
        }
        __syncthreads();  // before the tile is overwritten
    }
}
