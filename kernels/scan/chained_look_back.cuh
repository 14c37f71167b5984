// Chained scan and look-back of columns, a lane a column. A tile's prefix comes from the tile before it where chains are
// many, so that it has long been published; else from an anchor, groups of tiles and single tiles (look_back.cuh), in
// two levels or three. States are folded in one order whatever the timing.
#pragma once
#include "column_ops.cuh"
#include "tile_state.cuh"

const u64 TWO_LEVEL_RADIX = 16;                                // tiles of a stretch, and stretches of a span
const u64 TWO_LEVEL_SPAN = TWO_LEVEL_RADIX * TWO_LEVEL_RADIX;  // tiles from one anchor to the next

// The lanes of a warp in groups, with a lane of each for a column: tile states to fold are divided among the groups, in order.
struct LaneGroups {
    u32 group, groups, width;  // this lane's group; groups; lanes of a group
    GR_HD u32 share(u32 all) const { return groups == 1 ? all : (all + groups - 1) / groups; }
    // All lanes of a warp call. Inclusive scan of a column's states over the groups.
    template <class Op> GR_HD typename Op::State through(typename Op::State state) const {
        for (u32 up = width; groups > 1 && up < 32; up *= 2) {
            const typename Op::State earlier = shuffle_up(0xffffffffu, state, (int)up, 32);
            if (threadIdx.x % 32 >= up) state = Op::combine(earlier, state);
        }
        return state;
    }
    // All lanes of a warp call. `of`: the state of the column's lane in another group. `all`: the states of all groups, in each
    // lane.
    template <class Op> GR_HD typename Op::State of(typename Op::State state, u32 other) const {
        if (groups == 1) return state;
        return shuffle_from(0xffffffffu, state, (int)((threadIdx.x + (other - group) * width) % 32), 32);
    }
    template <class Op> GR_HD typename Op::State all(typename Op::State state) const {
        return of<Op>(through<Op>(state), groups - 1);
    }
};

// All lanes of a warp call with the same count; each gets the result. Folds `count` tile states, `stride` apart, onto a state, left
// to right.
template <class Op, int Batch, class Published>
GR_HD typename Op::State fold_tile_states(const u32* ticket, const Published* from, u64 stride, u32 count, bool active,
                                    typename Op::State state, LaneGroups lane_groups) {
    const u32 share = lane_groups.share(count), first = lane_groups.group * share;
    const u32 end = first + share < count ? first + share : count;
    if (lane_groups.group > 0) state = Op::identity();
    for (u32 at = first; at < first + share; at += Batch) {
        const Published* found[Batch];
        bool wanted[Batch];
        typename Op::State read[Batch];
#pragma unroll
        for (int i = 0; i < Batch; i++) {
            wanted[i] = active && at + i < end;
            found[i] = from + (at + i < end ? at + i : 0) * stride;
        }
        await_tile_states<Op, Batch>(ticket, found, wanted, 1, read);
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (wanted[i]) state = Op::combine(state, read[i]);
    }
    return lane_groups.all<Op>(state);
}

