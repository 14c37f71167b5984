// Sums of numbers, and of squares of their deviations, in one read and without an array of what is added: float32 in
// float64, float64 in pairs, with NaN or without. Of blocks of any length and width: where few cells lie side by side,
// rows of memory that follow one another are added side by side, so that vectors are full. Which elements are added to
// which depends on the shape alone, and so do the bits of a sum.
#include "masked.h"

enum {
    ROUND = 4,       // rows that are added to what is loaded once
    PLAIN = 512,     // additions after which sums go into pairs, so that rounding loses little,
    ROW_BATCH = 32,  // and of rows that are added side by side, which rounding there loses less
    FEW = 16,        // rows, at most, whose many cells are added up in registers
    // Cells of a strip: longer parts of rows come faster from memory. Six float32 chunks of (4096, 4096) on two threads, summed
    // down, 16 ms, by strips of 1024 cells 21, NumPy 16 (a Xeon). A thread's stack of 192 KiB holds the states of so many.
    CELLS = 2048,
    SHARE = 64,      // of a cell's elements, those whose mean deviations are measured from
    BEHIND = 256,    // elements of a row that are asked for ahead
};

// (hi, lo) += x, hi the nearest float64 (Knuth 1969). Where hi is not finite, lo means nothing.
#define ADD_TO_PAIR(hi, lo, x)                                                                                         \
    {                                                                                                                  \
        const double total = hi + (x), shadow = total - hi;                                                            \
        lo += (hi - (total - shadow)) + ((x)-shadow);                                                                  \
        hi = total;                                                                                                    \
    }

// What stretches of rows add up to, and what cells do.
typedef struct {
    double sum[CELLS], square[CELLS], pivot[CELLS];
    int64_t here[CELLS];
} Lanes;
typedef struct {
    double hi[CELLS], lo[CELLS], square[CELLS];
    int64_t here[CELLS];
} Totals;

// How many cells a strip of rows of so many has. Of longer rows states of more than a sum take the cache from elements.
INLINE int64_t strip_of(int64_t inner, const int more) { return more && inner > CELLS ? STRIP : CELLS; }

// Adds up what several rows have added to the same cells.
#define FOLD(NAME, TYPE)                                                                                               \
    INLINE void fold_##NAME(TYPE *a, int64_t side, int64_t inner) {                                                    \
        if (side == LANES && inner == 1) {                                                                             \
            for (int k = 0; k < LANES / 2; k++) a[k] += a[k + LANES / 2];                                              \
            for (int k = 0; k < LANES / 4; k++) a[k] += a[k + LANES / 4];                                              \
            side = LANES / 4;                                                                                          \
        }                                                                                                              \
        for (int64_t half; (half = side / 2); side -= half) {                                                          \
            const TYPE *restrict from = a + (side - half) * inner;                                                     \
            for (int64_t j = 0; j < half * inner; j++) a[j] += from[j];                                                \
        }                                                                                                              \
    }

FOLD(double, double)
FOLD(count, int64_t)

