// Columns: the kept dimension is the one that lies together. A thread owns V neighbouring columns and walks down them.
#pragma once
#include "../core/line.cuh"
#include "../monoid/columns.cuh"
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

// A slot at an end of its line, element by element where it passes the operands' memory. Columns outside the line
// hold whatever lies there: they are never written out.
template <class In, int V, class Todo>
GR_HD Pack<In, V> read_end_slot(const Todo& task, const Base* base, const Line<In, V>& line, u64 slot) {
    if (V == 1 || owns_slot<In, V>(task, base, line, slot)) return read_slot<In, V>(task, line, slot);
    Pack<In, V> pack = Pack<In, V>();
    const i64 from = line.position(slot);
    for (int j = 0; j < V; j++) {
        if (from + j < 0 || from + j >= (i64)task.length) continue;
        const i64 at = (i64)(slot * V + j);
        In x = Reader<In>::one(Reader<In>::ahead(line, at));
#pragma unroll
        for (int k = 0; k < V; k++)  // a constant index keeps the pack in registers
            if (k == j) pack.at[k] = x;
    }
    return pack;
}

// The running values for even runs (one stride apart in one chunk), or for any.
template <class Op, int V, bool Even> struct ColumnsFor { typedef EvenColumns<Op, V> type; };
template <class Op, int V> struct ColumnsFor<Op, V, false> { typedef Columns<Op, V> type; };

template <class In, int V, class Todo>
GR_HD bool owns_run(const Todo& task, const typename Todo::Place& row, u64 run, u64 slot) {
    const Base* base;
    const Line<In, V> line = find_line<In, V>(task, row, run, base);
    return owns_slot<In, V>(task, base, line, slot);
}

// Runs first, first + stride, ... below end, Items loads in flight.
template <class Op, int V, int Items, bool Even, class Running, class Todo>
GR_HD void absorb_columns(Running& columns, const Todo& task, const typename Todo::Place& row, u64 slot, u64 first,
                          u64 end, u64 stride, const i64 (&within)[V]) {
    typedef typename Op::In In;
    const Base* base;
    const Line<In, V> origin = find_line<In, V>(task, row, 0, base);
    const i64 from = origin.position(slot);  // the same in every run: the plan sees to that
    const bool whole = from >= 0 && from + V <= (i64)task.length;
    u64 run = first, stop = end;
    bool batched = whole;
    // Even runs ascend in memory: the first may lie before the operand, the last behind it; where the first and the last
    // that are left own the slot, all between do.
    if (Even && V > 1 && !whole && first < end) {
        const u64 last = first + (end - 1 - first) / stride * stride;
        if (!owns_run<In, V>(task, row, last, slot)) stop = last;
        if (!owns_run<In, V>(task, row, run, slot)) {
            const Line<In, V> line = find_line<In, V>(task, row, run, base);
            columns.take(read_end_slot<In, V>(task, base, line, slot), line.index, within);
            run += stride;
        }
        const u64 left = stop == end ? last : last - stride;
        batched = run < stop && owns_run<In, V>(task, row, run, slot) && owns_run<In, V>(task, row, left, slot);
    }
    if (batched) {
        for (; run + (Items - 1) * stride < stop; run += stride * Items) {
            Pack<In, V> pack[Items];
            i64 index[Items];
#pragma unroll
            for (int i = 0; i < Items; i++) {
                Line<In, V> line = origin;
                if (Even) {
                    const i64 n = (i64)(run + i * stride);
                    (typename Reader<In>::At&)line = task.ran(line, n);
                    line.index += n * task.run.c[0];
                } else {
                    line = find_line<In, V>(task, row, run + i * stride, base);
                }
                index[i] = line.index;
                pack[i] = read_slot<In, V>(task, line, slot);
            }
            take_batch(columns, pack, index, within);
        }
    }
    for (; run < end; run += stride) {
        Line<In, V> line = find_line<In, V>(task, row, run, base);
        columns.take(read_end_slot<In, V>(task, base, line, slot), line.index, within);
    }
}

