// Reduce 10: once one warp is left, the loop and the block's barriers give way to six steps written out.
#pragma once
#include "step.cuh"

// The first warp calls. Adds up 64 elements of shared memory. Result valid in lane 0. No block barrier.
// Lanes of a warp do not run in step: each addition stands between two barriers of the warp.
template <class T> GR_HD T last_warp(T* each) {
    T sum = each[threadIdx.x] + each[threadIdx.x + 32];
#pragma unroll
    for (u32 half = 16; half > 0; half /= 2) {
        __syncwarp();
        each[threadIdx.x] = sum;
        __syncwarp();
        sum += each[threadIdx.x + half];
    }
    return sum;
}

// A block a tile of 2 * Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_10(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const T* in = (const T*)step.in;
    const u64 at = (u64)blockIdx.x * (2 * Threads) + threadIdx.x;
    const u32 i = threadIdx.x;
    each[i] = (at < step.n ? in[at] : T(0)) + (at + Threads < step.n ? in[at + Threads] : T(0));
    __syncthreads();
    for (u32 half = Threads / 2; half > 32; half /= 2) {
        if (i < half) each[i] += each[i + half];
        __syncthreads();
    }
    if (i >= 32) return;
    const T sum = last_warp(each);
    if (i == 0) ((T*)step.out)[blockIdx.x] = sum;
}
