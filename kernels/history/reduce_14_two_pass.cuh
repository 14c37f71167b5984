// Reduce 14: two passes: as many partial sums as there are blocks, then one block over those. 2^k threads a block.
#pragma once
#include "reduce_12_many.cuh"

// Any grid; out[block] is the sum of the block's share. Uses blockDim.x elements, a power of two.
template <class T> __global__ void step_reduce_14(const Step step) {
    T* each = (T*)GR_SHARED;
    const u32 i = threadIdx.x;
    each[i] = grid_share((const T*)step.in, step.n);
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (i < half) each[i] += each[i + half];
        __syncthreads();
    }
    if (i == 0) ((T*)step.out)[blockIdx.x] = each[0];
}
