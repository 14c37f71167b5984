// Columns that a lane takes side by side: how the states of each operator are folded and scanned, several rows at a time.
#pragma once
#include "moments_scan.cuh"

// Any operator: states folded and scanned row by row.

//   fold.take(rows)           rows of V columns more
//   fold.state(j)             of column j
//   fold.was_finite()         where it `assumes_finite`: whether that is so
//
//   ColumnScan(before, option)
//   scan.rows(from, to)       rows' results
//   scan.after(j)             of column j, behind all rows
template <class Op, int V> struct AnyColumnReduce {
    typedef typename Op::In In;
    static const bool assumes_finite = false;
    ThreadReduce<Op> reduce[V];
    template <int Count> GR_HD void take(const Pack<In, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) unrolled<V>([&](int j) { reduce[j].take(from[i].at[j]); });
    }
    GR_HD typename Op::State state(int j) const { return reduce[j].state(); }
};
template <class Op, class Emit, int V, bool Exclusive> struct AnyColumnScan {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    State state[V];
    const f64* option;
    i64 index, step;  // of the next row's elements, where states keep positions
    GR_HD AnyColumnScan(const State (&before)[V], const f64* options) : option(options), index(0), step(0) {
        unrolled<V>([&](int j) { state[j] = before[j]; });
    }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++, index += step)
#pragma unroll
            for (int j = 0; j < V; j++) {
                if (Exclusive) to[i].at[j] = Emit::of(ExclusiveState<Op>::of(state[j], from[i].at[j]), option);
                state[j] = ScanStep<Op>::of(state[j], from[i].at[j], index);
                if (!Exclusive) to[i].at[j] = Emit::of(state[j], option);
            }
    }
    GR_HD State after(int j) const { return state[j]; }
};

// Sums of floats whose bits are shifted to where binary64 has them (exponent_shift.cuh). All are assumed to be finite, which takes
// no branch. The caller asks in the end whether they were, and if not folds and scans them as any elements.
template <class Map, int V> struct ShiftedColumnReduce {
    static_assert(AddsElements<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    static const bool assumes_finite = true;
    f64 sum[V];
    u32 check;
    GR_HD ShiftedColumnReduce() : check(0) { unrolled<V>([&](int j) { sum[j] = 0; }); }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
        unrolled<Count>([&](int i) {
            const Pack<T, V> all = AddedPack<Map>::of(from[i]);
            check = check_finite(all, check);
            unrolled<V>([&](int j) { sum[j] = add_finite(sum[j], all, j); });
        });
    }
    GR_HD f64 state(int j) const { return sum[j]; }
    GR_HD bool was_finite() const { return check == 0; }
};
template <class Map, class Emit, int V> struct ShiftedColumnScan {
    static_assert(AddsElements<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    f64 sum[V];
    const f64* option;
    GR_HD ShiftedColumnScan(const f64 (&before)[V], const f64* options) : option(options) {
        unrolled<V>([&](int j) { sum[j] = before[j]; });
    }
    template <int Count, class Out> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
        unrolled<Count>([&](int i) { row(from[i], to[i]); });
    }
    template <class Out> GR_HD void row(const Pack<T, V>& from, Pack<Out, V>& to) {
        static_assert(sizeof(T) == 4 || sizeof(Out) == 2, "16-bit elements have results of their own type");
        const Pack<T, V> all = AddedPack<Map>::of(from);
        unrolled<V>([&](int j) { sum[j] = add_finite(sum[j], all, j); });
        if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
            for (int j = 0; j < V; j += 2) ((u32*)&to)[j / 2] = rounded_pair<Emit>(sum[j], sum[j + 1], option, T());
        } else {
            unrolled<V>([&](int j) { to.at[j] = Emit::of(sum[j], option); });
        }
    }
    GR_HD f64 after(int j) const { return sum[j]; }
};

