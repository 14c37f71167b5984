// What runs through a scan: the state of an operator, how one element more changes it, and where segments begin.
#pragma once
#include "../core/scan_task.cuh"
#include "../monoid/arg.cuh"
#include "../monoid/logical.cuh"
#include "../monoid/moments.cuh"
#include "../monoid/order.cuh"
#include "exponent_shift.cuh"

// The state after one element more: absorbed, where a thread's running value is the state itself, else combined with the state of
// that element, or at less cost where an operator can add an element to a state.
template <class Op> struct ScanStep {
    typedef typename Op::State State;
    static GR_HD State of(State state, const typename Op::In& x, i64 index = 0) {
        if constexpr (IsSame<typename Op::Acc, State>::yes) {
            Op::absorb(state, x, index);
            return state;
        } else {
            typename Op::Acc acc = Op::start();
            Op::absorb(acc, x, index);
            return Op::combine(state, Op::settle(acc));
        }
    }
};
template <class Map, class A> struct ScanStep<Sum<Map, A>> {
    static GR_HD A of(A sum, typename Map::In x, i64 = 0) {
        add(sum, Map::of(x));
        return sum;
    }
};
template <class Map, class A> struct ScanStep<Mean<Map, A>> {
    static GR_HD Averaged<A> of(Averaged<A> mean, typename Map::In x, i64 = 0) {
        add(mean.sum, Map::of(x));
        mean.count += Map::counts(x);
        return mean;
    }
};

template <class T, bool Max, bool SkipNan> struct ScanStep<MinMax<T, Max, SkipNan>> {
    static GR_HD T of(T best, T x, i64 = 0) { return Extreme<T, Max, SkipNan>::better(best, x); }
};

// One element more of a variance (Welford 1962): a merge with the state of one element, most of which the compiler knows.
template <class T, bool SkipNan, bool Root> struct ScanStep<Variance<T, SkipNan, Root>> {
    typedef typename Variance<T, SkipNan, Root>::State State;
    static GR_HD State of(State state, T x, i64 = 0) {
        const f64 element = cast<f64>(x);
        if (SkipNan && element != element) return state;
        return merge(state, {1, {element}, element - element});  // NaN where the element is not finite
    }
};
template <class Real, bool SkipNan, bool Root> struct ScanStep<ComplexVariance<Real, SkipNan, Root>> {
    static GR_HD ComplexMoments2 of(ComplexMoments2 state, complex<Real> x, i64 = 0) {
        if (SkipNan && is_nan(x)) return state;
        const f64 re = x.re, im = x.im;
        return ComplexVariance<Real, SkipNan, Root>::combine(state, {1, re, im, (re - re) + (im - im)});
    }
};

// Elements whose variances have few digits: sums about one mean in binary64 have more than enough.
template <class T> struct FewDigits { static const bool yes = ExponentShiftedBits<T>::exists; };

// Operators whose states keep the position of an element: scans tell them each element's index in its line.
template <class Op> struct Indexed : Op {};
template <class Op> struct ScanStep<Indexed<Op>> : ScanStep<Op> {};
template <class Op> struct KeepsIndex { static const bool yes = false; };
template <class Op> struct KeepsIndex<Indexed<Op>> { static const bool yes = true; };
template <class Op> constexpr bool IS_INDEXED = false;  // and real, so that two elements compare at once
template <class Op> constexpr bool IS_INDEXED<Indexed<Op>> = !IsComplex<typename Op::In>::yes;

// One line: the operator's state itself.
template <class Op, bool Lines> struct SegmentedState {
    typedef typename Op::State State;
    static GR_HD State identity() { return Op::identity(); }
    static GR_HD State combine(State earlier, State later) { return Op::combine(earlier, later); }
    static GR_HD State of(typename Op::State value, bool) { return value; }
    static GR_HD typename Op::State value(State state) { return state; }
    static GR_HD bool has_head(State) { return false; }
};

