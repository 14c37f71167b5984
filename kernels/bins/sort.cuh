// Positions in the order of their groups: a stable LSD radix sort of labels, a digit of a few bits a pass (Satish,
// Harris and Garland 2009). Blocks count the digits of their share; an exclusive scan of the histograms says where each
// share's elements of a digit go; blocks split tiles of their share by digit in shared memory, and write what is of one
// digit side by side. Few labels are for one block, which does all passes.
#pragma once
#include "../core/shared.cuh"
#include "elements.cuh"
#include "rank.cuh"

// Labels in the first pass, later the keys that the pass before wrote, and their positions.
struct Unsorted { const u8* keys; const u32* places; };

// The key of element `at`: the number of its group, and that of groups for what is in none.
template <class L, bool First, class Keys> GR_HD u32 key_at(const Unsorted& from, u64 at, Keys& keys) {
    if constexpr (First) return keys.of(load_pack<L, 1>(from.keys + at * sizeof(L)).at[0]);
    else return ((const u32*)from.keys)[at];
}

// Of a pass: so many digits, a power of two, and how many bits are done.
struct Digits {
    u32 number, shift;
    GR_HD u32 of(u32 key) const { return key >> shift & (number - 1); }
};

// A block's share, whole tiles: its first element, and the one behind its last. There are fewer than 2^32.
template <int Tile> struct TileShare {
    u32 first, last;
    GR_HD TileShare(u64 length) : first(0), last((u32)length) {}  // all
    GR_HD TileShare(const Task<2>& task) {
        const u64 each = (task.tiles + task.splits - 1) / task.splits * Tile, begin = blockIdx.x * each;
        first = (u32)(begin < task.length ? begin : task.length);
        last = (u32)(begin + each < task.length ? begin + each : task.length);
    }
    // Of the tile that begins at an element.
    GR_HD u32 elements(u32 begin) const { return last - begin < Tile ? last - begin : Tile; }
};

// All threads of the block call: how many elements of each digit a share has, in `seen`, which has a word more than there
// are digits. Two barriers.
template <class L, bool First, int Threads, int Items, class Keys>
GR_HD void count_digits(const Unsorted& from, const TileShare<Threads * Items>& share, Digits digits, u32* seen, Keys& keys) {
    for (u32 d = threadIdx.x; d <= digits.number; d += Threads) seen[d] = 0;
    __syncthreads();
    for (u32 begin = share.first; begin < share.last; begin += Threads * Items) {
        const u32 number = share.elements(begin);
        u32 digit[Items];
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 at = i * Threads + threadIdx.x;
            digit[i] = at < number ? digits.of(key_at<L, First>(from, begin + at, keys)) : digits.number;
        }
#pragma unroll
        for (int i = 0; i < Items; i++) {
            if (!are_together(digit[i])) atomicAdd(seen + digit[i], 1u);
            else if (threadIdx.x % 32 == 0) atomicAdd(seen + digit[i], 32u);
        }
    }
    __syncthreads();
}

struct KeyPlace { u32 key, place; };

// Where entry `at` of a tile lies: entries of digits that follow one another, which lie as far apart as each digit has
// elements, are in other banks.
GR_HD u32 swizzled(u32 at) { return at ^ (at >> 5 & 15); }

// Shared memory of a block that splits tiles: a tile, where the next element of each digit goes, and Ranks.
template <int Threads, int Items> struct TileMemory {
    KeyPlace* const tile;
    u32* const offsets;
    const Ranks<Threads / 32> ranks;
    GR_HD TileMemory(u32 digits)
        : tile((KeyPlace*)GR_SHARED), offsets((u32*)(tile + Threads * Items)), ranks(digits, aligned_behind(offsets + digits)) {}
};

// All threads of the block call, behind offsets that are set, and a barrier behind ranks that are begun: writes the keys of a
// share, and their positions, behind those of smaller digits. Barriers, one behind the last that it writes.
template <class L, bool First, int Threads, int Items, class Keys>
GR_HD void split_tiles(const Unsorted& from, const TileShare<Threads * Items>& share, Digits digits,
                       const TileMemory<Threads, Items>& memory, Keys& keys, u32* to_keys, u32* to_places) {
    const int Again = Items % 8 ? Items : 8;  // loads in flight
    const auto& ranks = memory.ranks;
    const u32 lane_first = ranks.warp * 32 * Items + ranks.lane;
    for (u32 begin = share.first; begin < share.last; begin += Threads * Items) {
        const u32 number = share.elements(begin);
        u32 at[Items];  // the digit, and behind it 16 bits for the place among those of the warp
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 mine = lane_first + i * 32;
            at[i] = mine < number ? digits.of(key_at<L, First>(from, begin + mine, keys)) : digits.number;
        }
        ranks.clear();
#pragma unroll
        for (int i = 0; i < Items; i++) at[i] = at[i] << 16 | ranks.rank(at[i], are_together(at[i]));
        __syncthreads();
        ranks.count();
#pragma unroll
        for (int first = 0; first < Items; first += Again) {  // once more: there are registers for a few at a time
            KeyPlace some[Again];
#pragma unroll
            for (int i = 0; i < Again; i++) {
                const u32 mine = lane_first + (first + i) * 32;
                if (mine >= number) continue;
                some[i].key = key_at<L, First>(from, begin + mine, keys);
                some[i].place = First ? begin + mine : from.places[begin + mine];
            }
#pragma unroll
            for (int i = 0; i < Again; i++) {
                const u32 put = at[first + i];
                if (lane_first + (first + i) * 32 < number) memory.tile[swizzled(ranks.place(put >> 16, put & 0xffff))] = some[i];
            }
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < number; i += Threads) {
            const KeyPlace one = memory.tile[swizzled(i)];
            const u32 digit = digits.of(one.key), to = memory.offsets[digit] + i - ranks.begins[digit];
            to_keys[to] = one.key;
            to_places[to] = one.place;
        }
        __syncthreads();
        for (u32 d = threadIdx.x; d < digits.number; d += Threads) memory.offsets[d] += ranks.begins[d + 1] - ranks.begins[d];
    }
}

