// Moments as sums about one pivot, which are combined by additions alone: of the elements of a warp's share about its first one,
// and of the states of a warp's lanes about one mean.
#pragma once
#include "../warp/reduce.cuh"
#include "../warp/scan.cuh"
#include "scan_state.cuh"

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
    template <class T, int V> GR_HD void take(const Pack<T, V>& pack) {
        unrolled<V>([&](int j) { add(cast<f64>(pack.at[j])); });
    }
    // The squares about the mean of so many elements, times their number.
    GR_HD f64 spread(f64 count) const { return __fma_rn(-sums.sum, sums.sum, count * sums.squares); }
    // The state of so many elements whose sums are `all`.
    template <class M> GR_HD Moments2<M> settled(Sums::State all, u32 count) const {
        return settle_powers<M>(PowerSums<2>{pivot, {all.sum, all.squares}, count});
    }
};

// A warp's share about its first element, which all lanes read: the lanes' sums are scanned without a division, and a lane's prefix
// is computed from them once the warp's is known.
template <class Op> struct ShiftedPowerSums { static const bool exists = false, skips = false; };
template <class T, bool SkipNan, bool Root> struct ShiftedPowerSums<Variance<T, SkipNan, Root>> : PivotSums {
    static const bool exists = true;
    typedef Moments2<MeanOf<T>> State;
    typedef Sums::State SumState;
    GR_HD ShiftedPowerSums(T first) : PivotSums(cast<f64>(first)) {}  // the sums of a lane
    // Elements may be left out; none is where `is_whole` in all lanes of a warp.
    static const bool skips = SkipNan;
    GR_HD bool is_whole() const { return sums.sum == sums.sum; }
    // All lanes of a warp call. Inclusive scan of the lanes' sums.
    GR_HD SumState through() const { return warp_scan<Sums, 32>(sums); }
    static GR_HD SumState before(SumState through) { return lane_before<Sums, 32>(through); }
    // A State that holds sums while a tile waits: the lane's prefix, and in the mean's place the lane's own sums.
    GR_HD State packed(SumState before) const { return {before.sum, part_state(sums, MeanOf<T>()), before.squares}; }
    static GR_HD SumState unpacked(State both) { return {both.count, both.m2}; }
    static GR_HD Twofold part_state(SumState own, Twofold) { return {own.sum, own.squares}; }
    static GR_HD f64 part_state(SumState own, f64) {
        return bit_cast<f64>((u64)bit_cast<u32>((f32)own.squares) << 32 | bit_cast<u32>((f32)own.sum));
    }
    static GR_HD SumState own_of(Twofold note) { return {note.hi, note.lo}; }
    static GR_HD SumState own_of(f64 note) {
        const u64 bits = bit_cast<u64>(note);
        return {bit_cast<f32>((u32)bits), bit_cast<f32>((u32)(bits >> 32))};
    }
    // At least the sum of squared distances of a lane's elements, so many, from the mean before it.
    GR_HD f64 squares_of(State both, State before, u32 count) const {
        const SumState own = own_of(both.mean);
        const f64 away = pivot - first_of(before.mean), most = __fma_rn(away * away, count, own.squares);
        return __fma_rn(most, 1.00001, 2 * away * own.sum);
    }
    // A state combined with so many elements after it, whose sums are `own`.
    GR_HD State append(State base, SumState own, u32 count) const {
        if constexpr (!FewDigits<T>::yes) {
            return merge(base, settled<MeanOf<T>>(own, count));
        } else {
            const f64 centre = base.count > 0 ? base.mean : pivot, away = pivot - centre, number = count, all = base.count + number;
            const f64 sum = __fma_rn(number, away, own.sum), shift = all > 0 ? sum * one_over(all) : 0;
            const f64 spread = base.m2 + __fma_rn(-sum, shift, __fma_rn(away, own.sum + sum, own.squares));
            return {all, centre + shift, spread < 0 ? 0 : spread};
        }
    }
};

// The sum of squared distances from any number.
GR_HD f64 squares_about(f64 centre, Moments2<f64> state) {
    const f64 away = state.mean - centre;
    return __fma_rn(state.count * away, away, state.m2);
}

// States of a warp's lanes folded or scanned: by combinations, or, where those take long and results have few digits, as sums about
// one mean with one reciprocal in the end.

// Variances about the mean of the first state that has elements.
struct MomentSums {
    struct State { f64 count, sum, squares; };
    static GR_HD State combine(State a, State b) { return {a.count + b.count, a.sum + b.sum, a.squares + b.squares}; }
    template <class M> static GR_HD State about(M pivot, Moments2<M> state) {
        const f64 away = distance(pivot, state.mean), sum = state.count * away;
        return {state.count, sum, __fma_rn(sum, away, state.m2)};
    }
    template <class M> static GR_HD Moments2<M> settled(M pivot, State all) {
        if (all.count == 0) return Moments2<M>();
        const f64 shift = all.sum * one_over(all.count), m2 = __fma_rn(-all.sum, shift, all.squares);
        if (m2 != m2 && shift - shift == 0) return {all.count, shifted(pivot, shift), all.squares};  // out of the range of binary64
        return {all.count, shifted(pivot, shift), m2 < 0 ? 0 : m2};
    }
};

// All lanes of a warp call; each gets all states folded, left to right.
template <class Op> GR_HD typename Op::State fold_warp_states(typename Op::State state) {
    if constexpr (ShiftedPowerSums<Op>::exists) {
        const u32 some = __ballot_sync(0xffffffffu, state.count > 0);
        const auto pivot = shuffle_from(0xffffffffu, state.mean, some ? __ffs((i32)some) - 1 : 0, 32);
        MomentSums::State all = MomentSums::about(pivot, state);
#pragma unroll
        for (int bits = 16; bits > 0; bits /= 2) all = MomentSums::combine(all, shuffle_xor(0xffffffffu, all, bits));
        return MomentSums::settled(pivot, all);
    } else {
        return shuffle_from(0xffffffffu, warp_reduce<Op, 32>(state), 0, 32);
    }
}

// All lanes of a warp call. Inclusive scan of states that may have heads (Running is a SegmentedState).
template <class Op, class Running> GR_HD typename Running::State scan_warp_states(typename Running::State state) {
    if constexpr (ShiftedPowerSums<Op>::exists) {
        const typename Op::State own = Running::value(state);
        const u32 lane = threadIdx.x % 32;
        const u32 heads = __ballot_sync(0xffffffffu, Running::has_head(state)) & (0xffffffffu >> (31 - lane));
        const u32 first = heads ? 31 - __clz((i32)heads) : 0;
        const u32 some = __ballot_sync(0xffffffffu, own.count > 0) & (0xffffffffu << first);
        const auto pivot = shuffle_from(0xffffffffu, own.mean, some ? __ffs((i32)some) - 1 : 0, 32);
        const MomentSums::State all = warp_scan_from<MomentSums>(MomentSums::about(pivot, own), first);
        return Running::of(MomentSums::settled(pivot, all), heads != 0);
    } else {
        return warp_scan<Running, 32>(state);
    }
}
