// Central moments: power sums within a thread, about a pivot or exact, and (count, mean, M2, ...) between threads.
// Merging: Chan, Golub and LeVeque 1979; Pebay 2008 for the third and fourth moment.
#pragma once
#include "../core/roots.cuh"
#include "integer_powers.cuh"

template <class M> struct Moments2 { f64 count; M mean; f64 m2; };
struct Moments4 { f64 count, mean, m2, m3, m4; };
struct ComplexMoments2 { f64 count, re, im, m2; };

// What the mean of real elements is kept in for their variance: a pair where they have more digits than binary32. A
// merge squares the distance of two means, and of rounded ones it has but the digits that elements far from zero leave.
// Larger states keep rounded means: with pairs an SM would hold three of their blocks, not four (H200: 0.92 of the speed).
template <class T> struct MeanType { typedef f64 type; };
template <> struct MeanType<i32> { typedef Twofold type; };
template <> struct MeanType<u32> { typedef Twofold type; };
template <> struct MeanType<i64> { typedef Twofold type; };
template <> struct MeanType<u64> { typedef Twofold type; };
template <> struct MeanType<f64> { typedef Twofold type; };
template <class T> using MeanOf = typename MeanType<T>::type;

GR_HD f64 distance(f64 from, f64 to) { return to - from; }
GR_HD f64 distance(Twofold from, Twofold to) { return (to.hi - from.hi) + (to.lo - from.lo); }
GR_HD f64 shifted(f64 mean, f64 by) { return mean + by; }
GR_HD Twofold shifted(Twofold mean, f64 by) {
    Twofold sum = {mean.hi, 0};
    add(sum, mean.lo + by);
    return {sum.hi, sum.hi - sum.hi == 0 ? sum.lo : 0};
}

// option: what is taken from the count, and what squares are multiplied by where that leaves nothing, infinity or NaN.
GR_HD f64 variance(f64 count, f64 m2, const f64* option) {
    const f64 freedom = count - option[0];
    return m2 * (freedom > 0 ? 1 / freedom : option[1]);  // one division where rows are of one length
}
// The same bits by a reciprocal that is rounded as a division rounds it (Markstein 1990), without a branch.
GR_HD f64 variance_by_reciprocal(f64 count, f64 m2, const f64* option) {
    const f64 freedom = count - option[0], near = one_over(freedom);
    return m2 * (freedom > 0 ? __fma_rn(__fma_rn(-freedom, near, 1.0), near, near) : option[1]);
}

GR_HD void add_powers(f64 (&sum)[2], f64 d) {
    sum[0] += d;
    sum[1] = __fma_rn(d, d, sum[1]);
}
GR_HD void add_powers(f64 (&sum)[4], f64 d) {
    const f64 square = d * d;
    sum[0] += d;
    sum[1] += square;
    sum[2] = __fma_rn(square, d, sum[2]);
    sum[3] = __fma_rn(square, square, sum[3]);
}
// Elements' power sums about the thread's first element: no division an element, and no loss while they lie
// closer to it than to zero.
template <int Order> struct PowerSums {
    f64 pivot, sum[Order];
    u32 count;  // a thread sees fewer than 2^32 elements: a full grid has millions of threads
    GR_HD void take(f64 x) { add_powers(sum, x - pivot); }
};

template <class M> GR_HD Moments2<M> settle_powers(const PowerSums<2>& acc) {
    f64 n = (f64)acc.count, shift = acc.count ? acc.sum[0] * one_over(n) : 0, m2 = acc.sum[1] - acc.sum[0] * shift;
    if (m2 != m2 && shift - shift == 0) m2 = acc.sum[1];  // squares past the range of binary64: infinite, not unknown
    return {n, shifted(M{acc.count ? acc.pivot : 0}, shift), m2 < 0 ? 0 : m2};
}
template <class M> GR_HD Moments4 settle_powers(const PowerSums<4>& acc) {
    f64 n = (f64)acc.count, d = acc.count ? acc.sum[0] * one_over(n) : 0;
    f64 m2 = acc.sum[1] - acc.sum[0] * d;
    f64 m3 = acc.sum[2] - 3 * d * acc.sum[1] + 2 * n * d * d * d;
    f64 m4 = acc.sum[3] - 4 * d * acc.sum[2] + 6 * d * d * acc.sum[1] - 3 * n * d * d * d * d;
    return {n, acc.count ? acc.pivot + d : 0, m2 < 0 ? 0 : m2, m3, m4 < 0 ? 0 : m4};
}

