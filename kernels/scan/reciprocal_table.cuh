// Running means and variances of columns with equally many elements: the reciprocals of a row's count are computed once for all of
// them, into a table in shared memory. Below it the scans that take tile by tile of such columns.
//   Scan(before, option)             all lanes of a warp call
//   scan.begin(first, rows, table)   all lanes of a warp call for each tile, and then __syncwarp; `table` has an Entry a row
//   scan.rows(from, to)              rows' results
//   scan.after(j)                    the state of column j
#pragma once
#include "column_ops.cuh"

// One over the counts of a tile's rows, and over what squares are divided by.
struct ReciprocalTable {
    struct alignas(16) Entry { f64 count, freedom; };
    f64 start, count;   // elements before the strip's first row, and before the next row
    const Entry* next;  // of the next row
    GR_HD ReciprocalTable(f64 before) : start(shuffle_from(0xffffffffu, before, 0, 32)), count(start) {}
    // All lanes of a warp call; each gets whether counts agree in all columns that the lanes have (`has`).
    template <class State, int V> static GR_HD bool counts_agree(const State (&before)[V], bool has) {
        const auto first = shuffle_from(0xffffffffu, before[0].count, 0, 32);
        bool alike = true;
        unrolled<V>([&](int j) { alike = alike && before[j].count == first; });
        return __all_sync(0xffffffffu, alike || !has);
    }
    // Squares are divided by `fewer` than the count, and multiplied by `otherwise` where that leaves nothing.
    GR_HD void fill(u64 first, u32 rows, u8* table, f64 fewer, f64 otherwise) {
        count = start + (f64)first;
        for (u32 row = threadIdx.x % 32; row < rows; row += 32) {
            const f64 number = count + (f64)(row + 1), freedom = number - fewer;
            ((Entry*)table)[row] = {one_over(number), freedom > 0 ? one_over(freedom) : otherwise};
        }
        next = (const Entry*)table;
    }
    GR_HD void pass(int rows) {
        count += rows;
        next += rows;
    }
};

// Variances about the mean of all rows before the tile, or where all digits count of half the rows before at least, so that no more
// than a digit or two cancel.
template <class T, class Op, class Result, int V> struct SerialVarianceScan : ReciprocalTable {
    typedef typename Op::State State;
    typedef MeanOf<T> Mean;
    static const bool wide = sizeof(Result) == 8;  // all digits count
    Mean mean[V], m2[V];     // of the first rows, `settled`
    f64 sum[V], squares[V];  // of all rows' distances from the mean's leading number; what squares are more than m2's
    f64 settled;
    const f64* option;
    GR_HD SerialVarianceScan(const State (&before)[V], const f64* options) : ReciprocalTable(before[0].count), option(options) {
        unrolled<V>([&](int j) { go_on(j, before[j].mean, Mean{before[j].m2}, before[j].count); });
    }
    GR_HD void go_on(int j, Mean about, Mean spread, f64 elements) {
        mean[j] = about;
        m2[j] = spread;
        sum[j] = elements * rest_of(about);
        squares[j] = __fma_rn(sum[j], rest_of(about), rest_of(spread));
        settled = count;
    }
    // Squares about a mean that is `shift` away. Where they are out of range, so is the result: the product is not rounded.
    GR_HD f64 m2_about(int j, f64 shift) const { return first_of(m2[j]) + __fma_rn(-sum[j], shift, squares[j]); }
    GR_HD void settle() {
        const f64 part = one_over(count);
        unrolled<V>([&](int j) {
            const f64 shift = sum[j] * part;
            go_on(j, shifted(Mean{first_of(mean[j])}, shift),
                  shifted(Mean{first_of(m2[j])}, __fma_rn(-sum[j], shift, squares[j])), count);
        });
    }
    GR_HD void begin(u64 first, u32 rows, u8* table) {
        if (count > settled) settle();
        fill(first, rows, table, option[0], option[1]);
    }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Result, V> (&to)[Count]) {
        if (count == 0) unrolled<V>([&](int j) { mean[j] = Mean{cast<f64>(from[0].at[j])}; });
        else if (wide && count >= 2 * settled) settle();
        unrolled<Count>([&](int i) {
            const Entry part = next[i];
            f64 variances[V];
            unrolled<V>([&](int j) {
                const f64 d = cast<f64>(from[i].at[j]) - first_of(mean[j]);
                sum[j] += d;
                squares[j] = __fma_rn(d, d, squares[j]);
                variances[j] = m2_about(j, sum[j] * part.count) * part.freedom;
            });
            VarianceResults<Op, Result>::of(variances, to[i]);
        });
        pass(Count);
    }
    GR_HD State after(int j) const {
        if (count == 0) return Op::identity();
        const f64 shift = sum[j] * one_over(count);
        return {count, shifted(Mean{first_of(mean[j])}, shift), m2_about(j, shift)};
    }
};
template <class T, class A, class Result, int V> struct SerialMeanScan : ReciprocalTable {
    typedef Averaged<A> State;
    A sum[V];
    GR_HD SerialMeanScan(const State (&before)[V], const f64*) : ReciprocalTable((f64)before[0].count) {
        unrolled<V>([&](int j) { sum[j] = before[j].sum; });
    }
    GR_HD void begin(u64 first, u32 rows, u8* table) { fill(first, rows, table, 0, 0); }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Result, V> (&to)[Count]) {
        unrolled<Count>([&](int i) {
            const f64 part = next[i].count, number = count + (i + 1);
            unrolled<V>([&](int j) {
                add(sum[j], cast<A>(from[i].at[j]));
                if constexpr (IsSame<A, f64>::yes) to[i].at[j] = cast<Result>(sum[j] * part);
                else to[i].at[j] = Quotient<Result>::of(sum[j], number, part);
            });
        });
        pass(Count);
    }
    GR_HD State after(int j) const { return {sum[j], (i64)count}; }
};

// How an operator is scanned where counts agree.
template <class Op, class Emit, int V, bool Exclusive> struct SerialColumnOps {
    static const bool uses_table = false, of_variances = false;
    typedef void EqualCounts;
};
template <class T, bool Root, class Result, int V>
struct SerialColumnOps<Variance<T, false, Root>, Final<Variance<T, false, Root>, Result>, V, false> {
    static const bool uses_table = true, of_variances = true;
    typedef SerialVarianceScan<T, Variance<T, false, Root>, Result, V> EqualCounts;
};
template <class T, class A, class Result, int V>
struct SerialColumnOps<Mean<Value<T, A>, A>, Final<Mean<Value<T, A>, A>, Result>, V, false> {
    static const bool uses_table = true, of_variances = false;
    typedef SerialMeanScan<T, A, Result, V> EqualCounts;
};
// And where they do not: variances row by row, others as they always are.
template <class Op, class Emit, int V, bool Exclusive>
using UnlikeCounts = typename Conditional<SerialColumnOps<Op, Emit, V, Exclusive>::of_variances, AnyColumnScan<Op, Emit, V, Exclusive>,
                                          UncheckedColumnScan<Op, Emit, V, Exclusive>>::type;
