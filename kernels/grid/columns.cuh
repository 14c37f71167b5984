// Columns: the kept dimension is the one that lies together. A thread owns V neighbouring columns and walks down them.
#pragma once
#include "../core/line.cuh"
#include "finish.cuh"

// The column tile of a block: Wide threads across, Threads / Wide down.
template <int Wide> struct Column {
    u32 across, down;
    u64 outer, slot;
    bool inside;

    template <int Chunks> GR_HD Column(const Task<Chunks>& task, u64 tile) {
        across = threadIdx.x % Wide;
        down = threadIdx.x / Wide;
        u64 x = tile * Wide + across;
        inside = x < task.rows * task.slots;
        outer = task.slots == 1 ? x : task.by_slots.of(x);
        slot = x - outer * task.slots;
    }
};

// One run: V elements of one line into V accumulators; those outside [0, length) are left out.
template <class Op, int V, int Chunks>
GR_HD void absorb_columns_edge(typename Op::Acc (&acc)[V], const Task<Chunks>& task, const Base* base,
                               const Line<typename Op::In, V>& line, u64 slot, i64 length, const i64 (&within)[V]) {
    typedef typename Op::In In;
    i64 from = line.position(slot);
#pragma unroll
    for (int j = 0; j < V; j++) {
        if (from + j < 0 || from + j >= length) continue;
        i64 at = (i64)(slot * V + j);
        In x = V == 1 ? Reader<In>::one(line.a + at * task.step_a, line.b + at * task.step_b)
                      : Reader<In>::one(line.a + at * Reader<In>::size_a, line.b + at * Reader<In>::size_b);
        Op::absorb(acc[j], x, line.index + within[j]);
    }
}

// Runs first, first + stride, ... below end, Items loads in flight.
template <class Op, int V, int Items, int Chunks>
GR_HD void absorb_columns(typename Op::Acc (&acc)[V], const Task<Chunks>& task, const Offset& row, u64 slot, u64 first,
                          u64 end, u64 stride, const i64 (&within)[V]) {
    typedef typename Op::In In;
    const i64 length = (i64)task.length;
    const Base* base;
    i64 from = find_line<In, V>(task, row, 0, base).position(slot);  // the same in every run: the plan sees to that
    bool whole = from >= 0 && from + V <= length;
    for (u64 run = first; run < end; run += stride * Items) {
        if (!whole) {
            for (int i = 0; i < Items && run + i * stride < end; i++) {
                Line<In, V> line = find_line<In, V>(task, row, run + i * stride, base);
                absorb_columns_edge<Op, V>(acc, task, base, line, slot, length, within);
            }
            continue;
        }
        Pack<In, V> pack[Items];
        i64 index[Items];
#pragma unroll
        for (int i = 0; i < Items; i++) {
            if (run + i * stride >= end) continue;
            Line<In, V> line = find_line<In, V>(task, row, run + i * stride, base);
            index[i] = line.index;
            pack[i] = read_slot<In, V>(task, line, slot);
        }
#pragma unroll
        for (int i = 0; i < Items; i++) {
            if (run + i * stride >= end) continue;
#pragma unroll
            for (int j = 0; j < V; j++) Op::absorb(acc[j], pack[i].at[j], index[i] + within[j]);
        }
    }
}

// All threads call. Folds the states of the threads down each column, in run order. The column numbered q of the
// tile is left in each[q]. Uses Threads * V states of shared memory. Two block barriers.
template <class Op, int V, int Threads, int Wide>
GR_HD void fold_down(const typename Op::Acc (&acc)[V]) {
    typename Op::State* each = (typename Op::State*)GR_SHARED;
    const u32 columns = Wide * V, across = threadIdx.x % Wide, down = threadIdx.x / Wide;
#pragma unroll
    for (int j = 0; j < V; j++) each[down * columns + across * V + j] = Op::settle(acc[j]);
    __syncthreads();
    for (u32 q = threadIdx.x; q < columns; q += Threads) {
        typename Op::State state = each[q];
        for (u32 y = 1; y < Threads / Wide; y++) state = Op::combine(state, each[y * columns + q]);
        each[q] = state;  // only this thread touches column q
    }
    __syncthreads();
}

