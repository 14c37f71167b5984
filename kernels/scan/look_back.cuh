// Each tile's prefix, from what the tiles before it have posted: a single pass (after Merrill and Garland 2016), with
// anchors at fixed tiles, so that states are folded in one order whatever the timing.
//
// A tile posts its own state; every 32nd tile that of the 32 up to it; and the last of every Group such stretches the prefix
// through it. A prefix is an anchor's, then whole stretches of 32, then single tiles; or a few single tiles, where its line
// began as recently.
#pragma once
#include "../core/scan_task.cuh"
#include "../warp/reduce.cuh"
#include "../warp/scan.cuh"

const int FEW = 4;  // tiles that are read one by one and folded by every lane
const u32 SPINS = 1u << 25;  // polls, half a minute: then another block died, and so does this one

// A published state: every word of it beside a mark, both written at once. No word counts before its mark stands there,
// so neither side needs a fence. Small states lie apart: those of neighbouring tiles are read at the same time, and one
// slice of the L2 cache would serve them all.
template <class State, int Align = (sizeof(State) <= 8 ? 64 : 16)> struct __align__(Align) Posted {
    typedef State Value;
    static const int words = (sizeof(State) + 3) / 4, vectors = (words + 1) / 2;
    uint4 at[vectors];

    // One lane calls. Other blocks see the state sooner or later.
    GR_HD void post(State state, u32 mark = 1) {
        Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < vectors; i++)
            post_words(at + i, make_uint4(from.words[2 * i], mark, 2 * i + 1 < words ? from.words[2 * i + 1] : 0, mark));
    }
    // The state, where it has been posted; says whether it has.
    GR_HD bool read(State& state, u32 mark = 1) const {
        Exchanged<State> to;
        bool posted = true;
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            const uint4 seen = read_words(at + i);
            posted = posted && seen.y == mark && seen.w == mark;
            to.words[2 * i] = seen.x;
            if (2 * i + 1 < words) to.words[2 * i + 1] = seen.z;
        }
        state = to.value;
        return posted;
    }
    static GR_HD void post_words(uint4* to, uint4 words) {
#ifdef GR_EMULATED
        simt::store_relaxed(to, &words, sizeof words);
#else
        __stcg(to, words);
#endif
    }
    static GR_HD uint4 read_words(const uint4* from) {
#ifdef GR_EMULATED
        uint4 words;
        simt::load_relaxed(&words, from, sizeof words);
        return words;
#else
        uint4 words;
        asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(from));
        return words;
#endif
    }
};

// All lanes of a warp call, each with a state; every lane gets the states folded, left to right.
template <class Flow> GR_HD typename Flow::State fold_lanes(typename Flow::State state) {
    return shuffle_from(0xffffffffu, warp_reduce<Flow, 32>(state), 0, 32);
}

// Which tiles count for one, in the order of the scan: those from `begin` on, where the line began that it continues.
// `fresh`: the tile begins with a line, and nothing before it counts; `breaks`: a line begins in it, and nothing before it
// counts for those after it.
struct Reach {
    u64 begin;
    bool fresh, breaks;
};

// All lanes of a warp call with the same, and get the same. Folds posts one after another onto a state.
template <class Op>
GR_HD typename Op::State fold_few(const Posted<typename Op::State>* from, u32 count, typename Op::State state) {
    typename Op::State read[FEW];
    bool there[FEW], all = true;
#pragma unroll
    for (int i = 0; i < FEW; i++) {
        there[i] = i >= (int)count || from[i].read(read[i]);
        all = all && there[i];
    }
    for (u32 spins = 0; !__all_sync(0xffffffffu, all); spins++) {
        if (spins == SPINS) __trap();
        all = true;
#pragma unroll
        for (int i = 0; i < FEW; i++) {
            if (!there[i]) there[i] = from[i].read(read[i]);
            all = all && there[i];
        }
    }
#pragma unroll
    for (int i = 0; i < FEW; i++)
        if (i < (int)count) state = Op::combine(state, read[i]);
    return state;
}

