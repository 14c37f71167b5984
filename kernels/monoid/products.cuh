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
// True for products that have lost no part that matters.
GR_HD bool in_range(c128 x) { return exponent_bits(x) - 123 < 1924; }
// Zeros, infinities and NaN multiply as they are, with any exponent.
GR_HD bool is_number(c128 x) { return (x.re != 0 || x.im != 0) && exponent_bits(x) < 2047; }

GR_HD f64 scaled_by(f64 x, f64 factor) { return x * factor; }
GR_HD c128 scaled_by(c128 x, f64 factor) { return {x.re * factor, x.im * factor}; }

// A number times a power of two. Its value lies within 2^-250 and 2^250, so that no product with a few terms leaves the range; or
// it is zero, infinite or NaN, with any exponent. Those of operators/prod.py lie within 2^-500 and 2^500.
const int STATE_BITS = 250;
template <class Number> struct Scaled {
    Number value;
    i64 exponent;
};
// Returns whether the exponent is another now.
template <class Number> GR_HD bool normalise(Scaled<Number>& x) {
    const u32 bits = exponent_bits(x.value);
    const bool moves = bits - (1024 - STATE_BITS) > 2 * STATE_BITS - 2 && bits - 1 < 2046;
    if (moves) {
        const i32 far = (i32)bits - 1024;
        x.value = scaled_by(x.value, power_of_two(-far));
        x.exponent += far;
    }
    return moves;
}
// Of any number, subnormal ones too.
template <class Number> GR_HD Scaled<Number> scaled(Number x) {
    Scaled<Number> found = {x, 0};
    if (exponent_bits(x) == 0) found = {scaled_by(x, power_of_two(600)), -600};  // or zero
    normalise(found);
    return found;
}
// Rounded once: where the first of two steps rounds, the second leads to zero.
template <class Number> GR_HD Number number_of(Scaled<Number> x) {
    if (x.exponent == 0) return x.value;
    const i32 exponent = x.exponent < -1600 ? -1600 : x.exponent > 1600 ? 1600 : (i32)x.exponent, half_way = exponent / 2;
    return scaled_by(scaled_by(x.value, power_of_two(half_way)), power_of_two(exponent - half_way));
}
// A number without its exponent, which is added to: between 1 and 2, but zero, infinities and NaN as they are.
GR_HD f64 without_exponent(f64 x, i32& exponent) {
    u32 bits = exponent_bits(x);
    if (bits == 0) {  // subnormal or zero
        x *= power_of_two(600);
        bits = exponent_bits(x);
        exponent -= 600;
    }
    if (bits - 1 < 2046) {
        x = bit_cast<f64>((bit_cast<u64>(x) & 0x800fffffffffffffull) | 0x3ff0000000000000ull);
        exponent += (i32)bits - 1023;
    }
    return x;
}
// Infinite parts of a complex number times one would be NaN.
GR_HD f64 product_of(f64 x, f64 y) { return times(x, y); }
GR_HD c128 product_of(c128 x, c128 y) {
    return x.re == 1 && x.im == 0 ? y : y.re == 1 && y.im == 0 ? x : times(x, y);
}
template <class Number> GR_HD Scaled<Number> times(Scaled<Number> x, Scaled<Number> y) {
    Scaled<Number> product = {product_of(x.value, y.value), x.exponent + y.exponent};
    normalise(product);
    return product;
}

// Bits of the exponent that an element's magnitude takes at most, either way; of a complex number, its larger part's.
template <class Element> struct ElementBits { static const int bits = 1100; };
template <> struct ElementBits<complex<f32>> { static const int bits = 150; };
template <> struct ElementBits<half> { static const int bits = 25; };
template <> struct ElementBits<f32> { static const int bits = 150; };
template <> struct ElementBits<bfloat16> { static const int bits = 134; };
// How many elements the value of a state may be multiplied by, before it is normalised again.
GR_HD constexpr int terms_in_range(int bits) { return (900 - STATE_BITS) / bits; }
template <class Element> constexpr int TERMS_IN_RANGE = terms_in_range(ElementBits<Element>::bits);

// What products of terms are kept in: integers as they are.
template <class Term> struct Factors {
    typedef Term State;
    template <class In> static GR_HD State from(Term x) { return x; }
    static GR_HD Term value(State x) { return x; }
};
template <class Number> struct ScaledFactors {
    typedef Scaled<Number> State;
    template <class In> static GR_HD State from(Number x) {
        if constexpr (ElementBits<In>::bits < 500) return {x, 0};
        else return scaled(x);
    }
    static GR_HD Number value(State x) { return number_of(x); }
};
template <> struct Factors<f64> : ScaledFactors<f64> {};
template <> struct Factors<c128> : ScaledFactors<c128> {};

