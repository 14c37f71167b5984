// How many elements there are, or with SkipNan how many that are no NaN.
#pragma once
#include "plain.cuh"

template <class T, bool SkipNan> struct Tally : Plain<Tally<T, SkipNan>, T, i64> {
    typedef u32 Acc;  // a thread sees fewer than 2^32 elements
    static GR_HD Acc start() { return 0; }
    static GR_HD void absorb(Acc& acc, T x, i64) { acc += !SkipNan || !is_nan(x); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<T, V>& pack, i64, i64) {
        u32 counted = 0;
#pragma unroll
        for (int j = 0; j < V; j++) counted += !SkipNan || !is_nan(pack.at[j]);
        acc += counted;
    }
    static GR_HD i64 settle(Acc acc) { return acc; }
    static GR_HD i64 identity() { return 0; }
    static GR_HD i64 combine(i64 earlier, i64 later) { return earlier + later; }
    static GR_HD i64 finalise(i64 state, const f64*) { return state; }
    static GR_HD void atomic(i64* cell, i64 state) { atomicAdd((u64*)cell, (u64)state); }
};
