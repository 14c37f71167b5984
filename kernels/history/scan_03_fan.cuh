// Scan 3: scan, then fan: tiles are scanned by themselves, then their totals (in the same way), then added to all.
#pragma once
#include "scan_02_block.cuh"

// A block a tile of Threads elements, which it scans by itself; more[block] is the tile's total. in may be out.
template <class T, bool Padded, int Threads>
__global__ void __launch_bounds__(Threads) step_scan_03(const Step step) {
    typedef BlockPlaces<T, Padded, Threads> Places;
    STATIC_SHARED(Places, places, 1);
    const u64 i = (u64)blockIdx.x * Threads + threadIdx.x;
    const T sum = block_scan_shared<T, Padded, Threads>(places[0], i < step.n ? ((const T*)step.in)[i] : T(0));
    if (i < step.n) ((T*)step.out)[i] = sum;
    if (threadIdx.x == 0) ((T*)step.more)[blockIdx.x] = places[0].total();
}

// A block a tile; more[block - 1] is the sum of all elements before the tile, and is added to each of its own.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_scan_03_fan(const Step step) {
    const u64 i = (u64)blockIdx.x * Threads + threadIdx.x;
    if (blockIdx.x > 0 && i < step.n) ((T*)step.out)[i] += ((const T*)step.more)[blockIdx.x - 1];
}
