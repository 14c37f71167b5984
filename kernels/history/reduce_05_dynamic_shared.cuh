// Reduce 5: the same in shared memory whose size the launch names, so that one kernel serves any block of 2^k threads.
#pragma once
#include "step.cuh"

// A block a tile of blockDim.x elements, a power of two; out[block] is its sum. Uses blockDim.x elements.
template <class T> __global__ void step_reduce_05(const Step step) {
    T* each = (T*)GR_SHARED;
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u32 i = threadIdx.x;
    each[i] = at < step.n ? ((const T*)step.in)[at] : T(0);
    __syncthreads();
    for (u32 stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (i < stride) each[i] += each[i + stride];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
