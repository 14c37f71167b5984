// Columns side by side of narrow elements, by the word.
#pragma once
#include "any_beside.cuh"
#include "halves.cuh"
#include "narrow.cuh"

// Extremes of bytes and 16-bit elements, two lanes to an instruction. Of a word of bytes the odd ones are upper bytes of lanes
// as they stand, the even ones when they have been moved; what stands below them decides nothing between unlike ones.
template <class T, bool Max, bool SkipNan, int V> struct NarrowBeside {
    typedef Halves<T, Max, SkipNan> Lane;
    static const int words = V * (int)sizeof(T) / 4, each = sizeof(T) == 1 ? 2 : 1;
    u32 best[words][each];
    GR_HD void take(const Pack<T, V>& from) {
#pragma unroll
        for (int w = 0; w < words; w++) {
            const u32 word = ((const u32*)&from)[w];
            best[w][each - 1] = Lane::better(best[w][each - 1], word);
            if (each == 2) best[w][0] = Lane::better(best[w][0], word << 8);
        }
    }
    GR_HD void show(Pack<T, V>& to) const {
#pragma unroll
        for (int w = 0; w < words; w++)
            ((u32*)&to)[w] = each == 2 ? __byte_perm(best[w][0], best[w][each - 1], 0x7351) : best[w][0];
    }
    GR_HD void begin(const Pack<T, V>& from) {
#pragma unroll
        for (int w = 0; w < words; w++) {
            const u32 word = ((const u32*)&from)[w];
            best[w][each - 1] = word;
            if (each == 2) best[w][0] = word << 8;
        }
    }
};
template <class T, bool Max, bool SkipNan, int V> struct FoldNarrow {
    static const bool guesses = false;
    NarrowBeside<T, Max, SkipNan, V> lanes;
    GR_HD FoldNarrow() {
        Pack<T, V> worst;
#pragma unroll
        for (int j = 0; j < V; j++) worst.at[j] = Extreme<T, Max, SkipNan>::worst();
        lanes.begin(worst);
    }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) lanes.take(from[i]);
    }
    GR_HD T state(int j) const {
        Pack<T, V> all;
        lanes.show(all);
        return all.at[j];
    }
};
template <class T, bool Max, bool SkipNan, int V> struct ScanNarrow {
    NarrowBeside<T, Max, SkipNan, V> lanes;
    GR_HD ScanNarrow(const T (&before)[V], const f64*) {
        Pack<T, V> all;
#pragma unroll
        for (int j = 0; j < V; j++) all.at[j] = before[j];
        lanes.begin(all);
    }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<T, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) {
            lanes.take(from[i]);
            lanes.show(to[i]);
        }
    }
    GR_HD T after(int j) const {
        Pack<T, V> all;
        lanes.show(all);
        return all.at[j];
    }
};

// Sums of 16-bit floats, whose bits are moved to where binary64 has them (moved.cuh): at first as if all were finite, which
// costs no branch. Who folds asks in the end whether they were, and else folds and scans them as any elements.
template <class Map, int V> struct FoldHalves {
    typedef typename Map::In T;
    static const bool guesses = true;
    f64 sum[V];
    u32 check;
    GR_HD FoldHalves() : check(0) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = 0;
    }
    template <int Count> GR_HD void take(const Pack<T, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) {
            check = check_finite(from[i], check);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] = __fma_rn(Moved<T>::at(from[i], j), Moved<T>::scale(), sum[j]);
        }
    }
    GR_HD f64 state(int j) const { return sum[j]; }
    GR_HD bool was_right() const { return check == 0; }
};
template <class Map, class Emit, int V> struct ScanHalves {
    typedef typename Map::In T;
    f64 sum[V];
    const f64* option;
    GR_HD ScanHalves(const f64 (&before)[V], const f64* options) : option(options) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = before[j];
    }
    template <int Count> GR_HD void rows(const Pack<T, V> (&from)[Count], Pack<T, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) row(from[i], to[i]);
    }
    GR_HD void row(const Pack<T, V>& from, Pack<T, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = __fma_rn(Moved<T>::at(from, j), Moved<T>::scale(), sum[j]);
        if constexpr (V % 2 == 0) {
#pragma unroll
            for (int j = 0; j < V; j += 2) ((u32*)&to)[j / 2] = rounded_pair<Emit>(sum[j], sum[j + 1], option, T());
        } else {
#pragma unroll
            for (int j = 0; j < V; j++) to.at[j] = Emit::of(sum[j], option);
        }
    }
    GR_HD f64 after(int j) const { return sum[j]; }
};
