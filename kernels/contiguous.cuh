// Copies of an array of any strides in C order, where a kernel wants its elements one after another. They are copied as
// units of 1 to 16 bytes: what all strides are multiples of.
#pragma once
#include "core/pack.cuh"
#include "core/shared.cuh"
#include "core/task.cuh"

// How many bytes a thread copies at once: what one store takes.
const int COPIED = 16;

// Any thread calls. COPIED bytes of units, side by side at any multiple of one; with `has_room` as many bytes on either side
// may be read.
template <class Unit> GR_HD Pack<Unit, COPIED / sizeof(Unit)> load_near(const u8* from, bool has_room) {
    const int n = COPIED / sizeof(Unit);
    if ((u64)from % COPIED == 0) return load_pack<Unit, n>(from);
    if (has_room) return load_unaligned<Unit, n>(from);
    Pack<Unit, n> units;
#pragma unroll
    for (int i = 0; i < n; i++) units.at[i] = ((const Unit*)from)[i];
    return units;
}

// Where a unit lies, and how far on it is in its line and in each of Dims dimensions of lines: the next one is found by counting
// up, without a division. A line has `length` units, `step_a` bytes apart.
template <int Dims> struct Odometer {
    const Task<1>& task;
    const u8* from;
    u64 at, digits[Dims];
    GR_HD Odometer(const Task<1>& of, u64 unit) : task(of), from(of.base[0].a) {
        u64 line = task.length > 1 ? task.by_slots.of(unit) : unit;
        at = unit - line * task.length;
        from += (i64)at * task.step_a;
#pragma unroll
        for (int d = Dims - 1; d >= 0; d--) {
            const u64 turns = d > 0 ? task.row.dim[d].div.of(line) : 0;
            digits[d] = line - turns * task.row.dim[d].div.size;
            from += (i64)digits[d] * task.row.dim[d].a;
            line = turns;
        }
    }
    GR_HD void move() {
        from += task.step_a;
        if (++at < task.length) return;
        from -= (i64)at * task.step_a;
        at = 0;
#pragma unroll
        for (int d = Dims - 1; d >= 0; d--) {
            from += task.row.dim[d].a;
            if (++digits[d] < task.row.dim[d].div.size) return;
            from -= (i64)digits[d] * task.row.dim[d].a;
            digits[d] = 0;
        }
    }
};

// Grid: any number of blocks. `runs` units in all, in lines that begin where the Dims dimensions of `row` say. A thread writes
// COPIED bytes at a time.
template <class Unit, int Dims, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) contiguous_lines(const __grid_constant__ Task<1> task) {
    const int n = COPIED / sizeof(Unit);
    typedef Pack<Unit, n> Copied;
    const u64 whole = task.runs / n, step = (u64)gridDim.x * Threads;
    const bool has_unit_stride = task.step_a == sizeof(Unit);
    auto take = [&](u64 pack, Copied& to) {
        Odometer<Dims> next(task, pack * n);
        if (next.at + n <= task.length) {
            if (has_unit_stride) {
                to = load_near<Unit>(next.from, next.at >= n && next.at + 2 * n <= task.length);
            } else {
#pragma unroll
                for (int i = 0; i < n; i++) to.at[i] = *(const Unit*)(next.from + i * task.step_a);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < n; i++) {
            to.at[i] = *(const Unit*)next.from;
            next.move();
        }
    };
    for (u64 pack = (u64)blockIdx.x * Threads + threadIdx.x; pack < whole; pack += Loads * step) {
        Copied to[Loads];
#pragma unroll
        for (int i = 0; i < Loads; i++)
            if (pack + i * step < whole) take(pack + i * step, to[i]);
#pragma unroll
        for (int i = 0; i < Loads; i++)
            if (pack + i * step < whole) store_streaming((Copied*)task.out + pack + i * step, to[i]);
    }
    if (blockIdx.x > 0) return;
    for (u64 at = whole * n + threadIdx.x; at < task.runs; at += Threads)
        ((Unit*)task.out)[at] = *(const Unit*)Odometer<Dims>(task, at).from;
}

// Grid: planes x tiles of Side x Side units, that go through shared memory to be read along one axis and written along
// another. Of a plane, `length` units lie `step_a` bytes apart and are written `step_c` bytes apart; `slots` of them lie
// `step_b` bytes apart and are written side by side. Planes begin where `row` says. Shared: Side rows and a word each.
template <class Unit, int Side, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) contiguous_turned(const __grid_constant__ Task<1> task) {
    const u32 pitch = Side * sizeof(Unit) + (sizeof(Unit) < 4 ? 4 : sizeof(Unit));
    const u64 plane = task.runs > 1 ? task.by_runs.of(blockIdx.x) : blockIdx.x;
    const u32 across = (u32)((task.length + Side - 1) / Side), tile = (u32)(blockIdx.x - plane * task.runs);
    const u64 first = (u64)(tile % across) * Side, second = (u64)(tile / across) * Side;
    const Offset begin = task.row.at(plane);
    const u8* from = task.base[0].a + begin.a + (i64)first * task.step_a + (i64)second * task.step_b;
    u8* to = (u8*)task.out + begin.c + (i64)first * task.step_c + second * sizeof(Unit);
    const u32 width = task.length - first < Side ? (u32)(task.length - first) : Side;
    const u32 height = task.slots - second < Side ? (u32)(task.slots - second) : Side;
    const u32 along = threadIdx.x % Side, other = threadIdx.x / Side;
    if (along < width)
#pragma unroll 8
        for (u32 i = other; i < height; i += Threads / Side)
            *(Unit*)(GR_SHARED + i * pitch + along * sizeof(Unit)) = *(const Unit*)(from + along * task.step_a + i * task.step_b);
    __syncthreads();
    if (along < height)
#pragma unroll 8
        for (u32 i = other; i < width; i += Threads / Side)
            *(Unit*)(to + i * task.step_c + along * sizeof(Unit)) = *(const Unit*)(GR_SHARED + along * pitch + i * sizeof(Unit));
}
