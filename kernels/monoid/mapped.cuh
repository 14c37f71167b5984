// An operator of what a function gives of the elements: the function's value never leaves the registers.
//
// Map is a struct of generated text: In, of(In) and, where `masked`, counts(In) says whether an element takes part.
#pragma once
#include "columns.cuh"
#include "functions.cuh"
#include "plain.cuh"

// The function's values of a pack of elements.
template <class Map, int V> GR_HD auto values_of(const Pack<typename Map::In, V>& pack) {
    Pack<decltype(Map::of(pack.at[0])), V> values;
#pragma unroll
    for (int j = 0; j < V; j++) values.at[j] = Map::of(pack.at[j]);
    return values;
}

template <class Op, class Map> struct Mapped : Op {
    typedef typename Map::In In;
    static const bool takes_part = false;
    static GR_HD void absorb(typename Op::Acc& acc, In x, i64 index) {
        if (Map::counts(x)) Op::absorb(acc, Map::of(x), index);
    }
    template <int V>
    static GR_HD void absorb_pack(typename Op::Acc& acc, const Pack<In, V>& pack, i64 index, i64 step) {
        if constexpr (Map::masked) {
#pragma unroll
            for (int j = 0; j < V; j++) absorb(acc, pack.at[j], index + j * step);
        } else {
            Op::absorb_pack(acc, values_of<Map>(pack), index, step);
        }
    }
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(typename Op::Acc& acc, const Pack<In, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        if constexpr (!Map::masked && sizeof(typename Op::In) <= sizeof(In)) {  // the values take no more registers
            Pack<typename Op::In, V> values[N];
#pragma unroll
            for (int i = 0; i < N; i++) values[i] = values_of<Map>(packs[i]);
            Op::template absorb_packs<Lanes>(acc, values, index, gap, step);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) absorb_pack(acc, packs[i], index + i * gap, step);
        }
    }
};

// The columns of the operator itself, of a pack's values; where some do not count, each element for itself.
template <class Mine, class Map, class Inner, int V, bool Masked = Map::masked> struct MappedColumns : Inner {
    typedef typename Map::In In;
    GR_HD void take(const Pack<In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        Inner::take(values_of<Map>(pack), index, column_offset);
    }
    template <int N>
    GR_HD void take_rows(const Pack<In, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V]) {
        decltype(values_of<Map>(packs[0])) values[N];
#pragma unroll
        for (int i = 0; i < N; i++) values[i] = values_of<Map>(packs[i]);
        take_batch((Inner&)*this, values, index, column_offset);
    }
    GR_HD void take_four(const Pack<In, V>& a, const Pack<In, V>& b, const Pack<In, V>& c, const Pack<In, V>& d) {
        Inner::take_four(values_of<Map>(a), values_of<Map>(b), values_of<Map>(c), values_of<Map>(d));
    }
};
template <class Mine, class Map, class Inner, int V> struct MappedColumns<Mine, Map, Inner, V, true> {
    static const bool counts = false, takes_four = false, takes_rows = false;
    typename Mine::Acc acc[V];
    GR_HD void start() {
#pragma unroll
        for (int j = 0; j < V; j++) acc[j] = Mine::start();
    }
    GR_HD void take(const Pack<typename Map::In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
#pragma unroll
        for (int j = 0; j < V; j++) Mine::absorb(acc[j], pack.at[j], index + column_offset[j]);
    }
    GR_HD typename Mine::State settle(int j) { return Mine::settle(acc[j]); }
};
template <class Op, class Map, int V>
struct Columns<Mapped<Op, Map>, V> : MappedColumns<Mapped<Op, Map>, Map, Columns<Op, V>, V> {};
template <class Op, class Map, int V>
struct EvenColumns<Mapped<Op, Map>, V> : MappedColumns<Mapped<Op, Map>, Map, EvenColumns<Op, V>, V> {};
