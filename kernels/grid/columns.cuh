// Columns, reduced across memory: the kept axis is the contiguous one. A thread owns V neighbouring columns and walks down.
#pragma once
#include "../monoid/columns.cuh"
#include "finish.cuh"
#include "runs.cuh"

// The row that has this slot, of those of all rows.
template <class TaskT> GR_HD u64 row_of(const TaskT& task, u64 slot) {
    return task.rows == 1 ? 0 : task.slots == 1 ? slot : task.by_slots.of(slot);
}

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
        outer = row_of(task, x);
        slot = x - outer * task.slots;
    }
};

// The runs of a block: from `begin` on up to `end` of those of its chunk, where runs are even (one stride apart in a
// chunk) and each split is of one chunk; else of those of all chunks. `before` are the runs of earlier chunks.
template <bool Even, class TaskT> struct SplitRuns {
    const Base* base;
    u64 size, begin, end, before;
    bool is_last;

    GR_HD SplitRuns(const TaskT& task, u64 split) {
        u64 part = split, parts = task.splits, runs = task.runs * task.chunks;
        base = &task.base[0], before = 0;
        if constexpr (Even && TaskT::most_chunks > 1) {
            parts /= task.chunks, runs = task.runs;
            const u64 chunk = part / parts;
            base += chunk, before = chunk * runs, part -= chunk * parts;
            size = (runs + parts - 1) / parts;
        } else {
            size = task.over_splits(runs + parts - 1);
        }
        begin = part * size;
        end = begin + size < runs ? begin + size : runs;
        is_last = part + 1 == parts;
    }
};

// The running values for even runs, or for any.
template <class Op, int V, bool Even, bool Stops = Op::stops> struct ColumnsFor { typedef EvenColumns<Op, V> type; };
template <class Op, int V> struct ColumnsFor<Op, V, false, false> { typedef Columns<Op, V> type; };
template <class Op, int V> struct ColumnsFor<Op, V, false, true> { typedef StoppingColumns<Op, V> type; };

// All lanes of the warp call. Runs first, first + stride, ..., so many, or as many of them as decide.
template <class Op, int V, int Items, bool Even, bool Few = false, class Running, class TaskT>
GR_HD void absorb_columns(Running& columns, const TaskT& task, const typename TaskT::Place& row, const Base* base,
                          u64 slot, u64 first, u64 count, u64 stride, const i64 (&column_offset)[V]) {
    RunWalk<Op, V, Even, TaskT> walk(task, row, base, slot, first, count, stride, column_offset);
    walk.template take_all<Items, Few>(columns);
}

// The state of column j; a position is looked up from how many elements the thread had taken, from run `first` on.
template <class Op, int V, class Running, class TaskT>
GR_HD typename Op::State settle_column(Running& columns, int j, const TaskT& task, const typename TaskT::Place& row,
                                       u64 first,
                                       u64 stride, i64 column_offset) {
    typename Op::State state = columns.settle(j);
    if constexpr (Running::counts)
        columns.locate(state, j, [&](u32 taken) {
            const Base* base;
            return find_line<typename Op::In, V>(task, row, first + taken * stride, base).index + column_offset;
        });
    return state;
}

// The state with the element that an incomplete last line has at this place of its slots, if it has one.
template <class Op, int V, class TaskT>
GR_HD typename Op::State with_tail(typename Op::State state, const TaskT& task, const typename TaskT::Place& row,
                                   const Base* base, u64 place, i64 column_offset) {
    typedef typename Op::In In;
    const auto at = task.run_at(task.runs);
    const Line<In, V> line = line_at<In, V>(task.pointers(base).offset_by(row).offset_by(at), base->index + at.c);
    if ((i64)place - line.phase >= (i64)task.tail) return state;  // what lies before the line is of the line before it
    typename Op::Acc acc = Op::start();
    Op::absorb(acc, Reader<In>::one(Reader<In>::ahead(line, (i64)place)), line.index + column_offset);
    return Op::combine(state, Op::settle(acc));
}

// States of a tile in shared memory, row by row. Those of a thread's V columns are a place apart from the next thread's, so that lanes
// that write one each find banks of their own; not where they are of more than APART_BYTES, which leave no room (the plan knows).
const int APART_BYTES = 128;
template <class State, int V> struct TileStates {
    static const bool apart = V > 1 && V * sizeof(State) <= APART_BYTES;
    GR_HD State& operator[](u32 n) const { return ((State*)GR_SHARED)[apart ? n + n / V : n]; }
};

// All threads call; each has put its states into shared memory. Folds them down each column, neighbours first, so that
// they stay in run order: the column numbered q of the tile is left in place q. Two block barriers and more.
template <class Op, int V, int Columns, int Threads, int Tall> GR_HD void fold_down() {
    static_assert((Tall & (Tall - 1)) == 0, "each state but the last has a neighbour");
    const TileStates<typename Op::State, V> each;
    __syncthreads();
    for (u32 gap = 1; gap < Tall; gap *= 2) {
        for (u32 item = threadIdx.x; item < Tall / 2 / gap * Columns; item += Threads) {
            const u32 at = item / Columns * (2 * gap * Columns) + item % Columns;
            each[at] = Op::combine(each[at], each[at + gap * Columns]);
        }
        __syncthreads();
    }
}

