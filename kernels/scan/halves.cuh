// Running sums of 16-bit floats, in binary64, by the pack: those of one element after another, bit for bit.
#pragma once
#include "moved.cuh"
#include "pack.cuh"

// Two sums rounded to results that lie in one word. Sums of bfloat16 are multiples of its least number, of which binary32
// holds those below 2^-126; above, a bit that stands for all that is cut off decides what is a tie.
template <class Emit> GR_HD u32 rounded_pair(f64 lower, f64 upper, const f64* option, bfloat16) {
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 800
    const u32 a = bit_cast<u32>(__double2float_rz(lower)) | ((bit_cast<u64>(lower) & 0x1fffffffu) != 0);
    const u32 b = bit_cast<u32>(__double2float_rz(upper)) | ((bit_cast<u64>(upper) & 0x1fffffffu) != 0);
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(bit_cast<f32>(b)), "f"(bit_cast<f32>(a)));
    return word;
#else
    return Emit::of(lower, option).bits | (u32)Emit::of(upper, option).bits << 16;
#endif
}
template <class Emit> GR_HD u32 rounded_pair(f64 lower, f64 upper, const f64* option, half) {
    return Emit::of(lower, option).bits | (u32)Emit::of(upper, option).bits << 16;
}

template <class Map, class Emit, int V> struct HalfSums {
    typedef typename Map::In T;
    static const bool exists = V % 2 == 0;
    f64 sum;
    const f64* option;
    GR_HD HalfSums(f64 before, const f64* options) : sum(before), option(options) {}
    GR_HD f64 now() const { return sum; }
    // Where all that is added is finite.
    GR_HD void walk(const Pack<T, V>& from, Pack<T, V>& to) {
        const Pack<T, V> all = AddedPack<Map>::of(from);
#pragma unroll
        for (int j = 0; j < V; j += 2) {
            const f64 first = __fma_rn(Moved<T>::at(all, j), Moved<T>::scale(), sum);
            sum = __fma_rn(Moved<T>::at(all, j + 1), Moved<T>::scale(), first);
            ((u32*)&to)[j / 2] = rounded_pair<Emit>(first, sum, option, T());
        }
    }
    GR_HD void run(const Pack<T, V>& from, Pack<T, V>& to) {
        if (all_finite(AddedPack<Map>::of(from))) return walk(from, to);
#pragma unroll
        for (int j = 0; j < V; j++) {
            add(sum, Map::of(from.at[j]));
            to.at[j] = Emit::of(sum, option);
        }
    }
};
#define GR_HALVES(T, Map)                                                                       \
    template <int V> struct PackScan<Sum<Map<T, f64>, f64>, Final<Sum<Map<T, f64>, f64>, T>, V> \
        : HalfSums<Map<T, f64>, Final<Sum<Map<T, f64>, f64>, T>, V> {                           \
        using HalfSums<Map<T, f64>, Final<Sum<Map<T, f64>, f64>, T>, V>::HalfSums;              \
    };
GR_HALVES(half, Value) GR_HALVES(half, NonNan) GR_HALVES(bfloat16, Value) GR_HALVES(bfloat16, NonNan)
#undef GR_HALVES
