// Reduce 3: each element of the first half takes in the one half a tile away, so that a warp's addresses adjoin.
#pragma once
#include "step.cuh"

// A block a tile of Threads elements, which it overwrites; out[block] is the tile's sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_03(const Step step) {
    T* data = (T*)step.in + (u64)blockIdx.x * Threads;
    const u32 count = tile_count(step.n, Threads), i = threadIdx.x;
    for (u32 stride = Threads / 2; stride > 0; stride /= 2) {
        if (i < stride && i + stride < count) data[i] += data[i + stride];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = data[0];
}
