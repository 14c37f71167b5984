// Columns side by side of narrow elements, by the word.
#pragma once
#include "any_beside.cuh"
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
