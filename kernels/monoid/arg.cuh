// Extremes with their position: ties, and the first NaN, go to the lowest index whatever order elements come in.
#pragma once
#include "../core/state.cuh"
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
template <class T, bool Max> struct Contest {
    static GR_HD int of(T a, T b) { return contest<T, Max>(a, b); }
    static GR_HD bool beats(T a, T b) { return Max ? b > a : b < a; }  // numbers only
};
template <bool Max> struct Contest<f32, Max> {
    static GR_HD int of(f32 a, f32 b) { return contest_floats<f32, Max>(a, b); }
    static GR_HD bool beats(f32 a, f32 b) { return Max ? b > a : b < a; }
};
template <bool Max> struct Contest<f64, Max> {
    static GR_HD int of(f64 a, f64 b) { return contest_floats<f64, Max>(a, b); }
    static GR_HD bool beats(f64 a, f64 b) { return Max ? b > a : b < a; }
};
template <bool Max> struct Contest<half, Max> {
    static GR_HD int of(half a, half b) { return contest_floats<f32, Max>(to_f32(a), to_f32(b)); }
    static GR_HD bool beats(half a, half b) { return Max ? to_f32(b) > to_f32(a) : to_f32(b) < to_f32(a); }
};
template <bool Max> struct Contest<bfloat16, Max> {
    static GR_HD int of(bfloat16 a, bfloat16 b) { return contest_floats<f32, Max>(to_f32(a), to_f32(b)); }
    static GR_HD bool beats(bfloat16 a, bfloat16 b) { return Max ? to_f32(b) > to_f32(a) : to_f32(b) < to_f32(a); }
};
template <bool Max> struct Contest<boolean, Max> {
    static GR_HD int of(boolean a, boolean b) { return contest<u8, Max>(a.byte, b.byte); }
    static GR_HD bool beats(boolean a, boolean b) { return Max ? b.byte > a.byte : b.byte < a.byte; }
};
// Complex numbers compare by real part, then imaginary; one with a NaN part counts as NaN.
template <class Real, bool Max> struct Contest<complex<Real>, Max> {
    static GR_HD int of(complex<Real> a, complex<Real> b) {
        bool nan_a = is_nan(a), nan_b = is_nan(b);
        if (nan_a || nan_b) return nan_b ? (nan_a ? 0 : 1) : -1;
        int first = contest<Real, Max>(a.re, b.re);
        return first ? first : contest<Real, Max>(a.im, b.im);
    }
    static GR_HD bool beats(complex<Real> a, complex<Real> b) { return !is_nan(b) && of(a, b) > 0; }
};

template <class T, bool Max, bool SkipNan> struct Worst {
    static GR_HD T value() { return Extreme<T, Max, false>::worst(); }
};
template <class Real, bool Max, bool SkipNan> struct Worst<complex<Real>, Max, SkipNan> {
    static GR_HD complex<Real> value() { return {Extreme<Real, Max, false>::worst(), Extreme<Real, Max, false>::worst()}; }
};
template <class T> GR_HD bool is_same(T a, T b) { return a == b; }
GR_HD bool is_same(half a, half b) { return to_f32(a) == to_f32(b); }
GR_HD bool is_same(bfloat16 a, bfloat16 b) { return to_f32(a) == to_f32(b); }
GR_HD bool is_same(boolean a, boolean b) { return a.byte == b.byte; }

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
    // One element against the best so far, by value alone: the earlier keeps a tie.
    static GR_HD bool beats(T best, T x) {
        if (SkipNan && is_nan(best)) return !is_nan(x);
        return Contest<T, Max>::beats(best, x) || (!SkipNan && is_nan(x) && !is_nan(best));
    }
    // The best of N packs and its place, for few elements: one after another.
    template <int V, int N> static GR_HD int scan_place(const Pack<T, V> (&packs)[N], T& best) {
        int place = 0;
        best = packs[0].at[0];
#pragma unroll
        for (int i = 1; i < N * V; i++)
            if (beats(best, packs[i / V].at[i % V])) best = packs[i / V].at[i % V], place = i;
        return place;
    }
    // The first place of a value known to be there. NaN is looked for by itself, so that equality is one comparison.
    template <int V, int N> static GR_HD int find_place(const Pack<T, V> (&packs)[N], T best) {
        int place = 0;
        if (is_nan(best)) {
#pragma unroll
            for (int i = N * V - 1; i >= 0; i--) place = is_nan(packs[i / V].at[i % V]) ? i : place;
        } else {
#pragma unroll
            for (int i = N * V - 1; i >= 0; i--) place = is_same(packs[i / V].at[i % V], best) ? i : place;
        }
        return place;
    }
    // Indices ascend in a pack and from pack to pack: the plan walks an indexed line forwards.
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(State& acc, const Pack<T, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (IsComplex<T>::yes) {
#pragma unroll
            for (int i = 0; i < N * V; i++) offer(acc, packs[i / V].at[i % V], index + i / V * gap + i % V * step);
        } else if constexpr (N * V <= 8) {
            T best;
            const int place = scan_place(packs, best);
            offer(acc, best, index + place / V * gap + place % V * step);
        } else {  // the value first; its place only where it can win
            Best<T, Max, SkipNan> running = Best<T, Max, SkipNan>::start();
#pragma unroll
            for (int i = 0; i < N; i++) running.take(packs[i]);
            const T best = running.settle();
            const int won = SkipNan && is_nan(best) ? -1 : Contest<T, Max>::of(acc.value, best);
            const bool look = acc.index < 0 || won > 0 || (won == 0 && index < acc.index);
            // A warp that walks one row shares its best, so that one lane's find spares the others theirs.
            if (Lanes == 32 ? !__any_sync(0xffffffffu, look) : !look) return;
            if (look) {
                const int place = find_place(packs, best);
                offer(acc, best, index + place / V * gap + place % V * step);
            }
            if (Lanes == 32) share(acc);
        }
    }
    // All lanes call. Each lane's best becomes the warp's.
    static GR_HD void share(State& acc) {
#pragma unroll
        for (int bits = 1; bits < 32; bits *= 2) acc = combine(acc, shuffle_xor(0xffffffffu, acc, bits));
    }
    template <int V> static GR_HD void absorb_pack(State& acc, const Pack<T, V>& pack, i64 index, i64 step) {
        const Pack<T, V> packs[1] = {pack};
        absorb_packs<1>(acc, packs, index, 0, step);
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

// In a row of few elements a place takes 32 bits until the row is settled.
template <class T, bool Max, bool SkipNan> struct RawArg {
    typedef Arg<T, Max, SkipNan> Op;
    struct State { T value; u32 place; };
    static const bool pivots = false;
    static const u32 none = 0xffffffffu;
    static GR_HD State empty(f64) { return {Op::identity().value, none}; }
    static GR_HD State combine(State a, State b) {
        const int won = Contest<T, Max>::of(a.value, b.value);
        bool wins = won > 0 || (won == 0 && b.place < a.place);
        if (SkipNan) wins = b.place != none && (wins || a.place == none);
        return wins ? b : a;
    }
    static GR_HD Placed<T> settle(State raw, u64, i64 index, i64 step) {
        return {raw.value, raw.place == none ? -1 : index + (i64)raw.place * step};
    }
    template <int V> static GR_HD State of(const Pack<T, V>& pack, f64, i32 place, i64, i64) {
        const Pack<T, V> packs[1] = {pack};
        T best;
        const u32 found = (u32)(place + Op::scan_place(packs, best));
        return {best, SkipNan && is_nan(best) ? none : found};
    }
};
