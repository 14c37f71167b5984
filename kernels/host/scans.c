// Host scans: running sums, products, extrema, flags and filled gaps of lines with a carry, in whatever layout, of which NumPy's own
// are fast in some. Each result is the one that NumPy's order of operations gives.
#include <float.h>
#include <math.h>

#include "each_processor.h"

enum { STEP = 16 };  // elements of a line of pairs that are added before what they lost is, and of products that are tried
enum { CELLS = 256 };  // side by side, which stay in the first level of cache

// Running results of n elements: `outer` lines in rows and `inner` neighbours side by side. `step` holds the bytes from
// one row and from one element to the next, in what is read and then in what is written. `carry` stands before each
// line, and behind it in the end. Lines go side by side where they can, since each element waits for the last.
#define TAKE(T, R, JOIN, VALUE, a, x, y) (a = JOIN(a, *(const T *)(x)), *(R *)(y) = VALUE(a))

#define LINE(NAME, T, A, R, JOIN, VALUE)                                                                               \
    static inline A NAME##_line(const char *x, char *y, A a, int64_t n, const int64_t *step) {                         \
        for (int64_t i = 0; i < n; i++, x += step[1], y += step[3]) TAKE(T, R, JOIN, VALUE, a, x, y);                  \
        return a;                                                                                                      \
    }

