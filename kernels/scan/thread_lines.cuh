// Scans lines at any strides, a thread a line: several short ones that lie side by side a thread, or of a few long ones a part;
// or a warp a line or a part of one.
#pragma once
#include "../core/shared.cuh"
#include "reciprocal_table.cuh"

// As columns are scanned (column_ops.cuh), several rows together where that is faster.
template <class Op, class Emit, int V, bool Exclusive> struct ThreadColumnOps {
    static const int together = ScansRowRuns<Op>::yes ? 4 : 1;  // rows
    static const int resident = ScansRowRuns<Op>::yes || sizeof(typename Op::State) > 8 ? 512 : 768;  // threads of an SM
    typedef UncheckedColumnScan<Op, Emit, V, Exclusive> Scan;
};

// Batches of a line between which variances are rebased. Where all digits of binary64 are wanted these are few; else as many as
// leave results of 32 bits theirs, however many elements come before.
template <class Op, class Emit>
constexpr int REBASED_BATCHES = !FewDigits<typename Op::In>::yes || sizeof(typename Emit::Out) == 8 ? 1 : 32;

// Lines side by side, in planes, Groups * Vector a thread: Vector that one load takes, in groups a warp's width apart, so that the
// warp reads and writes whole stretches of a row. `parts` are the columns of a plane, `tiles` its blocks. Without
// Contiguous operands' columns lie apart, units the bytes from one to the next, and Vector is 1.
template <class Op, class Emit, int Threads, int Groups, int Vector, int Batch, bool Contiguous, bool Exclusive>
struct ThreadColumnScan {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const int columns = Groups * Vector;
    typedef ThreadColumnOps<Op, Emit, columns, Exclusive> Ops;
    typedef SerialColumnOps<Op, Emit, columns, Exclusive> Tables;
    const Scan& task;
    const u64 plane, first, column;  // the warp's first column, and the thread's
    const u8 *a, *b;                 // of its next row
    u8* out;
    u64 left;                        // rows
    GR_HD ThreadColumnScan(const Scan& scan)
        : task(scan), plane(scan.tiles == 1 ? blockIdx.x : scan.by_lines.of(blockIdx.x)),
          first(((blockIdx.x - plane * scan.tiles) * Threads + threadIdx.x / 32 * 32) * columns),
          column(first + threadIdx.x % 32 * Vector), left(scan.length) {
        const Offset begin = task.line.at(plane);
        a = task.a + begin.a + (i64)column * unit_a();
        b = task.b + begin.b + (i64)column * unit_b();
        out = (u8*)task.out + begin.c + column * sizeof(Out);
    }

    GR_HD i64 unit_a() const { return Contiguous ? Reader<In>::size_a : (i64)task.unit_a; }
    GR_HD i64 unit_b() const { return Contiguous ? Reader<In>::size_b : (i64)task.unit_b; }
    GR_HD bool is_whole() const { return first + 32 * columns <= task.parts; }
    // Whole: all lines of the warp exist. Those of a group exist together or not at all.
    template <bool Whole> GR_HD bool has(int group) const { return Whole || column + group * 32 * Vector < task.parts; }
    GR_HD u64 line(int j) const { return plane * task.parts + column + j / Vector * 32 * Vector + j % Vector; }
    template <bool Whole> GR_HD void load(Pack<In, columns>& row) {
#pragma unroll
        for (int g = 0; g < Groups; g++) {
            if (!has<Whole>(g)) {
                unrolled<Vector>([&](int j) { row.at[g * Vector + j] = In(); });
                continue;
            }
            const i64 at = g * 32 * Vector;
            const auto pack = Reader<In>::template load<Vector>(a + at * unit_a(), b + at * unit_b());
            unrolled<Vector>([&](int j) { row.at[g * Vector + j] = pack.at[j]; });
        }
        a += task.step_a;
        b += task.step_b;
    }
    template <bool Whole> GR_HD void store(const Pack<Out, columns>& row) {
#pragma unroll
        for (int g = 0; g < Groups; g++) {
            Pack<Out, Vector> pack;
#pragma unroll
            for (int j = 0; j < Vector; j++) pack.at[j] = row.at[g * Vector + j];
            if (has<Whole>(g)) store_pack_streaming<Out, Vector>((Out*)out + g * 32 * Vector, pack);
        }
        out += task.step_out;
    }
    // Rows, or with Last what is left of them, all of which are loaded before the first is scanned.
    template <bool Whole, int Rows, bool Last, class Columns> GR_HD void take(Columns& scan) {
        Pack<In, columns> batch[Rows];
        unrolled<Rows>([&](int i) { if (!Last || i < left) load<Whole>(batch[i]); });
        const auto put = [&](int, const Pack<Out, columns>& row) { store<Whole>(row); };
        scan_batch<Pack<Out, columns>, (Rows < Ops::together ? Rows : Ops::together), !Last>(scan, batch, left, put);
    }
    template <bool Whole, int Rows, class Columns> GR_HD void take_all(Columns& scan) {
        for (; left >= Rows; left -= Rows) take<Whole, Rows, false>(scan);
        if (Rows > 1 && left > 0) take<Whole, Rows, true>(scan);
#pragma unroll
        for (int j = 0; j < columns; j++)
            if (task.totals && has<Whole>(j / Vector)) LineEnds<Op>::keep(task, line(j), scan.after(j));
    }
    // The state before a column; of one that does not exist, that of the first.
    template <bool Whole> GR_HD State before(int j, const State& first) const {
        if (!task.carry) return Op::identity();
        return has<Whole>(j / Vector) ? LineEnds<Op>::before(task, line(j)) : first;
    }
    // All lanes of a warp call. Shared memory: an Entry for each element of a line and each warp, where counts have a table.
    template <bool Whole> GR_HD void run() {
        State state[columns];
        unrolled<columns>([&](int j) { state[j] = before<Whole>(j, j > 0 ? state[0] : Op::identity()); });
        if constexpr (Tables::uses_table) if (!task.carry || ReciprocalTable::counts_agree(state, has<Whole>(0))) {
            typename Tables::EqualCounts scan(state, task.option);
            scan.begin(0, (u32)left, GR_SHARED + threadIdx.x / 32 * left * sizeof(ReciprocalTable::Entry));
            __syncwarp();
            return take_all<Whole, Batch>(scan);
        }
        UnlikeCounts<Op, Emit, columns, Exclusive> scan(state, task.option);
        if constexpr (KeepsIndex<Op>::yes) scan.begin_at(task.index, task.step_index);
        take_all<Whole, (Tables::uses_table ? 1 : Batch)>(scan);
    }
};

