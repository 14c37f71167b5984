// A warp's share of a tile in shared memory: 32 runs of neighbouring elements, a run a lane. How it is copied, read and written,
// and warps that take shares one after another.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/scan_task.cuh"
#include "../core/task.cuh"
#include "../core/types.cuh"

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

// So many threads call, with their numbers. Calls whole(byte) for each pack of 16 bytes where all are, else edge(byte).
template <int Threads, int Unroll, class Whole, class Edge>
GR_HD void for_each_pack(u32 thread, u32 bytes, bool all, Whole whole, Edge edge) {
    if (all) {
#pragma unroll Unroll
        for (u32 at = thread * 16; at < bytes; at += Threads * 16) whole(at);
        return;
    }
#pragma unroll 1
    for (u32 at = thread * 16; at < bytes; at += Threads * 16) edge(at);
}
GR_HD void copy_bytes(u8* to, const u8* from, u32 at, u32 low, u32 high) {
#pragma unroll 1
    for (u32 byte = at; byte < at + 16; byte++)
        if (byte >= low && byte < high) to[byte] = from[byte];
}
// A place counted from a share's begin, where it is in the share, else the end that is nearest to it.
GR_HD u32 within(i64 place, u32 end) { return place < 0 ? 0 : place < end ? (u32)place : end; }
// Copies packs, the first of which is aligned, to shared memory: bytes from `low` to below `high`, counted from the first pack's,
// are in the array, and those behind them become zeros.
template <int Threads, int Unroll>
GR_HD void fetch_packs(u8* to, const u8* from, u32 thread, u32 bytes, u32 low, u32 high) {
    for_each_pack<Threads, Unroll>(thread, bytes, low == 0 && high == bytes, [&](u32 at) { copy_async(to + at, from + at); },
        [&](u32 at) {
            if (at >= low) copy_async_part(to + at, from + at, at + 16 <= high ? 16 : at < high ? high - at : 0);
            else copy_bytes(to, from, at, low, high);
        });
}
// The same out of shared memory.
template <int Threads, int Unroll>
GR_HD void drain_packs(const u8* from, u8* to, u32 thread, u32 bytes, u32 low, u32 high) {
    const auto whole = [&](u32 at) { __stcs((uint4*)(to + at), *(const uint4*)(from + at)); };
    for_each_pack<Threads, Unroll>(thread, bytes, low == 0 && high == bytes, whole, [&](u32 at) {
        if (at >= low && at + 16 <= high) whole(at);
        else copy_bytes(to, from, at, low, high);
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

// All lanes of a warp call, each warp for its own shares of a scan. Work says how a share is fetched into one of two stages,
// scanned there and drained. The next one is on its way into shared memory meanwhile. No block barrier.
template <class Work> GR_HD void for_each_share(const Work& work, u64 shares) {
    const u64 all = (u64)gridDim.x * Work::warps;
    u64 share = (u64)blockIdx.x * Work::warps + threadIdx.x / 32;
    if (share < shares) work.fetch(share, 0);
    commit_copies();
    for (u32 stage = 0; share < shares; share += all, stage ^= 1) {
        if (share + all < shares) work.fetch(share + all, stage ^ 1);
        commit_copies();
        wait_copies<1>();
        __syncwarp();
        work.walk(share, stage);
        __syncwarp();
        work.drain(share, stage);
        __syncwarp();
    }
}

// Grid: any number of blocks.
template <class Work>
__global__ void __launch_bounds__(32 * Work::warps, GR_BLOCKS) scan_shares(const __grid_constant__ SmallLines task) {
    const Work work(task);
    work.prepare();  // all threads of the block
    for_each_share(work, task.tiles);
}
