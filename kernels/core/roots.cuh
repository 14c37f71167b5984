// Reciprocals and roots without a branch, refined from the hardware's approximations.
#pragma once
#include "types.cuh"

// Where `wanted`, a reciprocal's first 20 bits or so; else `near`, as it was passed.
GR_HD f64 approximate(f64 x, f64 near, bool wanted) {
#ifdef GR_EMULATED
    return wanted ? bit_cast<f64>(bit_cast<u64>(1 / x) >> 32 << 32) : near;
#else
    asm("{.reg .pred p; setp.ne.u32 p, %2, 0; @p rcp.approx.ftz.f64 %0, %1;}" : "+d"(near) : "d"(x), "r"((u32)wanted));
    return near;
#endif
}
// A reciprocal, right but for its last bit, from one that is right to 18 bits: a step of third order. NaN for 0.
GR_HD f64 refined(f64 x, f64 near) {
    const f64 off = __fma_rn(-x, near, 1.0);
    return __fma_rn(__fma_rn(off, off, off), near, near);
}
GR_HD f64 one_over(f64 x) { return refined(x, approximate(x, 0, true)); }
// A reciprocal, right but for its last bit.
GR_HD f32 one_over(f32 x) {
#ifdef GR_EMULATED
    return 1 / x;
#else
    f32 found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
#endif
}

// The root of first + more, `more` being the smaller by far and `all` their rounded sum: by a Newton step.
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
// A root right enough for results of 16 bits.
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
// One over a root, right but for its last bits: a step of third order. Infinite or NaN for zero.
GR_HD f64 refined_over_root(f64 x) {
    const f64 near = one_over_root(x), off = __fma_rn(-(x * near), near, 1.0);
    return __fma_rn(near * off, __fma_rn(off, 0.375, 0.5), near);
}
GR_HD bool is_own_root(f64 x) {  // zero or infinity, or as close to zero as makes no difference
    const u32 upper = (u32)(bit_cast<u64>(x) >> 32);
    return upper == 0 || upper == 0x7ff00000u;
}
// Roots of numbers that are not subnormal, to 80 bits before they are rounded, so that ties are recognised.
GR_HD f64 short_root_of(f64 x) {
    const f64 near = one_over_root(x), first = x * near, root = __fma_rn(__fma_rn(-first, near, 1.0), 0.5 * first, first);
    return is_own_root(x) ? x : __fma_rn(__fma_rn(-root, root, x), 0.5 * near, root);
}
// Roots of numbers whose squares are in the range of binary64; `scaled_root_of`: of any number.
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
