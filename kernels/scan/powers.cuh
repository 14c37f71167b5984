// A warp's share of a running variance folded to sums about one of its elements.
#pragma once
#include "../warp/scan.cuh"
#include "flow.cuh"

// A mean's leading number, and the rest.
GR_HD f64 first_of(f64 mean) { return mean; }
GR_HD f64 first_of(Twofold mean) { return mean.hi; }
GR_HD f64 rest_of(f64) { return 0; }
GR_HD f64 rest_of(Twofold mean) { return mean.lo; }

// Sums about a pivot: of elements' distances from it, and of their squares.
struct PivotSums {
    struct Sums {
        struct State { f64 sum, squares; };
        static GR_HD State identity() { return {0, 0}; }
        static GR_HD State combine(State a, State b) { return {a.sum + b.sum, a.squares + b.squares}; }
    };
    f64 pivot;
    Sums::State sums;
    GR_HD explicit PivotSums(f64 about) : pivot(about), sums{0, 0} {}
    GR_HD void add(f64 x) {
        const f64 d = x - pivot;
        sums.sum += d;
        sums.squares = __fma_rn(d, d, sums.squares);
    }
};

// About its first element, which all lanes know: sums need no division to be scanned, and what comes before a lane is found from
// them when what comes before the warp is known.
struct NoWarpFold { static const bool exists = false, skips = false; };
template <class Op> struct WarpFold : NoWarpFold {};
template <class T, bool SkipNan, class Op> struct WarpPowers : PivotSums {
    static const bool exists = true;
    typedef typename Op::State State;
    typedef Sums::State Held;
    GR_HD WarpPowers(T first) : PivotSums(cast<f64>(first)) {}  // of a lane
    template <int V> GR_HD void take(const Pack<T, V>& pack) {
#pragma unroll
        for (int j = 0; j < V; j++) add(cast<f64>(pack.at[j]));
    }
    // Elements may be left out: where all of a warp's lanes are whole, none is.
    static const bool skips = SkipNan;
    GR_HD bool is_whole() const { return sums.sum == sums.sum; }
    // All lanes of the warp call: the sums of all up to this lane's; from lane `begin` on of those from it on, whose own are given.
    GR_HD Held through() const { return warp_scan<Sums, 32>(sums); }
    static GR_HD Held through(Held own, u32 begin) {
        const u32 lane = threadIdx.x % 32, first = lane < begin ? 0 : begin;
#pragma unroll
        for (u32 up = 1; up < 32; up *= 2) {
            const Held earlier = shuffle_up(0xffffffffu, own, (int)up, 32);
            if (lane >= first + up) own = Sums::combine(earlier, own);
        }
        return own;
    }
    static GR_HD Held before(Held through) { return lane_before<Sums, 32>(through); }
    // As states are passed on: what comes before a lane, and in the mean's place the lane's own.
    GR_HD State packed(Held before) const { return {before.sum, noted(sums, MeanOf<T>()), before.squares}; }
    static GR_HD Held unpacked(State both) { return {both.count, both.m2}; }
    static GR_HD Twofold noted(Held own, Twofold) { return {own.sum, own.squares}; }
    static GR_HD f64 noted(Held own, f64) {
        return bit_cast<f64>((u64)bit_cast<u32>((f32)own.squares) << 32 | bit_cast<u32>((f32)own.sum));
    }
    static GR_HD Held own_of(Twofold note) { return {note.hi, note.lo}; }
    static GR_HD Held own_of(f64 note) {
        const u64 bits = bit_cast<u64>(note);
        return {bit_cast<f32>((u32)bits), bit_cast<f32>((u32)(bits >> 32))};
    }
    // No less than the squares of a lane's elements, so many, about the mean before it.
    GR_HD f64 squares_of(State both, State before, u32 count) const {
        const Held own = own_of(both.mean);
        const f64 away = pivot - first_of(before.mean), most = __fma_rn(away * away, count, own.squares);
        return __fma_rn(most, 1.00001, 2 * away * own.sum);
    }
    template <int Count> GR_HD State state_of(Held all) const {
        if constexpr (!FewDigits<T>::yes) {
            return state_of(pivot, all, Count);
        } else {
            const f64 shift = all.sum * (1.0 / Count), spread = __fma_rn(-all.sum, shift, all.squares);
            return {(f64)Count, pivot + shift, spread < 0 ? 0 : spread};
        }
    }
    static GR_HD State state_of(f64 pivot, Held all, u32 count) {
        return settle_powers<MeanOf<T>>(PowerSums<2>{pivot, {all.sum, all.squares}, count});
    }
    // A state and so many elements more.
    GR_HD State behind(State base, Held own, u32 count) const {
        if constexpr (!FewDigits<T>::yes) {
            return Op::combine(base, state_of(pivot, own, count));
        } else {
            const f64 centre = base.count > 0 ? base.mean : pivot, away = pivot - centre, number = count, all = base.count + number;
            const f64 sum = __fma_rn(number, away, own.sum), shift = all > 0 ? sum * one_over(all) : 0;
            const f64 spread = base.m2 + __fma_rn(-sum, shift, __fma_rn(away, own.sum + sum, own.squares));
            return {all, centre + shift, spread < 0 ? 0 : spread};
        }
    }
};
template <class T, bool SkipNan> struct WarpFold<Var<T, SkipNan>> : WarpPowers<T, SkipNan, Var<T, SkipNan>> {
    using WarpPowers<T, SkipNan, Var<T, SkipNan>>::WarpPowers;
};
template <class T, bool SkipNan> struct WarpFold<Std<T, SkipNan>> : WarpPowers<T, SkipNan, Std<T, SkipNan>> {
    using WarpPowers<T, SkipNan, Std<T, SkipNan>>::WarpPowers;
};
template <class Real, bool SkipNan> struct WarpFold<Var<complex<Real>, SkipNan>> : NoWarpFold {};
template <class Real, bool SkipNan> struct WarpFold<Std<complex<Real>, SkipNan>> : NoWarpFold {};
