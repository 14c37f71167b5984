// Counts of elements in bins of one width. As in numpy.histogram a bin is guessed by its width and put right by the
// edges on either side of it, so that counts are NumPy's. What lies in no bin is counted behind the last one.
#include "each_processor.h"

enum {
    SOME = 512, // elements whose bins are guessed by vectors before they are counted one by one
    TABLES = 4, // of counts, taken in turn: a count waits for the last one of the same bin
};

#define HISTOGRAM(NAME, T)                                                                                             \
    EACH_PROCESSOR void histogram_##NAME(const T *restrict x, int64_t n, const T *restrict edges, int64_t bins,        \
                                         int64_t *restrict counts) {                                                   \
        const T low = edges[0], high = edges[bins], scale = (T)bins / (high - low), last = (T)(bins - 1);              \
        T clipped[SOME];                                                                                               \
        int32_t guess[SOME], outside[SOME];                                                                            \
        int64_t *tables[TABLES];                                                                                       \
        for (int t = 0; t < TABLES; t++)                                                                               \
            tables[t] = counts + t * (bins + 1);                                                                       \
        for (int64_t begin = 0; begin < n; begin += SOME) {                                                            \
            const int some = (int)(n - begin < SOME ? n - begin : SOME);                                               \
            for (int k = 0; k < some; k++) {                                                                           \
                const T v = x[begin + k], least = v >= low ? v : low, inside = least <= high ? least : high;           \
                const T at = (inside - low) * scale;                                                                   \
                clipped[k] = inside;                                                                                   \
                outside[k] = v != inside;                                                                              \
                guess[k] = (int32_t)(at < last ? at : last);                                                           \
            }                                                                                                          \
            int beyond = 0;                                                                                            \
            for (int k = 0; k < some; k++)                                                                             \
                beyond += outside[k];                                                                                  \
            if (beyond == some) { /* as of data in other units, or where all is missing */                             \
                counts[bins] += some;                                                                                  \
                continue;                                                                                              \
            }                                                                                                          \
            for (int k = 0; k < some; k++) {                                                                           \
                const int64_t g = guess[k];                                                                            \
                const int64_t bin = g + ((clipped[k] >= edges[g + 1]) & (g != bins - 1)) - (clipped[k] < edges[g]);    \
                tables[k % TABLES][outside[k] ? bins : bin]++;                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

HISTOGRAM(float32, float)
HISTOGRAM(float64, double)
