// Rows of a few bytes at no alignment, one as far from the next as the next from the one behind it: a tile of rows is staged
// through shared memory, with what lies between them, and a thread takes a row, or several that fill words, from there. Other
// blocks' copies are on their way while this one works.
#pragma once
#include "../core/copy.cuh"
#include "../core/line.cuh"
#include "../core/shared.cuh"
#include "../monoid/moments.cuh"

// The rows that a block takes: a tile of `slots` rows of a plane, which has `by_width.size` rows, step_b bytes apart, in `tiles`
// tiles. Planes lie anywhere.
struct StagedTile {
    u64 plane;  // its first row
    u64 first;  // row of the plane
    u32 rows;
    template <int Chunks> GR_HD StagedTile(const Task<Chunks>& task) {
        const u64 number = task.tiles == 1 ? blockIdx.x : task.by_tiles.of(blockIdx.x), size = task.by_width.size;
        plane = number * size;
        first = (blockIdx.x - number * task.tiles) * task.slots;
        rows = (u32)(size - first < task.slots ? size - first : task.slots);
    }
    GR_HD u64 row(u32 of_tile) const { return plane + first + of_tile; }
};

// All threads call. Starts copying a tile's rows, of so many bytes and of a line that begins so far from the chunk's first, from
// the start of a cache line on: the plane's rows before the tile fill that. What does not fill 16 bytes at either end of the plane
// goes by elements.
// Where the tile's first row is; shared memory holds 142 bytes more than its rows.
template <class In, int Threads, int Chunks>
GR_HD const In* stage_stretches(const Task<Chunks>& task, u64 row_bytes, const u8* line, const StagedTile& tile, u8* to) {
    const u64 left = task.by_width.size - tile.first - 1;
    const u8* from = line + task.row.at(tile.plane).a + (i64)tile.first * task.step_b;
    const u32 lead = (u32)((u64)from % (tile.first ? 128 : 16));
    const u64 owned = lead + left * task.step_b + row_bytes, wanted = (lead + (tile.rows - 1) * task.step_b + row_bytes + 15) / 16;
    const u32 whole = (u32)(owned / 16 < wanted ? owned / 16 : wanted), begin = tile.first == 0 && lead ? 1 : 0;
    from -= lead;
#pragma unroll 4
    for (u32 pack = begin + threadIdx.x; pack < whole; pack += Threads) copy_async(to + 16 * pack, from + 16 * pack);
    const u32 head = lead + threadIdx.x * sizeof(In), tail = 16 * whole + threadIdx.x * sizeof(In);
    if (begin && head < 16 && head < owned) *(In*)(to + head) = *(const In*)(from + head);
    if (whole < wanted && tail < owned && tail >= 16 * begin) *(In*)(to + tail) = *(const In*)(from + tail);
    return (const In*)(to + lead);
}
template <class In, int Threads, int Chunks>
GR_HD const In* stage_rows(const Task<Chunks>& task, const u8* line, const StagedTile& tile, u8* to) {
    return stage_stretches<In, Threads>(task, task.length * sizeof(In), line, tile, to);
}
// Elements from one row to the next in shared memory.
template <class In, int Chunks> GR_HD u32 staged_step(const Task<Chunks>& task) { return (u32)task.step_b / sizeof(In); }

// What a row of Length elements gives, those of `pack` from element `first` on, whose indices are so far apart.
template <class Op, int Length, int Count, int Chunks>
GR_HD typename Op::State row_state(const Task<Chunks>& task, i64 step, const Pack<typename Op::In, Count>& pack, int first) {
    Pack<typename Op::In, 1> packs[Length];
#pragma unroll
    for (int k = 0; k < Length; k++) packs[k].at[0] = pack.element(first + k);
    typename Op::Acc acc = Op::start();
    Op::template absorb_packs<1>(acc, packs, task.base[0].index, step, step);
    return Op::settle(acc);
}
// Finishes Rows rows of Length elements, one behind another. With Checked it answers false where one may have had a NaN in it.
template <class Op, class Emit, int Length, int Rows, bool Checked, int Count, int Chunks>
GR_HD bool finish_rows(const Task<Chunks>& task, i64 step, const Pack<typename Op::In, Count>& pack,
                       Pack<typename Emit::Out, Rows>& to) {
    bool good = true;
#pragma unroll
    for (int r = 0; r < Rows; r++) {
        const auto state = row_state<Op, Length>(task, step, pack, r * Length);
        if constexpr (Checked) good = good && !is_suspect(state);
        to.at[r] = Emit::of(state, task.option);
    }
    return good;
}
template <class Op, class Emit, int Length, int Rows, int Count, int Chunks>
GR_HD Pack<typename Emit::Out, Rows> results_of(const Task<Chunks>& task, i64 step, const Pack<typename Op::In, Count>& pack) {
    Pack<typename Emit::Out, Rows> found;
    if constexpr (Clean<Op>::simpler)
        if (finish_rows<typename Clean<Op>::type, Emit, Length, Rows, true>(task, step, pack, found)) return found;
    finish_rows<Op, Emit, Length, Rows, false>(task, step, pack, found);
    return found;
}