#define SCAN_OF(NAME, T, A, R, JOIN, VALUE)                                                                            \
    static inline void NAME##_lines(const char *x, char *y, A *carry, int64_t n, const int64_t *step, int lines,       \
                                      int64_t in, int64_t out) {                                                       \
        A a[4];                                                                                                        \
        for (int j = 0; j < lines; j++) a[j] = carry[j];                                                               \
        for (int64_t i = 0; i < n; i++, x += step[1], y += step[3])                                                    \
            for (int j = 0; j < lines; j++) TAKE(T, R, JOIN, VALUE, a[j], x + j * in, y + j * out);                    \
        for (int j = 0; j < lines; j++) carry[j] = a[j];                                                               \
    }                                                                                                                  \
    WITH_AVX2 void NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step, char *y,          \
                        A *carry) {                                                                                    \
        int64_t row = 0;                                                                                               \
        for (; inner == 1 && row + 4 <= outer; row += 4)                                                               \
            NAME##_lines(x + row * step[0], y + row * step[2], carry + row, n, step, 4, step[0], step[2]);             \
        for (; row < outer; row++) {                                                                                   \
            const char *from = x + row * step[0];                                                                      \
            char *to = y + row * step[2];                                                                              \
            A *restrict a = carry + row * inner;                                                                       \
            if (inner == 1) {                                                                                          \
                a[0] = NAME##_line(from, to, a[0], n, step);                                                           \
            } else if (inner == 2) {                                                                                   \
                NAME##_lines(from, to, a, n, step, 2, sizeof(T), sizeof(R));                                           \
            } else if (inner == 3) {                                                                                   \
                NAME##_lines(from, to, a, n, step, 3, sizeof(T), sizeof(R));                                           \
            } else if (inner == 4) {                                                                                   \
                NAME##_lines(from, to, a, n, step, 4, sizeof(T), sizeof(R));                                           \
            } else {                                                                                                   \
                for (int64_t i = 0; i < n; i++) {                                                                      \
                    const T *restrict in = (const T *)(from + i * step[1]);                                            \
                    R *restrict out = (R *)(to + i * step[3]);                                                         \
                    for (int64_t j = 0; j < inner; j++) out[j] = VALUE(a[j] = JOIN(a[j], in[j]));                      \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

#define ITSELF(a) (a)
#define SCAN(NAME, T, A, R, JOIN) LINE(NAME, T, A, R, JOIN, ITSELF) SCAN_OF(NAME, T, A, R, JOIN, ITSELF)

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define GREATER(a, b) ((((b) > (a)) | (((b) != (b)) & ((a) == (a)))) ? (b) : (a)) /* the first NaN stays */
#define LESS(a, b) ((((b) < (a)) | (((b) != (b)) & ((a) == (a)))) ? (b) : (a))

// Integers are added and multiplied without sign: they wrap.
#define SUMS(NAME, T)                                                                                                  \
    SCAN(add_##NAME, T, uint64_t, uint64_t, SUM)                                                                       \
    SCAN(multiply_##NAME, T, uint64_t, uint64_t, PRODUCT)
#define EXTREMA(NAME, T)                                                                                               \
    SCAN(maximum_##NAME, T, T, T, GREATER)                                                                             \
    SCAN(minimum_##NAME, T, T, T, LESS)

SUMS(int8, int8_t)
SUMS(int16, int16_t)
SUMS(int32, int32_t)
SUMS(int64, int64_t)
SUMS(uint8, uint8_t)
SUMS(uint16, uint16_t)
SUMS(uint32, uint32_t)
SUMS(uint64, uint64_t)
EXTREMA(int8, int8_t)
EXTREMA(int16, int16_t)
EXTREMA(int32, int32_t)
EXTREMA(int64, int64_t)
EXTREMA(uint8, uint8_t)
EXTREMA(uint16, uint16_t)
EXTREMA(uint32, uint32_t)
EXTREMA(uint64, uint64_t)
EXTREMA(float32, float)
EXTREMA(float64, double)
SCAN(add_float32, float, double, float, SUM)
SCAN(add_float64, double, double, double, SUM)

// Sums of what is not NaN.
#define SUM_PRESENT(a, b) ((a) + ((b) == (b) ? (b) : 0))

SCAN(add_present_float32, float, double, float, SUM_PRESENT)

// The last element that is not NaN.
#define LAST(a, b) ((b) == (b) ? (b) : (a))

SCAN(last_float32, float, float, float, LAST)
SCAN(last_float64, double, double, double, LAST)

// Extrema of float16 by their bits: sign and magnitude in order, NaN above all magnitudes.
#define IN_ORDER(a) ((a)&0x8000 ? -((a)&0x7fff) : (a))
#define IS_NAN(a) (((a)&0x7fff) > 0x7c00)
#define HALF_GREATER(a, b) (((IN_ORDER(b) > IN_ORDER(a)) | IS_NAN(b)) & !IS_NAN(a) ? (b) : (a))
#define HALF_LESS(a, b) (((IN_ORDER(b) < IN_ORDER(a)) | IS_NAN(b)) & !IS_NAN(a) ? (b) : (a))

SCAN(maximum_float16, uint16_t, uint16_t, uint16_t, HALF_GREATER)
SCAN(minimum_float16, uint16_t, uint16_t, uint16_t, HALF_LESS)

// A carry is 0 or 1; of elements, any byte but 0 is true.
#define COUNT(a, b) ((a) + ((b) != 0))
#define EITHER(a, b) ((a) | ((b) != 0))
#define BOTH(a, b) ((a) & ((b) != 0))

SCAN(add_bool, uint8_t, uint64_t, uint64_t, COUNT)
SCAN(logical_or_bool, uint8_t, uint8_t, uint8_t, EITHER)
SCAN(logical_and_bool, uint8_t, uint8_t, uint8_t, BOTH)

// Sums and products of complex numbers, as NumPy multiplies them.
typedef struct {
    float real, imag;
} Complex64;
typedef struct {
    double real, imag;
} Complex128;

#define TIMES(a, b) ((Complex128){(a).real * (b).real - (a).imag * (b).imag, (a).real * (b).imag + (a).imag * (b).real})

static inline Complex128 times(Complex128 a, Complex128 b) { return TIMES(a, b); }
static inline Complex128 plus_narrow(Complex128 a, Complex64 b) {
    return (Complex128){a.real + b.real, a.imag + b.imag};
}
static inline Complex64 narrow(Complex128 a) { return (Complex64){(float)a.real, (float)a.imag}; }


LINE(add_complex64, Complex64, Complex128, Complex64, plus_narrow, narrow)
SCAN_OF(add_complex64, Complex64, Complex128, Complex64, plus_narrow, narrow)

// Running products of floats, value * 2^exponent: neither part leaves the range where the product does not. Of a complex
// number both parts have one exponent. Values that multiply within range do so as they are; others are brought close to
// one first. Zeros, infinities and NaN multiply as IEEE 754 says, and need no exponent.
typedef struct {
    double factor, low, high;  // what turns values of this size into numbers
} Range;

#define PRODUCT_OF(A, TIMES_OF, LEAST, IN_RANGE, IS_NUMBER, IS_ONE, NORMALISED, LDEXP, INFINITE)                       \
    static A A##_number(A value, int64_t exponent) {                                                                   \
        const int64_t e = exponent, most = 4096;                                                                       \
        return e ? LDEXP(value, (int)(e < -most ? -most : e > most ? most : e)) : value;                               \
    }                                                                                                                  \
    static A A##_times(A a, A x, int64_t *exponent) {                                                                  \
        const A product = TIMES_OF(a, x);                                                                              \
        if (IN_RANGE(product, LEAST, DBL_MAX)) return product;                                                         \
        if (IS_ONE(a) && *exponent == 0) return x; /* whose infinite parts would become NaN */                         \
        if (IS_ONE(x)) return a;                                                                                       \
        if (!IS_NUMBER(a) || !IS_NUMBER(x)) return product;                                                            \
        *exponent += NORMALISED(&a);                                                                                   \
        *exponent += NORMALISED(&x);                                                                                   \
        return TIMES_OF(a, x);                                                                                         \
    }                                                                                                                  \
    /* The exponent goes where it can. Powers of two that are no numbers stand for the zero or infinity of a result. */ \
    static inline Range A##_range(A *value, int64_t *exponent) {                                                       \
        if (*exponent == 0) return (Range){1, LEAST, DBL_MAX};                                                         \
        const A number = A##_number(*value, *exponent);                                                                \
        if (!IS_NUMBER(*value) || IN_RANGE(number, LEAST, DBL_MAX)) *value = number, *exponent = 0;                    \
        const int64_t e = *exponent;                                                                                   \
        if (e < -1074) return (Range){0, LEAST, e <= -2100 ? DBL_MAX : ldexp(1, (int)(-1076 - e))};                     \
        if (e > 1023) return (Range){INFINITY, INFINITE ? e >= 2046 ? LEAST : ldexp(1, (int)(1024 - e)) : INFINITY, DBL_MAX}; \
        return (Range){ldexp(1, (int)e), LEAST, DBL_MAX};                                                              \
    }

#define PRODUCTS(NAME, T, A, R, WIDE, NARROW, TIMES_OF, BY, IN_RANGE, IS_NUMBER)                                       \
    static __attribute__((noinline)) Range NAME##_apart(const char *x, char *y, A *value, int64_t *exponent,           \
                                                        int64_t n, const int64_t *step) {                              \
        for (int64_t i = 0; i < n; i++, x += step[1], y += step[3]) {                                                  \
            *value = A##_times(*value, WIDE(*(const T *)x), exponent);                                                 \
            *(R *)y = NARROW(A##_number(*value, *exponent));                                                           \
        }                                                                                                              \
        return A##_range(value, exponent);                                                                             \
    }                                                                                                                  \
    /* A few lines side by side, of as many elements: true if none of the values leaves its range, which are then those \
       behind. */                                                                                                      \
    static inline __attribute__((always_inline)) int NAME##_fits(                                                      \
        const char *x, char *y, A *value, const Range *range, int n, const int64_t *step, int lines, int64_t in,       \
        int64_t out) {                                                                                                 \
        A a[4];                                                                                                        \
        int in_range[4], fits = 1;                                                                                     \
        for (int j = 0; j < lines; j++) a[j] = value[j], in_range[j] = 1;                                              \
        for (int i = 0; i < n; i++)                                                                                    \
            for (int j = 0; j < lines; j++) {                                                                          \
                a[j] = TIMES_OF(a[j], WIDE(*(const T *)(x + i * step[1] + j * in)));                                   \
                in_range[j] &= IN_RANGE(a[j], range[j].low, range[j].high);                                            \
                *(R *)(y + i * step[3] + j * out) = NARROW(BY(a[j], range[j].factor));                                 \
            }                                                                                                          \
        for (int j = 0; j < lines; j++) fits &= in_range[j] | !IS_NUMBER(value[j]);                                    \
        for (int j = 0; fits && j < lines; j++) value[j] = a[j];                                                       \
        return fits;                                                                                                   \
    }                                                                                                                  \
    /* A few lines side by side, some elements at a time: where one leaves the range, each line once more by itself. */ \
    static inline void NAME##_lines(const char *x, char *y, A *value, int64_t *exponent, int64_t n,                    \
                                      const int64_t *step, int lines, int64_t in, int64_t out) {                       \
        Range range[4];                                                                                                \
        for (int j = 0; j < lines; j++) range[j] = A##_range(value + j, exponent + j);                                 \
        for (int64_t left = n; left > 0; left -= STEP, x += STEP * step[1], y += STEP * step[3]) {                     \
            const int64_t some = left < STEP ? left : STEP;                                                            \
            const int fits = some == STEP ? NAME##_fits(x, y, value, range, STEP, step, lines, in, out)                \
                                          : NAME##_fits(x, y, value, range, (int)some, step, lines, in, out);          \
            for (int j = 0; !fits && j < lines; j++)                                                                   \
                range[j] = NAME##_apart(x + j * in, y + j * out, value + j, exponent + j, some, step);                 \
        }                                                                                                              \
    }                                                                                                                  \
    /* Many lines side by side, row by row. */                                                                         \
    static inline void NAME##_strip(const char *x, char *y, A *restrict value, int64_t *restrict exponent, int64_t n,  \
                                    const int64_t *step, int lines) {                                                  \
        double factor[CELLS], low[CELLS], high[CELLS];                                                                 \
        for (int j = 0; j < lines; j++) {                                                                              \
            const Range range = A##_range(value + j, exponent + j);                                                    \
            factor[j] = range.factor, low[j] = range.low, high[j] = range.high;                                        \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++, x += step[1], y += step[3]) {                                                  \
            const T *restrict in = (const T *)x;                                                                       \
            R *restrict out = (R *)y;                                                                                  \
            A a[CELLS];                                                                                                \
            int64_t fits = 1;                                                                                          \
            for (int j = 0; j < lines; j++) {                                                                          \
                a[j] = TIMES_OF(value[j], WIDE(in[j]));                                                                \
                fits &= IN_RANGE(a[j], low[j], high[j]) | !IS_NUMBER(value[j]);                                        \
                out[j] = NARROW(BY(a[j], factor[j]));                                                                  \
            }                                                                                                          \
            for (int j = 0; j < lines; j++) {                                                                          \
                if (fits || IN_RANGE(a[j], low[j], high[j]) || !IS_NUMBER(value[j])) {                                 \
                    value[j] = a[j];                                                                                   \
                    continue;                                                                                          \
                }                                                                                                      \
                const Range range = NAME##_apart((const char *)(in + j), (char *)(out + j), value + j, exponent + j, 1, step); \
                factor[j] = range.factor, low[j] = range.low, high[j] = range.high;                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    WITH_AVX2 void NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step, char *y,          \
                        A *value, int64_t *exponent) {                                                                 \
        int64_t row = 0;                                                                                               \
        for (; inner == 1 && row + 4 <= outer; row += 4)                                                               \
            NAME##_lines(x + row * step[0], y + row * step[2], value + row, exponent + row, n, step, 4, step[0],       \
                           step[2]);                                                                                   \
        for (; row < outer; row++) {                                                                                   \
            const char *from = x + row * step[0];                                                                      \
            char *to = y + row * step[2];                                                                              \
            A *a = value + row * inner;                                                                                \
            int64_t *e = exponent + row * inner;                                                                       \
            if (inner == 1) {                                                                                          \
                NAME##_lines(from, to, a, e, n, step, 1, sizeof(T), sizeof(R));                                        \
            } else if (inner == 2) {                                                                                   \
                NAME##_lines(from, to, a, e, n, step, 2, sizeof(T), sizeof(R));                                        \
            } else {                                                                                                   \
                for (int64_t j = 0; j < inner; j += CELLS)                                                             \
                    NAME##_strip(from + j * sizeof(T), to + j * sizeof(R), a + j, e + j, n, step,                      \
                                 inner - j < CELLS ? (int)(inner - j) : CELLS);                                        \
            }                                                                                                          \
        }                                                                                                              \
    }

#define REAL_BY(a, factor) ((a) * (factor))
#define REAL_IN_RANGE(a, low, high) ((fabs(a) >= (low)) & (fabs(a) <= (high)))
#define REAL_IS_NUMBER(a) (((a) != 0) & (fabs(a) <= DBL_MAX))
#define REAL_IS_ONE(a) ((a) == 1)
static inline int normalised(double *a) {
    int e;
    *a = frexp(*a, &e);
    return e;
}

#define COMPLEX_BY(a, factor) ((Complex128){(a).real * (factor), (a).imag * (factor)})
#define COMPLEX_UP_TO(a, high) ((fabs((a).real) <= (high)) & (fabs((a).imag) <= (high)))
#define COMPLEX_IN_RANGE(a, low, high) (((fabs((a).real) >= (low)) | (fabs((a).imag) >= (low))) & COMPLEX_UP_TO(a, high))
#define COMPLEX_IS_NUMBER(a) ((((a).real != 0) | ((a).imag != 0)) & COMPLEX_UP_TO(a, DBL_MAX))
#define COMPLEX_IS_ONE(a) (((a).real == 1) & ((a).imag == 0))
static inline int normalised_complex(Complex128 *a) {
    int e;
    frexp(fmax(fabs(a->real), fabs(a->imag)), &e);
    *a = (Complex128){ldexp(a->real, -e), ldexp(a->imag, -e)};
    return e;
}
static inline Complex128 ldexp_complex(Complex128 a, int e) { return (Complex128){ldexp(a.real, e), ldexp(a.imag, e)}; }
static inline Complex128 wide(Complex64 a) { return (Complex128){a.real, a.imag}; }

PRODUCT_OF(double, PRODUCT, DBL_MIN, REAL_IN_RANGE, REAL_IS_NUMBER, REAL_IS_ONE, normalised, ldexp, 1)
PRODUCT_OF(Complex128, times, 0x1p-900, COMPLEX_IN_RANGE, COMPLEX_IS_NUMBER, COMPLEX_IS_ONE, normalised_complex, ldexp_complex, 0)
PRODUCTS(products_float32, float, double, float, ITSELF, ITSELF, PRODUCT, REAL_BY, REAL_IN_RANGE, REAL_IS_NUMBER)
PRODUCTS(products_float64, double, double, double, ITSELF, ITSELF, PRODUCT, REAL_BY, REAL_IN_RANGE, REAL_IS_NUMBER)
PRODUCTS(products_complex64, Complex64, Complex128, Complex64, wide, narrow, times, COMPLEX_BY, COMPLEX_IN_RANGE,
         COMPLEX_IS_NUMBER)
PRODUCTS(products_complex128, Complex128, Complex128, Complex128, ITSELF, ITSELF, times, COMPLEX_BY, COMPLEX_IN_RANGE,
         COMPLEX_IS_NUMBER)

// Sums of float64 in pairs: what rounding took from each sum is added up beside it (Knuth 1969), where sums are finite.
// Along a line only those two additions wait for the last ones; the rest is done for several elements at once.
#define PAIRS(NAME, T, IF_FINITE)                                                                                      \
    typedef struct {                                                                                                   \
        T sum, lost;                                                                                                   \
    } NAME##_pair;                                                                                                     \
    static inline T NAME##_error(T a, T b, T sum) {                                                                    \
        const T shadow = sum - a, error = (a - (sum - shadow)) + (b - shadow);                                         \
        return IF_FINITE(error);                                                                                       \
    }                                                                                                                  \
    static inline NAME##_pair NAME##_with(NAME##_pair a, T b) {                                                        \
        const T sum = a.sum + b;                                                                                       \
        return (NAME##_pair){sum, a.lost + NAME##_error(a.sum, b, sum)};                                               \
    }                                                                                                                  \
    static inline T NAME##_rounded(NAME##_pair a) { return a.sum + a.lost; }                                           \
    static inline NAME##_pair NAME##_line(const char *x, char *y, NAME##_pair a, int64_t n, const int64_t *step) {     \
        int64_t i = 0;                                                                                                 \
        for (; i + STEP <= n; i += STEP) {                                                                             \
            T b[STEP], sum[STEP + 1], lost[STEP];                                                                      \
            sum[0] = a.sum;                                                                                            \
            for (int j = 0; j < STEP; j++, x += step[1]) {                                                             \
                b[j] = *(const T *)x;                                                                                  \
                sum[j + 1] = sum[j] + b[j];                                                                            \
            }                                                                                                          \
            for (int j = 0; j < STEP; j++) lost[j] = NAME##_error(sum[j], b[j], sum[j + 1]);                           \
            for (int j = 0; j < STEP; j++, y += step[3]) *(T *)y = sum[j + 1] + (a.lost += lost[j]);                   \
            a.sum = sum[STEP];                                                                                         \
        }                                                                                                              \
        for (; i < n; i++, x += step[1], y += step[3]) TAKE(T, T, NAME##_with, NAME##_rounded, a, x, y);               \
        return a;                                                                                                      \
    }                                                                                                                  \
    SCAN_OF(NAME, T, NAME##_pair, T, NAME##_with, NAME##_rounded)

typedef double Two __attribute__((vector_size(16), aligned(8)));
typedef int64_t Mask __attribute__((vector_size(16)));

#define NUMBER_OR_ZERO(a) ((a) == (a) ? (a) : 0)
#define NUMBERS_OR_ZERO(a) ((Two)((Mask)(a) & ((a) == (a))))

PAIRS(pairs_float64, double, NUMBER_OR_ZERO)
PAIRS(pairs_complex128, Two, NUMBERS_OR_ZERO)

// The same, with states as partials hold them: each part of a complex number has its sum beside what it lost, and behind
// a line that sum is the nearest float64 again. A few cells at a time, which stay in the first level of cache meanwhile.
#define PACKED(NAME, PAIRS_OF, TURNED)                                                                                 \
    static inline PAIRS_OF##_pair NAME##_settled(PAIRS_OF##_pair a) {                                                  \
        const __typeof__(a.sum) sum = PAIRS_OF##_rounded(a);                                                           \
        return (PAIRS_OF##_pair){sum, PAIRS_OF##_error(a.sum, a.lost, sum)};                                           \
    }                                                                                                                  \
    WITH_AVX2 void NAME(const char *x, int64_t outer, int64_t n, int64_t inner, const int64_t *step, char *y,          \
                        PAIRS_OF##_pair *state) {                                                                      \
        const int64_t most = inner < CELLS ? CELLS / inner : 1;                                                        \
        for (int64_t row = 0; row < outer; row += most) {                                                              \
            const int64_t rows = outer - row < most ? outer - row : most;                                              \
            PAIRS_OF##_pair *a = state + row * inner;                                                                  \
            for (int64_t i = 0; i < rows * inner; i++) a[i] = TURNED(a[i]);                                            \
            PAIRS_OF(x + row * step[0], rows, n, inner, step, y + row * step[2], a);                                   \
            for (int64_t i = 0; i < rows * inner; i++) a[i] = TURNED(NAME##_settled(a[i]));                            \
        }                                                                                                              \
    }

// Two sums and what they lost, or two sums that each stand beside what was lost: one is made of the other.
static inline pairs_complex128_pair turned(pairs_complex128_pair a) {
    return (pairs_complex128_pair){{a.sum[0], a.lost[0]}, {a.sum[1], a.lost[1]}};
}

PACKED(packed_pairs_float64, pairs_float64, ITSELF)
PACKED(packed_pairs_complex128, pairs_complex128, turned)