// Power sums that go on from a state: about its mean, from which deviations add up to nothing.
GR_HD PowerSums<4> resumed(const Moments4& state) { return {state.mean, {0, state.m2, state.m3, state.m4}, (u32)state.count}; }

template <class M> GR_HD Moments2<M> merge(Moments2<M> a, Moments2<M> b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    f64 n = a.count + b.count, delta = distance(a.mean, b.mean), part = b.count * one_over(n);
    return {n, shifted(a.mean, delta * part), a.m2 + b.m2 + delta * delta * (a.count * part)};
}
GR_HD Moments4 merge(Moments4 a, Moments4 b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    f64 n = a.count + b.count, delta = b.mean - a.mean, d = delta * one_over(n), d2 = d * d, both = a.count * b.count;
    f64 m2 = a.m2 + b.m2 + delta * d * both;
    f64 m3 = a.m3 + b.m3 + delta * d2 * both * (a.count - b.count) + 3 * d * (a.count * b.m2 - b.count * a.m2);
    f64 m4 = a.m4 + b.m4 + delta * d * d2 * both * (a.count * a.count - both + b.count * b.count) +
             6 * d2 * (a.count * a.count * b.m2 + b.count * b.count * a.m2) + 4 * d * (a.count * b.m3 - b.count * a.m3);
    return {n, a.mean + d * b.count, m2, m3, m4};
}

// Order 2 or 4; SkipNan leaves NaN out of count and sums.
template <class T, int Order, bool SkipNan, class Packed>
struct PivotMoments : Plain<PivotMoments<T, Order, SkipNan, Packed>, T, Packed> {
    typedef PowerSums<Order> Acc;
    static GR_HD Acc start() { return Acc(); }
    static GR_HD void absorb(Acc& acc, T element, i64) {
        f64 x = cast<f64>(element);
        if (SkipNan && x != x) return;
        if (acc.count == 0) acc.pivot = x;
        acc.count++;
        acc.take(x);
    }
    // A NaN becomes the pivot, which adds nothing, and is not counted: no branch an element, whatever the data.
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64, i64) {
        if (acc.count == 0) {
#pragma unroll
            for (int j = SkipNan ? V - 1 : 0; j >= 0; j--)  // the first number is the last that is put there
                if (!SkipNan || !is_nan(pack.element(j))) acc.pivot = cast<f64>(pack.element(j));
        }
        const auto pivot = (decltype(as_wide(T())))acc.pivot;
#pragma unroll
        for (int j = 0; j < V; j++) {
            const auto x = as_wide(pack.element(j));
            const bool counts = !SkipNan || !is_nan(x);
            acc.count += counts;
            acc.take((f64)(counts ? x : pivot));
        }
    }
    // Elements outside become the pivot, which adds nothing.
    static const bool takes_part = !SkipNan;
    template <int V> static GR_HD void absorb_part(Acc& acc, Pack<T, V> pack, i32 first, i32 end) {
        if (acc.count == 0) {
#pragma unroll
            for (int j = 0; j < V; j++) acc.pivot = j == first ? cast<f64>(pack.at[j]) : acc.pivot;
        }
        acc.count += end - first;
#pragma unroll
        for (int j = 0; j < V; j++) acc.take(j >= first && j < end ? cast<f64>(pack.at[j]) : acc.pivot);
    }
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(Acc& acc, const Pack<T, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (V == 1) {  // a row of few elements is one pack, which says once whether it has a NaN
            Pack<T, N> row;
#pragma unroll
            for (int i = 0; i < N; i++) row.at[i] = packs[i].at[0];
            absorb_pack(acc, row, index, gap);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) absorb_pack(acc, packs[i], index + i * gap, step);
        }
    }
    static GR_HD Packed settle(const Acc& acc) { return settle_powers<MeanOf<T>>(acc); }
    static GR_HD Packed identity() { return Packed(); }
    static GR_HD Packed combine(Packed earlier, Packed later) { return merge(earlier, later); }
};

