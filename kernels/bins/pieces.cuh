// Segmented reduction of positions sorted by label: each group is a segment, which is cut into pieces of at most `slots`
// elements. A sub-warp folds a piece, or where `tiles` cells lie side by side a thread folds some columns. Chunk c of a
// launch has its operands in base[2c], and in base[2c + 1] its positions and where stretches begin (one more than
// groups).
#pragma once
#include "../core/state.cuh"
#include "../warp/reduce.cuh"
#include "elements.cuh"

const int CHUNKS_OF_PIECES = 16;  // of one launch, at most: PIECES_BATCH in group_plans.py

struct Piece { u64 start, stop; };

// Piece number g is the first of group g. The others are numbered behind those of all groups; there is room for as many
// as a group's stretch has ends of `slots` positions in it, some of which are empty.
template <class Task> GR_HD u64 more_pieces(const Task& task, const u32* starts, u64 group) {
    return task.cells + task.by_slots.of(starts[group]);
}

// The stretch of sorted positions that a piece covers; nothing for an empty one and behind the last.
template <class Task> GR_HD Piece find_piece(const Task& task, const u32* starts, u64 piece) {
    u64 low = piece, number = 0;
    if (piece >= task.cells) {
        if (piece >= more_pieces(task, starts, task.cells)) return {0, 0};
        u64 high = task.cells;  // numbers behind low's first <= piece < those behind high's
        for (low = 0; high - low > 1;) {
            const u64 middle = (low + high) / 2;
            if (more_pieces(task, starts, middle) <= piece) low = middle;
            else high = middle;
        }
        number = piece - more_pieces(task, starts, low) + 1;
    }
    const u64 start = starts[low] + number * task.slots, stop = starts[low + 1];
    if (start >= stop) return {0, 0};
    return {start, start + task.slots < stop ? start + task.slots : stop};
}

// What a lane takes of a piece: every `step`-th element from one on. Lanes follow one another where the order counts.
template <class Int> struct Part { Int from, to, step; };
template <class Op, int Lanes, class Int> GR_HD Part<Int> part_of(const Piece& piece) {
    const Int lane = threadIdx.x % Lanes, start = (Int)piece.start, stop = (Int)piece.stop;
    if (Op::commutative || Lanes == 1) return {start + lane, stop, Lanes};
    const Int each = (stop - start + Lanes - 1) / Lanes, from = start + lane * each;
    return {from, from + each < stop ? from + each : stop, 1};
}

// Any thread calls: the state of a part of sorted positions, of which `where` says where their elements lie, `read` reads
// these, and `index` numbers them.
template <class Op, class Int, class Where, class Read, class Index>
GR_HD typename Op::State fold_part(const Part<Int>& part, Where where, Read read, Index index) {
    if (part.from >= part.to) return Op::identity();
    typename Op::Acc acc = Op::start();
    Int i = part.from;
    for (; i + 3 * part.step < part.to; i += 4 * part.step) {
        u32 at[4];
        typename Op::In x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) at[j] = where(i + j * part.step);
#pragma unroll
        for (int j = 0; j < 4; j++) x[j] = read(at[j]);
#pragma unroll
        for (int j = 0; j < 4; j++) Op::absorb(acc, x[j], index(at[j]));
    }
    for (; i < part.to; i += part.step) {
        const u32 at = where(i);
        Op::absorb(acc, read(at), index(at));
    }
    return Op::settle(acc);
}

// The same of elements in memory: of a chunk, whose operands are at `a` and `b`.
template <class Op, bool Indexed, class Task>
GR_HD typename Op::State fold_stretch(const Task& task, const Base* chunk, const u8* a, const u8* b, const Part<u64>& part) {
    typedef typename Op::In In;
    const u32* order = (const u32*)chunk[1].a;
    const i64 step_a = Reader<In>::size_a, step_b = Reader<In>::size_b;
    return fold_part<Op>(
        part, [&](u64 i) { return order[i]; }, [&](u32 at) { return Reader<In>::one(a + at * step_a, b + at * step_b); },
        [&](u32 at) { return Indexed ? chunk->index + task.run.at(at).c : 0; });
}

// Grid: ceil(chunks x rows x pieces / sub-warps) where `chunks` is the most pieces there can be. A sub-warp of Lanes
// neighbouring lanes takes a piece, and writes a state a chunk, row and piece.
template <class Op, bool Indexed, int Lanes, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_pieces(const __grid_constant__ Task<2 * CHUNKS_OF_PIECES> task) {
    typedef typename Op::In In;
    const u64 subwarp = (u64)blockIdx.x * (Threads / Lanes) + threadIdx.x / Lanes, lane = threadIdx.x % Lanes;
    const bool is_there = subwarp < task.runs;
    const u64 line = !is_there ? 0 : task.chunks > 1 ? task.by_width.of(subwarp) : subwarp;  // a chunk's row
    const u64 number = subwarp - line * task.chunks, row = line % task.rows;
    const Base* chunk = task.base + line / task.rows * 2;
    const Piece piece = is_there ? find_piece(task, (const u32*)chunk[1].b, number) : Piece{0, 0};
    const u8* a = chunk->a + row * task.length * Reader<In>::size_a;
    const u8* b = chunk->b + row * task.length * Reader<In>::size_b;
    typename Op::State state = fold_stretch<Op, Indexed>(task, chunk, a, b, part_of<Op, Lanes, u64>(piece));
    state = warp_reduce<Op, Lanes>(state);
    if (is_there && lane == 0) ((typename Op::State*)task.out)[subwarp] = state;
}

