// Scans short lines that lie side by side: several a thread, for which it finds its place but once.
#pragma once
#include "../core/line.cuh"
#include "../core/scan_task.cuh"
#include "../core/task.cuh"
#include "flow.cuh"
#include "turned.cuh"

// Of a warp's neighbouring lines those that a thread takes: every 32nd, so that the warp reads and writes whole stretches of a row.
template <class Op, class Emit, int Threads, int Columns, int Batch, bool Exclusive> struct Abreast {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    const Scan& task;
    const u64 line;  // the first
    GR_HD Abreast(const Scan& scan) : task(scan), line(((u64)blockIdx.x * Threads + threadIdx.x / 32 * 32) * Columns + threadIdx.x % 32) {}

    // Whole: all of the lines exist.
    template <bool Whole> GR_HD bool has(int j) const { return Whole || line + j * 32 < task.lines; }
    template <bool Whole> GR_HD void run() const {
        State state[Columns];
#pragma unroll
        for (int j = 0; j < Columns; j++)
            state[j] = task.carry && has<Whole>(j) ? ((const State*)task.carry)[line + j * 32] : Op::identity();
        const u8 *a = task.a + line * Reader<In>::size_a, *b = task.b + line * Reader<In>::size_b;
        u8* out = (u8*)task.out + line * sizeof(Out);
        for (u64 row = 0; row < task.length; row += Batch) {
            In batch[Batch][Columns];
#pragma unroll
            for (int i = 0; i < Batch; i++) {
#pragma unroll
                for (int j = 0; j < Columns; j++)
                    if (row + i < task.length && has<Whole>(j))
                        batch[i][j] = Reader<In>::one(a + j * 32 * Reader<In>::size_a, b + j * 32 * Reader<In>::size_b);
                a += task.step_a;
                b += task.step_b;
            }
#pragma unroll
            for (int i = 0; i < Batch; i++) {
                if (row + i >= task.length) break;
                Out results[Columns];
#pragma unroll
                for (int j = 0; j < Columns; j++) {
                    if (!has<Whole>(j)) continue;
                    if (Exclusive) results[j] = Emit::of(Before<Op>::of(state[j], batch[i][j]), task.option);
                    state[j] = Take<Op>::of(state[j], batch[i][j]);
                    if (!Exclusive) results[j] = Emit::of(state[j], task.option);
                }
                if (Whole) store_turned<Columns>(out - threadIdx.x % 32 * sizeof(Out), results);
                else
#pragma unroll
                    for (int j = 0; j < Columns; j++)
                        if (has<Whole>(j)) store_once((Out*)out + j * 32, results[j]);
                out += task.step_out;
            }
        }
#pragma unroll
        for (int j = 0; j < Columns; j++)
            if (task.totals && has<Whole>(j)) ((State*)task.totals)[line + j * 32] = state[j];
    }
};

// Grid: threads for all lines, Columns each. Lines lie side by side in every array.
template <class Op, class Emit, int Threads, int Columns, int Batch, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_abreast(const __grid_constant__ Scan task) {
    const Abreast<Op, Emit, Threads, Columns, Batch, Exclusive> work(task);
    if ((u64)(blockIdx.x + 1) * (Threads * Columns) <= task.lines) work.template run<true>();
    else work.template run<false>();
}