// The state of narrow integers, so many, from their power sums.
template <int Order, class Powers> GR_HD auto settle_integers(const Powers& powers, u32 count) {
    PowerSums<Order> sums;
    sums.count = count;
    sums.pivot = powers.about(count ? powers.total() * one_over((f64)count) : 0, count, sums.sum);
    return settle_powers<f64>(sums);
}
template <class T, int Order, class Packed>
struct IntegerMoments : Plain<IntegerMoments<T, Order, Packed>, T, Packed> {
    struct Acc { IntegerPowers<T, Order, true> powers; u32 count; };
    static GR_HD Acc start() { return Acc(); }
    static GR_HD void absorb(Acc& acc, T element, i64 index) { absorb_pack(acc, Pack<T, 1>{{element}}, index, 0); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64 index, i64 step) {
        absorb_packs<1>(acc, only(pack), index, 0, step);
    }
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(Acc& acc, const Pack<T, V> (&packs)[N], i64, i64, i64) {
        auto few = IntegerPowers<T, Order, false>();
#pragma unroll
        for (int i = 0; i < N; i++) few.take(packs[i]);
        acc.powers.join(few);
        acc.count += V * N;
    }
    static const bool takes_part = true;
    template <int V> static GR_HD void absorb_part(Acc& acc, Pack<T, V> pack, i32 first, i32 end) {
        nothing_outside(pack, -first, end - first);
        absorb_pack(acc, pack, 0, 0);
        acc.count -= V - (end - first);
    }
    static GR_HD Packed settle(const Acc& acc) {
        if (acc.count == 1) return {1, acc.powers.total() + NarrowInteger<T>::middle};  // scans and groups settle single ones
        return settle_integers<Order>(acc.powers, acc.count);
    }
    static GR_HD Packed identity() { return Packed(); }
    static GR_HD Packed combine(Packed earlier, Packed later) { return merge(earlier, later); }
};

template <class T, int Order, bool SkipNan, class Packed, bool Integer = NarrowInteger<T>::yes>
struct MomentsOf : PivotMoments<T, Order, SkipNan, Packed> {};
template <class T, int Order, bool SkipNan, class Packed>
struct MomentsOf<T, Order, SkipNan, Packed, true> : IntegerMoments<T, Order, Packed> {};

// Variances of real elements, or with Root the deviations.
template <class T, bool SkipNan, bool Root> struct Variance : MomentsOf<T, 2, SkipNan, Moments2<MeanOf<T>>> {
    typedef T Real;
    static const bool roots = Root, skips_nan = SkipNan;
    static GR_HD f64 spread(f64 variance) { return Root ? sqrt(variance) : variance; }
    template <class M> static GR_HD f64 finalise(Moments2<M> state, const f64* option) {
        const f64 found = variance(state.count, state.m2, option);
        return found != 0 ? spread(found) : found;  // whose root takes long
    }
};
template <class T, bool SkipNan> using Var = Variance<T, SkipNan, false>;
template <class T, bool SkipNan> using Std = Variance<T, SkipNan, true>;
template <class M> GR_HD bool is_suspect(Moments2<M> state) { return is_nan(value_of(state.mean)); }
template <class T, bool Root> struct Clean<Variance<T, true, Root>> {
    typedef Variance<T, false, Root> type;
    static const bool simpler = true;
};

// The central moment of order option[1], over count - option[0].
template <class T> struct CentralMoment : MomentsOf<T, 4, false, Moments4> {
    static GR_HD f64 finalise(Moments4 s, const f64* option) {
        if (option[1] < 2) return s.count > 0 ? 1 - option[1] : bit_cast<f64>(0x7ff8000000000000ull);
        f64 sum = option[1] == 2 ? s.m2 : option[1] == 3 ? s.m3 : s.m4;
        f64 freedom = s.count - option[0];
        return freedom < 0 ? bit_cast<f64>(0x7ff8000000000000ull) : sum / freedom;
    }
};

