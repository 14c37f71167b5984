// Packed states as bytes: publish to and read from other blocks, and pass between lanes.
#pragma once
#include "types.cuh"

// The widest word a state is made of, so that it moves in whole words.
template <class State> struct Words {
    static const int align = alignof(State) >= 4 ? 4 : alignof(State);
    static const int count = sizeof(State) / align;
};

// Publishes a state to other blocks: visible to them after the caller's __threadfence().
template <class State> GR_HD void store_state(State* to, State state) {
#ifdef GR_EMULATED
    simt::store(to, &state, sizeof(State));
#else
    *to = state;
#endif
}

// Reads a state that another block published. Goes to L2: another block's store never sits in this SM's L1.
template <class State> GR_HD State load_state(const State* from) {
#ifdef GR_EMULATED
    State state;
    simt::load(&state, from, sizeof(State));
    return state;
#else
    union { State state; u32 words[(sizeof(State) + 3) / 4]; u8 bytes[sizeof(State)]; } both;
    if (alignof(State) >= 4) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof(State) / 4); i++) both.words[i] = __ldcg((const u32*)from + i);
    } else {
#pragma unroll
        for (int i = 0; i < (int)sizeof(State); i++) both.bytes[i] = __ldcg((const u8*)from + i);
    }
    return both.state;
#endif
}

// All lanes of `mask` call. The state of the lane `down` places further on; the caller's own past the width.
template <class State> GR_HD State shuffle_down(u32 mask, State state, int down, int width) {
    union Both { GR_HD Both() {} State state; u32 words[(sizeof(State) + 3) / 4]; } both;
    const int words = (sizeof(State) + 3) / 4;
    both.words[words - 1] = 0;
    both.state = state;
#pragma unroll
    for (int i = 0; i < words; i++) both.words[i] = __shfl_down_sync(mask, both.words[i], down, width);
    return both.state;
}

// All lanes of `mask` call. The state of the lane whose number differs by the bits of `bits`.
template <class State> GR_HD State shuffle_xor(u32 mask, State state, int bits) {
    union Both { GR_HD Both() {} State state; u32 words[(sizeof(State) + 3) / 4]; } both;
    const int words = (sizeof(State) + 3) / 4;
    both.words[words - 1] = 0;
    both.state = state;
#pragma unroll
    for (int i = 0; i < words; i++) both.words[i] = __shfl_xor_sync(mask, both.words[i], bits);
    return both.state;
}
