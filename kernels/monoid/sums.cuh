// Sums of a term of each element: sum, mean, sum of squares, norms, counts, dot products, weighted means.
#pragma once
#include "../core/line.cuh"
#include "magnitudes.cuh"
#include "plain.cuh"

// A sum kept as an unevaluated pair, hi + lo: the rounding error of each addition is carried along.
// TwoSum: Knuth, The Art of Computer Programming 2, 4.2.2; TwoProd by fused multiply-add.
struct Twofold {
    f64 hi, lo;
};
template <class A> struct Parts {  // a complex sum
    A re, im;
};

GR_HD void add(i64& sum, i64 x) { sum = (i64)((u64)sum + (u64)x); }  // wraps, as NumPy's does
GR_HD void add(u64& sum, u64 x) { sum += x; }
GR_HD void add(f64& sum, f64 x) { sum = __dadd_rn(sum, x); }
GR_HD void add(Twofold& sum, f64 x) {
    f64 s = __dadd_rn(sum.hi, x), shadow = __dsub_rn(s, sum.hi);
    f64 error = __dadd_rn(__dsub_rn(sum.hi, __dsub_rn(s, shadow)), __dsub_rn(x, shadow));
    sum.hi = s;
    sum.lo = __dadd_rn(sum.lo, error);
}
GR_HD void add(Twofold& sum, Twofold x) {
    add(sum, x.hi);
    sum.lo = __dadd_rn(sum.lo, x.lo);
}
template <class A, class Term> GR_HD void add(Parts<A>& sum, Term x) {
    add(sum.re, x.re);
    add(sum.im, x.im);
}
GR_HD void add(c128& sum, c128 x) { sum = {__dadd_rn(sum.re, x.re), __dadd_rn(sum.im, x.im)}; }

GR_HD i64 value_of(i64 sum) { return sum; }
GR_HD u64 value_of(u64 sum) { return sum; }
GR_HD f64 value_of(f64 sum) { return sum; }
// Past overflow, and after an infinity, the error term is NaN and means nothing.
GR_HD f64 value_of(Twofold sum) { return sum.hi - sum.hi == 0 ? sum.hi + sum.lo : sum.hi; }
template <class A> GR_HD c128 value_of(Parts<A> sum) { return {(f64)value_of(sum.re), (f64)value_of(sum.im)}; }

// Terms. Each turns an element into what is added.
GR_HD Twofold two_prod(f64 x, f64 y) {
    f64 p = __dmul_rn(x, y);
    return {p, p - p == 0 ? __fma_rn(x, y, -p) : 0};
}
GR_HD void multiply(f64 x, f64 y, f64& product) { product = x * y; }
GR_HD void multiply(f64 x, f64 y, Twofold& product) { product = two_prod(x, y); }
template <class A> GR_HD void multiply(c128 x, c128 y, Parts<A>& product) {
    Parts<A> other;
    multiply(x.re, y.re, product.re);
    multiply(-x.im, y.im, other.re);
    multiply(x.re, y.im, product.im);
    multiply(x.im, y.re, other.im);
    add(product, other);
}
GR_HD void multiply(i64 x, i64 y, i64& product) { product = (i64)((u64)x * (u64)y); }
GR_HD void multiply(u64 x, u64 y, u64& product) { product = x * y; }

