// Running means, variances and deviations by the pack: without a branch for each element, by approximate reciprocals and roots
// (core/roots.cuh).
#pragma once
#include "pack_scan.cuh"
#include "pivoted_moments.cuh"

// Running means, by the reciprocal of each count.

// sum / count, given the count's reciprocal but for its last bit: right but for the last bits of binary64; and where the result is
// binary64, as right as a division (Markstein 1990), but for a product that is NaN, which stays.
template <class Result> struct Quotient {
    template <class Sum> static GR_HD Result of(Sum sum, f64, f64 part) { return cast<Result>((f64)sum * part); }
};
template <> struct Quotient<f64> {
    template <class Sum> static GR_HD f64 of(Sum sum, f64 count, f64 part) {
        const f64 all = (f64)sum, near = all * part, better = __fma_rn(__fma_rn(-near, count, all), part, near);
        return !IsSame<Sum, f64>::yes || better == better ? better : near;  // sums of integers are finite
    }
};
template <class Real> struct Quotient<complex<Real>> {
    static GR_HD complex<Real> of(c128 sum, f64 count, f64 part) {
        return {Quotient<Real>::of(sum.re, count, part), Quotient<Real>::of(sum.im, count, part)};
    }
};

template <class Map, class A, class Result> struct MeanScan {
    typedef typename Map::In T;
    static_assert(!ExponentShiftedBits<T>::exists || sizeof(A) != 8 || AddsElements<Map>::yes, "elements are added, not terms");
    static const bool exists = true;
    A sum;
    f64 count;
    GR_HD MeanScan() {}
    GR_HD MeanScan(Averaged<A> mean, const f64*) : sum(mean.sum), count((f64)mean.count) {}
    GR_HD Averaged<A> now() const { return {sum, (i64)count}; }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        if constexpr (ExponentShiftedBits<T>::exists && sizeof(A) == 8 && V * sizeof(T) % 4 == 0) if (all_finite(from)) {
            unrolled<V>([&](int j) {
                sum = add_finite(sum, from, j);
                count += 1;
                to.at[j] = Quotient<Result>::of(sum, count, one_over(count));
            });
            return;
        }
        unrolled<V>([&](int j) {
            add(sum, Map::of(from.at[j]));
            count += Map::counts(from.at[j]) ? 1.0 : 0.0;
            to.at[j] = Quotient<Result>::of(value_of(sum), count, one_over(count));
        });
    }
};
template <class Map, class A, class Result, int V>
struct PackScanOf<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> { typedef MeanScan<Map, A, Result> type; };

// Variances as results. Roots in binary64 of elements that have fewer digits are of numbers far inside its range, or of zero.
template <class Op, class Result> struct VarianceResults {
    typedef typename Op::Real T;
    static const bool is_wide = IsSame<T, f64>::yes, is_short = Op::roots && FewDigits<T>::yes && IsSame<Result, T>::yes;
    static const bool is_f64 = Op::roots && IsSame<Result, f64>::yes, scales = is_f64 && is_wide;
    // True where roots of numbers from low to high need no scaling, nor of their products with squares of counts.
    static GR_HD bool in_range(f64 low, f64 high) { return !scales || (low >= 1e-200 && high <= 1e200); }
    static GR_HD Result root(f64 variance) {
        if constexpr (is_f64) return !scales && is_own_root(variance) ? variance : root_of(variance);
        else return cast<Result>(is_short ? short_root_of(variance) : Op::spread(variance));
    }
    template <int V> static GR_HD void of(const f64 (&variances)[V], Pack<Result, V>& to) {
        bool inside = true;
        unrolled<V>([&](int j) { inside = inside && in_range(variances[j], variances[j]); });
        if (inside) unrolled<V>([&](int j) { to.at[j] = root(variances[j]); });
        else unrolled<V>([&](int j) { to.at[j] = cast<Result>(scaled_root_of(variances[j])); });
    }
    // Of quotients. A root of one takes no reciprocal: a / sqrt(ab). Inside: in_range has said so of all.
    template <int V> static GR_HD void of(const f64 (&spreads)[V], const f64 (&divisors)[V], bool inside, Pack<Result, V>& to) {
        f64 found[V];
        if (is_f64) unrolled<V>([&](int j) { found[j] = spreads[j] * divisors[j]; });
        if (is_f64 && !inside) {
            inside = true;
            unrolled<V>([&](int j) { inside = inside && in_range(found[j], found[j]); });
        }
        if (is_f64 && inside) return unrolled<V>([&](int j) {
            const f64 root = spreads[j] * refined_over_root(found[j]);
            to.at[j] = cast<Result>(!scales && is_own_root(found[j]) ? found[j] : root);
        });
        unrolled<V>([&](int j) { found[j] = spreads[j] * one_over(divisors[j]); });
        of(found, to);
    }
};