// Grid: the blocks of all planes. Results lie side by side.
template <class Op, class Emit, int Threads, int Groups, int Vector, int Batch, bool Contiguous, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : ThreadColumnOps<Op, Emit, 1, Exclusive>::resident / Threads)
    scan_thread_columns(const __grid_constant__ Scan task) {
    ThreadColumnScan<Op, Emit, Threads, Groups, Vector, Batch, Contiguous, Exclusive> work(task);
    if (work.is_whole()) work.template run<true>();
    else work.template run<false>();
}

// Lines at any strides: a thread takes a line, or a part of one; or a warp does (Lanes), where elements of a line are neighbours in
// memory. Lines too few to fill the GPU are split: parts are folded, their states scanned, and each part is scanned from its
// prefix (reduce-then-scan, Merrill and Grimshaw 2009).

// The part of a line that a thread takes, or a warp.
struct LinePart { u64 line, split, first, end; };
GR_HD LinePart part_of(const Scan& task, u64 number) {
    const u64 split = task.tiles == 1 ? 0 : task.lines == 1 ? number : task.by_lines.of(number);
    const u64 share = (task.length + task.tiles - 1) / task.tiles;
    const u64 first = split * share, end = first + share;
    return {number - split * task.lines, split, first < task.length ? first : task.length,
            end < task.length ? end : task.length};
}

// Loads up to Batch elements from `at` on, before any is used.
template <class In, int Batch>
GR_HD void load_batch(const Scan& task, const StridedLine<In>& line, u64 at, u64 end, In (&batch)[Batch]) {
#pragma unroll
    for (int i = 0; i < Batch; i++)
        if (at + i < end) batch[i] = line.get(task, at + i);
}
// Folds up to Batch elements from `at` on, onto a state.
template <class Op, int Batch>
GR_HD typename Op::State fold_batch(const Scan& task, typename Op::State state, u64 at, u64 end,
                                    const typename Op::In (&batch)[Batch]) {
#pragma unroll
    for (int i = 0; i < Batch; i++)
        if (at + i < end) state = ScanStep<Op>::of(state, batch[i], index_of(task, at + i));
    return state;
}

// Grid: Lanes threads for each part. The state of each part, by splits, then lines.
template <class Op, int Threads, int Batch, int Lanes>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_fold_parts(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const u64 number = ((u64)blockIdx.x * Threads + threadIdx.x) / Lanes;
    if (number >= task.lines * task.tiles) return;
    const LinePart part = part_of(task, number);
    const StridedLine<typename Op::In> line(task, task.line.at(part.line), part.line);
    State state = Op::identity();
    for (u64 at = part.first; at < part.end; at += Lanes * Batch) {
        const u64 first = at + threadIdx.x % Lanes * Batch;
        typename Op::In batch[Batch];
        load_batch<typename Op::In, Batch>(task, line, first, part.end, batch);
        if constexpr (Lanes == 1) state = fold_batch<Op>(task, state, first, part.end, batch);
        else state = Op::combine(state, warp_reduce<Op, Lanes>(fold_batch<Op>(task, Op::identity(), first, part.end, batch)));
    }
    if (threadIdx.x % Lanes == 0) ((State*)task.states)[number] = state;
}