template <class Element, class To> struct Value {
    typedef Element In;
    typedef To Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD Term of(In x) { return cast<To>(x); }
};
template <class T> GR_HD T number_or_zero(T x) { return is_nan(x) ? T() : x; }
template <class Element, class To> struct NonNan {
    typedef Element In;
    typedef To Term;
    static GR_HD bool counts(In x) { return !is_nan(as_wide(x)); }
    static GR_HD Term of(In x) { return cast<To>(number_or_zero(as_wide(x))); }
};
template <class Element, class Number, class To> struct Square {
    typedef Element In;
    typedef To Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD Term of(In x) {
        Number n = cast<Number>(x);
        To square;
        multiply(n, n, square);
        return square;
    }
};
// The square of a half is exact in binary32.
template <class To> struct Square<half, f64, To> {
    typedef half In;
    typedef To Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD Term of(In x) {
        f32 wide = to_f32(x);
        return (f64)(wide * wide);
    }
};
template <class Real, class To> struct Square<complex<Real>, f64, To> {
    typedef complex<Real> In;
    typedef To Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD Term of(In x) {
        To re, im;
        multiply((f64)x.re, (f64)x.re, re);
        multiply((f64)x.im, (f64)x.im, im);
        add(re, im);
        return re;
    }
};
template <class Element> struct Magnitude {
    typedef Element In;
    typedef f64 Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD f64 of(In x) { return magnitude(x); }
};
// x * y, and conj(x) * y for complex: the terms of a dot product.
template <class A, class B, class Number, class To> struct Product {
    typedef Pair<A, B> In;
    typedef To Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD Term of(In x) {
        To product;
        multiply(cast<Number>(x.a), cast<Number>(x.b), product);
        return product;
    }
};
template <class A, class B, class To> struct Product<A, B, c128, Parts<To>> {
    typedef Pair<A, B> In;
    typedef Parts<To> Term;
    static GR_HD bool counts(In) { return true; }
    static GR_HD Term of(In pair) {
        c128 x = cast<c128>(pair.a);
        Parts<To> product;
        multiply(c128{x.re, -x.im}, cast<c128>(pair.b), product);
        return product;
    }
};

// Two running sums for a Twofold: the additions of one wait for each other, those of two overlap.
template <class A> struct Lanes { static const int count = 1; };
template <> struct Lanes<Twofold> { static const int count = 2; };

// Sums over a pack of narrow integers, exact in 32 bits or 64: of the elements, of their magnitudes, or of their squares.
template <class T> struct ByteWord { static const bool yes = false; };
template <> struct ByteWord<i8> { static const bool yes = true; static GR_HD i32 dot(i32 a, i32 b) { return __dp4a(a, b, 0); } };
template <> struct ByteWord<u8> { static const bool yes = true; static GR_HD i32 dot(i32 a, i32 b) { return (i32)__dp4a((u32)a, (u32)b, 0u); } };
template <> struct ByteWord<boolean> : ByteWord<u8> {};
GR_HD i32 add_both(i32 sum, u32 word, i16) { return __dp2a_lo((i32)word, 0x0101, sum); }
GR_HD i32 add_both(i32 sum, u32 word, u16) { return (i32)__dp2a_lo(word, 0x0101u, (u32)sum); }

template <class Map> struct Narrow { static const bool yes = false; };
template <class T> struct NarrowValue {
    static const bool yes = true;
    template <int V> static GR_HD i32 sum(const Pack<T, V>& pack) {
        i32 sum = 0;
        if constexpr (ByteWord<T>::yes) {
#pragma unroll
            for (int w = 0; w < V / 4; w++) sum += ByteWord<T>::dot(((const i32*)&pack)[w], 0x01010101);
        } else {
#pragma unroll
            for (int w = 0; w < V / 2; w++) sum = add_both(sum, ((const u32*)&pack)[w], T());
        }
        return sum;
    }
};
template <class T> struct NarrowSquare {
    static const bool yes = true;
    template <int V> static GR_HD i32 sum(const Pack<T, V>& pack) {
        i32 sum = 0;
#pragma unroll
        for (int w = 0; w < V / 4; w++) sum += ByteWord<T>::dot(((const i32*)&pack)[w], ((const i32*)&pack)[w]);
        return sum;
    }
};
template <class T> struct WideSquare {
    static const bool yes = true;
    template <int V> static GR_HD i64 sum(const Pack<T, V>& pack) {
        i64 sum = 0;
#pragma unroll
        for (int j = 0; j < V; j++) sum += (i64)pack.element(j) * (i64)pack.element(j);
        return sum;
    }
};
template <class To> struct Narrow<Value<i8, To>> : NarrowValue<i8> {};
template <class To> struct Narrow<Value<u8, To>> : NarrowValue<u8> {};
template <class To> struct Narrow<Value<boolean, To>> : NarrowValue<boolean> {};
template <class To> struct Narrow<Value<i16, To>> : NarrowValue<i16> {};
template <class To> struct Narrow<Value<u16, To>> : NarrowValue<u16> {};
template <class Number, class To> struct Narrow<Square<i8, Number, To>> : NarrowSquare<i8> {};
template <class Number, class To> struct Narrow<Square<u8, Number, To>> : NarrowSquare<u8> {};
template <class Number, class To> struct Narrow<Square<boolean, Number, To>> : NarrowSquare<boolean> {};
template <class Number, class To> struct Narrow<Square<i16, Number, To>> : WideSquare<i16> {};
template <class Number, class To> struct Narrow<Square<u16, Number, To>> : WideSquare<u16> {};
template <> struct Narrow<Magnitude<i8>> {  // of a negative byte the others of its bits, and one
    static const bool yes = true;
    template <int V> static GR_HD i32 sum(const Pack<i8, V>& pack) {
        u32 sum = 0;
        unrolled<V / 4>([&](int w) {
            const u32 word = ((const u32*)&pack)[w], signs = word >> 7 & 0x01010101u;
            sum = __dp4a(word ^ signs * 255, 0x01010101u, __dp4a(signs, 0x01010101u, sum));
        });
        return (i32)sum;
    }
};
template <> struct Narrow<Magnitude<i16>> {
    static const bool yes = true;
    template <int V> static GR_HD i32 sum(const Pack<i16, V>& pack) {
        i32 sum = 0;
        unrolled<V>([&](int j) {
            const i32 x = pack.element(j);
            sum += x < 0 ? -x : x;
        });
        return sum;
    }
};
template <> struct Narrow<Magnitude<u8>> : NarrowValue<u8> {};
template <> struct Narrow<Magnitude<u16>> : NarrowValue<u16> {};
template <> struct Narrow<Magnitude<boolean>> : NarrowValue<boolean> {};

