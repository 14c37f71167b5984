// Reduce 12: a grid of fixed size walks the array, so that each thread adds many elements before any tree begins.
#pragma once
#include "reduce_11_unrolled.cuh"

// All threads call. Sum of the thread's share: one element a grid, eight loads under way at once.
template <class T> GR_HD T grid_share(const T* in, u64 n) {
    const u64 grid = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    T sum = T(0);
    for (; i + 7 * grid < n; i += 8 * grid) {
        T x[8];
#pragma unroll
        for (int k = 0; k < 8; k++) x[k] = in[i + k * grid];
        sum += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    }
    for (; i < n; i += grid) sum += in[i];
    return sum;
}

// Any grid; out[block] is the sum of the block's share. A second launch of one block adds those.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_12(const Step step) {
    STATIC_SHARED(T, each, Threads);
    each[threadIdx.x] = grid_share((const T*)step.in, step.n);
    __syncthreads();
    const T sum = unrolled_tree<T, Threads>(each);
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = sum;
}
