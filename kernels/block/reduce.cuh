// Reduces one state a thread across a block, in thread order.
#pragma once
#include "../core/shared.cuh"
#include "../warp/reduce.cuh"

// All threads call. Result valid in thread 0. Uses Threads / 32 states of shared memory. Two block barriers.
template <class Op, int Threads> GR_HD typename Op::State block_reduce(typename Op::State state) {
    typedef typename Op::State State;
    const int warps = Threads / 32;
    State* each = (State*)GR_SHARED;
    state = warp_reduce<Op, 32>(state);
    if (warps == 1) return state;
    if (threadIdx.x % 32 == 0) each[threadIdx.x / 32] = state;
    __syncthreads();
    if (threadIdx.x < 32) {
        state = each[threadIdx.x < warps ? threadIdx.x : 0];
        state = warp_reduce<Op, warps>(state);
    }
    __syncthreads();
    return state;
}
