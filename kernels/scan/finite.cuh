// Running sums of floats all of which are taken for finite at first: their bits are moved (moved.cuh), and one look in the end, at
// what all of them make of a zero, says whether that was right.
#pragma once
#include "flow.cuh"
#include "halves.cuh"
#include "spreads.cuh"

// The sum of packs:
//   sum.take(pack)
//   sum.was_right()    whether all that was added is finite
template <class Op, int V> struct FiniteSum { static const bool exists = false; };
template <class Map, int V> struct FiniteSum<Sum<Map, f64>, V> {
    typedef typename Map::In T;
    static const bool exists = IsMoved<Map>::yes && V * sizeof(T) % 4 == 0;
    f64 sum;
    u32 check;
    GR_HD FiniteSum() : sum(0), check(0) {}
    GR_HD void take(const Pack<T, V>& pack) {
        const Pack<T, V> all = AddedPack<Map>::of(pack);
        check = check_finite(all, check);
#pragma unroll
        for (int j = 0; j < V; j++) sum = __fma_rn(Moved<T>::at(all, j), Moved<T>::scale(), sum);
    }
    GR_HD bool was_right() const { return check == 0; }
};

// Packs replaced by their running results, where it was right:
//   FiniteScan(before, option)
//   scan.walk(from, to)
template <class Map, class Emit, int V> struct FiniteFloats {
    static const bool exists = true;
    f64 sum;
    const f64* option;
    GR_HD FiniteFloats(f64 before, const f64* options) : sum(before), option(options) {}
    template <class Out> GR_HD void walk(const Pack<f32, V>& from, Pack<Out, V>& to) {
        const Pack<f32, V> all = AddedPack<Map>::of(from);
#pragma unroll
        for (int j = 0; j < V; j++) {
            sum = __fma_rn(Moved<f32>::at(all, j), Moved<f32>::scale(), sum);
            to.at[j] = Along<Emit>::of(sum, option);
        }
    }
};
template <class Op, class Emit, int V> struct FiniteScan : PackScan<Op, Emit, V> {  // of halves
    using PackScan<Op, Emit, V>::PackScan;
};
template <class Emit, int V>
struct FiniteScan<Sum<Value<f32, f64>, f64>, Emit, V> : FiniteFloats<Value<f32, f64>, Emit, V> {
    using FiniteFloats<Value<f32, f64>, Emit, V>::FiniteFloats;
};
template <class Emit, int V>
struct FiniteScan<Sum<NonNan<f32, f64>, f64>, Emit, V> : FiniteFloats<NonNan<f32, f64>, Emit, V> {
    using FiniteFloats<NonNan<f32, f64>, Emit, V>::FiniteFloats;
};
