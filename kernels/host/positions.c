// Where an extremum stands along a row, for what is found beside it of one read (NumPy finds it alone as fast), and extrema
// and positions of columns, which stay in cache while rows pass.
#include "strips.h"

enum {
    LANE_BYTES = 256,  // of extrema that do: twice or half as many take up to half as long again
    CELLS = 4096,      // of a strip of columns: longer parts of rows come faster from memory,
    PART = 256,        // and so do those of the next row that are asked for while so many are compared
    ROUND = 4,         // rows that are compared with what is loaded once
    PIECE = 4096,      // elements of a row whose extremum is found before the next ones are looked at
};

// True where a goes before b: it is better, or NaN, which nothing that is compared with it replaces.
#define WINS(a, BETTER, b) (((a)BETTER(b)) | ((a) != (a)))

// out[row] = the position of the first of the best among n neighbours, at least one, or of the first NaN.
#define POSITIONS(NAME, T, BETTER)                                                                                     \
    EACH_PROCESSOR void NAME(const char *rows, int64_t outer, int64_t stride, int64_t n, int64_t *out) {               \
        enum { WIDE = LANE_BYTES / sizeof(T) };                                                                        \
        for (int64_t row = 0; row < outer; row++) {                                                                    \
            const T *x = (const T *)(rows + row * stride);                                                             \
            T best = x[0];                                                                                             \
            int64_t at = 0; /* where the piece begins that holds the best */                                           \
            for (int64_t start = 0; start < n && best == best; start += PIECE) {                                       \
                const int64_t end = n - start < PIECE ? n : start + PIECE;                                             \
                T lane[WIDE];                                                                                          \
                for (int j = 0; j < WIDE; j++) lane[j] = best;                                                         \
                int64_t i = start;                                                                                     \
                for (; i + WIDE <= end; i += WIDE)                                                                     \
                    for (int j = 0; j < WIDE; j++) lane[j] = WINS(x[i + j], BETTER, lane[j]) ? x[i + j] : lane[j];     \
                if (i < end && n >= WIDE) { /* the last of the row, of which some were looked at before */             \
                    const T *last = x + end - WIDE;                                                                    \
                    for (int j = 0; j < WIDE; j++) lane[j] = WINS(last[j], BETTER, lane[j]) ? last[j] : lane[j];       \
                    i = end;                                                                                           \
                }                                                                                                      \
                for (; i < end; i++) lane[0] = WINS(x[i], BETTER, lane[0]) ? x[i] : lane[0];                           \
                for (int half = WIDE / 2; half; half /= 2)                                                             \
                    for (int j = 0; j < half; j++)                                                                     \
                        lane[j] = WINS(lane[j + half], BETTER, lane[j]) ? lane[j + half] : lane[j];                    \
                if (WINS(lane[0], BETTER, best)) at = start;                                                           \
                best = lane[0];                                                                                        \
            }                                                                                                          \
            if (best != best) {                                                                                        \
                while (x[at] == x[at]) at++;                                                                           \
            } else {                                                                                                   \
                for (; at + WIDE <= n; at += WIDE) {                                                                   \
                    int any = 0;                                                                                       \
                    for (int j = 0; j < WIDE; j++) any |= x[at + j] == best;                                           \
                    if (any) break;                                                                                    \
                }                                                                                                      \
                while (x[at] != best) at++;                                                                            \
            }                                                                                                          \
            out[row] = at;                                                                                             \
        }                                                                                                              \
    }

POSITIONS(argmax_float32, float, >)
POSITIONS(argmin_float32, float, <)
POSITIONS(argmax_float64, double, >)
POSITIONS(argmin_float64, double, <)

