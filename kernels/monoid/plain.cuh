// The operator concept, what kernels of grid/ ask of a type, and the defaults for one whose running value is its state.
//
//   In, State, Acc        element, packed state, a thread's running value
//   commutative           false keeps element order
//   crowded               sizes of elements, or'ed, of which a thread that walks columns has its registers full: the
//                         kernel then says how many blocks share an SM, and the compiler has the rest for loads on
//                         their way
//   start, absorb, absorb_pack(s), settle  begin a running value, take elements in, turn it into a state
//   takes_part, absorb_part   true where the elements [first, end) of a pack are cheaper together than one by one
//   identity, combine, finalise            the algebra; combine's left argument is the earlier one
//   shift_index           a state whose elements lie so much further on: of operators that know positions
//   stops, from_last      whether a state may be decided (is_decided), so that no element beyond matters: elements are
//                         then looked at from the first on, or from the last
//   atomic                folds a state into a cell at once, where that is exact and order-free
#pragma once
#include "../core/pack.cuh"

template <class Op, class Element, class Packed> struct Plain {
    typedef Element In;
    typedef Packed State;
    typedef Packed Acc;
    static const bool commutative = true;
    static const int crowded = 0;
    static const bool stops = false, from_last = false;

    static GR_HD State start() { return Op::identity(); }
    static GR_HD void absorb(State& acc, In x, i64 index) { acc = Op::combine(acc, Op::lift(x, index)); }
    template <class Running, int V>
    static GR_HD void absorb_pack(Running& acc, const Pack<In, V>& pack, i64 index, i64 step) {
#pragma unroll
        for (int j = 0; j < V; j++) Op::absorb(acc, pack.at[j], index + j * step);
    }
    // Packs `gap` apart in index. With Lanes 32, all lanes of a warp call, and walk one row together.
    template <int Lanes, class Running, int V, int N>
    static GR_HD void absorb_packs(Running& acc, const Pack<In, V> (&packs)[N], i64 index, i64 gap, i64 step) {
#pragma unroll
        for (int i = 0; i < N; i++) Op::absorb_pack(acc, packs[i], index + i * gap, step);
    }
    static const bool takes_part = false;
    static GR_HD State settle(const State& acc) { return acc; }
    static GR_HD State shift_index(const State& state, i64) { return state; }
};

// The operator that does the same, and less, for elements without NaN. Both share their states, and the simpler one's
// is suspect (is_suspect) where an element may have been NaN.
template <class Op> struct Clean {
    typedef Op type;
    static const bool simpler = false;
};

// Elements that are cast before the operator sees them.
template <class Op, class Stored> struct Casting : Op {
    typedef Stored In;
    static const bool takes_part = false;
    static GR_HD void absorb(typename Op::Acc& acc, Stored x, i64 index) {
        Op::absorb(acc, cast<typename Op::In>(x), index);
    }
    template <int V>
    static GR_HD void absorb_pack(typename Op::Acc& acc, const Pack<Stored, V>& pack, i64 index, i64 step) {
#pragma unroll
        for (int j = 0; j < V; j++) Op::absorb(acc, cast<typename Op::In>(pack.at[j]), index + j * step);
    }
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(typename Op::Acc& acc, const Pack<Stored, V> (&packs)[N], i64 index, i64 gap, i64 step) {
#pragma unroll
        for (int i = 0; i < N; i++) absorb_pack(acc, packs[i], index + i * gap, step);
    }
};

// Elements that are states already: partials folded by the kernels that made them, with positions from where they begin.
template <class Op> struct Refold : Plain<Refold<Op>, typename Op::State, typename Op::State> {
    typedef typename Op::State State;
    static const bool commutative = Op::commutative;
    static GR_HD State identity() { return Op::identity(); }
    static GR_HD State lift(State x, i64 index) { return Op::shift_index(x, index); }
    static GR_HD State combine(State earlier, State later) { return Op::combine(earlier, later); }
    static GR_HD auto finalise(State state, const f64* option) { return Op::finalise(state, option); }
};

// An operator that a user wrote: struct Text { struct State; identity(); lift(In, i64); combine(State, State); }.
template <class Text, class Element, bool Commutes>
struct User : Plain<User<Text, Element, Commutes>, Element, typename Text::State> {
    typedef typename Text::State State;
    static const bool commutative = Commutes;
    static GR_HD State identity() { return Text::identity(); }
    static GR_HD State lift(Element x, i64 index) { return Text::lift(x, index); }
    static GR_HD State combine(State earlier, State later) { return Text::combine(earlier, later); }
};
