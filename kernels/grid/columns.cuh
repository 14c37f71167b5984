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
template <class In, int V, bool Unaligned, class Todo>
GR_HD Pack<In, V> read_end_slot(const Todo& task, const Base* base, const Line<In, V>& line, u64 slot) {
    if (V == 1 || owns_slot<In, V, Unaligned>(task, base, line, slot)) return read_slot<In, V, Unaligned>(task, line, slot);
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
template <class Op, int V, bool Even, bool Stops = Op::stops> struct ColumnsFor { typedef EvenColumns<Op, V> type; };
template <class Op, int V> struct ColumnsFor<Op, V, false, false> { typedef Columns<Op, V> type; };
template <class Op, int V> struct ColumnsFor<Op, V, false, true> { typedef StoppingColumns<Op, V> type; };

// Run number `run` of a column, from its run 0 where runs are even.
template <class In, int V, bool Even, bool Unaligned, class Todo>
GR_HD Line<In, V> run_of(const Todo& task, const typename Todo::Place& row, const Line<In, V>& origin, u64 run,
                         const Base*& base) {
    if (!Even) return find_line<In, V, Unaligned>(task, row, run, base);
    Line<In, V> line = origin;
    (typename Reader<In>::At&)line = task.ran(line, (i64)run);
    line.index += (i64)run * task.run.c[0];
    return line;
}

// Whether a slot belongs to the operands in all of a batch's runs.
template <class In, int V, int Items, bool Even, bool Unaligned, class Todo>
GR_HD bool owns_runs(const Todo& task, const typename Todo::Place& row, const Line<In, V>& origin, u64 run, u64 stride,
                     u64 slot) {
    const Base* base = &task.base[0];
    bool owned = true;
#pragma unroll
    for (int i = 0; i < Items; i += Even && Items > 1 ? Items - 1 : 1) {  // even runs ascend or descend
        const Line<In, V> line = run_of<In, V, Even, Unaligned>(task, row, origin, run + i * stride, base);
        owned = owned && owns_slot<In, V, Unaligned>(task, base, line, slot);
    }
    return owned;
}

// Where a thread is in its columns: the slot, the run it takes next, and how many are left, `stride` apart.
template <class Op, int V, bool Even, bool Unaligned, class Todo> struct ColumnWalk {
    typedef typename Op::In In;
    const Todo& task;
    const typename Todo::Place& row;
    const i64 (&within)[V];
    const Base* base;
    const Line<In, V> origin;
    const u64 slot, stride;
    u64 run, left;
    bool whole;

    GR_HD ColumnWalk(const Todo& of, const typename Todo::Place& place, u64 number, u64 first, u64 count, u64 step,
                     const i64 (&index)[V])
        : task(of), row(place), within(index), origin(find_line<In, V, Unaligned>(of, place, 0, base)), slot(number),
          stride(step), run(first), left(count) {
        const i64 from = origin.position(slot);  // the same in every run: the plan sees to that
        whole = V == 1 || (!Unaligned && from >= 0 && from + V <= (i64)task.length);
    }
    // Batches of Items runs, all of whose loads are issued before the first use, and what is left in smaller ones. Without
    // Whole the line does not fill the slot, which is read whole where the operands have it in all runs of a batch.
    template <int Items, bool Whole, class Running> GR_HD void take(Running& columns) {
        while (left >= Items) {
            if (Whole || owns_runs<In, V, Items, Even, Unaligned>(task, row, origin, run, stride, slot)) {
                take_batch_of<Items>(columns);
            } else {
                take_singly(columns, Items);
            }
            run += Items * stride;
            left -= Items;
            if constexpr (Op::stops)
                if (columns.is_decided()) left = 0;
        }
        if constexpr (Items > 1) take<Items / 2, Whole>(columns);
    }
    template <class Running> GR_HD void take_singly(Running& columns, u64 count) {
#pragma unroll 1
        for (u64 i = 0; i < count; i++) {
            const Line<In, V> line = run_of<In, V, Even, Unaligned>(task, row, origin, run + i * stride, base);
            const Pack<In, V> pack = read_end_slot<In, V, Unaligned>(task, base, line, slot);
            columns.take(pack, line.index, within);
        }
    }
    template <int Items, class Running> GR_HD void take_batch_of(Running& columns) {
        Pack<In, V> pack[Items];
        i64 index[Items];
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const Line<In, V> line = run_of<In, V, Even, Unaligned>(task, row, origin, run + i * stride, base);
            index[i] = line.index;
            pack[i] = read_slot<In, V, Unaligned>(task, line, slot);
        }
        take_batch(columns, pack, index, within);
    }
};

