// Each tile's prefix, from what the tiles before it have posted: a single pass (after Merrill and Garland 2016), with
// anchors at fixed tiles, so that states are folded in one order whatever the timing.
//
// A tile posts its own state; the last of every stretch of them that of the stretch; and the last of every group of stretches
// the prefix through it. A prefix is an anchor's, then whole stretches, then single tiles: one post a lane of a warp, folded
// together; or a few single tiles, where its line began as recently.
//
// Posts are read by many tiles, again and again until they are there, and all words of one lie in one slice of the L2 cache:
// what counts is how often each is read, and that they lie apart. H200, CUDA 13.0, 2026-11, 4 GiB, shares of a copy with two
// stretches of 32 tiles a warp, 64 bytes apart for states of 8 and side by side for larger ones; as it is 64 and 128 bytes
// apart; and with the tiles of two stretches of 16: means of float32 0.91, 0.98, 0.98 and 0.94, sums 1.00, 0.98, 1.00 and
// 0.94, of float64 0.92, 0.95, 0.96 and 0.94, of complex64 0.92, 0.95, 0.97 and 0.96.
#pragma once
#include "../core/scan_task.cuh"
#include "joint.cuh"

const int STRETCH = 16, GROUP = 8;  // tiles of a stretch; stretches of a group: two, and an anchor, are as many again
const u32 NEAR = 0xffffffffu << (32 - STRETCH);  // lanes that read single tiles
const int FEW = 4;  // tiles that are read one by one and folded by every lane
const u32 SPINS = 1u << 25;  // polls, half a minute or more

GR_HD u32 drawn_until_now(const u32* ticket) {
    u32 drawn;
#ifdef GR_EMULATED
    simt::load_relaxed(&drawn, ticket, sizeof drawn);
#else
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(drawn) : "l"(ticket));
#endif
    return drawn;
}
// Any thread calls, after SPINS polls in vain, and gets how many count from then on. As long as blocks go on, however slowly,
// they draw tiles: who sees none drawn in as many looks at the ticket polls on, and the second time ends the launch.
GR_HD u32 keep_waiting(const u32* ticket, u32 spins) {
    const u32 drawn = drawn_until_now(ticket);
#pragma unroll 1
    do {
        if (drawn_until_now(ticket) != drawn) return 0;
    } while (++spins % SPINS != 0);
    if (spins == 4 * SPINS) __trap();
    return spins;
}

// Any thread calls. Each of the words is seen whole or not at all, sooner or later, in any order.
template <int Count> GR_HD void post_words(u64* to, const u64 (&words)[Count]) {
#ifdef GR_EMULATED
    simt::store_relaxed(to, words, sizeof words, sizeof words[0]);
#else
    if constexpr (Count == 1) asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(words[0]));
    else asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(words[0]), "l"(words[1]));
#endif
}
// Reads nothing that is not wanted.
template <int Count> GR_HD void look_words(const u64* from, u64 (&words)[Count], bool wanted) {
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
GR_HD void read_words(const u64* from, u64 (&words)[2]) {
#ifdef GR_EMULATED
    simt::load_relaxed(words, from, sizeof words);
#else
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(from));
#endif
}

// A published state: every word of it beside a mark, in one of 64 bits. No word counts before its mark stands there, so neither
// side needs a fence.
template <class State, int Align = 128> struct __align__(Align) Posted {
    typedef State Value;
    static const int words = (sizeof(State) + 3) / 4, vectors = (words + 1) / 2, width = 2;
    u64 at[2 * vectors];

    // One lane calls. Other blocks see the state sooner or later.
    GR_HD void post(State state, u32 mark = 1) {
        Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            const u64 high = (u64)mark << 32, to[2] = {high | from.words[2 * i], high | (2 * i + 1 < words ? from.words[2 * i + 1] : 0)};
            post_words(at + 2 * i, to);
        }
    }
    static GR_HD bool is_there(const u64 (&seen)[2 * vectors], u32 mark = 1) {
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
    // The state, where it has been posted; says whether it has.
    GR_HD bool read(State& state, u32 mark = 1) const {
        u64 seen[2 * vectors];
#pragma unroll
        for (int i = 0; i < vectors; i++) read_words(at + 2 * i, *(u64(*)[2])(seen + 2 * i));
        state = state_of(seen);
        return is_there(seen, mark);
    }
};

