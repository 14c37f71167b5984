// Warps that each take shares of a scan by themselves: two are on their way into shared memory while one is scanned.
#pragma once
#include "../core/copy.cuh"
#include "../core/types.cuh"

const int AHEAD = 2;  // shares of a warp on their way into shared memory

// All lanes of a warp call. Work says how a share is fetched into a stage, scanned there, and drained.
template <int Warps, class Work> GR_HD void take_shares(const Work& work, u64 shares) {
    const u64 all = (u64)gridDim.x * Warps;
    u64 share = (u64)blockIdx.x * Warps + threadIdx.x / 32;
    u32 stage = 0;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        if (share + i * all < shares) work.fetch(share + i * all, i);
        commit_copies();
    }
    for (; share < shares; share += all) {
        const u32 behind = stage == 0 ? AHEAD : stage - 1;  // the stage that was drained last
        if (share + AHEAD * all < shares) work.fetch(share + AHEAD * all, behind);
        commit_copies();
        wait_copies<AHEAD>();
        __syncwarp();
        work.walk(share, stage);
        __syncwarp();
        work.drain(share, stage);
        __syncwarp();
        stage = stage == AHEAD ? 0 : stage + 1;
    }
}
