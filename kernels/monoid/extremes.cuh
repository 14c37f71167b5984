// Minimum and maximum, by value: NaN wins, or with SkipNan loses; and both at once.
#pragma once
#include "magnitudes.cuh"
#include "plain.cuh"

// The larger (Max) or smaller of two. PTX's own NaN-propagating instructions where they exist (sm_80).
#if !defined(GR_EMULATED) && __CUDA_ARCH__ >= 800
#define GR_EXTREME(name, type, constraint, suffix)                                                \
    template <bool Max, bool SkipNan> GR_HD type name(type a, type b) {                           \
        type r;                                                                                   \
        if (Max && SkipNan) asm("max." suffix " %0, %1, %2;" : "=" constraint(r) : constraint(a), constraint(b)); \
        else if (Max) asm("max.NaN." suffix " %0, %1, %2;" : "=" constraint(r) : constraint(a), constraint(b));   \
        else if (SkipNan) asm("min." suffix " %0, %1, %2;" : "=" constraint(r) : constraint(a), constraint(b));   \
        else asm("min.NaN." suffix " %0, %1, %2;" : "=" constraint(r) : constraint(a), constraint(b));            \
        return r;                                                                                 \
    }
GR_EXTREME(extreme_f32, f32, "f", "f32")
GR_EXTREME(extreme_half2, u32, "r", "f16x2")
GR_EXTREME(extreme_bfloat2, u32, "r", "bf16x2")
#undef GR_EXTREME
#else
template <bool Max, bool SkipNan> GR_HD f32 extreme_f32(f32 a, f32 b) {
    if (SkipNan) return (Max ? b > a : b < a) || a != a ? b : a;
    return (Max ? b > a : b < a) || b != b ? b : a;
}
template <class T, bool Max, bool SkipNan> GR_HD u32 extreme_pair(u32 a, u32 b) {
    u32 both = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        T x = {(u16)(a >> shift)}, y = {(u16)(b >> shift)};
        f32 p = to_f32(x), q = to_f32(y);
        bool later = (Max ? q > p : q < p) || (SkipNan ? p != p : q != q);
        both |= (u32)(later ? y : x).bits << shift;
    }
    return both;
}
template <bool Max, bool SkipNan> GR_HD u32 extreme_half2(u32 a, u32 b) { return extreme_pair<half, Max, SkipNan>(a, b); }
template <bool Max, bool SkipNan> GR_HD u32 extreme_bfloat2(u32 a, u32 b) {
    return extreme_pair<bfloat16, Max, SkipNan>(a, b);
}
#endif

// Per element type: the value no other loses to, the better of two, and the best of a pack.
template <class T, bool Max, bool SkipNan> struct Extreme {  // integers
    static GR_HD T worst() {
        const bool is_signed = T(-1) < T(0);
        const T least = is_signed ? T(u64(1) << (8 * sizeof(T) - 1)) : T(0);
        return Max ? least : T(~least);
    }
    static GR_HD T better(T a, T b) { return (Max ? b > a : b < a) ? b : a; }
};
template <bool Max, bool SkipNan> struct Extreme<f32, Max, SkipNan> {
    static GR_HD f32 worst() { return bit_cast<f32>(SkipNan ? 0x7fc00000u : Max ? 0xff800000u : 0x7f800000u); }
    static GR_HD f32 better(f32 a, f32 b) { return extreme_f32<Max, SkipNan>(a, b); }
};
template <bool Max, bool SkipNan> struct Extreme<f64, Max, SkipNan> {
    static GR_HD f64 worst() {
        return bit_cast<f64>(SkipNan ? 0x7ff8000000000000ull : Max ? 0xfff0000000000000ull : 0x7ff0000000000000ull);
    }
    static GR_HD f64 better(f64 a, f64 b) {
        return (Max ? b > a : b < a) || (SkipNan ? a != a : b != b) ? b : a;
    }
};
template <bool Max, bool SkipNan> struct Extreme<half, Max, SkipNan> {
    static GR_HD half worst() { return {(u16)(SkipNan ? 0x7e00u : Max ? 0xfc00u : 0x7c00u)}; }
    static GR_HD half better(half a, half b) { return {(u16)extreme_half2<Max, SkipNan>(a.bits, b.bits)}; }
};
template <bool Max, bool SkipNan> struct Extreme<bfloat16, Max, SkipNan> {
    static GR_HD bfloat16 worst() { return {(u16)(SkipNan ? 0x7fc0u : Max ? 0xff80u : 0x7f80u)}; }
    static GR_HD bfloat16 better(bfloat16 a, bfloat16 b) { return {(u16)extreme_bfloat2<Max, SkipNan>(a.bits, b.bits)}; }
};
template <bool Max, bool SkipNan> struct Extreme<boolean, Max, SkipNan> {
    static GR_HD boolean worst() { return {(u8)!Max}; }
    static GR_HD boolean better(boolean a, boolean b) { return {(u8)(Max ? a.byte | b.byte : a.byte & b.byte)}; }
};

