// The names of CUDA C++ that kernels use, on the emulated machine. Include before any .cuh file.
#pragma once

#include <math.h>

#include "launch.hpp"

#define GR_EMULATED 1
#define GR_SHARED (simt::machine.current->block->shared)

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

#define threadIdx (simt::machine.current->index)
#define blockIdx (simt::machine.current->block->index)
#define blockDim (simt::machine.request.block)
#define gridDim (simt::machine.request.grid)

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Loads and stores with a cache hint. A GPU faults on an address that is no multiple of the size.
template <class T> inline T* simt_checked(T* at) {
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T))
        simt::fail("access of %zu bytes at %p: misaligned", sizeof(T), static_cast<const void*>(at));
    simt::check_owned(at, sizeof(T));
    return at;
}
template <class T> inline T __ldcs(const T* at) { return *simt_checked(at); }
template <class T> inline T __ldcg(const T* at) { return *simt_checked(at); }
template <class T> inline void __stcs(T* at, T value) { *simt_checked(at) = value; }

// Barriers and fences. Where the call stands in the source is part of every message.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    simt::barrier(file, line);
}
inline void __threadfence() { simt::fence(); }
inline void __trap() { simt::fail("trap"); }
inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    simt::meet(simt::Wait::sync, mask, 0, 0, 32, file, line);
}

// Warp collectives.
template <class T>
inline T simt_shuffle(simt::Wait kind, unsigned mask, T value, int argument, int width, const char* file, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 32 or 64 bits");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = simt::meet(kind, mask, bits, argument, width, file, line);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
#define SIMT_SHUFFLE(name, kind)                                                                        \
    template <class T>                                                                                  \
    inline T name(unsigned mask, T value, int argument, int width = 32, const char* file = __builtin_FILE(), \
                  int line = __builtin_LINE()) {                                                        \
        return simt_shuffle(simt::Wait::kind, mask, value, argument, width, file, line);                \
    }
SIMT_SHUFFLE(__shfl_down_sync, down)
SIMT_SHUFFLE(__shfl_up_sync, up)
SIMT_SHUFFLE(__shfl_xor_sync, exchange)
SIMT_SHUFFLE(__shfl_sync, broadcast)
#undef SIMT_SHUFFLE

#define SIMT_VOTE(type, name, kind)                                                                            \
    inline type name(unsigned mask, int vote, const char* file = __builtin_FILE(), int line = __builtin_LINE()) { \
        return type(simt::meet(simt::Wait::kind, mask, vote != 0, 0, 32, file, line));                         \
    }
SIMT_VOTE(unsigned, __ballot_sync, ballot)
SIMT_VOTE(int, __any_sync, any)
SIMT_VOTE(int, __all_sync, all)
#undef SIMT_VOTE

// Atomics. The value's type is that of the object, as in CUDA's overloads.
template <class T> struct simt_same { typedef T type; };
template <class T> using simt_as = typename simt_same<T>::type;
template <class T> inline T atomicAdd(T* at, simt_as<T> x) {
    return simt::rmw(at, [=](T old) { return T(old + x); });
}
template <class T> inline T atomicMax(T* at, simt_as<T> x) {
    return simt::rmw(at, [=](T old) { return old > x ? old : x; });
}
template <class T> inline T atomicMin(T* at, simt_as<T> x) {
    return simt::rmw(at, [=](T old) { return old < x ? old : x; });
}
template <class T> inline T atomicOr(T* at, simt_as<T> x) {
    return simt::rmw(at, [=](T old) { return T(old | x); });
}
template <class T> inline T atomicAnd(T* at, simt_as<T> x) {
    return simt::rmw(at, [=](T old) { return T(old & x); });
}
template <class T> inline T atomicExch(T* at, simt_as<T> x) {
    return simt::rmw(at, [=](T) { return x; });
}
template <class T> inline T atomicCAS(T* at, simt_as<T> expected, simt_as<T> x) {
    return simt::rmw(at, [=](T old) { return old == expected ? x : old; });
}

// Integer and floating-point intrinsics.
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = a | (unsigned long long)b << 32;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= (unsigned)(both >> (selector >> (4 * i) & 7) * 8 & 255) << (8 * i);
    return result;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }

template <class Byte, class Word> inline Word simt_dot4(Word a, Word b, Word sum) {
    unsigned total = unsigned(sum);
    for (int i = 0; i < 32; i += 8) total += unsigned(int(Byte(a >> i)) * int(Byte(b >> i)));
    return Word(total);
}
inline int __dp4a(int a, int b, int sum) { return simt_dot4<signed char>(a, b, sum); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) { return simt_dot4<unsigned char>(a, b, sum); }
inline int __dp2a_lo(int a, int b, int sum) { return sum + (short)a * (signed char)b + (short)(a >> 16) * (signed char)(b >> 8); }
inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned sum) {
    return sum + (a & 0xffff) * (b & 255) + (a >> 16) * (b >> 8 & 255);
}

template <class Part, bool Max> inline unsigned simt_extreme(unsigned a, unsigned b) {
    unsigned both = 0;
    for (unsigned i = 0; i < 32; i += 8 * sizeof(Part)) {
        Part x = Part(a >> i), y = Part(b >> i);
        both |= (unsigned((Max ? y > x : y < x) ? y : x) & unsigned((1ull << 8 * sizeof(Part)) - 1)) << i;
    }
    return both;
}
inline unsigned __vmaxs2(unsigned a, unsigned b) { return simt_extreme<short, true>(a, b); }
inline unsigned __vmins2(unsigned a, unsigned b) { return simt_extreme<short, false>(a, b); }
inline unsigned __vmaxu2(unsigned a, unsigned b) { return simt_extreme<unsigned short, true>(a, b); }
inline unsigned __vminu2(unsigned a, unsigned b) { return simt_extreme<unsigned short, false>(a, b); }
inline unsigned __vmaxs4(unsigned a, unsigned b) { return simt_extreme<signed char, true>(a, b); }
inline unsigned __vmins4(unsigned a, unsigned b) { return simt_extreme<signed char, false>(a, b); }
inline unsigned __vmaxu4(unsigned a, unsigned b) { return simt_extreme<unsigned char, true>(a, b); }
inline unsigned __vminu4(unsigned a, unsigned b) { return simt_extreme<unsigned char, false>(a, b); }

// One rounding each: the shim is compiled with -ffp-contract=off.
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
