// Reduce 1: each pair of neighbours is added in place in global memory; every second thread, then every fourth, …
#pragma once
#include "step.cuh"

// A block a tile of Threads elements, which it overwrites; out[block] is the tile's sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_01(const Step step) {
    T* data = (T*)step.in + (u64)blockIdx.x * Threads;
    const u32 count = tile_count(step.n, Threads), i = threadIdx.x;
    for (u32 stride = 1; stride < Threads; stride *= 2) {
        if (i % (2 * stride) == 0 && i + stride < count) data[i] += data[i + stride];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = data[0];
}
