// Floats of 16 and 32 bits read as binary64 without a conversion, of which an SM does 16 a clock.
#pragma once
#include "../monoid/sums.cuh"

// A float's bits, shifted to where binary64 has sign, exponent and fraction, are its value but for a power of two, which a fused
// multiply-add makes up for: exact, subnormals too. Infinities and NaN become finite.
template <class T> struct ExponentShiftedBits { static const bool exists = false; };
template <class T, int Shift, u32 Mask, u64 Scale> struct ShiftedBits {
    static const bool exists = true;
    static GR_HD f64 scale() { return bit_cast<f64>(Scale); }
    template <int V> static GR_HD f64 at(const Pack<T, V>& pack, int j) {
        if constexpr (sizeof(T) * V % 4 != 0) {
            const i32 word = (i32)((const i16*)&pack)[j];
            return bit_cast<f64>((u64)((u32)word << (16 - Shift) & Mask) << 32);
        } else {
            const u32* words = (const u32*)&pack;
            const u32 word = sizeof(T) == 4 ? words[j] : j % 2 ? words[j / 2] : words[j / 2] << 16;
            const u32 upper = (u32)((i32)word >> Shift) & Mask, lower = sizeof(T) == 4 ? word << (32 - Shift) : 0;
            return bit_cast<f64>((u64)upper << 32 | lower);
        }
    }
};
template <> struct ExponentShiftedBits<half> : ShiftedBits<half, 6, 0x81fffc00u, 0x7ef0000000000000ull> {};          // 2^1008
template <> struct ExponentShiftedBits<bfloat16> : ShiftedBits<bfloat16, 3, 0x8fffe000u, 0x77f0000000000000ull> {};  // 2^896
template <> struct ExponentShiftedBits<f32> : ShiftedBits<f32, 3, 0x8fffffffu, 0x77f0000000000000ull> {};
// The sum with one element more of a pack, all of whose elements are finite.
template <class T, int V> GR_HD f64 add_finite(f64 sum, const Pack<T, V>& pack, int j) {
    return __fma_rn(ExponentShiftedBits<T>::at(pack, j), ExponentShiftedBits<T>::scale(), sum);
}

// Stays zero as long as all words are of finite elements: adds the products of a word's elements with zero.
GR_HD u32 times_zero(u32 word, u32 sum, half) {
#if !defined(GR_EMULATED)
    u32 to;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(to) : "r"(word), "r"(0u), "r"(sum));
    return to;
#else
    return sum | ((word & 0x7c00u) == 0x7c00u) | ((word & 0x7c000000u) == 0x7c000000u);
#endif
}
GR_HD u32 times_zero(u32 word, u32 sum, bfloat16) {
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 800
    u32 to;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(to) : "r"(word), "r"(0u), "r"(sum));
    return to;
#else
    return sum | ((word & 0x7f80u) == 0x7f80u) | ((word & 0x7f800000u) == 0x7f800000u);
#endif
}
GR_HD u32 times_zero(u32 word, u32 sum, f32) { return bit_cast<u32>(bit_cast<f32>(word) * 0.0f + bit_cast<f32>(sum)); }
template <class T, int V> GR_HD u32 check_finite(const Pack<T, V>& pack, u32 sum) {
    if constexpr (V * sizeof(T) % 4 == 0)
        unrolled<V * (int)sizeof(T) / 4>([&](int w) { sum = times_zero(((const u32*)&pack)[w], sum, T()); });
    else unrolled<V>([&](int j) { sum = times_zero(((const u16*)&pack)[j], sum, T()); });
    return sum;
}
template <class T, int V> GR_HD bool all_finite(const Pack<T, V>& pack) { return check_finite(pack, 0) == 0; }

// Maps whose terms are the elements themselves, but for a NaN that is left out: of others the bits must not be shifted.
template <class Map> struct AddsElements { static const bool yes = false; };
template <class T> struct AddsElements<Value<T, f64>> { static const bool yes = ExponentShiftedBits<T>::exists; };
template <class T> struct AddsElements<NonNan<T, f64>> { static const bool yes = ExponentShiftedBits<T>::exists; };
// Of elements of 16 bits, and of 32.
template <class Map> constexpr bool ADDS_HALVES = AddsElements<Map>::yes && sizeof(typename Map::In) == 2;
template <class Map> constexpr bool ADDS_FLOATS = AddsElements<Map>::yes && sizeof(typename Map::In) == 4;

// A word's two elements, those that are NaN replaced by zeros; `infinity` has the bits of both infinities.
GR_HD u32 up_to_infinity(u32 word, u32 infinity) {
    const u32 nan = ((word & 0x7fff7fffu) + (0x7fff7fffu - infinity)) & 0x80008000u;  // whose other bits are above infinity's
    return word & ~((nan >> 15) * 0xffffu);
}
GR_HD u32 numbers_or_zeros(u32 word, half) {
#if !defined(GR_EMULATED)
    u32 numbers;
    asm("set.eq.u32.f16x2 %0, %1, %1;" : "=r"(numbers) : "r"(word));
    return word & numbers;
#else
    return up_to_infinity(word, 0x7c007c00u);
#endif
}
GR_HD u32 numbers_or_zeros(u32 word, bfloat16) {
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 900
    u32 numbers;
    asm("set.eq.u32.bf16x2 %0, %1, %1;" : "=r"(numbers) : "r"(word));
    return word & numbers;
#else
    return up_to_infinity(word, 0x7f807f80u);
#endif
}
// The elements that a map adds, NaN replaced by zero where it is left out.
template <class Map> struct AddedPack {
    template <int V> static GR_HD const Pack<typename Map::In, V>& of(const Pack<typename Map::In, V>& from) { return from; }
};
template <class T> struct AddedPack<NonNan<T, f64>> {
    template <int V> static GR_HD Pack<T, V> of(const Pack<T, V>& from) {
        Pack<T, V> all;
        if constexpr (sizeof(T) == 2 && V % 2 == 0)
            unrolled<V / 2>([&](int w) { ((u32*)&all)[w] = numbers_or_zeros(((const u32*)&from)[w], T()); });
        else unrolled<V>([&](int j) { all.at[j] = is_nan(from.at[j]) ? T() : from.at[j]; });
        return all;
    }
};

// Adds a pack's terms in their order. Apart: every other term to a sum of its own, so that fewer additions wait for one another.
template <class Map, bool Apart = false, int V> GR_HD void add_in_order(f64& sum, const Pack<typename Map::In, V>& pack) {
    typedef typename Map::In T;
    if constexpr (AddsElements<Map>::yes && V * sizeof(T) % 4 == 0) {
        const Pack<T, V> all = AddedPack<Map>::of(pack);
        if (all_finite(all)) {
            f64 other = 0;
            unrolled<V>([&](int j) {
                f64& to = Apart && j % 2 ? other : sum;
                to = add_finite(to, all, j);
            });
            if (Apart) sum += other;
            return;
        }
    }
    unrolled<V>([&](int j) { add(sum, Map::of(pack.at[j])); });
}
