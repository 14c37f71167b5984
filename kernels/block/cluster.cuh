// Thread block clusters: blocks that run side by side and reach into each other's shared memory (distributed shared memory, sm_90).
#pragma once
#include "../core/shared.cuh"
#include "../core/types.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GR_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define GR_CLUSTER(blocks)  // compiled for older GPUs, but never run there
#endif

// This block's place among the Blocks of its cluster, which follow one another in the grid.
template <int Blocks> GR_HD u32 cluster_rank() { return blockIdx.x % Blocks; }

// All threads of all blocks of the cluster call, before one reaches into another; and none may end before it has what it is
// sent. Orders memory as __syncthreads does.
template <int Blocks> GR_HD void sync_cluster() {
#ifdef GR_EMULATED
    simt::meet_cluster(Blocks);
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Any thread calls. Writes a word to where `at`, in this block's shared memory, would be in that of another one. It is seen
// there whole or not at all, sooner or later; in which order two of them are is not said.
template <int Blocks> GR_HD void put_remote(u64* at, u64 word, u32 rank) {
#ifdef GR_EMULATED
    simt::pause();
    *simt::beside(at, rank, Blocks) = word;
    simt::note_progress();
#elif __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 to; mapa.shared::cluster.u32 to, %0, %2; st.relaxed.cluster.shared::cluster.u64 [to], %1;}"
                 ::"r"((u32)__cvta_generic_to_shared(at)), "l"(word), "r"(rank) : "memory");
#endif
}

// Any thread calls. Waits for a word whose upper half is that number, and has the lower one. Another block writes it as long
// as it runs: what it waits for itself has an end (look_back.cuh).
GR_HD u32 await_remote_word(const u64* at, u32 number) {
    for (;;) {
        const u64 word = *(const volatile u64*)at;
        if (word >> 32 == number) return (u32)word;
#ifdef GR_EMULATED
        simt::pause();
#endif
    }
}
