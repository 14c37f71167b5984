// Histograms: elements and the edges of the bins that they fall in, as numpy.histogram finds these. Bins are closed at
// their left, the last one at its right too.
//
// `partials` are the `cells` + 1 edges. Chunk c lies together: base[c].a is its first element, base[c].index its size.
#pragma once
#include "../core/line.cuh"
#include "../core/shared.cuh"
#include "../core/task.cuh"

// The bin of an element, or the number of bins where it is in none. `Even` bins, of one width, are guessed by division
// and put right by the edges on either side, as NumPy does; others are looked up by halves.
template <class In, class E, bool Even> struct Finder {
    const E* edges;
    u32 bins;
    GR_HD u32 of(In x) const {
        const E value = cast<E>(x), low = edges[0], high = edges[bins];
        if (!(value >= low && value <= high)) return bins;
        const u32 last = bins - 1;
        if constexpr (Even) {
            const E guess = (value - low) / (high - low) * (E)bins;
            u32 at = guess < (E)last ? (u32)guess : last;
            if (value < edges[at]) at--;
            if (at != last && value >= edges[at + 1]) at++;
            return at;
        } else {
            u32 at = 0;
            for (u32 step = 0x80000000u >> __clz((int)bins); step; step >>= 1)
                if (at + step <= last && edges[at + step] <= value) at += step;
            return at;
        }
    }
};

// Adds to `out`, of u64, how many elements of all `chunks` lie in each bin. Blocks share each chunk's tiles, and take
// their turns where the chunk before has ended, so that small chunks keep them busy, too. Shared: the edges, and a u32
// for each bin.
template <class In, class E, int V, bool Even, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_histogram(const __grid_constant__ Task<120> task) {
    const u32 bins = (u32)task.cells;
    E* edges = (E*)GR_SHARED;
    u32* counts = (u32*)(edges + bins + 1);
    for (u32 i = threadIdx.x; i <= bins; i += Threads) edges[i] = ((const E*)task.partials)[i];
    for (u32 i = threadIdx.x; i < bins; i += Threads) counts[i] = 0;
    __syncthreads();
    const Finder<In, E, Even> finder = {edges, bins};
    auto count = [&](In x) {
        const u32 bin = finder.of(x);
        if (bin < bins) atomicAdd(counts + bin, 1u);
    };
    u32 turn = blockIdx.x;
    for (u64 c = 0; c < task.chunks; c++) {
        const u8* from = task.base[c].a;
        const u64 length = (u64)task.base[c].index, slots = length / V;
        const u64 tiles = (slots + Threads * Loads - 1) / (Threads * Loads);
        for (u64 tile = turn; tile < tiles; tile += gridDim.x) {
            Pack<In, V> x[Loads];
            const u64 slot = tile * Threads * Loads + threadIdx.x;
#pragma unroll
            for (int i = 0; i < Loads; i++)
                if (slot + i * Threads < slots) x[i] = load_pack<In, V>(from + (slot + i * Threads) * V * sizeof(In));
#pragma unroll
            for (int i = 0; i < Loads; i++) {
                if (slot + i * Threads >= slots) continue;
#pragma unroll
                for (int j = 0; j < V; j++) count(x[i].at[j]);
            }
        }
        if (turn == 0)
            for (u64 at = slots * V + threadIdx.x; at < length; at += Threads)
                count(load_pack<In, 1>(from + at * sizeof(In)).at[0]);
        turn = (u32)((turn + gridDim.x - tiles % gridDim.x) % gridDim.x);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < bins; i += Threads)
        if (counts[i]) atomicAdd((u64*)task.out + i, (u64)counts[i]);
}

// Writes each element's bin to `out`, of i32, -1 for none.
template <class In, class E, bool Even, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_codes(const __grid_constant__ Task<2> task) {
    const Finder<In, E, Even> finder = {(const E*)task.partials, (u32)task.cells};
    for (u64 at = (u64)blockIdx.x * Threads + threadIdx.x; at < task.length; at += (u64)gridDim.x * Threads) {
        const u32 bin = finder.of(load_pack<In, 1>(task.base[0].a + at * sizeof(In)).at[0]);
        ((i32*)task.out)[at] = bin < finder.bins ? (i32)bin : -1;
    }
}
