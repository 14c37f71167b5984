// A warp's share of a tile in shared memory: 32 runs of neighbouring elements, a run a lane. How it is copied, read and written,
// and warps that take shares one after another.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/scan_task.cuh"

// Run packs a lane: odd, so that the lanes' packs lie in different banks. A pack of the largest type is 16 bytes.
template <class In, class Out, int Run> struct WarpShare {
    static_assert(Run % 2 == 1, "an even number of packs would lie in few banks");
    static const int size_a = Reader<In>::size_a, size_b = Reader<In>::size_b, size_out = sizeof(Out);
    static const int widest = size_a > size_b ? (size_a > size_out ? size_a : size_out) : (size_b > size_out ? size_b : size_out);
    static const int V = 16 / widest;      // elements of a pack
    static const int run = Run * V;        // of a lane
    static const int elements = 32 * run;  // of a warp
    static const int bytes_a = elements * size_a, bytes_b = elements * size_b, bytes_out = elements * size_out;
    static const bool in_place = size_out == size_a;  // a lane's results take the place of its elements
};

// All lanes of a warp call, for the packs of 16 bytes of elements [first, first + Elements), of which those from `low` to below
// `high` exist. Calls whole(byte) for each pack where all do, else part(byte, the pack's first element).
template <int Elements, int Size, class Whole, class Part>
GR_HD void each_pack(i64 first, i64 low, i64 high, const Whole& whole, const Part& part) {
    const int packs = Elements * Size / 16, lane = threadIdx.x % 32;
    if (first >= low && first + Elements <= high) {
#pragma unroll
        for (int k = 0; k < (packs + 31) / 32; k++)
            if (packs % 32 == 0 || k * 32 + lane < packs) whole((k * 32 + lane) * 16);
        return;
    }
#pragma unroll 1
    for (int pack = lane; pack < packs; pack += 32) part(pack * 16, first + pack * (16 / Size));
}
// Copies the bytes of a pack's elements that exist, one by one.
template <int Size> GR_HD void copy_bytes(u8* to, const u8* from, i64 first, i64 low, i64 high) {
#pragma unroll 1
    for (int byte = 0; byte < 16; byte++)
        if (first + byte / Size >= low && first + byte / Size < high) to[byte] = from[byte];
}
// All lanes of a warp call. Copies such packs, the first of which is aligned, into shared memory, and out of it.
template <int Elements, int Size> GR_HD void fetch_packs(u8* to, const u8* base, i64 first, i64 low, i64 high) {
    const u8* const from = base + first * Size;
    const auto whole = [=](int at) { copy_async(to + at, from + at); };
    each_pack<Elements, Size>(first, low, high, whole, [=](int at, i64 element) {
        const i64 left = (high - element) * Size;
        if (element >= low) copy_async_part(to + at, from + at, left > 16 ? 16 : left > 0 ? (u32)left : 0);
        else copy_bytes<Size>(to + at, from + at, element, low, high);
    });
}
template <int Elements, int Size> GR_HD void drain_packs(const u8* from, u8* base, i64 first, i64 low, i64 high) {
    u8* const to = base + first * Size;
    const auto whole = [=](int at) { __stcs((uint4*)(to + at), *(const uint4*)(from + at)); };
    each_pack<Elements, Size>(first, low, high, whole, [=](int at, i64 element) {
        if (element >= low && element + 16 / Size <= high) whole(at);
        else copy_bytes<Size>(to + at, from + at, element, low, high);
    });
}

// A pack of V elements in shared memory, read and written by one access.
template <class T, int V> union Shared {
    typedef typename Word<(V * sizeof(T) > 16 ? 16 : V * sizeof(T))>::type W;
    W word;
    Pack<T, V> pack;
    GR_HD Shared() {}
};
template <class T, int V> GR_HD Pack<T, V> take_pack(const u8* from) {
    Shared<T, V> both;
    both.word = *(const typename Shared<T, V>::W*)from;
    return both.pack;
}
template <class T, int V> GR_HD void put_pack(u8* to, const Pack<T, V>& pack) {
    Shared<T, V> both;
    both.pack = pack;
    *(typename Shared<T, V>::W*)to = both.word;
}
// A pack of the operands: of two, pairs of their elements.
template <class In, int V> struct PackReader {
    static GR_HD Pack<In, V> of(const u8* a, const u8*, int at) { return take_pack<In, V>(a + at * (int)sizeof(In)); }
};
template <class A, class B, int V> struct PackReader<Pair<A, B>, V> {
    static GR_HD Pack<Pair<A, B>, V> of(const u8* a, const u8* b, int at) {
        const Pack<A, V> left = take_pack<A, V>(a + at * (int)sizeof(A));
        const Pack<B, V> right = take_pack<B, V>(b + at * (int)sizeof(B));
        Pack<Pair<A, B>, V> both;
#pragma unroll
        for (int j = 0; j < V; j++) both.at[j] = {left.at[j], right.at[j]};
        return both;
    }
};

