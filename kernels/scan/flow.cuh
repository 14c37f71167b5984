// What runs through a scan: the operator's state, and where lines follow one another, whether one began.
#pragma once
#include "../monoid/sums.cuh"

// One element more. As lift and combine, and less work where a state takes an element straight.
template <class Op> struct Take {
    static GR_HD typename Op::State of(typename Op::State state, typename Op::In x) {
        typename Op::Acc acc = Op::start();
        Op::absorb(acc, x, 0);
        return Op::combine(state, Op::settle(acc));
    }
};
template <class Map, class A> struct Take<Sum<Map, A>> {
    static GR_HD A of(A sum, typename Map::In x) {
        add(sum, Map::of(x));
        return sum;
    }
};
template <class Map, class A> struct Take<Mean<Map, A>> {
    static GR_HD Averaged<A> of(Averaged<A> mean, typename Map::In x) {
        add(mean.sum, Map::of(x));
        mean.count += Map::counts(x);
        return mean;
    }
};

// One line: the state itself.
template <class Op, bool Lines> struct Flowing {
    typedef typename Op::State State;
    static GR_HD State identity() { return Op::identity(); }
    static GR_HD State combine(State earlier, State later) { return Op::combine(earlier, later); }
    static GR_HD State of(typename Op::State value, bool) { return value; }
    static GR_HD typename Op::State value(State state) { return state; }
};

// Lines one after another: what came before a line's start is forgotten (a segmented scan, Schwartz 1980).
template <class Op> struct Flowing<Op, true> {
    struct State {
        typename Op::State value;
        u32 began;  // a line began in this stretch
    };
    static GR_HD State identity() { return {Op::identity(), 0}; }
    static GR_HD State combine(State earlier, State later) {
        return {later.began ? later.value : Op::combine(earlier.value, later.value), earlier.began | later.began};
    }
    static GR_HD State of(typename Op::State value, bool began) { return {value, began}; }
    static GR_HD typename Op::State value(State state) { return state.value; }
};

// Elements with a flag beside each: where it is set, what came before is forgotten.
template <class Op> struct Segmented {
    typedef Pair<typename Op::In, boolean> In;
    typedef typename Flowing<Op, true>::State State;
    static GR_HD State identity() { return Flowing<Op, true>::identity(); }
    static GR_HD State combine(State earlier, State later) { return Flowing<Op, true>::combine(earlier, later); }
    static GR_HD auto finalise(State state, const f64* option) { return Op::finalise(state.value, option); }
};
template <class Op> struct Take<Segmented<Op>> {
    static GR_HD typename Segmented<Op>::State of(typename Segmented<Op>::State state, typename Segmented<Op>::In x) {
        return {Take<Op>::of(x.b.byte ? Op::identity() : state.value, x.a), state.began | x.b.byte};
    }
};

// What an exclusive scan shows at an element.
template <class Op> struct Before {
    static GR_HD typename Op::State of(typename Op::State state, const typename Op::In&) { return state; }
};
template <class Op> struct Before<Segmented<Op>> {
    static GR_HD typename Segmented<Op>::State of(typename Segmented<Op>::State state, const typename Segmented<Op>::In& x) {
        return x.b.byte ? Segmented<Op>::identity() : state;
    }
};
