// Sums of floats in columns side by side, whose bits are moved to where binary64 has them (moved.cuh).
#pragma once
#include "any_beside.cuh"
#include "halves.cuh"

// At first all are taken for finite, which costs no branch. Who folds asks in the end whether they were, and else folds and
// scans them as any elements.
template <class Map, int V> struct FoldMoved {
    static_assert(IsMoved<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    static const bool guesses = true;
    f64 sum[V];
    u32 check;
    GR_HD FoldMoved() : check(0) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = 0;
    }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const Pack<T, V> all = AddedPack<Map>::of(from[i]);
            check = check_finite(all, check);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] = __fma_rn(Moved<T>::at(all, j), Moved<T>::scale(), sum[j]);
        }
    }
    GR_HD f64 state(int j) const { return sum[j]; }
    GR_HD bool was_right() const { return check == 0; }
};
template <class Map, class Emit, int V> struct ScanMoved {
    static_assert(IsMoved<Map>::yes, "elements are added, not terms");
    typedef typename Map::In T;
    f64 sum[V];
    const f64* option;
    GR_HD ScanMoved(const f64 (&before)[V], const f64* options) : option(options) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = before[j];
    }
    template <int Count, class Out> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) row(from[i], to[i]);
    }
    template <class Out> GR_HD void row(const Pack<T, V>& from, Pack<Out, V>& to) {
        static_assert(sizeof(T) == 4 || sizeof(Out) == 2, "16-bit elements have results of their own type");
        const Pack<T, V> all = AddedPack<Map>::of(from);
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = __fma_rn(Moved<T>::at(all, j), Moved<T>::scale(), sum[j]);
        if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
            for (int j = 0; j < V; j += 2) ((u32*)&to)[j / 2] = rounded_pair<Emit>(sum[j], sum[j + 1], option, T());
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = Emit::of(sum[j], option);
        }
    }
    GR_HD f64 after(int j) const { return sum[j]; }
};
