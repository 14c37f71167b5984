// Reduce 9: each thread adds two elements as it loads them, so that no thread only loads.
#pragma once
#include "step.cuh"

// A block a tile of 2 * Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_09(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const T* in = (const T*)step.in;
    const u64 at = (u64)blockIdx.x * (2 * Threads) + threadIdx.x;
    const u32 i = threadIdx.x;
    each[i] = (at < step.n ? in[at] : T(0)) + (at + Threads < step.n ? in[at + Threads] : T(0));
    __syncthreads();
    for (u32 half = Threads / 2; half > 0; half /= 2) {
        if (i < half) each[i] += each[i + half];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
