// Columns of bytes whose lines begin at different places of a word: a block copies its part of some lines to shared memory, each as
// far from 16 bytes as it lies in memory, and a thread takes words of its columns from there while the next lines are on their way.
#pragma once
#include "columns.cuh"
#include "../core/copy.cuh"

// The Items lines of a stage. A line has room for all of a block's threads, `wide` of which have a slot: as many bytes as the others
// would take may lie before its first element.
template <class In, int V, int Threads, int Items> struct LineStage {
    static const int slot = V * sizeof(In), wide = Threads - 16 / slot;
    static const int line_bytes = Threads * slot, packs = line_bytes / 16, bytes = Items * (line_bytes + 16);
    const u8 *low, *high;  // what the chunk owns
    i64 step;              // bytes from one line to the next
    u32 pitch;             // the same in shared memory, where lines lie as far from 16 bytes as they do in memory
    u32 width;             // bytes of the tile's columns

    // All threads call. Starts copying `count` lines from this one on. What does not fill 16 bytes of the chunk goes by elements.
    GR_HD void copy(u8* to, const u8* line, u32 count) const {
        const u32 first = (u32)((u64)line % 16);
#pragma unroll
        for (int i = 0; i < Items * packs / Threads; i++) {
            const u32 item = threadIdx.x + i * Threads, row = item / packs, at = 16 * (item % packs);
            const u32 place = first + row * pitch, lead = place % 16;
            if (row >= count || at >= lead + width) continue;
            const u8* from = line + (i64)row * step - lead + at;
            u8* pack = to + (place - lead) + at;
            if (from >= low && from + 16 <= high) {
                copy_async(pack, from);
            } else {
                for (u32 k = 0; k < 16; k += sizeof(In))
                    if (at + k >= lead && at + k < lead + width) *(In*)(pack + k) = *(const In*)(from + k);
            }
        }
    }
};

// The results of a tile whose threads have each a state of V columns of their own: through shared memory, so that neighbours write
// neighbouring cells. Block barrier.
template <class Op, class Emit, int V, int Threads, int Wide, class Running, class TaskT>
GR_HD void write_results(Running& columns, const TaskT& task, const Offset& row, u64 first_column) {
    typedef typename Emit::Out Out;
    Out* results = (Out*)GR_SHARED;
    if (threadIdx.x < Wide) {
#pragma unroll
        for (int j = 0; j < V; j++)
            results[threadIdx.x * (V + 1) + j] = Emit::of(settle_column<Op, V>(columns, j, task, row, 0, 1, 0), task.option);
    }
    __syncthreads();
    const u64 left = task.length - first_column;
    Out* out = (Out*)task.out + task.first_cell + row.c + (i64)first_column * task.step_c;
    for (u32 q = threadIdx.x; q < Wide * V && q < left; q += Threads) store_streaming(out + q * task.step_c, results[q + q / V]);
}

// Grid: one block a (split of the runs, tile of columns), and a split is of one chunk. Runs of a chunk are one stride apart. A line
// has `slots` slots, a whole number of tiles, the first of which begins with it. Uses two stages of shared memory, and what
// reduce_columns uses. For commutative operators that know no positions, of elements of one byte.
template <class Op, class Emit, int V, int Threads, int Items, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_staged_columns(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef LineStage<In, V, Threads, Items> Stage;
    const int wide = Stage::wide;
    const u64 split = task.tiles == 1 ? blockIdx.x : task.by_tiles.of(blockIdx.x), tile = blockIdx.x - split * task.tiles;
    const u64 outer = row_of(task, tile * wide), first_column = (tile * wide - outer * task.slots) * V;
    const auto row = task.row_at(outer);
    const SplitRuns<true, Task<Chunks>> share(task, split);
    const u64 count = share.begin < share.end ? share.end - share.begin : 0, left = task.length - first_column;
    const u8* line = share.base->a + row.a + (i64)share.begin * task.run.dim[0].a + first_column * sizeof(In);
    const i64 step = task.run.dim[0].a;
    const Stage stage = {share.base->a + task.low_a, share.base->a + task.high_a, step, Stage::line_bytes + ((u32)step & 15),
                         (u32)(left < wide * V ? left : wide * V) * (u32)sizeof(In)};
    u8* stages = (u8*)GR_SHARED;
    EvenColumns<Op, V> columns;
    columns.start();
    const i64 index[Items] = {}, column_offset[V] = {};  // positions do not count
    const auto rows_from = [&](u64 begin) { return (u32)(count - begin < Items ? count - begin : Items); };
    if (count) stage.copy(stages, line, rows_from(0));
    commit_copies();
    u32 other = 0;
#pragma unroll 1
    for (u64 begin = 0; begin < count; begin += Items, other ^= 1) {
        const u64 next = begin + Items;
        if (next < count) stage.copy(stages + (other ^ 1) * Stage::bytes, line + (i64)next * step, rows_from(next));
        commit_copies();
        wait_copies<1>();
        __syncthreads();
        const u32 rows = rows_from(begin);
        if (threadIdx.x < wide) {
            const u8* first = stages + other * Stage::bytes + (u32)((u64)(line + (i64)begin * step) % 16) + threadIdx.x * Stage::slot;
            Pack<In, V> packs[Items];
#pragma unroll
            for (int i = 0; i < Items; i++) packs[i] = load_unaligned<In, V>(first + i * stage.pitch);  // others are not taken
            if (rows == Items) take_batch(columns, packs, index, column_offset);
            else take_some(columns, packs, index, column_offset, (int)rows);
        }
        __syncthreads();
    }
    if constexpr (sizeof(typename Emit::Out) <= 8)
        if (task.splits == 1) return write_results<Op, Emit, V, Threads, wide>(columns, task, row, first_column);
    const TileStates<State, V> each;
    if (threadIdx.x < wide) {
#pragma unroll
        for (int j = 0; j < V; j++)
            each[threadIdx.x * V + j] = settle_column<Op, V>(columns, j, task, row, 0, 1, 0);
    }
    finish_tile<Op, Emit, V, Threads, wide, true, Finish, true>(task, tile, split);
}
