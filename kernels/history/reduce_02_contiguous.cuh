// Reduce 2: the same pairs of neighbours, taken by the first threads, so that whole warps work or rest.
#pragma once
#include "step.cuh"

// A block a tile of Threads elements, which it overwrites; out[block] is the tile's sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_02(const Step step) {
    T* data = (T*)step.in + (u64)blockIdx.x * Threads;
    const u32 count = tile_count(step.n, Threads);
    for (u32 stride = 1; stride < Threads; stride *= 2) {
        const u32 i = 2 * stride * threadIdx.x;
        if (i + stride < count) data[i] += data[i + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = data[0];
}
