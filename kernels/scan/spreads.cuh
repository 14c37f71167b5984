// Running variances and deviations by the pack: about the mean before a lane's run, by sums of distances and of their squares.
#pragma once
#include "../warp/scan.cuh"
#include "quotients.cuh"

// A number that is not to be computed again where it is wanted, as the compiler would to have a register less.
GR_HD f32 kept(f32 x) {
#ifndef GR_EMULATED
    asm volatile("" : "+f"(x));
#endif
    return x;
}
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
// Variances as results, without roots of binary64 where few digits are wanted.
template <class Op, class Result> struct Spreads {
    template <int V> static GR_HD void of(const f64 (&variances)[V], Pack<Result, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) to.at[j] = cast<Result>(Op::spread(variances[j]));
    }
};
template <> struct Spreads<Std<f32, false>, f32> {
    template <int V> static GR_HD void of(const f64 (&variances)[V], Pack<f32, V>& to) {
        bool inside = true;  // the range of binary32, and so are squares and rests
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f32 near = to.at[j] = (f32)variances[j];
            inside = inside && near >= 1e-30f && near <= 1e30f;
        }
        if (inside) {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = root_of(to.at[j], (f32)(variances[j] - (f64)to.at[j]));
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = (f32)sqrt(variances[j]);
        }
    }
};

// Results along lines, where variances are by a reciprocal. H200, 2026-11, of a copy, by a division: float32 in lines of
// 32768 0.57 and 0.61; but down as many columns 0.64 and 0.53.
template <class Emit> struct Along : Emit {};
template <class T, bool SkipNan, class Result> struct Along<Final<Var<T, SkipNan>, Result>> {
    template <class M> static GR_HD Result of(const M& state, const f64* option) {
        return cast<Result>(variance_by_reciprocal(state.count, state.m2, option));
    }
};
template <class T, bool SkipNan, class Result> struct Along<Final<Std<T, SkipNan>, Result>> {
    template <class M> static GR_HD Result of(const M& state, const f64* option) {
        return cast<Result>(sqrt(variance_by_reciprocal(state.count, state.m2, option)));
    }
};

// Variances about the mean that comes before the run, of at least as many elements as a run has, so that no more cancels than
// half; where results have fewer digits, of any number, so that no more cancels than a run has elements.
// One reciprocal serves both divisors.
template <class T, class Op, class Result> struct SpreadScan {
    typedef typename Op::State State;
    static const bool exists = true;
    static const int least = sizeof(Result) <= 4 ? 1 : 256;
    State state;  // what the sums are about
    f64 sum, squares, count;
    const f64* option;
    GR_HD SpreadScan(State before, const f64* options) : option(options) { begin(before); }
    GR_HD void begin(State before) {
        state = before;
        sum = 0;
        squares = before.m2;
        count = before.count;
    }
    // Goes on behind so many elements, given their sum and that of squares about the mean.
    GR_HD void skip(int elements, f64 their_sum, f64 their_squares) {
        sum = their_sum;
        squares = state.m2 + their_squares;
        count = state.count + elements;
    }
    GR_HD State now() const {
        const f64 part = one_over(count), shift = sum * part;
        return count == state.count ? state : State{count, shifted(state.mean, shift), __fma_rn(-sum, shift, squares)};
    }
    static GR_HD f64 away(f64 mean, T x) { return cast<f64>(x) - mean; }
    static GR_HD f64 away(Twofold mean, T x) { return (cast<f64>(x) - mean.hi) - mean.lo; }
    template <int V> GR_HD void run(const Pack<T, V>& from, Pack<Result, V>& to) {
        if (state.count >= least && count + 1 > option[0]) {
            const f64 first = sum, second = squares, number = count;
            Pack<Result, V> found;
            walk(from, found);
            if (FewDigits<T>::yes || count * squares < bit_cast<f64>(0x7fe0000000000000ull)) {
                to = found;
                return;
            }
            sum = first;  // squares are past the range of binary64, or no numbers
            squares = second;
            count = number;
        }
        State each = now();
#pragma unroll
        for (int j = 0; j < V; j++) {
            each = Take<Op>::of(each, from.at[j]);
            to.at[j] = Along<Final<Op, Result>>::of(each, option);
        }
        begin(each);
    }
    template <int V> GR_HD void walk(const Pack<T, V>& from, Pack<Result, V>& to) {
        const Reciprocals parts((count + 1) * (count + 1 - option[0]), count >= 8388608.0);  // a product of two is twice as far
        f64 variances[V];
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f64 d = away(state.mean, from.at[j]);
            sum += d;
            squares = __fma_rn(d, d, squares);
            count += 1;
            variances[j] = __fma_rn(-sum, sum, count * squares) * parts.of(count * (count - option[0]));
        }
        Spreads<Op, Result>::of(variances, to);
    }
};
template <class T, class Result, int V>
struct PackScan<Var<T, false>, Final<Var<T, false>, Result>, V> : SpreadScan<T, Var<T, false>, Result> {
    using SpreadScan<T, Var<T, false>, Result>::SpreadScan;
};
template <class T, class Result, int V>
struct PackScan<Std<T, false>, Final<Std<T, false>, Result>, V> : SpreadScan<T, Std<T, false>, Result> {
    using SpreadScan<T, Std<T, false>, Result>::SpreadScan;
};
template <class Real, class Result, int V>
struct PackScan<Var<complex<Real>, false>, Final<Var<complex<Real>, false>, Result>, V> { static const bool exists = false; };
template <class Real, class Result, int V>
struct PackScan<Std<complex<Real>, false>, Final<Std<complex<Real>, false>, Result>, V> { static const bool exists = false; };

