// Barriers in shared memory (sm_80), for compute-sanitizer's racecheck: of the ways in which warps can tell each other how
// far they are, it follows barriers that all threads wait at and mbarriers that each thread arrives at by itself, but
// neither `bar.arrive` nor flags (version 2025.3). Compiled with GR_CHECKED, the same warps say the same things at the same
// places by these, and racecheck sees whether every other access of a kernel is ordered by what they say.
#pragma once
#include "../core/types.cuh"

#ifdef GR_CHECKED
GR_HD u32 shared_address(const u64* barrier) { return (u32)__cvta_generic_to_shared(barrier); }

// One thread calls, before a barrier of the block. A phase ends when so many threads have arrived.
GR_HD void begin_barrier(u64* barrier, u32 threads) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(threads) : "memory");
}

// Tells the phase that the thread arrived in.
GR_HD u64 arrive(u64* barrier) {
    u64 phase;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(phase) : "r"(shared_address(barrier)) : "memory");
    return phase;
}

// Waits until that phase has ended.
GR_HD void wait_phase(u64* barrier, u64 phase) {
    for (u32 over = 0; !over;)
        asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(over) : "r"(shared_address(barrier)), "l"(phase) : "memory");
}

// Waits until the latest phase of that parity has ended, of which the first is even.
GR_HD void wait_parity(u64* barrier, u32 parity) {
    for (u32 over = 0; !over;)
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
}
#endif
