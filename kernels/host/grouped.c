// Sums by labels: each element is added to the sum of its group, in float64, with NaN or without. Blocks have shape
// (outer, n, inner), one label for each of n; sums have shape (outer, groups, inner), and start from what is there.
#include "strips.h"

enum { INTERLEAVED_ROWS = 4 };  // whose elements are added in turn: an addition waits for the last one to the same group

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
                             double *sum, int64_t *here, const int skip) {                                             \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T *restrict line = (const T *)(x + i * step[1]);                                                     \
            double *restrict s = sum + labels[i] * inner;                                                              \
            for (int64_t j = 0; j < inner; j++) s[j] += skip && line[j] != line[j] ? 0 : line[j];                      \
            if (!skip) continue;                                                                                       \
            int64_t *restrict h = here + labels[i] * inner;                                                            \
            for (int64_t j = 0; j < inner; j++) h[j] += line[j] == line[j];                                            \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void groups_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,             \
                              const int64_t *labels, int64_t groups, double *sum, int64_t *here, const int skip) {     \
        int64_t row = 0;                                                                                               \
        for (; inner == 1 && row + INTERLEAVED_ROWS <= outer; row += INTERLEAVED_ROWS)                                 \
            rows_##NAME(x + row * step[0], INTERLEAVED_ROWS, step, labels, n, groups, sum + row * groups,              \
                        skip ? here + row * groups : here, skip);                                                      \
        for (; row < outer; row++) {                                                                                   \
            const int64_t at = row * groups * inner;                                                                   \
            int64_t *mine = skip ? here + at : here;                                                                   \
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
                                               int64_t *here) {                                                        \
        groups_##NAME(x, outer, n, inner, step, labels, groups, sum, here, 1);                                         \
    }

GROUPED(float32, float)
GROUPED(float64, double)
