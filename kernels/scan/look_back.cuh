// Decoupled look-back (after Merrill and Garland 2016): each tile's prefix, from what the tiles before it have
// published, in a single pass. Anchors are at fixed tiles, so that states are folded in one order whatever the timing.
//
// A tile publishes its own state; the last tile of every stretch the state of the stretch; and the last of every group
// of stretches the prefix through it, an anchor. A prefix is an anchor, then whole stretches, then single tiles: a tile
// state each lane of a warp, folded together.
//
// Tile states are polled by many tiles until they are published, and all words of one lie in one slice of the L2 cache:
// what counts is how often each is read, and that they lie apart.
#pragma once
#include "tile_state.cuh"

const int STRETCH = 16, GROUP = 8;  // tiles of a stretch; stretches of a group: two, and an anchor, are as many again
const u32 SINGLE_TILE_LANES = 0xffffffffu << (32 - STRETCH);  // lanes that read single tiles

// Which tiles count for one, in the order of the scan: those from `begin` on, where the line began that it continues.
// `starts_at_head`: the tile begins with a line, so that nothing before it counts. `contains_head`: a line begins in it, so that
// nothing before it counts for the tiles after it.
struct LookBackRange {
    u64 begin;
    bool starts_at_head, contains_head;
};

// Operators whose states may say that nothing before them counts: then the tiles before are not waited for.
template <class Op> struct StopsAtHead { static const bool yes = false; };
template <class Op> struct StopsAtHead<Segmented<Op>> { static const bool yes = true; };

// All lanes of one warp of the block call. `own` is the tile's state, from the last line that begins in it; `start` is what
// comes before tile 0. Returns what comes before this tile.
template <class Op>
GR_HD typename Op::State look_back(const Scan& task, u64 tile, LookBackRange range, typename Op::State own,
                                   typename Op::State start) {
    typedef typename Op::State State;
    typedef TileState<State> Published;
    const u32 lane = threadIdx.x % 32;
    Published *tile_states = (Published*)task.states, *stretches = tile_states + task.tiles;
    Published* anchors = stretches + task.tiles / STRETCH;
    if (lane == 0) tile_states[tile].publish(own);
    const u64 begin = range.starts_at_head ? tile : range.begin;
    const bool ends = tile % STRETCH == STRETCH - 1;
    // The first lane reads the last anchor but one, published a while ago; of the others half read the stretches behind it, and
    // half the tiles of this stretch.
    const u64 stretch = tile / STRETCH, group = stretch / GROUP;
    const bool is_near = lane >= 32 - STRETCH, anchored = group > 1 && (group - 1) * (STRETCH * GROUP) > begin;
    const u64 one = stretch * STRETCH + lane - (32 - STRETCH), many = (group > 0 ? group - 1 : 0) * GROUP + lane - 1;
    const Published* from = is_near ? tile_states + one : lane > 0 ? stretches + many : anchors + group - 2;
    const bool wanted = is_near ? one >= begin && one < tile : lane > 0 ? many >= begin / STRETCH && many < stretch : anchored;
    State read = lane == 0 ? start : Op::identity();
    bool there = !wanted, is_published = !ends;
    for (u32 spins = 1;; spins++) {
        if (spins % SPINS == 0) spins = keep_waiting(task.ticket, spins);
        State seen;
        if (!there && from->read(seen)) {
            read = seen;
            there = true;
        }
        u32 missing = __ballot_sync(0xffffffffu, !there);
        if constexpr (StopsAtHead<Op>::yes) {
            const u32 cuts = __ballot_sync(0xffffffffu, there && wanted && read.has_head);
            if (cuts) missing &= 0xfffffffeu << (31 - __clz((i32)cuts));
        }
        if (!is_published && (missing & SINGLE_TILE_LANES) == 0) {
            const State whole = fold_warp_states<Op>(lane >= 32 - STRETCH ? read : Op::identity());
            if (lane == 0) stretches[stretch].publish(range.contains_head ? own : Op::combine(whole, own));
            is_published = true;
        }
        if (missing == 0) break;
    }
    const State before = fold_warp_states<Op>(read);
    const bool ends_group = tile % (STRETCH * GROUP) == STRETCH * GROUP - 1;
    if (ends_group && lane == 0) anchors[group].publish(range.contains_head ? own : Op::combine(before, own));
    return before;
}
