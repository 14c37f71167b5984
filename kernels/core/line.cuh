// A line of elements in memory, read in slots: aligned vectors of V elements that cover it.
#pragma once
#include "pack.cuh"
#include "task.cuh"

// Two operands read side by side.
template <class A, class B> struct Pair { A a; B b; };

// How an element type is read: one operand, or a pair from two.
template <class In> struct Reader {
    static const int size_a = sizeof(In), size_b = 0;
    static GR_HD In one(const u8* a, const u8*) { return load_pack<In, 1>(a).at[0]; }
    template <int V> static GR_HD Pack<In, V> load(const u8* a, const u8*) { return load_pack<In, V>(a); }
};
template <class A, class B> struct Reader<Pair<A, B>> {
    static const int size_a = sizeof(A), size_b = sizeof(B);
    static GR_HD Pair<A, B> one(const u8* a, const u8* b) {
        return {load_pack<A, 1>(a).at[0], load_pack<B, 1>(b).at[0]};
    }
    template <int V> static GR_HD Pack<Pair<A, B>, V> load(const u8* a, const u8* b) {
        Pack<A, V> left = load_pack<A, V>(a);
        Pack<B, V> right = load_pack<B, V>(b);
        Pack<Pair<A, B>, V> both;
#pragma unroll
        for (int j = 0; j < V; j++) both.at[j] = {left.at[j], right.at[j]};
        return both;
    }
};

// `a` and `b` point to slot 0, which starts `phase` elements before the line does. `index` belongs to the
// line's first element. With V = 1 there is no phase, and elements lie `step` apart.
template <class In, int V> struct Line {
    const u8 *a, *b;
    i64 index;
    i64 phase;

    // Position in the line of the first element of a slot; may be negative, may pass the end.
    GR_HD i64 position(u64 slot) const { return (i64)(slot * V) - phase; }
};

// The line that starts at these operands.
template <class In, int V> GR_HD Line<In, V> line_at(const u8* a, const u8* b, i64 index) {
    Line<In, V> line = {a, b, index, 0};
    if (V > 1) {
        line.phase = (i64)(((u64)a / Reader<In>::size_a) % V);
        line.a -= line.phase * Reader<In>::size_a;
        line.b -= line.phase * Reader<In>::size_b;
    }
    return line;
}

// The chunk of the batch and the line in it that hold run number `run` of a row (or of a column tile).
template <class In, int V, int Chunks>
GR_HD Line<In, V> find_line(const Task<Chunks>& task, const Offset& row, u64 run, const Base*& base) {
    u64 chunk = 0;
    if (Chunks > 1) {
        if (task.runs == 1) chunk = run, run = 0;
        else chunk = task.by_runs.of(run), run -= chunk * task.runs;
    }
    base = &task.base[Chunks > 1 ? chunk : 0];
    Offset at = task.run.at(run);
    return line_at<In, V>(base->a + row.a + at.a, base->b + row.b + at.b, base->index + at.c);
}

// Reads the slot whole. The caller knows that it lies in the operands' memory.
template <class In, int V, int Chunks>
GR_HD Pack<In, V> read_slot(const Task<Chunks>& task, const Line<In, V>& line, u64 slot) {
    const i64 at = (i64)slot;
    if (V == 1) return Reader<In>::template load<V>(line.a + at * task.step_a, line.b + at * task.step_b);
    return Reader<In>::template load<V>(line.a + at * (V * Reader<In>::size_a), line.b + at * (V * Reader<In>::size_b));
}

// True where the slot's bytes all belong to the operands, so that reading past the line's ends is safe.
template <class In, int V, int Chunks>
GR_HD bool owns_slot(const Task<Chunks>& task, const Base* base, const Line<In, V>& line, u64 slot) {
    i64 a = (i64)(line.a - base->a) + (i64)slot * (V * Reader<In>::size_a);
    i64 b = (i64)(line.b - base->b) + (i64)slot * (V * Reader<In>::size_b);
    bool owned = a >= task.low_a && a + V * Reader<In>::size_a <= task.high_a;
    if (Reader<In>::size_b) owned = owned && b >= task.low_b && b + V * Reader<In>::size_b <= task.high_b;
    return owned;
}

// Takes in the part of a slot that lies in the line: positions from `from` on, those in [0, length).
template <class Op, int V, int Chunks>
GR_HD void absorb_edge(typename Op::Acc& acc, const Task<Chunks>& task, const Base* base,
                       const Line<typename Op::In, V>& line, u64 slot, u64 length) {
    typedef typename Op::In In;
    const i64 from = line.position(slot);
    if (from <= -V || from >= (i64)length) return;
    if (owns_slot<In, V>(task, base, line, slot)) {
        Pack<In, V> pack = read_slot<In, V>(task, line, slot);
#pragma unroll
        for (int j = 0; j < V; j++)
            if (from + j >= 0 && from + j < (i64)length) Op::absorb(acc, pack.at[j], line.index + (from + j) * task.step_c);
        return;
    }
    for (int j = 0; j < V; j++) {
        i64 at = from + j;
        if (at < 0 || at >= (i64)length) continue;
        In x = Reader<In>::one(line.a + (i64)(slot * V + j) * Reader<In>::size_a,
                               line.b + (i64)(slot * V + j) * Reader<In>::size_b);
        Op::absorb(acc, x, line.index + at * task.step_c);
    }
}
