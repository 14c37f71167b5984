// The prefix of a tile of columns, a lane a column: from the tile before it where chains are many, so that it has long been
// published; else from an anchor, groups of tiles and single tiles (look_back.cuh), in two levels or three. States are folded in one
// order whatever the timing.
#pragma once
#include "column_ops.cuh"
#include "tile_state.cuh"

const u64 LINKS = 16;            // tiles of a stretch
const u64 SPAN = LINKS * LINKS;  // tiles from one anchor to the next

// The lanes of a warp in groups, with a lane of each for a column: what there is to fold is dealt to them in order.
struct Dealt {
    u32 group, groups, width;  // this lane's; lanes of each
    GR_HD u32 share(u32 all) const { return groups == 1 ? all : (all + groups - 1) / groups; }
    // All lanes of a warp call. The states of a column's lanes folded up to each.
    template <class Op> GR_HD typename Op::State through(typename Op::State state) const {
        for (u32 up = width; groups > 1 && up < 32; up *= 2) {
            const typename Op::State earlier = shuffle_up(0xffffffffu, state, (int)up, 32);
            if (threadIdx.x % 32 >= up) state = Op::combine(earlier, state);
        }
        return state;
    }
    // That of the column's lane in another group; and in the last one, of all of them.
    template <class Op> GR_HD typename Op::State of(typename Op::State state, u32 other) const {
        if (groups == 1) return state;
        return shuffle_from(0xffffffffu, state, (int)((threadIdx.x + (other - group) * width) % 32), 32);
    }
    template <class Op> GR_HD typename Op::State all(typename Op::State state) const { return of<Op>(through<Op>(state), groups - 1); }
};

// Folds `count` posts, `stride` apart, onto a state, left to right. All lanes of a warp call with the same count; each gets
// the state.
template <class Op, int Batch, class Post>
GR_HD typename Op::State fold_posts(const u32* ticket, const Post* from, u64 stride, u32 count, bool active,
                                    typename Op::State state, Dealt by) {
    const u32 share = by.share(count), first = by.group * share, end = first + share < count ? first + share : count;
    if (by.group > 0) state = Op::identity();
    for (u32 at = first; at < first + share; at += Batch) {
        const Post* posts[Batch];
        bool wanted[Batch];
        typename Op::State read[Batch];
#pragma unroll
        for (int i = 0; i < Batch; i++) {
            wanted[i] = active && at + i < end;
            posts[i] = from + (at + i < end ? at + i : 0) * stride;
        }
        await_posts<Op, Batch>(ticket, posts, wanted, 1, read);
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (wanted[i]) state = Op::combine(state, read[i]);
    }
    return by.all<Op>(state);
}

// Posts of a chain, so many columns each: of tiles; and of each span what comes before it, then its stretches. Of chains
// without anchors one each, written again and again: only the tile that comes next reads it, and writes it next.
template <class Op, bool Anchored, bool Shared = false> struct Chain {
    typedef typename Op::State State;
    typedef Posted<State, 16> Post;
    // Posts read at once: fewer where lanes share them, of narrow and of large states, for want of registers.
    static const int batch = alignof(State) < 4 ? (sizeof(State) > 2 ? 4 : 2) : Post::vectors > 2 || Shared ? 4 : 8;
    const Strips& task;
    Post *singles, *spans;  // of this lane's column
    u64 links, wide;
    bool active;  // the lane has a column

    GR_HD Chain(const Strips& scan, u64 chain, u32 column, bool has, u64 posts)
        : task(scan), links(scan.links), wide(posts), active(has) {
        const u64 each = Anchored ? links + (links / SPAN + 1) * (LINKS + 1) : 1;
        singles = (Post*)task.states + chain * each * wide + column;
        spans = singles + links * wide;
    }

    // All lanes of a warp call. What comes before tile `link`; `own` is that tile's state, `start` what stands before all:
    // of each lane's column, in every group.
    GR_HD State before(u64 link, State own, State start, Dealt by = {0, 1, 32}) const {
        if constexpr (Anchored) return before_anchored(link, own, start, by);
        State state = start;
        if (link > 0) {
            const Post* from[1] = {singles};
            bool wanted[1] = {active};
            State read[1];
            await_posts<Op, 1>(task.ticket, from, wanted, (u32)link, read);
            state = read[0];
        }
        if (active && by.group == 0 && link + 1 < links) singles->post(Op::combine(state, own), (u32)link + 1);
        return state;
    }
    GR_HD State before_anchored(u64 link, State own, State start, Dealt by) const {
        const bool posts = active && by.group == 0;
        if (posts) singles[link * wide].post(own);
        const u64 stretch = link / LINKS, span = link / SPAN;
        Post* before = spans + span * (LINKS + 1) * wide;
        const State near = fold_posts<Op, batch>(task.ticket, singles + stretch * LINKS * wide, wide, (u32)(link - stretch * LINKS),
                                                 active, Op::identity(), by);
        if (posts && link % LINKS == LINKS - 1) before[(1 + stretch % LINKS) * wide].post(Op::combine(near, own));
        const u32 skip = span > 0 ? 0 : 1;  // nothing is posted before the first span
        State state = fold_posts<Op, batch>(task.ticket, before + skip * wide, wide, (u32)(stretch % LINKS) + 1 - skip, active,
                                            skip ? start : Op::identity(), by);
        state = Op::combine(state, near);
        if (posts && link % SPAN == SPAN - 1) before[(LINKS + 1) * wide].post(Op::combine(state, own));
        return state;
    }
};