// Running variances of few digits by arithmetic of binary32, where a lane's run changes them little.

// The number, which the compiler keeps in a register instead of computing it again where it is used.
GR_HD f32 pin_to_register(f32 x) {
#ifndef GR_EMULATED
    asm volatile("" : "+f"(x));
#endif
    return x;
}
// Variances of 16 bits, by sums in binary32: precise enough behind many elements.
template <class T, bool Root> struct VarianceDelta {
    f32 mean, before, freedom, limit;
    f32 sum, excess;  // of distances from the mean; of their squares
    GR_HD VarianceDelta() {}
    GR_HD VarianceDelta(const Moments2<f64>& state, const f64* option)
        : mean((f32)state.mean), before((f32)state.m2), freedom((f32)(state.count - option[0])), sum(0), excess(0) {
        const bool many = state.count - option[0] >= 512 * (1 + fabs(option[0]));
        limit = many && (before == 0 || before >= 1e-30f) && before <= 1e36f ? 1e34f : -1.0f;
    }
    GR_HD bool is_small(f64 more) const { return more <= limit; }
    GR_HD f32 usual() const { return 0; }  // of squares about the mean, where that matters
    GR_HD f32 distance(T x) const { return to_f32(x) - mean; }
    template <int V> GR_HD void walk(const Pack<T, V>& from, Pack<T, V>& to) {
        const f32 part = one_over(freedom + (V + 1) * 0.5f), slope = part * part, bend = slope * part;
        freedom += V;
        unrolled<V>([&](int j) {
            const f32 off = (V - 1) * 0.5f - j, d = distance(from.at[j]);
            const f32 own = __fmaf_rn(off, slope, __fmaf_rn(off * off, bend, part));
            sum += d;
            excess = __fmaf_rn(d, d, excess);
            const f32 variance = (before + __fmaf_rn(-sum * sum, own, excess)) * own;
            to.at[j] = narrowed(Root ? rough_root_of(variance) : variance, T());
        });
    }
};

// Variances of binary32 as the variance before the run plus a difference that is computed in binary32: as long as it is small, its
// rounding errors are a fraction of the results' last bit.
template <bool Root> struct VarianceDelta<f32, Root> {
    f32 mean, mean_rest, variance, variance_rest, limit, freedom, missing;  // missing: the count less the divisor
    f32 sum, excess;  // of distances from the mean; of their squares less the variance
    GR_HD VarianceDelta() {}
    GR_HD VarianceDelta(const Moments2<f64>& before, const f64* option) : sum(0), excess(0) {
        const f64 free = before.count - option[0], spread = before.m2 * one_over(free);
        mean = (f32)before.mean;
        mean_rest = pin_to_register((f32)(before.mean - (f64)mean));
        variance = (f32)spread;
        variance_rest = pin_to_register((f32)(spread - (f64)variance));
        // Too few elements, too large a correction of the divisor, or squares out of the range of binary32: no run is small.
        const bool none = !(free >= 1536 * (1 + fabs(option[0])) && variance >= 1e-18f && variance <= 1e18f);
        limit = none ? -1.0f : (f32)before.m2 * 0.03125f;
        freedom = (f32)free;
        missing = (f32)option[0];
    }
    // True where the arithmetic is precise enough for a run whose squares about the mean add up to `more` at most.
    GR_HD bool is_small(f64 more) const { return more <= limit; }
    GR_HD f32 usual() const { return variance; }
    GR_HD f32 distance(f32 x) const { return (x - mean) - mean_rest; }
    template <int V> GR_HD void walk(const Pack<f32, V>& from, Pack<f32, V>& to) {
        const f32 part = one_over(freedom + (V + 1) * 0.5f), slope = part * part;
        const f32 of_count = __fmaf_rn(-missing, part, 1.0f);  // a count's reciprocal over that of its divisor
        freedom += V;
        unrolled<V>([&](int j) {
            const f32 d = distance(from.at[j]);
            sum += d;
            excess += __fmaf_rn(d, d, -variance);
            const f32 own = __fmaf_rn((V - 1) * 0.5f - j, slope, part);
            const f32 more = __fmaf_rn(__fmaf_rn(-sum * sum, own * of_count, excess), own, variance_rest), all = variance + more;
            to.at[j] = Root ? root_of(all, variance, more) : all;
        });
    }
};
template <class Op, class Emit> struct VarianceF32Delta { static const bool exists = false; };
template <class T, bool SkipNan, bool Root>
struct VarianceF32Delta<Variance<T, SkipNan, Root>, Final<Variance<T, SkipNan, Root>, T>> : VarianceDelta<T, Root> {
    static const bool exists = FewDigits<T>::yes;
    using VarianceDelta<T, Root>::VarianceDelta;
    template <class From, class To> GR_HD void run(const From& from, To& to) { this->walk(from, to); }
};

