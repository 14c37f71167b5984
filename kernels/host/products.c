// Products of floats, each a value times a power of two, with NaN or as if it were one: neither a product nor what comes
// on the way leaves its range. Numbers are multiplied as they are for as long as every product on the way stays near one;
// from where one does not, powers of two go into the exponent by their bits, which rounds nothing. Zeros, infinities and
// NaN multiply as they are. Exponents are zeros beforehand, of which only others are written. Of blocks of any length and
// width, as sums are.
#include <float.h>
#include <string.h>
#include "strips.h"

enum {
    ROUND = 4,              // elements of a cell that are multiplied before anything is looked at
    CELL_BATCH = 4 * LANES, // cells that are looked at together
    CELLS = 4096,           // of a strip: longer parts of rows come faster from memory
};

#define ONE 0x3ff0000000000000
#define FAR 0x1p400 // values of states, and their inverses, are less, but for zeros and numbers that are none,
#define WIDE 0x1p150 // and so are those of elements: as many as a round's leave no range on the way. All float32 are

typedef struct {
    double value[CELLS];
    int64_t exponent[CELLS];
} Products;

INLINE int64_t is_outside(double value, double bound) {
    const double size = __builtin_fabs(value);
    return (size >= bound) | (size <= 1 / bound);
}

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
// The same of any element.
INLINE double factor(double x, int64_t *restrict exponent) {
    const int small = x < 0x1p-1022 && x > -0x1p-1022; /* subnormal, or zero */
    *exponent -= small ? 1023 : 0;
    return normalised(small ? x * 0x1p1023 : x, exponent);
}