// Lines one after another: nothing before a line's start counts after it (a segmented scan, Schwartz 1980).
template <class Op> struct SegmentedState<Op, true> {
    struct State {
        typename Op::State value;
        u32 has_head;  // a line begins among the elements
    };
    static GR_HD State identity() { return {Op::identity(), 0}; }
    static GR_HD State combine(State earlier, State later) {
        return {later.has_head ? later.value : Op::combine(earlier.value, later.value), earlier.has_head | later.has_head};
    }
    static GR_HD State of(typename Op::State value, bool has_head) { return {value, has_head}; }
    static GR_HD typename Op::State value(State state) { return state.value; }
    static GR_HD bool has_head(State state) { return state.has_head; }
};

// The state before a line's first element, where a task has carries, and what is kept of the state behind its last.
template <class Op> struct LineEnds {
    typedef typename Op::State State;
    template <class TaskT> static GR_HD State before(const TaskT& task, u64 line) { return ((const State*)task.carry)[line]; }
    template <class TaskT> static GR_HD void keep(const TaskT& task, u64 line, const State& state) { ((State*)task.totals)[line] = state; }
};

// Positions without an index that kernels tell: a state counts its elements, so that those of what it is combined with lie behind
// them (`shift_index`). For lines from the first element to the last. Without carries the caller has positions begin at 0.
template <class Op> struct Counted {
    typedef typename Op::In In;
    struct State {
        typename Op::State best;
        i64 count;  // the position of the next element
    };
    typedef State Acc;
    static const bool commutative = false;
    static GR_HD State identity() { return {Op::identity(), 0}; }
    static GR_HD State combine(const State& earlier, const State& later) {
        return {Op::combine(earlier.best, Op::shift_index(later.best, earlier.count)), earlier.count + later.count};
    }
    static GR_HD Acc start() { return identity(); }
    static GR_HD void absorb(Acc& acc, const In& x, i64) { Op::absorb(acc.best, x, acc.count++); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<In, V>& pack, i64, i64) {
        Op::absorb_pack(acc.best, pack, acc.count, 1);
        acc.count += V;
    }
    static GR_HD State settle(const Acc& acc) { return acc; }
    static GR_HD auto finalise(const State& state, const f64* option) { return Op::finalise(state.best, option); }
};
template <class Op> struct LineEnds<Counted<Op>> {
    typedef typename Op::State Best;
    template <class TaskT> static GR_HD typename Counted<Op>::State before(const TaskT& task, u64 line) {
        return {((const Best*)task.carry)[line], task.index};
    }
    template <class TaskT> static GR_HD void keep(const TaskT& task, u64 line, const typename Counted<Op>::State& state) {
        ((Best*)task.totals)[line] = state.best;
    }
};

// Elements with a flag each: where it is set, a segment begins, and nothing before it counts.
template <class Op> struct Segmented : SegmentedState<Op, true> {
    typedef Pair<typename Op::In, boolean> In;
    typedef typename SegmentedState<Op, true>::State State;
    typedef State Acc;
    static GR_HD Acc start() { return Segmented::identity(); }
    static GR_HD void absorb(Acc& acc, In x, i64 index) { acc = ScanStep<Segmented>::of(acc, x, index); }
    template <int V> static GR_HD void absorb_pack(Acc& acc, const Pack<In, V>& pack, i64 index, i64 step) {
#pragma unroll
        for (int j = 0; j < V; j++) absorb(acc, pack.at[j], index + j * step);
    }
    static GR_HD State settle(const Acc& acc) { return acc; }
    static GR_HD auto finalise(State state, const f64* option) { return Op::finalise(state.value, option); }
};
template <class Op> struct ScanStep<Segmented<Op>> {
    typedef typename Segmented<Op>::State State;
    static GR_HD State of(State state, typename Segmented<Op>::In x, i64 index = 0) {
        return {ScanStep<Op>::of(x.b.byte ? Op::identity() : state.value, x.a, index), state.has_head | x.b.byte};
    }
};

template <class Op> struct KeepsIndex<Segmented<Op>> : KeepsIndex<Op> {};

// One flag for both: a segment or a line begins.
template <class Op> struct SegmentedState<Segmented<Op>, true> : SegmentedState<Op, true> {
    typedef typename SegmentedState<Op, true>::State State;
    static GR_HD State of(State value, bool has_head) { return {value.value, value.has_head | has_head}; }
    static GR_HD State value(State state) { return state; }
};

