// More groups than threads have room for: a block splits a tile of elements by group in shared memory (multisplit, Ashkiani
// et al. 2016), so that one thread takes in all elements of a group. Within a group they stand in an order that no timing
// changes: a warp's elements behind those of the warps before it, each step's by lane.
#pragma once
#include "../core/shared.cuh"
#include "../core/state.cuh"
#include "../warp/reduce.cuh"
#include "elements.cuh"

// All threads of the block call, Warps of them times 32. The sum of what threads before this one gave. `sums` has a word
// for each warp. One block barrier.
template <int Warps> GR_HD u32 sum_before(u32 own, u32* sums) {
    const u32 lane = threadIdx.x % 32;
    u32 through = own;
    for (int step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(0xffffffffu, through, step, 32);
        if (lane >= step) through += other;
    }
    if (lane == 31) sums[threadIdx.x / 32] = through;
    __syncthreads();
    for (u32 w = 0; w < threadIdx.x / 32; w++) through += sums[w];
    return through - own;
}

// A tile of Tile elements in shared memory, by group, and the states of all groups; so many warps work on it. A thread
// takes Piece elements of a group, at most: where groups have more, others help. Where all lanes of a warp have elements of
// one group, as where labels are sorted, they are not moved, but become a run, a state a warp.
template <class Op, bool Indexed, int Warps, int Tile, int Piece> struct Split {
    typedef typename Op::State State;
    typedef typename Op::In In;
    static const int more = Tile / Piece;  // pieces of groups behind their first, at most
    static const int runs = Tile / (32 * Warps);  // of a warp, at most
    const u32 groups, warp, lane;
    State *const states, *const extra, *const run_states;
    In* const elements;
    u16 *const places, *const counts, *const begins;  // of elements in the tile; [warp][groups + 1]; [groups + 2]
    u32 *const sums, *const run_groups, *const run_number;
    u32* const lanes;  // of a warp whose element is of a group: [warp][groups + 1]

    static GR_HD u8* behind(const void* end) { return (u8*)(((u64)end + 15) / 16 * 16); }
    GR_HD Split(u32 number)
        : groups(number), warp(threadIdx.x / 32), lane(threadIdx.x % 32), states((State*)GR_SHARED), extra(states + number),
          run_states(extra + more), elements((In*)behind(run_states + Warps * runs)), places((u16*)behind(elements + Tile)), counts(places + (Indexed ? Tile : 0)),
          begins(counts + Warps * (number + 1)), sums((u32*)behind(begins + number + 2)), run_groups(sums + Warps),
          run_number(run_groups + Warps * runs), lanes(run_number + Warps) {}

    GR_HD u16* own() const { return counts + warp * (groups + 1); }
    // All lanes call. The place of the caller's element among those of its warp in the group. Lanes of one group find each
    // other by a word of theirs: the instruction that matches keys takes as long as all else here (H200: variances of 100
    // groups 194 us with it, 113 so).
    GR_HD u32 rank(u32 group) const {
        u32* const mine = lanes + warp * (groups + 1) + group;
        atomicOr(mine, 1u << lane);
        __syncwarp();
        const u32 peers = *mine, before = __popc(peers & ((1u << lane) - 1)), there = own()[group];
        __syncwarp();
        if (before == 0) own()[group] = (u16)(there + __popc(peers)), *mine = 0;
        __syncwarp();
        return there + before;
    }
    GR_HD void clear() const {
        for (u32 k = lane; k <= groups; k += 32) own()[k] = 0;
        __syncwarp();
    }
    // All threads call behind a barrier: `counts` becomes what is before each warp's elements in their group, `begins` where
    // groups begin. Two barriers.
    GR_HD void count() const {
        const u32 each = (groups + 32 * Warps) / (32 * Warps), first = threadIdx.x * each;
        const u32 last = first + each < groups + 1 ? first + each : groups + 1;
        u32 own = 0;
        for (u32 k = first; k < last; k++) {
            u32 total = 0;
            for (int w = 0; w < Warps; w++) {
                u16* const count = counts + w * (groups + 1) + k;
                const u32 mine = *count;
                *count = (u16)total;
                total += mine;
            }
            begins[k] = (u16)total;
            own += total;
        }
        u32 begin = sum_before<Warps>(own, sums);
        for (u32 k = first; k < last; k++) {
            const u32 total = begins[k];
            begins[k] = (u16)begin;
            begin += total;
        }
        __syncthreads();
    }
    GR_HD void put(const In& x, u32 group, u32 rank, u32 place) const {
        if (group >= groups) return;
        const u32 at = begins[group] + own()[group] + rank;
        elements[at] = x;
        if (Indexed) places[at] = (u16)place;
    }
    // All lanes call. What they have come to of a group in which all their elements were.
    GR_HD void end_run(u32 group, const typename Op::Acc& acc) const {
        const State state = warp_reduce<Op, 32>(Op::settle(acc));
        if (lane != 0) return;
        const u32 at = warp * runs + run_number[warp]++;
        run_states[at] = state;
        run_groups[at] = group;
    }
    template <class Index> GR_HD State fold(u32 from, u32 to, Index index) const {
        typename Op::Acc acc = Op::start();
        for (u32 i = from; i < to; i++) Op::absorb(acc, elements[i], Indexed ? index(places[i]) : 0);
        return Op::settle(acc);
    }
    // All threads call behind a barrier: takes all elements into the states. One barrier.
    template <class Index> GR_HD void take(Index index) const {
        for (u32 k = threadIdx.x; k < groups; k += 32 * Warps) {
            const u32 from = begins[k], end = begins[k + 1], to = from + Piece < end ? from + Piece : end;
            if (from < to) states[k] = Op::combine(states[k], fold(from, to, index));
        }
        for (u32 e = threadIdx.x; e < begins[groups] / Piece; e += 32 * Warps) {
            u32 low = 0, high = groups;  // pieces behind low's first are numbered from no more than e, high's from more
            while (high - low > 1) {
                const u32 middle = (low + high) / 2;
                if (begins[middle] / Piece <= e) low = middle;
                else high = middle;
            }
            const u32 from = begins[low] + (e - begins[low] / Piece + 1) * Piece, end = begins[low + 1];
            if (from < end) extra[e] = fold(from, from + Piece < end ? from + Piece : end, index);
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
template <class Op, class L, int V, bool Indexed, int Threads, int Loads, int Piece>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 3) bins_tiles(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    const Split<Op, Indexed, Threads / 32, Threads * Loads * V, Piece> split((u32)task.cells);
    const Share<Op, L, V> share(task);
    Grouper<L> grouper(task);
    for (u32 k = threadIdx.x; k < split.groups; k += Threads) split.states[k] = Op::identity();
    for (u32 k = threadIdx.x; k < Threads / 32 * (split.groups + 1); k += Threads) split.lanes[k] = 0;
    __syncthreads();
    for (u64 begin = share.first; begin < share.last; begin += Threads * Loads) {
        const u32 first = split.warp * 32 * Loads + split.lane;  // this thread's slot in the tile
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
        split.clear();
        u32 together = 0;  // a bit for each step in which all lanes are of one group
#pragma unroll
        for (int i = 0; i < Loads; i++)
#pragma unroll
            for (int j = 0; j < V; j++) {
                const u32 group = at[i][j] >> 16, first_group = __shfl_sync(0xffffffffu, group, 0, 32);
                if (first_group < split.groups && __all_sync(0xffffffffu, group == first_group)) together |= 1u << (i * V + j);
                else at[i][j] |= split.rank(group);
            }
        __syncthreads();
        split.count();
        if (split.lane == 0) split.run_number[split.warp] = 0;  // behind a barrier: others have read those of the last tile
        u32 run = split.groups;
        typename Op::Acc acc = Op::start();
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            const u64 slot = begin + first + i * 32;
            const bool is_there = slot < share.last;
            Pack<In, V> x;
            if (is_there) x = share.elements(slot);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const u32 group = at[i][j] >> 16, place = (first + i * 32) * V + j;
                if (together >> (i * V + j) & 1) {
                    if (group != run) {
                        if (run < split.groups) split.end_run(run, acc);
                        run = group;
                        acc = Op::start();
                    }
                    Op::absorb(acc, x.at[j], position_of<Indexed>(task, begin * V + place));
                } else if (is_there) {
                    split.put(x.at[j], group, at[i][j] & 0xffff, place);
                }
            }
        }
        if (run < split.groups) split.end_run(run, acc);
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
