// An operator of what a function gives of the elements: the function's value never leaves the registers.
//
// Map is a struct of generated text: In, of(In) and, where `masked`, counts(In) says whether an element takes part.
#pragma once
#include "functions.cuh"
#include "plain.cuh"

template <class Op, class Map> struct Mapped : Op {
    typedef typename Map::In In;
    static GR_HD void absorb(typename Op::Acc& acc, In x, i64 index) {
        if (Map::counts(x)) Op::absorb(acc, Map::of(x), index);
    }
    template <int V>
    static GR_HD void absorb_pack(typename Op::Acc& acc, const Pack<In, V>& pack, i64 index, i64 step) {
        if constexpr (Map::masked) {
#pragma unroll
            for (int j = 0; j < V; j++) absorb(acc, pack.at[j], index + j * step);
        } else {
            Pack<typename Op::In, V> values;
#pragma unroll
            for (int j = 0; j < V; j++) values.at[j] = Map::of(pack.at[j]);
            Op::absorb_pack(acc, values, index, step);
        }
    }
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(typename Op::Acc& acc, const Pack<In, V> (&packs)[N], i64 index, i64 gap, i64 step) {
#pragma unroll
        for (int i = 0; i < N; i++) absorb_pack(acc, packs[i], index + i * gap, step);
    }
};
