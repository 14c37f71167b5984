// Reduce 4: the tile is read once into shared memory, and added up there; the array stays as it was.
#pragma once
#include "step.cuh"

// A block a tile of Threads elements; out[block] is its sum. The size of shared memory is part of the kernel.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_04(const Step step) {
    STATIC_SHARED(T, each, Threads);
    const u64 at = (u64)blockIdx.x * Threads + threadIdx.x;
    const u32 i = threadIdx.x;
    each[i] = at < step.n ? ((const T*)step.in)[at] : T(0);
    __syncthreads();
    for (u32 stride = Threads / 2; stride > 0; stride /= 2) {
        if (i < stride) each[i] += each[i + stride];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
