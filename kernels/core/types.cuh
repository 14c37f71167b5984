// Element types as they lie in memory, and exact conversions of each to the type it accumulates in.
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct boolean { u8 byte; };    // NumPy's bool: one byte, 0 or 1
struct half { u16 bits; };      // IEEE binary16
struct bfloat16 { u16 bits; };  // the upper half of a binary32
template <class Real> struct complex { Real re, im; };
typedef complex<f32> c64;
typedef complex<f64> c128;

#ifdef GR_EMULATED  // host C++ and CUDA spell a bit cast alike, but only CUDA has these names
#define GR_HD inline
#else
#define GR_HD __device__ __forceinline__
#endif

// Calls body(0) to body(Count - 1), without a loop: arrays whose places are constants then stay in registers.
template <int Count, class Body> GR_HD void unrolled(const Body& body) {
#pragma unroll
    for (int i = 0; i < Count; i++) body(i);
}

// Whether two types are one, and one of two types.
template <class A, class B> struct IsSame { static const bool yes = false; };
template <class A> struct IsSame<A, A> { static const bool yes = true; };
template <bool First, class A, class B> struct Conditional { typedef A type; };
template <class A, class B> struct Conditional<false, A, B> { typedef B type; };

template <class To, class From> GR_HD To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    union { From from; To to; } both = {from};
    return both.to;
}
// Two to a power from -1022 to 1023.
GR_HD f64 power_of_two(i32 exponent) { return bit_cast<f64>((u64)(exponent + 1023) << 52); }

GR_HD f32 to_f32(bfloat16 x) { return bit_cast<f32>((u32)x.bits << 16); }

GR_HD f32 to_f32(half x) {
#ifndef GR_EMULATED
    f32 wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
#else
    u32 sign = (u32)(x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, fraction = x.bits & 1023u;
    if (exponent == 31) return bit_cast<f32>(sign | 0x7f800000u | (fraction << 13));
    if (exponent != 0) return bit_cast<f32>(sign | ((exponent + 112) << 23) | (fraction << 13));
    f32 tiny = (f32)fraction * bit_cast<f32>(0x33800000u);  // 2^-24 a unit
    return sign ? -tiny : tiny;
#endif
}

// Rounds to nearest even, once, straight from binary64.
GR_HD half to_half(f64 x) {
#ifndef GR_EMULATED
    half narrow;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(narrow.bits) : "d"(x));
    return narrow;
#else
    u64 bits = bit_cast<u64>(x);
    u32 sign = (u32)(bits >> 48) & 0x8000u;
    i32 exponent = (i32)((bits >> 52) & 2047) - 1023;
    u64 fraction = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    if (exponent == 1024) return {(u16)(sign | 0x7c00u | ((fraction & 0xfffffffffffffull) ? 0x200u : 0u))};
    if (exponent > 15) return {(u16)(sign | 0x7c00u)};
    if (exponent < -25) return {(u16)sign};
    i32 drop = exponent >= -14 ? 42 : 42 + (-14 - exponent);
    u64 kept = fraction >> drop, rest = fraction & ((1ull << drop) - 1), tie = 1ull << (drop - 1);
    kept += rest > tie || (rest == tie && (kept & 1));
    u32 base = exponent >= -14 ? (u32)(exponent + 14) << 10 : 0u;  // the implicit bit adds the missing one
    return {(u16)(sign | (base + (u32)kept))};
#endif
}

GR_HD bfloat16 to_bfloat16(f64 x) {
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 800
    // Cut off to binary32, with a bit that stands for all that is gone, and so no tie that was none. Whatever of the lower 44
    // bits is kept lies below a tie as well: no conversion back is needed to tell.
    f32 cut = __double2float_rz(x);
    cut = bit_cast<f32>(bit_cast<u32>(cut) | ((bit_cast<u64>(x) & 0xfffffffffffull) != 0));
    bfloat16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(cut));
    return rounded;
#else
    f32 narrow = (f32)x;
    u32 bits = bit_cast<u32>(narrow);
    if (narrow != narrow) return {(u16)((bits >> 16) | 0x40u)};
    // Rounding twice is wrong where binary32 lands on a tie it did not have: step back towards x first.
    f64 back = (f64)narrow;
    if ((bits & 0xffffu) == 0x8000u && back != x) bits += ((x > back) == (x > 0)) ? 1u : (u32)-1;
    return {(u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

// Rounded to nearest even from binary32.
GR_HD half narrowed(f32 x, half) {
#ifdef GR_EMULATED
    return to_half(x);
#else
    half found;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(found.bits) : "f"(x));
    return found;
#endif
}
GR_HD bfloat16 narrowed(f32 x, bfloat16) {
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 800
    bfloat16 found;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(found.bits) : "f"(x));
    return found;
#else
    return to_bfloat16(x);
#endif
}

