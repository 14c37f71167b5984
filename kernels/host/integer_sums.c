// Sums of narrow integers and of bools, exact in 64 bits, in one read. Those of 8 and 16 bits are added to words of 32, of which vectors
// hold twice as many, for as many rows as cannot leave them. Of blocks of any length and width, as sums of floats are.
#include "strips.h"

enum {
    ROUND = 4,      // rows that are added to what is loaded once
    CELLS = 4096,   // of a strip, whose sums stay in the first level of cache
    HALVES = 32768, // elements of 16 bits, at most, that a word holds the sum of,
    BYTES = 1 << 23 // and of 8 bits
};

// T elements, A the words that they are added to, so many elements before these are added to the sums; VALUE of each.
#define INTEGER_SUM(NAME, T, A, MOST, VALUE)                                                                           \
    INLINE void add_##NAME(const char *rows, const int rounds, int64_t stride, int64_t width, A *restrict a) {         \
        for (int64_t j = 0; j < width; j++) {                                                                          \
            A sum = a[j];                                                                                              \
            _Pragma("GCC unroll 4") for (int i = 0; i < rounds; i++) sum += VALUE(((const T *)(rows + i * stride))[j]);\
            a[j] = sum;                                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE int64_t line_##NAME(const T *restrict x, int64_t n) {                                                       \
        int64_t sum = 0;                                                                                               \
        for (int64_t i = 0; i < n; i += (MOST)) {                                                                      \
            const int64_t some = least(n - i, (MOST));                                                                 \
            A part = 0;                                                                                                \
            for (int64_t k = 0; k < some; k++) part += VALUE(x[i + k]);                                                \
            sum += part;                                                                                               \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    EACH_PROCESSOR void isum_##NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step,    \
                                    int64_t *out) {                                                                    \
        A a[CELLS];                                                                                                    \
        if (inner == 1 && n >= LANES && step[1] == sizeof(T)) {                                                        \
            for (int64_t row = 0; row < outer; row++) out[row] = line_##NAME((const T *)(rows + row * step[0]), n);    \
            return;                                                                                                    \
        }                                                                                                              \
        EACH_STRIP(T, CELLS, {                                                                                         \
            const int64_t side = cells == inner ? side_by_side(n, inner, stride, sizeof(T)) : 1, width = side * cells; \
            int64_t *restrict sum = out + at;                                                                          \
            for (int64_t j = 0; j < cells; j++) sum[j] = 0;                                                            \
            for (int64_t i = 0; i < n;) {                                                                              \
                const int64_t some = least(n - i, side * (MOST)), full = some / side, rest = some - full * side;       \
                const char *from = x + i * stride;                                                                     \
                int64_t r = 0;                                                                                         \
                for (int64_t j = 0; j < width; j++) a[j] = 0;                                                          \
                for (; r + ROUND <= full; r += ROUND)                                                                  \
                    add_##NAME(from + r * side * stride, ROUND, side * stride, width, a);                              \
                for (; r < full; r++) add_##NAME(from + r * side * stride, 1, 0, width, a);                            \
                for (int64_t k = 0; k < side; k++)                                                                     \
                    for (int64_t j = 0; j < cells; j++) sum[j] += a[k * cells + j];                                    \
                for (int64_t k = 0; k < rest; k++)                                                                     \
                    for (int64_t j = 0; j < cells; j++)                                                                \
                        sum[j] += VALUE(((const T *)(from + (full * side + k) * stride))[j]);                          \
                i += some;                                                                                             \
            }                                                                                                          \
        })                                                                                                             \
    }

INTEGER_SUM(int8, int8_t, int32_t, BYTES, )
INTEGER_SUM(uint8, uint8_t, uint32_t, BYTES, )
INTEGER_SUM(int16, int16_t, int32_t, HALVES, )
INTEGER_SUM(uint16, uint16_t, uint32_t, HALVES, )
INTEGER_SUM(int32, int32_t, int64_t, INT64_MAX / NARROW, )
INTEGER_SUM(uint32, uint32_t, uint64_t, INT64_MAX / NARROW, )
INTEGER_SUM(bool, uint8_t, uint32_t, BYTES, 0 !=) // whose bytes may be any
