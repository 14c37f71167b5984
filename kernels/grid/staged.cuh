// Rows of a few bytes that lie one after another at no alignment: a tile of rows is staged through shared memory.
#pragma once
#include "../core/line.cuh"
#include "../core/shared.cuh"

// Grid: any number of blocks. `slots` is the number of rows in a tile; a tile's bytes are a multiple of 16, and the
// operand starts at a multiple of 16. Uses a tile of shared memory. One operand. For any operator.
template <class Op, class Emit, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads) reduce_staged_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const int V = 16 / sizeof(In);
    const In* staged = (const In*)GR_SHARED;
    const u64 tile_rows = task.slots, total = task.rows * task.length, tile_packs = tile_rows * task.length / V;
    const In* all = (const In*)task.base[0].a;
    for (u64 first = blockIdx.x * tile_rows; first < task.rows; first += gridDim.x * tile_rows) {
        const u64 begin = first * task.length;
#pragma unroll 4
        for (u64 pack = threadIdx.x; pack < tile_packs; pack += Threads) {
            u64 at = begin + pack * V;
            if (at + V <= total) ((Pack<uint4, 1>*)GR_SHARED)[pack] = load_pack<uint4, 1>(all + at);
            else
                for (int j = 0; j < V && at + j < total; j++) ((In*)GR_SHARED)[pack * V + j] = all[at + j];
        }
        __syncthreads();
        for (u64 r = threadIdx.x; r < tile_rows && first + r < task.rows; r += Threads) {
            typename Op::Acc acc = Op::start();
            for (u64 k = 0; k < task.length; k++)
                Op::absorb(acc, staged[r * task.length + k], task.base[0].index + (i64)k * task.step_c);
            Offset at = task.row.at(first + r);
            ((typename Emit::Out*)task.out)[task.first_cell + at.c] = Emit::of(Op::settle(acc), task.option);
        }
        __syncthreads();
    }
}
