// Extremes with their position: ties, and the first NaN, go to the lowest index whatever order elements come in.
#pragma once
#include "extremes.cuh"

template <class T> struct Placed { T value; i64 index; };  // index -1: no element yet

// 1 where b beats a, 0 where they tie, -1 where it does not. NaN beats every number and ties with NaN.
template <class T, bool Max> GR_HD int contest(T a, T b) { return (Max ? b > a : b < a) ? 1 : b == a ? 0 : -1; }
template <class T, bool Max> GR_HD int contest_floats(T a, T b) {
    if (Max ? b > a : b < a) return 1;
    if (b == a) return 0;
    bool nan_a = a != a, nan_b = b != b;
    return nan_b ? (nan_a ? 0 : 1) : -1;
}
template <class T, bool Max> struct Contest { static GR_HD int of(T a, T b) { return contest<T, Max>(a, b); } };
template <bool Max> struct Contest<f32, Max> { static GR_HD int of(f32 a, f32 b) { return contest_floats<f32, Max>(a, b); } };
template <bool Max> struct Contest<f64, Max> { static GR_HD int of(f64 a, f64 b) { return contest_floats<f64, Max>(a, b); } };
template <bool Max> struct Contest<half, Max> {
    static GR_HD int of(half a, half b) { return contest_floats<f32, Max>(to_f32(a), to_f32(b)); }
};
template <bool Max> struct Contest<bfloat16, Max> {
    static GR_HD int of(bfloat16 a, bfloat16 b) { return contest_floats<f32, Max>(to_f32(a), to_f32(b)); }
};
template <bool Max> struct Contest<boolean, Max> {
    static GR_HD int of(boolean a, boolean b) { return contest<u8, Max>(a.byte, b.byte); }
};
// Complex numbers compare by real part, then imaginary; one with a NaN part counts as NaN.
template <class Real, bool Max> struct Contest<complex<Real>, Max> {
    static GR_HD int of(complex<Real> a, complex<Real> b) {
        bool nan_a = is_nan(a), nan_b = is_nan(b);
        if (nan_a || nan_b) return nan_b ? (nan_a ? 0 : 1) : -1;
        int first = contest<Real, Max>(a.re, b.re);
        return first ? first : contest<Real, Max>(a.im, b.im);
    }
};

template <class T, bool Max, bool SkipNan> struct Worst {
    static GR_HD T value() { return Extreme<T, Max, false>::worst(); }
};
template <class Real, bool Max, bool SkipNan> struct Worst<complex<Real>, Max, SkipNan> {
    static GR_HD complex<Real> value() { return {Extreme<Real, Max, false>::worst(), Extreme<Real, Max, false>::worst()}; }
};
template <class T> struct IsComplex { static const bool yes = false; };
template <class Real> struct IsComplex<complex<Real>> { static const bool yes = true; };

template <class T, bool Max, bool SkipNan> struct Arg : Plain<Arg<T, Max, SkipNan>, T, Placed<T>> {
    typedef Placed<T> State;
    static GR_HD State identity() { return {Worst<T, Max, SkipNan>::value(), -1}; }
    static GR_HD void offer(State& best, T x, i64 index) {
        if (SkipNan && is_nan(x)) return;
        int won = Contest<T, Max>::of(best.value, x);
        if (best.index < 0 || won > 0 || (won == 0 && index < best.index)) best = {x, index};
    }
    static GR_HD void absorb(State& acc, T x, i64 index) { offer(acc, x, index); }
    // The best value of many packs first, without positions; only where it wins or ties are they searched for it.
    template <int V, int N>
    static GR_HD void absorb_packs(State& acc, const Pack<T, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (IsComplex<T>::yes) {
#pragma unroll
            for (int i = 0; i < N * V; i++) offer(acc, packs[i / V].at[i % V], index + i / V * gap + i % V * step);
        } else {
            Best<T, Max, SkipNan> running = Best<T, Max, SkipNan>::start();
#pragma unroll
            for (int i = 0; i < N; i++) running.take(packs[i]);
            const T best = running.settle();
            if (SkipNan && is_nan(best)) return;
            const int won = Contest<T, Max>::of(acc.value, best);
            const i64 lowest = step < 0 ? index + (N - 1) * gap + (V - 1) * step : index;
            if (acc.index >= 0 && (won < 0 || (won == 0 && lowest > acc.index))) return;
            int first = 0, last = 0;  // places of the best value: the first found, and the last
#pragma unroll
            for (int i = N * V - 1; i >= 0; i--)
                if (Contest<T, Max>::of(packs[i / V].at[i % V], best) == 0) first = i;
#pragma unroll
            for (int i = 0; i < N * V; i++)
                if (Contest<T, Max>::of(packs[i / V].at[i % V], best) == 0) last = i;
            const int place = step < 0 ? last : first;
            offer(acc, best, index + place / V * gap + place % V * step);
        }
    }
    template <int V> static GR_HD void absorb_pack(State& acc, const Pack<T, V>& pack, i64 index, i64 step) {
        const Pack<T, V> packs[1] = {pack};
        absorb_packs(acc, packs, index, 0, step);
    }
    static GR_HD State combine(State earlier, State later) {
        if (later.index >= 0) offer(earlier, later.value, later.index);
        return earlier;
    }
    static GR_HD i64 finalise(State state, const f64*) { return state.index; }
};

// The value itself, for elements (complex) whose ties and NaNs can be told apart only by position.
template <class T, bool Max, bool SkipNan> struct ArgValue : Arg<T, Max, SkipNan> {
    static GR_HD T finalise(Placed<T> state, const f64*) { return state.value; }
};
