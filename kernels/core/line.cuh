// A line of elements in memory, read in slots: aligned vectors of V elements that cover it.
#pragma once
#include "pack.cuh"
#include "task.cuh"

// Two operands read side by side; three and four are a pair, and one more or another pair.
template <class A, class B> struct Pair { A a; B b; };
template <class A, class B> struct PairOfPairs { A a; B b; };
// An operand but the first that lies still along a line: one element stands for all.
template <class T> struct Invariant { T of; };

// How an element type is read: one operand, or a pair from two. TaskT is what a kernel of such elements does.
template <class In> struct Reader {
    static const int size_a = sizeof(In), size_b = 0;
    typedef Pointers At;
    template <int Chunks> using TaskT = Task<Chunks>;
    static GR_HD In one(const u8* a, const u8*) { return load_pack<In, 1>(a).at[0]; }
    template <int V> static GR_HD Pack<In, V> load(const u8* a, const u8*) { return load_pack<In, V>(a); }
    static GR_HD In one(const At& at) { return one(at.a, at.b); }
    template <int V> static GR_HD Pack<In, V> load(const At& at) { return load<V>(at.a, at.b); }
    static GR_HD At ahead(const At& at, i64 n, int of = 1) {
        return {at.a + n * (of * size_a), at.b + n * (of * size_b)};
    }
    static GR_HD void retreat(At& at, i64 n) { at.a -= n * size_a, at.b -= n * size_b; }
    template <int V, class TaskT> static GR_HD bool owns(const TaskT& task, const Base* base, const At& at, i64 slot) {
        return task.owns(at, base, slot, V * size_a, V * size_b);
    }
    // The same of the words that load_unaligned reads.
    template <int V, class TaskT> static GR_HD bool owns_unaligned(const TaskT& task, const Base* base, const At& at) {
        const int past = (int)((u64)at.a % (V * size_a));
        return task.owns({at.a - past, at.b}, base, 0, (past ? 2 : 1) * V * size_a, 0);
    }
};
template <class T> struct Reader<Invariant<T>> {
    static const int size_a = 0, size_b = 0;
    static GR_HD Invariant<T> one(const u8* a, const u8*) { return {load_pack<T, 1>(a).at[0]}; }
    template <int V> static GR_HD Pack<Invariant<T>, V> load(const u8* a, const u8*) {
        const Invariant<T> x = one(a, a);
        Pack<Invariant<T>, V> pack;
#pragma unroll
        for (int j = 0; j < V; j++) pack.at[j] = x;
        return pack;
    }
    static GR_HD Invariant<T> one(const Pointers& at) { return one(at.a, at.b); }
    template <int V> static GR_HD Pack<Invariant<T>, V> load(const Pointers& at) { return load<V>(at.a, at.b); }
    static GR_HD Pointers ahead(const Pointers& at, i64, int = 1) { return at; }
};
template <class A, class B> struct Reader<Pair<A, B>> {
    static const int size_a = Reader<A>::size_a, size_b = Reader<B>::size_a;
    typedef Pointers At;
    template <int Chunks> using TaskT = Task<Chunks>;
    static GR_HD Pair<A, B> one(const u8* a, const u8* b) {
        return {Reader<A>::one(a, a), Reader<B>::one(b, b)};
    }
    template <int V> static GR_HD Pack<Pair<A, B>, V> load(const u8* a, const u8* b) {
        Pack<A, V> left = Reader<A>::template load<V>(a, a);
        Pack<B, V> right = Reader<B>::template load<V>(b, b);
        Pack<Pair<A, B>, V> both;
#pragma unroll
        for (int j = 0; j < V; j++) both.at[j] = {left.at[j], right.at[j]};
        return both;
    }
    static GR_HD Pair<A, B> one(const At& at) { return one(at.a, at.b); }
    template <int V> static GR_HD Pack<Pair<A, B>, V> load(const At& at) { return load<V>(at.a, at.b); }
    static GR_HD At ahead(const At& at, i64 n, int of = 1) {
        return {at.a + n * (of * size_a), at.b + n * (of * size_b)};
    }
    static GR_HD void retreat(At& at, i64 n) { at.a -= n * size_a, at.b -= n * size_b; }
    template <int V, class TaskT> static GR_HD bool owns(const TaskT& task, const Base* base, const At& at, i64 slot) {
        return task.owns(at, base, slot, V * size_a, V * size_b);
    }
};
template <class A, class B> struct Reader<PairOfPairs<A, B>> {
    static const int size_a = Reader<A>::size_a;
    typedef Pointers4 At;
    template <int Chunks> using TaskT = Task4<Chunks>;
    static GR_HD Pointers rest(const At& at) { return {at.more[0], at.more[1]}; }
    static GR_HD PairOfPairs<A, B> one(const At& at) { return {Reader<A>::one(at.a, at.b), Reader<B>::one(rest(at))}; }
    template <int V> static GR_HD Pack<PairOfPairs<A, B>, V> load(const At& at) {
        const Pack<A, V> left = Reader<A>::template load<V>(at.a, at.b);
        const Pack<B, V> right = Reader<B>::template load<V>(rest(at));
        Pack<PairOfPairs<A, B>, V> both;
#pragma unroll
        for (int j = 0; j < V; j++) both.at[j] = {left.at[j], right.at[j]};
        return both;
    }
    static GR_HD At ahead(const At& at, i64 n, int of = 1) {
        const Pointers more = Reader<B>::ahead(rest(at), n, of);
        return {Reader<A>::ahead(at, n, of), {more.a, more.b}};
    }
    static GR_HD void retreat(At& at, i64 n) { at = ahead(at, -n); }
    template <int V, class TaskT> static GR_HD bool owns(const TaskT& task, const Base* base, const At& at, i64 slot) {
        return Reader<A>::template owns<V>(task, base, at, slot) &&
               task.owns_more(at, base, slot, V * Reader<B>::size_a, V * Reader<B>::size_b);
    }
};

