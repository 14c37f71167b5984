// Asynchronous copies from global to shared memory (cp.async, sm_80), 4 to 16 bytes each.
#pragma once
#include "pack.cuh"

// The calling thread's copy is complete after its wait_copies; other threads see it after a barrier behind that.
template <int Bytes = 16> GR_HD void copy_async(void* to_shared, const void* from) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "as many bytes as a copy can have");
#ifdef GR_EMULATED
    simt::copy_async(to_shared, from, Bytes);
#elif __CUDA_ARCH__ >= 800
    const u32 to = (u32)__cvta_generic_to_shared(to_shared);
    if (Bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(Bytes));
#else
    typedef typename Word<Bytes>::type W;
    *(W*)to_shared = *(const W*)from;
#endif
}

// Copies 1 to 16 bytes, a power of two: of fewer than 4 at once.
template <int Bytes> GR_HD void copy_word(u8* to_shared, const u8* from) {
    if constexpr (Bytes >= 4) copy_async<Bytes>(to_shared, from);
    else *(typename Word<Bytes>::type*)to_shared = *(const typename Word<Bytes>::type*)from;
}

// As a copy of 16 bytes of which only the first `bytes` are there: zeros take the place of the others. No more is read, but
// compute-sanitizer counts all 16 (version 2025.3), so that kernels compiled for it (block/checked.cuh) copy byte by byte.
GR_HD void copy_async_part(void* to_shared, const void* from, u32 bytes) {
#ifdef GR_EMULATED
    for (u32 i = bytes; i < 16; i++) ((u8*)to_shared)[i] = 0;
    for (u32 part = 16, at = 0; part > 0; part /= 2) {
        if (!(bytes & part)) continue;
        simt::copy_async((u8*)to_shared + at, (const u8*)from + at, part);
        at += part;
    }
#elif __CUDA_ARCH__ >= 800 && !defined(GR_CHECKED)
    const u32 to = (u32)__cvta_generic_to_shared(to_shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
#else
    for (u32 i = 0; i < 16; i++) ((u8*)to_shared)[i] = i < bytes ? ((const u8*)from)[i] : 0;
#endif
}

// Closes a group of copies.
GR_HD void commit_copies() {
#ifdef GR_EMULATED
    simt::commit_copies();
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Waits until at most Pending of the calling thread's groups are under way.
template <int Pending> GR_HD void wait_copies() {
#ifdef GR_EMULATED
    simt::wait_copies(Pending);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending));
#endif
}