// A running extreme over packs: two 16-bit lanes of a word for types of one and two bytes.
template <class T, bool Max, bool SkipNan> struct Best {
    T value;
    static GR_HD Best start() { return {Extreme<T, Max, SkipNan>::worst()}; }
    GR_HD void take(T x) { value = Extreme<T, Max, SkipNan>::better(value, x); }
    template <int V> GR_HD void take(const Pack<T, V>& pack) {
#pragma unroll
        for (int j = 0; j < V; j++) take(pack.at[j]);
    }
    GR_HD T settle() const { return value; }
};
// How a word of narrow elements becomes words of 16-bit lanes, and the better of two such words.
template <class T, bool Max, bool SkipNan> struct Halves;
template <bool Max, bool SkipNan> struct Halves<half, Max, SkipNan> {
    static GR_HD u32 better(u32 a, u32 b) { return extreme_half2<Max, SkipNan>(a, b); }
};
template <bool Max, bool SkipNan> struct Halves<bfloat16, Max, SkipNan> {
    static GR_HD u32 better(u32 a, u32 b) { return extreme_bfloat2<Max, SkipNan>(a, b); }
};
template <bool Max, bool SkipNan> struct Halves<i16, Max, SkipNan> {
    static GR_HD u32 better(u32 a, u32 b) { return Max ? __vmaxs2(a, b) : __vmins2(a, b); }
};
template <bool Max, bool SkipNan> struct Halves<u16, Max, SkipNan> {
    static GR_HD u32 better(u32 a, u32 b) { return Max ? __vmaxu2(a, b) : __vminu2(a, b); }
};
// A byte sits in the upper half of its lane: order and sign are those of the byte.
template <bool Max, bool SkipNan> struct Halves<i8, Max, SkipNan> {
    static GR_HD u32 better(u32 a, u32 b) { return Halves<i16, Max, SkipNan>::better(a, b); }
};
template <bool Max, bool SkipNan> struct Halves<u8, Max, SkipNan> {
    static GR_HD u32 better(u32 a, u32 b) { return Halves<u16, Max, SkipNan>::better(a, b); }
};
template <bool Max, bool SkipNan> struct Halves<boolean, Max, SkipNan> : Halves<u8, Max, SkipNan> {};

