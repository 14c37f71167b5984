// Deviations from variances, by roots that take no branch an element.
#pragma once
#include "flow.cuh"
#include "pack.cuh"

// The root of a sum of which the second number is the smaller by far, given what it rounds to: by a step of Newton's.
GR_HD f32 root_of(f32 all, f32 first, f32 more) {
#ifdef GR_EMULATED
    const f32 near = 1 / sqrtf(all);
#else
    f32 near;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(all));
#endif
    const f32 root = all * near;
    return __fmaf_rn(__fmaf_rn(-root, root, first) + more, 0.5f * near, root);
}
// For results of 16 bits.
GR_HD f32 rough_root_of(f32 x) {
#ifdef GR_EMULATED
    return sqrtf(x);
#else
    f32 root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
#endif
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
    const f64 root = __fma_rn(first, off, first), finer = __fma_rn(part, off, part);
    return __fma_rn(__fma_rn(-root, root, x), finer, root);
}
GR_HD f64 scaled_root_of(f64 x) {
    const bool low = x < 1;
    const f64 root = root_of(x * bit_cast<f64>(low ? 0x5ff0000000000000ull : 0x1ff0000000000000ull));  // 2^512, 2^-512
    return x == 0 || is_own_root(x) ? x : root * bit_cast<f64>(low ? 0x2ff0000000000000ull : 0x4ff0000000000000ull);
}
// Variances as results. Covered: known to have roots that need no scaling.
template <class Op, class Result> struct Spreads {
    static GR_HD bool covers(f64, f64) { return true; }
    template <bool Covered = false, int V> static GR_HD void of(const f64 (&variances)[V], Pack<Result, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) to.at[j] = cast<Result>(Op::spread(variances[j]));
    }
};
template <class Result> struct ShortRoots {
    static GR_HD bool covers(f64, f64) { return true; }
    template <bool Covered = false, int V> static GR_HD void of(const f64 (&variances)[V], Pack<Result, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) to.at[j] = cast<Result>(short_root_of(variances[j]));
    }
};
template <bool SkipNan> struct Spreads<Std<f32, SkipNan>, f32> {
    static GR_HD bool covers(f64 low, f64 high) { return low >= 1e-30 && high <= 1e30; }
    template <bool Covered = false, int V> static GR_HD void of(const f64 (&variances)[V], Pack<f32, V>& to) {
        if constexpr (!Covered) return ShortRoots<f32>::of(variances, to);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f32 first = (f32)variances[j];
            to.at[j] = root_of(first, first, (f32)(variances[j] - (f64)first));
        }
    }
};
template <bool SkipNan> struct Spreads<Std<half, SkipNan>, half> : ShortRoots<half> {};
template <bool SkipNan> struct Spreads<Std<bfloat16, SkipNan>, bfloat16> : ShortRoots<bfloat16> {};
template <class T, bool SkipNan> struct Spreads<Std<T, SkipNan>, f64> {
    static GR_HD bool covers(f64 low, f64 high) { return low >= 1e-290 && high <= 1e290; }
    template <bool Covered = false, int V> static GR_HD void of(const f64 (&variances)[V], Pack<f64, V>& to) {
        bool inside = true;
        if (!Covered)
#pragma unroll
            for (int j = 0; j < V; j++) inside = inside && covers(variances[j], variances[j]);
        if (inside) {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = root_of(variances[j]);
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = scaled_root_of(variances[j]);
        }
    }
};
