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
    union { State state; u64 pairs[(sizeof(State) + 7) / 8]; u32 words[(sizeof(State) + 3) / 4]; u8 bytes[sizeof(State)]; } both;
    if (alignof(State) >= 8) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof(State) / 8); i++) both.pairs[i] = __ldcg((const u64*)from + i);
    } else if (alignof(State) >= 4) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof(State) / 4); i++) both.words[i] = __ldcg((const u32*)from + i);
    } else {
#pragma unroll
        for (int i = 0; i < (int)sizeof(State); i++) both.bytes[i] = __ldcg((const u8*)from + i);
    }
    return both.state;
#endif
}

// A value as 32-bit words, which is what lanes exchange.
template <class T> union Exchanged {
    static const int count = (sizeof(T) + 3) / 4;
    T value;
    u32 words[count];
    GR_HD Exchanged() {}
    GR_HD Exchanged(T x) {
        words[count - 1] = 0;  // a value smaller than its words leaves no byte unset
        value = x;
    }
};

// All lanes of `mask` call. The value of the lane `down` places further on; the caller's own past the width.
template <class T> GR_HD T shuffle_down(u32 mask, T value, int down, int width) {
    Exchanged<T> both(value);
#pragma unroll
    for (int i = 0; i < both.count; i++) both.words[i] = __shfl_down_sync(mask, both.words[i], down, width);
    return both.value;
}

// All lanes of `mask` call. The value of the lane `up` places before; the caller's own before the first.
template <class T> GR_HD T shuffle_up(u32 mask, T value, int up, int width) {
    Exchanged<T> both(value);
#pragma unroll
    for (int i = 0; i < both.count; i++) both.words[i] = __shfl_up_sync(mask, both.words[i], up, width);
    return both.value;
}

// All lanes of `mask` call. The value of the lane whose number differs by the bits of `bits`.
template <class T> GR_HD T shuffle_xor(u32 mask, T value, int bits) {
    Exchanged<T> both(value);
#pragma unroll
    for (int i = 0; i < both.count; i++) both.words[i] = __shfl_xor_sync(mask, both.words[i], bits);
    return both.value;
}

// All lanes of `mask` call. The value of lane `lane` of each sub-warp of `width` lanes.
template <class T> GR_HD T shuffle_from(u32 mask, T value, int lane, int width) {
    Exchanged<T> both(value);
#pragma unroll
    for (int i = 0; i < both.count; i++) both.words[i] = __shfl_sync(mask, both.words[i], lane, width);
    return both.value;
}
