// Sums of floats that leave NaN out, in one read and without an array of what is there: a chunk with gaps takes hardly
// longer than one without. Each step is a loop over WIDTH elements of its own, which compilers turn into vectors; of
// one loop they make branches.
#include "each_processor.h"

enum {
    WIDTH = 32,      // elements of a row that are added side by side,
    STRETCH = 4096,  // so many of them: then sums are added up,
    PLAIN = 512,     // and those of columns after so many rows: as pairs, so that rounding loses nothing
};

#define EACH for (int k = 0; k < WIDTH; k++)

// (hi, lo) += x, hi the nearest float64 (Knuth 1969). Where hi is not finite, lo means nothing.
#define ADD_TO_PAIR(hi, lo, x)                                                                                         \
    {                                                                                                                  \
        const double total = hi + (x), shadow = total - hi;                                                            \
        lo += (hi - (total - shadow)) + ((x)-shadow);                                                                  \
        hi = total;                                                                                                    \
    }

#define FOLD(lane)                                                                                                     \
    for (int half = WIDTH / 2; half; half /= 2)                                                                        \
        for (int k = 0; k < half; k++) lane[k] += lane[k + half];

// The sum of what is not NaN as a pair, and how many there are: of n neighbours a row, rows `stride` bytes apart; or of
// n elements `stride` bytes apart, columns being neighbours. `part` is room for as many sums as there are columns.
#define PRESENT(NAME, T)                                                                                               \
    EACH_PROCESSOR void present_##NAME##_rows(const char *rows, int64_t outer, int64_t stride, int64_t n, double *hi,  \
                                              double *lo, int64_t *count) {                                            \
        for (int64_t row = 0; row < outer; row++) {                                                                    \
            const T *x = (const T *)(rows + row * stride);                                                             \
            double sum = 0, lost = 0;                                                                                  \
            int64_t there = 0;                                                                                         \
            for (int64_t i = 0; i < n;) {                                                                              \
                const int64_t end = n - i < STRETCH ? n : i + STRETCH;                                                 \
                double lane[WIDTH] = {0};                                                                              \
                int32_t here[WIDTH] = {0};                                                                             \
                for (; i + WIDTH <= end; i += WIDTH) {                                                                 \
                    T kept[WIDTH];                                                                                     \
                    EACH kept[k] = x[i + k] == x[i + k] ? x[i + k] : 0;                                                \
                    EACH lane[k] += kept[k];                                                                           \
                    EACH here[k] += x[i + k] == x[i + k];                                                              \
                }                                                                                                      \
                for (; i < end; i++) {                                                                                 \
                    lane[0] += x[i] == x[i] ? x[i] : 0;                                                                \
                    here[0] += x[i] == x[i];                                                                           \
                }                                                                                                      \
                FOLD(lane)                                                                                             \
                FOLD(here)                                                                                             \
                ADD_TO_PAIR(sum, lost, lane[0])                                                                        \
                there += here[0];                                                                                      \
            }                                                                                                          \
            hi[row] = sum, lo[row] = lost, count[row] = there;                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    EACH_PROCESSOR void present_##NAME##_columns(const char *rows, int64_t n, int64_t stride, int64_t inner,           \
                                                 double *restrict part, double *restrict hi, double *restrict lo,      \
                                                 int64_t *restrict count) {                                            \
        for (int64_t j = 0; j < inner; j++) hi[j] = lo[j] = part[j] = count[j] = 0;                                    \
        for (int64_t i = 0; i < n;) {                                                                                  \
            const T *restrict x = (const T *)(rows + i * stride);                                                      \
            int64_t j = 0;                                                                                             \
            for (; j + WIDTH <= inner; j += WIDTH) {                                                                   \
                T kept[WIDTH];                                                                                         \
                EACH kept[k] = x[j + k] == x[j + k] ? x[j + k] : 0;                                                    \
                EACH part[j + k] += kept[k];                                                                           \
                EACH count[j + k] += x[j + k] == x[j + k];                                                             \
            }                                                                                                          \
            for (; j < inner; j++) {                                                                                   \
                part[j] += x[j] == x[j] ? x[j] : 0;                                                                    \
                count[j] += x[j] == x[j];                                                                              \
            }                                                                                                          \
            if (++i % PLAIN && i < n) continue;                                                                        \
            for (j = 0; j < inner; j++) ADD_TO_PAIR(hi[j], lo[j], part[j])                                             \
            for (j = 0; j < inner; j++) part[j] = 0;                                                                   \
        }                                                                                                              \
    }

PRESENT(float32, float)
PRESENT(float64, double)

// The sums of deviations from a pivot, and of their squares, of what is not NaN, and how many there are. The pivot may be
// infinite, so that a deviation is NaN though the element is not.
#define DEVIATIONS(NAME, T)                                                                                            \
    EACH_PROCESSOR void present_deviations_##NAME##_rows(const char *rows, int64_t outer, int64_t stride, int64_t n,   \
                                                         const double *pivot, double *first, double *second,          \
                                                         int64_t *count) {                                             \
        for (int64_t row = 0; row < outer; row++) {                                                                    \
            const T *x = (const T *)(rows + row * stride);                                                             \
            const double p = pivot[row];                                                                               \
            first[row] = second[row] = count[row] = 0;                                                                 \
            for (int64_t i = 0; i < n;) {                                                                              \
                const int64_t end = n - i < STRETCH ? n : i + STRETCH;                                                 \
                double lane[WIDTH] = {0}, square[WIDTH] = {0};                                                         \
                int32_t here[WIDTH] = {0};                                                                             \
                for (; i + WIDTH <= end; i += WIDTH) {                                                                 \
                    double wide[WIDTH], away[WIDTH];                                                                   \
                    EACH wide[k] = x[i + k];                                                                           \
                    EACH away[k] = wide[k] - p;                                                                        \
                    EACH away[k] = wide[k] == wide[k] ? away[k] : 0;                                                   \
                    EACH lane[k] += away[k];                                                                           \
                    EACH square[k] += away[k] * away[k];                                                               \
                    EACH here[k] += x[i + k] == x[i + k];                                                              \
                }                                                                                                      \
                for (; i < end; i++) {                                                                                 \
                    const double away = x[i] == x[i] ? x[i] - p : 0;                                                   \
                    lane[0] += away;                                                                                   \
                    square[0] += away * away;                                                                          \
                    here[0] += x[i] == x[i];                                                                           \
                }                                                                                                      \
                FOLD(lane)                                                                                             \
                FOLD(square)                                                                                           \
                FOLD(here)                                                                                             \
                first[row] += lane[0];                                                                                 \
                second[row] += square[0];                                                                              \
                count[row] += here[0];                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    EACH_PROCESSOR void present_deviations_##NAME##_columns(                                                           \
        const char *rows, int64_t n, int64_t stride, int64_t inner, const double *restrict pivot,                      \
        double *restrict first, double *restrict second, int64_t *restrict count) {                                    \
        for (int64_t j = 0; j < inner; j++) first[j] = second[j] = count[j] = 0;                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T *restrict x = (const T *)(rows + i * stride);                                                      \
            int64_t j = 0;                                                                                             \
            for (; j + WIDTH <= inner; j += WIDTH) {                                                                   \
                double wide[WIDTH], away[WIDTH];                                                                       \
                EACH wide[k] = x[j + k];                                                                               \
                EACH away[k] = wide[k] - pivot[j + k];                                                                 \
                EACH away[k] = wide[k] == wide[k] ? away[k] : 0;                                                       \
                EACH first[j + k] += away[k];                                                                          \
                EACH second[j + k] += away[k] * away[k];                                                               \
                EACH count[j + k] += x[j + k] == x[j + k];                                                             \
            }                                                                                                          \
            for (; j < inner; j++) {                                                                                   \
                const double away = x[j] == x[j] ? x[j] - pivot[j] : 0;                                                \
                first[j] += away;                                                                                      \
                second[j] += away * away;                                                                              \
                count[j] += x[j] == x[j];                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }

DEVIATIONS(float32, float)
DEVIATIONS(float64, double)
