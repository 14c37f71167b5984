// What lanes that share a short row exchange: less than a state where that is cheaper to add up.
//
//   of(pack, pivot, place, index, step)     a lane's elements; the first is number `place` of the row
//   combine, empty                          as of a monoid, in either order
//   settle(raw, pivot, length, index, step) the row's state; `index` is that of its first element
//   pivoted, Pivot                          whether `pivot` is the row's first element, or nothing
#pragma once
#include "arg.cuh"
#include "moments.cuh"

// The state itself.
template <class Op> struct RawState {
    typedef typename Op::State State;
    typedef NoPivot Pivot;
    static const bool pivoted = false;
    static GR_HD State combine(State earlier, State later) { return Op::combine(earlier, later); }
    static GR_HD State settle(State raw, Pivot, u64, i64, i64) { return raw; }
    static GR_HD State empty() { return Op::identity(); }
    template <int V> static GR_HD State of(const Pack<typename Op::In, V>& pack, Pivot, i32 place, i64 index, i64 step) {
        typename Op::Acc acc = Op::start();
        Op::absorb_pack(acc, pack, index + place * step, step);
        return Op::settle(acc);
    }
};
template <class Op> struct Raw : RawState<Op> {};
// Sums that are kept in pairs begin with an element: adding to nothing costs as much as adding to something.
GR_HD Twofold begin(f64 term, Twofold) { return {term, 0}; }
GR_HD Twofold begin(Twofold term, Twofold) { return term; }
GR_HD Parts<Twofold> begin(c128 term, Parts<Twofold>) { return {{term.re, 0}, {term.im, 0}}; }
GR_HD Parts<Twofold> begin(Parts<Twofold> term, Parts<Twofold>) { return term; }
template <class Map, class A> struct RawPairs : RawState<Sum<Map, A>> {
    template <int V> static GR_HD A of(const Pack<typename Map::In, V>& pack, NoPivot, i32, i64, i64) {
        A sum = begin(Map::of(pack.at[0]), A());
#pragma unroll
        for (int j = 1; j < V; j++) add(sum, Map::of(pack.at[j]));
        return sum;
    }
};
template <class Map> struct Raw<Sum<Map, Twofold>> : RawPairs<Map, Twofold> {};
template <class Map> struct Raw<Sum<Map, Parts<Twofold>>> : RawPairs<Map, Parts<Twofold>> {};
// Power sums about one pivot, which every lane knows; the row's length is their count.
template <class T, int Order> struct RawPowers {
    struct State { f64 sum[Order]; };
    typedef T Pivot;
    static const bool pivoted = true;
    static GR_HD State empty() { return State(); }
    static GR_HD State combine(State a, State b) {
#pragma unroll
        for (int k = 0; k < Order; k++) a.sum[k] += b.sum[k];
        return a;
    }
    static GR_HD PowerSums<Order> powers(const State& raw, Pivot pivot, u32 count) {
        PowerSums<Order> acc;
        acc.pivot = cast<f64>(pivot);
        acc.count = count;
#pragma unroll
        for (int k = 0; k < Order; k++) acc.sum[k] = raw.sum[k];
        return acc;
    }
    static GR_HD auto settle(State raw, Pivot pivot, u64 length, i64, i64) {
        return settle_powers<MeanOf<T>>(powers(raw, pivot, (u32)length));
    }
    template <int V> static GR_HD State of(const Pack<T, V>& pack, Pivot pivot, i32, i64, i64) {
        PowerSums<Order> acc = powers(empty(), pivot, 0);
#pragma unroll
        for (int j = 0; j < V; j++) acc.take(cast<f64>(pack.at[j]));
        State raw;
#pragma unroll
        for (int k = 0; k < Order; k++) raw.sum[k] = acc.sum[k];
        return raw;
    }
};
template <class T, bool Max, bool SkipNan> struct Raw<Arg<T, Max, SkipNan>> : RawArg<T, Max, SkipNan> {};
template <class T> struct Raw<Var<T, false>> : RawPowers<T, 2> {};
template <class T> struct Raw<Std<T, false>> : RawPowers<T, 2> {};
template <class T> struct Raw<CentralMoment<T>> : RawPowers<T, 4> {};
template <class T> struct Raw<Skewness<T>> : RawPowers<T, 4> {};
template <class T> struct Raw<Kurtosis<T>> : RawPowers<T, 4> {};
template <> struct Raw<Var<i8, false>> : RawState<Var<i8, false>> {};
template <> struct Raw<Var<u8, false>> : RawState<Var<u8, false>> {};
template <> struct Raw<Var<boolean, false>> : RawState<Var<boolean, false>> {};
template <> struct Raw<Std<i8, false>> : RawState<Std<i8, false>> {};
template <> struct Raw<Std<u8, false>> : RawState<Std<u8, false>> {};
template <> struct Raw<Std<boolean, false>> : RawState<Std<boolean, false>> {};