// States made of binary64 numbers alone are posted without marks, in half as many bytes: what stands there before is zero, and
// no number does: they differ in the bits of a NaN that none of them is. H200, 2026-11, with marks and without, of a copy:
// variances of a line of float64 0.89 and 0.95, of float32 0.93 and 0.96.
const u64 SPARE = 0x7ff9a5a5c3c35a5bull, OTHER = 0x7ff8000000000000ull;
GR_HD u64 hidden(u64 word) { return (word == SPARE ? OTHER : word) ^ SPARE; }
GR_HD u64 shown(u64 word) { return word ^ SPARE; }
template <class State> struct __align__(128) PostedNumbers {
    static const int words = sizeof(State) / 8, vectors = (words + 1) / 2;
    u64 at[2 * vectors];

    GR_HD void post(State state) {
        Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            u64 to[2] = {};
#pragma unroll
            for (int j = 0; j < 2 && 2 * i + j < words; j++)
                to[j] = hidden((u64)from.words[4 * i + 2 * j + 1] << 32 | from.words[4 * i + 2 * j]);
            post_words(at + 2 * i, to);
        }
    }
    GR_HD bool read(State& state) const {
        Exchanged<State> to;
        bool posted = true;
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            u64 seen[2];
            read_words(at + 2 * i, seen);
#pragma unroll
            for (int j = 0; j < 2 && 2 * i + j < words; j++) {
                posted = posted && seen[j] != 0;
                to.words[4 * i + 2 * j] = (u32)shown(seen[j]);
                to.words[4 * i + 2 * j + 1] = (u32)(shown(seen[j]) >> 32);
            }
        }
        state = to.value;
        return posted;
    }
};
template <class State> struct PostOf { typedef Posted<State> type; };
template <class A> struct PostOf<Parts<A>> { typedef PostedNumbers<Parts<A>> type; };
template <> struct PostOf<Twofold> { typedef PostedNumbers<Twofold> type; };
template <class M> struct PostOf<Moments2<M>> { typedef PostedNumbers<Moments2<M>> type; };

// Which tiles count for one, in the order of the scan: those from `begin` on, where the line began that it continues.
// `fresh`: the tile begins with a line, and nothing before it counts; `breaks`: a line begins in it, and nothing before it
// counts for those after it; `few`: no line is of more than FEW tiles and one.
struct Reach {
    u64 begin;
    bool fresh, breaks, few;
    u64 line, elements;  // the line, and how many elements of it come before the tile
};

// All lanes of a warp call with the same, and get the same. Folds posts one after another onto a state.
template <class Op>
GR_HD typename Op::State fold_few(const Scan& task, const typename PostOf<typename Op::State>::type* from, u32 count,
                                  typename Op::State state) {
    typename Op::State read[FEW];
    bool there[FEW], all = true;
#pragma unroll
    for (int i = 0; i < FEW; i++) {
        there[i] = i >= (int)count || from[i].read(read[i]);
        all = all && there[i];
    }
    for (u32 spins = 1; !__all_sync(0xffffffffu, all); spins++) {
        if (spins % SPINS == 0) spins = keep_waiting(task.ticket, spins);
        all = true;
#pragma unroll
        for (int i = 0; i < FEW; i++) {
            if (!there[i]) there[i] = from[i].read(read[i]);
            all = all && there[i];
        }
    }
    return fold_list<Op>(state, read, count);
}