// The terms of a pack, added pairwise.
template <class Map, int V> GR_HD typename Map::Term sum_pack(const Pack<typename Map::In, V>& pack) {
    typename Map::Term terms[V];
#pragma unroll
    for (int j = 0; j < V; j++) terms[j] = Map::of(pack.element(j));
#pragma unroll
    for (int gap = 1; gap < V; gap *= 2)
#pragma unroll
        for (int j = 0; j + gap < V; j += 2 * gap) add(terms[j], terms[j + gap]);
    return terms[0];
}
template <class Map, int V> GR_HD i32 count_pack(const Pack<typename Map::In, V>& pack) {
    i32 counted = 0;
#pragma unroll
    for (int j = 0; j < V; j++) counted += Map::counts(pack.element(j));
    return counted;
}

// Takes a pack of V elements into running sums: narrow integers in 32 bits first, floats pairwise. How many counted.
template <class Map, class A, int V> GR_HD i32 add_pack(A* sum, const Pack<typename Map::In, V>& pack) {
    typedef typename Map::Term Term;
    const int lanes = Lanes<A>::count;
    if constexpr (Narrow<Map>::yes && V >= 4 && lanes == 1) {
        add(sum[0], (Term)Narrow<Map>::sum(pack));
    } else if constexpr (lanes > 1 || V == 1) {
#pragma unroll
        for (int j = 0; j < V; j++) add(sum[j % lanes], Map::of(pack.at[j]));
    } else {
        add(sum[0], sum_pack<Map>(pack));
    }
    return count_pack<Map>(pack);
}

template <class A> struct Running { A sum[Lanes<A>::count]; };

template <class Map, class A> struct Sum : Plain<Sum<Map, A>, typename Map::In, A> {
    typedef typename Map::In In;
    typedef A State;
    typedef Running<A> Acc;
    static GR_HD Acc start() { return Acc(); }
    static GR_HD void absorb(Acc& acc, In x, i64) { add(acc.sum[0], Map::of(x)); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<In, V>& pack, i64, i64) {
        add_pack<Map, A, V>(acc.sum, pack);
    }
    static GR_HD State settle(const Acc& acc) {
        A sum = acc.sum[0];
#pragma unroll
        for (int i = 1; i < Lanes<A>::count; i++) add(sum, acc.sum[i]);
        return sum;
    }
    static GR_HD State identity() { return A(); }
    static GR_HD State combine(State earlier, State later) { add(earlier, later); return earlier; }
    static GR_HD auto finalise(State state, const f64*) { return value_of(state); }
    static GR_HD void atomic(State* cell, State state) {
        static_assert(sizeof(A) == 8, "only 64-bit integers add in any order");
        atomicAdd((u64*)cell, bit_cast<u64>(state));
    }
};

// The Euclidean norm: the root of a sum of squares.
template <class Map, class A> struct RootSum : Sum<Map, A> {
    static GR_HD f64 finalise(A state, const f64*) { return sqrt((f64)value_of(state)); }
};

