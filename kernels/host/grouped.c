// Sums by labels: each element is added to the sum of its group, in float64, with NaN or without. Blocks have shape
// (outer, n, inner), one label for each of n; sums have shape (outer, groups, inner), and start from what is there. So do
// counts: of rows (inner is 1) of what is no NaN, else of NaN.
#include "masked.h"

enum {
    INTERLEAVED_ROWS = 4, // whose elements are added in turn: an addition waits for the last one to the same group
    PART = 256,           // elements of a line, of which NaN are counted if there are any
};

#define GROUPED(NAME, T)                                                                                               \
    INLINE void rows_##NAME(const char *x, const int rows, const int64_t *step, const int64_t *labels, int64_t n,      \
                            int64_t groups, double *restrict sum, int64_t *restrict here, const int skip) {            \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int r = 0; r < rows; r++) {                                                                           \
                const double v = *(const T *)(x + r * step[0] + i * step[1]);                                          \
                const int64_t at = r * groups + labels[i];                                                             \
                sum[at] += skip && v != v ? 0 : v;                                                                     \
                if (skip) here[at] += v == v;                                                                          \
            }                                                                                                          \
    }                                                                                                                  \
    INLINE void lines_##NAME(const char *x, const int64_t *step, const int64_t *labels, int64_t n, int64_t inner,      \
                             double *sum, int64_t *gaps, const int skip) {                                             \
        const int64_t part = sizeof(T) > 4 ? inner : PART; /* of float64, to look first takes as long as to count */   \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int64_t start = 0; start < inner; start += part) {                                                    \
                const T *restrict line = (const T *)(x + i * step[1]) + start;                                         \
                double *restrict s = sum + labels[i] * inner + start;                                                  \
                const int64_t cells = least(part, inner - start);                                                      \
                int64_t any = sizeof(T) > 4;                                                                           \
                for (int64_t j = 0; j < cells; j++) {                                                                  \
                    const int64_t there = -(int64_t)(line[j] == line[j]);                                              \
                    s[j] += !skip ? line[j] : NARROW(*line) ? MASKED(line[j], there) : there ? line[j] : 0;            \
                    if (skip && NARROW(*line)) any |= ~there;                                                          \
                }                                                                                                      \
                if (!skip || !any) continue;                                                                           \
                int64_t *restrict g = gaps + labels[i] * inner + start;                                                \
                for (int64_t j = 0; j < cells; j++) g[j] += line[j] != line[j];                                        \
            }                                                                                                          \
    }                                                                                                                  \
    INLINE void groups_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,             \
                              const int64_t *labels, int64_t groups, double *sum, int64_t *counts, const int skip) {   \
        int64_t row = 0;                                                                                               \
        for (; inner == 1 && row + INTERLEAVED_ROWS <= outer; row += INTERLEAVED_ROWS)                                 \
            rows_##NAME(x + row * step[0], INTERLEAVED_ROWS, step, labels, n, groups, sum + row * groups,              \
                        skip ? counts + row * groups : counts, skip);                                                  \
        for (; row < outer; row++) {                                                                                   \
            const int64_t at = row * groups * inner;                                                                   \
            int64_t *mine = skip ? counts + at : counts;                                                               \
            if (inner == 1) rows_##NAME(x + row * step[0], 1, step, labels, n, groups, sum + at, mine, skip);          \
            else lines_##NAME(x + row * step[0], step, labels, n, inner, sum + at, mine, skip);                        \
        }                                                                                                              \
    }                                                                                                                  \
    EACH_PROCESSOR void grouped_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,    \
                                       const int64_t *labels, int64_t groups, double *sum) {                           \
        groups_##NAME(x, outer, n, inner, step, labels, groups, sum, 0, 0);                                            \
    }                                                                                                                  \
    EACH_PROCESSOR void grouped_present_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner,                 \
                                               const int64_t *step, const int64_t *labels, int64_t groups, double *sum,\
                                               int64_t *counts) {                                                      \
        groups_##NAME(x, outer, n, inner, step, labels, groups, sum, counts, 1);                                       \
    }

GROUPED(float32, float)
GROUPED(float64, double)