#define TAKE(NAME, TYPE)                                                                                               \
    /* Adds one vector of each of so many rows to the lanes from j on; of those elements alone that are not among the  \
       first `past`. Flags are as wide as what they are of, so that one loop is vectors throughout. */                 \
    INLINE void add_##NAME(const char *rows, const int rounds, int64_t stride, int64_t j, const int past,              \
                           Lanes *restrict a, const int skip, const int squares) {                                     \
        EACH {                                                                                                         \
            double sum = a->sum[j + k], square = squares ? a->square[j + k] : 0;                                       \
            int32_t few = 0;                                                                                           \
            int64_t here = skip ? a->here[j + k] : 0;                                                                  \
            _Pragma("GCC unroll 4") for (int i = 0; i < rounds; i++) {                                                 \
                const TYPE x = ((const TYPE *)(rows + i * stride))[j + k];                                             \
                if (skip && !squares && NARROW(x)) { /* NaN is looked for before it becomes wide */                    \
                    const int32_t there = -(int32_t)((k >= past) & (x == x));                                          \
                    sum += MASKED(x, there);                                                                           \
                    few -= there;                                                                                      \
                    continue;                                                                                          \
                }                                                                                                      \
                const double v = x;                                                                                    \
                const int64_t one = -(int64_t)((k >= past) & (!skip | (v == v)));                                      \
                double away = squares ? v - a->pivot[j + k] : v;                                                       \
                if (skip || past) away = masked(away, one);                                                            \
                sum += away;                                                                                           \
                if (squares) square += away * away;                                                                    \
                if (skip) here -= one;                                                                                 \
            }                                                                                                          \
            a->sum[j + k] = sum;                                                                                       \
            if (squares) a->square[j + k] = square;                                                                    \
            if (skip) a->here[j + k] = here + few;                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    /* Adds so many rows of `width` elements, `stride` bytes apart, to the lanes. */                                   \
    INLINE void rows_##NAME(const char *rows, const int rounds, int64_t stride, int64_t width, Lanes *restrict a,      \
                            const int skip, const int squares) {                                                       \
        const int64_t even = width - width % LANES, rest = width - even;                                               \
        for (int64_t j = 0; j < even; j += LANES) {                                                                    \
            const char *ahead = rows + ROUND * stride + j * sizeof(TYPE);                                              \
            for (int i = 0; i < rounds; i++) __builtin_prefetch(ahead + i * stride);                                   \
            add_##NAME(rows, rounds, stride, j, 0, a, skip, squares);                                                  \
        }                                                                                                              \
        if (rest && even) {                                                                                            \
            add_##NAME(rows, rounds, stride, width - LANES, LANES - (int)rest, a, skip, squares);                      \
            return;                                                                                                    \
        }                                                                                                              \
        for (int i = 0; i < rounds; i++) {                                                                             \
            const TYPE *restrict x = (const TYPE *)(rows + i * stride);                                                \
            for (int64_t j = 0; j < rest; j++) {                                                                       \
                const double v = x[j];                                                                                 \
                if (skip && v != v) continue;                                                                          \
                const double away = squares ? v - a->pivot[j] : v;                                                     \
                a->sum[j] += away;                                                                                     \
                if (squares) a->square[j] += away * away;                                                              \
                if (skip) a->here[j]++;                                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void take_##NAME(const char *rows, int64_t n, int64_t stride, int64_t width, Lanes *restrict a,             \
                            const int skip, const int squares) {                                                       \
        int64_t i = 0;                                                                                                 \
        for (; i + ROUND <= n; i += ROUND) rows_##NAME(rows + i * stride, ROUND, stride, width, a, skip, squares);     \
        for (; i < n; i++) rows_##NAME(rows + i * stride, 1, stride, width, a, skip, squares);                         \
    }                                                                                                                  \
    /* The last of those elements that end here, fewer than LANES, with as many before them as fill a vector. */       \
    INLINE void end_##NAME(const TYPE *end, int64_t rest, Lanes *restrict a, const int skip, const int squares) {      \
        add_##NAME((const char *)(end - LANES), 1, 0, 0, LANES - (int)rest, a, skip, squares);                         \
    }                                                                                                                  \
    /* The totals of n elements a cell, of `inner` cells, few enough for a strip. */                                   \
    INLINE void total_##NAME(const char *x, int64_t n, int64_t stride, int64_t inner, Lanes *restrict a,               \
                             Totals *restrict t, const int skip, const int squares) {                                  \
        const int64_t side = side_by_side(n, inner, stride, sizeof(TYPE)), width = side * inner;                       \
        for (int64_t j = 0; j < inner; j++) t->hi[j] = t->lo[j] = 0;                                                   \
        if (squares) for (int64_t j = 0; j < inner; j++) t->square[j] = 0;                                             \
        if (skip) for (int64_t j = 0; j < inner; j++) t->here[j] = 0;                                                  \
        if (squares) for (int64_t j = inner; j < width; j++) a->pivot[j] = a->pivot[j - inner];                        \
        for (int64_t i = 0; i < n;) {                                                                                  \
            const int64_t some = least(n - i, side > 1 ? side * ROW_BATCH : PLAIN);                                    \
            for (int64_t j = 0; j < width; j++) a->sum[j] = 0;                                                         \
            if (squares) for (int64_t j = 0; j < width; j++) a->square[j] = 0;                                         \
            if (skip) for (int64_t j = 0; j < width; j++) a->here[j] = 0;                                              \
            const int64_t full = some / side, rest = (some - full * side) * inner;                                     \
            take_##NAME(x + i * stride, full, side * stride, width, a, skip, squares);                                 \
            if (rest && rest < LANES && n * inner >= LANES && LANES % inner == 0)                                      \
                end_##NAME((const TYPE *)(x + n * stride), rest, a, skip, squares);                                    \
            else if (rest)                                                                                             \
                take_##NAME(x + (i + full * side) * stride, 1, 0, rest, a, skip, squares);                             \
            i += some;                                                                                                 \
            fold_double(a->sum, side, inner);                                                                          \
            if (squares) fold_double(a->square, side, inner);                                                          \
            if (skip) fold_count(a->here, side, inner);                                                                \
            if (some == n) {                                                                                           \
                for (int64_t j = 0; j < inner; j++) t->hi[j] = a->sum[j];                                              \
            } else {                                                                                                   \
                for (int64_t j = 0; j < inner; j++) ADD_TO_PAIR(t->hi[j], t->lo[j], a->sum[j])                         \
            }                                                                                                          \
            if (squares) for (int64_t j = 0; j < inner; j++) t->square[j] += a->square[j];                             \
            if (skip) for (int64_t j = 0; j < inner; j++) t->here[j] += a->here[j];                                    \
        }                                                                                                              \
    }

// What a row of neighbours adds up to, at least as many as there are lanes, in registers: of short rows a strip's states
// would take longer than the elements do.
#define ROW(NAME, TYPE)                                                                                                \
    INLINE void stretch_##NAME(const TYPE *restrict x, int64_t n, double pivot, double *sum, double *square,           \
                               int64_t *here, const int skip, const int squares) {                                     \
        double lane[LANES], second[LANES];                                                                             \
        int64_t there[LANES], j = 0;                                                                                   \
        EACH lane[k] = second[k] = 0, there[k] = 0;                                                                    \
        for (; j + LANES <= n; j += LANES) {                                                                           \
            if (skip || squares) __builtin_prefetch(x + j + BEHIND);                                                   \
            EACH ADD_TO_LANE(x[j + k], skip, -1)                                                                       \
        }                                                                                                              \
        if (j < n) { /* with as many before the last as fill a vector */                                               \
            const int past = LANES - (int)(n - j);                                                                     \
            EACH ADD_TO_LANE(x[n - LANES + k], 1, -(int64_t)(k >= past))                                               \
        }                                                                                                              \
        fold_double(lane, LANES, 1);                                                                                   \
        *sum = lane[0];                                                                                                \
        if (squares) fold_double(second, LANES, 1);                                                                    \
        if (squares) *square += second[0];                                                                             \
        if (skip) fold_count(there, LANES, 1);                                                                         \
        if (skip) *here += there[0];                                                                                   \
    }                                                                                                                  \
    /* The sum of a long one: those of stretches go into a pair. */                                                    \
    INLINE void long_row_##NAME(const TYPE *restrict x, int64_t n, double *hi, double *lo) {                           \
        double high = 0, low = 0, sum;                                                                                 \
        for (int64_t i = 0, some; i < n; i += some) {                                                                  \
            some = n - i < 2 * LONG ? n - i : LONG;                                                                    \
            stretch_##NAME(x + i, some, 0, &sum, NULL, NULL, 0, 0);                                                    \
            ADD_TO_PAIR(high, low, sum)                                                                                \
        }                                                                                                              \
        low = high - high == 0 ? low : 0;                                                                              \
        *hi = lo ? high : high + low;                                                                                  \
        if (lo) *lo = low;                                                                                             \
    }
