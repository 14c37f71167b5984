// Operators with much to do for each byte: warps that fold had better overlap with warps that write (pipeline.cuh).
#pragma once
#include "../monoid/logical.cuh"
#include "flow.cuh"

template <class Op> struct Busy { static const bool yes = false; };
template <class Map> struct Busy<Sum<Map, f64>> { static const bool yes = true; };
template <class Map> struct Busy<Sum<Map, Parts<f64>>> { static const bool yes = true; };
template <class Map, class A> struct Busy<Mean<Map, A>> { static const bool yes = true; };
template <class T, bool SkipNan> struct Busy<Var<T, SkipNan>> { static const bool yes = true; };
template <class T, bool SkipNan> struct Busy<Std<T, SkipNan>> { static const bool yes = true; };
template <class T> struct Busy<Any<T>> { static const bool yes = true; };
template <class T> struct Busy<All<T>> { static const bool yes = true; };
template <class Op> struct Busy<Segmented<Op>> { static const bool yes = true; };