// What a kernel does that reads the elements of an operator.
template <class Op, int Chunks> using TaskOf = typename Reader<typename Op::In>::template TaskT<Chunks>;

// The pointers are those of slot 0, which starts `phase` elements before the line does. `index` belongs to the
// line's first element. With V = 1 there is no phase, and elements lie `step` apart.
template <class In, int V> struct Line : Reader<In>::At {
    i64 index;
    i64 phase;

    // Position in the line of the first element of a slot; may be negative, may pass the end.
    GR_HD i64 position(u64 slot) const { return (i64)(slot * V) - phase; }
};

// The line that starts at these operands. Unaligned: its slots begin with it, whatever its alignment (of one operand).
template <class In, int V, bool Unaligned = false>
GR_HD Line<In, V> line_at(const typename Reader<In>::At& at, i64 index) {
    Line<In, V> line = {at, index, 0};
    if (V > 1 && !Unaligned) {
        line.phase = (i64)(((u64)line.a / Reader<In>::size_a) % V);
        Reader<In>::retreat(line, line.phase);
    }
    return line;
}

// The chunk of the batch and the line in it that hold run number `run` of a row (or of a column tile).
template <class In, int V, class TaskT>
GR_HD Line<In, V> find_line(const TaskT& task, const typename TaskT::Place& row, u64 run, const Base*& base) {
    u64 chunk = 0;
    if (TaskT::most_chunks > 1) {
        if (task.runs == 1) chunk = run, run = 0;
        else chunk = task.by_runs.of(run), run -= chunk * task.runs;
    }
    base = &task.base[TaskT::most_chunks > 1 ? chunk : 0];
    const auto at = task.run_at(run);
    return line_at<In, V>(task.pointers(base).offset_by(row).offset_by(at), base->index + at.c);
}

// The first of a row's lines in a chunk.
template <class In, int V, bool Unaligned = false, class TaskT>
GR_HD Line<In, V> first_line(const TaskT& task, const typename TaskT::Place& row, const Base* base) {
    return line_at<In, V, Unaligned>(task.pointers(base).offset_by(row), base->index);
}

// Reads the slot whole. The caller knows that it owns it.
template <class In, int V, bool Unaligned = false, class TaskT>
GR_HD Pack<In, V> read_slot(const TaskT& task, const Line<In, V>& line, u64 slot) {
    const i64 at = (i64)slot;
    if constexpr (Unaligned) return load_unaligned<In, V>(Reader<In>::ahead(line, at, V).a);
    if (V == 1) return Reader<In>::template load<V>(task.stepped(line, at));
    return Reader<In>::template load<V>(Reader<In>::ahead(line, at, V));
}

// True where the slot's bytes all belong to the operands, so that reading past the line's ends is safe.
template <class In, int V, bool Unaligned = false, class TaskT>
GR_HD bool owns_slot(const TaskT& task, const Base* base, const Line<In, V>& line, u64 slot) {
    if constexpr (Unaligned) return Reader<In>::template owns_unaligned<V>(task, base, Reader<In>::ahead(line, (i64)slot, V));
    return Reader<In>::template owns<V>(task, base, line, (i64)slot);
}

// Takes in the part of a slot that lies in the line: positions from `from` on, those in [0, length).
template <class Op, int V, class TaskT>
GR_HD void absorb_edge(typename Op::Acc& acc, const TaskT& task, const Base* base, const Line<typename Op::In, V>& line,
                       u64 slot, u64 length) {
    typedef typename Op::In In;
    const i64 from = line.position(slot);
    if (from <= -V || from >= (i64)length) return;
    if (owns_slot<In, V>(task, base, line, slot)) {
        const Pack<In, V> pack = read_slot<In, V>(task, line, slot);
        const i64 left = (i64)length - from;
        absorb_some<Op, V>(acc, pack, from < 0 ? (i32)-from : 0, left < V ? (i32)left : V, line.index + from * task.step_c, task.step_c);
        return;
    }
    for (int j = 0; j < V; j++) {
        i64 at = from + j;
        if (at < 0 || at >= (i64)length) continue;
        In x = Reader<In>::one(Reader<In>::ahead(line, (i64)(slot * V + j)));
        Op::absorb(acc, x, line.index + at * task.step_c);
    }
}
