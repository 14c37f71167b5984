// Tile states of a look-back, polled with a bound on waiting. Words carry marks (core/published.cuh), or, if never zero, none.
#pragma once
#include "../core/published.cuh"
#include "pivoted_moments.cuh"

const u32 SPINS = 1u << 25;  // polls, half a minute or more

GR_HD u32 tiles_taken_until_now(const u32* ticket) {
    u32 drawn;
#ifdef GR_EMULATED
    simt::load_relaxed(&drawn, ticket, sizeof drawn);
#else
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(drawn) : "l"(ticket));
#endif
    return drawn;
}
// Any thread calls, after SPINS polls in vain; the result is how many polls count from then on. As long as blocks make progress,
// however slowly, they take tiles: a thread that sees none taken in as many reads of the ticket polls on, and the second time ends
// the launch by a trap.
GR_HD u32 keep_waiting(const u32* ticket, u32 spins) {
    const u32 drawn = tiles_taken_until_now(ticket);
#pragma unroll 1
    do {
        if (tiles_taken_until_now(ticket) != drawn) return 0;
    } while (++spins % SPINS != 0);
    if (spins == 4 * SPINS) __trap();
    return spins;
}

// Any thread calls. Reads the words where `wanted`, else leaves them.
template <int Count> GR_HD void poll_words(const u64* from, u64 (&words)[Count], bool wanted) {
#ifdef GR_EMULATED
    if (wanted) simt::load_relaxed(words, from, sizeof words);
#else
    if constexpr (Count == 1)
        asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p ld.relaxed.gpu.global.u64 %0, [%1];}"
                     : "+l"(words[0]) : "l"(from), "r"((u32)wanted) : "memory");
    else
        asm volatile("{.reg .pred p; setp.ne.u32 p, %3, 0; @p ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];}"
                     : "+l"(words[0]), "+l"(words[1]) : "l"(from), "r"((u32)wanted) : "memory");
#endif
}

// States made of binary64 numbers alone are published without marks, in half as many bytes. Zero means not yet published; published
// words are encoded to be non-zero: each is XORed with the bits of one NaN, and a number with those bits becomes another NaN first.
const u64 ZERO_ENCODED = 0x7ff9a5a5c3c35a5bull, SUBSTITUTE_NAN = 0x7ff8000000000000ull;
GR_HD u64 encoded_nonzero(u64 word) { return (word == ZERO_ENCODED ? SUBSTITUTE_NAN : word) ^ ZERO_ENCODED; }
// A state of one 32-bit word is published with a one in the upper half.
template <class State, int Align = (sizeof(State) <= 8 ? 8 : 16)> struct __align__(Align) UnflaggedTileState {
    typedef State Value;
    static const int words = (sizeof(State) + 7) / 8, width = words == 1 ? 1 : 2, all = (words + width - 1) / width * width;
    u64 at[all];

    // One lane calls. Other blocks see the state eventually.
    GR_HD void publish(State state) {
        Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < all; i += width) {
            u64 to[width] = {};
#pragma unroll
            for (int j = 0; j < width && i + j < words; j++) {
                const u64 word = (u64)from.words[(2 * (i + j) + 1) % from.count] << 32 | from.words[2 * (i + j)];
                to[j] = sizeof(State) <= 4 ? 1ull << 32 | from.words[0] : encoded_nonzero(word);
            }
            publish_words(at + i, to);
        }
    }
    static GR_HD bool is_published(const u64 (&polled)[all]) {
        static_assert(words <= 2, "of more words the last may be none");
        return polled[0] != 0 && polled[all - 1] != 0;
    }
    static GR_HD State state_of(const u64 (&seen)[all]) {
        Exchanged<State> to;
#pragma unroll
        for (int i = 0; i < to.count; i++)
            to.words[i] = (u32)((sizeof(State) <= 4 ? seen[0] : seen[i / 2] ^ ZERO_ENCODED) >> (i % 2 * 32));
        return to.value;
    }
};

// A tile state's words as they were last read.
template <class Published> struct PolledTileState {
    static const int count = sizeof(Published::at) / 8;
    u64 words[count];
    GR_HD void clear() { unrolled<count>([&](int i) { words[i] = 0; }); }
    // Reads the tile state where `wanted`.
    GR_HD void poll(const Published* published, bool wanted) {
#pragma unroll
        for (int i = 0; i < count; i += Published::width)
            poll_words(published->at + i, *(u64(*)[Published::width])(words + i), wanted);
    }
    GR_HD bool is_published() const { return Published::is_published(words); }
    GR_HD typename Published::Value state() const { return Published::state_of(words); }
};

// All lanes of a warp call. Waits until the tile states `at(i)` whose bits are in `wanted` are published.
template <class Published, int Count, class At>
GR_HD void await_polled(const u32* ticket, PolledTileState<Published> (&polled)[Count], u32 wanted, At at) {
    for (u32 spins = 1;; spins++) {
        unrolled<Count>([&](int i) { if (polled[i].is_published()) wanted &= ~(1u << i); });
        if (!__any_sync(0xffffffffu, wanted)) return;
        if (spins % SPINS == 0) spins = keep_waiting(ticket, spins);
        unrolled<Count>([&](int i) { polled[i].poll(at(i), wanted >> i & 1); });
    }
}
