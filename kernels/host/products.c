// Products of floats, each a value times a power of two, with NaN or as if it were one: neither a product nor what comes
// on the way leaves its range. Values stay between one and two: powers of two go into the exponent by their bits, which
// rounds nothing. Zeros, infinities and NaN multiply as they are. Of blocks of any length and width, as sums are.
#include <string.h>
#include "strips.h"

enum { ROUND = 4 }; // elements of a cell that are multiplied before its power of two goes into the exponent

#define ONE 0x3ff0000000000000

typedef struct {
    double value[STRIP];
    int64_t exponent[STRIP];
} Products;

// The value of a number without its power of two, which is added to the exponent.
INLINE double normalised(double value, int64_t *restrict exponent) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int64_t power = (bits >> 52 & 2047) - 1023, near = (bits & ~(2047LL << 52)) | ONE;
    const int is_number = power > -1023 && power < 1024;
    *exponent += is_number ? power : 0;
    bits = is_number ? near : bits;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

// An element as a factor: four of float32 do not leave the range of float64, and are taken as they are.
INLINE double factor_float32(float x, int64_t *restrict exponent) {
    (void)exponent;
    return x;
}
INLINE double factor_float64(double x, int64_t *restrict exponent) {
    const int small = x < 0x1p-1022 && x > -0x1p-1022; /* subnormal, or zero */
    *exponent -= small ? 1023 : 0;
    return normalised(small ? x * 0x1p1023 : x, exponent);
}

#define PRODUCT(NAME, T)                                                                                               \
    INLINE void step_##NAME(const char *rows, const int rounds, int64_t stride, int64_t j, const int lanes,            \
                            Products *restrict a, const int skip) {                                                    \
        double value[LANES];                                                                                           \
        int64_t exponent[LANES];                                                                                       \
        for (int k = 0; k < lanes; k++) value[k] = a->value[j + k], exponent[k] = a->exponent[j + k];                  \
        for (int i = 0; i < rounds; i++) {                                                                             \
            const T *restrict x = (const T *)(rows + i * stride) + j;                                                  \
            _Pragma("GCC unroll 1") for (int k = 0; k < lanes; k++) {                                                  \
                const T v = skip && x[k] != x[k] ? 1 : x[k];                                                           \
                value[k] *= factor_##NAME(v, exponent + k);                                                            \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 1") for (int k = 0; k < lanes; k++) value[k] = normalised(value[k], exponent + k);         \
        for (int k = 0; k < lanes; k++) a->value[j + k] = value[k], a->exponent[j + k] = exponent[k];                  \
    }                                                                                                                  \
    INLINE void take_##NAME(const char *rows, int64_t n, int64_t stride, int64_t width, Products *restrict a,          \
                            const int skip) {                                                                          \
        for (int64_t i = 0; i < n;) {                                                                                  \
            const int64_t rounds = n - i < ROUND ? 1 : ROUND;                                                          \
            const char *x = rows + i * stride;                                                                         \
            int64_t j = 0;                                                                                             \
            for (; j + LANES <= width; j += LANES) {                                                                   \
                if (rounds == ROUND) step_##NAME(x, ROUND, stride, j, LANES, a, skip);                                 \
                else step_##NAME(x, 1, stride, j, LANES, a, skip);                                                     \
            }                                                                                                          \
            for (; j < width; j++) {                                                                                   \
                if (rounds == ROUND) step_##NAME(x, ROUND, stride, j, 1, a, skip);                                     \
                else step_##NAME(x, 1, stride, j, 1, a, skip);                                                         \
            }                                                                                                          \
            i += rounds;                                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void products_##NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step,        \
                                double *value, int64_t *exponent, const int skip) {                                    \
        Products a;                                                                                                    \
        EACH_STRIP(T, {                                                                                                \
            const int64_t side = side_by_side(n, cells, stride, sizeof(T)), width = side * cells;                      \
            for (int64_t j = 0; j < width; j++) a.value[j] = 1, a.exponent[j] = 0;                                     \
            const int64_t full = n / side, rest = (n - full * side) * cells;                                           \
            take_##NAME(x, full, side * stride, width, &a, skip);                                                      \
            if (rest) take_##NAME(x + full * side * stride, 1, 0, rest, &a, skip);                                     \
            for (int64_t left = side; left > 1; left = (left + 1) / 2) {                                               \
                const int64_t half = (left + 1) / 2 * cells;                                                           \
                for (int64_t j = half; j < left * cells; j++) {                                                        \
                    a.value[j - half] *= a.value[j];                                                                   \
                    a.exponent[j - half] += a.exponent[j];                                                             \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t j = 0; j < cells; j++) value[at + j] = a.value[j];                                            \
            for (int64_t j = 0; j < cells; j++) exponent[at + j] = a.exponent[j];                                      \
        })                                                                                                             \
    }                                                                                                                  \
    EACH_PROCESSOR void product_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step,    \
                                       double *value, int64_t *exponent) {                                             \
        products_##NAME(x, outer, n, inner, step, value, exponent, 0);                                                 \
    }                                                                                                                  \
    EACH_PROCESSOR void product_present_##NAME(const char *x, int64_t outer, int64_t n, int64_t inner,                 \
                                               const int64_t *step, double *value, int64_t *exponent) {                \
        products_##NAME(x, outer, n, inner, step, value, exponent, 1);                                                 \
    }

PRODUCT(float32, float)
PRODUCT(float64, double)
