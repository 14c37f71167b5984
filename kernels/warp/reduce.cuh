// Reduces states across the lanes of a warp, in lane order.
#pragma once
#include "../core/state.cuh"

// All lanes of the warp call. Each team of Lanes neighbouring lanes reduces by itself, left to right. Result valid
// in the first lane of each team. No block barrier.
template <class Op, int Lanes> GR_HD typename Op::State warp_reduce(typename Op::State state) {
#pragma unroll
    for (int down = 1; down < Lanes; down *= 2)
        state = Op::combine(state, shuffle_down(0xffffffffu, state, down, Lanes));
    return state;
}