// Runs first, first + stride, ..., so many, or as many of them as decide.
template <class Op, int V, int Items, bool Even, bool Unaligned, class Running, class Todo>
GR_HD void absorb_columns(Running& columns, const Todo& task, const typename Todo::Place& row, u64 slot, u64 first,
                          u64 count, u64 stride, const i64 (&within)[V]) {
    ColumnWalk<Op, V, Even, Unaligned, Todo> walk(task, row, slot, first, count, stride, within);
    if (walk.whole) walk.template take<Items, true>(columns);
    else if (V > 1) walk.template take<Unaligned || Items < 2 ? Items : 2, false>(columns);
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
template <class Op, int Threads, int Columns, class Partials>
GR_HD void fold_tile(const Partials& partials, u64 splits) {
    typename Op::State* each = (typename Op::State*)GR_SHARED;
    const u32 teams = Columns >= Threads ? 1 : Threads / Columns;
    const u64 share = (splits + teams - 1) / teams;
    for (u32 item = threadIdx.x; item < teams * Columns; item += Threads) {
        u32 q = item % Columns, team = item / Columns;
        typename Op::State state = Op::identity();
        const u64 end = (team + 1) * share < splits ? (team + 1) * share : splits;
        combine_partials<Op, (sizeof(typename Op::State) > 24 ? 1 : sizeof(typename Op::State) > 8 ? 2 : 4)>(
            state, partials, team * share * Columns + q, end * Columns, Columns);
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
template <class Op, class Emit, int V, int Threads, int Wide, bool Unaligned, int Finish, bool Partial, int Chunks>
GR_HD void write_tile(const Task<Chunks>& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    const State* each = (const State*)GR_SHARED;
    const u32 columns = Wide * V;
    for (u32 q = threadIdx.x; q < columns; q += Threads) {
        if constexpr (Partial && JOINS<Finish>) {
            publish_partial(partials_of<State, Finish>(task, (tile * task.splits + split) * columns), q, each[q]);
            continue;
        }
        u64 x = tile * Wide + q / V;
        if (x >= task.rows * task.slots) continue;
        u64 outer = task.slots == 1 ? x : task.by_slots.of(x);
        Offset at = task.row.at(outer);
        i64 phase = V == 1 || Unaligned ? 0 : (i64)((u64)(task.base[0].a + at.a) / Reader<typename Op::In>::size_a % V);
        i64 c = (i64)((x - outer * task.slots) * V + q % V) - phase;
        if (c < 0 || c >= (i64)task.length) continue;
        i64 cell = task.first_cell + at.c + c * task.step_c;
        if constexpr (Partial && Finish == ATOMIC) Op::atomic((State*)task.out + cell, each[q]);
        else if constexpr (Partial) ((State*)task.partials)[split * task.cells + cell] = each[q];  // a second launch folds
        else ((typename Emit::Out*)task.out)[cell] = Emit::of(each[q], task.option);
    }
}

// All threads call; each has put its states into shared memory. Writes the tile once all its splits have called.
template <class Op, class Emit, int V, int Threads, int Wide, bool Unaligned, int Finish, int Chunks>
GR_HD void finish_tile(const Task<Chunks>& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    fold_down<State, Op, Wide * V, Threads, Threads / Wide>();
    if (task.splits == 1) {
        write_tile<Op, Emit, V, Threads, Wide, Unaligned, Finish, false>(task, tile, split);
        return;
    }
    write_tile<Op, Emit, V, Threads, Wide, Unaligned, Finish, true>(task, tile, split);
    if (!JOINS<Finish> || !is_joining<Finish>(task, tile, split)) return;
    fold_tile<Op, Threads, Wide * V>(partials_of<State, Finish>(task, tile * task.splits * (Wide * V)), task.splits);
    write_tile<Op, Emit, V, Threads, Wide, Unaligned, Finish, false>(task, tile, split);
}

// Blocks that share an SM, as the plan counts on: 0 leaves it to the compiler.
template <class Op, int V, bool Even> struct Resident {
    static const bool crowded = Even && (Op::crowded & Reader<typename Op::In>::size_a);
    static const int blocks = GR_BLOCKS || !crowded ? GR_BLOCKS : V > 2 ? 2 : V > 1 ? 3 : 4;
};

// Grid: one block a (split of the runs, tile of columns): neighbours read neighbouring columns of the same runs, so that
// memory is walked row by row. Threads across a tile: Wide. Even: one chunk, runs one
// stride apart. Unaligned: lines begin at any alignment, and slots with them. Uses Threads * V states of shared memory.
template <class Op, class Emit, int V, int Threads, int Wide, int Items, bool Even, bool Unaligned, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, Resident<Op, V, Even>::blocks) reduce_columns(
    const __grid_constant__ TaskOf<Op, Chunks> task) {
    typedef typename Op::State State;
    State* each = (State*)GR_SHARED;
    const int tall = Threads / Wide;
    const u64 tiles = gridDim.x / task.splits, split = blockIdx.x / tiles, tile = blockIdx.x - split * tiles;
    const u64 runs = task.runs * task.chunks;
    Column<Wide> column(task, tile);
    typename ColumnsFor<Op, V, Even && Op::commutative>::type columns;
    columns.start();
    const i64 within[V] = {};
    const auto row = task.row_at(column.outer);
    const u64 share = (runs + task.splits - 1) / task.splits, begin = split * share;
    if (column.inside) {
        u64 end = begin + share < runs ? begin + share : runs, first = begin + column.down, stride = tall;
        if (!Op::commutative) {  // each thread takes neighbouring runs, so that the threads down a column stand in order
            const u64 part = (share + tall - 1) / tall;
            first = begin + column.down * part, stride = 1;
            end = first + part < end ? first + part : end;
        }
        const u64 count = first < end ? (end - first + stride - 1) / stride : 0;
        if (Op::from_last) first = end - 1, stride = 0 - stride;
        absorb_columns<Op, V, Items, Even, Unaligned>(columns, task, row, column.slot, first, count, stride, within);
    }
#pragma unroll
    for (int j = 0; j < V; j++) {
        const State state = settle_column<Op, V>(columns, j, task, row, begin + column.down, tall, within[j]);
        each[column.down * (Wide * V) + column.across * V + j] = state;
    }
    finish_tile<Op, Emit, V, Threads, Wide, Unaligned, Finish>(task, tile, split);
}