// A line's bytes in shared memory, at the same address modulo 16 as in memory.
template <int Size, int Lanes = 32> struct StagedLine {
    u32 lead, bytes;  // bytes before the line; those up to its end
    GR_HD StagedLine(const void* line, u32 length) : lead((u32)((u64)line % 16)), bytes(lead + length * Size) {}

    // All lanes of a sub-warp call. Nothing before `lowest` is read, even in the line's first pack.
    GR_HD void fetch(u8* to, const u8* line, const u8* lowest) const {
        const u32 place = threadIdx.x % Lanes;
        const u8* from = line - lead;
        const bool whole = lead == 0 || from >= lowest;
#pragma unroll 4
        for (u32 at = place * 16; at < bytes; at += Lanes * 16) {
            if (at == 0 && !whole) continue;
            if (bytes - at >= 16) copy_async(to + at, from + at);
            else copy_async_part(to + at, from + at, bytes - at);
        }
        if (whole) return;
#pragma unroll 1
        for (u32 at = lead + place * Size; at < 16 && at < bytes; at += Lanes * Size) {
            if constexpr (Size >= 4) copy_async<(Size < 16 ? Size : 16)>(to + at, from + at);
            else *(typename Word<Size>::type*)(to + at) = *(const typename Word<Size>::type*)(from + at);
        }
    }
    GR_HD void drain(const u8* from, u8* line) const {
        typedef typename Word<Size>::type W;
        const u32 place = threadIdx.x % Lanes, end = bytes / 16 * 16;
        u8* to = line - lead;
#pragma unroll 4
        for (u32 at = place * 16; at < end; at += Lanes * 16)
            if (at >= lead) __stcs((uint4*)(to + at), *(const uint4*)(from + at));
        if (lead || end == 0)
#pragma unroll 1
            for (u32 at = lead + place * Size; at < 16 && at < bytes; at += Lanes * Size)
                __stcs((W*)(to + at), *(const W*)(from + at));
        if (end)
#pragma unroll 1
            for (u32 at = end + place * Size; at < bytes; at += Lanes * Size) __stcs((W*)(to + at), *(const W*)(from + at));
    }
};

// A Work that has nothing to prepare.
template <int Warps, class ScanTask = Scan> struct ShareWork {
    typedef ScanTask Task;
    static const int warps = Warps;
    GR_HD void prepare() const {}  // all threads of the block call, before all else
};

// Grid: any number of blocks. Each warp takes shares of its own. Work says how a share is fetched into a stage, scanned there
// and drained, and how many are on their way into shared memory meanwhile (`ahead`).
template <class Work>
__global__ void __launch_bounds__(32 * Work::warps, 1) scan_shares(const __grid_constant__ typename Work::Task task) {
    const Work work(task);
    work.prepare();
    const u64 all = (u64)gridDim.x * Work::warps, shares = task.tiles;
    u64 share = (u64)blockIdx.x * Work::warps + threadIdx.x / 32;
    const u32 ahead = Work::ahead;
    u64 next = share;  // that is fetched next, at one place: code that runs for the first time is read from memory
#pragma unroll 1
    for (u32 round = 0, stage = 0; round < ahead || share < shares; round++, next += all) {
        if (next < shares) work.fetch(next, stage);  // into the stage that was drained last
        commit_copies();
        stage = stage == ahead ? 0 : stage + 1;
        if (round < ahead) continue;
        wait_copies<Work::ahead>();
        __syncwarp();
        work.walk(share, stage);
        __syncwarp();
        work.drain(share, stage);
        __syncwarp();
        share += all;
    }
}