// Running variances and deviations about the mean before a lane's run, by sums of distances and of their squares.

// With a reciprocal in place of the division of a variance, which is slower down columns.
template <class Emit> struct RowEmit : Emit {};
template <class Op, class Result> struct SpreadByReciprocal {
    typedef Result Out;
    static GR_HD Result of(const typename Op::State& state, const f64* option) {
        const f64 variance = variance_by_reciprocal(state.count, state.m2, option);
        const bool is_short = FewDigits<typename Op::Real>::yes;
        return cast<Result>(!Op::roots ? variance : is_short ? short_root_of(variance) : scaled_root_of(variance));
    }
};
template <class T, bool SkipNan, bool Root, class Result>
struct RowEmit<Final<Variance<T, SkipNan, Root>, Result>> : SpreadByReciprocal<Variance<T, SkipNan, Root>, Result> {};
template <class T, bool SkipNan, bool Root, class Result>
struct RowEmit<Final<ComplexVariance<T, SkipNan, Root>, Result>> : SpreadByReciprocal<ComplexVariance<T, SkipNan, Root>, Result> {};

// Sums about the mean before a run, of the elements since and of those that the mean is of.
template <class State> struct SumsAbout;
template <class M> struct SumsAbout<Moments2<M>> : PivotSums {
    GR_HD SumsAbout() : PivotSums(0) {}
    GR_HD explicit SumsAbout(const Moments2<M>& before) : PivotSums(first_of(before.mean)) {
        sums = {before.count * rest_of(before.mean), before.m2};
    }
    template <class T> GR_HD void take(T x) { add(cast<f64>(x)); }
    GR_HD f64 squares() const { return sums.squares; }
    GR_HD Moments2<M> state(f64 count) const {
        const f64 shift = sums.sum * one_over(count);
        return {count, shifted(M{pivot}, shift), __fma_rn(-sums.sum, shift, sums.squares)};
    }
};
template <> struct SumsAbout<ComplexMoments2> {
    f64 re, im, sum_re, sum_im, m2;
    GR_HD SumsAbout() {}
    GR_HD explicit SumsAbout(const ComplexMoments2& before) : re(before.re), im(before.im), sum_re(0), sum_im(0), m2(before.m2) {}
    template <class T> GR_HD void take(T x) {
        const f64 right = x.re - re, up = x.im - im;
        sum_re += right;
        sum_im += up;
        m2 = __fma_rn(right, right, __fma_rn(up, up, m2));
    }
    GR_HD f64 squares() const { return m2; }
    GR_HD f64 spread(f64 count) const { return __fma_rn(-sum_re, sum_re, __fma_rn(-sum_im, sum_im, count * m2)); }
    GR_HD ComplexMoments2 state(f64 count) const {
        const f64 part = one_over(count), right = sum_re * part, up = sum_im * part;
        return {count, re + right, im + up, __fma_rn(-sum_re, right, __fma_rn(-sum_im, up, m2))};
    }
};