// The first element there is: nothing behind it makes a difference.
template <class Op> struct KeepsFirst { static const bool yes = false; };
template <class T> struct KeepsFirst<FirstLast<T, false>> { static const bool yes = true; };

// Folds elements in order: as a thread of a reduction does, but where ScanStep costs less.
template <class Op> struct ThreadReduce {
    typename Op::Acc acc;
    GR_HD ThreadReduce() : acc(Op::start()) {}
    GR_HD void take(typename Op::In x, i64 index = 0) { Op::absorb(acc, x, index); }
    template <int V> GR_HD void take(const Pack<typename Op::In, V>& pack) {
        if constexpr (KeepsFirst<Op>::yes) if (Op::is_decided(acc)) return;
        Op::absorb_pack(acc, pack, 0, 1);
    }
    GR_HD typename Op::State state() const { return Op::settle(acc); }
};
template <class Map> struct ThreadReduce<Sum<Map, f64>> {
    f64 sum;
    GR_HD ThreadReduce() : sum(0) {}
    GR_HD void take(typename Map::In x, i64 = 0) { sum = ScanStep<Sum<Map, f64>>::of(sum, x); }
    template <int V> GR_HD void take(const Pack<typename Map::In, V>& pack) { add_in_order<Map>(sum, pack); }
    GR_HD f64 state() const { return sum; }
};

template <class Map> struct ThreadReduce<Mean<Map, f64>> {
    Averaged<f64> mean;
    GR_HD ThreadReduce() : mean() {}
    GR_HD void take(typename Map::In x, i64 = 0) { mean = ScanStep<Mean<Map, f64>>::of(mean, x); }
    template <int V> GR_HD void take(const Pack<typename Map::In, V>& pack) {
        add_in_order<Map, (V > 4)>(mean.sum, pack);
        mean.count += count_pack<Map>(pack);
    }
    GR_HD Averaged<f64> state() const { return mean; }
};

// A line at any strides, read element by element.
template <class In> struct StridedLine {
    const u8 *a, *b;
    GR_HD StridedLine(const Scan& task, const Offset& at, u64) : a(task.a + at.a), b(task.b + at.b) {}
    GR_HD In get(const Scan& task, u64 k) const { return Reader<In>::one(a + (i64)k * task.step_a, b + (i64)k * task.step_b); }
};
template <class A, class B> struct StridedLine<Pair<Pair<A, B>, boolean>> {
    const u8 *a, *b, *flags;
    GR_HD StridedLine(const Scan& task, const Offset& at, u64 line)
        : a(task.a + at.a), b(task.b + at.b), flags(task.flags + task.flag.at(line).a) {}
    GR_HD Pair<Pair<A, B>, boolean> get(const Scan& task, u64 k) const {
        const i64 at = (i64)k;
        return {Reader<Pair<A, B>>::one(a + at * task.step_a, b + at * task.step_b),
                Reader<boolean>::one(flags + at * task.step_flags, nullptr)};
    }
};
GR_HD i64 index_of(const Scan& task, u64 k) { return task.index + (i64)k * task.step_index; }

// The state whose result an exclusive scan has at an element.
template <class Op> struct ExclusiveState {
    static GR_HD typename Op::State of(typename Op::State state, const typename Op::In&) { return state; }
};
template <class Op> struct ExclusiveState<Segmented<Op>> {
    static GR_HD typename Segmented<Op>::State of(typename Segmented<Op>::State state, const typename Segmented<Op>::In& x) {
        return x.b.byte ? typename Segmented<Op>::State{Op::identity(), 1} : state;
    }
};

// Goes on behind an element: its result is that of the state with it, or Exclusive of the state before.
template <class Op, class Emit, bool Exclusive>
GR_HD auto scan_one(typename Op::State& state, const typename Op::In& x, const f64* option, i64 index = 0) {
    const typename Op::State before = state;
    state = ScanStep<Op>::of(before, x, index);
    return Exclusive ? Emit::of(ExclusiveState<Op>::of(before, x), option) : Emit::of(state, option);
}
