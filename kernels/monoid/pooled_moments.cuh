// Moments of a sub-warp at once, where merging them two by two has a division at every step: power sums about the mean of one
// lane are added up, and say what the moments about the mean of all are (Pebay 2008).
#pragma once
#include "../warp/reduce.cuh"
#include "moments.cuh"

// All lanes of the warp call. Sums over each sub-warp of Lanes neighbouring lanes, in all of them.
template <int Lanes, int N> GR_HD void subwarp_sums(f64 (&x)[N]) {
#pragma unroll
    for (int step = 1; step < Lanes; step *= 2)
#pragma unroll
        for (int i = 0; i < N; i++) x[i] += shuffle_xor(0xffffffffu, x[i], step);
}

// All lanes of the warp call, each with so many elements, or such a weight. The lane of the sub-warp that has some, the
// first such.
template <int Lanes> GR_HD int first_with_some(f64 count) {
    const u32 all = __ballot_sync(0xffffffffu, count != 0), mine = all >> (threadIdx.x % 32 / Lanes * Lanes);
    const int first = __ffs((int)mine) - 1;
    return first < 0 || first >= Lanes ? 0 : first;
}

// True where sums of squares lose two bits at most if they are moved to the mean, and `excess` with it.
GR_HD bool may_shift(f64 count, f64 squares, f64 excess) {
    return (excess < 0.75 * squares || excess == 0) && (count >= 1 || count == 0);
}

template <class M> struct Pooled<Moments2<M>> {
    static const bool exists = true;
    template <int Lanes> static GR_HD bool reduce(Moments2<M>& own) {
        const M near = shuffle_from(0xffffffffu, own.mean, first_with_some<Lanes>(own.count), Lanes);
        const f64 away = own.count != 0 ? distance(near, own.mean) : 0, moved = own.count * away;
        f64 sum[] = {own.count, moved, own.m2 + moved * away};
        subwarp_sums<Lanes>(sum);
        const f64 shift = sum[0] != 0 ? sum[1] * one_over(sum[0]) : 0, excess = sum[1] * shift;
        own = {sum[0], shifted(near, shift), sum[2] - excess};
        return may_shift(sum[0], sum[2], excess);
    }
};

template <> struct Pooled<Moments4> {
    static const bool exists = true;
    template <int Lanes> static GR_HD bool reduce(Moments4& own) {
        const f64 near = shuffle_from(0xffffffffu, own.mean, first_with_some<Lanes>(own.count), Lanes);
        const f64 away = own.count != 0 ? own.mean - near : 0, square = away * away, spread = own.count * square;
        f64 sum[] = {own.count, own.count * away, own.m2 + spread, own.m3 + away * (3 * own.m2 + spread),
                     own.m4 + 4 * away * own.m3 + square * (6 * own.m2 + spread)};
        subwarp_sums<Lanes>(sum);
        const f64 shift = sum[0] != 0 ? sum[1] * one_over(sum[0]) : 0, excess = sum[1] * shift;
        own = {sum[0], near + shift, sum[2] - excess, sum[3] - shift * (3 * sum[2] - 2 * excess),
               sum[4] - shift * (4 * sum[3] - shift * (6 * sum[2] - 3 * excess))};
        return may_shift(sum[0], sum[2], excess);
    }
};

template <> struct Pooled<ComplexMoments2> {
    static const bool exists = true;
    template <int Lanes> static GR_HD bool reduce(ComplexMoments2& own) {
        const int first = first_with_some<Lanes>(own.count);
        const f64 near_re = shuffle_from(0xffffffffu, own.re, first, Lanes), near_im = shuffle_from(0xffffffffu, own.im, first, Lanes);
        const f64 re = own.count != 0 ? own.re - near_re : 0, im = own.count != 0 ? own.im - near_im : 0;
        f64 sum[] = {own.count, own.count * re, own.count * im, own.m2 + own.count * (re * re + im * im)};
        subwarp_sums<Lanes>(sum);
        const f64 share = sum[0] != 0 ? one_over(sum[0]) : 0, excess = (sum[1] * sum[1] + sum[2] * sum[2]) * share;
        own = {sum[0], near_re + sum[1] * share, near_im + sum[2] * share, sum[3] - excess};
        return may_shift(sum[0], sum[3], excess);
    }
};
