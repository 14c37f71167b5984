// Scans lines at any strides, a thread a line: several short ones that lie side by side a thread, or of a few long ones a part.
#pragma once
#include "../core/line.cuh"
#include "../core/pack.cuh"
#include "../core/scan_task.cuh"
#include "../core/state.cuh"
#include "../core/task.cuh"
#include "scan_state.cuh"

// All lanes of a warp call, each with Count results a warp's width apart, of which lane 0's first goes to `row`, at any alignment.
// Results are rotated through the lanes, so that each store of the warp fills whole sectors of memory, but for both ends.
template <int Count, class Out> GR_HD void store_rotated(u8* row, const Out (&results)[Count]) {
    const u32 lane = threadIdx.x % 32, turn = (u32)((u64)row / sizeof(Out)) % 32;
    const bool own = lane >= turn;  // else the result of the store before
    Out* const to = (Out*)row + lane - turn;
    Out last = shuffle_from(0xffffffffu, results[0], (int)((lane - turn) % 32), 32);
    if (own) store_once(to, last);
#pragma unroll
    for (int j = 1; j < Count; j++) {
        const Out now = shuffle_from(0xffffffffu, results[j], (int)((lane - turn) % 32), 32);
        store_once(to + j * 32, own ? now : last);
        last = now;
    }
    if (!own) store_once(to + Count * 32, last);
}

// Lines side by side, in planes, ColumnsPerThread a thread: every 32nd of a warp's neighbouring lines, so that the warp reads and
// writes whole stretches of a row. `parts` are the columns of a plane, `tiles` its blocks, units the bytes from column to column.
template <class Op, class Emit, int Threads, int ColumnsPerThread, int Batch, bool Exclusive> struct ThreadColumnScan {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    const Scan& task;
    const u64 plane, first, column;  // the warp's first column, and the thread's
    GR_HD ThreadColumnScan(const Scan& scan)
        : task(scan), plane(scan.tiles == 1 ? blockIdx.x : scan.by_lines.of(blockIdx.x)),
          first(((blockIdx.x - plane * scan.tiles) * Threads + threadIdx.x / 32 * 32) * ColumnsPerThread),
          column(first + threadIdx.x % 32) {}

    GR_HD bool is_whole() const { return first + 32 * ColumnsPerThread <= task.parts; }
    // Whole: all lines of the warp exist.
    template <bool Whole> GR_HD bool has(int j) const { return Whole || column + j * 32 < task.parts; }
    GR_HD u64 line(int j) const { return plane * task.parts + column + j * 32; }
    template <bool Whole> GR_HD void run() const {
        State state[ColumnsPerThread];
#pragma unroll
        for (int j = 0; j < ColumnsPerThread; j++)
            state[j] = task.carry && has<Whole>(j) ? ((const State*)task.carry)[line(j)] : Op::identity();
        const Offset begin = task.line.at(plane);
        const i64 step_a = (i64)task.unit_a, step_b = (i64)task.unit_b;
        const u8 *a = task.a + begin.a + (i64)column * step_a, *b = task.b + begin.b + (i64)column * step_b;
        u8* out = (u8*)task.out + begin.c + column * sizeof(Out);
        for (u64 row = 0; row < task.length; row += Batch) {
            In batch[Batch][ColumnsPerThread];
#pragma unroll
            for (int i = 0; i < Batch; i++) {
#pragma unroll
                for (int j = 0; j < ColumnsPerThread; j++)
                    if (row + i < task.length && has<Whole>(j)) batch[i][j] = Reader<In>::one(a + j * 32 * step_a, b + j * 32 * step_b);
                a += task.step_a;
                b += task.step_b;
            }
#pragma unroll
            for (int i = 0; i < Batch; i++) {
                if (row + i >= task.length) break;
                Out results[ColumnsPerThread];
#pragma unroll
                for (int j = 0; j < ColumnsPerThread; j++) {
                    if (!has<Whole>(j)) continue;
                    if (Exclusive) results[j] = Emit::of(ExclusiveState<Op>::of(state[j], batch[i][j]), task.option);
                    state[j] = ScanStep<Op>::of(state[j], batch[i][j], index_of(task, row + i));
                    if (!Exclusive) results[j] = Emit::of(state[j], task.option);
                }
                if (Whole) store_rotated<ColumnsPerThread>(out - threadIdx.x % 32 * sizeof(Out), results);
                else
#pragma unroll
                    for (int j = 0; j < ColumnsPerThread; j++)
                        if (has<Whole>(j)) store_once((Out*)out + j * 32, results[j]);
                out += task.step_out;
            }
        }
#pragma unroll
        for (int j = 0; j < ColumnsPerThread; j++)
            if (task.totals && has<Whole>(j)) ((State*)task.totals)[line(j)] = state[j];
    }
};

