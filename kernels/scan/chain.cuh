// What comes before a tile of a strip of columns, a lane a column: from the tile before it where chains are many, so that
// it is long done; else from an anchor, whole stretches and single tiles (look_back.cuh). Either way states are folded in
// one order whatever the timing.
#pragma once
#include "look_back.cuh"

const u64 LINKS = 16;            // tiles of a stretch
const u64 SPAN = LINKS * LINKS;  // tiles from one anchor to the next

// All lanes of a warp call, the active ones with addresses of posts. Loads all before any is waited for.
template <class Op, int Count, class Post>
GR_HD void await_posts(const u32* ticket, const Post* const (&from)[Count], bool (&wanted)[Count], u32 mark,
                       typename Op::State (&read)[Count]) {
    bool there[Count], all = true;
#pragma unroll
    for (int i = 0; i < Count; i++) {
        there[i] = from[i]->read(read[i], mark) || !wanted[i];
        all = all && there[i];
    }
    for (u32 spins = 1; !__all_sync(0xffffffffu, all); spins++) {
        if (spins % SPINS == 0) spins = keep_waiting(ticket, spins);
        all = true;
#pragma unroll
        for (int i = 0; i < Count; i++) {
            if (!there[i]) there[i] = from[i]->read(read[i], mark);
            all = all && there[i];
        }
    }
}

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