// The state of column j; a position is looked up from how many elements the thread had taken, from run `first` on.
template <class Op, int V, class Running, class Todo>
GR_HD typename Op::State settle_column(Running& columns, int j, const Todo& task, const typename Todo::Place& row,
                                       u64 first,
                                       u64 stride, i64 within) {
    typename Op::State state = columns.settle(j);
    if constexpr (Running::counts)
        columns.locate(state, j, [&](u32 taken) {
            const Base* base;
            return find_line<typename Op::In, V>(task, row, first + taken * stride, base).index + within;
        });
    return state;
}

// Flat columns: the state with the incomplete last line's element of this column, where it has one.
template <class Op, int V, class Todo>
GR_HD typename Op::State with_tail(typename Op::State state, const Todo& task, const typename Todo::Place& row,
                                   u64 column,
                                   i64 within) {
    typedef typename Op::In In;
    if (column >= task.tail) return state;
    const Base* base;
    Line<In, V> line = find_line<In, V>(task, row, task.runs * task.chunks, base);
    typename Op::Acc acc = Op::start();
    Op::absorb(acc, Reader<In>::one(Reader<In>::ahead(line, column)), line.index + within);
    return Op::combine(state, Op::settle(acc));
}

// All threads call; each has put its states into shared memory. Folds them down each column, neighbours first, so that
// they stay in run order: the column numbered q of the tile is left in place q. Two block barriers and more.
template <class State, class Op, int Columns, int Threads, int Tall> GR_HD void fold_down() {
    static_assert((Tall & (Tall - 1)) == 0, "each state but the last has a neighbour");
    State* each = (State*)GR_SHARED;
    __syncthreads();
    for (u32 gap = 1; gap < Tall; gap *= 2) {
        for (u32 item = threadIdx.x; item < Tall / 2 / gap * Columns; item += Threads) {
            State* state = each + item / Columns * (2 * gap * Columns) + item % Columns;
            *state = Op::combine(*state, state[gap * Columns]);
        }
        __syncthreads();
    }
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
        const u64 end = (team + 1) * share < splits ? (team + 1) * share : splits;
#pragma unroll(sizeof(typename Op::State) > 16 ? 2 : 4)
        for (u64 s = team * share; s < end; s++)
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
// Phased: columns lie one after another, in slots that start at a multiple of their size. Else the first of every slot
// lies before the second of any, and the line starts with a slot.
template <class Op, class Emit, int V, int Threads, int Wide, bool Phased, int Finish, bool Partial, int Chunks>
GR_HD void write_tile(const Task<Chunks>& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    const State* each = (const State*)GR_SHARED;
    const u32 columns = Wide * V;
    for (u32 q = threadIdx.x; q < columns; q += Threads) {
        if constexpr (Partial && Finish == TICKET) {
            store_state((State*)task.partials + (tile * task.splits + split) * columns + q, each[q]);
            continue;
        }
        const u32 slot = Phased ? q / V : q % Wide, j = Phased ? q % V : q / Wide;
        u64 x = tile * Wide + slot;
        if (x >= task.rows * task.slots) continue;
        u64 outer = task.slots == 1 ? x : task.by_slots.of(x);
        Offset at = task.row.at(outer);
        i64 phase = V == 1 || !Phased ? 0 : (i64)((u64)(task.base[0].a + at.a) / Reader<typename Op::In>::size_a % V);
        i64 c = (i64)((x - outer * task.slots) * V + j) - phase;
        if (c < 0 || c >= (i64)task.length) continue;
        i64 cell = task.first_cell + at.c + c * task.step_c;
        if constexpr (Partial && Finish == ATOMIC) Op::atomic((State*)task.out + cell, each[q]);
        else if constexpr (Partial) ((State*)task.partials)[split * task.cells + cell] = each[q];  // a second launch folds
        else ((typename Emit::Out*)task.out)[cell] = Emit::of(each[q], task.option);
    }
}

// All threads call; each has put its states into shared memory. Writes the tile once all its splits have called.
template <class Op, class Emit, int V, int Threads, int Wide, bool Phased, int Finish, int Chunks>
GR_HD void finish_tile(const Task<Chunks>& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    fold_down<State, Op, Wide * V, Threads, Threads / Wide>();
    if (task.splits == 1) {
        write_tile<Op, Emit, V, Threads, Wide, Phased, Finish, false>(task, tile, split);
        return;
    }
    write_tile<Op, Emit, V, Threads, Wide, Phased, Finish, true>(task, tile, split);
    if (Finish != TICKET || !is_last_block(task.tickets + tile, task.splits)) return;
    fold_tile<Op, Threads, Wide * V>((const State*)task.partials + tile * task.splits * (Wide * V), task.splits);
    write_tile<Op, Emit, V, Threads, Wide, Phased, Finish, false>(task, tile, split);
}

// Blocks that share an SM, as the plan counts on: 0 leaves it to the compiler.
template <class Op, int V, bool Even, bool Flat> struct Resident {
    static const bool crowded = Even && (Op::crowded & Reader<typename Op::In>::size_a);
    static const int blocks = GR_BLOCKS || !crowded ? GR_BLOCKS : Flat ? 3 : V > 2 ? 2 : V > 1 ? 3 : 4;
};

// Grid: one block a (split of the runs, tile of columns): neighbours read neighbouring columns of the same runs, so that
// memory is walked row by row. Threads across a tile: Wide. Even: one chunk, runs one
// stride apart. With Flat, a line holds several periods of the kept columns one after another, the last line `tail`
// elements; the caller folds periods. Uses Threads * V states of shared memory.
template <class Op, class Emit, int V, int Threads, int Wide, int Items, bool Even, bool Flat, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, Resident<Op, V, Even, Flat>::blocks) reduce_columns(
    const __grid_constant__ TaskOf<Op, Chunks> task) {
    typedef typename Op::State State;
    State* each = (State*)GR_SHARED;
    const int tall = Threads / Wide;
    const u64 tiles = gridDim.x / task.splits, split = blockIdx.x / tiles, tile = blockIdx.x - split * tiles;
    const u64 runs = task.runs * task.chunks;
    Column<Wide> column(task, tile);
    typename ColumnsFor<Op, V, Even && Op::commutative>::type columns;
    columns.start();
    i64 within[V];
#pragma unroll
    for (int j = 0; j < V; j++) within[j] = Flat ? (i64)task.by_width.of(column.slot * V + j) * task.step_b : 0;
    const auto row = task.row_at(column.outer);
    const u64 share = (runs + task.splits - 1) / task.splits, begin = split * share;
    if (column.inside) {
        u64 end = begin + share < runs ? begin + share : runs;
        if (Op::commutative) {
            absorb_columns<Op, V, Items, Even>(columns, task, row, column.slot, begin + column.down, end, tall, within);
        } else {  // each thread takes neighbouring runs, so that the threads down a column stand in order
            const u64 part = (share + tall - 1) / tall, mine = begin + column.down * part;
            end = mine + part < end ? mine + part : end;
            absorb_columns<Op, V, Items, Even>(columns, task, row, column.slot, mine, end, 1, within);
        }
    }
    const bool tail = Flat && column.inside && task.tail && split == task.splits - 1 && column.down == 0;
#pragma unroll
    for (int j = 0; j < V; j++) {
        State state = settle_column<Op, V>(columns, j, task, row, begin + column.down, tall, within[j]);
        if (tail) state = with_tail<Op, V>(state, task, row, column.slot * V + j, within[j]);
        each[column.down * (Wide * V) + column.across * V + j] = state;
    }
    finish_tile<Op, Emit, V, Threads, Wide, true, Finish>(task, tile, split);
}
