// Where the elements of a tile go that is split by group (multisplit, Ashkiani et al. 2016): each behind those of the groups
// before, of the warps before in its own group, and of the same warp before it, in an order that no timing changes.
#pragma once
#include "../core/shared.cuh"
#include "../core/types.cuh"

// The next multiple of 16 bytes of shared memory: counted from its start, so that the compiler knows that it is shared memory.
GR_HD u8* aligned_behind(const void* end) { return GR_SHARED + ((const u8*)end - GR_SHARED + 15) / 16 * 16; }

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

// All 32 lanes call. Whether all have the same number.
GR_HD bool are_together(u32 number) {
    return __all_sync(0xffffffffu, number == __shfl_sync(0xffffffffu, number, 0, 32));
}

// Numbers of 16 bits of four neighbouring groups, which an access takes together: one by one they took as long as to find the
// elements' places. Their sums stay below 2^16.
struct alignas(8) Quad {
    u32 low, high;
    GR_HD void add(Quad other) {
        low += other.low;
        high += other.high;
    }
    GR_HD u32 sum() const { return (low & 0xffff) + (low >> 16) + (high & 0xffff) + (high >> 16); }
    // What is before each, from `begin` on.
    GR_HD Quad before(u32 begin) const {
        const u32 second = begin + (low & 0xffff), third = second + (low >> 16), fourth = third + (high & 0xffff);
        return {begin | second << 16, third | fourth << 16};
    }
};

// Counts of a tile's elements by group, for a block of so many warps. Group number `groups` is that of elements in none.
template <int Warps> struct Ranks {
    const u32 groups, quads, warp, lane;
    u16 *const counts, *const begins;  // [warp][4 * quads]; where groups begin in the tile: [4 * quads]
    u32 *const sums, *const lanes;     // of each warp; of a warp whose element is of a group: [warp][groups + 1]

    GR_HD Ranks(u32 number, u8* memory)
        : groups(number), quads(number / 4 + 1), warp(threadIdx.x / 32), lane(threadIdx.x % 32), counts((u16*)memory),
          begins(counts + Warps * 4 * quads), sums((u32*)aligned_behind(begins + 4 * quads)), lanes(sums + Warps) {}
    GR_HD u8* end() const { return aligned_behind(lanes + Warps * (groups + 1)); }

    // All threads of the block call before all else, and then meet at a barrier.
    GR_HD void begin() const {
        for (u32 k = threadIdx.x; k < Warps * (groups + 1); k += 32 * Warps) lanes[k] = 0;
    }
    GR_HD u16* own() const { return counts + warp * 4 * quads; }
    // All lanes call, before the first of a tile's elements.
    GR_HD void clear() const {
        for (u32 q = lane; q < quads; q += 32) ((Quad*)own())[q] = Quad();
        __syncwarp();
    }
    // All lanes call. The place of the caller's element among those of its warp in the group. Lanes of one group find each
    // other by a word of theirs: the instruction that matches keys takes as long as all else here (H200: variances of 100
    // groups 194 us with it, 113 so). `together` where all are of one group: they would wait for each other at its word.
    GR_HD u32 rank(u32 group, bool together) const {
        u32 peers = 0xffffffffu;
        u32* const mine = lanes + warp * (groups + 1) + group;
        if (!together) {
            atomicOr(mine, 1u << lane);
            __syncwarp();
            peers = *mine;
        }
        const u32 before = __popc(peers & ((1u << lane) - 1)), there = own()[group];
        __syncwarp();
        if (before == 0) own()[group] = (u16)(there + __popc(peers)), *mine = 0;
        __syncwarp();
        return there + before;
    }
    // Counts of each warp's elements in four groups.
    GR_HD Quad total(u32 quad, Quad (&mine)[Warps]) const {
        Quad total = Quad();
#pragma unroll
        for (int w = 0; w < Warps; w++) total.add(mine[w] = ((const Quad*)counts)[w * quads + quad]);
        return total;
    }
    // All threads call behind a barrier: `counts` becomes where each warp's elements of a group begin in the tile, `begins` where
    // groups do. Two barriers.
    GR_HD void count() const {
        const u32 each = (quads + 32 * Warps - 1) / (32 * Warps), first = threadIdx.x * each;
        const u32 last = first + each < quads ? first + each : quads;
        Quad mine[Warps];
        u32 own = 0;
#pragma unroll 1
        for (u32 q = first; q < last; q++) own += total(q, mine).sum();
        u32 begin = sum_before<Warps>(own, sums);
#pragma unroll 1
        for (u32 q = first; q < last; q++) {
            const Quad number = total(q, mine);
            Quad at = number.before(begin);
            begin += number.sum();
            ((Quad*)begins)[q] = at;
#pragma unroll
            for (int w = 0; w < Warps; w++) {
                ((Quad*)counts)[w * quads + q] = at;
                at.add(mine[w]);
            }
        }
        __syncthreads();
    }
    // Behind count: where an element stands in the tile.
    GR_HD u32 place(u32 group, u32 rank) const { return own()[group] + rank; }
};
