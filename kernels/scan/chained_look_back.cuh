// Chained scan and look-back of columns, a lane a column. A tile's prefix comes from the tile before it where chains are
// many, so that it has long been published; else from an anchor, groups of tiles and single tiles (look_back.cuh). States are
// folded in one order whatever the timing.
#pragma once
#include "column_ops.cuh"
#include "tile_state.cuh"

// The lanes of a warp in groups, with a lane of each for a column: tile states to fold are divided among the groups, in order.
struct LaneGroups {
    u32 group, groups, width;  // this lane's group; groups; lanes of a group
    // For so many columns of a tile, that as many warps share: stretches of `line` columns.
    static GR_HD LaneGroups of(u32 columns, u32 warps, u32 line) {
        const u32 per = (columns + warps * line - 1) / (warps * line) * line, count = 32 / per;
        return {count > 1 ? threadIdx.x % 32 / per : 0, count, per};
    }
    GR_HD u32 place() const { return threadIdx.x % 32 - group * width; }  // of the lane's column
    GR_HD bool is_one() const { return place() < width && group < groups; }  // else the lane is one too many
    GR_HD bool is_last() const { return group + 1 == groups; }
    GR_HD u32 share(u32 all) const { return groups == 1 ? all : (all + groups - 1) / groups; }
    // All lanes of a warp call. Inclusive scan of a column's states over the groups.
    template <class Op> GR_HD typename Op::State through(typename Op::State state) const {
        for (u32 up = width; groups > 1 && up < 32; up *= 2) {
            const typename Op::State earlier = shuffle_up(0xffffffffu, state, (int)up, 32);
            if (threadIdx.x % 32 >= up) state = Op::combine(earlier, state);
        }
        return state;
    }
    // All lanes of a warp call. `of`: the state of the column's lane in another group; `all`: those of all, in each lane.
    template <class Op> GR_HD typename Op::State of(typename Op::State state, u32 other) const {
        if (groups == 1) return state;
        return shuffle_from(0xffffffffu, state, (int)((threadIdx.x + (other - group) * width) % 32), 32);
    }
    template <class Op> GR_HD typename Op::State all(typename Op::State state) const {
        return of<Op>(through<Op>(state), groups - 1);
    }
};

// Of a column: elements of a tile, and by how many the elements before a tile differ from those of as many whole tiles.
struct ElementCounts {
    i64 each, offset;
    GR_HD i64 before(u32 link) const {
        const i64 count = link * each + offset;
        return count < 0 ? 0 : count;
    }
};

// From the tile before. A chain has one tile state for each column: only the next tile reads it, and then overwrites it.
template <class Op> struct ChainedScan {
    typedef typename Op::State State;
    static const u32 LINE = 4;
    const Strips& task;
    TileState<State, 16>* const tile_state;  // of this lane's column
    const bool active, publishes;            // the lane has a column; it publishes its states

    GR_HD ChainedScan(const Strips& scan, u64 chain, u32 column, bool has, u64 columns, u64, bool first)
        : task(scan), tile_state((TileState<State, 16>*)task.states + chain * columns + column), active(has), publishes(first) {}

    // All lanes of a warp call, each for its column, and get the prefix of tile `link`. `own` is that tile's state, `start` the
    // state before all tiles.
    GR_HD State before(u64 link, State own, State start, ElementCounts, LaneGroups, u32) const {
        State state = start;
        if (link > 0) {
            State seen;
            bool there = false;
            for (u32 spins = 1;; spins++) {
                if (!there && tile_state->read(seen, (u32)link)) state = seen, there = true;
                if (__all_sync(0xffffffffu, there || !active)) break;
                if (spins % SPINS == 0) spins = keep_waiting(task.ticket, spins);
            }
        }
        if (publishes && link + 1 < task.links) tile_state->publish(Op::combine(state, own), (u32)link + 1);
        return state;
    }
};

// Operators whose states are binary64 numbers, of which a NaN may have any bits.
template <class Op> struct IsFloatSum { static const bool yes = false; };
template <class Map> struct IsFloatSum<Sum<Map, f64>> { static const bool yes = true; };
template <class Map> struct IsFloatSum<Sum<Map, Twofold>> { static const bool yes = true; };

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

template <class Op>
using PublishedState = typename Conditional<CompactState<Op>::floats || sizeof(typename Op::State) <= 4,
                                            UnflaggedTileState<typename CompactState<Op>::Rest>,
                                            TileState<typename CompactState<Op>::Rest, 16>>::type;

