// Products: integers wrap in 64 bits, floats multiply in binary64.
#pragma once
#include "sums.cuh"

GR_HD i64 times(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }
GR_HD u64 times(u64 x, u64 y) { return x * y; }
GR_HD f64 times(f64 x, f64 y) { return x * y; }
GR_HD c128 times(c128 x, c128 y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }

GR_HD void one(i64& x) { x = 1; }
GR_HD void one(u64& x) { x = 1; }
GR_HD void one(f64& x) { x = 1; }
GR_HD void one(c128& x) { x = {1, 0}; }

// Map is Value or NonNan: which elements take part, and as what.
template <class Map> struct Prod : Plain<Prod<Map>, typename Map::In, typename Map::Term> {
    typedef typename Map::In In;
    typedef typename Map::Term State;
    static GR_HD State identity() { State x; one(x); return x; }
    static GR_HD State lift(In x, i64) { return Map::counts(x) ? Map::of(x) : identity(); }
    static GR_HD State combine(State earlier, State later) { return times(earlier, later); }
    static GR_HD State finalise(State state, const f64*) { return state; }
};