// Grid: the blocks of all planes. Results lie side by side.
template <class Op, class Emit, int Threads, int ColumnsPerThread, int Batch, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_thread_columns(const __grid_constant__ Scan task) {
    const ThreadColumnScan<Op, Emit, Threads, ColumnsPerThread, Batch, Exclusive> work(task);
    if (work.is_whole()) work.template run<true>();
    else work.template run<false>();
}

// Lines at any strides: a thread takes a line, or a part of one. Lines too few to fill the GPU are split: parts are folded, their
// states scanned, and each part is scanned from its prefix.

// The part of a line that a thread takes.
struct LinePart {
    u64 line, split, first, end;
};
GR_HD LinePart part_of(const Scan& task, u64 thread) {
    const u64 split = task.tiles == 1 ? 0 : task.lines == 1 ? thread : task.by_lines.of(thread);
    const u64 share = (task.length + task.tiles - 1) / task.tiles;
    const u64 first = split * share, end = first + share;
    return {thread - split * task.lines, split, first < task.length ? first : task.length,
            end < task.length ? end : task.length};
}

// Loads up to Batch elements from `at` on, before any is used.
template <class In, int Batch>
GR_HD void load_batch(const Scan& task, const StridedLine<In>& line, u64 at, u64 end, In (&batch)[Batch]) {
#pragma unroll
    for (int i = 0; i < Batch; i++)
        if (at + i < end) batch[i] = line.get(task, at + i);
}

// Grid: threads for all parts. The state of each part, by splits, then lines.
template <class Op, int Threads, int Batch>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_fold_parts(const __grid_constant__ Scan task) {
    const u64 thread = (u64)blockIdx.x * Threads + threadIdx.x;
    if (thread >= task.lines * task.tiles) return;
    const LinePart part = part_of(task, thread);
    const StridedLine<typename Op::In> line(task, task.line.at(part.line), part.line);
    typename Op::State state = Op::identity();
    for (u64 at = part.first; at < part.end; at += Batch) {
        typename Op::In batch[Batch];
        load_batch<typename Op::In, Batch>(task, line, at, part.end, batch);
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (at + i < part.end) state = ScanStep<Op>::of(state, batch[i], index_of(task, at + i));
    }
    ((typename Op::State*)task.states)[thread] = state;
}

// Grid: threads for all lines. Replaces the states of parts by their prefixes.
template <class Op, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_parts(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const u64 line = (u64)blockIdx.x * Threads + threadIdx.x;
    if (line >= task.lines) return;
    State state = task.carry ? ((const State*)task.carry)[line] : Op::identity();
    State* states = (State*)task.states + line;
    for (u64 split = 0; split < task.tiles; split++) {
        const State own = states[split * task.lines];
        states[split * task.lines] = state;
        state = Op::combine(state, own);
    }
}

// Grid: threads for all parts. With Split, prefixes are those that scan_parts has left.
template <class Op, class Emit, int Threads, int Batch, bool Split, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_lines(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const u64 thread = (u64)blockIdx.x * Threads + threadIdx.x;
    if (thread >= task.lines * task.tiles) return;
    const LinePart part = part_of(task, thread);
    const Offset begin = task.line.at(part.line);
    const StridedLine<typename Op::In> line(task, begin, part.line);
    State state = Op::identity();
    if (Split) state = ((const State*)task.states)[thread];
    else if (task.carry) state = ((const State*)task.carry)[part.line];
    u8* out = (u8*)task.out + begin.c;
    for (u64 at = part.first; at < part.end; at += Batch) {
        typename Op::In batch[Batch];
        load_batch<typename Op::In, Batch>(task, line, at, part.end, batch);
#pragma unroll
        for (int i = 0; i < Batch; i++) {
            if (at + i >= part.end) break;
            typename Emit::Out* to = (typename Emit::Out*)(out + (i64)(at + i) * task.step_out);
            if (Exclusive) store_once(to, Emit::of(ExclusiveState<Op>::of(state, batch[i]), task.option));
            state = ScanStep<Op>::of(state, batch[i], index_of(task, at + i));
            if (!Exclusive) store_once(to, Emit::of(state, task.option));
        }
    }
    const bool is_last = part.end == task.length && (part.first < part.end || part.split == 0);
    if (task.totals && is_last) ((State*)task.totals)[part.line] = state;
}
