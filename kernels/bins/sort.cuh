// Positions in the order of their groups, and stable: a radix sort of labels, a digit of a few bits a pass (Satish, Harris
// and Garland 2009). Blocks count the digits of their share; where each share's elements of a digit go is summed up; blocks
// split tiles of their share by digit in shared memory, and write what is of one digit side by side.
//
// base[0].a holds labels in the first pass, and later the keys that the pass before wrote, base[0].b their positions;
// base[1].a how many elements of a digit a share has, [digit][share], and then where they go; base[1].b sums of those of a
// digit. `length` elements, `tiles` tiles, `splits` shares, `chunks` digits, of which `slots` bits to the right are done.
#pragma once
#include "../core/shared.cuh"
#include "elements.cuh"
#include "rank.cuh"

// The key of element `at`: the number of its group, and that of groups for what is in none.
template <class L, bool First, class Keys> GR_HD u32 key_at(const Task<2>& task, u64 at, Keys& keys) {
    if constexpr (First) return keys.of(load_pack<L, 1>(task.base[0].a + at * sizeof(L)).at[0]);
    else return ((const u32*)task.base[0].a)[at];
}

// A block's share, whole tiles: its first element, and the one behind its last. There are fewer than 2^32.
template <int Tile> struct TileShare {
    u32 first, last;
    GR_HD TileShare(const Task<2>& task) {
        const u64 each = (task.tiles + task.splits - 1) / task.splits * Tile, begin = blockIdx.x * each;
        first = (u32)(begin < task.length ? begin : task.length);
        last = (u32)(begin + each < task.length ? begin + each : task.length);
    }
    // Of the tile that begins at an element.
    GR_HD u32 elements(u32 begin) const { return last - begin < Tile ? last - begin : Tile; }
};

// Grid: `splits` blocks. Shared: a word a digit. Adds to sums that are zero, and says of wrong labels.
template <class L, bool First, int Threads, int Items>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_sort_count(const __grid_constant__ Task<2> task) {
    const TileShare<Threads * Items> share(task);
    const u32 digits = (u32)task.chunks, shift = (u32)task.slots;
    u32* const seen = (u32*)GR_SHARED;
    for (u32 d = threadIdx.x; d <= digits; d += Threads) seen[d] = 0;
    __syncthreads();
    Grouper<L> keys(task);
    for (u32 begin = share.first; begin < share.last; begin += Threads * Items) {
        const u32 number = share.elements(begin);
        u32 digit[Items];
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 at = i * Threads + threadIdx.x;
            digit[i] = at < number ? key_at<L, First>(task, begin + at, keys) >> shift & (digits - 1) : digits;
        }
#pragma unroll
        for (int i = 0; i < Items; i++) {
            if (!are_together(digit[i])) atomicAdd(seen + digit[i], 1u);
            else if (threadIdx.x % 32 == 0) atomicAdd(seen + digit[i], 32u);
        }
    }
    if (First) keys.report(task);
    __syncthreads();
    u32 *const counts = (u32*)task.base[1].a, *const sums = (u32*)task.base[1].b;
    for (u32 d = threadIdx.x; d < digits; d += Threads) {
        counts[d * task.splits + blockIdx.x] = seen[d];
        if (seen[d]) atomicAdd(sums + d, seen[d]);
    }
}

// Grid: a block a digit. Shared: a word a warp, and one more.
template <int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_sort_offsets(const __grid_constant__ Task<2> task) {
    u32* const before = (u32*)GR_SHARED + Threads / 32;
    u32* const counts = (u32*)task.base[1].a + blockIdx.x * task.splits;
    if (threadIdx.x == 0) *before = 0;
    __syncthreads();
    u32 smaller = 0;
    for (u32 d = threadIdx.x; d < blockIdx.x; d += Threads) smaller += ((const u32*)task.base[1].b)[d];
    if (smaller) atomicAdd(before, smaller);
    const u32 splits = (u32)task.splits, each = (splits + Threads - 1) / Threads, first = threadIdx.x * each;
    const u32 last = first + each < splits ? first + each : splits;
    u32 own = 0;
    for (u32 i = first; i < last; i++) own += counts[i];
    u32 at = sum_before<Threads / 32>(own, (u32*)GR_SHARED);  // meets at a barrier: all have added to `before`
    at += *before;
    for (u32 i = first; i < last; i++) {
        const u32 count = counts[i];
        counts[i] = at;
        at += count;
    }
}

struct KeyPlace { u32 key, place; };

// Where entry `at` of a tile lies: entries of digits that follow one another, which lie as far apart as each digit has
// elements, are in other banks.
GR_HD u32 swizzled(u32 at) { return at ^ (at >> 5 & 15); }

// Grid: `splits` blocks. Shared: a tile, a word a digit, and Ranks. Writes keys at `out`, their positions at `partials`.
template <class L, bool First, int Threads, int Items>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 4) bins_sort_split(const __grid_constant__ Task<2> task) {
    const TileShare<Threads * Items> share(task);
    const u32 digits = (u32)task.chunks, shift = (u32)task.slots;
    KeyPlace* const tile = (KeyPlace*)GR_SHARED;
    u32* const offsets = (u32*)(tile + Threads * Items);
    const Ranks<Threads / 32> ranks(digits, aligned_behind(offsets + digits));
    for (u32 d = threadIdx.x; d < digits; d += Threads) offsets[d] = ((const u32*)task.base[1].a)[d * task.splits + blockIdx.x];
    ranks.begin();
    __syncthreads();
    Grouper<L> keys(task);
    const u32 lane_first = ranks.warp * 32 * Items + ranks.lane;
    for (u32 begin = share.first; begin < share.last; begin += Threads * Items) {
        const u32 number = share.elements(begin);
        u32 at[Items];  // the digit, and behind it 16 bits for the place among those of the warp
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 mine = lane_first + i * 32;
            at[i] = mine < number ? key_at<L, First>(task, begin + mine, keys) >> shift & (digits - 1) : digits;
        }
        ranks.clear();
#pragma unroll
        for (int i = 0; i < Items; i++) at[i] = at[i] << 16 | ranks.rank(at[i], are_together(at[i]));
        __syncthreads();
        ranks.count();
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 mine = lane_first + i * 32;
            if (mine >= number) continue;
            const u32 key = key_at<L, First>(task, begin + mine, keys);  // once more: registers are for blocks
            const u32 place = First ? begin + mine : ((const u32*)task.base[0].b)[begin + mine];
            tile[swizzled(ranks.place(at[i] >> 16, at[i] & 0xffff))] = {key, place};
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < number; i += Threads) {
            const KeyPlace one = tile[swizzled(i)];
            const u32 digit = one.key >> shift & (digits - 1), to = offsets[digit] + i - ranks.begins[digit];
            ((u32*)task.out)[to] = one.key;
            ((u32*)task.partials)[to] = one.place;
        }
        __syncthreads();
        for (u32 d = threadIdx.x; d < digits; d += Threads) offsets[d] += ranks.begins[d + 1] - ranks.begins[d];
    }
}

// Grid: a thread for each group and one more. Finds where its stretch begins among the sorted keys in base[0].a.
template <int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_sort_starts(const __grid_constant__ Task<2> task) {
    const u64 group = (u64)blockIdx.x * Threads + threadIdx.x;
    if (group > task.cells) return;
    u64 low = 0, high = task.length;
    while (low < high) {
        const u64 middle = (low + high) / 2;
        if (((const u32*)task.base[0].a)[middle] < group) low = middle + 1;
        else high = middle;
    }
    ((u32*)task.out)[group] = (u32)low;
}