// Variances about the mean before the run, which has any number of elements where results have few digits, else at least `least`:
// no more digits cancel than the run has elements for each of those before it. One reciprocal serves both divisors.
template <class Op, class Result> struct VarianceScan {
    typedef typename Op::In T;
    typedef typename Op::State State;
    typedef VarianceResults<Op, Result> Results;
    static const bool exists = true, few_digits = FewDigits<typename Op::Real>::yes;
    static const int least = sizeof(Result) <= 4 ? 1 : 4;
    SumsAbout<State> sums;
    f64 before, count;  // elements before the run, and before the next one
    const f64* option;
    GR_HD VarianceScan() {}
    GR_HD VarianceScan(const State& state, const f64* options) : option(options) { begin(state); }
    GR_HD void begin(const State& state) {
        sums = SumsAbout<State>(state);
        before = count = state.count;
    }
    GR_HD State now() const { return count > 0 ? sums.state(count) : Op::identity(); }
    GR_HD bool has_enough() const { return before >= least && count + (Op::skips_nan ? 0 : 1) > option[0]; }
    // True where the next elements, so many whose squares about the mean add up to `more` at most, need no checks.
    GR_HD bool is_steady(int elements, f64 more) const {
        if (!has_enough()) return false;
        if (!Results::is_wide) return !few_digits || more == more;
        const f64 all = count + elements, low = sums.squares(), high = low + more;
        return all * high < bit_cast<f64>(0x7fd0000000000000ull) &&
               Results::in_range(low * one_over(all - option[0]), high * one_over(count + 1 - option[0]));
    }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        if (has_enough()) {
            const VarianceScan first = *this;
            walk<false, Op::skips_nan>(from, to);
            if (!Results::is_wide || count * sums.squares() < bit_cast<f64>(0x7fe0000000000000ull)) return;
            *this = first;  // squares are out of the range of binary64, or NaN
        }
        ElementwiseScan<Op, RowEmit<Final<Op, Result>>, false> each(now(), option);
        each.run(from, to);
        begin(each.now());
    }
    template <bool Steady = true, bool Skips = false, int V> GR_HD void walk(const Pack<T, V>& from, Pack<Result, V>& to) {
        f64 spreads[V], divisors[V];
        unrolled<V>([&](int j) {
            if (!Skips || !is_nan(from.at[j])) {
                sums.take(from.at[j]);
                count += 1;
            }
            spreads[j] = sums.spread(count);
            divisors[j] = count * (count - option[0]);
        });
        Results::of(spreads, divisors, Steady, to);
    }
};
template <class T, bool SkipNan, bool Root, class Result, int V>
struct PackScanOf<Variance<T, SkipNan, Root>, Final<Variance<T, SkipNan, Root>, Result>, V> {
    typedef VarianceScan<Variance<T, SkipNan, Root>, Result> type;
};
template <class T, bool SkipNan, bool Root, class Result, int V>
struct PackScanOf<ComplexVariance<T, SkipNan, Root>, Final<ComplexVariance<T, SkipNan, Root>, Result>, V> {
    typedef VarianceScan<ComplexVariance<T, SkipNan, Root>, Result> type;
};

// Running variances of whole lines without carries: about a line's first element, which is one of them, so that no more digits
// cancel than the line's length has; by reciprocals from a table, since all lines have one length. Of integers all digits count: of
// 1,024 of up to 16 bits all sums are whole numbers below 2^53.
template <class Op, class Emit> struct WholeLineVariance { static const bool exists = false; };
template <class T, bool Root, class Result>
struct WholeLineVariance<Variance<T, false, Root>, Final<Variance<T, false, Root>, Result>> : PivotSums {
    static const bool exists = FewDigits<T>::yes || NarrowInteger<T>::yes;
    GR_HD WholeLineVariance() : PivotSums(0) {}
    GR_HD explicit WholeLineVariance(T first) : PivotSums(cast<f64>(first)) {}
    using PivotSums::take;
    GR_HD void take(T x) { add(cast<f64>(x)); }
    GR_HD f64 variance(f64 count, f64 part) const { return spread(count) * part; }
    // One over the product of a count and the divisor of its squares.
    static GR_HD f64 part_of(f64 count, const f64* option) {
        const f64 freedom = count - option[0];
        return freedom > 0 ? 1 / (count * freedom) : option[1];
    }
};
