// Barriers that some warps of a block wait at and others only arrive at, numbered 1 to 15.
#pragma once
#include "../core/types.cuh"

// All threads of a warp call. Waits until `threads` threads have come, this warp's among them.
GR_HD void wait_at(u32 barrier, u32 threads) {
#ifdef GR_EMULATED
    simt::meet_named(barrier, threads, true, __FILE__, __LINE__);
#else
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}

// All threads of a warp call. Counts as having come, and goes on: what the warp wrote is seen by those who wait.
GR_HD void arrive_at(u32 barrier, u32 threads) {
#ifdef GR_EMULATED
    simt::meet_named(barrier, threads, false, __FILE__, __LINE__);
#else
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}