// Adds an element to its lane, where the mask has ones, and, if some are left out, where it is a number.
#define ADD_TO_LANE(element, some, mask)                                                                               \
    {                                                                                                                  \
        const double v = element;                                                                                      \
        const int64_t one = (mask) & -(int64_t)(!skip | (v == v));                                                     \
        double away = squares ? v - pivot : v;                                                                         \
        if (some) away = masked(away, one);                                                                            \
        lane[k] += away;                                                                                               \
        if (squares) second[k] += away * away;                                                                         \
        if (skip) there[k] -= one;                                                                                     \
    }

// The sums of many cells of a few rows each, in registers.
#define FEW_ROWS(NAME, TYPE)                                                                                           \
    INLINE void few_##NAME(const char *rows, int64_t n, int64_t stride, int64_t inner, double *restrict sums) {        \
        int64_t j = 0;                                                                                                 \
        for (; j + LANES <= inner; j += LANES) {                                                                       \
            double lane[LANES];                                                                                        \
            EACH lane[k] = 0;                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const TYPE *restrict x = (const TYPE *)(rows + i * stride) + j;                                        \
                EACH lane[k] += (double)x[k];                                                                          \
            }                                                                                                          \
            EACH sums[j + k] = lane[k];                                                                                \
        }                                                                                                              \
        for (; j < inner; j++) {                                                                                       \
            double sum = 0;                                                                                            \
            for (int64_t i = 0; i < n; i++) sum += (double)((const TYPE *)(rows + i * stride))[j];                     \
            sums[j] = sum;                                                                                             \
        }                                                                                                              \
    }

