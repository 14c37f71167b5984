// Reduce 15: two passes with any number of threads: what exceeds the last power of two is folded onto the front first.
#pragma once
#include "reduce_12_many.cuh"

// Any grid and block; out[block] is the sum of the block's share. Uses blockDim.x elements.
template <class T> __global__ void step_reduce_15(const Step step) {
    T* each = (T*)GR_SHARED;
    const u32 i = threadIdx.x, floor = 1u << (31 - __clz((int)blockDim.x));
    each[i] = grid_share((const T*)step.in, step.n);
    __syncthreads();
    if (i + floor < blockDim.x) each[i] += each[i + floor];
    __syncthreads();
    for (u32 half = floor / 2; half > 0; half /= 2) {
        if (i < half) each[i] += each[i + half];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