// The last block of a tile folds what all of them published: threads of one column take a range of splits each. Block barriers.
template <class Op, int V, int Threads, int Columns, class Partials>
GR_HD void fold_tile(const Partials& partials, u64 splits) {
    const TileStates<typename Op::State, V> each;
    constexpr int ranges = Columns >= Threads ? 1 : Threads / Columns;
    const u64 share = (splits + ranges - 1) / ranges;
    for (u32 item = threadIdx.x; item < ranges * Columns; item += Threads) {
        u32 q = item % Columns, range = item / Columns;
        typename Op::State state = Op::identity();
        const u64 end = (range + 1) * share < splits ? (range + 1) * share : splits;
        combine_partials<Op, (sizeof(typename Op::State) > 24 ? 1 : sizeof(typename Op::State) > 8 ? 2 : 4)>(
            state, partials, range * share * Columns + q, end * Columns, Columns);
        each[item] = state;
    }
    fold_down<Op, V, Columns, Threads, ranges>();
}

// Writes the tile's columns from shared memory: to the partials of this split, or to their cells. Most of a thread's are of one
// row, whose place is looked up once. Own: lines begin with a slot, whatever their alignment.
template <class Op, class Emit, int V, int Threads, int Wide, int Finish, bool Partial, bool Own, int Chunks>
GR_HD void write_tile(const Task<Chunks>& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    const TileStates<State, V> each;
    const u32 columns = Wide * V;
    const u64 begin = tile * Wide;
    u32 end = 0;               // of the columns that are of the row looked up last,
    i64 place = 0, first = 0;  // and of the tile's first column, if it were of that row, the place in its line and the cell
    for (u32 q = threadIdx.x; q < columns; q += Threads) {
        if constexpr (Partial && JOINS<Finish>) {
            publish_partial(partials_of<State, Finish>(task, (tile * task.splits + split) * columns), q, each[q]);
            continue;
        }
        if (columns <= Threads || q >= end) {
            const u64 x = begin + q / V;
            if (x >= task.rows * task.slots) return;
            const u64 outer = row_of(task, x), before = outer * task.slots, left = before + task.slots - begin;
            const Offset at = task.row.at(outer);
            const i64 phase = V == 1 || Own ? 0 : (i64)((u64)(task.base[0].a + at.a) / Reader<typename Op::In>::size_a % V);
            place = (i64)(begin - before) * V - phase;
            first = task.first_cell + at.c + place * task.step_c;
            end = left < Wide ? (u32)left * V : columns;
        }
        const i64 c = place + q, cell = first + q * task.step_c;
        if (c < 0 || c >= (i64)task.length) continue;
        if constexpr (Partial && Finish == ATOMIC) Op::atomic((State*)task.out + cell, each[q]);
        else if constexpr (Partial) ((State*)task.partials)[split * task.cells + cell] = each[q];  // a second launch folds
        else ((typename Emit::Out*)task.out)[cell] = Emit::of(each[q], task.option);
    }
}

// What an incomplete last line adds to a tile's columns, behind which their last split has come.
template <class Op, int V, int Threads, int Wide, class TaskT>
GR_HD void take_tail(const TaskT& task, u64 tile, const Base* base) {
    const TileStates<typename Op::State, V> each;
    for (u32 q = threadIdx.x; q < Wide * V; q += Threads) {
        const u64 x = tile * Wide + q / V, outer = row_of(task, x);
        if (x < task.rows * task.slots)
            each[q] = with_tail<Op, V>(each[q], task, task.row_at(outer), base, (x - outer * task.slots) * V + q % V, 0);
    }
}

// All threads call; each has put its states into shared memory. Writes the tile once all its splits have called.
template <class Op, class Emit, int V, int Threads, int Wide, bool Even, int Finish, bool Own = false, class TaskT>
GR_HD void finish_tile(const TaskT& task, u64 tile, u64 split) {
    typedef typename Op::State State;
    fold_down<Op, V, Wide * V, Threads, Threads / Wide>();
    if constexpr (Even && V > 1 && Op::commutative)
        if (task.tail) {
            const SplitRuns<Even, TaskT> share(task, split);
            if (share.is_last) take_tail<Op, V, Threads, Wide>(task, tile, share.base);
        }
    if (task.splits == 1) {
        write_tile<Op, Emit, V, Threads, Wide, Finish, false, Own>(task, tile, split);
        return;
    }
    write_tile<Op, Emit, V, Threads, Wide, Finish, true, Own>(task, tile, split);
    if (!JOINS<Finish> || !is_joining<Finish>(task, tile, split)) return;
    fold_tile<Op, V, Threads, Wide * V>(partials_of<State, Finish>(task, tile * task.splits * (Wide * V)), task.splits);
    write_tile<Op, Emit, V, Threads, Wide, Finish, false, Own>(task, tile, split);
}

