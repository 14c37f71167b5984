// Several reductions of rows from one read: each loop finds a stretch in the processor's own cache, where the one before
// it has left it.
#include <stddef.h>
#include "each_processor.h"

enum {
    STRETCH = 1 << 14,  // elements that all loops take before the next ones are read: 64 or 128 KiB of 2 MiB of L2
    SUM = 1,
    DEVIATIONS = 2,
    LOW = 4,
    HIGH = 8,
};

void sum_float32(const char *, int64_t outer, int64_t n, int64_t inner, const int64_t *step, double *, double *);
void sum_float64(const char *, int64_t outer, int64_t n, int64_t inner, const int64_t *step, double *, double *);
void deviations_float32(const float *row, int64_t n, const double *pivot, double *first, double *second);
void deviations_float64(const double *row, int64_t n, const double *pivot, double *first, double *second);
void argmin_float32(const char *rows, int64_t outer, int64_t stride, int64_t n, int64_t *out);
void argmax_float32(const char *rows, int64_t outer, int64_t stride, int64_t n, int64_t *out);
void argmin_float64(const char *rows, int64_t outer, int64_t stride, int64_t n, int64_t *out);
void argmax_float64(const char *rows, int64_t outer, int64_t stride, int64_t n, int64_t *out);

// A stretch's extremum takes the place of the best before it where it is better, or the first NaN.
#define TAKE(FIND, BETTER)                                                                                             \
    {                                                                                                                  \
        int64_t here;                                                                                                  \
        FIND((const char *)x, 1, 0, some, &here);                                                                      \
        if (start == 0 || (best == best && (x[here] BETTER best || x[here] != x[here]))) best = x[here], at = start + here; \
    }

// Of each row of n neighbours, at least one: what `what` asks for. `rows` are `stride` bytes apart.
#define ROW_SUMMARY(NAME, T)                                                                                           \
    void row_summary_##NAME(const char *rows, int64_t outer, int64_t stride, int64_t n, const int64_t *what,           \
                            const double *pivot, double *sum, double *first, double *second, T *low, int64_t *low_at,  \
                            T *high, int64_t *high_at) {                                                               \
        for (int64_t row = 0; row < outer; row++) {                                                                    \
            sum[row] = first[row] = second[row] = 0;                                                                   \
            for (int64_t start = 0; start < n; start += STRETCH) {                                                     \
                const int64_t some = n - start < STRETCH ? n - start : STRETCH;                                        \
                const T *x = (const T *)(rows + row * stride) + start;                                                 \
                if (*what & SUM) {                                                                                     \
                    const int64_t step[2] = {0, sizeof(T)};                                                            \
                    double total;                                                                                      \
                    sum_##NAME((const char *)x, 1, some, 1, step, &total, NULL);                                       \
                    sum[row] += total;                                                                                 \
                }                                                                                                      \
                if (*what & DEVIATIONS) {                                                                              \
                    double once, twice;                                                                                \
                    deviations_##NAME(x, some, pivot + row, &once, &twice);                                            \
                    first[row] += once;                                                                                \
                    second[row] += twice;                                                                              \
                }                                                                                                      \
                if (*what & LOW) {                                                                                     \
                    T best = low[row];                                                                                 \
                    int64_t at = low_at[row];                                                                          \
                    TAKE(argmin_##NAME, <)                                                                             \
                    low[row] = best, low_at[row] = at;                                                                 \
                }                                                                                                      \
                if (*what & HIGH) {                                                                                    \
                    T best = high[row];                                                                                \
                    int64_t at = high_at[row];                                                                         \
                    TAKE(argmax_##NAME, >)                                                                             \
                    high[row] = best, high_at[row] = at;                                                               \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

ROW_SUMMARY(float32, float)
ROW_SUMMARY(float64, double)