// Grid: a warp for each line. Replaces the states of parts by their prefixes.
template <class Op, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_parts(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const u64 line = ((u64)blockIdx.x * Threads + threadIdx.x) / 32;
    if (line >= task.lines) return;
    State before = task.carry ? LineEnds<Op>::before(task, line) : Op::identity();
    State* const states = (State*)task.states + line;
    const u64 lane = threadIdx.x % 32;
    State next = lane < task.tiles ? states[lane * task.lines] : Op::identity();
    for (u64 split = lane; split - lane < task.tiles; split += 32) {
        const State through = warp_scan<Op, 32>(next);
        next = split + 32 < task.tiles ? states[(split + 32) * task.lines] : Op::identity();
        const State own = lane_before<Op, 32>(through);
        if (split < task.tiles) states[split * task.lines] = Op::combine(before, own);
        before = Op::combine(before, shuffle_from(0xffffffffu, through, 31, 32));
    }
}

// A batch of a line's elements from `at` on, or with Last what is left of them before `end`.
template <class Op, class Emit, int Batch, int Together, bool Last, class LineScan>
GR_HD void scan_part(const Scan& task, const StridedLine<typename Op::In>& line, u64 at, u64 end, u8* out, LineScan& scan) {
    typedef typename Emit::Out Out;
    Pack<typename Op::In, 1> batch[Batch];
#pragma unroll
    for (int i = 0; i < Batch; i++)
        if (!Last || at + i < end) batch[i].at[0] = line.get(task, at + i);
    const auto put = [&](int i, const Pack<Out, 1>& to) { store_streaming((Out*)(out + (i64)(at + i) * task.step_out), to.at[0]); };
    scan_batch<Pack<Out, 1>, (Batch < Together ? Batch : Together), !Last>(scan, batch, end - at, put);
}
// By a thread; the state behind the part.
template <class Op, class Emit, int Batch, bool Exclusive>
GR_HD typename Op::State scan_by_thread(const Scan& task, const StridedLine<typename Op::In>& line, const LinePart& part, u8* out,
                                        typename Op::State before) {
    typedef ThreadColumnOps<Op, Emit, 1, Exclusive> Ops;
    const int batches = REBASED_BATCHES<Op, Emit>;
    const typename Op::State state[1] = {before};
    typename Ops::Scan scan(state, task.option);
    if constexpr (KeepsIndex<Op>::yes) scan.begin_at(index_of(task, part.first), task.step_index);
    u64 at = part.first;
    for (; at + Batch <= part.end; at += Batch) {
        scan_part<Op, Emit, Batch, Ops::together, false>(task, line, at, part.end, out, scan);
        if constexpr (ShiftedPowerSums<Op>::exists)  // variances of the next elements are about the mean of all before
            if ((at - part.first) / Batch % batches == batches - 1) scan = typename Ops::Scan({scan.after(0)}, task.option);
    }
    if (at < part.end) scan_part<Op, Emit, Batch, Ops::together, true>(task, line, at, part.end, out, scan);
    return scan.after(0);
}
// All lanes of a warp call, each for Batch neighbours at a time; each gets the state behind the part.
template <class Op, class Emit, int Batch, bool Exclusive>
GR_HD typename Op::State scan_by_warp(const Scan& task, const StridedLine<typename Op::In>& line, const LinePart& part, u8* out,
                                      typename Op::State before) {
    typedef typename Op::State State;
    for (u64 at = part.first; at < part.end; at += 32 * Batch) {
        const u64 first = at + threadIdx.x % 32 * Batch;
        typename Op::In batch[Batch];
        load_batch<typename Op::In, Batch>(task, line, first, part.end, batch);
        const State through = warp_scan<Op, 32>(fold_batch<Op>(task, Op::identity(), first, part.end, batch));
        State state = Op::combine(before, lane_before<Op, 32>(through));
#pragma unroll
        for (int i = 0; i < Batch; i++) {
            if (first + i >= part.end) break;
            store_streaming((typename Emit::Out*)(out + (i64)(first + i) * task.step_out),
                            scan_one<Op, Emit, Exclusive>(state, batch[i], task.option, index_of(task, first + i)));
        }
        before = Op::combine(before, shuffle_from(0xffffffffu, through, 31, 32));
    }
    return before;
}

// Grid: Lanes threads for each part. With Split, prefixes are those that scan_parts has left.
template <class Op, class Emit, int Threads, int Batch, int Lanes, bool Split, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_lines(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const u64 number = ((u64)blockIdx.x * Threads + threadIdx.x) / Lanes;
    if (number >= task.lines * task.tiles) return;
    const LinePart part = part_of(task, number);
    const Offset begin = task.line.at(part.line);
    const StridedLine<typename Op::In> line(task, begin, part.line);
    u8* const out = (u8*)task.out + begin.c;
    State state = Op::identity();
    if (Split) state = ((const State*)task.states)[number];
    else if (task.carry) state = LineEnds<Op>::before(task, part.line);
    if constexpr (Lanes == 1) state = scan_by_thread<Op, Emit, Batch, Exclusive>(task, line, part, out, state);
    else state = scan_by_warp<Op, Emit, Batch, Exclusive>(task, line, part, out, state);
    const bool is_last = part.end == task.length && (part.first < part.end || part.split == 0);
    if (task.totals && is_last && threadIdx.x % Lanes == 0) LineEnds<Op>::keep(task, part.line, state);
}
