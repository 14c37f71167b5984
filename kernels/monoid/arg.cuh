// Extremes with their position: ties, and the first NaN, go to the lowest index whatever order elements come in.
#pragma once
#include "../core/state.cuh"
#include "extremes.cuh"

template <class T> struct Placed { T value; i64 index; };  // index -1: no element yet

// Of a, the one so far, and b: b exceeds a as a number; b beats a, as NaN beats every number; they tie, as two NaN do.
// Joined by | and &, not by || and &&: comparisons then meet in predicates, without a branch an element.
template <class T, bool Max> struct Contest {
    static GR_HD bool exceeds(T a, T b) { return Max ? b > a : b < a; }
    static GR_HD bool beats(T a, T b) { return exceeds(a, b); }
    static GR_HD bool ties(T a, T b) { return a == b; }
};
template <class Real, bool Max> struct FloatContest {
    static GR_HD bool exceeds(Real a, Real b) { return Max ? b > a : b < a; }
    static GR_HD bool beats(Real a, Real b) { return exceeds(a, b) | ((b != b) & (a == a)); }
    static GR_HD bool ties(Real a, Real b) { return (a == b) | ((a != a) & (b != b)); }
};
template <bool Max> struct Contest<f32, Max> : FloatContest<f32, Max> {};
template <bool Max> struct Contest<f64, Max> : FloatContest<f64, Max> {};
template <class Half, bool Max> struct HalfContest {
    typedef FloatContest<f32, Max> Wide;
    static GR_HD bool exceeds(Half a, Half b) { return Wide::exceeds(to_f32(a), to_f32(b)); }
    static GR_HD bool beats(Half a, Half b) { return Wide::beats(to_f32(a), to_f32(b)); }
    static GR_HD bool ties(Half a, Half b) { return Wide::ties(to_f32(a), to_f32(b)); }
};
template <bool Max> struct Contest<half, Max> : HalfContest<half, Max> {};
template <bool Max> struct Contest<bfloat16, Max> : HalfContest<bfloat16, Max> {};
template <bool Max> struct Contest<boolean, Max> {
    static GR_HD bool exceeds(boolean a, boolean b) { return Max ? b.byte > a.byte : b.byte < a.byte; }
    static GR_HD bool beats(boolean a, boolean b) { return exceeds(a, b); }
    static GR_HD bool ties(boolean a, boolean b) { return a.byte == b.byte; }
};
// Complex numbers compare by real part, then imaginary; one with a NaN part counts as NaN.
template <class Real, bool Max> struct Contest<complex<Real>, Max> {
    typedef Contest<Real, Max> Part;
    static GR_HD bool exceeds(complex<Real> a, complex<Real> b) {
        const bool lexical = Part::exceeds(a.re, b.re) | ((a.re == b.re) & Part::exceeds(a.im, b.im));
        return lexical & !is_nan(a) & !is_nan(b);
    }
    static GR_HD bool beats(complex<Real> a, complex<Real> b) { return exceeds(a, b) | (is_nan(b) & !is_nan(a)); }
    static GR_HD bool ties(complex<Real> a, complex<Real> b) {
        return ((a.re == b.re) & (a.im == b.im)) | (is_nan(a) & is_nan(b));
    }
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

// The best of bytes and its place at once: 16 bits hold the byte and below it how far the place is from the last, so that
// of equal bytes the first is the larger number. Two elements an instruction; at most 256 elements.
template <class T, bool Max> struct ByteScan {
    static const u32 flip = (Max ? 0u : 0xffu) ^ (T(-1) < T(0) ? 0x80u : 0u);
    // The byte, flipped so that the best is the largest, above 255 less its place.
    template <int V, int N> static GR_HD u32 scan(const Pack<T, V> (&packs)[N]) {
        u32 lanes = 0;
#pragma unroll
        for (int w = 0; w < N * V / 4; w++) {
            const u32 word = ((const u32*)&packs[w * 4 / V])[w % (V / 4)] ^ flip * 0x01010101u;
            const u32 rest = (255 - 4 * w) | (254 - 4 * w) << 8 | (253 - 4 * w) << 16 | (u32)(252 - 4 * w) << 24;
            lanes = __vmaxu2(lanes, __byte_perm(word, rest, 0x1504));
            lanes = __vmaxu2(lanes, __byte_perm(word, rest, 0x3726));
        }
        const u32 low = lanes & 0xffffu, high = lanes >> 16;
        return low > high ? low : high;
    }
    template <int V, int N> static GR_HD int place(const Pack<T, V> (&packs)[N], T& best) {
        const u32 won = scan(packs);
        best = (T)((won >> 8) ^ flip);
        return 255 - (int)(won & 255u);
    }
};
template <class T> struct IsByte { static const bool yes = false; };
template <> struct IsByte<i8> { static const bool yes = true; };
template <> struct IsByte<u8> { static const bool yes = true; };

template <class T> struct IsComplex { static const bool yes = false; };
template <class Real> struct IsComplex<complex<Real>> { static const bool yes = true; };

template <class T, bool Max, bool SkipNan> struct Arg : Plain<Arg<T, Max, SkipNan>, T, Placed<T>> {
    typedef Placed<T> State;
    static GR_HD State identity() { return {Worst<T, Max, SkipNan>::value(), -1}; }
    static GR_HD void offer(State& best, T x, i64 index) {
        if (improves(best, x, index)) best = {x, index};
    }
    // The element takes the place of the best so far.
    static GR_HD bool improves(const State& best, T x, i64 index) {
        typedef Contest<T, Max> With;
        const bool wins = With::beats(best.value, x) | (With::ties(best.value, x) & (index < best.index));
        return (wins | (best.index < 0)) & !(SkipNan & is_nan(x));
    }
    static GR_HD void absorb(State& acc, T x, i64 index) { offer(acc, x, index); }
    // One element against the best so far, by value alone: the earlier keeps a tie.
    static GR_HD bool beats(T best, T x) {
        if (SkipNan) return Contest<T, Max>::exceeds(best, x) | (is_nan(best) & !is_nan(x));
        return Contest<T, Max>::beats(best, x);
    }
    // Whether one of complex numbers may be better than the best so far: not where each has a worse real part, and no NaN.
    template <int V, int N> static GR_HD bool may_improve(const State& best, const Pack<T, V> (&packs)[N]) {
        bool may = best.index < 0;
#pragma unroll
        for (int i = 0; i < N * V; i++) {
            const T x = packs[i / V].element(i % V);
            may |= !(Max ? x.re < best.value.re : x.re > best.value.re) | (x.im != x.im);
        }
        return may;
    }
    // The best of N packs and its place, for few elements: one after another.
    template <int V, int N> static GR_HD int scan_place(const Pack<T, V> (&packs)[N], T& best) {
        if constexpr (IsByte<T>::yes && V % 4 == 0 && N * V <= 256) return ByteScan<T, Max>::place(packs, best);
        int place = 0;
        best = packs[0].at[0];
#pragma unroll
        for (int i = 1; i < N * V; i++)
            if (beats(best, packs[i / V].element(i % V))) best = packs[i / V].element(i % V), place = i;
        return place;
    }
    // The first place of a value known to be there. NaN is looked for by itself, so that equality is one comparison.
    template <int V, int N> static GR_HD int find_place(const Pack<T, V> (&packs)[N], T best) {
        int place = 0;
        if (is_nan(best)) {
#pragma unroll
            for (int i = N * V - 1; i >= 0; i--) place = is_nan(packs[i / V].element(i % V)) ? i : place;
        } else {
#pragma unroll
            for (int i = N * V - 1; i >= 0; i--) place = is_same(packs[i / V].element(i % V), best) ? i : place;
        }
        return place;
    }
    // Indices ascend in a pack and from pack to pack: where they do not, the plan has Backward.
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(State& acc, const Pack<T, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (IsComplex<T>::yes) {
            const bool look = may_improve(acc, packs);
            if (Lanes == 32 ? !__any_sync(0xffffffffu, look) : !look) return;
#pragma unroll
            for (int i = 0; i < N * V; i++) offer(acc, packs[i / V].at[i % V], index + i / V * gap + i % V * step);
            if (Lanes == 32) share(acc);
        } else if constexpr (V == 1 || N * V <= (sizeof(T) == 2 ? 4 : 8) || IsByte<T>::yes) {
            T best;
            const int place = scan_place(packs, best);
            offer(acc, best, index + place / V * gap + place % V * step);
        } else {  // the value first; its place only where it can win
            Best<T, Max, SkipNan> running = Best<T, Max, SkipNan>::start();
#pragma unroll
            for (int i = 0; i < N; i++) running.take(packs[i]);
            const T best = running.settle();
            const bool look = improves(acc, best, index);
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
        absorb_packs<1>(acc, only(pack), index, 0, step);
    }
    static GR_HD State combine(State earlier, State later) {
        if (later.index >= 0) offer(earlier, later.value, later.index);
        return earlier;
    }
    static GR_HD State shift_index(const State& state, i64 by) { return {state.value, state.index < 0 ? -1 : state.index + by}; }
    static GR_HD i64 finalise(State state, const f64*) { return state.index; }
};

// Positions along a line that lies backwards: it is walked as memory has it, and its indices descend (`step` is negative). Packs of
// one line (Lanes > 1) are turned together, those of several lines one by one.
template <class Op> struct Backward : Op {
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(typename Op::State& acc, const Pack<typename Op::In, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (Lanes == 1 && N > 1) {
#pragma unroll
            for (int i = 0; i < N; i++) absorb_pack(acc, packs[i], index + i * gap, step);
        } else {
            Pack<typename Op::In, V> back[N];
#pragma unroll
            for (int i = 0; i < N; i++) back[i] = reversed(packs[N - 1 - i]);
            Op::template absorb_packs<Lanes>(acc, back, index + (N - 1) * gap + (V - 1) * step, -gap, -step);
        }
    }
    template <int V> static GR_HD void absorb_pack(typename Op::State& acc, const Pack<typename Op::In, V>& pack, i64 index, i64 step) {
        absorb_packs<1>(acc, only(pack), index, 0, step);
    }
};

// The value itself, for elements (complex) whose ties and NaNs can be told apart only by position.
template <class T, bool Max, bool SkipNan> struct ArgValue : Arg<T, Max, SkipNan> {
    static GR_HD T finalise(Placed<T> state, const f64*) {
        if (!SkipNan || state.index >= 0) return state.value;
        const auto nan = Extreme<decltype(state.value.re), Max, true>::worst();  // what stands where there was no number
        return {nan, nan};
    }
};