// The first of sorted keys that is no less than a group.
GR_HD u32 find_start(const u32* keys, u64 length, u64 group) {
    u64 low = 0, high = length;
    while (low < high) {
        const u64 middle = (low + high) / 2;
        if (keys[middle] < group) low = middle + 1;
        else high = middle;
    }
    return (u32)low;
}

// Kernels of a pass: base[0] is an Unsorted; base[1].a how many elements of a digit a share has, [digit][share], and then where
// they go; base[1].b sums of those of a digit. `length` elements, `tiles` tiles, `splits` shares, `chunks` digits, of which `slots`
// bits to the right are done.

GR_HD Unsorted unsorted_of(const Task<2>& task) { return {task.base[0].a, (const u32*)task.base[0].b}; }
GR_HD Digits digits_of(const Task<2>& task) { return {(u32)task.chunks, (u32)task.slots}; }

// Grid: `splits` blocks. Shared: a word a digit, and one more. Adds to sums that are zero, and says of wrong labels.
template <class L, bool First, int Threads, int Items>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_sort_count(const __grid_constant__ Task<2> task) {
    const Digits digits = digits_of(task);
    u32* const seen = (u32*)GR_SHARED;
    Grouper<L> keys(task);
    count_digits<L, First, Threads, Items>(unsorted_of(task), TileShare<Threads * Items>(task), digits, seen, keys);
    if (First) keys.report(task);
    u32 *const counts = (u32*)task.base[1].a, *const sums = (u32*)task.base[1].b;
    for (u32 d = threadIdx.x; d < digits.number; d += Threads) {
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

// Grid: `splits` blocks. Shared: a TileMemory. Writes keys at `out`, their positions at `partials`.
template <class L, bool First, int Threads, int Items>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 4) bins_sort_split(const __grid_constant__ Task<2> task) {
    const Digits digits = digits_of(task);
    const TileMemory<Threads, Items> memory(digits.number);
    for (u32 d = threadIdx.x; d < digits.number; d += Threads)
        memory.offsets[d] = ((const u32*)task.base[1].a)[d * task.splits + blockIdx.x];
    memory.ranks.begin();
    __syncthreads();
    Grouper<L> keys(task);
    split_tiles<L, First, Threads, Items>(unsorted_of(task), TileShare<Threads * Items>(task), digits, memory, keys,
                                          (u32*)task.out, (u32*)task.partials);
}

// Grid: a thread for each group and one more. Finds where its stretch begins among the sorted keys in base[0].a.
template <int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_sort_starts(const __grid_constant__ Task<2> task) {
    const u64 group = (u64)blockIdx.x * Threads + threadIdx.x;
    if (group <= task.cells) ((u32*)task.out)[group] = find_start((const u32*)task.base[0].a, task.length, group);
}

// One block sorts few labels, those at base[0].a: `runs` passes of `slots` bits, of which digits are `chunks`. Shared: a
// TileMemory, and a word more than digits. Writes positions at `out` and at base[1].a where stretches begin; `partials` has room
// for keys twice, and for positions.
template <class L, int Threads, int Items>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_sort_block(const __grid_constant__ Task<2> task) {
    const TileShare<Threads * Items> all(task.length);
    const TileMemory<Threads, Items> memory((u32)task.chunks);
    u32* const seen = (u32*)memory.ranks.end();
    u32 *const scratch = (u32*)task.partials, *const spare = scratch + 2 * task.length;
    Unsorted from = {task.base[0].a, nullptr};
    Grouper<L> keys(task);
    memory.ranks.begin();
    for (u32 pass = 0; pass < task.runs; pass++) {
        const Digits digits = {(u32)task.chunks, pass * (u32)task.slots};
        if (pass == 0) count_digits<L, true, Threads, Items>(from, all, digits, seen, keys);
        else count_digits<L, false, Threads, Items>(from, all, digits, seen, keys);
        const u32 each = (digits.number + Threads - 1) / Threads, first = threadIdx.x * each;
        const u32 last = first + each < digits.number ? first + each : digits.number;
        u32 own = 0;
        for (u32 d = first; d < last; d++) own += seen[d];
        u32 at = sum_before<Threads / 32>(own, memory.ranks.sums);
        for (u32 d = first; d < last; d++) {
            memory.offsets[d] = at;
            at += seen[d];
        }
        const bool is_odd = (task.runs - pass) % 2;  // the last pass, the one two before it, and so on: between them the others read
        u32 *const to_keys = scratch + (is_odd ? 0 : task.length), *const to_places = is_odd ? (u32*)task.out : spare;
        if (pass == 0) split_tiles<L, true, Threads, Items>(from, all, digits, memory, keys, to_keys, to_places);
        else split_tiles<L, false, Threads, Items>(from, all, digits, memory, keys, to_keys, to_places);
        from = {(const u8*)to_keys, to_places};
    }
    keys.report(task);
    for (u64 group = threadIdx.x; group <= task.cells; group += Threads)
        ((u32*)task.base[1].a)[group] = find_start((const u32*)from.keys, task.length, group);
}
