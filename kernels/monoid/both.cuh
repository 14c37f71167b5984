// Two operators of the same elements as one: the product of monoids is a monoid. Three are one and the product of two.
#pragma once
#include "columns.cuh"
#include "plain.cuh"

template <class A, class B> struct BothState {
    typename A::State head;
    typename B::State tail;
};
template <class A, class B> struct BothAcc {
    typename A::Acc head;
    typename B::Acc tail;
};

// An element is loaded once; each operator takes packs of it in its own way.
template <class A, class B> struct Both : Plain<Both<A, B>, typename A::In, BothState<A, B>> {
    typedef typename A::In In;
    typedef BothState<A, B> State;
    typedef BothAcc<A, B> Acc;
    static const bool commutative = A::commutative && B::commutative;
    static const int crowded = 2 | 4;
    static GR_HD Acc start() { return {A::start(), B::start()}; }
    static GR_HD void absorb(Acc& acc, In x, i64 index) {
        A::absorb(acc.head, x, index);
        B::absorb(acc.tail, x, index);
    }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<In, V>& pack, i64 index, i64 step) {
        A::absorb_pack(acc.head, pack, index, step);
        B::absorb_pack(acc.tail, pack, index, step);
    }
    template <int Lanes, int V, int N>
    static GR_HD void absorb_packs(Acc& acc, const Pack<In, V> (&packs)[N], i64 index, i64 gap, i64 step) {
        A::template absorb_packs<Lanes>(acc.head, packs, index, gap, step);
        B::template absorb_packs<Lanes>(acc.tail, packs, index, gap, step);
    }
    static GR_HD State settle(const Acc& acc) { return {A::settle(acc.head), B::settle(acc.tail)}; }
    static GR_HD State identity() { return {A::identity(), B::identity()}; }
    static GR_HD State shift_index(const State& state, i64 by) { return {A::shift_index(state.head, by), B::shift_index(state.tail, by)}; }
    static GR_HD State combine(State earlier, State later) {
        return {A::combine(earlier.head, later.head), B::combine(earlier.tail, later.tail)};
    }
};

// The running columns of both.
template <class State, class Head, class Tail, int V> struct BothColumns {
    static const bool counts = Head::counts || Tail::counts, takes_four = false;
    static const bool takes_rows = Head::takes_rows || Tail::takes_rows;
    Head head;
    Tail tail;
    GR_HD void start() {
        head.start();
        tail.start();
    }
    template <class In> GR_HD void take(const Pack<In, V>& pack, i64 index, const i64 (&column_offset)[V]) {
        head.take(pack, index, column_offset);
        tail.take(pack, index, column_offset);
    }
    template <class In, int N>
    GR_HD void take_rows(const Pack<In, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V]) {
        take_batch(head, packs, index, column_offset);
        take_batch(tail, packs, index, column_offset);
    }
    GR_HD State settle(int j) { return {head.settle(j), tail.settle(j)}; }
    template <class At> GR_HD void locate(State& state, int j, At at) {
        if constexpr (Head::counts) head.locate(state.head, j, at);
        if constexpr (Tail::counts) tail.locate(state.tail, j, at);
    }
};
template <class A, class B, int V>
struct Columns<Both<A, B>, V> : BothColumns<BothState<A, B>, Columns<A, V>, Columns<B, V>, V> {};
template <class A, class B, int V>
struct EvenColumns<Both<A, B>, V> : BothColumns<BothState<A, B>, EvenColumns<A, V>, EvenColumns<B, V>, V> {};