template <class T, bool Max, bool SkipNan> struct NarrowBest {
    typedef Halves<T, Max, SkipNan> Lane;
    u32 lanes;
    static GR_HD u32 place(T x) { return (u32)bit_cast<typename Word<sizeof(T)>::type>(x) << (sizeof(T) == 1 ? 8 : 0); }
    static GR_HD NarrowBest start() {
        u32 worst = place(Extreme<T, Max, SkipNan>::worst());
        return {worst | (worst << 16)};
    }
    GR_HD void take(T x) {
        u32 lane = place(x);
        lanes = Lane::better(lanes, lane | (lane << 16));
    }
    template <int V> GR_HD void take(const Pack<T, V>& pack) {
        if constexpr (sizeof(T) * V < 4) {
            for (int j = 0; j < V; j++) take(pack.at[j]);
        } else {
#pragma unroll
            for (int w = 0; w < (int)sizeof(T) * V / 4; w++) {
                u32 word = ((const u32*)&pack)[w];
                if (sizeof(T) == 1) {
                    lanes = Lane::better(lanes, (word << 8) & 0xff00ff00u);
                    word &= 0xff00ff00u;
                }
                lanes = Lane::better(lanes, word);
            }
        }
    }
    GR_HD T settle() const {
        u32 best = Lane::better(lanes, lanes >> 16);
        return bit_cast<T>((typename Word<sizeof(T)>::type)(best >> (sizeof(T) == 1 ? 8 : 0)));
    }
};
template <bool Max, bool SkipNan> struct Best<half, Max, SkipNan> : NarrowBest<half, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<half, Max, SkipNan>::start()}; }
};
template <bool Max, bool SkipNan> struct Best<bfloat16, Max, SkipNan> : NarrowBest<bfloat16, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<bfloat16, Max, SkipNan>::start()}; }
};
template <bool Max, bool SkipNan> struct Best<i16, Max, SkipNan> : NarrowBest<i16, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<i16, Max, SkipNan>::start()}; }
};
template <bool Max, bool SkipNan> struct Best<u16, Max, SkipNan> : NarrowBest<u16, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<u16, Max, SkipNan>::start()}; }
};
template <bool Max, bool SkipNan> struct Best<i8, Max, SkipNan> : NarrowBest<i8, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<i8, Max, SkipNan>::start()}; }
};
template <bool Max, bool SkipNan> struct Best<u8, Max, SkipNan> : NarrowBest<u8, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<u8, Max, SkipNan>::start()}; }
};
template <bool Max, bool SkipNan> struct Best<boolean, Max, SkipNan> : NarrowBest<boolean, Max, SkipNan> {
    static GR_HD Best start() { return {NarrowBest<boolean, Max, SkipNan>::start()}; }
};

template <class T, bool Max, bool SkipNan>
struct MinMax : Plain<MinMax<T, Max, SkipNan>, T, T> {
    typedef Best<T, Max, SkipNan> Acc;
    static GR_HD Acc start() { return Acc::start(); }
    static GR_HD void absorb(Acc& acc, T x, i64) { acc.take(x); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64, i64) { acc.take(pack); }
    static GR_HD T settle(const Acc& acc) { return acc.settle(); }
    static GR_HD T identity() { return Extreme<T, Max, SkipNan>::worst(); }
    static GR_HD T combine(T earlier, T later) { return Extreme<T, Max, SkipNan>::better(earlier, later); }
    static GR_HD T finalise(T state, const f64*) { return state; }
    static GR_HD void atomic(T* cell, T state) {
        if constexpr (sizeof(T) == 8 || (sizeof(T) == 4 && T(1) / T(2) == T(0))) {
            if (Max) atomicMax(cell, state);
            else atomicMin(cell, state);
        }
    }
};

// Minimum and maximum in one read: their difference is the peak-to-peak range.
template <class T> struct Range { T low, high; };
GR_HD f64 difference(half a, half b) { return (f64)to_f32(a) - (f64)to_f32(b); }
GR_HD f64 difference(bfloat16 a, bfloat16 b) { return (f64)to_f32(a) - (f64)to_f32(b); }
template <class T> GR_HD T difference(T a, T b) { return T(a - b); }
template <class T> struct PeakToPeak : Plain<PeakToPeak<T>, T, Range<T>> {
    typedef Range<T> State;
    struct Acc { Best<T, false, false> low; Best<T, true, false> high; };
    static GR_HD Acc start() { return {Best<T, false, false>::start(), Best<T, true, false>::start()}; }
    static GR_HD void absorb(Acc& acc, T x, i64) { acc.low.take(x); acc.high.take(x); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64, i64) {
        acc.low.take(pack);
        acc.high.take(pack);
    }
    static GR_HD State settle(const Acc& acc) { return {acc.low.settle(), acc.high.settle()}; }
    static GR_HD State identity() { return {Extreme<T, false, false>::worst(), Extreme<T, true, false>::worst()}; }
    static GR_HD State combine(State earlier, State later) {
        return {Extreme<T, false, false>::better(earlier.low, later.low),
                Extreme<T, true, false>::better(earlier.high, later.high)};
    }
    static GR_HD auto finalise(State state, const f64*) { return difference(state.high, state.low); }
};

