// Columns that a lane takes side by side: how the states of each operator are folded and scanned, several rows at a time.
#pragma once
#include "../core/pack.cuh"
#include "../core/task.cuh"
#include "moments_scan.cuh"
#include "pack_scan.cuh"
#include "scan_state.cuh"

// Columns side by side of any operator: their states folded and scanned row by row.

// The states of several columns, as one that is posted and awaited together.
template <class Op, int Columns> struct Several {
    struct State { typename Op::State at[Columns]; };
    static GR_HD State identity() {
        State none;
#pragma unroll
        for (int j = 0; j < Columns; j++) none.at[j] = Op::identity();
        return none;
    }
    static GR_HD State combine(const State& earlier, const State& later) {
        State both;
#pragma unroll
        for (int j = 0; j < Columns; j++) both.at[j] = Op::combine(earlier.at[j], later.at[j]);
        return both;
    }
};

//   fold.take(rows)           rows of V columns more
//   fold.state(j)             of column j
//   fold.was_right()          where it `guesses`: whether that is so
//
//   ScanBeside(before, option)
//   scan.rows(from, to)       rows' results
//   scan.after(j)             of column j, behind all rows
template <class Op, int V> struct FoldAny {
    typedef typename Op::In In;
    static const bool guesses = false;
    Gather<Op> gather[V];
    template <int Count> GR_HD void take(const Pack<In, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++)
#pragma unroll
            for (int j = 0; j < V; j++) gather[j].take(from[i].at[j]);
    }
    GR_HD typename Op::State state(int j) const { return gather[j].state(); }
};
template <class Op, class Emit, int V, bool Exclusive> struct ScanAny {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    State state[V];
    const f64* option;
    GR_HD ScanAny(const State (&before)[V], const f64* options) : option(options) {
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = before[j];
    }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) row(from[i], to[i]);
    }
    GR_HD void row(const Pack<In, V>& from, Pack<Out, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (Exclusive) to.at[j] = Emit::of(Before<Op>::of(state[j], from.at[j]), option);
            state[j] = Take<Op>::of(state[j], from.at[j]);
            if (!Exclusive) to.at[j] = Emit::of(state[j], option);
        }
    }
    GR_HD State after(int j) const { return state[j]; }
};

// Sums of floats in columns side by side, whose bits are moved to where binary64 has them (exponent_shift.cuh).

// At first all are taken for finite, which costs no branch. Who folds asks in the end whether they were, and else folds and
// scans them as any elements.
template <class Map, int V> struct FoldMoved {
    static_assert(IsMoved<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    static const bool guesses = true;
    f64 sum[V];
    u32 check;
    GR_HD FoldMoved() : check(0) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = 0;
    }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const Pack<T, V> all = AddedPack<Map>::of(from[i]);
            check = check_finite(all, check);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] = __fma_rn(Moved<T>::at(all, j), Moved<T>::scale(), sum[j]);
        }
    }
    GR_HD f64 state(int j) const { return sum[j]; }
    GR_HD bool was_right() const { return check == 0; }
};
template <class Map, class Emit, int V> struct ScanMoved {
    static_assert(IsMoved<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    f64 sum[V];
    const f64* option;
    GR_HD ScanMoved(const f64 (&before)[V], const f64* options) : option(options) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = before[j];
    }
    template <int Count, class Out> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) row(from[i], to[i]);
    }
    template <class Out> GR_HD void row(const Pack<T, V>& from, Pack<Out, V>& to) {
        static_assert(sizeof(T) == 4 || sizeof(Out) == 2, "16-bit elements have results of their own type");
        const Pack<T, V> all = AddedPack<Map>::of(from);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = __fma_rn(Moved<T>::at(all, j), Moved<T>::scale(), sum[j]);
        if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
            for (int j = 0; j < V; j += 2) ((u32*)&to)[j / 2] = rounded_pair<Emit>(sum[j], sum[j + 1], option, T());
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = Emit::of(sum[j], option);
        }
    }
    GR_HD f64 after(int j) const { return sum[j]; }
};

// Columns side by side of narrow elements, by the word.