// In what the product of a word of elements of so many bytes fits, and how many these are.
template <class Term, int Bytes> struct Narrowest { typedef Term type, Element; static const int few = 1; };
template <> struct Narrowest<i64, 1> { typedef i32 type; typedef i8 Element; static const int few = 4; };
template <> struct Narrowest<u64, 1> { typedef u32 type; typedef u8 Element; static const int few = 4; };
template <> struct Narrowest<i64, 2> { typedef i32 type; typedef i16 Element; static const int few = 2; };
template <> struct Narrowest<u64, 2> { typedef u32 type; typedef u16 Element; static const int few = 2; };

// Map is Value or NonNan: which elements take part, and as what.
template <class Map> struct Prod : Plain<Prod<Map>, typename Map::In, typename Factors<typename Map::Term>::State> {
    typedef typename Map::In In;
    typedef typename Map::Term Term;
    typedef Factors<Term> In64;
    typedef Narrowest<Term, sizeof(In)> Narrow;
    typedef typename In64::State State;
    static const bool has_exponent = sizeof(State) > sizeof(Term);
    typedef decltype(as_wide(In())) Wide;
    static GR_HD Wide factor(In x) { return Map::counts(x) ? as_wide(x) : cast<Wide>(1); }
    static GR_HD Term term(In x) { return cast<Term>(factor(x)); }
    static GR_HD State identity() { Term x; one(x); return In64::template from<half>(x); }
    static GR_HD State lift(In x, i64) { return In64::template from<In>(term(x)); }
    static GR_HD State combine(State earlier, State later) { return times(earlier, later); }
    static GR_HD Term finalise(State state, const f64*) { return In64::value(state); }
    // There is no instruction that multiplies. A product that is zero stays so.
    static GR_HD void atomic(State* cell, State state) {
        static_assert(sizeof(State) == 8, "only integers multiply in any order");
        u64* const word = (u64*)cell;
#ifdef GR_CHECKED  // racecheck knows no look beside atomics
        u64 seen = atomicCAS(word, 0ull, 0ull), before = 0;
#else
        u64 seen = *(const volatile u64*)word, before = 0;
#endif
        while (seen != before) {
            before = seen;
            seen = atomicCAS(word, before, before * bit_cast<u64>(state));
        }
    }

    static GR_HD void absorb(State& acc, In x, i64 index) { acc = combine(acc, lift(x, index)); }
    // Of narrow integers in a word, whose product has no more than 32 bits.
    static GR_HD typename Narrow::type word_product(u32 word) {
        typedef typename Narrow::type Int;
        const auto element = [&](int k) { return (Int)(typename Narrow::Element)(word >> 8 * (int)sizeof(In) * k); };
        Int product = element(0);
        unrolled<Narrow::few - 1>([&](int k) { product *= element(k + 1); });
        return product;
    }
    static const bool takes_part = true;
    template <int V> static GR_HD void absorb_part(State& acc, Pack<In, V> pack, i32 first, i32 end) {
        fill_outside(pack, -first, end - first, cast<In>(1));
        absorb_pack(acc, pack, 0, 0);
    }
    // Of wide elements the exponents are added up by themselves, so that no product leaves the range.
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(State& acc, const Pack<In, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (has_exponent && sizeof(Term) == 8 && TERMS_IN_RANGE<In> <= 1) {
            static_assert(N * V <= 512, "terms between 1 and 2");
            Term terms[N * V];
            i32 exponent = 0;
#pragma unroll
            for (int j = 0; j < N * V; j++) terms[j] = without_exponent(term(packs[j / V].element(j % V)), exponent);
#pragma unroll
            for (int half = 1; half < N * V; half *= 2)
#pragma unroll
                for (int j = 0; j + half < N * V; j += 2 * half) terms[j] = times(terms[j], terms[j + half]);
            acc.value = times(acc.value, terms[0]);
            acc.exponent += exponent;
            normalise(acc);
        } else if constexpr (sizeof(Term) == 16 && V == 1) {  // several as one pack
            const int few = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1;
#pragma unroll
            for (int i = 0; i < N; i += few) {
                Pack<In, few> some;
#pragma unroll
                for (int k = 0; k < few; k++) some.at[k] = packs[i + k].at[0];
                absorb_pack(acc, some, index + i * gap, gap);
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) absorb_pack(acc, packs[i], index + i * gap, step);
        }
    }
    // The terms of a pack multiply by themselves; one look at the end says whether all that came of it is in range.
    template <int V> static GR_HD void absorb_pack(State& acc, const Pack<In, V>& pack, i64 index, i64 step) {
        if constexpr (V == 1) {
            absorb(acc, pack.at[0], index);
        } else if constexpr (Narrow::few > 1 && V % Narrow::few == 0) {  // by words, as they are loaded
            Term product;
            one(product);
            unrolled<V / Narrow::few>([&](int w) { product = times(product, (Term)word_product(((const u32*)&pack)[w])); });
            acc = times(acc, product);
        } else if constexpr (!has_exponent) {
            Term product;
            one(product);
            unrolled<V>([&](int j) { product = times(product, term(pack.at[j])); });
            acc = times(acc, product);
        } else if constexpr (sizeof(Term) == 8 && TERMS_IN_RANGE<In> > 1) {
            const int few = V < TERMS_IN_RANGE<In> ? V : TERMS_IN_RANGE<In>;
            static_assert(V % few == 0, "packs are powers of two");
            const bool in_pairs = ElementBits<In>::bits < 50 && few % 2 == 0;  // the product of two halves is exact in binary32
#pragma unroll
            for (int from = 0; from < V; from += few) {
                Term terms[few];
                unrolled<few>([&](int j) {
                    if (in_pairs && j % 2) return;
                    // Of bfloat16, elements apart: kept as words a pack is finished before the next one begins (91 us, so 75).
                    const Wide first = factor(in_pairs ? pack.element(from + j) : pack.at[from + j]);
                    terms[j] = cast<Term>(in_pairs ? first * factor(pack.element(from + j + 1)) : first);
                });
#pragma unroll
                for (int gap = in_pairs ? 2 : 1; gap < few; gap *= 2)
#pragma unroll
                    for (int j = 0; j + gap < few; j += 2 * gap) terms[j] = times(terms[j], terms[j + gap]);
                acc.value = times(acc.value, terms[0]);
                normalise(acc);
            }
        } else if constexpr (sizeof(Term) == 8) {
            absorb_packs<1>(acc, only(pack), index, 0, step);
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
                    if (ElementBits<In>::bits * V > 900) fits = fits && in_range(terms[j]);
                }
            const Term product = times(acc.value, terms[0]);
            if (fits && (in_range(product) || !is_number(acc.value))) {
                acc.value = product;
                normalise(acc);
            } else {
                for (int j = 0; j < V; j++) absorb(acc, pack.at[j], index + j * step);
            }
        }
    }
};

