// Scan 7: a tree is summed upwards and handed down again: 2n additions, where steps 1 and 6 need n log n.
#pragma once
#include "step.cuh"

// Where element i of a tile lies; Padded: a gap after every 32, so that strides of 2^k meet other banks.
template <bool Padded> GR_HD u32 spread(u32 i) { return Padded ? i + i / 32 : i; }

// A block a tile of 2 * Threads elements, which it scans by itself; more[block] is the tile's total. in may be out.
template <class T, bool Padded, int Threads>
__global__ void __launch_bounds__(Threads) step_scan_07(const Step step) {
    const u32 tile = 2 * Threads, first = threadIdx.x, second = threadIdx.x + Threads;
    STATIC_SHARED(T, each, 2 * Threads + (Padded ? 2 * Threads / 32 : 0));
    const u64 begin = (u64)blockIdx.x * tile;
    const T* in = (const T*)step.in + begin;
    const u32 count = tile_count(step.n, tile);
    const T x = first < count ? in[first] : T(0), y = second < count ? in[second] : T(0);
    each[spread<Padded>(first)] = x;
    each[spread<Padded>(second)] = y;
    for (u32 stride = 1; stride < tile; stride *= 2) {  // up: the right child of each pair takes in the left
        __syncthreads();
        const u32 right = (threadIdx.x + 1) * 2 * stride - 1;
        if (right < tile) each[spread<Padded>(right)] += each[spread<Padded>(right - stride)];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ((T*)step.more)[blockIdx.x] = each[spread<Padded>(tile - 1)];
        each[spread<Padded>(tile - 1)] = T(0);
    }
    for (u32 stride = Threads; stride > 0; stride /= 2) {  // down: the left child gets what is before the pair
        __syncthreads();
        const u32 right = (threadIdx.x + 1) * 2 * stride - 1;
        if (right < tile) {
            const T left = each[spread<Padded>(right - stride)];
            each[spread<Padded>(right - stride)] = each[spread<Padded>(right)];
            each[spread<Padded>(right)] += left;
        }
    }
    __syncthreads();
    T* out = (T*)step.out + begin;
    if (first < count) out[first] = each[spread<Padded>(first)] + x;
    if (second < count) out[second] = each[spread<Padded>(second)] + y;
}

// A block a tile; more[block - 1] is the sum of all elements before the tile, and is added to each of its own.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_scan_07_fan(const Step step) {
    const u64 i = (u64)blockIdx.x * (2 * Threads) + threadIdx.x;
    if (blockIdx.x == 0) return;
    const T before = ((const T*)step.more)[blockIdx.x - 1];
    if (i < step.n) ((T*)step.out)[i] += before;
    if (i + Threads < step.n) ((T*)step.out)[i + Threads] += before;
}