// Of each cell the sum as a pair, or, where `lo` is NULL, rounded; with `count`, of what is not NaN, and how many there
// are.
#define SUM(NAME, T)                                                                                                   \
    INLINE void sums_##NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step,            \
                            double *hi, double *lo, int64_t *count, const int skip) {                                  \
        Lanes a;                                                                                                       \
        Totals t;                                                                                                      \
        if (inner == 1 && n >= (skip ? 2 * LANES : LANES) && n < 2 * LONG) {                                           \
            for (int64_t row = 0; row < outer; row++) {                                                                \
                int64_t here = 0;                                                                                      \
                stretch_##NAME((const T *)(rows + row * step[0]), n, 0, hi + row, NULL, &here, skip, 0);               \
                if (skip) count[row] = here;                                                                           \
            }                                                                                                          \
            if (lo) memset(lo, 0, (size_t)outer * sizeof *lo);                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        if (inner == 1 && !skip && n >= LANES) {                                                                       \
            for (int64_t row = 0; row < outer; row++)                                                                  \
                long_row_##NAME((const T *)(rows + row * step[0]), n, hi + row, lo ? lo + row : NULL);                 \
            return;                                                                                                    \
        }                                                                                                              \
        if (inner >= NARROW && !skip && n <= FEW) {                                                                    \
            for (int64_t row = 0; row < outer; row++)                                                                  \
                few_##NAME(rows + row * step[0], n, step[1], inner, hi + row * inner);                                 \
            if (lo) memset(lo, 0, (size_t)(outer * inner) * sizeof *lo);                                               \
            return;                                                                                                    \
        }                                                                                                              \
        EACH_STRIP(T, strip_of(inner, skip), {                                                                         \
            total_##NAME(x, n, stride, cells, &a, &t, skip, 0);                                                        \
            for (int64_t j = 0; j < cells; j++) t.lo[j] = t.hi[j] - t.hi[j] == 0 ? t.lo[j] : 0;                        \
            for (int64_t j = 0; j < cells; j++) hi[at + j] = lo ? t.hi[j] : t.hi[j] + t.lo[j];                         \
            if (lo) for (int64_t j = 0; j < cells; j++) lo[at + j] = t.lo[j];                                          \
            if (skip) for (int64_t j = 0; j < cells; j++) count[at + j] = t.here[j];                                   \
        })                                                                                                             \
    }                                                                                                                  \
    EACH_PROCESSOR void sum_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,        \
                                   double *hi, double *lo) {                                                           \
        sums_##NAME(x, outer, n, inner, step, hi, lo, NULL, 0);                                                        \
    }

