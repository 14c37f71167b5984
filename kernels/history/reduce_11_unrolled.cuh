// Reduce 11: the block's size is a template argument, so that the whole tree is written out and no loop is left.
#pragma once
#include "reduce_10_last_warp.cuh"

// All threads call, each with its element in shared memory behind a barrier. Result valid in thread 0.
template <class T, int Threads> GR_HD T unrolled_tree(T* each) {
    const u32 i = threadIdx.x;
    if constexpr (Threads >= 1024) {
        if (i < 512) each[i] += each[i + 512];
        __syncthreads();
    }
    if constexpr (Threads >= 512) {
        if (i < 256) each[i] += each[i + 256];
        __syncthreads();
    }
    if constexpr (Threads >= 256) {
        if (i < 128) each[i] += each[i + 128];
        __syncthreads();
    }
    if constexpr (Threads >= 128) {
        if (i < 64) each[i] += each[i + 64];
        __syncthreads();
    }
    return i < 32 ? last_warp(each) : T(0);
}

// A block a tile of 2 * Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_11(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const T* in = (const T*)step.in;
    const u64 at = (u64)blockIdx.x * (2 * Threads) + threadIdx.x;
    each[threadIdx.x] = (at < step.n ? in[at] : T(0)) + (at + Threads < step.n ? in[at + Threads] : T(0));
    __syncthreads();
    const T sum = unrolled_tree<T, Threads>(each);
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = sum;
}
