// Deviations from variances, by roots that take no branch an element.
#pragma once
#include "flow.cuh"
#include "pack.cuh"

// The root of a variance and of what rounding has taken from it, by a step of Newton's.
GR_HD f32 root_of(f32 all, f32 rest) {
#ifdef GR_EMULATED
    const f32 near = 1 / sqrtf(all);
#else
    f32 near;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(all));
#endif
    const f32 root = all * near;
    return __fmaf_rn(__fmaf_rn(-root, root, all) + rest, 0.5f * near, root);
}
// The first 20 bits or so of one over a root.
GR_HD f64 one_over_root(f64 x) {
#ifdef GR_EMULATED
    return bit_cast<f64>(bit_cast<u64>(1 / sqrt(x)) >> 32 << 32);
#else
    f64 found;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(found) : "d"(x));
    return found;
#endif
}
GR_HD bool is_own_root(f64 x) {  // zero or infinite, or too close to be told
    const u32 upper = (u32)(bit_cast<u64>(x) >> 32);
    return upper == 0 || upper == 0x7ff00000u;
}
// Roots of numbers that are not subnormal, to 80 bits before they are rounded: one halfway between two results is found.
GR_HD f64 short_root_of(f64 x) {
    const f64 near = one_over_root(x), first = x * near, root = __fma_rn(__fma_rn(-first, near, 1.0), 0.5 * first, first);
    return is_own_root(x) ? x : __fma_rn(__fma_rn(-root, root, x), 0.5 * near, root);
}
// Roots of numbers whose squares are in the range of binary64, and of any.
GR_HD f64 root_of(f64 x) {
    const f64 near = one_over_root(x), first = x * near, part = 0.5 * near, off = __fma_rn(-first, part, 0.5);
    const f64 root = __fma_rn(first, __fma_rn(1.5 * off, off, off), first);
    return __fma_rn(__fma_rn(-root, root, x), part, root);
}
GR_HD f64 scaled_root_of(f64 x) {
    const bool low = x < 1;
    const f64 root = root_of(x * bit_cast<f64>(low ? 0x5ff0000000000000ull : 0x1ff0000000000000ull));  // 2^512, 2^-512
    return x == 0 || is_own_root(x) ? x : root * bit_cast<f64>(low ? 0x2ff0000000000000ull : 0x4ff0000000000000ull);
}
// Variances as results.
template <class Op, class Result> struct Spreads {
    template <int V> static GR_HD void of(const f64 (&variances)[V], Pack<Result, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) to.at[j] = cast<Result>(Op::spread(variances[j]));
    }
};
template <class Result> struct ShortRoots {
    template <int V> static GR_HD void of(const f64 (&variances)[V], Pack<Result, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) to.at[j] = cast<Result>(short_root_of(variances[j]));
    }
};
template <bool SkipNan> struct Spreads<Std<f32, SkipNan>, f32> : ShortRoots<f32> {};
template <bool SkipNan> struct Spreads<Std<half, SkipNan>, half> : ShortRoots<half> {};
template <bool SkipNan> struct Spreads<Std<bfloat16, SkipNan>, bfloat16> : ShortRoots<bfloat16> {};
template <class T, bool SkipNan> struct Spreads<Std<T, SkipNan>, f64> {
    template <int V> static GR_HD void of(const f64 (&variances)[V], Pack<f64, V>& to) {
        bool inside = true;
#pragma unroll
        for (int j = 0; j < V; j++) inside = inside && variances[j] >= 1e-290 && variances[j] <= 1e290;
#pragma unroll
        for (int j = 0; j < V; j++) to.at[j] = inside ? root_of(variances[j]) : scaled_root_of(variances[j]);
    }
};
