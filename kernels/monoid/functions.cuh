// Functions of elements as NumPy has them, for maps: of a table's names alone, one function each.
//
// Values are held as ComputeType<T>: bool for boolean, binary32 for half and bfloat16, any other type itself. What is of a
// narrow type is rounded to it after each function, as NumPy does.
#pragma once
#include "../core/types.cuh"

namespace fn {

template <class T> struct ComputeType { typedef T type; };
template <> struct ComputeType<boolean> { typedef bool type; };
template <> struct ComputeType<half> { typedef f32 type; };
template <> struct ComputeType<bfloat16> { typedef f32 type; };

template <class T> GR_HD T load(T x) { return x; }
GR_HD bool load(boolean x) { return x.byte != 0; }
GR_HD f32 load(half x) { return to_f32(x); }
GR_HD f32 load(bfloat16 x) { return to_f32(x); }

template <class T> struct Kind { static const bool is_float = false, is_signed = T(-1) < T(0); };
template <> struct Kind<f32> { static const bool is_float = true, is_signed = true; };
template <> struct Kind<f64> { static const bool is_float = true, is_signed = true; };

template <class T> GR_HD bool truth(T x) { return x != T(0); }
GR_HD bool truth(bool x) { return x; }
template <class Real> GR_HD bool truth(complex<Real> x) { return x.re != Real(0) || x.im != Real(0); }

// A value turned into one of type T, and held so.
template <class T, class From> struct Turn {
    static GR_HD T of(From x) { return (T)x; }
};
template <class From> struct Turn<boolean, From> {
    static GR_HD bool of(From x) { return truth(x); }
};
template <class From> struct Turn<half, From> {
    static GR_HD f32 of(From x) { return to_f32(to_half((f64)x)); }
};
template <class From> struct Turn<bfloat16, From> {
    static GR_HD f32 of(From x) { return to_f32(to_bfloat16((f64)x)); }
};
template <class Real, class From> struct Turn<complex<Real>, From> {
    static GR_HD complex<Real> of(From x) { return {(Real)x, Real(0)}; }
};
template <class Real, class Part> struct Turn<complex<Real>, complex<Part>> {
    static GR_HD complex<Real> of(complex<Part> x) { return {(Real)x.re, (Real)x.im}; }
};
template <class T, class From> GR_HD typename ComputeType<T>::type cast(From x) { return Turn<T, From>::of(x); }

// A constant from its eight bytes.
template <class T> struct Word {
    static GR_HD T of(u64 bits) { return (T)bits; }
};
template <> struct Word<boolean> { static GR_HD bool of(u64 bits) { return (bits & 1) != 0; } };
template <> struct Word<half> { static GR_HD f32 of(u64 bits) { return to_f32(half{(u16)bits}); } };
template <> struct Word<bfloat16> { static GR_HD f32 of(u64 bits) { return to_f32(bfloat16{(u16)bits}); } };
template <> struct Word<f32> { static GR_HD f32 of(u64 bits) { return bit_cast<f32>((u32)bits); } };
template <> struct Word<f64> { static GR_HD f64 of(u64 bits) { return bit_cast<f64>(bits); } };

// Arithmetic. Integers wrap; a product is rounded before anything is added to it.
template <class T> GR_HD T add(T x, T y) {
    if constexpr (Kind<T>::is_float) return x + y;
    else return (T)((u64)x + (u64)y);
}
GR_HD bool add(bool x, bool y) { return x || y; }
template <class T> GR_HD T subtract(T x, T y) {
    if constexpr (Kind<T>::is_float) return x - y;
    else return (T)((u64)x - (u64)y);
}
template <class T> GR_HD T multiply(T x, T y) { return (T)((u64)x * (u64)y); }
GR_HD bool multiply(bool x, bool y) { return x && y; }
GR_HD f64 multiply(f64 x, f64 y) { return __dmul_rn(x, y); }
#ifdef GR_EMULATED
GR_HD f32 multiply(f32 x, f32 y) { return x * y; }
#else
GR_HD f32 multiply(f32 x, f32 y) { return __fmul_rn(x, y); }
#endif
template <class T> GR_HD T divide(T x, T y) { return x / y; }
template <class T> GR_HD T negative(T x) {
    if constexpr (Kind<T>::is_float) return -x;
    else return (T)(0 - (u64)x);
}
template <class T> GR_HD T positive(T x) { return x; }
template <class T> GR_HD T square(T x) { return multiply(x, x); }
template <class T> GR_HD T reciprocal(T x) { return T(1) / x; }
GR_HD f64 absolute(f64 x) { return ::fabs(x); }
GR_HD f32 absolute(f32 x) { return ::fabsf(x); }
template <class T> GR_HD T absolute(T x) { return x < T(0) ? negative(x) : x; }
GR_HD bool absolute(bool x) { return x; }
template <class T> GR_HD T fabs(T x) { return absolute(x); }
template <class T> GR_HD T sign(T x) {
    if constexpr (Kind<T>::is_float) return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
    else return (T)((x > 0) - (x < T(0)));
}

#define GR_FUNCTION(name, call) \
    GR_HD f64 name(f64 x) { return ::call(x); } \
    GR_HD f32 name(f32 x) { return ::call##f(x); }
#define GR_FUNCTION_OF_TWO(name, call) \
    GR_HD f64 name(f64 x, f64 y) { return ::call(x, y); } \
    GR_HD f32 name(f32 x, f32 y) { return ::call##f(x, y); }
GR_FUNCTION(sqrt, sqrt)
GR_FUNCTION(cbrt, cbrt)
GR_FUNCTION(exp, exp)
GR_FUNCTION(exp2, exp2)
GR_FUNCTION(expm1, expm1)
GR_FUNCTION(log, log)
GR_FUNCTION(log2, log2)
GR_FUNCTION(log10, log10)
GR_FUNCTION(log1p, log1p)
GR_FUNCTION(sin, sin)
GR_FUNCTION(cos, cos)
GR_FUNCTION(tan, tan)
GR_FUNCTION(arcsin, asin)
GR_FUNCTION(arccos, acos)
GR_FUNCTION(arctan, atan)
GR_FUNCTION(sinh, sinh)
GR_FUNCTION(cosh, cosh)
GR_FUNCTION(tanh, tanh)
GR_FUNCTION(arcsinh, asinh)
GR_FUNCTION(arccosh, acosh)
GR_FUNCTION(arctanh, atanh)
GR_FUNCTION_OF_TWO(arctan2, atan2)
GR_FUNCTION_OF_TWO(hypot, hypot)
GR_FUNCTION_OF_TWO(copysign, copysign)

// Integers are whole already.
template <class T> GR_HD T floor(T x) { return x; }
template <class T> GR_HD T ceil(T x) { return x; }
template <class T> GR_HD T trunc(T x) { return x; }
template <class T> GR_HD T rint(T x) { return x; }
GR_FUNCTION(floor, floor)
GR_FUNCTION(ceil, ceil)
GR_FUNCTION(trunc, trunc)
GR_FUNCTION(rint, rint)

// Remainders: of integers by zero 0, and of the least by -1; NumPy's quotients round down.
GR_HD f64 remains(f64 x, f64 y) { return ::fmod(x, y); }
GR_HD f32 remains(f32 x, f32 y) { return ::fmodf(x, y); }
template <class T> GR_HD T fmod(T x, T y) {
    if constexpr (Kind<T>::is_float) return remains(x, y);
    else return y == T(0) || (Kind<T>::is_signed && y == T(-1)) ? T(0) : (T)(x % y);
}
template <class T> GR_HD T remainder(T x, T y) {
    T mod = fmod(x, y);
    if constexpr (Kind<T>::is_float) {
        if (y == 0) return mod;
        if (mod != 0) return (y < 0) != (mod < 0) ? mod + y : mod;
        return copysign(T(0), y);
    } else {
        return mod != T(0) && (mod < T(0)) != (y < T(0)) ? (T)(mod + y) : mod;
    }
}
template <class T> GR_HD T floor_divide(T x, T y) {
    if constexpr (Kind<T>::is_float) {
        if (y == 0) return x / y;
        T mod = fmod(x, y), quotient = (x - mod) / y;
        if (mod != 0 && (y < 0) != (mod < 0)) quotient -= T(1);
        if (quotient == 0) return copysign(T(0), x / y);
        T whole = floor(quotient);
        return quotient - whole > T(0.5) ? whole + T(1) : whole;
    } else {
        if (y == T(0)) return T(0);
        if (Kind<T>::is_signed && y == T(-1)) return negative(x);
        T quotient = (T)(x / y);
        return (x < T(0)) != (y < T(0)) && (T)(quotient * y) != x ? (T)(quotient - 1) : quotient;
    }
}
template <class T> GR_HD T power(T x, T y) {  // y >= 0: the tracer sees to that
    T product = 1;
    for (u64 n = (u64)y; n; n >>= 1) {
        if (n & 1) product = multiply(product, x);
        x = multiply(x, x);
    }
    return product;
}
GR_FUNCTION_OF_TWO(power, pow)

template <class T> GR_HD T maximum(T x, T y) { return x >= y || x != x ? x : y; }
template <class T> GR_HD T minimum(T x, T y) { return x <= y || x != x ? x : y; }
template <class T> GR_HD T fmax(T x, T y) { return x >= y || y != y ? x : y; }
template <class T> GR_HD T fmin(T x, T y) { return x <= y || y != y ? x : y; }

// Comparisons, of integers of unlike signs by their values.
template <class A, class B> GR_HD bool equal(A x, B y) {
    if constexpr (Kind<A>::is_signed && !Kind<B>::is_signed) return x >= A(0) && (u64)x == (u64)y;
    else if constexpr (!Kind<A>::is_signed && Kind<B>::is_signed) return y >= B(0) && (u64)x == (u64)y;
    else return x == y;
}
template <class A, class B> GR_HD bool less(A x, B y) {
    if constexpr (Kind<A>::is_signed && !Kind<B>::is_signed) return x < A(0) || (u64)x < (u64)y;
    else if constexpr (!Kind<A>::is_signed && Kind<B>::is_signed) return y >= B(0) && (u64)x < (u64)y;
    else return x < y;
}
template <class A, class B> GR_HD bool not_equal(A x, B y) { return !equal(x, y); }
template <class A, class B> GR_HD bool greater(A x, B y) { return less(y, x); }
template <class A, class B> GR_HD bool less_equal(A x, B y) { return less(x, y) || equal(x, y); }
template <class A, class B> GR_HD bool greater_equal(A x, B y) { return less(y, x) || equal(x, y); }

template <class A, class B> GR_HD bool logical_and(A x, B y) { return truth(x) && truth(y); }
template <class A, class B> GR_HD bool logical_or(A x, B y) { return truth(x) || truth(y); }
template <class A, class B> GR_HD bool logical_xor(A x, B y) { return truth(x) != truth(y); }
template <class T> GR_HD bool logical_not(T x) { return !truth(x); }

template <class T> GR_HD T bitwise_and(T x, T y) { return (T)(x & y); }
template <class T> GR_HD T bitwise_or(T x, T y) { return (T)(x | y); }
template <class T> GR_HD T bitwise_xor(T x, T y) { return (T)(x ^ y); }
template <class T> GR_HD T invert(T x) { return (T)~x; }
GR_HD bool invert(bool x) { return !x; }
template <class T> GR_HD T left_shift(T x, T by) {
    return (u64)by < 8 * sizeof(T) ? (T)((u64)x << (u64)by) : T(0);
}
template <class T> GR_HD T right_shift(T x, T by) {
    return (u64)by < 8 * sizeof(T) ? (T)(x >> by) : x < T(0) ? (T)-1 : T(0);
}

template <class T> GR_HD bool isnan(T x) { return x != x; }
template <class T> GR_HD bool isfinite(T x) {
    if constexpr (Kind<T>::is_float) return x - x == 0;
    else return true;
}
template <class T> GR_HD bool isinf(T x) { return !isfinite(x) && x == x; }
GR_HD bool signbit(f64 x) { return (bit_cast<u64>(x) >> 63) != 0; }
GR_HD bool signbit(f32 x) { return (bit_cast<u32>(x) >> 31) != 0; }
template <class T> GR_HD T conjugate(T x) { return x; }
template <class T> GR_HD T where(bool condition, T x, T y) { return either(condition, x, y); }

// Complex numbers.
template <class R> GR_HD complex<R> add(complex<R> x, complex<R> y) { return {x.re + y.re, x.im + y.im}; }
template <class R> GR_HD complex<R> subtract(complex<R> x, complex<R> y) { return {x.re - y.re, x.im - y.im}; }
template <class R> GR_HD complex<R> multiply(complex<R> x, complex<R> y) {
    return {multiply(x.re, y.re) - multiply(x.im, y.im), multiply(x.re, y.im) + multiply(x.im, y.re)};
}
template <class R> GR_HD complex<R> square(complex<R> x) { return multiply(x, x); }
template <class R> GR_HD complex<R> divide(complex<R> x, complex<R> y) {  // R. L. Smith, CACM 5 (1962), algorithm 116
    if (absolute(y.re) >= absolute(y.im)) {
        if (y.re == 0 && y.im == 0) return {x.re / absolute(y.re), x.im / absolute(y.re)};
        R ratio = y.im / y.re, scale = R(1) / (y.re + multiply(y.im, ratio));
        return {(x.re + multiply(x.im, ratio)) * scale, (x.im - multiply(x.re, ratio)) * scale};
    }
    R ratio = y.re / y.im, scale = R(1) / (y.im + multiply(y.re, ratio));
    return {(multiply(x.re, ratio) + x.im) * scale, (multiply(x.im, ratio) - x.re) * scale};
}
template <class R> GR_HD complex<R> negative(complex<R> x) { return {-x.re, -x.im}; }
template <class R> GR_HD complex<R> positive(complex<R> x) { return x; }
template <class R> GR_HD complex<R> conjugate(complex<R> x) { return {x.re, -x.im}; }
template <class R> GR_HD R absolute(complex<R> x) { return hypot(x.re, x.im); }
template <class R> GR_HD R real(complex<R> x) { return x.re; }
template <class R> GR_HD R imag(complex<R> x) { return x.im; }
template <class R> GR_HD bool equal(complex<R> x, complex<R> y) { return x.re == y.re && x.im == y.im; }
template <class R> GR_HD bool not_equal(complex<R> x, complex<R> y) { return !equal(x, y); }
template <class R> GR_HD bool isnan(complex<R> x) { return x.re != x.re || x.im != x.im; }
template <class R> GR_HD bool isfinite(complex<R> x) { return isfinite(x.re) && isfinite(x.im); }
template <class R> GR_HD bool isinf(complex<R> x) { return isinf(x.re) || isinf(x.im); }

}  // namespace fn