// N elements of shared memory, by words of Bytes, at a multiple of which they begin.
template <class T, int N, int Bytes> GR_HD Pack<T, N> words_of(const T* from) {
    typedef typename Word<Bytes>::type W;
    union { W words[sizeof(T) * N / Bytes]; Pack<T, N> pack; } both;
#pragma unroll
    for (int i = 0; i < (int)sizeof(T) * N / Bytes; i++) both.words[i] = ((const W*)from)[i];
    return both.pack;
}

// Grid: one block a tile of rows, each of Length elements. Uses a tile of shared memory. With Rows > 1 a thread takes as many
// at once, from the tile's row `tail` on: they lie one behind another, together in whole words, and their cells do so too.
// For any operator.
template <class Op, class Emit, int Length, int Rows, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_staged_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    const StagedTile rows(task);
    const In* tile = stage_rows<In, Threads>(task, task.base[0].a, rows, (u8*)GR_SHARED);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    Out* out = (Out*)task.out + task.first_cell;
    const auto take_one = [&](u32 r) {
        const auto row = words_of<In, Length, sizeof(In)>(tile + r * staged_step<In>(task));
        store_streaming(out + task.row.at(rows.row(r)).c, results_of<Op, Emit, Length, 1>(task, task.step_c, row).at[0]);
    };
    if constexpr (Rows == 1) {
        for (u32 r = threadIdx.x; r < rows.rows; r += Threads) take_one(r);
    } else {
        const int count = Rows * Length, bytes = WordBytes<count * sizeof(In), 16>::count;
        const int stored = Rows * sizeof(Out) < 16 ? Rows * sizeof(Out) : 16;
        const u32 before = (u32)task.tail;
        Out* cells = out + task.row.at(rows.row(0)).c;
        const bool whole = (u64)(cells + before) % stored == 0;
        if (threadIdx.x < before && threadIdx.x < rows.rows) take_one(threadIdx.x);
        for (u32 r = before + threadIdx.x * Rows; r < rows.rows; r += Threads * Rows) {
            if (r + Rows > rows.rows) {
                for (; r < rows.rows; r++) take_one(r);
                return;
            }
            const auto found = results_of<Op, Emit, Length, Rows>(task, task.step_c, words_of<In, count, bytes>(tile + r * Length));
            if (whole) {
                store_pack_streaming(cells + r, found);
            } else {
#pragma unroll
                for (int i = 0; i < Rows; i++) store_streaming(cells + r + i, found.at[i]);
            }
        }
    }
}

// Grid: one block a tile of planes, in the place of rows, each of Length lines of `length` columns. The last dimension of rows has
// those that a tile may have. Uses a tile of shared memory. A thread takes one column after another. For any operator.
template <class Op, class Emit, int Length, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_plane_columns(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const StagedTile planes(task);
    const i64 line_bytes = task.run.dim[0].a, step = task.run.dim[0].c;
    const u64 plane_bytes = (Length - 1) * line_bytes + task.length * sizeof(In);
    const u8* tile = (const u8*)stage_stretches<In, Threads>(task, plane_bytes, task.base[0].a, planes, (u8*)GR_SHARED);
    const u32 width = (u32)task.length, ahead = Threads / width, across = Threads - ahead * width;
    u32 plane = threadIdx.x / width, column = threadIdx.x - plane * width;
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell + task.row.at(planes.row(0)).c;
    const i64 plane_cells = task.row.dim[task.row.count - 1].c;
    while (plane < planes.rows) {
        const u8* from = tile + plane * (u32)task.step_b + column * (u32)sizeof(In);
        Pack<In, Length> lines;
#pragma unroll
        for (int k = 0; k < Length; k++) lines.at[k] = *(const In*)(from + k * (u32)line_bytes);
        const auto result = results_of<Op, Emit, Length, 1>(task, step, lines).at[0];
        store_streaming(out + plane * plane_cells + column * task.step_c, result);
        plane += ahead, column += across;
        if (column >= width) column -= width, plane++;
    }
}
