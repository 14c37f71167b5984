// As the chain of chain.cuh with anchors, in three steps of eight and not two of sixteen, and all of them read at once: where a
// lane has registers for that.
#pragma once
#include "chain.cuh"

const u32 EACH = 8;                    // tiles of a stretch, stretches of a long one, and those of a span
const u32 REACH = EACH * EACH * EACH;  // tiles from one anchor to the next

// A post as it stands in memory, word by word.
template <class Post> struct Seen {
    static const int count = sizeof(Post::at) / 8;
    u64 words[count];
    GR_HD void clear() {
#pragma unroll
        for (int i = 0; i < count; i++) words[i] = 0;
    }
    // Nothing is read that is not wanted.
    GR_HD void look(const Post* post, bool wanted) {
#pragma unroll
        for (int i = 0; i < count; i += Post::width) look_words(post->at + i, *(u64(*)[Post::width])(words + i), wanted);
    }
    GR_HD bool is_there() const { return Post::is_there(words); }
    GR_HD typename Post::Value state() const { return Post::state_of(words); }
};

// All lanes of a warp call. Waits until the posts `at(i)` are there whose bits are in `wanted`.
template <class Post, int Count, class At>
GR_HD void await_seen(const u32* ticket, Seen<Post> (&seen)[Count], u32 wanted, At at) {
    for (u32 spins = 1;; spins++) {
#pragma unroll
        for (int i = 0; i < Count; i++)
            if (seen[i].is_there()) wanted &= ~(1u << i);
        if (!__any_sync(0xffffffffu, wanted)) return;
        if (spins % SPINS == 0) spins = keep_waiting(ticket, spins);
#pragma unroll
        for (int i = 0; i < Count; i++) seen[i].look(at(i), wanted >> i & 1);
    }
}

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
