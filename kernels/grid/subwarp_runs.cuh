// Short rows at one distance from each other in each of several runs or chunks: the same rows of one after another are
// staged through shared memory, and sub-warps take them from there while the next are copied.
#pragma once
#include "subwarp_rows.cuh"

// What lanes exchange of a row of several lines: of positions the state itself, for each line has an index of its own.
template <class Op> struct RawOfLines : Raw<Op> {};
template <class T, bool Max, bool SkipNan>
struct RawOfLines<Arg<T, Max, SkipNan>> : RawState<Arg<T, Max, SkipNan>> {};

// Grid: one block a tile of rows, a row a sub-warp. Uses two tiles of
// shared memory, of `tail` bytes each. For commutative operators.
template <class Op, class Emit, int V, int Threads, int Lanes, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_subwarp_runs(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    typedef RawOfLines<Op> R;
    const StagedTile rows(task);
    const u64 lines = task.runs * task.chunks;
    const u32 row = threadIdx.x / Lanes, own = row < rows.rows ? row : 0;
    i64 index = 0;
    const auto stage = [&](u64 line, i64& at) {
        const Base* base;
        const Line<In, 1> begin = find_line<In, 1>(task, Offset{0, 0, 0}, line, base);
        at = begin.index;
        return stage_rows<In, Threads>(task, begin.a, rows, (u8*)GR_SHARED + (line & 1) * task.tail);
    };
    const In* tile = stage(0, index);
    commit_copies();
    auto acc = R::start();
    typename R::Pivot pivot = typename R::Pivot();
    for (u64 line = 0; line < lines; line++) {
        i64 next_index = 0;
        const In* next = line + 1 < lines ? stage(line + 1, next_index) : tile;
        commit_copies();
        wait_copies<1>();
        __syncthreads();
        const TileRow<In, V> mine(tile + own * staged_step<In>(task), row < rows.rows ? (i32)task.length : 0);
        take_line<R, Lanes>(acc, mine, pivot, line == 0, index, task.step_c);
        __syncthreads();
        tile = next;
        index = next_index;
    }
    const auto raw = reduce_to_all<R, Lanes>(R::raw(acc));
    if (row >= rows.rows || threadIdx.x % Lanes) return;
    const auto state = R::settle(raw, pivot, task.length * lines, task.base[0].index, task.step_c);
    store_streaming((typename Emit::Out*)task.out + task.first_cell + task.row.at(rows.row(row)).c, Emit::of(state, task.option));
}