// A number, or one in the place of NaN, by its bits: of a choice between the two compilers make jumps.
INLINE double or_one(double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int64_t here = -(int64_t)(value == value);
    bits = (bits & here) | (ONE & ~here);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

#define PRODUCT(NAME, T)                                                                                               \
    INLINE void each_##NAME(const char *rows, int64_t rounds, int64_t stride, int64_t j, const int lanes,              \
                            Products *restrict a, const int skip) {                                                    \
        for (int k = 0; k < lanes; k++) {                                                                              \
            double value = normalised(a->value[j + k], a->exponent + j + k);                                           \
            for (int64_t i = 0; i < rounds; i++) {                                                                     \
                const T x = ((const T *)(rows + i * stride))[j + k];                                                   \
                value *= factor(skip && x != x ? 1 : x, a->exponent + j + k);                                          \
            }                                                                                                          \
            a->value[j + k] = normalised(value, a->exponent + j + k);                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void step_##NAME(const char *rows, int64_t rounds, int64_t stride, int64_t j, const int lanes,              \
                            Products *restrict a, const int skip) {                                                    \
        double value[LANES];                                                                                           \
        int64_t outside[LANES], any = 0, far = 0;                                                                      \
        for (int k = 0; k < lanes; k++) value[k] = a->value[j + k], outside[k] = 0;                                    \
        for (int64_t i = 0; i < rounds; i++) {                                                                         \
            const T *restrict x = (const T *)(rows + i * stride) + j;                                                  \
            _Pragma("GCC unroll 1") for (int k = 0; k < lanes; k++) {                                                  \
                const T v = skip && x[k] != x[k] ? 1 : x[k];                                                           \
                value[k] *= v;                                                                                         \
                if (sizeof(T) > 4) outside[k] |= is_outside(v, WIDE) & (v != 0) & (v - v == 0);                        \
            }                                                                                                          \
        }                                                                                                              \
        for (int k = 0; k < lanes; k++) { /* what begins with zero or infinity stays that, or is NaN */                \
            const double begin = a->value[j + k];                                                                      \
            any |= outside[k] & (begin != 0) & (begin - begin == 0);                                                   \
            far |= is_outside(value[k], FAR) & (value[k] != 0) & (value[k] - value[k] == 0);                           \
        }                                                                                                              \
        if (any) each_##NAME(rows, rounds, stride, j, lanes, a, skip);                                                 \
        else if (far)                                                                                                  \
            for (int k = 0; k < lanes; k++) a->value[j + k] = normalised(value[k], a->exponent + j + k);               \
        else                                                                                                           \
            for (int k = 0; k < lanes; k++) a->value[j + k] = value[k];                                                \
    }                                                                                                                  \
    /* Multiplies cells whose numbers stay near one, with none small on the way, and else nothing, which is false. What \
       is no number, or zero, does not have to. */                                                                     \
    INLINE int near_##NAME(const char *rows, const int rounds, int64_t stride, int64_t j, int64_t cells,               \
                           Products *restrict a, const int skip) {                                                     \
        double value[CELL_BATCH];                                                                                      \
        int64_t far = 0;                                                                                               \
        for (int64_t k = 0; k < cells; k++) {                                                                          \
            const double begin = a->value[j + k];                                                                      \
            double product = begin;                                                                                    \
            int64_t small = 0;                                                                                         \
            _Pragma("GCC unroll 4") for (int i = 0; i < rounds; i++) {                                                 \
                const double v = ((const T *)(rows + i * stride))[j + k];                                              \
                product *= skip ? or_one(v) : v;                                                                       \
                if (sizeof(T) > 4) small |= !(__builtin_fabs(product) >= DBL_MIN);                                     \
            }                                                                                                          \
            const int64_t away = small | !(__builtin_fabs(product) < FAR) | !(__builtin_fabs(product) > 1 / FAR);      \
            far |= away & (begin != 0) & (begin - begin == 0);                                                         \
            value[k] = product;                                                                                        \
        }                                                                                                              \
        for (int64_t k = 0; !far && k < cells; k++) a->value[j + k] = value[k];                                        \
        return !far;                                                                                                   \
    }                                                                                                                  \
    INLINE int round_##NAME(const char *rows, int64_t rounds, int64_t stride, int64_t j, int64_t cells,                \
                            Products *restrict a, const int skip) {                                                    \
        return rounds == 4   ? near_##NAME(rows, 4, stride, j, cells, a, skip)                                         \
               : rounds == 3 ? near_##NAME(rows, 3, stride, j, cells, a, skip)                                         \
               : rounds == 2 ? near_##NAME(rows, 2, stride, j, cells, a, skip)                                         \
                             : near_##NAME(rows, 1, stride, j, cells, a, skip);                                        \
    }                                                                                                                  \
    INLINE void take_##NAME(const char *rows, int64_t n, int64_t stride, int64_t width, Products *restrict a,          \
                            const int skip) {                                                                          \
        for (int64_t i = 0; i < n; i += ROUND) {                                                                       \
            const int64_t rounds = least(n - i, ROUND);                                                                \
            const char *x = rows + i * stride;                                                                         \
            for (int64_t start = 0; start < width; start += CELL_BATCH) {                                              \
                const int64_t end = least(start + CELL_BATCH, width);                                                  \
                for (int64_t r = ROUND; r < 2 * ROUND; r++) ASK_FOR(T, x + r * stride, start, end)                     \
                if (round_##NAME(x, rounds, stride, start, end - start, a, skip)) continue;                            \
                int64_t j = start;                                                                                     \
                for (; j + LANES <= end; j += LANES) step_##NAME(x, rounds, stride, j, LANES, a, skip);                \
                for (; j < end; j++) step_##NAME(x, rounds, stride, j, 1, a, skip);                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void products_##NAME(const char *rows, int64_t outer, int64_t n, int64_t inner, const int64_t *step,        \
                                double *value, int64_t *exponent, const int skip) {                                    \
        Products a;                                                                                                    \
        EACH_STRIP(T, CELLS, {                                                                                         \
            const int64_t side = side_by_side(n, cells, stride, sizeof(T)), width = side * cells;                      \
            for (int64_t j = 0; j < width; j++) a.value[j] = 1, a.exponent[j] = 0;                                     \
            const int64_t full = n / side, rest = (n - full * side) * cells;                                           \
            take_##NAME(x, full, side * stride, width, &a, skip);                                                      \
            if (rest) take_##NAME(x + full * side * stride, 1, 0, rest, &a, skip);                                     \
            for (int64_t left = side; left > 1; left = (left + 1) / 2) {                                               \
                const int64_t half = (left + 1) / 2 * cells;                                                           \
                for (int64_t j = half; j < left * cells; j++) {                                                        \
                    const double both = a.value[j - half] * a.value[j];                                                \
                    a.exponent[j - half] += a.exponent[j];                                                             \
                    a.value[j - half] = is_outside(both, FAR) ? normalised(both, a.exponent + j - half) : both;        \
                }                                                                                                      \
            }                                                                                                          \
            int64_t any = 0;                                                                                           \
            for (int64_t j = 0; j < cells; j++) value[at + j] = a.value[j], any |= a.exponent[j];                      \
            for (int64_t j = 0; any && j < cells; j++) exponent[at + j] = a.exponent[j];                               \
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