// The published states of a chain, each of as many columns as there are lanes: of its tiles; and of each span its anchor, which is
// the prefix of the span, then its stretches. A chain without anchors has one tile state, written again and again: only the next
// tile reads it, and overwrites it.
template <class Op, bool Anchored, bool Shared = false> struct TwoLevelLookBack {
    typedef typename Op::State State;
    typedef TileState<State, 16> Published;
    // Tile states read in one batch: fewer where lanes share them, of narrow and of large states, for want of registers.
    static const bool large = Published::vectors > 2;
    static const int batch = alignof(State) < 4 ? (sizeof(State) > 2 ? 4 : 2) : (large && Shared) ? 2 : large || Shared ? 4 : 8;
    const Strips& task;
    Published *tile_states, *anchors;  // of this lane's column
    u64 links, wide;
    bool active;  // the lane has a column

    GR_HD TwoLevelLookBack(const Strips& scan, u64 chain, u32 column, bool has, u64 columns)
        : task(scan), links(scan.links), wide(columns), active(has) {
        const u64 each = Anchored ? links + (links / TWO_LEVEL_SPAN + 1) * (TWO_LEVEL_RADIX + 1) : 1;
        tile_states = (Published*)task.states + chain * each * wide + column;
        anchors = tile_states + links * wide;
    }

    // All lanes of a warp call, each for its column, and get the prefix of tile `link` in every group. `own` is that tile's state,
    // `start` the state before all tiles.
    GR_HD State before(u64 link, State own, State start, LaneGroups lane_groups = {0, 1, 32}) const {
        if constexpr (Anchored) return before_anchored(link, own, start, lane_groups);
        State state = start;
        if (link > 0) {
            const Published* from[1] = {tile_states};
            bool wanted[1] = {active};
            State read[1];
            await_tile_states<Op, 1>(task.ticket, from, wanted, (u32)link, read);
            state = read[0];
        }
        if (active && lane_groups.group == 0 && link + 1 < links) tile_states->publish(Op::combine(state, own), (u32)link + 1);
        return state;
    }
    GR_HD State before_anchored(u64 link, State own, State start, LaneGroups lane_groups) const {
        const bool publishes = active && lane_groups.group == 0;
        if (publishes) tile_states[link * wide].publish(own);
        const u64 stretch = link / TWO_LEVEL_RADIX, span = link / TWO_LEVEL_SPAN;
        Published* before = anchors + span * (TWO_LEVEL_RADIX + 1) * wide;
        const State near = fold_tile_states<Op, batch>(task.ticket, tile_states + stretch * TWO_LEVEL_RADIX * wide, wide,
                                                       (u32)(link - stretch * TWO_LEVEL_RADIX), active, Op::identity(), lane_groups);
        if (publishes && link % TWO_LEVEL_RADIX == TWO_LEVEL_RADIX - 1)
            before[(1 + stretch % TWO_LEVEL_RADIX) * wide].publish(Op::combine(near, own));
        const u32 skip = span > 0 ? 0 : 1;  // the first span has no anchor
        State state = fold_tile_states<Op, batch>(task.ticket, before + skip * wide, wide,
                                                  (u32)(stretch % TWO_LEVEL_RADIX) + 1 - skip, active,
                                                  skip ? start : Op::identity(), lane_groups);
        state = Op::combine(state, near);
        if (publishes && link % TWO_LEVEL_SPAN == TWO_LEVEL_SPAN - 1)
            before[(TWO_LEVEL_RADIX + 1) * wide].publish(Op::combine(state, own));
        return state;
    }
};

// Operators whose states are binary64 numbers, of which a NaN may have any bits.
template <class Op> struct IsFloatSum { static const bool yes = false; };
template <class Map> struct IsFloatSum<Sum<Map, f64>> { static const bool yes = true; };
template <class Map> struct IsFloatSum<Sum<Map, Twofold>> { static const bool yes = true; };
template <class Op, int Count> struct IsFloatSum<ColumnStates<Op, Count>> : IsFloatSum<Op> {};

// The part of a state that tiles publish: all of it, or what does not follow from how many elements it is of.
template <class Op> struct CompactState {
    typedef typename Op::State State, Rest;
    static const bool floats = IsFloatSum<Op>::yes;
    static GR_HD Rest of(const State& state) { return state; }
    static GR_HD State restore(const Rest& rest, i64) { return rest; }
    static GR_HD i64 count(const State&) { return 0; }
};
template <class T> struct CompactState<Mean<Value<T, f64>, f64>> {
    typedef Averaged<f64> State;
    typedef f64 Rest;
    static const bool floats = true;
    static GR_HD Rest of(const State& state) { return state.sum; }
    static GR_HD State restore(Rest sum, i64 count) { return {sum, count}; }
    static GR_HD i64 count(const State& state) { return state.count; }
};
template <bool Root> struct CompactState<Variance<f32, false, Root>> {
    typedef Moments2<f64> State;
    struct Rest { f64 mean, m2; };
    static const bool floats = true;
    static GR_HD Rest of(const State& state) { return {state.mean, state.m2}; }
    static GR_HD State restore(const Rest& rest, i64 count) { return {(f64)count, rest.mean, rest.m2}; }
    static GR_HD i64 count(const State& state) { return (i64)state.count; }
};

// Of a column: elements of a tile, and by how many the elements before a tile differ from those of as many whole tiles.
struct ElementCounts {
    i64 each, offset;
    GR_HD i64 before(u32 link) const {
        const i64 count = link * each + offset;
        return count < 0 ? 0 : count;
    }
};

