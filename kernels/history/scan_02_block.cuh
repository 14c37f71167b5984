// Scan 2: each warp of a block scans its own elements, one warp scans the warps' totals, and all add what is before.
#pragma once
#include "scan_01_warp.cuh"

template <class T, bool Padded, int Threads> struct BlockPlaces {
    T each[Threads / 32][WarpPlaces<Padded>::count];
    T totals[WarpPlaces<Padded>::count];
    GR_HD T total() const { return totals[WarpPlaces<Padded>::zeros + Threads / 32 - 1]; }
};

// All threads call, as often as they like. Inclusive; total() is valid until the next call's first barrier, of two.
template <class T, bool Padded, int Threads>
GR_HD T block_scan_shared(BlockPlaces<T, Padded, Threads>& places, T x) {
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    T sum = warp_scan_shared<T, Padded>(places.each[warp], x);
    __syncthreads();
    if (warp == 0) {
        const T total = lane < Threads / 32 ? places.each[lane][WarpPlaces<Padded>::count - 1] : T(0);
        warp_scan_shared<T, Padded>(places.totals, total);
    }
    __syncthreads();
    if (warp > 0) sum += places.totals[WarpPlaces<Padded>::zeros + warp - 1];
    return sum;
}

// One block walks the whole array, Threads elements at a time.
template <class T, bool Padded, int Threads>
__global__ void __launch_bounds__(Threads) step_scan_02(const Step step) {
    typedef BlockPlaces<T, Padded, Threads> Places;
    STATIC_SHARED(Places, places, 1);
    T carry = T(0);
    for (u64 begin = 0; begin < step.n; begin += Threads) {
        const u64 i = begin + threadIdx.x;
        const T x = i < step.n ? ((const T*)step.in)[i] : T(0);
        const T sum = carry + block_scan_shared<T, Padded, Threads>(places[0], x);
        if (i < step.n) ((T*)step.out)[i] = sum;
        carry += places[0].total();
    }
}
