// What comes before a tile of a strip of columns, a lane a column: from the tile before it where chains are many, so that
// it is long done; else from an anchor, whole stretches and single tiles (look_back.cuh). Either way states are folded in
// one order whatever the timing.
#pragma once
#include "look_back.cuh"

const u64 LINKS = 16;            // tiles of a stretch
const u64 SPAN = LINKS * LINKS;  // tiles from one anchor to the next

// All lanes of a warp call, the active ones with addresses of posts. Loads all before any is waited for.
template <class Op, int Count, class Post>
GR_HD void await_posts(const Post* const (&from)[Count], bool (&wanted)[Count], u32 mark, typename Op::State (&read)[Count]) {
    bool there[Count], all = true;
#pragma unroll
    for (int i = 0; i < Count; i++) {
        there[i] = from[i]->read(read[i], mark) || !wanted[i];
        all = all && there[i];
    }
    for (u32 spins = 0; !__all_sync(0xffffffffu, all); spins++) {
        if (spins == SPINS) __trap();
        all = true;
#pragma unroll
        for (int i = 0; i < Count; i++) {
            if (!there[i]) there[i] = from[i]->read(read[i], mark);
            all = all && there[i];
        }
    }
}

// Folds `count` posts, `stride` apart, onto a state, left to right. All lanes of a warp call with the same count.
template <class Op, class Post>
GR_HD typename Op::State fold_posts(const Post* from, u64 stride, u32 count, bool active, typename Op::State state) {
    const int Batch = alignof(typename Op::State) < 4 ? (sizeof(typename Op::State) > 2 ? 4 : 2) : Post::vectors <= 2 ? 8 : 4;
    for (u32 at = 0; at < count; at += Batch) {
        const Post* posts[Batch];
        bool wanted[Batch];
        typename Op::State read[Batch];
#pragma unroll
        for (int i = 0; i < Batch; i++) {
            wanted[i] = active && at + i < count;
            posts[i] = from + (at + i < count ? at + i : at) * stride;
        }
        await_posts<Op, Batch>(posts, wanted, 1, read);
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (wanted[i]) state = Op::combine(state, read[i]);
    }
    return state;
}

// Posts of a chain, `Wide` columns each: of tiles; and of each span what comes before it, then its stretches. Of chains
// without anchors one each, written again and again: only the tile that comes next reads it, and writes it next.
template <class Op, int Wide, bool Anchored> struct Chain {
    typedef typename Op::State State;
    typedef Posted<State, 16> Post;
    Post *singles, *spans;  // of this lane's column
    u64 links;
    bool active;  // the lane has a column

    GR_HD Chain(const Strips& task, u64 chain, u32 column, bool has) : links(task.links), active(has) {
        const u64 each = Anchored ? links + (links / SPAN + 1) * (LINKS + 1) : 1;
        singles = (Post*)task.states + chain * each * Wide + column;
        spans = singles + links * Wide;
    }

    // All lanes of a warp call. What comes before tile `link`; `own` is that tile's state, `start` what stands before all.
    GR_HD State before(u64 link, State own, State start) const {
        if constexpr (Anchored) return before_anchored(link, own, start);
        State state = start;
        if (link > 0) {
            const Post* from[1] = {singles};
            bool wanted[1] = {active};
            State read[1];
            await_posts<Op, 1>(from, wanted, (u32)link, read);
            state = read[0];
        }
        if (active && link + 1 < links) singles->post(Op::combine(state, own), (u32)link + 1);
        return state;
    }
    GR_HD State before_anchored(u64 link, State own, State start) const {
        if (active) singles[link * Wide].post(own);
        const u64 stretch = link / LINKS, span = link / SPAN;
        Post* before = spans + span * (LINKS + 1) * Wide;
        const State near = fold_posts<Op>(singles + stretch * LINKS * Wide, Wide, (u32)(link - stretch * LINKS), active,
                                          Op::identity());
        if (active && link % LINKS == LINKS - 1) before[(1 + stretch % LINKS) * Wide].post(Op::combine(near, own));
        const u32 skip = span > 0 ? 0 : 1;  // nothing is posted before the first span
        State state = fold_posts<Op>(before + skip * Wide, Wide, (u32)(stretch % LINKS) + 1 - skip, active,
                                     skip ? start : Op::identity());
        state = Op::combine(state, near);
        if (active && link % SPAN == SPAN - 1) before[(LINKS + 1) * Wide].post(Op::combine(state, own));
        return state;
    }
};