// A standardised moment has no meaning: all elements are one number up to rounding, or the moment, or the power of deviations that
// it is divided by, has left the range of binary64.
GR_HD bool is_degenerate(Moments4 s, f64 moment, f64 power) {
    const f64 rounding = bit_cast<f64>(0x3cb0000000000000ull) * s.mean;  // 2^-52
    return s.m2 <= s.count * rounding * rounding || power < power_of_two(-1022) || moment - moment != 0;
}

// m3 / m2^(3/2); option[0]: biased.
template <class T> struct Skewness : MomentsOf<T, 4, false, Moments4> {
    static GR_HD f64 finalise(Moments4 s, const f64* option) {
        const f64 n = s.count, share = one_over(n), variance = s.m2 * share, near = refined_over_root(variance);
        f64 skew = s.m3 * share * near * near * near;
        if (option[0] == 0 && n > 2) skew *= sqrt((n - 1) * n) / (n - 2);
        return is_degenerate(s, s.m3, s.m2 * (variance * near)) ? bit_cast<f64>(0x7ff8000000000000ull) : skew;
    }
};

// m4 / m2^2; option[0]: biased; option[1]: less 3, Fisher's.
template <class T> struct Kurtosis : MomentsOf<T, 4, false, Moments4> {
    static GR_HD f64 finalise(Moments4 s, const f64* option) {
        const f64 n = s.count, share = one_over(n), variance = s.m2 * share, near = one_over(variance);
        f64 kurtosis = s.m4 * share * near * near;
        if (option[0] == 0 && n > 3) kurtosis = ((n * n - 1) * kurtosis - 3 * (n - 1) * (n - 1)) / ((n - 2) * (n - 3)) + 3;
        return is_degenerate(s, s.m4, s.m2 * variance) ? bit_cast<f64>(0x7ff8000000000000ull) : kurtosis - 3 * option[1];
    }
};

// The variance of complex numbers is the mean of |x - mean|^2; with Root its root.
template <class T, bool SkipNan, bool Root>
struct ComplexVariance : Plain<ComplexVariance<T, SkipNan, Root>, complex<T>, ComplexMoments2> {
    typedef T Real;
    typedef ComplexMoments2 State;
    static const bool roots = Root, skips_nan = SkipNan;
    typedef PivotMoments<Real, 2, false, Moments2<f64>> Part;
    struct Acc { PowerSums<2> re, im; };
    static GR_HD Acc start() { return Acc(); }
    static GR_HD void absorb(Acc& acc, complex<Real> x, i64 index) {
        if (SkipNan && is_nan(x)) return;
        Part::absorb(acc.re, x.re, index);
        Part::absorb(acc.im, x.im, index);
    }
    static GR_HD State settle(const Acc& acc) {
        Moments2<f64> re = settle_powers<f64>(acc.re), im = settle_powers<f64>(acc.im);
        return {re.count, re.mean, im.mean, re.m2 + im.m2};
    }
    static GR_HD State identity() { return State(); }
    static GR_HD State combine(State a, State b) {
        if (a.count == 0) return b;
        if (b.count == 0) return a;
        const f64 re = b.re - a.re, im = b.im - a.im, n = a.count + b.count, part = b.count * one_over(n);
        return {n, a.re + re * part, a.im + im * part, a.m2 + b.m2 + (re * re + im * im) * (a.count * part)};
    }
    static GR_HD f64 spread(f64 variance) { return Root ? sqrt(variance) : variance; }
    static GR_HD f64 finalise(State state, const f64* option) { return spread(variance(state.count, state.m2, option)); }
};
template <class T, bool SkipNan> using ComplexMoments = ComplexVariance<T, SkipNan, false>;
template <class T, bool SkipNan> using ComplexStd = ComplexVariance<T, SkipNan, true>;
