// A number in shared memory that only grows, by one at a time: a warp raises it to tell other warps of its block how far it is.
// Unlike at a barrier, a warp that comes once the number is there does not wait. Waiters spin: use this only where the number is
// usually there already. A warp that waits for a number is less than BEHIND numbers behind it.
#pragma once
#include "checked.cuh"

const int BEHIND = 32;

#ifdef GR_CHECKED
GR_HD u64* phases_of(u32 flag, u32 number) {
    __shared__ u64 barriers[2][BEHIND];
    return &barriers[flag][number % BEHIND];
}
#endif

// One thread calls before a barrier of the block. `which` is 0 or 1; `lanes` raise the flag together, under the checker.
GR_HD void begin_flag(u32* flag, u32 number, u32 which, u32 lanes) {
#ifdef GR_EMULATED
    simt::watch_shared();
#endif
#ifdef GR_CHECKED
    for (u32 i = 0; i < BEHIND; i++) begin_barrier(phases_of(which, i), lanes);
    *flag = which << 16 | number;  // and stays so
#else
    *flag = number;
#endif
}

// True for the lanes of a warp that raise and await for it, the others being held by __syncwarp: one, and under the checker
// all, which does not see that the one stands for them.
GR_HD bool represents_warp(u32 lane) {
#ifdef GR_CHECKED
    return true;
#else
    return lane == 0;
#endif
}

// One thread calls, after a __syncwarp. What its warp has written is seen by those who await the number.
GR_HD void raise(u32* flag, u32 number) {
#ifdef GR_EMULATED
    simt::release();
    simt::raise(flag, number);
#elif defined(GR_CHECKED)
    arrive(phases_of(*flag >> 16, number - 1 - *flag % 65536));
#else
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(flag)), "r"(number) : "memory");
#endif
}

// Any threads call. Waits until the number is there, or a larger one.
GR_HD void await(const u32* flag, u32 number) {
#ifdef GR_EMULATED
    while (*(const volatile u32*)flag < number) simt::pause();
#elif defined(GR_CHECKED)
    const u32 at = number - 1 - *flag % 65536;  // of those raised
    if (number > *flag % 65536) wait_parity(phases_of(*flag >> 16, at), at / BEHIND % 2);
#else
    for (;;) {
        u32 seen;
        asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"((u32)__cvta_generic_to_shared(flag)) : "memory");
        if (seen >= number) break;
        __nanosleep(40);  // who polls takes turns from who works
    }
#endif
}
