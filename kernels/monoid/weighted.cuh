// Weighted variances and moments (frequency weights): the merges of moments.cuh with sums of weights in place of counts.
#pragma once
#include "../core/line.cuh"
#include "moments.cuh"

struct WeightedState {
    f64 weight, mean, m2;
};

template <bool Root> struct WeightedSpread : Plain<WeightedSpread<Root>, Pair<f64, f64>, WeightedState> {
    typedef Pair<f64, f64> In;
    typedef WeightedState State;
    static GR_HD State identity() { return {0, 0, 0}; }
    static GR_HD State lift(In x, i64) {
        return {x.b, x.b == 0 ? 0.0 : x.a, x.b == 0 ? 0.0 : x.a - x.a};  // NaN where it is not finite
    }
    static GR_HD State combine(State earlier, State later) {
        const f64 total = earlier.weight + later.weight, share = total == 0 ? 0.0 : later.weight * one_over(total);
        const f64 away = later.mean - earlier.mean;
        return {total, earlier.mean + away * share, earlier.m2 + later.m2 + away * away * earlier.weight * share};
    }
    static GR_HD f64 finalise(State state, const f64* option) {
        const f64 left = state.weight - option[0], spread = left > 0 ? state.m2 / left : bit_cast<f64>(0x7ff8000000000000ull);
        return Root ? sqrt(spread) : spread;
    }
};

// Statistic is of moments.cuh: what it makes of counts, it makes of weights. Merged in shares of the weight, which have
// a square whatever unit the weights are in.
template <class Statistic>
struct WeightedMoments : Plain<WeightedMoments<Statistic>, Pair<f64, f64>, Moments4> {
    typedef Pair<f64, f64> In;
    typedef Moments4 State;
    static GR_HD State identity() { return State(); }
    static GR_HD State lift(In x, i64) {
        const f64 spread = x.b == 0 ? 0.0 : x.a - x.a;  // NaN where it is not finite
        return {x.b, x.b == 0 ? 0.0 : x.a, spread, spread, spread};
    }
    static GR_HD State combine(State a, State b) {
        const f64 total = a.count + b.count, part = total == 0 ? 0.0 : 1 / total;
        const f64 pa = a.count * part, pb = b.count * part, d = b.mean - a.mean, d2 = d * d, cross = d2 * a.count * pb;
        const f64 m3 = cross * d * (pa - pb) + 3 * d * (pa * b.m2 - pb * a.m2);
        const f64 m4 = cross * d2 * (pa * pa - pa * pb + pb * pb) + 6 * d2 * (pa * pa * b.m2 + pb * pb * a.m2) +
                       4 * d * (pa * b.m3 - pb * a.m3);
        return {total, a.mean + d * pb, a.m2 + b.m2 + cross, a.m3 + b.m3 + m3, a.m4 + b.m4 + m4};
    }
    static GR_HD f64 finalise(State state, const f64* option) { return Statistic::finalise(state, option); }
};