// Variances of binary32 as that before the run and how much they differ from it, by arithmetic of binary32: as long as that is
// little, what it rounds is a fraction of their last bit.
template <class Op, class Emit> struct NearScan { static const bool exists = false; };
template <class Op, bool Root> struct NearSpread {
    static const bool exists = true;
    f32 mean, mean_rest, variance, variance_rest, limit, freedom, missing;  // missing: from the count, in what it is divided by
    f32 sum, excess, last_sum, last_excess;  // of distances, and of what their squares exceed the variance by; before the pack
    GR_HD NearSpread(const typename Op::State& before, const f64* option) : sum(0), excess(0) {
        const f64 free = before.count - option[0], spread = before.m2 * one_over(free);
        mean = (f32)before.mean;
        mean_rest = kept((f32)(before.mean - (f64)mean));
        variance = (f32)spread;
        variance_rest = kept((f32)(spread - (f64)variance));
        // So few elements, or so large a divisor, or squares past the range of binary32: none is near.
        const bool none = !(free >= 2048 * (1 + fabs(option[0])) && variance >= 1e-18f && variance <= 1e18f);
        limit = none ? -1.0f : (f32)before.m2 * 0.015625f;
        freedom = (f32)free;
        missing = (f32)option[0];
    }
    // True where the pack that was taken last, and all before it, are near. Before the first: where one may be.
    GR_HD bool is_near() const { return excess <= limit; }
    template <int V> GR_HD void run(const Pack<f32, V>& from, Pack<f32, V>& to) {
        last_sum = sum;
        last_excess = excess;
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
            to.at[j] = Root ? root_of(all, (variance - all) + more) : all;
        }
    }
};
template <> struct NearScan<Var<f32, false>, Final<Var<f32, false>, f32>> : NearSpread<Var<f32, false>, false> {
    using NearSpread<Var<f32, false>, false>::NearSpread;
};
template <> struct NearScan<Std<f32, false>, Final<Std<f32, false>, f32>> : NearSpread<Std<f32, false>, true> {
    using NearSpread<Std<f32, false>, true>::NearSpread;
};

// A warp's share folded about its first element, which all lanes know: sums need no division to be scanned, and what comes
// before a lane is found from them when what comes before the warp is known.
template <class Op> struct WarpFold { static const bool exists = false; };
template <class T, class Op> struct WarpPowers {
    static const bool exists = true;
    typedef typename Op::State State;
    struct Sums {
        struct State { f64 sum, squares; };
        static GR_HD State identity() { return {0, 0}; }
        static GR_HD State combine(State a, State b) { return {a.sum + b.sum, a.squares + b.squares}; }
    };
    typedef typename Sums::State Held;
    f64 pivot;
    Held sums;
    GR_HD WarpPowers(T first) : pivot(cast<f64>(first)), sums{0, 0} {}
    template <int V> GR_HD void take(const Pack<T, V>& pack) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            const f64 d = cast<f64>(pack.at[j]) - pivot;
            sums.sum += d;
            sums.squares = __fma_rn(d, d, sums.squares);
        }
    }
    // All lanes of the warp call: the sums of all up to this lane's.
    GR_HD Held through() const { return warp_scan<Sums, 32>(sums); }
    static GR_HD Held before(Held through) { return lane_before<Sums, 32>(through); }
    // As states are passed on.
    static GR_HD State packed(Held some) {
        State both = State();
        both.count = some.sum;
        both.m2 = some.squares;
        return both;
    }
    static GR_HD Held unpacked(State both) { return {both.count, both.m2}; }
    template <int Count> GR_HD State state_of(Held all) const {
        if constexpr (!FewDigits<T>::yes) {
            return settle_powers<MeanOf<T>>(PowerSums<2>{pivot, {all.sum, all.squares}, Count});
        } else {
            const f64 shift = all.sum * (1.0 / Count), spread = __fma_rn(-all.sum, shift, all.squares);
            return {(f64)Count, pivot + shift, spread < 0 ? 0 : spread};
        }
    }
    // A state and so many elements more.
    GR_HD State behind(State base, Held own, u32 count) const {
        if constexpr (!FewDigits<T>::yes) {
            return Op::combine(base, settle_powers<MeanOf<T>>(PowerSums<2>{pivot, {own.sum, own.squares}, count}));
        } else {
            const f64 centre = base.count > 0 ? base.mean : pivot, away = pivot - centre, number = count, all = base.count + number;
            const f64 sum = __fma_rn(number, away, own.sum), shift = all > 0 ? sum * one_over(all) : 0;
            const f64 spread = base.m2 + __fma_rn(-sum, shift, __fma_rn(away, own.sum + sum, own.squares));
            return {all, centre + shift, spread < 0 ? 0 : spread};
        }
    }
};
template <class T> struct WarpFold<Var<T, false>> : WarpPowers<T, Var<T, false>> {
    using WarpPowers<T, Var<T, false>>::WarpPowers;
};
template <class T> struct WarpFold<Std<T, false>> : WarpPowers<T, Std<T, false>> {
    using WarpPowers<T, Std<T, false>>::WarpPowers;
};
template <class Real> struct WarpFold<Var<complex<Real>, false>> { static const bool exists = false; };
template <class Real> struct WarpFold<Std<complex<Real>, false>> { static const bool exists = false; };