const u32 EACH = 8;                    // tiles of a stretch, stretches of a long one, and those of a span
const u32 REACH = EACH * EACH * EACH;  // tiles from one anchor to the next

// Posts of a chain, so many columns each: of tiles; of stretches; and of each span what comes before it, then its long
// stretches but the last. Slots of a kind are read at once.
template <class Op, int Slots> struct DeepChain {
    typedef typename Op::State State;
    typedef Posted<State, 16> Post;
    const Strips& task;
    Post *singles, *stretches, *spans;  // of this lane's column
    u64 wide;
    bool active;  // the lane has a column

    GR_HD DeepChain(const Strips& scan, u64 chain, u32 column, bool has, u64 posts) : task(scan), wide(posts), active(has) {
        const u64 many = task.links / EACH + 1, each = task.links + many + (task.links / REACH + 1) * EACH + 1;
        singles = (Post*)task.states + chain * each * wide + column;
        stretches = singles + task.links * wide;
        spans = stretches + many * wide;
    }

    // A lane's share of posts of one kind that are folded, Slots at a time.
    struct Kind {
        const Post* from;
        u64 wide;
        u32 begin, end, low, high;  // this lane's share; of all, those that there are
        Seen<Post> seen[Slots];
        GR_HD u32 wanted(u32 done) const {
            u32 bits = 0;
#pragma unroll
            for (u32 i = 0; i < Slots; i++) {
                const u32 at = begin + done + i;
                bits |= (u32)(at < end && at >= low && at < high) << i;
            }
            return bits;
        }
        GR_HD const Post* at(u32 place) const { return from + (begin + place) * wide; }
        GR_HD void look(u32 done) {
            const u32 bits = wanted(done);
#pragma unroll
            for (u32 i = 0; i < Slots; i++) {
                seen[i].clear();
                seen[i].look(at(done + i), bits >> i & 1);
            }
        }
        // All lanes of a warp call, after a look at the first ones.
        GR_HD State fold(const u32* ticket, u32 share) {
            State state = Op::identity();
#pragma unroll 1
            for (u32 done = 0;;) {
                const u32 bits = wanted(done);
                await_seen(ticket, seen, bits, [&](u32 i) { return at(done + i); });
#pragma unroll
                for (u32 i = 0; i < Slots; i++)
                    if (bits >> i & 1) state = Op::combine(state, seen[i].state());
                done += Slots;
                if (done >= share) return state;
                look(done);
            }
        }
    };
    // An anchor and long stretches, stretches, single tiles: EACH of each at most. A lane looks for the first of all three at
    // once, since each trip to memory takes a microsecond, and passes on what others wait for as soon as it has it.
    // Called as Chain's.
    GR_HD State before(u64 number, State own, State start, Dealt by = {0, 1, 32}) const {
        const u32 link = (u32)number;
        const bool posts = active && by.group == 0;
        if (posts) singles[link * wide].post(own);
        const u32 near = link % EACH, middle = link / EACH % EACH, far = link / (EACH * EACH) % EACH, span = link / REACH;
        const u32 share = by.share(EACH), begin = by.group * share, end = active ? begin + share : 0;
        Kind tiles = {singles + (link - near) * wide, wide, begin, end, 0, near};
        Kind many = {stretches + (link / EACH - middle) * wide, wide, begin, end, 0, middle};
        Kind more = {spans + span * EACH * wide, wide, begin, end, span > 0 ? 0u : 1u, far + 1};
        tiles.look(0);
        many.look(0);
        more.look(0);
        State behind = by.template all<Op>(tiles.fold(task.ticket, share));
        const bool ends = near == EACH - 1;
        if (posts && ends && middle < EACH - 1) stretches[link / EACH * wide].post(Op::combine(behind, own));
        behind = Op::combine(by.template all<Op>(many.fold(task.ticket, share)), behind);
        Post* const next = spans + (link / (EACH * EACH) + 1) * wide;
        if (posts && ends && middle == EACH - 1 && far < EACH - 1) next->post(Op::combine(behind, own));
        State state = by.template all<Op>(more.fold(task.ticket, share));
        state = Op::combine(span > 0 ? state : Op::combine(start, state), behind);
        if (posts && link % REACH == REACH - 1) next->post(Op::combine(state, own));
        return state;
    }
};

