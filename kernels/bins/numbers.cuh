// Numbers as integers times powers of two, whose sums are exact and hence the same in any order (Kulisch's accumulator).
#pragma once
#include "../core/types.cuh"

// A magnitude times 2^place, in units of the least positive number of its type.
struct Exact { u64 low, high; u32 place; bool negative; };
const u32 SEEN_NAN = 1, SEEN_PLUS = 2, SEEN_MINUS = 4;  // of numbers that are not finite

// How numbers of a type are taken apart: bits of a magnitude, how many places it may stand at, and the exponent of the unit.
// `of` is right for normal numbers; others are told by a place that none has, and then asked for by `rare` and `seen`.
template <class Bits, int Fraction, int Exponent> struct FloatNumber {
    static const int bits = Fraction + 1, places = (1 << Exponent) - 2, unit = 2 - (1 << (Exponent - 1)) - Fraction;
    static GR_HD u64 fraction(Bits x) { return x & ((Bits(1) << Fraction) - 1); }
    static GR_HD bool negative(Bits x) { return x >> (8 * sizeof(Bits) - 1); }
    static GR_HD Exact of(Bits x) {
        const u32 exponent = (u32)(x >> Fraction) & ((1u << Exponent) - 1);
        return {fraction(x) | 1ull << Fraction, 0, exponent - 1, negative(x)};
    }
    static GR_HD Exact rare(Bits x) { return {fraction(x), 0, 0, negative(x)}; }
    static GR_HD u32 seen(Bits x) { return fraction(x) ? SEEN_NAN : negative(x) ? SEEN_MINUS : SEEN_PLUS; }
};
template <class T> struct Exactly {  // integers
    static const int bits = 8 * sizeof(T), places = 1, unit = 0;
    static GR_HD Exact of(T x) { return {x < T(0) ? 0 - (u64)x : (u64)x, 0, 0, x < T(0)}; }
    static GR_HD Exact rare(T x) { return of(x); }
    static GR_HD u32 seen(T) { return 0; }
};
template <> struct Exactly<boolean> {
    static const int bits = 1, places = 1, unit = 0;
    static GR_HD Exact of(boolean x) { return {x.byte != 0, 0, 0, false}; }
    static GR_HD Exact rare(boolean x) { return of(x); }
    static GR_HD u32 seen(boolean) { return 0; }
};
template <class T, class Bits, int Fraction, int Exponent> struct ExactlyFloat : FloatNumber<Bits, Fraction, Exponent> {
    typedef FloatNumber<Bits, Fraction, Exponent> Number;
    static GR_HD Exact of(T x) { return Number::of(bit_cast<Bits>(x)); }
    static GR_HD Exact rare(T x) { return Number::rare(bit_cast<Bits>(x)); }
    static GR_HD u32 seen(T x) { return Number::seen(bit_cast<Bits>(x)); }
};
template <> struct Exactly<f64> : ExactlyFloat<f64, u64, 52, 11> {};
template <> struct Exactly<f32> : ExactlyFloat<f32, u32, 23, 8> {};
template <> struct Exactly<half> : ExactlyFloat<half, u16, 10, 5> {};
template <> struct Exactly<bfloat16> : ExactlyFloat<bfloat16, u16, 7, 8> {};

GR_HD Exact squared(const Exact& x) { return {x.low * x.low, __umul64hi(x.low, x.low), 2 * x.place, false}; }

// A sum of numbers of type T, or of their squares. A magnitude is added in digits of `digit` bits. In a block's limbs, one
// `span` bits from the next, it is shifted by less than that. A limb has 64 bits, or 96 where it is wide, as those of squares
// are, whose places are many: a block has 2^21 elements at most, two squares each, so that 22 bits and a sign beside the shifted
// digit do. group_plans.py has the same numbers, which a test compares.
const int LIMB_BITS = 41, DIGIT_OF_FLOATS = 53, DIGIT_OF_INTEGERS = 64, NARROW_DIGIT = 27;
template <class T, int Power> struct Field {
    typedef Exactly<T> Of;
    static const bool floats = Of::places > 1;
    static const int bits = Power * Of::bits, places = Power * (Of::places - 1) + 1, unit = Power * Of::unit;
    static const int most_of_digit = floats ? DIGIT_OF_FLOATS : DIGIT_OF_INTEGERS;
    static const int digits = (bits + most_of_digit - 1) / most_of_digit, digit = (bits + digits - 1) / digits;
    static const bool wide = digit > (!floats ? LIMB_BITS : Power == 1 ? NARROW_DIGIT : 0);
    static const int span = !floats ? DIGIT_OF_INTEGERS : wide ? 65 - digit : LIMB_BITS - digit, words_a_limb = wide ? 3 : 2;
    static const int below = floats ? (digit * (digits - 1) + span - 1) / span : 0;  // limbs that hold a number's lower digits
    static const int most = floats ? (places + digit * (digits - 1) + span - 1) / span : digits;  // limbs of all places
    static GR_HD u64 part(const Exact& x, int j) {
        if (digits == 1) return x.low;
        const int at = j * digit;
        const u64 word = at == 0 ? x.low : at >= 64 ? x.high >> (at - 64) : x.low >> at | x.high << (64 - at);
        return digit == 64 ? word : word & ((1ull << (digit % 64)) - 1);
    }
    // Limbs of a group that has so many besides the middle one and those of the digits below it.
    static constexpr GR_HD u32 limbs(u32 more) { return !floats ? digits : below + 1 + more < most ? below + 1 + more : most; }
    // Words in memory, `apart` bits from one to the next, that sums of up to 2^32 numbers reach.
    static constexpr GR_HD u32 words(u32 apart) { return (places + bits + 33) / apart + 1; }
};
