// Running variances of lines of some elements that begin here: about a line's first element, which counts itself, so that no
// more digits cancel than the line's length has; by reciprocals from a table, as all lines are of one length.
#pragma once
#include "../warp/scan.cuh"
#include "spreads.cuh"

template <class Op, class Emit> struct FreshScan { static const bool exists = false; };
template <class T, class Op, class Result> struct FreshSpread : PivotSums {
    static const bool exists = FewDigits<T>::yes;
    GR_HD FreshSpread() : PivotSums(0) {}
    GR_HD explicit FreshSpread(T first) : PivotSums(cast<f64>(first)) {}
    GR_HD void take(T x) { add(cast<f64>(x)); }
    GR_HD f64 variance(f64 count, f64 part) const { return __fma_rn(-sums.sum, sums.sum, count * sums.squares) * part; }
    GR_HD typename Op::State state(u32 count) const {
        return settle_powers<MeanOf<T>>(PowerSums<2>{pivot, {sums.sum, sums.squares}, count});
    }
    // One over a count's product with what squares are divided by.
    static GR_HD f64 part_of(f64 count, const f64* option) {
        const f64 freedom = count - option[0];
        return freedom > 0 ? 1 / (count * freedom) : bit_cast<f64>(0x7ff0000000000000ull);
    }
};
template <class T, class Result> struct FreshScan<Var<T, false>, Final<Var<T, false>, Result>> : FreshSpread<T, Var<T, false>, Result> {
    using FreshSpread<T, Var<T, false>, Result>::FreshSpread;
};
template <class T, class Result> struct FreshScan<Std<T, false>, Final<Std<T, false>, Result>> : FreshSpread<T, Std<T, false>, Result> {
    using FreshSpread<T, Std<T, false>, Result>::FreshSpread;
};
