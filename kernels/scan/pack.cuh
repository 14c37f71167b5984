// Packs of V elements replaced by their running results, where there is a way that costs less than one element after another.
#pragma once
#include "../core/pack.cuh"
#include "../core/task.cuh"

//   PackScan(state, option)   begins behind `state`
//   run(from, to)             the next pack's results
//   now()                     the state behind it
template <class Op, class Emit, int V> struct PackScan { static const bool exists = false; };

// What stands for it where elements are taken one by one.
struct OneByOne {
    template <class State> GR_HD OneByOne(const State&, const f64*) {}
};
template <bool First, class A, class B> struct Either { typedef A type; };
template <class A, class B> struct Either<false, A, B> { typedef B type; };
