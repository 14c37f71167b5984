// Scan 6: every element adds the one 1, then 2, 4, 8, … places before: log2(n) launches over the whole array.
#pragma once
#include "step.cuh"

// Any grid; `m` is how far back. in and out are two arrays, which trade places from launch to launch.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_scan_06(const Step step) {
    const T* in = (const T*)step.in;
    const u64 grid = (u64)gridDim.x * Threads;
    for (u64 i = (u64)blockIdx.x * Threads + threadIdx.x; i < step.n; i += grid)
        ((T*)step.out)[i] = i >= step.m ? in[i - step.m] + in[i] : in[i];
}