// States made of binary64 numbers, of which a NaN may be any.
template <class Op> struct OfFloats { static const bool yes = false; };
template <class Map> struct OfFloats<Sum<Map, f64>> { static const bool yes = true; };
template <class Map> struct OfFloats<Sum<Map, Twofold>> { static const bool yes = true; };
template <class Op, int Count> struct OfFloats<Several<Op, Count>> : OfFloats<Op> {};

// What tiles post of a state: all of it, or what does not follow from how many elements it is of.
template <class Op> struct Short {
    typedef typename Op::State State, Rest;
    static const bool floats = OfFloats<Op>::yes;
    static GR_HD Rest of(const State& state) { return state; }
    static GR_HD State whole(const Rest& rest, i64) { return rest; }
    static GR_HD i64 count(const State&) { return 0; }
};
template <class T> struct Short<Mean<Value<T, f64>, f64>> {
    typedef Averaged<f64> State;
    typedef f64 Rest;
    static const bool floats = true;
    static GR_HD Rest of(const State& state) { return state.sum; }
    static GR_HD State whole(Rest sum, i64 count) { return {sum, count}; }
    static GR_HD i64 count(const State& state) { return state.count; }
};
template <class Op> struct ShortSpread {
    typedef Moments2<f64> State;
    struct Rest { f64 mean, m2; };
    static const bool floats = true;
    static GR_HD Rest of(const State& state) { return {state.mean, state.m2}; }
    static GR_HD State whole(const Rest& rest, i64 count) { return {(f64)count, rest.mean, rest.m2}; }
    static GR_HD i64 count(const State& state) { return (i64)state.count; }
};
template <> struct Short<Var<f32, false>> : ShortSpread<Var<f32, false>> {};
template <> struct Short<Std<f32, false>> : ShortSpread<Std<f32, false>> {};

// Of a column: elements of a tile, and what those before a link differ by from as many whole tiles.
struct Counts {
    i64 each, offset;
    GR_HD i64 before(u32 link) const {
        const i64 count = link * each + offset;
        return count < 0 ? 0 : count;
    }
};

