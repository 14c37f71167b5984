// Reduce 17: one launch: a block adds up its share, and one thread adds that to the result by an atomic.
#pragma once
#include "reduce_13_shuffle.cuh"

// Any grid; *out is zero before. Floats are added in the order in which blocks come: the last bits vary.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_17(const Step step) {
    STATIC_SHARED(T, each, 32);
    const T sum = block_sum(each, grid_share((const T*)step.in, step.n));
    if (threadIdx.x == 0) atomicAdd((T*)step.out, sum);
}
