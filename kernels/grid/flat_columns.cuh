// Few columns whose lines lie close to each other: several lines are read as one long line, with what lies between their columns,
// and the block folds the periods of it before it publishes anything.
#pragma once
#include "columns.cuh"

// All threads call. Folds `rows` by `columns` states in shared memory down each column; column q is left in place q.
// Order is fixed, but not the rows': for commutative operators. Block barriers.
template <class Op, int Threads> GR_HD void fold_periods(u32 rows, u32 columns) {
    typename Op::State* each = (typename Op::State*)GR_SHARED;
    __syncthreads();
    for (u32 half = (rows + 1) / 2; rows > 1; rows = half, half = (rows + 1) / 2) {
        for (u32 i = threadIdx.x; i < (rows - half) * columns; i += Threads)
            each[i] = Op::combine(each[i], each[i + half * columns]);
        __syncthreads();
    }
}

// Where the elements of a run go: of `width` columns, `step` elements apart, of lines that are `pitch` apart.
struct Period {
    u32 length, width, pitch, step;
    GR_HD u32 line(u32 position) const { return position / pitch; }
    GR_HD u32 lines() const { return (length + pitch - 1) / pitch; }
    // The place of an element among all columns of all lines, or `nowhere` of what lies between them or is of another run.
    static const u32 nowhere = ~0u;
    GR_HD u32 place(u32 position) const {
        const u32 line = position / pitch, past = position - line * pitch, column = past / step;
        return position < length && column < width && column * step == past ? line * width + column : nowhere;
    }
};

// Grid: one block a (row, split of its runs), and a split is of one chunk. A run is a long line of `length` elements:
// lines of `by_width.size` columns, step_a bytes apart, `tiles` elements from one line to the next; `slots` slots, one a thread.
// step_b is the index from one short line to the next, step_c the output cell from one column to the next. Uses Threads * V states
// of shared memory. For commutative operators.
template <class Op, class Emit, int V, int Threads, int Items, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 4) reduce_flat_columns(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::State State;
    State* each = (State*)GR_SHARED;
    const u64 row = task.over_splits(blockIdx.x), split = blockIdx.x - row * task.splits;
    const u32 width = (u32)task.by_width.size, slot = threadIdx.x;
    const Period period = {(u32)task.length, width, (u32)task.tiles, (u32)task.step_a / (u32)sizeof(typename Op::In)};
    const Offset at = task.row.at(row);
    const u32 begins = slot * V - (u32)first_line<typename Op::In, V>(task, at, &task.base[0]).phase;  // wraps before the line
    EvenColumns<Op, V> columns;
    columns.start();
    i64 column_offset[V];
#pragma unroll
    for (int j = 0; j < V; j++) column_offset[j] = (i64)period.line(begins + j) * task.step_b;
    const SplitRuns<true, Task<Chunks>> share(task, split);
    const u64 begin = share.begin, end = share.end, count = slot < task.slots && begin < end ? end - begin : 0;
    absorb_columns<Op, V, Items, true>(columns, task, at, share.base, slot, begin, count, 1, column_offset);
    if (slot < task.slots) {
#pragma unroll
        for (int j = 0; j < V; j++) {
            const u32 place = period.place(begins + j);
            if (place == Period::nowhere) continue;
            State state = settle_column<Op, V>(columns, j, task, at, share.before + begin, 1, column_offset[j]);
            if (task.tail && share.is_last) state = with_tail<Op, V>(state, task, at, share.base, slot * V + j, column_offset[j]);
            each[place] = state;
        }
    }
    fold_periods<Op, Threads>(period.lines(), width);
    const i64 cell = task.first_cell + at.c;
    if (task.splits > 1) {
        for (u32 q = threadIdx.x; q < width; q += Threads) {
            if constexpr (JOINS<Finish>)
                publish_partial(partials_of<State, Finish>(task, (row * task.splits + split) * width), q, each[q]);
            else if constexpr (Finish == ATOMIC) Op::atomic((State*)task.out + cell + q * task.step_c, each[q]);
            else ((State*)task.partials)[split * task.cells + cell + q * task.step_c] = each[q];
        }
        if (!JOINS<Finish> || !is_joining<Finish>(task, row, split)) return;
        const auto partials = partials_of<State, Finish>(task, row * task.splits * width);
        const u32 folds = Threads * V / width;  // as many partial folds as shared memory holds
        for (u32 i = threadIdx.x; i < folds * width; i += Threads) {
            State state = Op::identity();
            combine_partials<Op, (sizeof(State) > 16 ? 2 : 4)>(state, partials, i, task.splits * width, folds * width);
            each[i] = state;
        }
        fold_periods<Op, Threads>(folds, width);
    }
    for (u32 q = threadIdx.x; q < width; q += Threads)
        ((typename Emit::Out*)task.out)[cell + q * task.step_c] = Emit::of(each[q], task.option);
}
