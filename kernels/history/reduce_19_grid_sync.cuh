// Reduce 19: one launch in which all blocks wait for one another, and the first then adds up what they published.
#pragma once
#include "reduce_13_shuffle.cuh"

// All threads of all blocks call; the launch is cooperative, or blocks that do not fit would be waited for for ever.
// Two block barriers. Each round turns the counter's top bit, so it needs no reset: the first block adds what the
// others, who add one each, leave to 2^31.
GR_HD void grid_barrier(u32* counter) {
    const u32 top = 0x80000000u;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();  // what this block wrote, before it counts as here
        const u32 before = atomicAdd(counter, blockIdx.x == 0 ? top - (gridDim.x - 1) : 1u);
        while (((before ^ atomicAdd(counter, 0u)) & top) == 0) {}
        __threadfence();  // what others wrote is read after the wait
    }
    __syncthreads();
}

// A grid whose blocks all fit at once; `more` holds a sum a block.
template <class T, int Threads> __global__ void __launch_bounds__(Threads) step_reduce_19(const Step step) {
    STATIC_SHARED(T, each, 32);
    T* partials = (T*)step.more;
    T sum = block_sum(each, grid_share((const T*)step.in, step.n));
    if (threadIdx.x == 0) store_state(partials + blockIdx.x, sum);
    grid_barrier(step.counter);
    if (blockIdx.x != 0) return;
    sum = T(0);
    for (u32 i = threadIdx.x; i < gridDim.x; i += Threads) sum += load_state(partials + i);
    sum = block_sum(each, sum);
    if (threadIdx.x == 0) *(T*)step.out = sum;
}
