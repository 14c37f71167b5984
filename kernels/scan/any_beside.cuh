// Columns side by side of any operator: their states folded and scanned row by row.
#pragma once
#include "../core/pack.cuh"
#include "../core/task.cuh"
#include "flow.cuh"

// The states of several columns, as one that is posted and awaited together.
template <class Op, int Columns> struct Several {
    struct State { typename Op::State at[Columns]; };
    static GR_HD State identity() {
        State none;
#pragma unroll
        for (int j = 0; j < Columns; j++) none.at[j] = Op::identity();
        return none;
    }
    static GR_HD State combine(const State& earlier, const State& later) {
        State both;
#pragma unroll
        for (int j = 0; j < Columns; j++) both.at[j] = Op::combine(earlier.at[j], later.at[j]);
        return both;
    }
};

//   fold.take(rows)           rows of V columns more
//   fold.state(j)             of column j
//   fold.was_right()          where it `guesses`: whether that is so
//
//   ScanBeside(before, option)
//   scan.rows(from, to)       rows' results
//   scan.after(j)             of column j, behind all rows
template <class Op, int V> struct FoldAny {
    typedef typename Op::In In;
    static const bool guesses = false;
    Gather<Op> gather[V];
    template <int Count> GR_HD void take(const Pack<In, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++)
#pragma unroll
            for (int j = 0; j < V; j++) gather[j].take(from[i].at[j]);
    }
    GR_HD typename Op::State state(int j) const { return gather[j].state(); }
};
template <class Op, class Emit, int V, bool Exclusive> struct ScanAny {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    State state[V];
    const f64* option;
    GR_HD ScanAny(const State (&before)[V], const f64* options) : option(options) {
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = before[j];
    }
    template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) row(from[i], to[i]);
    }
    GR_HD void row(const Pack<In, V>& from, Pack<Out, V>& to) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            if (Exclusive) to.at[j] = Emit::of(Before<Op>::of(state[j], from.at[j]), option);
            state[j] = Take<Op>::of(state[j], from.at[j]);
            if (!Exclusive) to.at[j] = Emit::of(state[j], option);
        }
    }
    GR_HD State after(int j) const { return state[j]; }
};
