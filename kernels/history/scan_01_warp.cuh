// Scan 1: the lanes of a warp scan 32 elements in five steps, each adding what lies 1, 2, 4, 8, 16 places before.
#pragma once
#include "step.cuh"

// Places a warp has in shared memory; Padded: 16 zeros lie before the first, so that no lane asks whether it has one.
template <bool Padded> struct WarpPlaces {
    static const int zeros = Padded ? 16 : 0, count = 32 + zeros;
};

// All lanes of a warp call. `each` are the warp's places; inclusive, the last sum stays in the last place. No block
// barrier. Lanes do not run in step: reads and writes stand apart, between barriers of the warp.
template <class T, bool Padded> GR_HD T warp_scan_shared(T* each, T sum) {
    const int lane = (int)(threadIdx.x % 32);
    T* mine = each + WarpPlaces<Padded>::zeros + lane;
    if (Padded && lane < 16) each[lane] = T(0);
    *mine = sum;
#pragma unroll
    for (int up = 1; up < 32; up *= 2) {
        __syncwarp();
        const T before = Padded || lane >= up ? mine[-up] : T(0);
        __syncwarp();
        *mine = sum += before;
    }
    __syncwarp();
    return sum;
}

// One warp walks the whole array, 32 elements at a time, with what came before as a carry.
template <class T, bool Padded> __global__ void __launch_bounds__(32) step_scan_01(const Step step) {
    STATIC_SHARED(T, each, WarpPlaces<Padded>::count);
    T carry = T(0);
    for (u64 begin = 0; begin < step.n; begin += 32) {
        const u64 i = begin + threadIdx.x;
        const T sum = carry + warp_scan_shared<T, Padded>(each, i < step.n ? ((const T*)step.in)[i] : T(0));
        if (i < step.n) ((T*)step.out)[i] = sum;
        carry += each[WarpPlaces<Padded>::count - 1];
        __syncwarp();  // the last place is read before it is written again
    }
}