// best, at = the first of the best of each of the cells and its row, or the first NaN. With SKIP no NaN but where there is
// nothing else, at -1: what was found stays where it compares as no worse, or with NaN.
#define COLUMNS(NAME, T, AT, COMPARED, SKIP)                                                                           \
    EACH_PROCESSOR void NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step, T *best,  \
                             int64_t *where) {                                                                         \
        EACH_STRIP(T, CELLS, {                                                                                         \
            T b[CELLS];                                                                                                \
            AT row_of[CELLS]; /* of floats as wide as an element, for both are chosen at a time */                     \
            for (int64_t j = 0; j < cells; j++) {                                                                      \
                b[j] = ((const T *)x)[j];                                                                              \
                row_of[j] = SKIP && b[j] != b[j] ? -1 : 0;                                                             \
            }                                                                                                          \
            for (int64_t i = 1; i < n; i++) {                                                                          \
                const T *restrict v = (const T *)(x + i * stride);                                                     \
                const AT now = (AT)i;                                                                                  \
                for (int64_t start = 0; start < cells; start += PART) {                                                \
                    const int64_t end = least(start + PART, cells);                                                    \
                    ASK_FOR(T, (const char *)v + stride, start, end)                                                   \
                    for (int64_t j = start; j < end; j++) {                                                            \
                        const int wins = SKIP ? !((b[j] COMPARED v[j]) | (v[j] != v[j]))                               \
                                              : (v[j] COMPARED b[j]) | (v[j] != v[j] && b[j] == b[j]);                 \
                        b[j] = wins ? v[j] : b[j];                                                                     \
                        row_of[j] = wins ? now : row_of[j];                                                            \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t j = 0; j < cells; j++) best[at + j] = b[j];                                                   \
            for (int64_t j = 0; j < cells; j++) where[at + j] = row_of[j];                                             \
        })                                                                                                             \
    }

#define EACH_COLUMNS(NAME, T, AT)                                                                                      \
    COLUMNS(argmin_columns_##NAME, T, AT, <, 0)                                                                        \
    COLUMNS(argmax_columns_##NAME, T, AT, >, 0)
#define EACH_WITH_GAPS(NAME, T, AT)                                                                                    \
    EACH_COLUMNS(NAME, T, AT)                                                                                          \
    COLUMNS(nanargmin_columns_##NAME, T, AT, <=, 1)                                                                    \
    COLUMNS(nanargmax_columns_##NAME, T, AT, >=, 1)

EACH_WITH_GAPS(float32, float, int32_t)
EACH_WITH_GAPS(float64, double, int64_t)
EACH_COLUMNS(int8, int8_t, int32_t)
EACH_COLUMNS(uint8, uint8_t, int32_t)
EACH_COLUMNS(int16, int16_t, int32_t)
EACH_COLUMNS(uint16, uint16_t, int32_t)
EACH_COLUMNS(int32, int32_t, int32_t)
EACH_COLUMNS(uint32, uint32_t, int32_t)
EACH_COLUMNS(int64, int64_t, int64_t)
EACH_COLUMNS(uint64, uint64_t, int64_t)

// What of two stays: the last of equal ones, as in NumPy, where zeros differ by their signs; and NaN, or with the second
// what is no NaN.
#define OR_NAN(found, NOT_WORSE, v) ((v)NOT_WORSE(found)) | ((v) != (v)) ? (v) : (found)
#define NO_NAN(found, BETTER, v) ((found)BETTER(v)) | ((v) != (v)) ? (found) : (v)

// best = of each of the cells what stays.
#define EXTREMA(NAME, T, STAYS, COMPARED)                                                                              \
    INLINE void take_##NAME(const char *rows, const int rounds, int64_t stride, int64_t cells, T *restrict b) {        \
        for (int64_t start = 0; start < cells; start += PART) {                                                        \
            const int64_t end = least(start + PART, cells);                                                            \
            for (int i = 0; i < rounds; i++) ASK_FOR(T, rows + (rounds + i) * stride, start, end)                      \
            for (int64_t j = start; j < end; j++) {                                                                    \
                T found = b[j];                                                                                        \
                _Pragma("GCC unroll 4") for (int i = 0; i < rounds; i++) {                                             \
                    const T v = ((const T *)(rows + i * stride))[j];                                                   \
                    found = STAYS(found, COMPARED, v);                                                                 \
                }                                                                                                      \
                b[j] = found;                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    EACH_PROCESSOR void NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step, T *best) {\
        EACH_STRIP(T, CELLS, {                                                                                         \
            int64_t i = 1;                                                                                             \
            for (int64_t j = 0; j < cells; j++) best[at + j] = ((const T *)x)[j];                                      \
            for (; i + ROUND <= n; i += ROUND) take_##NAME(x + i * stride, ROUND, stride, cells, best + at);           \
            for (; i < n; i++) take_##NAME(x + i * stride, 1, stride, cells, best + at);                               \
        })                                                                                                             \
    }

#define EACH_EXTREMA(NAME, T)                                                                                          \
    EXTREMA(minimum_columns_##NAME, T, OR_NAN, <=)                                                                     \
    EXTREMA(maximum_columns_##NAME, T, OR_NAN, >=)                                                                     \
    EXTREMA(fmin_columns_##NAME, T, NO_NAN, <)                                                                         \
    EXTREMA(fmax_columns_##NAME, T, NO_NAN, >)

EACH_EXTREMA(float32, float)
EACH_EXTREMA(float64, double)
