// What the lanes of a sub-warp exchange that share a short row: raw sums in place of a state, where these are cheaper to merge.
//
//   Acc, start, take(acc, pack, pivot, place, index, step), raw(acc)
//                                           a lane's running value; the pack's first element is number `place` of the row
//   combine                                 as of a monoid, in either order
//   settle(raw, pivot, length, index, step) the row's state; `index` is that of its first element
//   pivoted, Pivot                          whether all lanes must know something of the row first,
//   headed                                  and whether that is its first element; else it is the row's best (RawPlace)
//   filled                                  whether the row's first element may stand where a slot reaches past the row;
//                                           else take_part takes the slot's elements that lie in the row
#pragma once
#include "arg.cuh"
#include "moments.cuh"

struct NoPivot {};

// What all of them have.
template <class About, bool Filled> struct RawPlain {
    typedef About Pivot;
    static const bool pivoted = false, headed = false, filled = Filled;
};

// The state itself.
template <class Op> struct RawState : RawPlain<NoPivot, false> {
    typedef typename Op::State State;
    typedef typename Op::Acc Acc;
    static GR_HD State combine(State earlier, State later) { return Op::combine(earlier, later); }
    static GR_HD State settle(State raw, NoPivot, u64, i64, i64) { return raw; }
    static GR_HD Acc start() { return Op::start(); }
    template <int V>
    static GR_HD void take(Acc& acc, const Pack<typename Op::In, V>& pack, NoPivot, i32 place, i64 index, i64 step) {
        Op::absorb_pack(acc, pack, index + place * step, step);
    }
    template <int V>
    static GR_HD void take_part(Acc& acc, const Pack<typename Op::In, V>& pack, i32 place, i32 length, i64 index, i64 step) {
        const i32 left = length - place;
        absorb_some<Op, V>(acc, pack, place < 0 ? -place : 0, left < V ? left : V, index + place * step, step);
    }
    static GR_HD State raw(const Acc& acc) { return Op::settle(acc); }
};
template <class Op> struct Raw : RawState<Op> {};
// Power sums about one pivot, which every lane knows; the row's length is their count.
template <int Order> struct PowersRaw { f64 sum[Order]; };
template <class T, int Order> struct RawPowers : RawPlain<T, true> {
    typedef PowersRaw<Order> State;
    typedef State Acc;
    static const bool pivoted = true, headed = true;
    static GR_HD Acc start() { return State(); }
    static GR_HD State raw(const Acc& acc) { return acc; }
    static GR_HD State combine(State a, State b) {
#pragma unroll
        for (int k = 0; k < Order; k++) a.sum[k] += b.sum[k];
        return a;
    }
    template <int V> static GR_HD void take(Acc& acc, const Pack<T, V>& pack, T pivot, i32, i64, i64) {
        const f64 from = cast<f64>(pivot);
#pragma unroll
        for (int j = 0; j < V; j++) add_powers(acc.sum, cast<f64>(pack.element(j)) - from);
    }
    static GR_HD auto settle(State raw, T pivot, u64 length, i64, i64) {
        PowerSums<Order> acc;
        acc.pivot = cast<f64>(pivot);
        acc.count = (u32)length;
#pragma unroll
        for (int k = 0; k < Order; k++) acc.sum[k] = raw.sum[k];
        return settle_powers<MeanOf<T>>(acc);
    }
};
// Exact power sums of narrow integers: of a slot that is part of a row, elements outside count as nothing.
template <class T, int Order> struct RawIntegerPowers : RawPlain<NoPivot, false> {
    typedef IntegerPowers<T, Order, false> State;
    typedef State Acc;
    static GR_HD Acc start() { return State(); }
    static GR_HD State raw(const Acc& acc) { return acc; }
    static GR_HD State combine(State a, State b) {
        a.join(b);
        return a;
    }
    template <int V> static GR_HD void take(Acc& acc, const Pack<T, V>& pack, NoPivot, i32, i64, i64) { acc.take(pack); }
    template <int V> static GR_HD void take_part(Acc& acc, Pack<T, V> pack, i32 place, i32 length, i64, i64) {
        nothing_outside(pack, place, length);
        acc.take(pack);
    }
    static GR_HD auto settle(State raw, NoPivot, u64 length, i64, i64) { return settle_integers<Order>(raw, (u32)length); }
};
template <class T, int Order, bool Integer = NarrowInteger<T>::yes> struct RawMoments : RawPowers<T, Order> {};
template <class T, int Order> struct RawMoments<T, Order, true> : RawIntegerPowers<T, Order> {};
// The row's best value first, and the slots that may hold it; its place takes 32 bits until the row is settled.
struct PlaceRaw { i32 place; };
const i32 none = 0x7fffffff;  // the place of nothing
// Places before a row are negative. Slots there are filled with the row's first element, so a find there is that element.
GR_HD i64 placed(i32 place, i64 index, i64 step) { return place == none ? -1 : index + (place < 0 ? 0 : place) * step; }
template <class T, bool Max, bool SkipNan> struct RawPlace : RawPlain<T, true> {
    typedef PlaceRaw State;
    typedef State Acc;
    static const bool pivoted = true;
    struct Seen { T best; i32 place; };  // a lane's best value, and the place of the first slot with it
    static GR_HD Seen nothing() { return {Extreme<T, Max, SkipNan>::worst(), none}; }
    template <int V> static GR_HD void look(Seen& seen, const Pack<T, V>& pack, i32 place) {
        typedef Arg<T, Max, SkipNan> Op;
        Best<T, Max, SkipNan> best = Best<T, Max, SkipNan>::start();
        best.take(pack);
        const T value = best.settle();
        const bool first = (place < seen.place) & !Op::beats(value, seen.best);
        const bool wins = first | Op::beats(seen.best, value);
        seen.best = either(wins, value, seen.best);
        seen.place = wins ? place : seen.place;
    }
    // All lanes call. The best value of each sub-warp of Lanes lanes.
    template <int Lanes> static GR_HD T agree(T value) {
#pragma unroll
        for (int bits = 1; bits < Lanes; bits *= 2)
            value = Extreme<T, Max, SkipNan>::better(value, shuffle_xor(0xffffffffu, value, bits));
        return value;
    }
    static GR_HD Acc start() { return {none}; }
    static GR_HD State raw(const Acc& acc) { return acc; }
    static GR_HD State combine(State a, State b) { return {a.place < b.place ? a.place : b.place}; }
    template <int V> static GR_HD void take(Acc& acc, const Pack<T, V>& pack, T best, i32 place, i64, i64) {
        i32 found = -1;
        if (!is_nan(best)) {
#pragma unroll
            for (int j = V - 1; j >= 0; j--) found = is_same(pack.element(j), best) ? j : found;
        } else if (!SkipNan) {
#pragma unroll
            for (int j = V - 1; j >= 0; j--) found = is_nan(pack.element(j)) ? j : found;
        }
        acc = combine(acc, {found < 0 ? none : place + found});
    }
    static GR_HD Placed<T> settle(State raw, T best, u64, i64 index, i64 step) {
        return {best, placed(raw.place, index, step)};
    }
};
// A byte and its place in one word, the larger the earlier.
struct KeyRaw { u32 key; };
template <class T, bool Max> struct RawBytePlace : RawPlain<NoPivot, true> {
    typedef KeyRaw State;
    typedef State Acc;
    static const u32 last = 0xffff00u;  // place 0 in a key: room above it for what stands before a row
    static GR_HD Acc start() { return {0}; }
    static GR_HD State raw(const Acc& acc) { return acc; }
    static GR_HD State combine(State a, State b) { return {a.key > b.key ? a.key : b.key}; }
    template <int V> static GR_HD void take(Acc& acc, const Pack<T, V>& pack, NoPivot, i32 place, i64, i64) {
        const u32 won = ByteScan<T, Max>::scan(only(pack));
        acc = combine(acc, {((won & 0xff00u) << 16) + (won & 255u) + (last - 255u - (u32)place)});
    }
    static GR_HD Placed<T> settle(State raw, NoPivot, u64, i64 index, i64 step) {
        return {(T)(raw.key >> 24 ^ ByteScan<T, Max>::flip), placed((i32)(last - (raw.key & 0xffffffu)), index, step)};
    }
};
// Complex numbers: value and place are compared at once.
template <class T> struct PlacedRaw { T value; i32 place; };
template <class T, bool Max, bool SkipNan> struct RawArg : RawPlain<NoPivot, true> {
    typedef Arg<T, Max, SkipNan> Op;
    typedef PlacedRaw<T> State;
    typedef State Acc;
    static GR_HD Acc start() { return {Op::identity().value, none}; }
    static GR_HD State raw(const Acc& acc) { return acc; }
    static GR_HD State combine(State a, State b) {
        typedef Contest<T, Max> With;
        bool wins = With::beats(a.value, b.value) | (With::ties(a.value, b.value) & (b.place < a.place));
        wins = (b.place != none) & (wins | (a.place == none));
        return wins ? b : a;
    }
    template <int V> static GR_HD void take(Acc& acc, const Pack<T, V>& pack, NoPivot, i32 place, i64, i64) {
        T best;
        const i32 at = place + Op::scan_place(only(pack), best);
        acc = combine(acc, {best, SkipNan && is_nan(best) ? none : at});
    }
    static GR_HD Placed<T> settle(State raw, NoPivot, u64, i64 index, i64 step) {
        return {raw.value, placed(raw.place, index, step)};
    }
};
template <class T, bool Max, bool SkipNan> struct Raw<Arg<T, Max, SkipNan>> : RawPlace<T, Max, SkipNan> {};
template <class Real, bool Max, bool SkipNan>
struct Raw<Arg<complex<Real>, Max, SkipNan>> : RawArg<complex<Real>, Max, SkipNan> {};
template <bool Max, bool SkipNan> struct Raw<Arg<i8, Max, SkipNan>> : RawBytePlace<i8, Max> {};
template <bool Max, bool SkipNan> struct Raw<Arg<u8, Max, SkipNan>> : RawBytePlace<u8, Max> {};
template <class T, bool Root> struct Raw<Variance<T, false, Root>> : RawMoments<T, 2> {};
template <class T> struct Raw<CentralMoment<T>> : RawMoments<T, 4> {};
template <class T> struct Raw<Skewness<T>> : RawMoments<T, 4> {};
template <class T> struct Raw<Kurtosis<T>> : RawMoments<T, 4> {};
