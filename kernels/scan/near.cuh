// Running variances of few digits by arithmetic of binary32, where what a lane's run changes is little.
#pragma once
#include "quotients.cuh"
#include "roots.cuh"

// A number that is not to be computed again where it is wanted, as the compiler would to have a register less.
GR_HD f32 kept(f32 x) {
#ifndef GR_EMULATED
    asm volatile("" : "+f"(x));
#endif
    return x;
}
// Variances of binary32 as that before the run and how much they differ from it, by arithmetic of binary32: as long as that is
// little, what it rounds is a fraction of their last bit.
template <class Op, class Emit> struct NearScan { static const bool exists = false; };
template <class Op, bool Root> struct NearSpread {
    static const bool exists = true;
    f32 mean, mean_rest, variance, variance_rest, limit, freedom, missing;  // missing: from the count, in what it is divided by
    f32 sum, excess;  // of distances, and of what their squares exceed the variance by
    GR_HD NearSpread(const typename Op::State& before, const f64* option) : sum(0), excess(0) {
        const f64 free = before.count - option[0], spread = before.m2 * one_over(free);
        mean = (f32)before.mean;
        mean_rest = kept((f32)(before.mean - (f64)mean));
        variance = (f32)spread;
        variance_rest = kept((f32)(spread - (f64)variance));
        // So few elements, or so large a divisor, or squares past the range of binary32: none is near.
        const bool none = !(free >= 1536 * (1 + fabs(option[0])) && variance >= 1e-18f && variance <= 1e18f);
        limit = none ? -1.0f : (f32)before.m2 * 0.03125f;
        freedom = (f32)free;
        missing = (f32)option[0];
    }
    // True where a run is near whose squares about the mean add up to `more` at most.
    GR_HD bool is_near(f64 more) const { return more <= limit; }
    template <int V> GR_HD void walk(const Pack<f32, V>& from, Pack<f32, V>& to) {
        const f32 part = one_over(freedom + (V + 1) * 0.5f), slope = part * part;
        const f32 of_count = __fmaf_rn(-missing, part, 1.0f);  // a count's reciprocal, by that of the divisor
        freedom += V;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f32 d = (from.at[j] - mean) - mean_rest;
            sum += d;
            excess += __fmaf_rn(d, d, -variance);
            const f32 own = __fmaf_rn((V - 1) * 0.5f - j, slope, part);
            const f32 more = __fmaf_rn(__fmaf_rn(-sum * sum, own * of_count, excess), own, variance_rest), all = variance + more;
            to.at[j] = Root ? root_of(all, variance, more) : all;
        }
    }
};
template <bool SkipNan>
struct NearScan<Var<f32, SkipNan>, Final<Var<f32, SkipNan>, f32>> : NearSpread<Var<f32, SkipNan>, false> {
    using NearSpread<Var<f32, SkipNan>, false>::NearSpread;
};
template <bool SkipNan>
struct NearScan<Std<f32, SkipNan>, Final<Std<f32, SkipNan>, f32>> : NearSpread<Std<f32, SkipNan>, true> {
    using NearSpread<Std<f32, SkipNan>, true>::NearSpread;
};

// Those of 16 bits have so few digits that sums of binary32 do, behind many elements.
template <class T, class Op, bool Root> struct NarrowSpread {
    static const bool exists = true;
    f32 mean, before, freedom, sum, squares, limit;
    GR_HD NarrowSpread(const typename Op::State& state, const f64* option)
        : mean((f32)state.mean), before((f32)state.m2), freedom((f32)(state.count - option[0])), sum(0), squares(0) {
        const bool many = state.count - option[0] >= 512 * (1 + fabs(option[0]));
        limit = many && (before == 0 || before >= 1e-30f) && before <= 1e36f ? 1e36f : -1.0f;
    }
    GR_HD bool is_near(f64 more) const { return more <= limit; }
    template <int V> GR_HD void walk(const Pack<T, V>& from, Pack<T, V>& to) {
        const f32 part = one_over(freedom + (V + 1) * 0.5f), slope = part * part, bend = slope * part;
        freedom += V;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f32 off = (V - 1) * 0.5f - j, d = to_f32(from.at[j]) - mean;
            const f32 own = __fmaf_rn(off, __fmaf_rn(off, bend, slope), part);
            sum += d;
            squares = __fmaf_rn(d, d, squares);
            const f32 variance = (before + __fmaf_rn(-sum * sum, own, squares)) * own;
            to.at[j] = narrowed(Root ? rough_root_of(variance) : variance, T());
        }
    }
};
#define GR_NARROW(T)                                                                                                 \
    template <bool SkipNan> struct NearScan<Var<T, SkipNan>, Final<Var<T, SkipNan>, T>> : NarrowSpread<T, Var<T, SkipNan>, false> { \
        using NarrowSpread<T, Var<T, SkipNan>, false>::NarrowSpread;                                                  \
    };                                                                                                              \
    template <bool SkipNan> struct NearScan<Std<T, SkipNan>, Final<Std<T, SkipNan>, T>> : NarrowSpread<T, Std<T, SkipNan>, true> { \
        using NarrowSpread<T, Std<T, SkipNan>, true>::NarrowSpread;                                                   \
    };
GR_NARROW(half) GR_NARROW(bfloat16)
#undef GR_NARROW