// Extremes of bytes and 16-bit elements, two lanes of 16 bits to an instruction. Of a word of bytes the odd ones are upper bytes of
// lanes as they are, the even ones once they are shifted; the lower bytes make no difference between unlike elements.
// Columns are folded and scanned alike.
template <class T, bool Max, bool SkipNan, int V> struct NarrowColumns {
    typedef Halves<T, Max, SkipNan> Lane;
    static const bool assumes_finite = false;
    static const int words = V * (int)sizeof(T) / 4, each = sizeof(T) == 1 ? 2 : 1;
    u32 best[words][each];
    GR_HD NarrowColumns() {
        T worst[V];
        unrolled<V>([&](int j) { worst[j] = Extreme<T, Max, SkipNan>::worst(); });
        *this = NarrowColumns(worst, nullptr);
    }
    GR_HD NarrowColumns(const T (&before)[V], const f64*) {
        Pack<T, V> all;
        unrolled<V>([&](int j) { all.at[j] = before[j]; });
        unrolled<words>([&](int w) {
            const u32 word = ((const u32*)&all)[w];
            best[w][each - 1] = word;
            if (each == 2) best[w][0] = word << 8;
        });
    }
    GR_HD void row(const Pack<T, V>& from) {
        unrolled<words>([&](int w) {
            const u32 word = ((const u32*)&from)[w];
            best[w][each - 1] = Lane::better(best[w][each - 1], word);
            if (each == 2) best[w][0] = Lane::better(best[w][0], word << 8);
        });
    }
    GR_HD void show(Pack<T, V>& to) const {
#pragma unroll
        for (int w = 0; w < words; w++)
            ((u32*)&to)[w] = each == 2 ? __byte_perm(best[w][0], best[w][each - 1], 0x7351) : best[w][0];
    }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) { unrolled<Count>([&](int i) { row(from[i]); }); }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<T, V> (&to)[Count]) {
        unrolled<Count>([&](int i) {
            row(from[i]);
            show(to[i]);
        });
    }
    GR_HD T state(int j) const {
        Pack<T, V> all;
        show(all);
        return all.at[j];
    }
    GR_HD T after(int j) const { return state(j); }
};

// Means and variances: several rows of each column are scanned as a pack (moments_scan.cuh).
template <class Op, class Emit, int V> struct RowRunColumnScan {
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    struct Run : PackScan<Op, Emit, 1> {
        GR_HD Run() : PackScan<Op, Emit, 1>(Op::identity(), nullptr) {}
    };
    Run runs[V];
    GR_HD RowRunColumnScan(const typename Op::State (&before)[V], const f64* options) {
        unrolled<V>([&](int j) { (PackScan<Op, Emit, 1>&)runs[j] = PackScan<Op, Emit, 1>(before[j], options); });
    }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
        unrolled<V>([&](int j) {
            Pack<In, Count> column;
            Pack<Out, Count> found;
            unrolled<Count>([&](int i) { column.at[i] = from[i].at[j]; });
            runs[j].run(column, found);
            unrolled<Count>([&](int i) { to[i].at[j] = found.at[i]; });
        });
    }
    GR_HD typename Op::State after(int j) const { return runs[j].now(); }
};
// Operators that are faster where several rows are scanned together.
template <class Op> struct ScansRowRuns { static const bool yes = false; };
template <class Map, class A> struct ScansRowRuns<Mean<Map, A>> { static const bool yes = true; };
template <class T, bool Root> struct ScansRowRuns<Variance<T, false, Root>> { static const bool yes = true; };

// Variances of few digits where elements may be left out: sums about the mean of what comes before, or the first element, with a
// count for each column.
template <class T, class Op, class Result, int V> struct SkippingVarianceScan {
    typedef typename Op::State State;
    f64 mean[V], count[V], sum[V], squares[V];
    const f64* option;
    GR_HD SkippingVarianceScan(const State (&before)[V], const f64* options) : option(options) {
        unrolled<V>([&](int j) {
            mean[j] = before[j].mean;
            count[j] = before[j].count;
            sum[j] = 0;
            squares[j] = before[j].m2;
        });
    }
    GR_HD f64 spread(int j, f64 part) const {
        const f64 all = __fma_rn(-sum[j] * part, sum[j], squares[j]);
        return all < 0 ? 0 : all;
    }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Result, V> (&to)[Count]) {
        unrolled<Count>([&](int i) {
            f64 variances[V];
            unrolled<V>([&](int j) {
                const f64 x = cast<f64>(from[i].at[j]);
                const bool counts = x == x;
                mean[j] = counts && count[j] == 0 ? x : mean[j];
                const f64 d = counts ? x - mean[j] : 0;
                count[j] += counts ? 1.0 : 0.0;
                sum[j] += d;
                squares[j] = __fma_rn(d, d, squares[j]);
                const f64 part = one_over(count[j]), freedom = count[j] - option[0];
                f64 divisor = part;
                if (option[0] != 0) divisor = freedom > 0 ? one_over(freedom) : option[1];
                variances[j] = spread(j, part) * divisor;
            });
            VarianceResults<Op, Result>::of(variances, to[i]);
        });
    }
    GR_HD State after(int j) const {
        if (count[j] == 0) return Op::identity();
        const f64 part = one_over(count[j]);
        return {count[j], __fma_rn(sum[j], part, mean[j]), spread(j, part)};
    }
};

