// The ceilings of a GPU's memory: how fast it reads, copies, and does both in other proportions. Yardsticks, not
// algorithms.
#pragma once
#include "../core/pack.cuh"

// Reads `count` 16-byte words, four in flight a thread, and writes a word a block so that nothing is optimised away.
template <int Threads, int Items>
__global__ void __launch_bounds__(Threads) read_all(const uint4* from, u64 count, u32* out) {
    u32 seen = 0;
    const u64 stride = (u64)gridDim.x * Threads * Items;
    for (u64 i = (u64)blockIdx.x * Threads * Items + threadIdx.x; i < count; i += stride) {
        uint4 word[Items];
#pragma unroll
        for (int k = 0; k < Items; k++) word[k] = i + k * Threads < count ? __ldcs(from + i + k * Threads) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < Items; k++) seen ^= word[k].x ^ word[k].y ^ word[k].z ^ word[k].w;
    }
    if (seen == 0x9e3779b9u) out[blockIdx.x] = seen;
}

// Copies `count` 16-byte words.
template <int Threads, int Items>
__global__ void __launch_bounds__(Threads) copy_all(const uint4* from, u64 count, uint4* out) {
    const u64 stride = (u64)gridDim.x * Threads * Items;
    for (u64 i = (u64)blockIdx.x * Threads * Items + threadIdx.x; i < count; i += stride) {
        uint4 word[Items];
#pragma unroll
        for (int k = 0; k < Items; k++) if (i + k * Threads < count) word[k] = __ldcs(from + i + k * Threads);
#pragma unroll
        for (int k = 0; k < Items; k++) if (i + k * Threads < count) __stcs(out + i + k * Threads, word[k]);
    }
}

// Of every Reads 16-byte words that a thread reads it writes the first Writes, or all in turn until there are so many: a
// block takes one tile of Threads * Reads.
template <int Threads, int Reads, int Writes>
__global__ void __launch_bounds__(Threads) mix_all(const uint4* from, uint4* out) {
    const u64 tile = blockIdx.x;
    from += tile * (Threads * Reads) + threadIdx.x;
    out += tile * (Threads * Writes) + threadIdx.x;
    uint4 word[Reads];
#pragma unroll
    for (int k = 0; k < Reads; k++) word[k] = __ldcs(from + k * Threads);
#pragma unroll
    for (int k = Writes; k < Reads; k++) word[0].x ^= word[k].x ^ word[k].y ^ word[k].z ^ word[k].w;
#pragma unroll
    for (int k = 0; k < Writes; k++) __stcs(out + k * Threads, word[k % Reads]);
}