// As TwoLevelLookBack with anchors and a radix of its own, of which both levels are read in one batch, since each access to memory
// takes a microsecond. Tile states are short, so that few bytes are read. StatesPerLane: those of a level that a lane reads; the
// lanes that share a column have room for Radix of them together.
template <class Op, int Radix, int StatesPerLane> struct BatchedLookBack {
    typedef typename Op::State State;
    typedef CompactState<Op> Part;
    typedef typename Part::Rest Rest;
    typedef typename Conditional<Part::floats || sizeof(State) <= 4, UnflaggedTileState<Rest>, TileState<Rest, 16>>::type Published;
    static const u32 LINE = 128 / sizeof(Published);  // columns whose tile states fill a line of memory: no two warps write to one
    static const u32 RADIX = Radix, SPAN = RADIX * RADIX;
    const Strips& task;
    Published *tile_states, *anchors;  // of this lane's column
    u64 wide;
    bool active, publishes;  // the lane has a column; it publishes its states

    GR_HD BatchedLookBack(const Strips& scan, u64 chain, u32 column, bool has, u64 columns)
        : BatchedLookBack(scan, chain, column, has, columns, scan.links, has) {}
    GR_HD BatchedLookBack(const Strips& scan, u64 chain, u32 column, bool has, u64 columns, u64 links, bool first)
        : task(scan), wide(columns), active(has), publishes(first) {
        const u64 each = links + (links / SPAN + 1) * (RADIX + 1);
        tile_states = (Published*)task.states + chain * each * wide + column;
        anchors = tile_states + links * wide;
    }

    // A lane's share of a level. A published state is of `hop` tiles.
    struct Level {
        const Published* from;
        u64 wide;
        u32 wanted, link, hop;
        ElementCounts counts;
        i64 ahead;  // elements that the first state is of besides
        PolledTileState<Published> polled[StatesPerLane];
        // The address of a state, computed anew for each poll so that it takes no registers in between.
        GR_HD const Published* at(u32 i) const {
            const Published* first = from;
#ifndef GR_EMULATED
            asm volatile("" : "+l"(first));
#endif
            return first + i * wide;
        }
        // Polls the states from `begin` on to below `end`, of those that exist, from `low` on to below `high`.
        GR_HD Level(const Published* first, u64 apart, u32 begin, u32 end, u32 low, u32 high, u32 first_link, u32 links,
                    ElementCounts of, i64 more)
            : from(first + begin * apart), wide(apart), wanted(0), link(first_link + begin * links), hop(links), counts(of),
              ahead(begin == 0 ? more : 0) {
#pragma unroll
            for (u32 i = 0; i < StatesPerLane; i++) wanted |= (u32)(begin + i < end && begin + i >= low && begin + i < high) << i;
#pragma unroll
            for (u32 i = 0; i < StatesPerLane; i++) {
                polled[i].clear();
                polled[i].poll(at(i), wanted >> i & 1);
            }
        }
        GR_HD i64 count(u32 i) const {
            return counts.before(link + (i + 1) * hop) - counts.before(link + i * hop) + (i == 0 ? ahead : 0);
        }
        // All lanes of a warp call. The states of this lane's share, folded.
        GR_HD State fold(const u32* ticket) {
            await_polled(ticket, polled, wanted, [&](u32 i) { return at(i); });
            State state = Op::identity();
#pragma unroll
            for (u32 i = 0; i < StatesPerLane; i++)
                if (wanted >> i & 1) state = Op::combine(state, Part::restore(polled[i].state(), count(i)));
            return state;
        }
    };
    // Called as TwoLevelLookBack's, with the counts of this lane's column.
    GR_HD State before(u64 number, State own, State start, LaneGroups lane_groups = {0, 1, 32},
                       ElementCounts counts = {0, 0}) const {
        const u32 link = (u32)number;
        if (publishes) tile_states[link * wide].publish(Part::of(own));
        const u32 near = link % RADIX, far = link / RADIX % RADIX, span = link / SPAN;
        const u32 share = lane_groups.share(RADIX), begin = lane_groups.group * share, end = active ? begin + share : 0;
        Published* const anchor = anchors + span * (RADIX + 1) * wide;  // and behind it the span's stretches
        Level tiles(tile_states + (link - near) * wide, wide, begin, end, 0, near, link - near, 1, counts, 0);
        // The anchor is of all before the span, which is more than a stretch.
        const u32 first = span * SPAN - RADIX;
        const i64 more = span > 0 ? counts.before(first) + Part::count(start) : 0;
        Level stretches(anchor, wide, begin, end, span > 0 ? 0 : 1, far + 1, first, RADIX, counts, more);
        const State behind = lane_groups.template all<Op>(tiles.fold(task.ticket));
        if (publishes && near == RADIX - 1 && far < RADIX - 1) anchor[(1 + far) * wide].publish(Part::of(Op::combine(behind, own)));
        State state = lane_groups.template all<Op>(stretches.fold(task.ticket));
        state = Op::combine(span > 0 ? state : Op::combine(start, state), behind);
        if (publishes && link % SPAN == SPAN - 1) anchor[(RADIX + 1) * wide].publish(Part::of(Op::combine(state, own)));
        return state;
    }
};
