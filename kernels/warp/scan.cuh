// Scans states across the lanes of a warp, in lane order.
#pragma once
#include "../core/state.cuh"

// All lanes of the warp call. Each sub-warp of Lanes neighbouring lanes scans by itself, left to right (Hillis and
// Steele 1986). Inclusive. No block barrier.
template <class Op, int Lanes> GR_HD typename Op::State warp_scan(typename Op::State state) {
#pragma unroll
    for (int up = 1; up < Lanes; up *= 2) {
        const typename Op::State earlier = shuffle_up(0xffffffffu, state, up, Lanes);
        if (threadIdx.x % Lanes >= up) state = Op::combine(earlier, state);
    }
    return state;
}

// All lanes of the warp call. The same of 32 lanes, but that a lane's scan begins at lane `first`, which is not behind it.
template <class Op> GR_HD typename Op::State warp_scan_from(typename Op::State state, u32 first) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 up = 1; up < 32; up *= 2) {
        const typename Op::State earlier = shuffle_up(0xffffffffu, state, (int)up, 32);
        if (lane >= first + up) state = Op::combine(earlier, state);
    }
    return state;
}

// All lanes of the warp call. What lies before this lane in its sub-warp of Lanes lanes, given the sub-warp's inclusive
// scan.
template <class Op, int Lanes> GR_HD typename Op::State lane_before(typename Op::State inclusive) {
    const typename Op::State before = shuffle_up(0xffffffffu, inclusive, 1, Lanes);
    return threadIdx.x % Lanes ? before : Op::identity();
}
