// Named barriers (bar.sync and bar.arrive, 1 to 15): some warps of a block wait, others only arrive. The hardware counts
// warps, whose lanes have to come together.
#pragma once
#include "checked.cuh"

#ifdef GR_CHECKED
GR_HD u64* named_barrier(u32 number) {
    __shared__ u64 barriers[16];
    return barriers + number;
}
#endif

// One thread calls before a barrier of the block: barriers `first` to `last` are for so many threads.
GR_HD void begin_named(u32 first, u32 last, u32 threads) {
#ifdef GR_CHECKED
    for (u32 number = first; number <= last; number++) begin_barrier(named_barrier(number), threads);
#endif
}

// All threads of a warp call. Waits until `threads` threads have come, this warp's among them.
GR_HD void wait_at(u32 barrier, u32 threads) {
    __syncwarp();
#ifdef GR_EMULATED
    simt::meet_named(barrier, threads, true, __FILE__, __LINE__);
#elif defined(GR_CHECKED)
    wait_phase(named_barrier(barrier), arrive(named_barrier(barrier)));
#else
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}

// All threads of a warp call. Counts as having come, and goes on: what the warp wrote is seen by those who wait.
GR_HD void arrive_at(u32 barrier, u32 threads) {
    __syncwarp();
#ifdef GR_EMULATED
    simt::meet_named(barrier, threads, false, __FILE__, __LINE__);
#elif defined(GR_CHECKED)
    arrive(named_barrier(barrier));
#else
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#endif
}