// What tiles post of a state: all of it, or what does not follow from positions.
template <class Op> struct Posting {
    typedef Op Rest;
    typedef typename Op::State State;
    static GR_HD State of(State state) { return state; }
    static GR_HD State whole(State state, State, u64) { return state; }
};
template <class Element, class To, class A> struct Posting<Mean<Value<Element, To>, A>> {
    typedef Sum<Value<Element, To>, A> Rest;
    static GR_HD A of(Averaged<A> mean) { return mean.sum; }
    static GR_HD Averaged<A> whole(A sum, Averaged<A> start, u64 elements) { return {sum, start.count + (i64)elements}; }
};

// Where a state may say that nothing before it counts: then nobody waits for that.
template <class Op> struct Cut {
    static const bool exists = false;
};
template <class Op> struct Cut<Segmented<Op>> {
    static const bool exists = true;
    static GR_HD bool of(const typename Segmented<Op>::State& state) { return state.began; }
};

// All lanes of one warp of the block call. `own` is the tile's state, from the last line that begins in it; `start` is what
// comes before tile 0. Returns what comes before this tile. Recent: lines may have begun a few tiles ago.
template <class Op, bool Recent = false>
GR_HD typename Op::State look_back(const Scan& task, u64 tile, Reach reach, typename Op::State own, typename Op::State start) {
    typedef typename Op::State State;
    typedef typename PostOf<State>::type Post;
    const u32 lane = threadIdx.x % 32;
    Post *singles = (Post*)task.states, *stretches = singles + task.tiles;
    Post* anchors = stretches + task.tiles / STRETCH;
    if (lane == 0) singles[tile].post(own);
    const u64 begin = reach.fresh ? tile : reach.begin;
    const bool ends = tile % STRETCH == STRETCH - 1;
    if (Recent && tile - begin <= FEW && (!ends || reach.few)) return fold_few<Op>(task, singles + begin, (u32)(tile - begin), start);
    // The first lane reads the last anchor but one, posted a while ago; others the stretches behind it; half of them the tiles
    // of this stretch.
    const u64 stretch = tile / STRETCH, group = stretch / GROUP;
    const bool is_near = lane >= 32 - STRETCH, anchored = group > 1 && (group - 1) * (STRETCH * GROUP) > begin;
    const u64 one = stretch * STRETCH + lane - (32 - STRETCH), many = (group > 0 ? group - 1 : 0) * GROUP + lane - 1;
    const Post* from = is_near ? singles + one : lane > 0 ? stretches + many : anchors + group - 2;
    const bool wanted = is_near ? one >= begin && one < tile : lane > 0 ? many >= begin / STRETCH && many < stretch : anchored;
    State read = lane == 0 ? start : Op::identity();
    bool there = !wanted, posted = !ends;
    for (u32 spins = 1;; spins++) {
        if (spins % SPINS == 0) spins = keep_waiting(task.ticket, spins);
        State seen;
        if (!there && from->read(seen)) {
            read = seen;
            there = true;
        }
        u32 missing = __ballot_sync(0xffffffffu, !there);
        if constexpr (Cut<Op>::exists) {
            const u32 cuts = __ballot_sync(0xffffffffu, there && wanted && Cut<Op>::of(read));
            if (cuts) missing &= 0xfffffffeu << (31 - __clz((i32)cuts));
        }
        if (!posted && (missing & NEAR) == 0) {
            const State whole = fold_lanes<Op>(lane >= 32 - STRETCH ? read : Op::identity());
            if (lane == 0) stretches[stretch].post(reach.breaks ? own : Op::combine(whole, own));
            posted = true;
        }
        if (missing == 0) break;
    }
    const State before = fold_lanes<Op>(read);
    const bool ends_group = tile % (STRETCH * GROUP) == STRETCH * GROUP - 1;
    if (ends_group && lane == 0) anchors[group].post(reach.breaks ? own : Op::combine(before, own));
    return before;
}
