// Reduce 7: the same pairs taken by the first threads: no divergence, but a warp's addresses meet in the same banks.
#pragma once
#include "step.cuh"

// A block a tile of Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_07(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const u64 at = (u64)blockIdx.x * Threads + threadIdx.x;
    each[threadIdx.x] = at < step.n ? ((const T*)step.in)[at] : T(0);
    __syncthreads();
    for (u32 stride = 1; stride < Threads; stride *= 2) {
        const u32 i = 2 * stride * threadIdx.x;
        if (i < Threads) each[i] += each[i + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
