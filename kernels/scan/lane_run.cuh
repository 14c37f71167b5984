// A lane's run of a warp's share: folded to a state, and replaced by results.
#pragma once
#include "moments_scan.cuh"
#include "strided_copy.cuh"

// The line of a lane's first element, how many elements of the line are left, and whether the line begins there.
struct Cursor {
    u64 line;
    u32 left;     // or SATURATED
    bool is_head;
    i64 index;    // that the run's first element has in the line, or would have
};

template <class Op, class Emit, int Run, bool Lines, bool Strided, bool Exclusive, bool Reverse> struct LaneRun {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Emit::Out Out;
    typedef SegmentedState<Op, Lines> Running;
    typedef typename Running::State State;
    typedef WarpShare<In, Out, Run> Share;
    static const int V = Share::V;
    // Packs by which loops are unrolled: registers are few, and where lines end, code is long.
    static const int unroll_packs = V > 4 || (Strided && V > 2) || sizeof(Value) > 16 ? 1 : Strided ? 3 : Run;

    const Scan& task;
    const u8 *const a, *const b;  // the warp's share of the operands
    u8* const out;                // and of results
    GR_HD LaneRun(const Scan& scan, const u8* share_a, const u8* share_b, u8* results)
        : task(scan), a(share_a), b(share_b), out(results) {}

    GR_HD u32 run_of() const { return Reverse ? 31 - threadIdx.x % 32 : threadIdx.x % 32; }
    // Lines are numbered in the order of the scan, their carries and totals in the order of memory.
    GR_HD u64 place(u64 line) const { return Reverse ? task.lines - 1 - line : line; }
    GR_HD Value start_of(u64 line) const { return task.carry ? LineEnds<Op>::before(task, place(line)) : Op::identity(); }
    // Elements before a lane's run in the order of the scan; less than none where the run begins with positions that hold none.
    GR_HD i64 elements_before(i64 first) const {
        return Reverse ? (i64)task.positions - (first + (i64)(run_of() + 1) * Share::run)
                       : first + (i64)run_of() * Share::run - (i64)task.lead;
    }
    // The cursor of this lane's first element in the order of the scan. Positions without elements are not in any line.
    GR_HD Cursor cursor(i64 first) const {
        const i64 begin = elements_before(first);
        const u64 at = begin > 0 ? (u64)begin : 0;
        const i64 before = begin < 0 ? begin : 0;  // positions without elements
        if (!Lines) return {at < task.length ? 0ull : 1ull, saturated(task.length - at), false, index_of(task, at + before)};
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, in_line = at - line * task.length;
        return {line, saturated(task.length - in_line), in_line == 0, index_of(task, in_line + before)};
    }
    // The positions of a run that hold elements, in the order of the scan.
    struct Elements {
        u32 begin, end;
        GR_HD bool has(int k) const { return begin <= k * V && (k + 1) * V <= end; }  // all of pack number k
        GR_HD bool has_some(int k) const { return begin < (k + 1) * V && k * V < end; }
        GR_HD bool has(int k, int i) const { return begin <= k * V + i && k * V + i < end; }
    };
    GR_HD Elements elements_of(i64 first) const {
        const i64 run = Share::run, before = elements_before(first), left = (i64)(task.positions - task.lead) - before;
        return {before < 0 ? (u32)(before < -run ? run : -before) : 0, left < 0 ? 0 : left < run ? (u32)left : (u32)run};
    }
    // The index of an element of a run whose first has `index`; what the first would have in a line that begins at an element.
    GR_HD i64 index_at(i64 index, int element) const { return index + element * task.step_index; }
    GR_HD i64 index_from(int element) const { return task.index - element * task.step_index; }

    // The first element of a lane's pack number k, in the order of the scan, counted from the share's.
    GR_HD int pack_of(int k) const { return run_of() * Share::run + (Reverse ? Run - 1 - k : k) * V; }

    // Pack number k of this lane's run, in the order of the scan.
    GR_HD Pack<In, V> pack(int k) const { return PackReader<In, V>::of(a, b, pack_of(k)); }
    typedef PackScan<Op, Emit, V> Fast;
    static const bool by_packs = !Exclusive && Fast::exists;
    typedef typename Conditional<by_packs, Fast, ElementwiseScan<Op, RowEmit<Emit>, Exclusive>>::type By;

    // A pack's element number i in the order of the scan.
    GR_HD static constexpr int scan_index(int i) { return Reverse ? V - 1 - i : i; }
    // All of pack number k of a run whose first element has an index.
    GR_HD void take(ThreadReduce<Op>& reduce, const Pack<In, V>& from, i64 index, int k) const {
        if constexpr (!KeepsIndex<Op>::yes) return reduce.take(in_scan_order(from));
        index = index_at(index, k * V);
        unrolled<V>([&](int i) { reduce.take(from.at[scan_index(i)], index), index += task.step_index; });
    }
    GR_HD void put(int k, const Pack<Out, V>& to) const { put_pack<Out, V>(out + pack_of(k) * Share::size_out, to); }
    GR_HD Value start_or_none(u64 line) const { return line < task.lines ? start_of(line) : Op::identity(); }

    // A pack in the order of the scan, or back in the order of memory.
    template <class T> static GR_HD Pack<T, V> in_scan_order(const Pack<T, V>& pack) { return turned<Reverse>(pack); }
    // How elements from one of an index on are scanned behind `value`.
    GR_HD By scan_from(const Value& value, i64 index) const {
        By by(value, task.option);
        if constexpr (KeepsIndex<Op>::yes) by.begin_at(index, task.step_index);
        return by;
    }
    // The results of a pack in which no line ends.
    GR_HD Pack<Out, V> results_of(By& by, const Pack<In, V>& from) const {
        Pack<Out, V> to;
        by.run(in_scan_order(from), to);
        return in_scan_order(to);
    }
    // Writes a run's packs without checks. Some are read before results take their place: the compiler does not know that packs do
    // not overlap.
    template <class Walk> GR_HD void write_steadily(Walk& by) const {
        const int some = V == 2 ? 2 : 1, rest = Run % some;
#pragma unroll 1
        for (int k = 0; k + some <= Run; k += some) write_some<some>(by, k);
        if constexpr (rest > 0) write_some<rest>(by, Run - rest);
    }
    template <int Count, class Walk> GR_HD void write_some(Walk& by, int k) const {
        Pack<In, V> from[Count];
        Pack<Out, V> to[Count];
        unrolled<Count>([&](int i) { from[i] = in_scan_order(pack(k + i)); });
        unrolled<Count>([&](int i) { by.walk(from[i], to[i]); });
        unrolled<Count>([&](int i) { put(k + i, in_scan_order(to[i])); });
    }
    // The state of a run in which no line begins or ends, and all positions are elements.
    GR_HD Value fold_even(i64 index) const {
        ThreadReduce<Op> reduce;
        if constexpr (IS_INDEXED<Op>) if (task.step_index > 0) {  // the best element is found first, then its place
            Pack<In, V> all[Run];
            unrolled<Run>([&](int k) { all[k] = in_scan_order(pack(k)); });
            Op::template absorb_packs<1>(reduce.acc, all, index, V * task.step_index, task.step_index);
            return reduce.state();
        }
#pragma unroll unroll_packs
        for (int k = 0; k < Run; k++) take(reduce, pack(k), index, k);
        return reduce.state();
    }
    // All lanes of a warp call, with such a run. Assumes that all elements of the warp's share are finite, and returns whether they
    // are: then write_finite need not check again. Of dense lines of float32 that is no faster.
    static const bool assumes_finite = !Exclusive && FiniteSums<Op, Emit, V>::exists && (Strided || sizeof(In) == 2);
    static const int unroll_finite = V > 4 ? (Strided ? 1 : Run) : 3;
    GR_HD bool fold_finite(Value& sum) const {
        typename FiniteSums<Op, Emit, V>::Fold all;
#pragma unroll unroll_finite
        for (int k = 0; k < Run; k++) {
            const Pack<In, V> from[1] = {in_scan_order(pack(k))};
            all.take(from);
        }
        sum = all.state(0);
        return __all_sync(0xffffffffu, all.was_finite());
    }
    GR_HD void write_finite(Value value) const {
        const Value before[1] = {value};
        typename FiniteSums<Op, Emit, V>::Scan scan(before, task.option);
#pragma unroll unroll_finite
        for (int k = 0; k < Run; k++) write_some<1>(scan, k);
    }
    // The results of a run behind `value`. `squares`: no less than the sum of squared distances from the mean of `value`, or NaN.
    GR_HD void write_even(Value value, i64 index, f64 squares = bit_cast<f64>(0x7ff8000000000000ull)) const {
        if constexpr (IS_INDEXED<Op>) if (task.step_index > 0) {
            bool stays = value.index >= 0;  // as behind many elements it mostly does; later ones lose ties
            unrolled<Run * V>([&](int i) { stays &= !Op::beats(value.value, pack(i / V).at[i % V]); });
            Pack<Out, V> all;
            unrolled<V>([&](int i) { all.at[i] = Emit::of(value, task.option); });
            if (stays) return unrolled<Run>([&](int k) { put(k, all); });
        }
        By fast = scan_from(value, index);
        if constexpr (by_packs && VarianceF32Delta<Op, Emit>::exists) {
            VarianceF32Delta<Op, Emit> delta(value, task.option);
            if (__all_sync(0xffffffffu, delta.is_small(squares))) return write_steadily(delta);
        }
        if constexpr (by_packs && ShiftedPowerSums<Op>::exists)
            if (__all_sync(0xffffffffu, fast.is_steady(Share::run, squares))) return write_steadily(fast);
#pragma unroll unroll_packs
        for (int k = 0; k < Run; k++) put(k, results_of(fast, pack(k)));
    }

    // The state of a run in which lines may end: the elements behind the last end are folded.
    GR_HD State fold_ends(Cursor at, Elements elements) const {
        if (at.line >= task.lines) return Running::identity();
        const u32 count = elements.end - elements.begin;
        const bool ends = Lines && at.left <= count, has_head = ends || at.is_head;
        if (ends) {
            const u32 behind = count - at.left, length = saturated(task.length), more = behind < length ? 0 : behind / length;
            elements.begin = elements.end - (behind - more * length);
            at.line += 1 + more;
            at.index = index_from(elements.begin);
        }
        ThreadReduce<Op> reduce;
#pragma unroll 1
        for (int k = 0; k < Run; k++) {
            const Pack<In, V> from = pack(k);
            if (elements.has(k)) take(reduce, from, at.index, k);
            else if (elements.has_some(k))
#pragma unroll
                for (int i = 0; i < V; i++)
                    if (elements.has(k, i)) reduce.take(from.at[scan_index(i)], index_at(at.index, k * V + i));
        }
        return Running::of(has_head ? Op::combine(start_or_none(at.line), reduce.state()) : reduce.state(), has_head);
    }
    // The results of such a run. Only packs in which a line ends are scanned element by element.
    GR_HD void write_ends(Cursor at, Elements elements, Value value) const {
        if (at.line >= task.lines) return;
        By fast = scan_from(at.is_head ? start_of(at.line) : value, at.index);
#pragma unroll 1
        for (int k = 0; k < Run; k++) {
            const Pack<In, V> from = pack(k);
            Pack<Out, V> to;
            if (elements.has(k) && at.left > V) {
                to = results_of(fast, from);
                at.left -= V;
            } else {
                value = fast.now();
                write_each(at, elements, value, k, from, to);
                fast = scan_from(value, index_at(at.index, (k + 1) * V));
            }
            put(k, to);
        }
    }
    // Element by element: a pack in which lines end, or which holds other positions than elements.
    GR_HD void write_each(Cursor& at, Elements elements, Value& value, int k, const Pack<In, V>& from, Pack<Out, V>& to) const {
#pragma unroll
        for (int i = 0; i < V; i++) {
            if (!elements.has(k, i)) continue;
            const i64 index = index_at(at.index, k * V + i);
            to.at[scan_index(i)] = scan_one<Op, RowEmit<Emit>, Exclusive>(value, from.at[scan_index(i)], task.option, index);
            if (--at.left == 0) end_line(at, value, k * V + i);
        }
    }
    // With the run's element that was the line's last.
    GR_HD void end_line(Cursor& at, Value& value, int element) const {
        if (task.totals) LineEnds<Op>::keep(task, place(at.line), value);
        if (!Lines) return;
        at.left = saturated(task.length);
        at.index = index_from(element + 1);
        value = start_or_none(++at.line);
    }
};