// The last block of a tile folds what all of them published: teams of threads a column, each a range of splits.
template <class Op, int Threads, int Columns>
GR_HD void fold_tile(const typename Op::State* partials, u64 splits) {
    typename Op::State* each = (typename Op::State*)GR_SHARED;
    const u32 teams = Columns >= Threads ? 1 : Threads / Columns;
    const u64 share = (splits + teams - 1) / teams;
    for (u32 item = threadIdx.x; item < teams * Columns; item += Threads) {
        u32 q = item % Columns, team = item / Columns;
        typename Op::State state = Op::identity();
        for (u64 s = team * share; s < (team + 1) * share && s < splits; s++)
            state = Op::combine(state, load_state(partials + s * Columns + q));
        each[item] = state;
    }
    __syncthreads();
    for (u32 q = threadIdx.x; q < Columns; q += Threads) {
        typename Op::State state = each[q];
        for (u32 team = 1; team < teams; team++) state = Op::combine(state, each[team * Columns + q]);
        each[q] = state;
    }
    __syncthreads();
}

// Writes the tile's columns from shared memory: to the partials of this split, or to their cells.
template <class Op, class Emit, int V, int Threads, int Wide, int Finish, bool Partial, int Chunks>
GR_HD void write_tile(const Task<Chunks>& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    const State* each = (const State*)GR_SHARED;
    const u32 columns = Wide * V;
    for (u32 q = threadIdx.x; q < columns; q += Threads) {
        if constexpr (Partial && Finish == TICKET) {
            store_state((State*)task.partials + (tile * task.splits + split) * columns + q, each[q]);
            continue;
        }
        u64 x = tile * Wide + q / V;
        if (x >= task.rows * task.slots) continue;
        u64 outer = task.slots == 1 ? x : task.by_slots.of(x);
        Offset at = task.row.at(outer);
        i64 phase = V == 1 ? 0 : (i64)((u64)(task.base[0].a + at.a) / Reader<typename Op::In>::size_a % V);
        i64 c = (i64)((x - outer * task.slots) * V + q % V) - phase;
        if (c < 0 || c >= (i64)task.length) continue;
        i64 cell = task.first_cell + at.c + c * task.step_c;
        if constexpr (Partial && Finish == ATOMIC) Op::atomic((State*)task.out + cell, each[q]);
        else if constexpr (Partial) ((State*)task.partials)[split * task.cells + cell] = each[q];  // a second launch folds
        else ((typename Emit::Out*)task.out)[cell] = Emit::of(each[q], task.option);
    }
}

// Grid: one block a (tile of columns, split of the runs). Threads across a tile: Wide. With Flat, a line holds
// several periods of the kept columns one after another, the last line `tail` elements; the caller folds periods.
template <class Op, class Emit, int V, int Threads, int Wide, int Items, bool Flat, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads) reduce_columns(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    typedef typename Op::State State;
    const u64 tile = blockIdx.x / task.splits, split = blockIdx.x - tile * task.splits;
    const u64 runs = task.runs * task.chunks, tall = Threads / Wide;
    Column<Wide> column(task, tile);
    typename Op::Acc acc[V];
#pragma unroll
    for (int j = 0; j < V; j++) acc[j] = Op::start();
    if (column.inside) {
        Offset row = task.row.at(column.outer);
        i64 within[V];
#pragma unroll
        for (int j = 0; j < V; j++)
            within[j] = Flat ? (i64)task.by_width.of(column.slot * V + j) * task.step_b : 0;
        const u64 share = (runs + task.splits - 1) / task.splits;
        u64 begin = split * share, end = begin + share < runs ? begin + share : runs;
        if (Op::commutative) {
            absorb_columns<Op, V, Items>(acc, task, row, column.slot, begin + column.down, end, tall, within);
        } else {  // each thread takes neighbouring runs, so that the threads down a column stand in order
            u64 part = (share + tall - 1) / tall, mine = begin + column.down * part;
            end = mine + part < end ? mine + part : end;
            absorb_columns<Op, V, Items>(acc, task, row, column.slot, mine, end, 1, within);
        }
        if (Flat && task.tail && split == task.splits - 1 && column.down == 0) {
            const Base* base;
            Line<In, V> line = find_line<In, V>(task, row, runs, base);
            absorb_columns_edge<Op, V>(acc, task, base, line, column.slot, (i64)task.tail, within);
        }
    }
    fold_down<Op, V, Threads, Wide>(acc);
    if (task.splits == 1) {
        write_tile<Op, Emit, V, Threads, Wide, Finish, false>(task, tile, split);
        return;
    }
    write_tile<Op, Emit, V, Threads, Wide, Finish, true>(task, tile, split);
    if (Finish != TICKET || !is_last_block(task.tickets + tile, task.splits)) return;
    fold_tile<Op, Threads, Wide * V>((const State*)task.partials + tile * task.splits * (Wide * V), task.splits);
    write_tile<Op, Emit, V, Threads, Wide, Finish, false>(task, tile, split);
}
