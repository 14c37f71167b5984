// Host loops that NumPy has no fast form of: float32 summed in float64, squares of deviations summed without an array of
// them, and where an extremum stands along a row. They run at the speed of memory or near it (Xeon 2.6 GHz, chunks of
// 64 MiB: a float32 sum takes 4.6 ms, NumPy's cast alone 5.4; argmax 4.5 and 6.4). Lanes are the same on every processor,
// and so are the bits of a sum.
#include "each_processor.h"

enum {
    LANES = 64,        // sums of a row that go side by side
    WIDTH = 32,        // of deviations that do,
    STRETCH = 4096,    // for so many elements: then they are added up, so that the error stays small
    LANE_BYTES = 256,  // of extrema that do: twice or half as many take up to half as long again
    PIECE = 1024,      // elements of a row whose extremum is found before the next ones are looked at
};

// out[row] = the sum of n neighbours; rows are `stride` bytes apart.
EACH_PROCESSOR void sum_rows(const char *rows, int64_t outer, int64_t stride, int64_t n, double *out) {
    for (int64_t row = 0; row < outer; row++) {
        const float *x = (const float *)(rows + row * stride);
        double lane[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (int j = 0; j < LANES; j++) lane[j] += x[i + j];
        for (int j = 0; i + j < n; j++) lane[j] += x[i + j];
        for (int half = LANES / 2; half; half /= 2)
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        out[row] = lane[0];
    }
}

// out[column] = the sum of n elements `stride` bytes apart; columns are neighbours, few enough for their sums to stay in
// cache while rows pass.
EACH_PROCESSOR void sum_columns(const char *rows, int64_t n, int64_t stride, int64_t inner, double *restrict out) {
    for (int64_t j = 0; j < inner; j++) out[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *restrict x = (const float *)(rows + i * stride);
        for (int64_t j = 0; j < inner; j++) out[j] += x[j];
    }
}

// The sums of n elements' deviations from a pivot and of their squares, in rows and in columns as above.
#define DEVIATIONS(NAME, T)                                                                                            \
    EACH_PROCESSOR void NAME##_rows(const char *rows, int64_t outer, int64_t stride, int64_t n, const double *pivot,   \
                                    double *first, double *second) {                                                   \
        for (int64_t row = 0; row < outer; row++) {                                                                    \
            const T *x = (const T *)(rows + row * stride);                                                             \
            const double p = pivot[row];                                                                               \
            first[row] = second[row] = 0;                                                                              \
            for (int64_t i = 0; i < n;) {                                                                              \
                const int64_t end = n - i < STRETCH ? n : i + STRETCH;                                                 \
                double lane[WIDTH] = {0}, square[WIDTH] = {0};                                                         \
                for (; i + WIDTH <= end; i += WIDTH)                                                                   \
                    for (int j = 0; j < WIDTH; j++) {                                                                  \
                        const double away = x[i + j] - p;                                                              \
                        lane[j] += away;                                                                               \
                        square[j] += away * away;                                                                      \
                    }                                                                                                  \
                for (; i < end; i++) {                                                                                 \
                    const double away = x[i] - p;                                                                      \
                    lane[0] += away;                                                                                   \
                    square[0] += away * away;                                                                          \
                }                                                                                                      \
                for (int half = WIDTH / 2; half; half /= 2)                                                            \
                    for (int j = 0; j < half; j++) {                                                                   \
                        lane[j] += lane[j + half];                                                                     \
                        square[j] += square[j + half];                                                                 \
                    }                                                                                                  \
                first[row] += lane[0];                                                                                 \
                second[row] += square[0];                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    EACH_PROCESSOR void NAME##_columns(const char *rows, int64_t n, int64_t stride, int64_t inner,                     \
                                       const double *restrict pivot, double *restrict first,                           \
                                       double *restrict second) {                                                      \
        for (int64_t j = 0; j < inner; j++) first[j] = second[j] = 0;                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T *restrict x = (const T *)(rows + i * stride);                                                      \
            for (int64_t j = 0; j < inner; j++) {                                                                      \
                const double away = x[j] - pivot[j];                                                                   \
                first[j] += away;                                                                                      \
                second[j] += away * away;                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }

DEVIATIONS(deviations_float32, float)
DEVIATIONS(deviations_float64, double)

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