// Extremes of bytes and 16-bit elements, two lanes to an instruction. Of a word of bytes the odd ones are upper bytes of lanes
// as they stand, the even ones when they have been moved; what stands below them decides nothing between unlike ones.
template <class T, bool Max, bool SkipNan, int V> struct NarrowBeside {
    typedef Halves<T, Max, SkipNan> Lane;
    static const int words = V * (int)sizeof(T) / 4, each = sizeof(T) == 1 ? 2 : 1;
    u32 best[words][each];
    GR_HD void take(const Pack<T, V>& from) {
#pragma unroll
        for (int w = 0; w < words; w++) {
            const u32 word = ((const u32*)&from)[w];
            best[w][each - 1] = Lane::better(best[w][each - 1], word);
            if (each == 2) best[w][0] = Lane::better(best[w][0], word << 8);
        }
    }
    GR_HD void show(Pack<T, V>& to) const {
#pragma unroll
        for (int w = 0; w < words; w++)
            ((u32*)&to)[w] = each == 2 ? __byte_perm(best[w][0], best[w][each - 1], 0x7351) : best[w][0];
    }
    GR_HD void begin(const Pack<T, V>& from) {
#pragma unroll
        for (int w = 0; w < words; w++) {
            const u32 word = ((const u32*)&from)[w];
            best[w][each - 1] = word;
            if (each == 2) best[w][0] = word << 8;
        }
    }
};
template <class T, bool Max, bool SkipNan, int V> struct FoldNarrow {
    static const bool guesses = false;
    NarrowBeside<T, Max, SkipNan, V> lanes;
    GR_HD FoldNarrow() {
        Pack<T, V> worst;
#pragma unroll
        for (int j = 0; j < V; j++) worst.at[j] = Extreme<T, Max, SkipNan>::worst();
        lanes.begin(worst);
    }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) lanes.take(from[i]);
    }
    GR_HD T state(int j) const {
        Pack<T, V> all;
        lanes.show(all);
        return all.at[j];
    }
};
template <class T, bool Max, bool SkipNan, int V> struct ScanNarrow {
    NarrowBeside<T, Max, SkipNan, V> lanes;
    GR_HD ScanNarrow(const T (&before)[V], const f64*) {
        Pack<T, V> all;
#pragma unroll
        for (int j = 0; j < V; j++) all.at[j] = before[j];
        lanes.begin(all);
    }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<T, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) {
            lanes.take(from[i]);
            lanes.show(to[i]);
        }
    }
    GR_HD T after(int j) const {
        Pack<T, V> all;
        lanes.show(all);
        return all.at[j];
    }
};

// Columns side by side of which several rows are a run: means, variances, sums in pairs.

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

// Means and variances: of each column several rows are a run (moments_scan.cuh, moments_scan.cuh).
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

// Columns that a lane takes side by side: how the states of each operator are folded and scanned.

template <class Op, int V> struct FoldBeside : FoldAny<Op, V> {};
template <int V> struct FoldBeside<Var<f32, false>, V> : FoldPowers<f32, Var<f32, false>, V> {};
template <int V> struct FoldBeside<Std<f32, false>, V> : FoldPowers<f32, Std<f32, false>, V> {};
template <class Op, class Emit, int V, bool Exclusive> struct ScanBeside : ScanAny<Op, Emit, V, Exclusive> {
    using ScanAny<Op, Emit, V, Exclusive>::ScanAny;
};
// Of words there must be whole ones.
template <class T, bool Max, bool SkipNan, int V>
using FoldExtremes = typename Either<V * sizeof(T) % 4 == 0, FoldNarrow<T, Max, SkipNan, V>, FoldAny<MinMax<T, Max, SkipNan>, V>>::type;
template <class T, bool Max, bool SkipNan, int V>
using ScanExtremes = typename Either<V * sizeof(T) % 4 == 0, ScanNarrow<T, Max, SkipNan, V>,
                                     ScanAny<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V, false>>::type;
#define GR_BESIDE(T)                                                                                                  \
    template <bool Max, bool SkipNan, int V>                                                                          \
    struct FoldBeside<MinMax<T, Max, SkipNan>, V> : FoldExtremes<T, Max, SkipNan, V> {};                              \
    template <bool Max, bool SkipNan, int V>                                                                          \
    struct ScanBeside<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V, false> : ScanExtremes<T, Max, SkipNan, V> { \
        typedef ScanExtremes<T, Max, SkipNan, V> Way;                                                                 \
        using Way::Way;                                                                                               \
    };
GR_BESIDE(half) GR_BESIDE(bfloat16) GR_BESIDE(i16) GR_BESIDE(u16) GR_BESIDE(i8) GR_BESIDE(u8) GR_BESIDE(boolean)
#undef GR_BESIDE

