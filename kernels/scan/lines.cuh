// Scans lines at any strides: a thread a line, or a part of one, so that lines that lie side by side are read together.
// Lines too few to fill the GPU are split: parts are folded, their states scanned, and each part scanned from its base.
#pragma once
#include "../core/line.cuh"
#include "../core/scan_task.cuh"
#include "../core/task.cuh"
#include "flow.cuh"

// The part of a line that a thread takes.
struct Part {
    u64 line, split, first, end;
};
GR_HD Part part_of(const Scan& task, u64 thread) {
    const u64 split = task.tiles == 1 ? 0 : task.lines == 1 ? thread : task.by_lines.of(thread);
    const u64 share = (task.length + task.tiles - 1) / task.tiles;
    const u64 first = split * share, end = first + share;
    return {thread - split * task.lines, split, first < task.length ? first : task.length,
            end < task.length ? end : task.length};
}

// Loads up to Batch elements from `at` on, before any is used.
template <class In, int Batch>
GR_HD void load_batch(const Scan& task, const Stretch<In>& line, u64 at, u64 end, In (&batch)[Batch]) {
#pragma unroll
    for (int i = 0; i < Batch; i++)
        if (at + i < end) batch[i] = line.get(task, at + i);
}

// Grid: threads for all parts. The state of each part, by splits, then lines.
template <class Op, int Threads, int Batch>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_fold_parts(const __grid_constant__ Scan task) {
    const u64 thread = (u64)blockIdx.x * Threads + threadIdx.x;
    if (thread >= task.lines * task.tiles) return;
    const Part part = part_of(task, thread);
    const Stretch<typename Op::In> line(task, task.line.at(part.line), part.line);
    typename Op::State state = Op::identity();
    for (u64 at = part.first; at < part.end; at += Batch) {
        typename Op::In batch[Batch];
        load_batch<typename Op::In, Batch>(task, line, at, part.end, batch);
#pragma unroll
        for (int i = 0; i < Batch; i++)
            if (at + i < part.end) state = Take<Op>::of(state, batch[i], index_of(task, at + i));
    }
    ((typename Op::State*)task.states)[thread] = state;
}

// Grid: threads for all lines. States of parts to what comes before each.
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

// Grid: threads for all parts. With Split, bases are those that scan_parts has left.
template <class Op, class Emit, int Threads, int Batch, bool Split, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_lines(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const u64 thread = (u64)blockIdx.x * Threads + threadIdx.x;
    if (thread >= task.lines * task.tiles) return;
    const Part part = part_of(task, thread);
    const Offset begin = task.line.at(part.line);
    const Stretch<typename Op::In> line(task, begin, part.line);
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
            if (Exclusive) store_once(to, Emit::of(Before<Op>::of(state, batch[i]), task.option));
            state = Take<Op>::of(state, batch[i], index_of(task, at + i));
            if (!Exclusive) store_once(to, Emit::of(state, task.option));
        }
    }
    const bool is_last = part.end == task.length && (part.first < part.end || part.split == 0);
    if (task.totals && is_last) ((State*)task.totals)[part.line] = state;
}
