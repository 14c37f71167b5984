// Running means by the pack: without a branch an element, so that one's divisions overlap with the next's, and with a
// reciprocal of each count from that of one nearby.
#pragma once
#include "flow.cuh"
#include "pack.cuh"

// A reciprocal but for its last bit.
GR_HD f32 one_over(f32 x) {
#ifdef GR_EMULATED
    return 1 / x;
#else
    f32 found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
#endif
}
// Reciprocals of numbers near `begin`: from its own, where they are `near` it (relative errors of 2^-18 before a step of third
// order), else each from the hardware's.
struct Reciprocals {
    f64 first;
    bool far;
    GR_HD Reciprocals(f64 begin, bool near) : first(one_over(begin)), far(!near) {}
    GR_HD f64 of(f64 x) const { return refined(x, approximate(x, first, far)); }
    // To 36 bits, by a step of second order.
    GR_HD f64 roughly(f64 x) const {
        const f64 near = approximate(x, first, far);
        return __fma_rn(__fma_rn(-x, near, 1.0), near, near);
    }
};

// sum / count, given the count's reciprocal but for its last bit: right but for those of binary64, and where the result has
// as many, right as a division is (Markstein 1990), which a product that is no number leaves alone.
template <class Result> struct Quotient {
    static GR_HD Result of(f64 sum, f64, f64 part) { return cast<Result>(sum * part); }
};
template <> struct Quotient<f64> {
    static GR_HD f64 of(f64 sum, f64 count, f64 part) {
        const f64 near = sum * part, better = __fma_rn(__fma_rn(-near, count, sum), part, near);
        return better == better ? better : near;
    }
};
// Rounded from binary32.
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

// No zero once a sum has left the range of binary32, as a pack's first elements may alone; those of halves never do.
template <class T> GR_HD f32 check_range(f32 sum, f32 check, T) { return __fmaf_rn(sum, 0.0f, check); }
GR_HD f32 check_range(f32, f32 check, half) { return check; }

// Short: of few packs, from a sum in binary64 that others go on from.
template <class Map, class A, class Result, bool Short> struct MeanScan {
    typedef typename Map::In T;
    static_assert(!Moved<T>::exists || sizeof(A) != 8 || IsMoved<Map>::yes, "elements are added, not terms");
    static const bool exists = true;
    A sum;
    f64 count;
    GR_HD MeanScan(Averaged<A> mean, const f64*) : sum(mean.sum), count((f64)mean.count) {}
    GR_HD Averaged<A> now() const { return {sum, (i64)count}; }
    // Results of 16 bits, by a pack's own sums in binary32: behind many elements by the reciprocal of its last count and the mean
    // of all before it, to which those and what the other reciprocals are more add a few digits; else each divided. False where
    // sums are out of range, or those before it: an infinity times what is left of a number is none.
    template <int V> GR_HD bool near(const Pack<T, V>& from, Pack<Result, V>& to) {
        f32 sums[V];
#pragma unroll
        for (int j = 0; j < V; j++) sums[j] = j == 0 ? to_f32(from.at[j]) : sums[j - 1] + to_f32(from.at[j]);
        if (!(fabsf(sums[V - 1]) <= 1e38f)) return false;
        if (count >= 1024) {
            const f64 last = one_over(count + V);
            const f32 part = (f32)last, before = (f32)(sum * last);
            if (!(fabsf(before) <= 1e38f)) return false;
#pragma unroll
            for (int j = 0; j < V; j++) {
                const f32 mean = __fmaf_rn(sums[j], part, before), more = (V - 1 - j) * part;
                to.at[j] = narrowed(__fmaf_rn(mean, __fmaf_rn(more, more, more), mean), Result());
            }
        } else {
            const f32 before = (f32)sum, number = (f32)count;
            if (!(fabsf(before) <= 1e38f)) return false;
            f32 check = 0;
#pragma unroll
            for (int j = 0; j < V; j++) {
                const f32 many = number + (j + 1), part = one_over(many), all = before + sums[j], mean = all * part;
                check = check_range(all, check, T());
                to.at[j] = narrowed(__fmaf_rn(__fmaf_rn(-mean, many, all), part, mean), Result());
            }
            if (check != 0) return false;
        }
        if constexpr (Short) {
            sum += sums[V - 1];
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) sum = __fma_rn(Moved<T>::at(from, j), Moved<T>::scale(), sum);
        }
        count += V;
        return true;
    }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        if constexpr (sizeof(Result) == 2 && sizeof(A) == 8 && sizeof(T) == 2 && Moved<T>::exists) {
            if (near(from, to)) return;
        }
        const Reciprocals parts(count + 1, count >= 4194304.0);
        if constexpr (Moved<T>::exists && sizeof(A) == 8 && V * sizeof(T) % 4 == 0) {
            if (all_finite(from)) {
#pragma unroll
                for (int j = 0; j < V; j++) {
                    sum = __fma_rn(Moved<T>::at(from, j), Moved<T>::scale(), sum);
                    count += 1;
                    to.at[j] = Quotient<Result>::of(sum, count, parts.of(count));
                }
                return;
            }
        }
#pragma unroll
        for (int j = 0; j < V; j++) {
            add(sum, Map::of(from.at[j]));
            count += Map::counts(from.at[j]) ? 1.0 : 0.0;
            to.at[j] = Quotient<Result>::of((f64)value_of(sum), count, parts.of(count));
        }
    }
};
template <class Map, class A, class Result, int V>
struct PackScan<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> : MeanScan<Map, A, Result, (V > 1)> {
    using MeanScan<Map, A, Result, (V > 1)>::MeanScan;
};
template <class Map, class Part, class Result, int V>
struct PackScan<Mean<Map, Parts<Part>>, Final<Mean<Map, Parts<Part>>, Result>, V> { static const bool exists = false; };
