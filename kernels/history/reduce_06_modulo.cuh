// Reduce 6: neighbouring pairs in shared memory, chosen by a remainder: the divergence of step 1 without its traffic.
#pragma once
#include "step.cuh"

// A block a tile of Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_06(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const u64 at = (u64)blockIdx.x * Threads + threadIdx.x;
    const u32 i = threadIdx.x;
    each[i] = at < step.n ? ((const T*)step.in)[at] : T(0);
    __syncthreads();
    for (u32 stride = 1; stride < Threads; stride *= 2) {
        if (i % (2 * stride) == 0) each[i] += each[i + stride];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
