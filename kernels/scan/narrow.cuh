// Running extremes of a pack of elements of one or two bytes, two lanes of 16 bits to an instruction.
#pragma once
#include "../monoid/extremes.cuh"
#include "pack.cuh"

template <class T, bool Max, bool SkipNan, int V> struct NarrowScan {
    typedef NarrowBest<T, Max, SkipNan> Best;
    typedef Halves<T, Max, SkipNan> Lane;
    static const bool exists = sizeof(T) * V % 4 == 0;

    u32 carry;  // the best of all before, in both lanes
    GR_HD NarrowScan(T best, const f64*) : carry(Best::place(best) * 0x10001u) {}
    GR_HD T now() const { return Best{carry}.settle(); }
    GR_HD void run(const Pack<T, V>& from, Pack<T, V>& to) {
        const u32 worst = Best::place(Extreme<T, Max, SkipNan>::worst());
#pragma unroll
        for (int w = 0; w < (int)sizeof(T) * V / 4; w++) {
            const u32 word = ((const u32*)&from)[w];
            u32& out = ((u32*)&to)[w];
            if constexpr (sizeof(T) == 2) {
                out = Lane::better(carry, Lane::better(__byte_perm(word, worst, 0x1054), word));
                carry = __byte_perm(out, 0, 0x3232);
            } else {  // upper bytes of lanes are elements; what stands below them decides nothing between unlike ones
                const u32 even = word << 8, both = Lane::better(even, word);
                const u32 before = Lane::better(carry, __byte_perm(both, worst, 0x1054));
                const u32 odd = Lane::better(before, both);
                out = __byte_perm(Lane::better(before, even), odd, 0x7351);
                carry = __byte_perm(odd, 0, 0x3232);
            }
        }
    }
};
#define GR_NARROW(T)                                       \
    template <bool Max, bool SkipNan, int V>               \
    struct PackScan<MinMax<T, Max, SkipNan>, Final<MinMax<T, Max, SkipNan>, T>, V> : NarrowScan<T, Max, SkipNan, V> { \
        using NarrowScan<T, Max, SkipNan, V>::NarrowScan;  \
    };
GR_NARROW(half) GR_NARROW(bfloat16) GR_NARROW(i16) GR_NARROW(u16) GR_NARROW(i8) GR_NARROW(u8) GR_NARROW(boolean)
#undef GR_NARROW
