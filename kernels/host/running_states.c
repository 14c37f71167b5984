// Running states of lines, of which results are made afterwards: the spread of the elements so far, and the position of the least or
// greatest. Lines are taken a few or a strip at a time, element by element, so that vectors hold elements of several.
#include <math.h>

#include "each_processor.h"

enum { CELLS = 256, SOME = 4 };  // cells whose states stay in the first level of cache; rows that are taken together

// Runs a body for some cells at a time of a block of shape (outer, n, inner), the first of them `cell`. `from` is where their first
// elements are, `between` the bytes from one cell's to the next one's; their first results have number `at`, `next` and `apart` lead
// to the next element's and the next cell's. `step` holds the bytes from one row and from one element to the next.
#define EACH_CELLS(T, ...)                                                                                             \
    if (inner == 1) {                                                                                                  \
        const int64_t between = step[0], next = 1, apart = n;                                                          \
        int64_t cell = 0;                                                                                              \
        for (; cell + SOME <= outer; cell += SOME) {                                                                   \
            const int cells = SOME;                                                                                    \
            const char *from = x + cell * step[0];                                                                     \
            const int64_t at = cell * n;                                                                               \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        for (; cell < outer; cell++) {                                                                                 \
            const int cells = 1;                                                                                       \
            const char *from = x + cell * step[0];                                                                     \
            const int64_t at = cell * n;                                                                               \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    } else {                                                                                                           \
        const int64_t between = sizeof(T), next = inner, apart = 1;                                                    \
        for (int64_t row = 0; row < outer; row++)                                                                      \
            for (int64_t j = 0; j < inner; j += CELLS) {                                                               \
                const int cells = inner - j < CELLS ? (int)(inner - j) : CELLS;                                        \
                const char *from = x + row * step[0] + j * (int64_t)sizeof(T);                                         \
                const int64_t cell = row * inner + j, at = row * n * inner + j;                                        \
                __VA_ARGS__;                                                                                           \
            }                                                                                                          \
    }

// What rounding took from a + b (Knuth 1969); nothing where the sum is not finite.
static inline double error_of(double a, double b, double sum) {
    const double shadow = sum - a, error = (a - (sum - shadow)) + (b - shadow);
    return error == error ? error : 0;
}

// Counts, means and sums of squared deviations, one element after another (Welford 1962). Means are pairs, and what is lost of sums
// of squares is added up beside them, so that errors do not grow with the line.
#define MOMENTS(NAME, SKIP)                                                                                            \
    static inline __attribute__((always_inline)) void NAME##_cells(                                                    \
        const char *from, int64_t n, int64_t step, int64_t between, int cells, int64_t at, int64_t next, int64_t apart, \
        double *restrict count, double *restrict mean, double *restrict rest, double *restrict squares,                \
        double *restrict counts, double *restrict means, double *restrict sums) {                                      \
        double lost[CELLS];                                                                                            \
        for (int j = 0; j < cells; j++) lost[j] = 0;                                                                   \
        for (int64_t i = 0; i < n; i++, from += step, at += next)                                                      \
            for (int j = 0; j < cells; j++) {                                                                          \
                const double v = *(const double *)(from + j * between), share = 1 / (count[j] + 1);                    \
                const double away = (v - mean[j]) - rest[j], slip = away * share, moved = mean[j] + slip;              \
                const double square = away * (count[j] * share) * away + (v - v), sum = squares[j] + square;           \
                const double lost_now = error_of(squares[j], square, sum), rest_now = error_of(mean[j], slip, moved);  \
                const int there = !SKIP | (v == v);                                                                    \
                lost[j] += there ? lost_now : 0;                                                                       \
                rest[j] += there ? rest_now : 0;                                                                       \
                squares[j] = there ? sum : squares[j];                                                                 \
                mean[j] = there ? moved : mean[j];                                                                     \
                count[j] += there ? 1 : 0;                                                                             \
                counts[at + j * apart] = count[j];                                                                     \
                means[at + j * apart] = mean[j] + rest[j];                                                             \
                sums[at + j * apart] = squares[j] + lost[j];                                                           \
            }                                                                                                          \
        for (int j = 0; j < cells; j++) {                                                                              \
            const double whole = mean[j] + rest[j];                                                                    \
            rest[j] = error_of(mean[j], rest[j], whole);                                                               \
            mean[j] = whole;                                                                                           \
            squares[j] += lost[j];                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    EACH_PROCESSOR void NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,              \
                             double *count, double *mean, double *rest, double *squares, double *counts,               \
                             double *means, double *sums) {                                                            \
        EACH_CELLS(double, NAME##_cells(from, n, step[1], between, cells, at, next, apart, count + cell, mean + cell,  \
                                        rest + cell, squares + cell, counts, means, sums))                             \
    }

MOMENTS(running_moments, 0)
MOMENTS(running_moments_present, 1)

// The least or greatest so far, and its position, -1 for none: of equals the lower position. The first NaN wins; with SKIP none
// counts.
#define POSITIONS(NAME, T, BETTER, SKIP)                                                                               \
    static inline __attribute__((always_inline)) void NAME##_cells(                                                    \
        const char *from, int64_t n, int64_t step, int64_t between, int cells, int64_t at, int64_t next, int64_t apart, \
        const int64_t *restrict index, T *restrict best, int64_t *restrict place, T *restrict values,                  \
        int64_t *restrict places) {                                                                                    \
        for (int64_t i = 0; i < n; i++, from += step, at += next)                                                      \
            for (int j = 0; j < cells; j++) {                                                                          \
                const T v = *(const T *)(from + j * between), b = best[j];                                             \
                const int v_nan = v != v, b_nan = b != b, lower = index[i] < place[j];                                 \
                const int wins = ((v BETTER b) & !b_nan) | (v_nan & !b_nan) | (((v == b) | (v_nan & b_nan)) & lower);  \
                const int takes = !(SKIP & v_nan) & ((place[j] < 0) | wins);                                           \
                best[j] = takes ? v : b;                                                                               \
                place[j] = takes ? index[i] : place[j];                                                                \
                values[at + j * apart] = best[j];                                                                      \
                places[at + j * apart] = place[j];                                                                     \
            }                                                                                                          \
    }                                                                                                                  \
    WITH_AVX2 void NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,                   \
                        const int64_t *index, T *best, int64_t *place, T *values, int64_t *places) {                   \
        EACH_CELLS(T, NAME##_cells(from, n, step[1], between, cells, at, next, apart, index, best + cell,              \
                                   place + cell, values, places))                                                      \
    }
#define ARGUMENTS(NAME, T)                                                                                             \
    POSITIONS(running_argmin_##NAME, T, <, 0)                                                                          \
    POSITIONS(running_argmax_##NAME, T, >, 0)
#define ARGUMENTS_OF_FLOATS(NAME, T)                                                                                   \
    ARGUMENTS(NAME, T)                                                                                                 \
    POSITIONS(running_nanargmin_##NAME, T, <, 1)                                                                       \
    POSITIONS(running_nanargmax_##NAME, T, >, 1)

ARGUMENTS(int8, int8_t)
ARGUMENTS(int16, int16_t)
ARGUMENTS(int32, int32_t)
ARGUMENTS(int64, int64_t)
ARGUMENTS(uint8, uint8_t)
ARGUMENTS(uint16, uint16_t)
ARGUMENTS(uint32, uint32_t)
ARGUMENTS(uint64, uint64_t)
ARGUMENTS_OF_FLOATS(float32, float)
ARGUMENTS_OF_FLOATS(float64, double)
