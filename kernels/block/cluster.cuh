// Blocks that run side by side and reach into each other's shared memory (clusters, sm_90).
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
template <int Blocks> GR_HD void meet_cluster() {
#ifdef GR_EMULATED
    simt::meet_cluster(Blocks);
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Any thread calls. Writes a word to where `at`, in this block's shared memory, would be in that of another one.
template <int Blocks> GR_HD void put_beside(u64* at, u64 word, u32 rank) {
#ifdef GR_EMULATED
    simt::pause();
    *simt::beside(at, rank, Blocks) = word;
#elif __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 to; mapa.shared::cluster.u32 to, %0, %2; st.relaxed.cluster.shared::cluster.u64 [to], %1;}"
                 ::"r"((u32)__cvta_generic_to_shared(at)), "l"(word), "r"(rank) : "memory");
#endif
}

// One thread calls, after a __syncwarp. What its warp has put there is seen by those who await the number there.
template <int Blocks> GR_HD void raise_beside(u32* flag, u32 number, u32 rank) {
#ifdef GR_EMULATED
    simt::pause();
    *simt::beside(flag, rank, Blocks) = number;
    simt::note_progress();
    simt::pause();
#elif __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 to; mapa.shared::cluster.u32 to, %0, %2; st.release.cluster.shared::cluster.u32 [to], %1;}"
                 ::"r"((u32)__cvta_generic_to_shared(flag)), "r"(number), "r"(rank) : "memory");
#endif
}

// Any threads call. Waits until another block has raised the flag to just that number, which it does as long as it runs: what
// it waits for itself has an end (look_back.cuh).
GR_HD void await_beside(const u32* flag, u32 number) {
#ifdef GR_EMULATED
    while (*(const volatile u32*)flag != number) simt::pause();
#elif __CUDA_ARCH__ >= 900
    for (u32 seen = ~number; seen != number;)
        asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"((u32)__cvta_generic_to_shared(flag)) : "memory");
#endif
}

// One thread calls. Waits for a word whose upper half is that number, and has the lower one.
GR_HD u32 await_word_beside(const u64* at, u32 number) {
    for (;;) {
        const u64 word = *(const volatile u64*)at;
        if (word >> 32 == number) return (u32)word;
#ifdef GR_EMULATED
        simt::pause();
#endif
    }
}
