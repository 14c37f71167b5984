// What blocks publish to each other in global memory without a fence: states whose words are seen whole or not at all, and
// that say themselves whether they are there (Merrill and Garland 2016).
#pragma once
#include "state.cuh"

// Any thread calls. Other blocks see each word whole or not at all, eventually, in any order.
template <int Count> GR_HD void publish_words(u64* to, const u64 (&words)[Count]) {
#ifdef GR_EMULATED
    simt::store_relaxed(to, words, sizeof words, sizeof words[0]);
#else
    if constexpr (Count == 1) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(words[0]));
    else asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(words[0]), "l"(words[1]));
#endif
}
GR_HD void read_words(const u64* from, u64 (&words)[2]) {
#ifdef GR_EMULATED
    simt::load_relaxed(words, from, sizeof words);
#else
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(from));
#endif
}

// A published state: each of its 32-bit words with a mark, in one 64-bit word. A word counts once its mark is there, so neither
// side needs a fence.
template <class State, int Align = 128> struct __align__(Align) TileState {
    typedef State Value;
    static const int words = (sizeof(State) + 3) / 4, vectors = (words + 1) / 2, width = 2;
    u64 at[2 * vectors];

    // One lane calls. Other blocks see the state eventually.
    GR_HD void publish(State state, u32 mark = 1) {
        Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            const u64 high = (u64)mark << 32, to[2] = {high | from.words[2 * i],
                                                       high | (2 * i + 1 < words ? from.words[2 * i + 1] : 0)};
            publish_words(at + 2 * i, to);
        }
    }
    // What the next launch finds.
    GR_HD void clear() {
#pragma unroll
        for (int i = 0; i < vectors; i++) publish_words(at + 2 * i, {0, 0});
    }
    static GR_HD bool is_published(const u64 (&seen)[2 * vectors], u32 mark = 1) {
        bool there = true;
#pragma unroll
        for (int i = 0; i < 2 * vectors; i++) there = there && seen[i] >> 32 == mark;
        return there;
    }
    static GR_HD State state_of(const u64 (&seen)[2 * vectors]) {
        Exchanged<State> to;
#pragma unroll
        for (int i = 0; i < words; i++) to.words[i] = (u32)seen[i];
        return to.value;
    }
    // True where the state has been published, which then is in `state`.
    GR_HD bool read(State& state, u32 mark = 1) const {
        u64 seen[2 * vectors];
#pragma unroll
        for (int i = 0; i < vectors; i++) read_words(at + 2 * i, *(u64(*)[2])(seen + 2 * i));
        state = state_of(seen);
        return is_published(seen, mark);
    }
};
