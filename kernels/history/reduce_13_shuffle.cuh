// Reduce 13: lanes of a warp pass sums through registers; shared memory holds one number a warp.
#pragma once
#include "reduce_12_many.cuh"

// All lanes call. Result valid in lane 0. No block barrier.
template <class T> GR_HD T warp_sum(T sum) {
#pragma unroll
    for (int down = 16; down > 0; down /= 2) sum += shuffle_down(0xffffffffu, sum, down, 32);
    return sum;
}

// All threads call. `each` has room for 32 elements, a multiple of 32 threads call. Result valid in thread 0. One block
// barrier.
template <class T> GR_HD T block_sum(T* each, T sum) {
    const u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    sum = warp_sum(sum);
    if (lane == 0) each[threadIdx.x / 32] = sum;
    __syncthreads();
    return threadIdx.x < 32 ? warp_sum(lane < warps ? each[lane] : T(0)) : T(0);
}

// Any grid; out[block] is the sum of the block's share. A second launch of one block adds those.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_13(const Step step) {
    STATIC_SHARED(T, each, 32);
    const T sum = block_sum(each, grid_share((const T*)step.in, step.n));
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = sum;
}