// Slots: posts of a step that a lane reads; lanes that share a column have room for a stretch together.
template <class Op, int Stretch, int Slots> struct AtOnceChain {
    typedef typename Op::State State;
    typedef Short<Op> Part;
    typedef typename Part::Rest Rest;
    typedef typename Either<Part::floats || sizeof(State) <= 4, Brief<Rest>, Posted<Rest, 16>>::type Post;
    static const u32 LINE = 128 / sizeof(Post);  // columns whose posts fill a line of memory: no two warps write to one
    static const u32 EACH = Stretch, SPAN = EACH * EACH;
    const Strips& task;
    Post *singles, *spans;  // of this lane's column
    u64 wide;
    bool active, posts;  // the lane has a column; and posts its states

    GR_HD AtOnceChain(const Strips& scan, u64 links, u64 chain, u32 column, bool has, bool first, u64 columns)
        : task(scan), wide(columns), active(has), posts(first) {
        const u64 each = links + (links / SPAN + 1) * (EACH + 1);
        singles = (Post*)task.states + chain * each * wide + column;
        spans = singles + links * wide;
    }

    // A lane's share of a step. A post is of the tiles from one link to the next, `hop` further.
    struct Step {
        const Post* from;
        u64 wide;
        u32 wanted, link, hop;
        Counts counts;
        i64 ahead;  // elements that the first post is of besides
        Seen<Post> seen[Slots];
        // An address that is not kept in registers from one poll to the next.
        GR_HD const Post* at(u32 i) const {
            const Post* first = from;
#ifndef GR_EMULATED
            asm volatile("" : "+l"(first));
#endif
            return first + i * wide;
        }
        // Looks for those posts, from `begin` on to below `end`, that there are: from `low` on to below `high`.
        GR_HD Step(const Post* first, u64 apart, u32 begin, u32 end, u32 low, u32 high, u32 first_link, u32 links, Counts of,
                   i64 more)
            : from(first + begin * apart), wide(apart), wanted(0), link(first_link + begin * links), hop(links), counts(of),
              ahead(begin == 0 ? more : 0) {
#pragma unroll
            for (u32 i = 0; i < Slots; i++) wanted |= (u32)(begin + i < end && begin + i >= low && begin + i < high) << i;
#pragma unroll
            for (u32 i = 0; i < Slots; i++) {
                seen[i].clear();
                seen[i].look(at(i), wanted >> i & 1);
            }
        }
        GR_HD i64 count(u32 i) const {
            return counts.before(link + (i + 1) * hop) - counts.before(link + i * hop) + (i == 0 ? ahead : 0);
        }
        // All lanes of a warp call.
        GR_HD State fold(const u32* ticket) {
            await_seen(ticket, seen, wanted, [&](u32 i) { return at(i); });
            State state = Op::identity();
#pragma unroll
            for (u32 i = 0; i < Slots; i++)
                if (wanted >> i & 1) state = Op::combine(state, Part::whole(seen[i].state(), count(i)));
            return state;
        }
    };
    // Called as Chain's.
    GR_HD State before(u64 number, State own, State start, Dealt by, Counts counts) const {
        const u32 link = (u32)number;
        if (posts) singles[link * wide].post(Part::of(own));
        const u32 near = link % EACH, far = link / EACH % EACH, span = link / SPAN;
        const u32 share = by.share(EACH), begin = by.group * share, end = active ? begin + share : 0;
        Post* const anchor = spans + span * (EACH + 1) * wide;  // and behind it the span's stretches
        Step tiles(singles + (link - near) * wide, wide, begin, end, 0, near, link - near, 1, counts, 0);
        // The anchor is of all before the span, which is more than a stretch.
        const u32 first = span * SPAN - EACH;
        const i64 more = span > 0 ? counts.before(first) + Part::count(start) : 0;
        Step stretches(anchor, wide, begin, end, span > 0 ? 0 : 1, far + 1, first, EACH, counts, more);
        const State behind = by.template all<Op>(tiles.fold(task.ticket));
        if (posts && near == EACH - 1 && far < EACH - 1) anchor[(1 + far) * wide].post(Part::of(Op::combine(behind, own)));
        State state = by.template all<Op>(stretches.fold(task.ticket));
        state = Op::combine(span > 0 ? state : Op::combine(start, state), behind);
        if (posts && link % SPAN == SPAN - 1) anchor[(EACH + 1) * wide].post(Part::of(Op::combine(state, own)));
        return state;
    }
};

// Called as Chain, with a lane a column.
template <class Op> struct AtOnceLinks : AtOnceChain<Op, 8, 8> {
    GR_HD AtOnceLinks(const Strips& task, u64 chain, u32 column, bool has, u64 columns)
        : AtOnceChain<Op, 8, 8>(task, task.links, chain, column, has, has, columns) {}
    GR_HD typename Op::State before(u64 link, typename Op::State own, typename Op::State start) const {
        return AtOnceChain<Op, 8, 8>::before(link, own, start, {0, 1, 32}, {0, 0});
    }
};
