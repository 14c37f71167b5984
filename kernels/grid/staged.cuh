// Rows of a few bytes at no alignment, one as far from the next as the next from the one behind it: a tile of rows is staged
// through shared memory, with what lies between them, and a thread a row takes it from there. Other blocks' copies are on
// their way while this one works.
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

// All threads call. Starts copying a tile's rows, of a line that begins so far from the chunk's first, from the start of a cache
// line on: the plane's rows before the tile fill that. What does not fill 16 bytes at either end of the plane goes by elements.
// Where the tile's first row is; shared memory holds 142 bytes more than its rows.
template <class In, int Threads, int Chunks>
GR_HD const In* stage_rows(const Task<Chunks>& task, const u8* line, const StagedTile& tile, u8* to) {
    const u64 row_bytes = task.length * sizeof(In), left = task.by_width.size - tile.first - 1;
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
// Elements from one row to the next in shared memory.
template <class In, int Chunks> GR_HD u32 staged_step(const Task<Chunks>& task) { return (u32)task.step_b / sizeof(In); }

// The state of a row of Length elements in shared memory.
template <class Op, int Length, int Chunks>
GR_HD typename Op::State staged_state(const Task<Chunks>& task, const typename Op::In* row) {
    Pack<typename Op::In, 1> packs[Length];
#pragma unroll
    for (int k = 0; k < Length; k++) packs[k].at[0] = row[k];
    typename Op::Acc acc = Op::start();
    Op::template absorb_packs<1>(acc, packs, task.base[0].index, task.step_c, task.step_c);
    return Op::settle(acc);
}

// Grid: one block a tile of rows, each of Length elements. Uses a tile of shared memory.
// For any operator.
template <class Op, class Emit, int Length, int Threads, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_staged_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    const StagedTile rows(task);
    const In* tile = stage_rows<In, Threads>(task, task.base[0].a, rows, (u8*)GR_SHARED);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell;
    for (u32 r = threadIdx.x; r < rows.rows; r += Threads) {
        const In* row = tile + r * staged_step<In>(task);
        typename Emit::Out* cell = out + task.row.at(rows.row(r)).c;
        if constexpr (Clean<Op>::simpler) {
            const auto state = staged_state<typename Clean<Op>::type, Length>(task, row);
            if (!is_suspect(state)) {
                store_streaming(cell, Emit::of(state, task.option));
                continue;
            }
        }
        store_streaming(cell, Emit::of(staged_state<Op, Length>(task, row), task.option));
    }
}