// Writes the cells of a thread's V columns, of which it has taken all elements.
template <class Op, class Emit, int V, class Running, class TaskT>
GR_HD void write_columns(Running& columns, const TaskT& task, const typename TaskT::Place& row, u64 slot) {
    typedef typename Emit::Out Out;
    Pack<Out, V> results;
#pragma unroll
    for (int j = 0; j < V; j++)
        results.at[j] = Emit::of(settle_column<Op, V>(columns, j, task, row, 0, 1, 0), task.option);
    const i64 first = first_line<typename Op::In, V>(task, row, &task.base[0]).position(slot), end = (i64)task.length;
    Out* out = (Out*)task.out + task.first_cell + row.c + first * task.step_c;
    if (V > 1)
        if (first >= 0 && first + V <= end && task.step_c == 1 && (u64)out % sizeof(results) == 0)
            return store_pack_streaming<Out, V>(out, results);
#pragma unroll
    for (int j = 0; j < V; j++)
        if (first + j >= 0 && first + j < end) out[j * task.step_c] = results.at[j];
}

// Blocks that share an SM; 0 leaves it to the compiler. That makes room for one more, and begins to take in a batch when a part
// of its loads is issued. Where all rows of a batch are taken together, it is told to leave room for all of their loads: 38 words
// and what else a thread needs fit into the 64 registers that it has of four blocks. Of elements that are taken one by one that
// gained nothing, and cost a quarter down ten rows.
template <class Op, int V, int Items, bool Even> struct Resident {
    typedef typename ColumnsFor<Op, V, Even && Op::commutative>::type Running;
    static const int size = Reader<typename Op::In>::size_a, load = V * size > 4 ? V * size : 4;
    static const int words = (Items * load + (int)sizeof(Running)) / 4, room = Running::takes_rows && words <= 38 ? 4 : 0;
    static const bool crowded = Op::crowded & size;  // where the plan counts on so few
    static const int few = V > 2 ? 2 : V > 1 ? 3 : 4;
    static const int blocks = GR_BLOCKS ? GR_BLOCKS : !Even ? 0 : crowded ? few : room;
};

// Grid: one block a (split of the runs, tile of columns): neighbours read neighbouring columns of the same runs, so that
// memory is walked row by row. Threads across a tile: Wide. Even: runs of a chunk are one stride apart, and a split is of
// one chunk; its last line may end after `tail` elements. Uses Threads * V states of shared memory, and Threads more where they
// lie apart.
template <class Op, class Emit, int V, int Threads, int Wide, int Items, bool Even, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, Resident<Op, V, Items, Even>::blocks) reduce_columns(
    const __grid_constant__ TaskOf<Op, Chunks> task) {
    typedef typename Op::State State;
    const int tall = Threads / Wide, load = V * Reader<typename Op::In>::size_a;
    const bool few = tall == 1 && load <= 4 && (Items & (Items - 1)) == 0;
    const TileStates<State, V> each;
    const u64 split = task.tiles == 1 ? blockIdx.x : task.by_tiles.of(blockIdx.x), tile = blockIdx.x - split * task.tiles;
    const Column<Wide> column(task, tile);
    typename ColumnsFor<Op, V, Even && Op::commutative>::type columns;
    columns.start();
    const i64 column_offset[V] = {};
    const auto row = task.row_at(column.outer);
    const SplitRuns<Even, TaskOf<Op, Chunks>> share(task, split);
    u64 end = share.end, first = share.begin + column.down, stride = tall;
    if (!Op::commutative) {  // each thread takes neighbouring runs, so that the threads down a column stand in order
        const u64 part = (share.size + tall - 1) / tall;
        first = share.begin + column.down * part, stride = 1;
        end = first + part < end ? first + part : end;
    }
    const u64 count = column.inside && first < end ? (end - first + stride - 1) / stride : 0;
    if (Op::from_last) first = end - 1, stride = 0 - stride;
    absorb_columns<Op, V, Items, Even, few>(columns, task, row, share.base, column.slot, first, count, stride, column_offset);
    if constexpr (tall == 1 && (V == 1 ? load >= 4 : V * sizeof(typename Emit::Out) <= 16))
        if (task.splits == 1 && task.tail == 0) {
            if (column.inside) write_columns<Op, Emit, V>(columns, task, row, column.slot);
            return;
        }
    const u64 from = share.before + share.begin + column.down;
#pragma unroll
    for (int j = 0; j < V; j++) {
        const State state = settle_column<Op, V>(columns, j, task, row, from, tall, column_offset[j]);
        each[column.down * (Wide * V) + column.across * V + j] = state;
    }
    finish_tile<Op, Emit, V, Threads, Wide, Even, Finish>(task, tile, split);
}
