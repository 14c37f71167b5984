// Reduce 8: sequential addresses: each thread of the first half adds what lies half a tile away. No bank meets twice.
#pragma once
#include "step.cuh"

// A block a tile of Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_08(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const u64 at = (u64)blockIdx.x * Threads + threadIdx.x;
    const u32 i = threadIdx.x;
    each[i] = at < step.n ? ((const T*)step.in)[at] : T(0);
    __syncthreads();
    for (u32 half = Threads / 2; half > 0; half /= 2) {
        if (i < half) each[i] += each[i + half];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
