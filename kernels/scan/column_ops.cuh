// Columns that a lane takes side by side: how the states of each operator are folded and scanned, several rows at a time.
#pragma once
#include "moments_scan.cuh"

// Rows of column j.
template <class T, int V, int Count> GR_HD Pack<T, Count> column_of(const Pack<T, V> (&rows)[Count], int j) {
    Pack<T, Count> column;
    unrolled<Count>([&](int i) { column.at[i] = rows[i].at[j]; });
    return column;
}

// Operators that are faster where several rows are scanned together, and folded.
template <class Op> struct ScansRowRuns { static const bool yes = false, folds = false; };
template <class Map, class A> struct ScansRowRuns<Mean<Map, A>> { static const bool yes = true, folds = false; };
template <class T, bool Skip, bool Root>
struct ScansRowRuns<Variance<T, Skip, Root>> { static const bool yes = !Skip || !FewDigits<T>::yes, folds = false; };
template <class Map> struct ScansRowRuns<Prod<Map>> { static const bool yes = Prod<Map>::has_exponent, folds = yes; };

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
        unrolled<V>([&](int j) {
            if constexpr (ScansRowRuns<Op>::folds) reduce[j].take(column_of(from, j));
            else unrolled<Count>([&](int i) { reduce[j].take(from[i].at[j]); });
        });
    }
    GR_HD typename Op::State state(int j) const { return reduce[j].state(); }
};
// Columns each by itself: several rows are scanned as a pack, which is faster for means, variances and products of floats.
template <class Op, class Emit, int V, class Run = PackScan<Op, Emit, 1>> struct RowRunColumnScan {
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    Run runs[V];
    GR_HD RowRunColumnScan(const typename Op::State (&before)[V], const f64* options) {
        unrolled<V>([&](int j) { runs[j] = Run(before[j], options); });
    }
    GR_HD void begin_at(i64 index, i64 step) { unrolled<V>([&](int j) { runs[j].begin_at(index, step); }); }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
        unrolled<V>([&](int j) {
            Pack<Out, Count> found;
            runs[j].run(column_of(from, j), found);
            unrolled<Count>([&](int i) { to[i].at[j] = found.at[i]; });
        });
    }
    // Of variances in binary32: so many rows change them little, if those that were scanned are among them and the others as far
    // from the mean as those before.
    GR_HD bool is_small(u32 rows) const {
        bool all = true;
        unrolled<V>([&](int j) { all = all && runs[j].is_small(__fmaf_rn((f32)rows, runs[j].usual(), runs[j].excess)); });
        return all;
    }
    GR_HD typename Op::State after(int j) const { return runs[j].now(); }
};
template <class Op, class Emit, int V, bool Exclusive>
using AnyColumnScan = RowRunColumnScan<Op, Emit, V, ElementwiseScan<Op, Emit, Exclusive>>;

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
        unrolled<words>([&](int w) {
            ((u32*)&to)[w] = each == 2 ? __byte_perm(best[w][0], best[w][each - 1], 0x7351) : best[w][0];
        });
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

template <class Op, class Emit, int V> using F32ColumnScan = RowRunColumnScan<Op, Emit, V, VarianceF32Delta<Op, Emit>>;

// Variances of few digits where elements may be left out: sums about the mean before, or the first element; a count a column.
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

// Which of these fold and scan an operator's columns. ShiftsFloats: sums of float32 by shifted bits, in kernels whose lanes wait for
// conversions but have registers left: of 4 GiB 0.97 and not 0.93 of a copy by clusters down (n, 80), in strips 0.80 and not 0.77
// down (n, 513), but as contiguous columns down (n, 65) 0.87 and not 0.90 (H200, 2026-11).
template <class Op, class Emit, int V, bool Exclusive, bool ShiftsFloats = false> struct ColumnOps {
    typedef AnyColumnReduce<Op, V> Fold;
    static const bool by_runs = !Exclusive && ScansRowRuns<Op>::yes && PackScan<Op, Emit, 1>::exists;
    typedef typename Conditional<by_runs, RowRunColumnScan<Op, Emit, V>, AnyColumnScan<Op, Emit, V, Exclusive>>::type Scan;
};
template <class T, bool Max, bool SkipNan, class Emit, int V, bool Exclusive, bool ShiftsFloats>
struct ColumnOps<MinMax<T, Max, SkipNan>, Emit, V, Exclusive, ShiftsFloats> {
    typedef MinMax<T, Max, SkipNan> Op;
    typedef NarrowColumns<T, Max, SkipNan, V> Narrow;
    static const bool fills_words = sizeof(T) <= 2 && V * sizeof(T) % 4 == 0;  // a lane's columns
    typedef typename Conditional<fills_words, Narrow, AnyColumnReduce<Op, V>>::type Fold;
    typedef typename Conditional<fills_words && !Exclusive && IsSame<Emit, Final<Op, T>>::yes, Narrow,
                                 AnyColumnScan<Op, Emit, V, Exclusive>>::type Scan;
};
template <class Map, class Emit, int V, bool Exclusive, bool ShiftsFloats>
struct ColumnOps<Sum<Map, f64>, Emit, V, Exclusive, ShiftsFloats> {
    typedef Sum<Map, f64> Op;
    typedef typename Map::In T;
    static const bool floats = ShiftsFloats && ADDS_FLOATS<Map>, scans = floats || IsSame<typename Emit::Out, T>::yes;
    typedef typename Conditional<floats || ADDS_HALVES<Map>, FiniteReduce<Map, V>, AnyColumnReduce<Op, V>>::type Fold;
    typedef typename Conditional<!Exclusive && Fold::assumes_finite && scans, FiniteScan<Map, Emit, V>,
                                 AnyColumnScan<Op, Emit, V, Exclusive>>::type Scan;
};
template <class T, bool Root, class Result, int V, bool ShiftsFloats>
struct ColumnOps<Variance<T, true, Root>, Final<Variance<T, true, Root>, Result>, V, false, ShiftsFloats> {
    typedef Variance<T, true, Root> Op;
    typedef AnyColumnReduce<Op, V> Fold;
    typedef typename Conditional<FewDigits<T>::yes && sizeof(Result) <= 4, SkippingVarianceScan<T, Op, Result, V>,
                                 RowRunColumnScan<Op, Final<Op, Result>, V>>::type Scan;
};
// Of kernels that fold nothing before: none that assumes finite elements, which could not be checked.
template <class Op, class Emit, int V, bool Exclusive>
using UncheckedColumnScan =
    typename Conditional<ColumnOps<Op, Emit, V, Exclusive>::Fold::assumes_finite, AnyColumnScan<Op, Emit, V, Exclusive>,
                         typename ColumnOps<Op, Emit, V, Exclusive>::Scan>::type;

// Scans the first `left` of rows that are at hand, or with Whole all, Together of them at once, and hands each on.
template <class To, int Together, bool Whole, class Columns, class From, int Count, class Put>
GR_HD void scan_batch(Columns& scan, const From (&batch)[Count], u64 left, const Put& put) {
    static_assert(Count % Together == 0, "whole runs of rows");
#pragma unroll
    for (int i = 0; i < Count; i += Together) {
        if (Whole || i + Together <= left) {
            To to[Together];
            scan.rows(*(const From(*)[Together])&batch[i], to);  // a copy would have a register for each byte
            unrolled<Together>([&](int k) { put(i + k, to[k]); });
        } else {
#pragma unroll
            for (int k = 0; k < Together - 1; k++) {
                if (i + k >= left) break;
                To to[1];
                scan.rows(*(const From(*)[1])&batch[i + k], to);
                put(i + k, to[0]);
            }
        }
    }
}
