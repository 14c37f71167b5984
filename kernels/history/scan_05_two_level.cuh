// Scan 5: the same in two levels: a fixed number of blocks, a stretch of many tiles each; one block scans the totals.
#pragma once
#include "reduce_13_shuffle.cuh"
#include "scan_02_block.cuh"

// Elements of a block's stretch: whole tiles, dealt out evenly.
template <int Threads> GR_HD u64 stretch_of(u64 n) {
    const u64 tiles = (n + Threads - 1) / Threads;
    return (tiles + gridDim.x - 1) / gridDim.x * Threads;
}

// Any grid; out[block] is the sum of the block's stretch.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_scan_05_reduce(const Step step) {
    STATIC_SHARED(T, each, 32);
    const u64 stretch = stretch_of<Threads>(step.n), begin = blockIdx.x * stretch;
    T sum = T(0);
    for (u64 i = begin + threadIdx.x; i < begin + stretch && i < step.n; i += Threads) sum += ((const T*)step.in)[i];
    sum = block_sum(each, sum);
    if (threadIdx.x == 0) ((T*)step.out)[blockIdx.x] = sum;
}

// The same grid; more[block - 1] is the sum of all elements before the stretch, which the block walks tile by tile.
template <class T, bool Padded, int Threads>
__global__ void __launch_bounds__(Threads) step_scan_05(const Step step) {
    typedef BlockPlaces<T, Padded, Threads> Places;
    STATIC_SHARED(Places, places, 1);
    const u64 stretch = stretch_of<Threads>(step.n), begin = blockIdx.x * stretch;
    T carry = blockIdx.x > 0 ? ((const T*)step.more)[blockIdx.x - 1] : T(0);
    for (u64 tile = begin; tile < begin + stretch && tile < step.n; tile += Threads) {
        const u64 i = tile + threadIdx.x;
        const T x = i < step.n ? ((const T*)step.in)[i] : T(0);
        const T sum = carry + block_scan_shared<T, Padded, Threads>(places[0], x);
        if (i < step.n) ((T*)step.out)[i] = sum;
        carry += places[0].total();
    }
}