#define PRESENT(NAME, T)                                                                                               \
    EACH_PROCESSOR void present_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,    \
                                       double *hi, double *lo, int64_t *count) {                                       \
        sums_##NAME(x, outer, n, inner, step, hi, lo, count, 1);                                                       \
    }                                                                                                                  \
    EACH_PROCESSOR void spread_present_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner,                  \
                                              const int64_t *step, double *count, double *mean, double *lost,          \
                                              double *m2) {                                                            \
        spreads_##NAME(x, outer, n, inner, step, count, mean, lost, m2, 1);                                            \
    }

// The mean and the sum of squared deviations from it, of what deviations from a pivot, and their squares, add up to.
INLINE void settle(double there, double pivot, double first, double *restrict mean, double *restrict lost,
                   double *restrict square) {
    const double slip = first / (there > 1 ? there : 1), spread = *square - first * slip;
    const double sum = pivot + slip, shadow = sum - pivot, error = (pivot - (sum - shadow)) + (slip - shadow);
    const double number = first - first == 0 && *square - *square != 0 ? *square : spread;
    *mean = sum;
    *lost = sum - sum == 0 ? error : 0;
    *square = number < 0 ? 0 : number;
}

// Of each cell its count, its mean, as a pair or, where `lost` is NULL, rounded, and the sum of squared deviations from
// it. They are measured from the mean of the first sixty-fourth of the cell's elements, or of all where those are but
// NaN: its square distance to the mean of all is at most 64 variances, and that bounds what cancellation costs.
#define SPREAD(NAME, T)                                                                                                \
    INLINE void spread_row_##NAME(const T *x, int64_t n, double *count, double *mean, double *lost, double *m2,        \
                                  const int skip) {                                                                    \
        double pivot, first, low, square = 0;                                                                          \
        int64_t here = 0, share = LANES;                                                                               \
        stretch_##NAME(x, share, 0, &pivot, NULL, &here, skip, 0);                                                     \
        if (skip && !here) stretch_##NAME(x, share = n, 0, &pivot, NULL, &here, skip, 0);                              \
        pivot /= !skip ? (double)share : (double)(here > 1 ? here : 1);                                                \
        here = 0;                                                                                                      \
        stretch_##NAME(x, n, pivot, &first, &square, &here, skip, 1);                                                  \
        *count = (double)(skip ? here : n);                                                                            \
        settle(*count, pivot, first, mean, &low, &square);                                                             \
        if (lost) *lost = low;                                                                                         \
        *m2 = square;                                                                                                  \
    }                                                                                                                  \
    INLINE void spreads_##NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step,         \
                               double *count, double *mean, double *lost, double *m2, const int skip) {                \
        Lanes a;                                                                                                       \
        Totals t;                                                                                                      \
        if (inner == 1 && n > SHORT && n < 2 * LONG) {                                                                 \
            for (int64_t row = 0; row < outer; row++)                                                                  \
                spread_row_##NAME((const T *)(rows + row * step[0]), n, count + row, mean + row,                       \
                                  lost ? lost + row : NULL, m2 + row, skip);                                           \
            return;                                                                                                    \
        }                                                                                                              \
        EACH_STRIP(T, strip_of(inner, 1), {                                                                            \
            int64_t end = (n + SHARE - 1) / SHARE;                                                                     \
            for (int64_t j = 0; j < cells; j++) a.pivot[j] = 0;                                                        \
            for (int64_t all = 0;; end = n) {                                                                          \
                total_##NAME(x, end, stride, cells, &a, &t, skip, 1);                                                  \
                if (all) break;                                                                                        \
                all = 1;                                                                                               \
                if (skip && end < n) for (int64_t j = 0; j < cells; j++) all &= t.here[j] != 0;                        \
                if (!all) continue; /* with all elements, about zero as before */                                      \
                for (int64_t j = 0; j < cells; j++)                                                                    \
                    a.pivot[j] = t.hi[j] / (!skip ? (double)end : (double)(t.here[j] > 1 ? t.here[j] : 1));            \
            }                                                                                                          \
            for (int64_t j = 0; j < cells; j++) {                                                                      \
                a.sum[j] = (double)(skip ? t.here[j] : n);                                                             \
                const double first = t.hi[j] - t.hi[j] == 0 ? t.hi[j] + t.lo[j] : t.hi[j];                             \
                settle(a.sum[j], a.pivot[j], first, t.hi + j, t.lo + j, t.square + j);                                 \
            }                                                                                                          \
            for (int64_t j = 0; j < cells; j++) count[at + j] = a.sum[j];                                              \
            for (int64_t j = 0; j < cells; j++) mean[at + j] = t.hi[j];                                                \
            if (lost) for (int64_t j = 0; j < cells; j++) lost[at + j] = t.lo[j];                                      \
            for (int64_t j = 0; j < cells; j++) m2[at + j] = t.square[j];                                              \
        })                                                                                                             \
    }                                                                                                                  \
    EACH_PROCESSOR void spread_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,     \
                                      double *count, double *mean, double *lost, double *m2) {                         \
        spreads_##NAME(x, outer, n, inner, step, count, mean, lost, m2, 0);                                            \
    }