// All lanes of one warp of the block call. `own` is the tile's state, from the last line that begins in it; `start` is what
// comes before tile 0; posts stand `skip` bytes behind the first of all. Returns what comes before this tile. Recent: lines may
// have begun a few tiles ago. Group: with 32, of which a lane reads two stretches, a line of float32 has 0.97 of a copy, with 8
// 0.99 (H200, 2026-11).
template <class Op, bool Recent = false, int Group = 8>
GR_HD typename Op::State look_back(const Scan& task, u64 tile, Reach reach, typename Op::State own, typename Op::State start,
                                     u64 skip = 0) {
    typedef typename Op::State State;
    const u32 lane = threadIdx.x % 32;
    Posted<State> *singles = (Posted<State>*)((u8*)task.states + skip), *stretches = singles + task.tiles;
    Posted<State>* anchors = stretches + task.tiles / 32;
    if (lane == 0) singles[tile].post(own);
    const u64 begin = reach.fresh ? tile : reach.begin;
    if (Recent && tile - begin <= FEW && tile % 32 != 31) return fold_few<Op>(singles + begin, (u32)(tile - begin), start);
    // Near: the stretch before this one and this one, tile by tile. Far: stretches before those, from the last anchor but
    // one. What they need has been posted a while ago.
    const u64 stretch = tile / 32, group = stretch / Group;
    const u64 first_near = stretch > 0 ? (stretch - 1) * 32 : 0, first_far = group > 0 ? (group - 1) * Group : 0;
    const bool anchored = group > 1 && (group - 1) * (32 * Group) > begin;
    // What a lane reads: two tiles, a stretch or two, an anchor. Where there is none, its own tile, and drops it.
    const int fars = Group < 32 ? 1 : 2, posts = 3 + fars;
    const Posted<State>* from[posts];
    bool wanted[posts], there[posts];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const u64 one = first_near + lane * 2 + i;
        wanted[i] = one >= begin && one < tile;
        from[i] = singles + (wanted[i] ? one : tile);
        if (i >= fars) continue;
        const u64 many = first_far + lane * fars + i;
        wanted[2 + i] = many >= begin / 32 && many + 1 < stretch;
        from[2 + i] = wanted[2 + i] ? stretches + many : singles + tile;
    }
    wanted[posts - 1] = anchored;
    from[posts - 1] = anchored ? anchors + group - 2 : singles + tile;
    State read[posts];
#pragma unroll
    for (int i = 0; i < posts; i++) there[i] = from[i]->read(read[i]) || !wanted[i];  // all at once: each takes a microsecond
    for (u32 spins = 0; !__all_sync(0xffffffffu, there[0] && there[1] && there[2] && there[3] && there[posts - 1]); spins++) {
        if (spins == SPINS) __trap();
#pragma unroll
        for (int i = 0; i < posts; i++)
            if (!there[i]) there[i] = from[i]->read(read[i]);
    }
    State near[2], far[fars];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        near[i] = wanted[i] ? read[i] : Op::identity();
        if (i < fars) far[i] = wanted[2 + i] ? read[2 + i] : Op::identity();
    }
    if (tile % 32 == 31) {  // this stretch alone: the latter half of what is near, where there is a stretch before
        const bool mine = stretch == 0 || lane >= 16;
        const State whole = fold_lanes<Op>(mine ? Op::combine(near[0], near[1]) : Op::identity());
        if (lane == 0) stretches[stretch].post(reach.breaks ? own : Op::combine(whole, own));
    }
    State before = anchored ? read[posts - 1] : start;
    before = Op::combine(before, fold_lanes<Op>(fars == 1 ? far[0] : Op::combine(far[0], far[fars - 1])));
    before = Op::combine(before, fold_lanes<Op>(Op::combine(near[0], near[1])));
    if (tile % (32 * Group) == 32 * Group - 1 && lane == 0) anchors[group].post(reach.breaks ? own : Op::combine(before, own));
    return before;
}
