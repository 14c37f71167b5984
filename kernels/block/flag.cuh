// Numbers in shared memory that only grow, by which a warp tells others of its block how far it is. Who comes late need not
// wait, as at a barrier; who comes early polls, so that waits should be few.
#pragma once
#include "../core/types.cuh"

// One thread calls, after a __syncwarp. What its warp has written is seen by those who await the number.
GR_HD void raise(u32* flag, u32 number) {
#ifdef GR_EMULATED
    simt::pause();
    *flag = number;
    simt::note_progress();
#else
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(flag)), "r"(number) : "memory");
#endif
}

// Any threads call. Waits until the number is there, or a larger one.
GR_HD void await(const u32* flag, u32 number) {
#ifdef GR_EMULATED
    while (*(const volatile u32*)flag < number) simt::pause();
#else
    for (;;) {
        u32 seen;
        asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"((u32)__cvta_generic_to_shared(flag)) : "memory");
        if (seen >= number) break;
        __nanosleep(40);  // who polls takes turns from who works
    }
#endif
}
