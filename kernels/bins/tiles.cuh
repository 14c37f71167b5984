// More groups than threads have room for: multisplit (Ashkiani et al. 2016) of a tile of elements by group in shared
// memory, so that one thread takes in all elements of a group.
#pragma once
#include "../core/shared.cuh"
#include "../core/state.cuh"
#include "../monoid/moments.cuh"
#include "../warp/reduce.cuh"
#include "elements.cuh"
#include "rank.cuh"

// What takes a few elements in behind a state. Where a running value is a state, or begins from one, no two states are merged,
// which takes as long as to take in the elements that a group has in a tile.
template <class Op, class Acc> struct Behind {
    typedef Op Fold;
    typedef typename Op::State State;
    static GR_HD Acc begin(const State&) { return Op::start(); }
    static GR_HD State end(const State& before, const Acc& acc) { return Op::combine(before, Op::settle(acc)); }
};
template <class Op> struct Behind<Op, typename Op::State> {
    typedef Op Fold;
    typedef typename Op::State State;
    static GR_HD State begin(const State& before) { return before; }
    static GR_HD State end(const State&, const State& acc) { return acc; }
};
template <class T> struct BehindMoments {
    typedef PivotMoments<T, 4, false, Moments4> Fold;
    static GR_HD PowerSums<4> begin(const Moments4& before) { return resumed(before); }
    static GR_HD Moments4 end(const Moments4&, const PowerSums<4>& acc) { return Fold::settle(acc); }
};
template <class T, class Acc> struct Behind<Skewness<T>, Acc> : BehindMoments<T> {};
template <class T, class Acc> struct Behind<Kurtosis<T>, Acc> : BehindMoments<T> {};
template <class T, class Acc> struct Behind<CentralMoment<T>, Acc> : BehindMoments<T> {};

// A tile of Tile elements in shared memory, by group, and the states of all groups; so many warps work on it. A thread
// takes Piece elements of a group, at most: where groups have more, others help. Where all lanes of a warp have elements of
// one group, as where labels are sorted, they are not moved, but become a run, a state a warp.
template <class Op, bool Indexed, int Warps, int Tile, int Piece> struct Split {
    typedef typename Op::State State;
    typedef typename Op::In In;
    typedef Behind<Op, typename Op::Acc> Elements;
    typedef typename Elements::Fold Fold;
    static const int more = Tile / Piece;         // pieces of groups behind their first, at most
    static const int runs = Tile / (32 * Warps);  // of a warp, at most
    const u32 groups;
    State *const states, *const extra, *const run_states;
    In* const elements;
    u16* const places;  // of elements in the tile
    u32 *const run_groups, *const run_number, *const has_more;  // the last: whether there are runs, or pieces behind the first
    const Ranks<Warps> ranks;

    GR_HD Split(u32 number)
        : groups(number), states((State*)GR_SHARED), extra(states + number), run_states(extra + more),
          elements((In*)aligned_behind(run_states + Warps * runs)), places((u16*)aligned_behind(elements + Tile)),
          run_groups((u32*)aligned_behind(places + (Indexed ? Tile : 0))), run_number(run_groups + Warps * runs),
          has_more(run_number + Warps), ranks(number, aligned_behind(has_more + 1)) {}

    // What is in no group goes behind all that is in one.
    GR_HD void put(const In& x, u32 group, u32 rank, u32 place) const {
        const u32 at = ranks.place(group, rank);
        elements[at] = x;
        if (Indexed) places[at] = (u16)place;
    }
    // All lanes call. What they have come to of a group in which all their elements were.
    GR_HD void end_run(u32 group, const typename Op::Acc& acc) const {
        const State state = warp_reduce<Op, 32>(Op::settle(acc));
        if (ranks.lane != 0) return;
        const u32 at = ranks.warp * runs + run_number[ranks.warp]++;
        run_states[at] = state;
        run_groups[at] = group;
        *has_more = 1;
    }
    template <class Index> GR_HD State fold(const State& before, u32 from, u32 to, Index index) const {
        auto acc = Elements::begin(before);
        u32 i = from;
        if constexpr (!Indexed) {
#pragma unroll 1
            for (; i + 4 <= to; i += 4) {
                Pack<In, 4> four;
#pragma unroll
                for (int j = 0; j < 4; j++) four.at[j] = elements[i + j];
                Fold::absorb_pack(acc, four, 0, 0);
            }
        }
#pragma unroll 1
        for (; i < to; i++) Fold::absorb(acc, elements[i], Indexed ? index(places[i]) : 0);
        return Elements::end(before, acc);
    }
    // All threads call behind a barrier: takes all elements into the states. A barrier, or two.
    template <class Index> GR_HD void take(Index index) const {
        const u16* const begins = ranks.begins;
        for (u32 k = threadIdx.x; k < groups; k += 32 * Warps) {
            const u32 from = begins[k], end = begins[k + 1], to = from + Piece < end ? from + Piece : end;
            if (from < to) states[k] = fold(states[k], from, to, index);
            if (to < end) *has_more = 1;
        }
        __syncthreads();
        if (*has_more) take_more(index);
    }
    // What is left: pieces of groups behind their first, and runs.
    template <class Index> GR_HD void take_more(Index index) const {
        const u16* const begins = ranks.begins;
        for (u32 e = threadIdx.x; e < begins[groups] / Piece; e += 32 * Warps) {
            u32 low = 0, high = groups;  // pieces behind low's first are numbered from no more than e, high's from more
            while (high - low > 1) {
                const u32 middle = (low + high) / 2;
                if (begins[middle] / Piece <= e) low = middle;
                else high = middle;
            }
            const u32 from = begins[low] + (e - begins[low] / Piece + 1) * Piece, end = begins[low + 1];
            if (from < end) extra[e] = fold(Op::identity(), from, from + Piece < end ? from + Piece : end, index);
        }
        __syncthreads();
        for (u32 k = threadIdx.x; k < groups; k += 32 * Warps) {
            const u32 number = (begins[k + 1] - begins[k] + Piece - 1) / Piece, first = begins[k] / Piece;
            for (u32 i = 1; i < number; i++) states[k] = Op::combine(states[k], extra[first + i - 1]);
        }
        for (u32 w = 0; w < Warps; w++)
            for (u32 at = w * runs; at < w * runs + run_number[w]; at++) {
                const u32 k = run_groups[at];
                if (k % (32 * Warps) == threadIdx.x) states[k] = Op::combine(states[k], run_states[at]);
            }
    }
};

