// As the chain of chain.cuh with anchors, two steps of Stretch posts, of which a lane has room for all: it looks for both
// steps at once, since each trip to memory takes a microsecond. Posts are short, so that few bytes are read.
#pragma once
#include "beside.cuh"
#include "deep.cuh"
#include "pack.cuh"

// States made of binary64 numbers, of which a NaN may be any.
template <class Op> struct OfFloats { static const bool yes = false; };
template <class Map> struct OfFloats<Sum<Map, f64>> { static const bool yes = true; };
template <class Map> struct OfFloats<Sum<Map, Twofold>> { static const bool yes = true; };
template <class Op, int Count> struct OfFloats<Several<Op, Count>> : OfFloats<Op> {};

// A published state without a mark beside each word: what stands there before is zero, and no word is. Floats are hidden
// (look_back.cuh); beside a word of a small state stands a one.
template <class State> struct __align__(sizeof(State) <= 8 ? 8 : 16) Brief {
    typedef State Value;
    static const int width = sizeof(State) <= 8 ? 1 : 2;
    u64 at[width];

    // One lane calls. Other blocks see the state sooner or later.
    GR_HD void post(State state) {
        Exchanged<State> from(state);
        u64 to[width];
#pragma unroll
        for (int i = 0; i < width; i++) {
            const u64 word = (u64)from.words[(2 * i + 1) % from.count] << 32 | from.words[2 * i];
            to[i] = sizeof(State) <= 4 ? 1ull << 32 | from.words[0] : hidden(word);
        }
        post_words(at, to);
    }
    static GR_HD bool is_there(const u64 (&seen)[width]) { return seen[0] != 0 && seen[width - 1] != 0; }
    static GR_HD State state_of(const u64 (&seen)[width]) {
        Exchanged<State> to;
#pragma unroll
        for (int i = 0; i < to.count; i++)
            to.words[i] = (u32)((sizeof(State) <= 4 ? seen[0] : shown(seen[i / 2])) >> (i % 2 * 32));
        return to.value;
    }
};

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