// Running products of floats: so many terms as stay in range multiply without a look, and of each product the exponent is that of
// the value before them.
template <class Map, class Result> struct RunningProducts {
    typedef Prod<Map> Op;
    typedef typename Map::In In;
    typedef typename Map::Term Number;
    static const bool exists = Op::has_exponent, is_wide = ElementBits<In>::bits > STATE_BITS;  // elements may leave the range alone
    static const int few = is_wide ? terms_in_range(STATE_BITS) : TERMS_IN_RANGE<In>;
    typename Op::State state;
    f64 first, second;  // two to the exponent is their product, second being 1 where results have less than the range of binary64
    GR_HD RunningProducts() {}
    GR_HD RunningProducts(const typename Op::State& before, const f64*) : state(before) {
        normalise(state);
        find_scales();
    }
    GR_HD typename Op::State now() const { return state; }
    // Beyond the least and the largest exponent results are zeros or infinite, with these too; and where the first of two steps
    // rounds, the second leads to zero.
    GR_HD void find_scales() {
        const i32 most = is_wide ? 2040 : 1022;
        const i32 exponent = state.exponent < -most ? -most : state.exponent > most ? most : (i32)state.exponent;
        first = power_of_two(is_wide ? exponent / 2 : exponent);
        second = is_wide ? power_of_two(exponent - exponent / 2) : 1;
    }
    GR_HD Result result_of(Number value) const { return cast<Result>(scaled_by(scaled_by(value, first), second)); }
    GR_HD void each(Number term, Result& to) {
        state = times(state, Factors<Number>::template from<In>(term));
        find_scales();
        to = result_of(state.value);
    }
    template <int V> GR_HD void run(const Pack<In, V>& from, Pack<Result, V>& to) {
#pragma unroll
        for (int at = 0; at < V; at += few) {
            Number value = state.value;
            bool fits = true;
#pragma unroll
            for (int j = at; j < V && j < at + few; j++) {
                const Number x = Op::term(from.at[j]);
                value = times(value, x);
                if (is_wide) fits = fits && exponent_bits(x) - (1023 - STATE_BITS) <= 2 * STATE_BITS;
                to.at[j] = result_of(value);
            }
            if (sizeof(Number) == 16) fits = fits && exponent_bits(value) < 2047;  // of infinite parts `times` knows more
            if (fits) {
                state.value = value;
                if (normalise(state)) find_scales();
            } else {
                for (int j = at; j < V && j < at + few; j++) each(Op::term(from.at[j]), to.at[j]);
            }
        }
    }
};
