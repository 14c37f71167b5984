// What an element adds to its group, where additions are exact and hence the same in any order: an integer, or a float
// of up to binary32, which is an integer of 24 bits at the place that its exponent names; and a count, in means.
#pragma once
#include "../monoid/sums.cuh"
#include "elements.cuh"

const u32 SEEN_NAN = 1, SEEN_PLUS = 2, SEEN_MINUS = 4;

template <class T> GR_HD f32 widened(T x) { return to_f32(x); }
GR_HD f32 widened(f32 x) { return x; }

template <class Op> struct Added {  // of states that are one 64-bit integer
    static const bool floats = false, counted = false;
    static GR_HD u64 of(typename Op::In x) { return bit_cast<u64>(lifted<Op>(x, 0)); }
    static GR_HD bool counts(typename Op::In) { return true; }
};
template <class Map> struct Added<Mean<Map, i64>> {
    static const bool floats = false, counted = true;
    static GR_HD u64 of(typename Map::In x) { return (u64)Map::of(x); }
    static GR_HD bool counts(typename Map::In x) { return Map::counts(x); }
};
template <class T, bool SkipNan, bool Counted> struct AddedFloat {
    static const bool floats = true, counted = Counted;
    static GR_HD bool counts(T x) {
        const f32 wide = widened(x);
        return !SkipNan || wide == wide;
    }
    static GR_HD u32 of(T x) { return counts(x) ? bit_cast<u32>(widened(x)) : 0; }  // the bits of a binary32
};
template <class T> struct Added<Sum<Value<T, f64>, f64>> : AddedFloat<T, false, false> {};
template <class T> struct Added<Sum<NonNan<T, f64>, f64>> : AddedFloat<T, true, false> {};
template <class T> struct Added<Mean<Value<T, f64>, f64>> : AddedFloat<T, false, true> {};
template <class T> struct Added<Mean<NonNan<T, f64>, f64>> : AddedFloat<T, true, true> {};

// The limbs of a row's groups in memory (Kulisch's accumulator, cut into 64-bit words that cannot overflow), one `apart`
// bits of the exponent from the next. Limb l of group k lies at l x groups + k, and behind the limbs are counts.
struct Limbs {
    u64* words;
    u32* seen;
    u64 groups, count;
    u32 apart;
    template <bool Counted> static GR_HD Limbs of_row(const Task<2>& task, u64 row) {
        return {(u64*)task.out + row * (task.chunks + Counted) * task.cells, (u32*)task.partials + row * task.cells,
                task.cells, task.chunks, (u32)task.slots};
    }
    // Adds a magnitude of at most 32 bits, times 2^(place - 149).
    GR_HD void add(u32 k, u32 place, u32 magnitude, bool negative) const {
        const u32 limb = place / apart;
        const u64 shifted = (u64)magnitude << (place - limb * apart);
        atomicAdd(words + limb * groups + k, negative ? 0 - shifted : shifted);
    }
    GR_HD void add_float(u32 k, u32 bits) const {
        const u32 exponent = bits >> 23 & 255, fraction = bits & 0x7fffffu;
        const bool negative = bits >> 31;
        if (exponent == 255) atomicOr(seen + k, fraction ? SEEN_NAN : negative ? SEEN_MINUS : SEEN_PLUS);
        else if (bits << 1) add(k, exponent ? exponent - 1 : 0, exponent ? fraction | 0x800000u : fraction, negative);
    }
    GR_HD void add_count(u32 k, u64 number) const { atomicAdd(words + count * groups + k, number); }
};
