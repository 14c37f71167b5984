// Operators whose order matters: the first or last element there is, and affine maps one after another.
#pragma once
#include "../core/line.cuh"
#include "products.cuh"

// What stands for no element: NaN, or 0 for types that have none.
template <class T> GR_HD T absent() { return T(); }
template <> GR_HD f32 absent<f32>() { return bit_cast<f32>(0x7fc00000u); }
template <> GR_HD f64 absent<f64>() { return bit_cast<f64>(0x7ff8000000000000ull); }
template <> GR_HD half absent<half>() { return {0x7e00u}; }
template <> GR_HD bfloat16 absent<bfloat16>() { return {0x7fc0u}; }
template <> GR_HD c64 absent<c64>() { return {absent<f32>(), absent<f32>()}; }
template <> GR_HD c128 absent<c128>() { return {absent<f64>(), absent<f64>()}; }

template <class T> struct FirstLastState {
    T value;
    boolean seen;
};

// The last element that is no NaN, or the first.
template <class T, bool Last> struct FirstLast : Plain<FirstLast<T, Last>, T, FirstLastState<T>> {
    typedef FirstLastState<T> State;
    static const bool commutative = false, stops = true, from_last = Last;
    static GR_HD bool is_decided(State state) { return state.seen.byte; }
    // Of the first element: false where a pack leaves a state as it is.
    template <int V> static GR_HD bool may_change(State state, const Pack<T, V>&) { return !is_decided(state); }
    static GR_HD State identity() { return {absent<T>(), {0}}; }
    static GR_HD State lift(T x, i64) { return {x, {(u8)!is_nan(x)}}; }
    static GR_HD State combine(State earlier, State later) {
        return (Last ? later.seen.byte : !earlier.seen.byte) ? later : earlier;
    }
    static GR_HD T finalise(State state, const f64*) { return state.seen.byte ? state.value : absent<T>(); }
};

template <class Number> struct AffineState {
    Number a, b;
};
template <> struct AffineState<f64> {  // a has an exponent, as products have
    f64 a, b;
    i64 exponent;
};

template <class Number> GR_HD AffineState<Number> affine_map(Number a, Number b) { return {a, b}; }
template <> GR_HD AffineState<f64> affine_map<f64>(f64 a, f64 b) { return {a, b, 0}; }

template <class Number> GR_HD AffineState<Number> after(AffineState<Number> earlier, AffineState<Number> later) {
    AffineState<Number> both = {times(later.a, earlier.a), times(later.a, earlier.b)};
    add(both.b, later.b);
    return both;
}
GR_HD AffineState<f64> after(AffineState<f64> earlier, AffineState<f64> later) {
    const Scaled<f64> factor = {later.a, later.exponent};
    const Scaled<f64> a = times(factor, Scaled<f64>{earlier.a, earlier.exponent});
    AffineState<f64> both = {a.value, number_of(times(factor, scaled(earlier.b))), a.exponent};
    add(both.b, later.b);
    return both;
}

// Maps x -> a * x + b of pairs (a, b), the later applied to what the earlier gives.
template <class A, class B, class Number>
struct AffineMap : Plain<AffineMap<A, B, Number>, Pair<A, B>, AffineState<Number>> {
    typedef AffineState<Number> State;
    static const bool commutative = false;
    static GR_HD State identity() { return affine_map((Number)1, (Number)0); }
    static GR_HD State lift(Pair<A, B> map, i64) { return affine_map(cast<Number>(map.a), cast<Number>(map.b)); }
    static GR_HD State combine(State earlier, State later) { return after(earlier, later); }
    static GR_HD Number finalise(State state, const f64*) { return state.b; }
};
