// Reduces states across the lanes of a warp, in lane order.
#pragma once
#include "../core/state.cuh"

// How all lanes of a sub-warp bring their states together at once, where that takes less than two by two. All lanes of the warp
// call `reduce`: each state is the sub-warp's then, and counts in the sub-warps where it is true.
template <class State> struct Pooled {
    static const bool exists = false;
    template <int Lanes> static GR_HD bool reduce(State&) { return false; }
};

// All lanes of the warp call. Each sub-warp of Lanes neighbouring lanes reduces by itself, left to right. Result valid
// in the first lane of each sub-warp. No block barrier.
template <class Op, int Lanes> GR_HD typename Op::State warp_reduce(typename Op::State state) {
    typedef Pooled<typename Op::State> AtOnce;
    const bool pools = AtOnce::exists && Lanes > 1;
    typename Op::State all = state;
    const bool has_all = pools && AtOnce::template reduce<Lanes>(all);
    if (pools)
        if (__all_sync(0xffffffffu, has_all)) return all;
#pragma unroll(AtOnce::exists ? 1 : 5)
    for (int down = 1; down < Lanes; down *= 2)
        state = Op::combine(state, shuffle_down(0xffffffffu, state, down, Lanes));
    return has_all ? all : state;
}

// All lanes of the warp call. Each sub-warp of Lanes neighbouring lanes reduces by itself, each lane with one that is farther
// away at each step. Op::combine takes its arguments in either order. Result valid in all lanes. No block barrier.
template <class Op, int Lanes> GR_HD typename Op::State reduce_to_all(typename Op::State state) {
#pragma unroll
    for (int step = 1; step < Lanes; step *= 2) state = Op::combine(state, shuffle_xor(0xffffffffu, state, step));
    return state;
}
