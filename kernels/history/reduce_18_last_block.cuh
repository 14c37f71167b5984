// Reduce 18: one launch, and always the same bits: blocks publish partial sums, and the last to arrive adds them up.
#pragma once
#include "reduce_13_shuffle.cuh"

template <class T> struct LastBlockRoom {
    T each[32];
    u32 last;
};

// Any grid; `more` holds a sum a block. The counter is zero before and after.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_18(const Step step) {
    STATIC_SHARED(LastBlockRoom<T>, room, 1);
    T* partials = (T*)step.more;
    T sum = block_sum(room[0].each, grid_share((const T*)step.in, step.n));
    if (threadIdx.x == 0) {
        store_state(partials + blockIdx.x, sum);
        __threadfence();  // the partial sum is out before this block counts as done
        room[0].last = atomicAdd(step.counter, 1u) == gridDim.x - 1;
        __threadfence();  // what other blocks published is read after the count, not before
    }
    __syncthreads();
    if (!room[0].last) return;
    sum = T(0);
    for (u32 i = threadIdx.x; i < gridDim.x; i += Threads) sum += load_state(partials + i);
    sum = block_sum(room[0].each, sum);
    if (threadIdx.x == 0) {
        *(T*)step.out = sum;
        *step.counter = 0;
    }
}