// Of a row its elements' sums of deviations from a pivot, and of their squares.
#define DEVIATIONS(NAME, T)                                                                                            \
    EACH_PROCESSOR void deviations_##NAME(const T *x, int64_t n, const double *pivot, double *first, double *second) { \
        Lanes a;                                                                                                       \
        Totals t;                                                                                                      \
        a.pivot[0] = *pivot;                                                                                           \
        total_##NAME((const char *)x, n, sizeof(T), 1, &a, &t, 0, 1);                                                  \
        *first = t.hi[0], *second = t.square[0];                                                                       \
    }

#define FLOATS(NAME, T)                                                                                                \
    TAKE(NAME, T) ROW(NAME, T) FEW_ROWS(NAME, T) SUM(NAME, T) SPREAD(NAME, T) PRESENT(NAME, T) DEVIATIONS(NAME, T)
#define INTEGERS(NAME, T) TAKE(NAME, T) ROW(NAME, T) SPREAD(NAME, T)

// The sum of pairs (a, b) and (c, d), renormalised: its `whole` is the nearest float64, and `left` is 0 where that is
// not finite.
#define ADD_PAIRS(a, b, c, d)                                                                                          \
    const double total = (a) + (c), shadow = total - (a), error = ((a) - (total - shadow)) + ((c)-shadow);             \
    const double lost = ((total - total == 0) ? error : 0) + ((b) + (d));                                              \
    const double small = total - total == 0 ? lost : 0, whole = total + small, other = whole - total;                  \
    const double rest = (total - (whole - other)) + (small - other), left = whole - whole == 0 ? rest : 0;

