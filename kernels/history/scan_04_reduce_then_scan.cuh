// Scan 4: reduce, then scan: tiles are added up, their totals scanned (in the same way), then each tile from its base.
#pragma once
#include "reduce_13_shuffle.cuh"
#include "scan_02_block.cuh"

// A block a tile of Threads elements; out[block] is its sum.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_scan_04_reduce(const Step step) {
    STATIC_SHARED(T, each, 32);
    const u64 i = (u64)blockIdx.x * Threads + threadIdx.x;
    const T sum = block_sum(each, i < step.n ? ((const T*)step.in)[i] : T(0));
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = sum;
}

// A block a tile; more[block - 1] is the sum of all elements before it. in may be out.
template <class T, bool Padded, int Threads>
__global__ void __launch_bounds__(Threads) step_scan_04(const Step step) {
    typedef BlockPlaces<T, Padded, Threads> Places;
    STATIC_SHARED(Places, places, 1);
    const u64 i = (u64)blockIdx.x * Threads + threadIdx.x;
    const T sum = block_scan_shared<T, Padded, Threads>(places[0], i < step.n ? ((const T*)step.in)[i] : T(0));
    const T base = blockIdx.x > 0 ? ((const T*)step.more)[blockIdx.x - 1] : T(0);
    if (i < step.n) ((T*)step.out)[i] = base + sum;
}
