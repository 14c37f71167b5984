// Columns side by side of which several rows are a run: means, variances, sums in pairs.
#pragma once
#include "any_beside.cuh"
#include "spreads.cuh"

// Sums in pairs: whether a pair's second number means something is asked once of several rows, since what is no finite number
// stays so.
template <class Map, class Emit, int V> struct ScanPairs {
    typedef typename Map::In In;
    typedef typename Emit::Out Out;
    Twofold sum[V];
    GR_HD ScanPairs(const Twofold (&before)[V], const f64*) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = before[j];
    }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            Twofold each[Count];
#pragma unroll
            for (int i = 0; i < Count; i++) {
                add(sum[j], Map::of(from[i].at[j]));
                each[i] = sum[j];
            }
            if (sum[j].hi - sum[j].hi == 0) {
#pragma unroll
                for (int i = 0; i < Count; i++) to[i].at[j] = each[i].hi + each[i].lo;
            } else {
#pragma unroll
                for (int i = 0; i < Count; i++) to[i].at[j] = value_of(each[i]);
            }
        }
    }
    GR_HD Twofold after(int j) const { return sum[j]; }
};

// Means and variances: of each column several rows are a run (quotients.cuh, spreads.cuh).
template <class Op, class Emit, int V> struct ScanRuns {
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    struct Run : PackScan<Op, Emit, 1> {
        GR_HD Run() : PackScan<Op, Emit, 1>(Op::identity(), nullptr) {}
    };
    Run runs[V];
    GR_HD ScanRuns(const typename Op::State (&before)[V], const f64* options) {
#pragma unroll
        for (int j = 0; j < V; j++) (PackScan<Op, Emit, 1>&)runs[j] = PackScan<Op, Emit, 1>(before[j], options);
    }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            Pack<In, Count> column;
            Pack<Out, Count> found;
#pragma unroll
            for (int i = 0; i < Count; i++) column.at[i] = from[i].at[j];
            runs[j].run(column, found);
#pragma unroll
            for (int i = 0; i < Count; i++) to[i].at[j] = found.at[i];
        }
    }
    GR_HD typename Op::State after(int j) const { return runs[j].now(); }
};
// Of one column, by arithmetic of fewer digits for as long as rows are near what comes before them.
template <class Op, class Emit> struct ScanNear : ScanRuns<Op, Emit, 1> {
    typedef ScanRuns<Op, Emit, 1> Runs;
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    NearScan<Op, Emit> near;
    int taken;  // rows, while they are near; else below zero
    GR_HD ScanNear(const typename Op::State (&before)[1], const f64* options)
        : Runs(before, options), near(before[0], options), taken(near.is_near(0) ? 0 : -1) {}
    GR_HD void leave(f32 sum, f32 excess) {
        this->runs[0].skip(taken, sum, excess + (f64)taken * near.variance);
        taken = -1;
    }
    template <int Count> GR_HD void rows(const Pack<In, 1> (&from)[Count], Pack<Out, 1> (&to)[Count]) {
        if (taken >= 0) {
            Pack<In, Count> column;
            Pack<Out, Count> found;
#pragma unroll
            for (int i = 0; i < Count; i++) column.at[i] = from[i].at[0];
            const f32 sum = near.sum, excess = near.excess;
            near.walk(column, found);
#pragma unroll
            for (int i = 0; i < Count; i++) to[i].at[0] = found.at[i];
            if (near.is_near(2 * (f64)near.excess)) {  // what squares exceed the variance by, not all of them
                taken += Count;
                return;
            }
            leave(sum, excess);
        }
        Runs::rows(from, to);
    }
    GR_HD typename Op::State after(int j) const {
        ScanNear behind = *this;
        if (taken >= 0) behind.leave(near.sum, near.excess);
        return behind.Runs::after(j);
    }
};
template <class Op, class Emit, int V, bool Near> struct RunsOf { typedef ScanRuns<Op, Emit, V> Way; };
template <class Op, class Emit> struct RunsOf<Op, Emit, 1, true> { typedef ScanNear<Op, Emit> Way; };
template <class Op, class Emit, int V>
using ScanQuotients = typename Either<
    PackScan<Op, Emit, 1>::exists && !WarpFold<Op>::skips,
    typename RunsOf<Op, Emit, V, NearScan<Op, Emit>::exists && sizeof(typename Emit::Out) == 4>::Way,
    ScanAny<Op, Emit, V, false>>::type;

// Power sums about a lane's first row.
template <class T, class Op, int V> struct FoldPowers {
    static const bool guesses = false;
    PowerSums<2> sums[V];
    GR_HD FoldPowers() : sums() {}
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (sums[j].count == 0) sums[j].pivot = cast<f64>(from[0].at[j]);
            sums[j].count += Count;
#pragma unroll
            for (int i = 0; i < Count; i++) sums[j].take(cast<f64>(from[i].at[j]));
        }
    }
    GR_HD typename Op::State state(int j) const { return settle_powers<MeanOf<T>>(sums[j]); }
};