// Sums of pairs, each renormalised. What is added lies so many bytes apart.
EACH_PROCESSOR void add_pairs(int64_t n, const char *hi, const char *lo, const char *more_hi, const char *more_lo,
                              const int64_t *step, double *sum, double *least) {
#define AT(from, i) (*(const double *)(from + (i)*step_##from))
    const int64_t step_hi = step[0], step_lo = step[1], step_more_hi = step[2], step_more_lo = step[3];
    const int64_t each = sizeof(double);
    if (step_hi == each && step_lo == each && step_more_hi == each && step_more_lo == each) {
        const double *a = (const double *)hi, *b = (const double *)lo;
        const double *c = (const double *)more_hi, *d = (const double *)more_lo;
        for (int64_t i = 0; i < n; i++) {
            ADD_PAIRS(a[i], b[i], c[i], d[i])
            sum[i] = whole, least[i] = left;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            ADD_PAIRS(AT(hi, i), AT(lo, i), AT(more_hi, i), AT(more_lo, i))
            sum[i] = whole, least[i] = left;
        }
    }
#undef AT
}

// The pairs of columns of n rows folded by halves in place, neighbours first: the first row has their sums.
EACH_PROCESSOR void halve_pairs(int64_t outer, int64_t n, int64_t inner, double *hi, double *lo) {
    for (int64_t o = 0; o < outer; o++, hi += n * inner, lo += n * inner)
        for (int64_t rows = n; rows > 1; rows = (rows + 1) / 2) {
            for (int64_t k = 0; k < rows / 2; k++) {
                const double *a = hi + 2 * k * inner, *b = lo + 2 * k * inner, *c = a + inner, *d = b + inner;
                for (int64_t i = 0; i < inner; i++) {
                    ADD_PAIRS(a[i], b[i], c[i], d[i])
                    hi[k * inner + i] = whole, lo[k * inner + i] = left;
                }
            }
            if (rows % 2)
                for (int64_t i = 0; i < inner; i++) {
                    hi[rows / 2 * inner + i] = hi[(rows - 1) * inner + i];
                    lo[rows / 2 * inner + i] = lo[(rows - 1) * inner + i];
                }
        }
}

// Sums, or pairs, written to states one after another, or added to these, with how many elements each is of behind it.
INLINE void put(double *restrict states, int64_t n, const double *restrict hi, const double *restrict lo,
                const int64_t *restrict counts, const int pairs, const int counted, const int added) {
    const int size = 1 + pairs + counted;
    for (int64_t i = 0; i < n; i++) {
        double *state = states + i * size;
        if (added && pairs) {
            ADD_PAIRS(state[0], state[1], hi[i], lo[i])
            state[0] = whole, state[1] = left;
        } else {
            state[0] = added ? state[0] + hi[i] : hi[i];
            if (pairs) state[1] = lo[i];
        }
        if (!counted) continue;
        int64_t count = 0;
        if (added) memcpy(&count, state + 1 + pairs, sizeof count);
        count += counts[i];
        memcpy(state + 1 + pairs, &count, sizeof count);
    }
}
EACH_PROCESSOR void put_sums(double *states, int64_t n, const double *hi, const double *lo, const int64_t *counts,
                             int64_t added) {
#define PUT(PAIRS, COUNTED)                                                                                            \
    if (added) put(states, n, hi, lo, counts, PAIRS, COUNTED, 1);                                                      \
    else put(states, n, hi, lo, counts, PAIRS, COUNTED, 0);
    if (lo && counts) {
        PUT(1, 1)
    } else if (lo) {
        PUT(1, 0)
    } else if (counts) {
        PUT(0, 1)
    } else {
        PUT(0, 0)
    }
#undef PUT
}

FLOATS(float32, float)
FLOATS(float64, double)
INTEGERS(int8, int8_t)
INTEGERS(int16, int16_t)
INTEGERS(int32, int32_t)
INTEGERS(int64, int64_t)
INTEGERS(uint8, uint8_t)
INTEGERS(uint16, uint16_t)
INTEGERS(uint32, uint32_t)
INTEGERS(uint64, uint64_t)