// V columns side by side, of which a thread takes elements at sorted positions: cells from `first` on of a chunk's row. Rows lie
// one after another, or with Lie `row` is a walk of the cells of all rows, and `run` one of a column's elements.
template <class Op, bool Indexed, int V, int Lie, class Task> struct SortedColumns {
    typedef typename Op::In In;
    const Task& task;
    const Base* chunk;
    const u8 *a, *b;
    typename Op::Acc acc[V];

    GR_HD SortedColumns(const Task& of, const Base* from, u64 row, u64 column) : task(of), chunk(from) {
        const u64 first = row * task.length * task.tiles + column;
        a = from->a + (Lie ? task.row.at(row * task.tiles + column).a : first * Reader<In>::size_a);
        b = from->b + first * Reader<In>::size_b;
#pragma unroll
        for (int j = 0; j < V; j++) acc[j] = Op::start();
    }
    // The elements of N positions, which are on their way together.
    template <int N> GR_HD void take(const u32* order) {
        const u64 step_a = task.tiles * Reader<In>::size_a, step_b = task.tiles * Reader<In>::size_b;
        u32 at[N];
        Pack<In, V> x[N];
#pragma unroll
        for (int k = 0; k < N; k++) at[k] = order[k];
#pragma unroll
        for (int k = 0; k < N; k++)
            x[k] = Reader<In>::template load<V>(a + (Lie ? task.run.at(at[k]).a : at[k] * step_a), b + at[k] * step_b);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const i64 index = Indexed ? chunk->index + task.run.at(at[k]).c : 0;
#pragma unroll
            for (int j = 0; j < V; j++) Op::absorb(acc[j], x[k].at[j], index);
        }
    }
};

// Grid: a thread for each chunk, row, piece and V columns side by side; `runs` threads in all, `width` of them a row. Writes a
// state a chunk, row, piece and column. A thread has the elements of Loads positions on their way.
template <class Op, bool Indexed, int V, int Loads, int Threads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_columns(const __grid_constant__ Task<2 * CHUNKS_OF_PIECES> task) {
    const u64 thread = (u64)blockIdx.x * Threads + threadIdx.x;
    if (thread >= task.runs) return;
    const u64 part = task.by_width.of(thread), line = part / task.chunks, row = line % task.rows;
    const u64 column = (thread - part * task.by_width.size) * V;
    const Base* chunk = task.base + line / task.rows * 2;
    const Piece piece = find_piece(task, (const u32*)chunk[1].b, part - line * task.chunks);
    const u32 *order = (const u32*)chunk[1].a + piece.start, *const end = (const u32*)chunk[1].a + piece.stop;
    SortedColumns<Op, Indexed, V, Lie, Task<2 * CHUNKS_OF_PIECES>> columns(task, chunk, row, column);
    for (; end - order >= Loads; order += Loads) columns.template take<Loads>(order);
    if constexpr (Loads > 4)
        for (; end - order >= 4; order += 4) columns.template take<4>(order);
    for (; order < end; order++) columns.template take<1>(order);
    typename Op::State* const to = (typename Op::State*)task.out + part * task.tiles + column;
#pragma unroll
    for (int j = 0; j < V; j++) to[j] = piece.start < piece.stop ? Op::settle(columns.acc[j]) : Op::identity();
}

// All Lanes lanes of a sub-warp call: the states of a group's pieces in order, a share of them to each lane. Valid in
// the first.
template <class Op, int Lanes, class Get> GR_HD typename Op::State join_parts(u64 pieces, Get get) {
    const u64 each = (pieces + Lanes - 1) / Lanes, from = threadIdx.x % Lanes * each;
    const u64 to = from + each < pieces ? from + each : pieces;
    typename Op::State state = Op::identity();
    for (u64 i = from; i < to; i++) {
        const typename Op::State next = get(i);
        state = i == from ? next : Op::combine(state, next);
    }
    return warp_reduce<Op, Lanes>(state);
}

// What `partials` holds of a chunk's row and column, for a group.
template <class Op, bool Side, class Task>
GR_HD typename Op::State join_pieces(const Task& task, u64 line, u64 column, u64 group, const u32* starts) {
    typedef typename Op::State State;
    const State* states = (const State*)task.partials + line * task.chunks * task.tiles + column;
    const u64 length = starts[group + 1] - starts[group], more = more_pieces(task, starts, group);
    return join_parts<Op, Side ? 1 : 32>((length + task.slots - 1) / task.slots, [&](u64 i) {
        return load_state(states + (i ? more + i - 1 : group) * task.tiles);
    });
}

// Grid: any number of blocks; a warp takes a row, group and column, or a thread where `Side`: pieces are few.
// Folds the parts of `splits` chunks in order, behind what `tickets` holds of chunks before, if anything.
template <class Op, bool Side, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_join(const __grid_constant__ Task<2 * CHUNKS_OF_PIECES> task) {
    typedef typename Op::State State;
    const int lanes = Side ? 1 : 32;
    const State* before = (const State*)task.tickets;
    const u64 cells = task.rows * task.cells * task.tiles, step = gridDim.x * (Threads / lanes);
    for (u64 cell = (u64)blockIdx.x * (Threads / lanes) + threadIdx.x / lanes; cell < cells; cell += step) {
        const u64 column = cell % task.tiles, group = cell / task.tiles % task.cells, row = cell / task.tiles / task.cells;
        State state = before ? load_state(before + cell) : Op::identity();
        for (u64 c = 0; c < task.splits; c++) {
            const u32* starts = (const u32*)task.base[2 * c + 1].b;
            const State mine = join_pieces<Op, Side>(task, c * task.rows + row, column, group, starts);
            state = c == 0 && !before ? mine : Op::combine(state, mine);
        }
        if (threadIdx.x % lanes == 0) ((State*)task.out)[cell] = state;
    }
}
