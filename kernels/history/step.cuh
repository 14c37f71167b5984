// What the steps of the ladder share: how they are launched, and where shared memory comes from.
#pragma once
#include "../core/shared.cuh"
#include "../core/state.cuh"

// What one launch of a step takes, by value. Python packs the same bytes.
struct Step {
    const void* in;  // n elements; of a transpose n rows of m columns
    void* out;
    void* more;      // partial sums, or running totals of earlier elements
    u32* counter;    // zero before the first launch; each launch leaves it ready for the next
    u64 n, m;
};

// Declares an array of shared memory of a size known when the kernel is compiled. One a kernel.
#ifdef GR_EMULATED
#define STATIC_SHARED(T, name, count) T(&name)[count] = *(T(*)[count])GR_SHARED
#else
#define STATIC_SHARED(T, name, count) __shared__ T name[count]
#endif

// Elements of this block's tile of `tile` elements that exist: fewer in the last tile.
GR_HD u32 tile_count(u64 n, u32 tile) {
    const u64 begin = (u64)blockIdx.x * tile;
    return begin + tile <= n ? tile : (u32)(n - begin);
}

// One thread. What atomic sums are added to starts at zero.
template <class T> __global__ void step_clear(const Step step) { *(T*)step.out = T(0); }
