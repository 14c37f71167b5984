// Reduce 16: one launch, no tree: each thread adds its share to the result by an atomic.
#pragma once
#include "reduce_12_many.cuh"

// Any grid; *out is zero before. Floats are added in the order in which threads come: the last bits vary.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_16(const Step step) {
    atomicAdd((T*)step.out, grid_share((const T*)step.in, step.n));
}
