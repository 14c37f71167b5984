// Any groups, in order: positions sorted by label make each group a stretch, which is cut into pieces of at most `slots`
// elements. A team of lanes folds a piece, or where `tiles` cells lie side by side a thread folds a column. Chunk c of a launch has
// its operands in base[2c], and in base[2c + 1] its positions and where stretches begin (one more than groups).
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

// Any thread calls: takes in every `step`-th element of a stretch of a chunk's positions, whose operands are at `a`, `b`.
template <class Op, bool Indexed, class Task>
GR_HD typename Op::State fold_stretch(
    const Task& task, const Base* chunk, const u8* a, const u8* b, u64 from, u64 to, u64 step) {
    typedef typename Op::In In;
    const u32* order = (const u32*)chunk[1].a;
    const i64 step_a = task.tiles * Reader<In>::size_a, step_b = task.tiles * Reader<In>::size_b;
    const auto absorb = [&](typename Op::Acc& acc, const In& x, i64 at) {
        Op::absorb(acc, x, Indexed ? chunk->index + task.run.at(at).c : 0);
    };
    if (from >= to) return Op::identity();
    typename Op::Acc acc = Op::start();
    u64 i = from;
    for (; i + 3 * step < to; i += 4 * step) {
        u32 at[4];
        In x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) at[j] = order[i + j * step];
#pragma unroll
        for (int j = 0; j < 4; j++) x[j] = Reader<In>::one(a + at[j] * step_a, b + at[j] * step_b);
#pragma unroll
        for (int j = 0; j < 4; j++) absorb(acc, x[j], at[j]);
    }
    for (; i < to; i += step) absorb(acc, Reader<In>::one(a + order[i] * step_a, b + order[i] * step_b), order[i]);
    return Op::settle(acc);
}

// Grid: ceil(chunks x rows x pieces / teams) where `chunks` is the most pieces there can be. A team of Lanes neighbouring
// lanes takes a piece, and writes a state a chunk, row and piece.
template <class Op, bool Indexed, int Lanes, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_pieces(const __grid_constant__ Task<2 * CHUNKS_OF_PIECES> task) {
    typedef typename Op::In In;
    const u64 team = (u64)blockIdx.x * (Threads / Lanes) + threadIdx.x / Lanes, lane = threadIdx.x % Lanes;
    const bool is_there = team < task.runs;
    const u64 line = !is_there ? 0 : task.chunks > 1 ? task.by_width.of(team) : team;  // a chunk's row
    const u64 number = team - line * task.chunks, row = line % task.rows;
    const Base* chunk = task.base + line / task.rows * 2;
    const Piece piece = is_there ? find_piece(task, (const u32*)chunk[1].b, number) : Piece{0, 0};
    const u8* a = chunk->a + row * task.length * Reader<In>::size_a;
    const u8* b = chunk->b + row * task.length * Reader<In>::size_b;
    const u64 each = (piece.stop - piece.start + Lanes - 1) / Lanes;
    u64 from = piece.start + (Op::commutative ? lane : lane * each), to = piece.stop;
    if (!Op::commutative && from + each < to) to = from + each;
    typename Op::State state = fold_stretch<Op, Indexed>(task, chunk, a, b, from, to, Op::commutative ? Lanes : 1);
    state = warp_reduce<Op, Lanes>(state);
    if (is_there && lane == 0) ((typename Op::State*)task.out)[team] = state;
}

// Grid: chunks x rows x pieces x column tiles (`runs` of them). Writes a state a chunk, row, piece and column.
template <class Op, bool Indexed, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_columns(const __grid_constant__ Task<2 * CHUNKS_OF_PIECES> task) {
    typedef typename Op::In In;
    const u64 column = blockIdx.x % task.runs * Threads + threadIdx.x;
    const u64 number = blockIdx.x / task.runs % task.chunks, line = blockIdx.x / task.runs / task.chunks;
    if (column >= task.tiles) return;
    const u64 row = line % task.rows;
    const Base* chunk = task.base + line / task.rows * 2;
    const Piece piece = find_piece(task, (const u32*)chunk[1].b, number);
    const u8* a = chunk->a + (row * task.length * task.tiles + column) * Reader<In>::size_a;
    const u8* b = chunk->b + (row * task.length * task.tiles + column) * Reader<In>::size_b;
    ((typename Op::State*)task.out)[(line * task.chunks + number) * task.tiles + column] =
        fold_stretch<Op, Indexed>(task, chunk, a, b, piece.start, piece.stop, 1);
}

// What `partials` holds of a chunk's row and column, for a group: its pieces in order, a share of them to each lane.
template <class Op, bool Side, class Task>
GR_HD typename Op::State join_pieces(const Task& task, u64 line, u64 column, u64 group, const u32* starts) {
    typedef typename Op::State State;
    const int lanes = Side ? 1 : 32;
    const State* states = (const State*)task.partials + line * task.chunks * task.tiles + column;
    const u64 length = starts[group + 1] - starts[group], more = more_pieces(task, starts, group);
    const u64 pieces = (length + task.slots - 1) / task.slots, each = (pieces + lanes - 1) / lanes;
    const u64 from = threadIdx.x % lanes * each, to = from + each < pieces ? from + each : pieces;
    State state = Op::identity();
    for (u64 i = from; i < to; i++) {
        const State next = load_state(states + (i ? more + i - 1 : group) * task.tiles);
        state = i == from ? next : Op::combine(state, next);
    }
    return Side ? state : warp_reduce<Op, 32>(state);
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
