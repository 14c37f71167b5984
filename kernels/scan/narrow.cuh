// Running extremes of a pack of elements of one or two bytes, two lanes of 16 bits to an instruction.
#pragma once
#include "../core/pack.cuh"
#include "../monoid/extremes.cuh"

template <class Op, int V> struct PackScan { static const bool exists = false; };

template <class T, bool Max, bool SkipNan, int V> struct NarrowScan {
    typedef NarrowBest<T, Max, SkipNan> Best;
    typedef Halves<T, Max, SkipNan> Lane;
    static const bool exists = sizeof(T) * V % 4 == 0;

    // Replaces each element by the best up to it, `best` included, which becomes that of all.
    static GR_HD void run(T& best, const Pack<T, V>& from, Pack<T, V>& to) {
        const u32 worst = Best::place(Extreme<T, Max, SkipNan>::worst());
        u32 carry = Best::place(best) * 0x10001u;  // in both lanes
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
        best = bit_cast<T>((typename Word<sizeof(T)>::type)(carry >> (sizeof(T) == 1 ? 8 : 0)));
    }
};
#define GR_NARROW(T) \
    template <bool Max, bool SkipNan, int V> struct PackScan<MinMax<T, Max, SkipNan>, V> : NarrowScan<T, Max, SkipNan, V> {};
GR_NARROW(half) GR_NARROW(bfloat16) GR_NARROW(i16) GR_NARROW(u16) GR_NARROW(i8) GR_NARROW(u8) GR_NARROW(boolean)
#undef GR_NARROW