// Which of these an operator takes.
template <class Op, int V> struct ColumnReduce : AnyColumnReduce<Op, V> {};
template <class Op, class Emit, int V, bool Exclusive> struct ColumnScanOf
    : Conditional<!Exclusive && ScansRowRuns<Op>::yes && PackScan<Op, Emit, 1>::exists, RowRunColumnScan<Op, Emit, V>,
                  AnyColumnScan<Op, Emit, V, Exclusive>> {};
template <class Op, class Emit, int V, bool Exclusive> using ColumnScan = typename ColumnScanOf<Op, Emit, V, Exclusive>::type;
// By words only where a lane's columns fill whole ones.
template <class T, int V> constexpr bool FILLS_WORDS = sizeof(T) <= 2 && V * sizeof(T) % 4 == 0;
template <class T, bool Max, bool SkipNan, int V>
struct ColumnReduce<MinMax<T, Max, SkipNan>, V>
    : Conditional<FILLS_WORDS<T, V>, NarrowColumns<T, Max, SkipNan, V>, AnyColumnReduce<MinMax<T, Max, SkipNan>, V>>::type {};
template <class T, bool Max, bool SkipNan, int V>
struct ColumnScanOf<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V, false>
    : Conditional<FILLS_WORDS<T, V>, NarrowColumns<T, Max, SkipNan, V>,
                  AnyColumnScan<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V, false>> {};
template <class Map, int V>
struct ColumnReduce<Sum<Map, f64>, V>
    : Conditional<ADDS_HALVES<Map>, ShiftedColumnReduce<Map, V>, AnyColumnReduce<Sum<Map, f64>, V>>::type {};
template <class Map, class Result, int V>
struct ColumnScanOf<Sum<Map, f64>, Final<Sum<Map, f64>, Result>, V, false>
    : Conditional<ADDS_HALVES<Map> && IsSame<Result, typename Map::In>::yes,
                  ShiftedColumnScan<Map, Final<Sum<Map, f64>, Result>, V>,
                  AnyColumnScan<Sum<Map, f64>, Final<Sum<Map, f64>, Result>, V, false>> {};
template <class T, bool Root, class Result, int V>
struct ColumnScanOf<Variance<T, true, Root>, Final<Variance<T, true, Root>, Result>, V, false>
    : Conditional<FewDigits<T>::yes && sizeof(Result) <= 4, SkippingVarianceScan<T, Variance<T, true, Root>, Result, V>,
                  AnyColumnScan<Variance<T, true, Root>, Final<Variance<T, true, Root>, Result>, V, false>> {};
// Of kernels that fold nothing before: none that assumes finite elements, which could not be checked.
template <class Op, class Emit, int V, bool Exclusive>
using UncheckedColumnScan = typename Conditional<ColumnReduce<Op, V>::assumes_finite, AnyColumnScan<Op, Emit, V, Exclusive>,
                                                 ColumnScan<Op, Emit, V, Exclusive>>::type;
// Variances of the next rows are about the mean of all before.
template <class Op, int V, class Scan> GR_HD void rebase(Scan& scan, const f64* option) {
    if constexpr (ShiftedPowerSums<Op>::exists) {
        typename Op::State state[V];
        unrolled<V>([&](int j) { state[j] = scan.after(j); });
        scan = Scan(state, option);
    }
}
// How a kernel folds and scans columns. ShiftedColumnOps: of kernels whose lanes wait for conversions, but have registers left,
// sums of float32 by shifted bits. H200, 2026-11, 4 GiB, shares of a copy without and so: by clusters (cluster_columns.cuh) down
// (n, 64), (n, 80), (n, 100), (n, 127) 0.97, 0.93, 0.92, 0.93 and 0.99, 0.97, 0.94, 0.95, in strips down (n, 513) 0.77 and 0.80;
// but as contiguous columns down (n, 65), (n, 100) 0.90, 0.88 and 0.87, 0.84.
template <class Op, class Emit, int V, bool Exclusive> struct ColumnOps {
    typedef ColumnReduce<Op, V> Fold;
    typedef ColumnScan<Op, Emit, V, Exclusive> Scan;
};
template <class Op, class Emit, int V, bool Exclusive> struct ShiftedColumnOps : ColumnOps<Op, Emit, V, Exclusive> {};
template <class Map, class Emit, int V, bool Exclusive> struct ShiftedColumnOps<Sum<Map, f64>, Emit, V, Exclusive> {
    typedef Sum<Map, f64> Op;
    typedef typename Conditional<ADDS_FLOATS<Map>, ShiftedColumnReduce<Map, V>, ColumnReduce<Op, V>>::type Fold;
    typedef typename Conditional<ADDS_FLOATS<Map> && !Exclusive, ShiftedColumnScan<Map, Emit, V>,
                                 ColumnScan<Op, Emit, V, Exclusive>>::type Scan;
};