#define GR_BESIDE(T, Map)                                                                                \
    template <int V> struct FoldBeside<Sum<Map<T, f64>, f64>, V> : FoldMoved<Map<T, f64>, V> {};         \
    template <int V> struct ScanBeside<Sum<Map<T, f64>, f64>, Final<Sum<Map<T, f64>, f64>, T>, V, false> \
        : ScanMoved<Map<T, f64>, Final<Sum<Map<T, f64>, f64>, T>, V> {                                   \
        using ScanMoved<Map<T, f64>, Final<Sum<Map<T, f64>, f64>, T>, V>::ScanMoved;                     \
    };
GR_BESIDE(half, Value) GR_BESIDE(half, NonNan) GR_BESIDE(bfloat16, Value) GR_BESIDE(bfloat16, NonNan)
#undef GR_BESIDE

template <int V>
struct ScanBeside<Sum<Value<f64, f64>, Twofold>, Final<Sum<Value<f64, f64>, Twofold>, f64>, V, false>
    : ScanPairs<Value<f64, f64>, Final<Sum<Value<f64, f64>, Twofold>, f64>, V> {
    using ScanPairs<Value<f64, f64>, Final<Sum<Value<f64, f64>, Twofold>, f64>, V>::ScanPairs;
};
template <class Map, class A, class Result, int V>
struct ScanBeside<Mean<Map, A>, Final<Mean<Map, A>, Result>, V, false>
    : ScanQuotients<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> {
    typedef ScanQuotients<Mean<Map, A>, Final<Mean<Map, A>, Result>, V> Way;
    using Way::Way;
};
template <class T, class Result, int V>
struct ScanBeside<Var<T, false>, Final<Var<T, false>, Result>, V, false>
    : ScanQuotients<Var<T, false>, Final<Var<T, false>, Result>, V> {
    typedef ScanQuotients<Var<T, false>, Final<Var<T, false>, Result>, V> Way;
    using Way::Way;
};
template <class T, class Result, int V>
struct ScanBeside<Std<T, false>, Final<Std<T, false>, Result>, V, false>
    : ScanQuotients<Std<T, false>, Final<Std<T, false>, Result>, V> {
    typedef ScanQuotients<Std<T, false>, Final<Std<T, false>, Result>, V> Way;
    using Way::Way;
};
// How a kernel folds and scans columns; and one whose lanes wait for conversions, but have registers left: sums of float32 by bits
// that are moved. H200, 2026-11, 4 GiB, shares of a copy without and so: by allies (cluster_columns.cuh) down (n, 64), (n, 80), (n, 100),
// (n, 127) 0.97, 0.93, 0.92, 0.93 and 0.99, 0.97, 0.94, 0.95, in strips down (n, 513) 0.77 and 0.80; but as strands down
// (n, 65), (n, 100) 0.90, 0.88 and 0.87, 0.84.
template <class Op, class Emit, int V, bool Exclusive> struct Besides {
    typedef FoldBeside<Op, V> Fold;
    typedef ScanBeside<Op, Emit, V, Exclusive> Scan;
};
template <class Op, class Emit, int V, bool Exclusive> struct MovedBesides : Besides<Op, Emit, V, Exclusive> {};
template <class Map, class Emit, int V, bool Exclusive> struct MovedWays {
    typedef FoldMoved<Map, V> Fold;
    typedef typename Either<Exclusive, ScanAny<Sum<Map, f64>, Emit, V, true>, ScanMoved<Map, Emit, V>>::type Scan;
};
template <class Emit, int V, bool Exclusive>
struct MovedBesides<Sum<Value<f32, f64>, f64>, Emit, V, Exclusive> : MovedWays<Value<f32, f64>, Emit, V, Exclusive> {};
template <class Emit, int V, bool Exclusive>
struct MovedBesides<Sum<NonNan<f32, f64>, f64>, Emit, V, Exclusive> : MovedWays<NonNan<f32, f64>, Emit, V, Exclusive> {};
// Operators of which several rows had better be scanned together.
template <class Op> struct InRuns { static const bool yes = false; };
template <class Map, class A> struct InRuns<Mean<Map, A>> { static const bool yes = true; };
template <class T> struct InRuns<Var<T, false>> { static const bool yes = true; };
template <class T> struct InRuns<Std<T, false>> { static const bool yes = true; };