// The largest magnitude, in binary64; NaN wins. It is that of the largest element or of the least, and that of the largest
// alone where none is negative, as floats without their sign.
template <class T> struct Unsign {  // integers as they are
    static const bool is_negative = T(-1) < T(0);
    template <int V> static GR_HD const Pack<T, V>& of(const Pack<T, V>& pack) { return pack; }
};
template <> struct Unsign<boolean> {
    static const bool is_negative = false;
    template <int V> static GR_HD const Pack<boolean, V>& of(const Pack<boolean, V>& pack) { return pack; }
};
template <class T> struct UnsignFloat {
    typedef typename Unsigned<sizeof(T)>::type Bits;
    static const bool is_negative = false;
    template <int V> static GR_HD Pack<T, V> of(Pack<T, V> pack) {
        if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
            for (int w = 0; w < V / 2; w++) ((u32*)&pack)[w] &= 0x7fff7fffu;
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) pack.at[j] = bit_cast<T>((Bits)(bit_cast<Bits>(pack.at[j]) & (Bits)((Bits)~(Bits)0 >> 1)));
        }
        return pack;
    }
};
template <> struct Unsign<half> : UnsignFloat<half> {};
template <> struct Unsign<bfloat16> : UnsignFloat<bfloat16> {};
template <> struct Unsign<f32> : UnsignFloat<f32> {};
template <> struct Unsign<f64> : UnsignFloat<f64> {};
GR_HD f64 larger(f64 a, f64 b) { return Extreme<f64, true, false>::better(a, b); }

template <class T> struct MaxMagnitude : Plain<MaxMagnitude<T>, T, f64> {
    struct Acc { Best<T, true, false> high; Best<T, false, false> low; };
    static GR_HD Acc start() {  // from zero, which is the magnitude of nothing
        Acc acc = {Best<T, true, false>::start(), Best<T, false, false>::start()};
        acc.high.take(T());
        acc.low.take(T());
        return acc;
    }
    static GR_HD void absorb(Acc& acc, T x, i64) {
        const Pack<T, 1> pack = {{x}};
        absorb_pack(acc, pack, 0, 0);
    }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64, i64) {
        acc.high.take(Unsign<T>::of(pack));
        if (Unsign<T>::is_negative) acc.low.take(pack);
    }
    static GR_HD f64 settle(const Acc& acc) { return larger(magnitude(acc.high.settle()), magnitude(acc.low.settle())); }
    static GR_HD f64 identity() { return 0; }
    static GR_HD f64 combine(f64 earlier, f64 later) { return larger(earlier, later); }
    static GR_HD f64 finalise(f64 state, const f64*) { return state; }
};
// Of complex numbers the largest square so far, whose root is taken once; of those that have none, the largest magnitude.
template <class Real> struct MaxMagnitude<complex<Real>> : Plain<MaxMagnitude<complex<Real>>, complex<Real>, f64> {
    struct Acc { f64 square, other; };
    static GR_HD Acc start() { return {0, 0}; }
    static GR_HD void absorb(Acc& acc, complex<Real> x, i64) {
        const f64 square = square_of(x);
        // What is too small for a square is below any that there is.
        if (!has_square(x, square) && !((square < acc.square) & has_square(x, acc.square)))
            acc.other = larger(acc.other, magnitude(x));
        if constexpr (sizeof(Real) == 8) acc.square = square > acc.square ? square : acc.square;
        else acc.square = larger(acc.square, square);
    }
    static GR_HD f64 settle(const Acc& acc) {
        const f64 root = short_root_of(acc.square);
        return has_square(complex<Real>(), acc.square) ? larger(acc.other, root) : acc.other;
    }
    static GR_HD f64 identity() { return 0; }
    static GR_HD f64 combine(f64 earlier, f64 later) { return larger(earlier, later); }
    static GR_HD f64 finalise(f64 state, const f64*) { return state; }
};
