// Products: integers wrap in 64 bits; floats multiply in binary64, beside an exponent, so that neither leaves its range
// where the product does not.
#pragma once
#include "sums.cuh"

GR_HD i64 times(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }
GR_HD u64 times(u64 x, u64 y) { return x * y; }
GR_HD f64 times(f64 x, f64 y) { return __dmul_rn(x, y); }
GR_HD c128 times(c128 x, c128 y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

GR_HD void one(i64& x) { x = 1; }
GR_HD void one(u64& x) { x = 1; }
GR_HD void one(f64& x) { x = 1; }
GR_HD void one(c128& x) { x = {1, 0}; }

// The exponent's bits: 0 for zeros and subnormal numbers, 2047 for infinities and NaN.
GR_HD u32 exponent_bits(f64 x) { return (u32)(bit_cast<u64>(x) >> 52) & 2047u; }
GR_HD u32 exponent_bits(c128 x) {
    const u32 re = exponent_bits(x.re), im = exponent_bits(x.im);
    return re > im ? re : im;
}
// True for products that have lost nothing: of a complex one no part that matters.
GR_HD bool in_range(f64 x) { return exponent_bits(x) - 1 < 2046; }
GR_HD bool in_range(c128 x) { return exponent_bits(x) - 123 < 1924; }
// Zeros, infinities and NaN multiply as they are, with any exponent.
GR_HD bool is_number(f64 x) { return x != 0 && exponent_bits(x) < 2047; }
GR_HD bool is_number(c128 x) { return (x.re != 0 || x.im != 0) && exponent_bits(x) < 2047; }

// A number times a power of two.
GR_HD f64 moved(f64 x, i64 exponent) {
    if (exponent < -4000) exponent = -4000;
    if (exponent > 4000) exponent = 4000;
    return ldexp(x, (int)exponent);
}
GR_HD c128 moved(c128 x, i64 exponent) { return {moved(x.re, exponent), moved(x.im, exponent)}; }

template <class Number> struct Scaled {
    Number value;
    i64 exponent;
};
template <class Number> GR_HD Scaled<Number> scaled(Number x) { return {x, 0}; }
template <class Number> GR_HD Number number_of(Scaled<Number> x) {
    return x.exponent == 0 ? x.value : moved(x.value, x.exponent);
}
// A number brought close to one, and how far it was.
template <class Number> GR_HD i64 normalised(Number& x) {
    i64 exponent = 0;
    if (exponent_bits(x) == 0) {  // subnormal
        x = moved(x, 64);
        exponent = -64;
    }
    exponent += (i64)exponent_bits(x) - 1023;
    x = moved(x, -((i64)exponent_bits(x) - 1023));
    return exponent;
}
GR_HD bool is_one(f64 x) { return x == 1; }
GR_HD bool is_one(c128 x) { return x.re == 1 && x.im == 0; }
template <class Number> GR_HD Scaled<Number> times(Scaled<Number> x, Scaled<Number> y) {
    Scaled<Number> product = {times(x.value, y.value), x.exponent + y.exponent};
    if (in_range(product.value)) return product;
    if (is_one(x.value)) {  // infinite parts of a complex number times one would be NaN
        product.value = y.value;
    } else if (is_one(y.value)) {
        product.value = x.value;
    } else if (is_number(x.value) && is_number(y.value)) {
        product.exponent += normalised(x.value) + normalised(y.value);
        product.value = times(x.value, y.value);
    }
    return product;
}

// What products of terms are kept in.
template <class Term> struct Factors {
    typedef Term State;
    static GR_HD State of(Term x) { return x; }
    static GR_HD Term value(State x) { return x; }
};
template <> struct Factors<f64> {
    typedef Scaled<f64> State;
    static GR_HD State of(f64 x) { return scaled(x); }
    static GR_HD f64 value(State x) { return number_of(x); }
};
template <> struct Factors<c128> {
    typedef Scaled<c128> State;
    static GR_HD State of(c128 x) { return scaled(x); }
    static GR_HD c128 value(State x) { return number_of(x); }
};

// Bits of the exponent that an element's magnitude takes at most, either way.
template <class Element> struct ElementBits { static const int bits = 1100; };
template <> struct ElementBits<half> { static const int bits = 25; };
template <> struct ElementBits<f32> { static const int bits = 150; };
template <> struct ElementBits<bfloat16> { static const int bits = 134; };

// Map is Value or NonNan: which elements take part, and as what.
template <class Map> struct Prod : Plain<Prod<Map>, typename Map::In, typename Factors<typename Map::Term>::State> {
    typedef typename Map::In In;
    typedef typename Map::Term Term;
    typedef Factors<Term> In64;
    typedef typename In64::State State;
    static GR_HD Term term(In x) {
        Term neutral;
        one(neutral);
        return Map::counts(x) ? Map::of(x) : neutral;
    }
    static GR_HD State identity() { Term x; one(x); return In64::of(x); }
    static GR_HD State lift(In x, i64) { return In64::of(term(x)); }
    static GR_HD State combine(State earlier, State later) { return times(earlier, later); }
    static GR_HD Term finalise(State state, const f64*) { return In64::value(state); }

    static GR_HD void absorb(State& acc, In x, i64 index) { acc = combine(acc, lift(x, index)); }
    // The terms of a pack multiply by themselves; one look at the end says whether all that came of it is in range.
    template <int V> static GR_HD void absorb_pack(State& acc, const Pack<In, V>& pack, i64 index, i64 step) {
        if constexpr (V == 1 || sizeof(State) == sizeof(Term)) {
#pragma unroll
            for (int j = 0; j < V; j++) absorb(acc, pack.at[j], index + j * step);
        } else {
            Term terms[V];
            bool fits = true;
#pragma unroll
            for (int j = 0; j < V; j++) terms[j] = term(pack.at[j]);
#pragma unroll
            for (int gap = 1; gap < V; gap *= 2)
#pragma unroll
                for (int j = 0; j + gap < V; j += 2 * gap) {
                    terms[j] = times(terms[j], terms[j + gap]);
                    if (ElementBits<In>::bits * V > 1000) fits = fits && in_range(terms[j]);
                }
            const Term product = times(acc.value, terms[0]);
            if ((fits && in_range(product)) || !is_number(acc.value)) {
                acc.value = product;
            } else {
                for (int j = 0; j < V; j++) absorb(acc, pack.at[j], index + j * step);
            }
        }
    }
};
