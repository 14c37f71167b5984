// Warps that each take shares of a scan by themselves: one or two are on their way into shared memory while one is scanned.
#pragma once
#include "../core/copy.cuh"
#include "../core/types.cuh"

// All lanes of a warp call. Work says how a share is fetched into a stage, scanned there, and drained, and how many are on
// their way meanwhile (ahead).
template <int Warps, class Work> GR_HD void take_shares(const Work& work, u64 shares) {
    const u64 all = (u64)gridDim.x * Warps;
    u64 share = (u64)blockIdx.x * Warps + threadIdx.x / 32;
    u32 stage = 0;
    const int ahead = Work::ahead;
#pragma unroll
    for (int i = 0; i < ahead; i++) {
        if (share + i * all < shares) work.fetch(share + i * all, i);
        commit_copies();
    }
    for (; share < shares; share += all) {
        const u32 behind = stage == 0 ? ahead : stage - 1;  // the stage that was drained last
        if (share + ahead * all < shares) work.fetch(share + ahead * all, behind);
        commit_copies();
        wait_copies<ahead>();
        __syncwarp();
        work.walk(share, stage);
        __syncwarp();
        work.drain(share, stage);
        __syncwarp();
        stage = stage == ahead ? 0 : stage + 1;
    }
}
