// Variances of elements that count as often as their weights say: counts of moments.cuh that are weights.
#pragma once
#include "../core/line.cuh"
#include "plain.cuh"

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
        const f64 total = earlier.weight + later.weight, share = total == 0 ? 0.0 : later.weight / total;
        const f64 away = later.mean - earlier.mean;
        return {total, earlier.mean + away * share, earlier.m2 + later.m2 + away * away * earlier.weight * share};
    }
    static GR_HD f64 finalise(State state, const f64* option) {
        const f64 left = state.weight - option[0], spread = left > 0 ? state.m2 / left : bit_cast<f64>(0x7ff8000000000000ull);
        return Root ? sqrt(spread) : spread;
    }
};