// Grid: rows x splits. Shared: a Split. Writes a state for each block and group, in order.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads, int Piece, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 3) bins_tiles(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    const Split<Op, Indexed, Threads / 32, Threads * Loads * V, Piece> split((u32)task.cells);
    const Share<Op, L, V, Lie> share(task);
    Grouper<L> grouper(task);
    for (u32 k = threadIdx.x; k < split.groups; k += Threads) split.states[k] = Op::identity();
    split.ranks.begin();
    __syncthreads();
    for (u64 begin = share.first; begin < share.last; begin += Threads * Loads) {
        const u32 first = split.ranks.warp * 32 * Loads + split.ranks.lane;  // this thread's slot in the tile
        u32 at[Loads][V];  // the group, and behind it 16 bits for the place in it
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            const u64 slot = begin + first + i * 32;
#pragma unroll
            for (int j = 0; j < V; j++) at[i][j] = split.groups << 16;
            if (slot >= share.last) continue;
            const Pack<L, V> labels = share.labels_of(slot);
#pragma unroll
            for (int j = 0; j < V; j++) at[i][j] = grouper.of(labels.at[j]) << 16;
        }
        Pack<In, V> packs[Loads];
#pragma unroll
        for (int i = 0; i < Loads; i++)
            if (begin + first + i * 32 < share.last) packs[i] = share.elements(begin + first + i * 32);
        split.ranks.clear();
        u32 together = 0;  // a bit for each load of which all lanes' elements are of one group, or of none
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            bool alike = true;
#pragma unroll
            for (int j = 1; j < V; j++) alike = alike && at[i][j] == at[i][0];
            if (are_together(alike ? at[i][0] >> 16 : split.groups + 1 + split.ranks.lane)) {
                together |= 1u << i;
            } else {
#pragma unroll
                for (int j = 0; j < V; j++) at[i][j] |= split.ranks.rank(at[i][j] >> 16, false);
            }
        }
        __syncthreads();
        if (split.ranks.lane == 0) split.run_number[split.ranks.warp] = 0;  // behind a barrier: others have read the last tile's
        if (threadIdx.x == 0) *split.has_more = 0;
        split.ranks.count();
#pragma unroll
        for (int i = 0; i < Loads; i++)
#pragma unroll
            for (int j = 0; j < V; j++)
                if (begin + first + i * 32 < share.last && !(together >> i & 1))
                    split.put(packs[i].at[j], at[i][j] >> 16, at[i][j] & 0xffff, (first + i * 32) * V + j);
        while (together != 0) {  // a run for each group
            u32 run = 0;
            typename Op::Acc acc = Op::start();
#pragma unroll
            for (int i = Loads - 1; i >= 0; i--) run = together >> i & 1 ? at[i][0] >> 16 : run;
#pragma unroll
            for (int i = 0; i < Loads; i++) {
                if (!(together >> i & 1) || at[i][0] >> 16 != run) continue;
                together &= ~(1u << i);
                if (run == split.groups) continue;
#pragma unroll
                for (int j = 0; j < V; j++)
                    Op::absorb(acc, packs[i].at[j], position_of<Indexed>(task, (begin + first + i * 32) * V + j));
            }
            if (run < split.groups) split.end_run(run, acc);
        }
        __syncthreads();
        split.take([&](u32 place) { return position_of<Indexed>(task, begin * V + place); });
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (u64 at = share.rest; at < share.stop; at++) {
            const u32 k = grouper.of(share.label(at));
            if (k < split.groups)
                split.states[k] = Op::combine(split.states[k], lifted<Op>(share.element(at), position_of<Indexed>(task, at)));
        }
    grouper.report(task);
    __syncthreads();
    for (u32 k = threadIdx.x; k < split.groups; k += Threads)
        ((typename Op::State*)task.out)[(u64)blockIdx.x * task.cells + k] = split.states[k];
}