// The value of an element as a number of type To; complex keeps both parts.
template <class To, class From> struct Cast {
    static GR_HD To of(From x) { return (To)x; }
};
template <class To> struct Cast<To, boolean> {
    static GR_HD To of(boolean x) { return (To)(x.byte != 0); }
};
template <class To> struct Cast<To, half> {
    static GR_HD To of(half x) { return (To)to_f32(x); }
};
template <class To> struct Cast<To, bfloat16> {
    static GR_HD To of(bfloat16 x) { return (To)to_f32(x); }
};
template <class From> struct Cast<half, From> {
    static GR_HD half of(From x) { return to_half((f64)x); }
};
template <class From> struct Cast<bfloat16, From> {
    static GR_HD bfloat16 of(From x) { return to_bfloat16((f64)x); }
};
template <class From> struct Cast<boolean, From> {
    static GR_HD boolean of(From x) { return {(u8)(x != From(0))}; }
};
template <class Real, class From> struct Cast<complex<Real>, From> {
    static GR_HD complex<Real> of(From x) { return {Cast<Real, From>::of(x), Real(0)}; }
};
template <class Real, class Part> struct Cast<complex<Real>, complex<Part>> {
    static GR_HD complex<Real> of(complex<Part> x) { return {(Real)x.re, (Real)x.im}; }
};
template <class Real> struct Cast<complex<Real>, boolean> {
    static GR_HD complex<Real> of(boolean x) { return {(Real)(x.byte != 0), Real(0)}; }
};
template <class Real> struct Cast<complex<Real>, half> {
    static GR_HD complex<Real> of(half x) { return {(Real)to_f32(x), Real(0)}; }
};
template <class Real> struct Cast<complex<Real>, bfloat16> {
    static GR_HD complex<Real> of(bfloat16 x) { return {(Real)to_f32(x), Real(0)}; }
};
template <class To, class Real> struct Cast<To, complex<Real>> {  // the imaginary part is dropped, as NumPy drops it
    static GR_HD To of(complex<Real> x) { return Cast<To, Real>::of(x.re); }
};
template <class Real> struct Cast<half, complex<Real>> {
    static GR_HD half of(complex<Real> x) { return to_half((f64)x.re); }
};
template <class Real> struct Cast<bfloat16, complex<Real>> {
    static GR_HD bfloat16 of(complex<Real> x) { return to_bfloat16((f64)x.re); }
};
template <class Real> struct Cast<boolean, complex<Real>> {
    static GR_HD boolean of(complex<Real> x) { return {(u8)(x.re != Real(0) || x.im != Real(0))}; }
};
template <> struct Cast<half, half> { static GR_HD half of(half x) { return x; } };
template <> struct Cast<bfloat16, bfloat16> { static GR_HD bfloat16 of(bfloat16 x) { return x; } };
template <> struct Cast<boolean, boolean> { static GR_HD boolean of(boolean x) { return x; } };
template <> struct Cast<half, bfloat16> { static GR_HD half of(bfloat16 x) { return to_half(to_f32(x)); } };
template <> struct Cast<bfloat16, half> { static GR_HD bfloat16 of(half x) { return to_bfloat16(to_f32(x)); } };
template <> struct Cast<half, boolean> { static GR_HD half of(boolean x) { return to_half(x.byte != 0); } };
template <> struct Cast<bfloat16, boolean> { static GR_HD bfloat16 of(boolean x) { return to_bfloat16(x.byte != 0); } };
template <> struct Cast<boolean, half> { static GR_HD boolean of(half x) { return {(u8)((x.bits & 0x7fffu) != 0)}; } };
template <> struct Cast<boolean, bfloat16> {
    static GR_HD boolean of(bfloat16 x) { return {(u8)((x.bits & 0x7fffu) != 0)}; }
};

template <class To, class From> GR_HD To cast(From x) { return Cast<To, From>::of(x); }

// Traits: is x missing (NaN), and is it different from zero (NaN is)?
template <class T> GR_HD bool is_nan(T) { return false; }
GR_HD bool is_nan(f32 x) { return x != x; }
GR_HD bool is_nan(f64 x) { return x != x; }
GR_HD bool is_nan(half x) { return (x.bits & 0x7fffu) > 0x7c00u; }
GR_HD bool is_nan(bfloat16 x) { return (x.bits & 0x7fffu) > 0x7f80u; }
template <class Real> GR_HD bool is_nan(complex<Real> x) { return is_nan(x.re) || is_nan(x.im); }

template <class T> GR_HD bool is_nonzero(T x) { return x != T(0); }
GR_HD bool is_nonzero(boolean x) { return x.byte != 0; }
GR_HD bool is_nonzero(half x) { return (x.bits & 0x7fffu) != 0; }
GR_HD bool is_nonzero(bfloat16 x) { return (x.bits & 0x7fffu) != 0; }
template <class Real> GR_HD bool is_nonzero(complex<Real> x) { return x.re != Real(0) || x.im != Real(0); }

// Floats of 16 bits as binary32, others as they are: a choice is better made before an element is widened to binary64, between
// 32-bit values, than between 64-bit ones.
template <class T> GR_HD T as_wide(T x) { return x; }
GR_HD f32 as_wide(half x) { return to_f32(x); }
GR_HD f32 as_wide(bfloat16 x) { return to_f32(x); }

// One of two, by value: of structs, `?:` and `if` may choose between addresses, which puts them into memory.
template <class T> GR_HD T either(bool first, T a, T b) { return first ? a : b; }
GR_HD half either(bool first, half a, half b) { return {first ? a.bits : b.bits}; }
GR_HD bfloat16 either(bool first, bfloat16 a, bfloat16 b) { return {first ? a.bits : b.bits}; }
