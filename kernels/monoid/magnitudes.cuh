// Magnitudes in binary64: of complex numbers by their squares, where these are in range.
#pragma once
#include "../core/roots.cuh"

// The square of a magnitude, right but for its last bit where has_square. Of parts in binary32 it always is; an infinite one
// counts beside NaN.
GR_HD f64 square_of(c64 x) {
    const f64 re = (f64)x.re, im = (f64)x.im;
    const bool is_infinite = fmaxf(fabsf(x.re), fabsf(x.im)) == bit_cast<f32>(0x7f800000u);
    return is_infinite ? bit_cast<f64>(0x7ff0000000000000ull) : __fma_rn(im, im, __dmul_rn(re, re));
}
GR_HD f64 square_of(c128 x) { return __fma_rn(x.im, x.im, __dmul_rn(x.re, x.re)); }
GR_HD bool has_square(c64, f64) { return true; }
GR_HD bool has_square(c128, f64 square) {  // by its upper word: neither subnormal parts, nor infinite or NaN of either sign
    const u32 least = (1023 - 960) << 20;
    return (u32)(bit_cast<u64>(square) >> 32) - least < 0x7ff00000u - least;
}

template <class T> GR_HD f64 magnitude(T x) { return fabs(cast<f64>(x)); }
template <class Real> GR_HD f64 magnitude(complex<Real> x) {
    const f64 square = square_of(x);
    return has_square(x, square) ? short_root_of(square) : hypot((f64)x.re, (f64)x.im);
}
