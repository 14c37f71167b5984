// Moments of a sub-warp as sums about the mean of all of them: one division, where merging them two by two has one
// at every step. Moving a sum of powers to another centre: Pebay 2008, with the merged set's mean as the centre.
#pragma once
#include "../warp/reduce.cuh"
#include "moments.cuh"

// All lanes of the warp call. The sum over each sub-warp of Lanes neighbouring lanes, in all of them.
template <int Lanes> GR_HD f64 subwarp_sum(f64 x) {
#pragma unroll
    for (int bits = 1; bits < Lanes; bits *= 2) x += shuffle_xor(0xffffffffu, x, bits);
    return x;
}

// All lanes of the warp call, each with so many elements, or such a weight. The lane of the sub-warp that has some, the
// first such.
template <int Lanes> GR_HD int first_with_some(f64 count) {
    const u32 all = __ballot_sync(0xffffffffu, count != 0), mine = all >> (threadIdx.x % 32 / Lanes * Lanes);
    const int first = __ffs((int)mine) - 1;
    return first < 0 || first >= Lanes ? 0 : first;
}

// How far the mean of all lanes lies from the first one's, and each lane's from it. One without elements lies nowhere: the
// square of its distance may be infinite, and times no elements not a number. Shares of all elements, not numbers of them,
// are multiplied by distances, which they cannot make infinite.
struct Centred {
    f64 count, shift, away;  // of all lanes; of their mean; from their mean to the lane's own
    template <int Lanes> static GR_HD Centred of(f64 own_count, f64 from_first) {
        const f64 count = subwarp_sum<Lanes>(own_count), away = own_count != 0 ? from_first : 0;
        const f64 shift = subwarp_sum<Lanes>((count != 0 ? own_count / count : 0) * away);
        return {count, shift, own_count != 0 ? away - shift : 0};
    }
};

template <class M> struct Pooled<Moments2<M>> {
    static const bool exists = true;
    template <int Lanes> static GR_HD Moments2<M> reduce(const Moments2<M>& own) {
        const M near = shuffle_from(0xffffffffu, own.mean, first_with_some<Lanes>(own.count), Lanes);
        const Centred at = Centred::of<Lanes>(own.count, distance(near, own.mean));
        return {at.count, shifted(near, at.shift), subwarp_sum<Lanes>(own.m2 + own.count * at.away * at.away)};
    }
};

template <> struct Pooled<Moments4> {
    static const bool exists = true;
    template <int Lanes> static GR_HD Moments4 reduce(const Moments4& own) {
        const f64 near = shuffle_from(0xffffffffu, own.mean, first_with_some<Lanes>(own.count), Lanes);
        const Centred at = Centred::of<Lanes>(own.count, own.mean - near);
        const f64 d = at.away, square = d * d, spread = own.count * square;
        return {at.count, near + at.shift, subwarp_sum<Lanes>(own.m2 + spread),
                subwarp_sum<Lanes>(own.m3 + d * (3 * own.m2 + spread)),
                subwarp_sum<Lanes>(own.m4 + 4 * d * own.m3 + square * (6 * own.m2 + spread))};
    }
};

template <> struct Pooled<ComplexMoments2> {
    static const bool exists = true;
    template <int Lanes> static GR_HD ComplexMoments2 reduce(const ComplexMoments2& own) {
        const int first = first_with_some<Lanes>(own.count);
        const f64 re = shuffle_from(0xffffffffu, own.re, first, Lanes), im = shuffle_from(0xffffffffu, own.im, first, Lanes);
        const Centred x = Centred::of<Lanes>(own.count, own.re - re), y = Centred::of<Lanes>(own.count, own.im - im);
        const f64 spread = own.count * (x.away * x.away + y.away * y.away);
        return {x.count, re + x.shift, im + y.shift, subwarp_sum<Lanes>(own.m2 + spread)};
    }
};