// From an anchor and stretches, and from single tiles, Radix of each at most. The first ones of both levels are polled together,
// since each access to memory takes a microsecond. The published states of a chain: of its tiles; and of each span its anchor,
// which is the prefix of the span, then its stretches. Slots: states of a level that a lane has registers for at once.
template <class Op, int Radix, int Slots> struct TwoLevelLookBack {
    typedef typename Op::State State;
    typedef CompactState<Op> Part;
    typedef PublishedState<Op> Published;
    // Columns whose tile states fill a line of memory, so that no two warps write to one: a power of two.
    static const u32 LINE = sizeof(Published) <= 8 ? 16 : sizeof(Published) <= 16 ? 8 : sizeof(Published) <= 32 ? 4 : 2;
    static const u32 RADIX = Radix, SPAN = RADIX * RADIX;
    static const bool is_small = sizeof(Published) <= 16;
    const Strips& task;
    Published *tile_states, *anchors;  // of this lane's column
    u64 wide;
    bool active, publishes;  // the lane has a column; it publishes its states

    GR_HD TwoLevelLookBack(const Strips& scan, u64 chain, u32 column, bool has, u64 columns, u64 links, bool first)
        : task(scan), wide(columns), active(has), publishes(first) {
        const u64 each = links + (links / SPAN + 1) * (RADIX + 1);
        tile_states = (Published*)task.states + chain * each * wide + column;
        anchors = tile_states + links * wide;
    }

    // A lane's share of a level: the states from `begin` on to below `end`, of those that exist, from `low` on to below `high`. A
    // published state is of `hop` tiles, the first one of those from `link` on, and of `ahead` elements besides.
    struct Level {
        const Published* from;
        u64 wide;
        u32 begin, end, low, high, link, hop;
        ElementCounts counts;
        i64 ahead;
        PolledTileState<Published> polled[Slots];
        // The address of a state, computed anew for each poll so that it takes no registers in between.
        GR_HD const Published* at(u32 place) const {
            const Published* first = from;
#ifndef GR_EMULATED
            asm volatile("" : "+l"(first));
#endif
            return first + (begin + place) * wide;
        }
        GR_HD u32 wanted(u32 done) const {
            u32 bits = 0;
#pragma unroll
            for (u32 i = 0; i < Slots; i++) {
                const u32 place = begin + done + i;
                bits |= (u32)(place < end && place >= low && place < high) << i;
            }
            return bits;
        }
        GR_HD void poll(u32 done) {
            const u32 bits = wanted(done);
            unrolled<Slots>([&](int i) {
                polled[i].clear();
                polled[i].poll(at(done + i), bits >> i & 1);
            });
        }
        GR_HD i64 count(u32 place) const {
            const u32 first = link + (begin + place) * hop;
            return counts.before(first + hop) - counts.before(first) + (begin + place == 0 ? ahead : 0);
        }
        // All lanes of a warp call, after a poll of the first ones. The states of this lane's share, folded.
        GR_HD State fold(const u32* ticket, u32 share) {
            State state = Op::identity();
#pragma unroll 1
            for (u32 done = 0;;) {
                const u32 bits = wanted(done);
                await_polled(ticket, polled, bits, [&](u32 i) { return at(done + i); });
#pragma unroll
                for (u32 i = 0; i < Slots; i++)
                    if (bits >> i & 1) state = Op::combine(state, Part::restore(polled[i].state(), count(done + i)));
                done += Slots;
                if (is_small || done >= share) return state;  // of small states there are slots enough
                poll(done);
            }
        }
    };
    // As ChainedScan's, with the counts of this lane's column and how many tiles before it count; each group gets the prefix.
    GR_HD State before(u64 number, State own, State start, ElementCounts counts, LaneGroups lane_groups, u32 recent) const {
        const u32 link = (u32)number;
        if (publishes) tile_states[link * wide].publish(Part::of(own));
        const u32 near = link % RADIX, far = link / RADIX % RADIX, span = link / SPAN;
        const u32 share = lane_groups.share(RADIX), begin = lane_groups.group * share, end = active ? begin + share : 0;
        Published* const anchor = anchors + span * (RADIX + 1) * wide;  // and behind it the span's stretches
        const u32 low = recent < near ? near - recent : 0, others = recent > near ? (recent - near - 1) / RADIX + 1 : 0;
        Level tiles = {tile_states + (link - near) * wide, wide, begin, end, low, near, link - near, 1, counts, 0};
        // The anchor is of all before the span, which is more than a stretch.
        const u32 first = span * SPAN - RADIX;
        const i64 more = span > 0 ? counts.before(first) + Part::count(start) : 0;
        const u32 lowest = others <= far ? far + 1 - others : span > 0 ? 0 : 1;
        Level stretches = {anchor, wide, begin, end, lowest, far + 1, first, RADIX, counts, more};
        tiles.poll(0);
        stretches.poll(0);
        const State behind = lane_groups.template all<Op>(tiles.fold(task.ticket, share));
        if (publishes && near == RADIX - 1 && far < RADIX - 1) anchor[(1 + far) * wide].publish(Part::of(Op::combine(behind, own)));
        State state = lane_groups.template all<Op>(stretches.fold(task.ticket, share));
        state = Op::combine(span > 0 ? state : Op::combine(start, state), behind);
        if (publishes && link % SPAN == SPAN - 1) anchor[(RADIX + 1) * wide].publish(Part::of(Op::combine(state, own)));
        return state;
    }
};

// All lanes of a warp call, each with a column. Puts the prefixes of a tile's parts, from `start` before all tiles on, in place of
// their states, `part(t)` in the order of the scan: groups of lanes take some each. Gets what the lane's last one leaves.
template <class Op, class Links, class Part, class State = typename Op::State>
GR_HD State find_part_prefixes(const Links& chain, u64 link, State start, ElementCounts counts, LaneGroups lanes, u32 parts,
                               const Part& part, u32 recent = ~0u) {
    const u32 group = lanes.group, share = lanes.share(parts), begin = group * share;
    const u32 end = !chain.active ? 0 : begin + share < parts ? begin + share : parts;
    State own = Op::identity();
#pragma unroll 4
    for (u32 t = begin; t < end; t++) own = Op::combine(own, part(t));
    const State through = lanes.template through<Op>(own), all = lanes.template of<Op>(through, lanes.groups - 1);
    const State exclusive = lanes.template of<Op>(through, group > 0 ? group - 1 : 0);
    State before = chain.before(link, all, start, counts, lanes, recent);
    if (group > 0) before = Op::combine(before, exclusive);
    State next = begin < end ? part(begin) : before;
#pragma unroll 2
    for (u32 t = begin; t < end; t++) {
        const State here = next;
        if (t + 1 < end) next = part(t + 1);
        part(t) = before;
        before = Op::combine(before, here);
    }
    return before;
}