template <class A> struct Averaged { A sum; i64 count; };
template <class A> struct Counting { Running<A> running; i64 count; };

GR_HD f64 over(f64 sum, f64 count) { return sum / count; }
GR_HD f64 over(i64 sum, f64 count) { return (f64)sum / count; }
GR_HD f64 over(u64 sum, f64 count) { return (f64)sum / count; }
GR_HD c128 over(c128 sum, f64 count) { return {sum.re / count, sum.im / count}; }

// A cell's value where the state is a sum of option[0] terms: their mean, or the state of their mean. What is known is not
// counted.
template <class Op, class Result> struct MeanOfSum {
    typedef Result Out;
    static GR_HD Out of(typename Op::State sum, const f64* option) { return cast<Result>(over(value_of(sum), option[0])); }
};
template <class Op, class A> struct MeanOfSum<Op, Averaged<A>> {
    typedef Averaged<A> Out;
    static GR_HD Out of(A sum, const f64* option) { return {sum, (i64)option[0]}; }
};

template <class Map, class A> struct Mean : Plain<Mean<Map, A>, typename Map::In, Averaged<A>> {
    typedef typename Map::In In;
    typedef Averaged<A> State;
    typedef Counting<A> Acc;
    typedef Sum<Map, A> Total;
    static GR_HD Acc start() { return Acc(); }
    static GR_HD void absorb(Acc& acc, In x, i64 index) {
        Total::absorb(acc.running, x, index);
        acc.count += Map::counts(x);
    }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<In, V>& pack, i64 index, i64 step) {
        acc.count += add_pack<Map, A, V>(acc.running.sum, pack);
    }
    static const bool takes_part = true;
    template <int V> static GR_HD void absorb_part(Acc& acc, Pack<In, V> pack, i32 first, i32 end) {
        fill_outside(pack, -first, end - first, In());
        absorb_pack(acc, pack, 0, 0);
        acc.count -= V - (end - first);  // zeros are counted
    }
    static GR_HD State settle(const Acc& acc) { return {Total::settle(acc.running), acc.count}; }
    static GR_HD State identity() { return {A(), 0}; }
    static GR_HD State combine(State earlier, State later) {
        add(earlier.sum, later.sum);
        earlier.count += later.count;
        return earlier;
    }
    static GR_HD auto finalise(State state, const f64*) { return over(value_of(state.sum), (f64)state.count); }
    static GR_HD void atomic(State* cell, State state) {
        Total::atomic(&cell->sum, state.sum);
        atomicAdd((u64*)&cell->count, (u64)state.count);
    }
};

// The quotient, scaled by the larger part of b so that it overflows only where the result does (Smith 1962).
GR_HD f64 quotient(f64 a, f64 b) { return a / b; }
GR_HD c128 quotient(c128 a, f64 b) { return {a.re / b, a.im / b}; }
GR_HD c128 quotient(c128 a, c128 b) {
    const bool real = fabs(b.re) >= fabs(b.im);
    f64 large = real ? b.re : b.im, ratio = (real ? b.im : b.re) / large, scale = large + (real ? b.im : b.re) * ratio;
    return real ? c128{(a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale}
                : c128{(a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale};
}

// Sum of weight * x in A, and of weight in B: In is Pair<x, weight>.
template <class A, class B> struct Weighted { A total; B weight; };
template <class A> struct Factor { typedef f64 Number; };
template <class A> struct Factor<Parts<A>> { typedef c128 Number; };
template <class X, class W, class A, class B> struct Average : Plain<Average<X, W, A, B>, Pair<X, W>, Weighted<A, B>> {
    typedef Pair<X, W> In;
    typedef Weighted<A, B> State;
    static const int crowded = 4 | 8;
    static GR_HD State identity() { return {A(), B()}; }
    static GR_HD void absorb(State& acc, In x, i64) {
        typedef typename Factor<A>::Number Number;
        A product;
        multiply(cast<Number>(x.a), cast<Number>(x.b), product);
        add(acc.total, product);
        add(acc.weight, cast<typename Factor<B>::Number>(x.b));
    }
    static GR_HD State combine(State earlier, State later) {
        add(earlier.total, later.total);
        add(earlier.weight, later.weight);
        return earlier;
    }
    static GR_HD auto finalise(State state, const f64*) {
        return quotient(value_of(state.total), value_of(state.weight));
    }
};
