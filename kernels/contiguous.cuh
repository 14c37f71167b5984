// Copies of an array of any strides in C order, where a kernel wants its elements one after another. They are copied as
// units of 1 to 16 bytes: what all strides are multiples of.
#pragma once
#include "core/pack.cuh"
#include "core/shared.cuh"
#include "core/task.cuh"

// How many bytes a thread copies at once: what one store takes.
const int COPIED = 16;

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
        if (++at == task.length) end_line();
    }
    // To the first unit of the next line, from behind the last one of this.
    GR_HD void end_line() {
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

// Any thread calls. COPIED bytes of units side by side, at any multiple of one: of those that are no part of the array, any.
template <class Unit> GR_HD Pack<Unit, COPIED / sizeof(Unit)> load_near(const Task<1>& task, const u8* from) {
    const int n = COPIED / sizeof(Unit);
    const i64 at = from - task.base[0].a;
    if (at >= task.low_a + COPIED && at + 2 * COPIED <= task.high_a) return load_unaligned<Unit, n>(from);
    Pack<Unit, n> units;
#pragma unroll
    for (int i = 0; i < n; i++) {
        const i64 byte = at + i * (i64)sizeof(Unit);
        if (byte >= task.low_a && byte < task.high_a) units.at[i] = ((const Unit*)from)[i];
    }
    return units;
}

// Any thread calls. COPIED bytes from one unit on, of lines of units side by side: those of its line, and of the next ones where it
// ends among them, which are loaded as if they went on before their begin.
template <class Unit, int Dims> GR_HD Pack<Unit, COPIED / sizeof(Unit)> load_across(Odometer<Dims>& next) {
    const int n = COPIED / sizeof(Unit);
    Pack<Unit, n> units = load_near<Unit>(next.task, next.from);
    u64 done = next.task.length - next.at;
#pragma unroll 1
    for (; done < n; done += next.task.length) {
        next.from += (next.task.length - next.at) * sizeof(Unit);
        next.at = next.task.length;
        next.end_line();
        const Pack<Unit, n> later = load_near<Unit>(next.task, next.from - done * sizeof(Unit));
#pragma unroll
        for (int i = 0; i < n; i++) units.at[i] = i < (int)done ? units.at[i] : later.at[i];
    }
    return units;
}

// Grid: any number of blocks. `runs` units in all, in lines that begin where the Dims dimensions of `row` say; Together: units of a
// line lie side by side. A thread writes COPIED bytes at a time.
template <class Unit, int Dims, bool Together, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) contiguous_lines(const __grid_constant__ Task<1> task) {
    const int n = COPIED / sizeof(Unit);
    typedef Pack<Unit, n> Copied;
    const u64 whole = task.runs / n, step = (u64)gridDim.x * Threads;
    auto take = [&](u64 pack, Copied& to) {
        Odometer<Dims> next(task, pack * n);
        if constexpr (Together) {
            to = load_across<Unit>(next);
        } else if (next.at + n <= task.length) {
#pragma unroll
            for (int i = 0; i < n; i++) to.at[i] = *(const Unit*)(next.from + i * task.step_a);
        } else {
#pragma unroll
            for (int i = 0; i < n; i++) {
                to.at[i] = *(const Unit*)next.from;
                next.move();
            }
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

// Grid: planes x tiles that go through shared memory, to be read along one axis and written along the axes behind it. Of a plane,
// `length` units lie side by side, or in reverse, `step_a` bytes apart, and are written `step_c` bytes apart; behind each of
// them stand `slots` units, which lie where `run` says and are written side by side. Planes begin where `row` says. A tile is Width
// of the first and Height of the second. Shared: Height offsets, and as many rows and a word each.
template <class Unit, int Width, int Height, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) contiguous_turned(const __grid_constant__ Task<1> task) {
    const u32 pitch = Width * sizeof(Unit) + (sizeof(Unit) < 4 ? 4 : sizeof(Unit));
    const u64 plane = task.runs > 1 ? task.by_runs.of(blockIdx.x) : blockIdx.x;
    const u32 across = (u32)((task.length + Width - 1) / Width), tile = (u32)(blockIdx.x - plane * task.runs);
    const u64 first = (u64)(tile % across) * Width, second = (u64)(tile / across) * Height;
    const Offset begin = task.row.at(plane);
    const u8* from = task.base[0].a + begin.a + (i64)first * task.step_a;
    u8* to = (u8*)task.out + begin.c + (i64)first * task.step_c + second * sizeof(Unit);
    const u32 width = task.length - first < Width ? (u32)(task.length - first) : Width;
    const u32 height = task.slots - second < Height ? (u32)(task.slots - second) : Height;
    i64* const offsets = (i64*)GR_SHARED;
    u8* const rows = GR_SHARED + Height * sizeof(i64);
    for (u32 i = threadIdx.x; i < height; i += Threads) offsets[i] = task.run.at(second + i).a;
    __syncthreads();
#pragma unroll 8
    for (u32 n = threadIdx.x; n < Width * Height; n += Threads) {
        const u32 along = n % Width, i = n / Width;
        if (along < width && i < height)
            *(Unit*)(rows + i * pitch + along * sizeof(Unit)) = *(const Unit*)(from + (i64)along * task.step_a + offsets[i]);
    }
    __syncthreads();
#pragma unroll 8
    for (u32 n = threadIdx.x; n < Width * Height; n += Threads) {
        const u32 along = n % Height, i = n / Height;
        if (along < height && i < width)
            *(Unit*)(to + i * task.step_c + along * sizeof(Unit)) = *(const Unit*)(rows + along * pitch + i * sizeof(Unit));
    }
}
