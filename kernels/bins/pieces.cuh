// Any groups, in order: positions sorted by label (base[1].a, i64) make each group a stretch, which is cut into pieces of
// at most `run`.. `slots` elements. `partials` holds where the stretch of each group begins (i64, one more than groups),
// base[1].b where its pieces do. A warp folds a piece, or where `tiles` cells lie side by side a thread folds a column.
#pragma once
#include "../core/state.cuh"
#include "../warp/reduce.cuh"
#include "elements.cuh"

struct Piece { u64 start, stop; };

// The stretch of sorted positions that piece number `piece` covers; nothing behind the last one.
GR_HD Piece find_piece(const Task<2>& task, u64 piece) {
    const i64* pieces = (const i64*)task.base[1].b;
    const i64* starts = (const i64*)task.partials;
    if (piece >= (u64)pieces[task.cells]) return {0, 0};
    u64 low = 0, high = task.cells;  // pieces[low] <= piece < pieces[high]
    while (high - low > 1) {
        const u64 middle = (low + high) / 2;
        if ((u64)pieces[middle] <= piece) low = middle;
        else high = middle;
    }
    const u64 start = starts[low] + (piece - pieces[low]) * task.slots, stop = starts[low + 1];
    return {start, start + task.slots < stop ? start + task.slots : stop};
}

// Any thread calls: takes in every `step`-th element of a stretch.
template <class Op, bool Indexed>
GR_HD typename Op::State fold_stretch(const Task<2>& task, const u8* a, const u8* b, u64 from, u64 to, u64 step) {
    typedef typename Op::In In;
    const i64* order = (const i64*)task.base[1].a;
    const i64 step_a = task.tiles * Reader<In>::size_a, step_b = task.tiles * Reader<In>::size_b;
    if (from >= to) return Op::identity();
    typename Op::Acc acc = Op::start();
    u64 i = from;
    for (; i + 3 * step < to; i += 4 * step) {
        i64 at[4];
        In x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) at[j] = order[i + j * step];
#pragma unroll
        for (int j = 0; j < 4; j++) x[j] = Reader<In>::one(a + at[j] * step_a, b + at[j] * step_b);
#pragma unroll
        for (int j = 0; j < 4; j++) Op::absorb(acc, x[j], position_of<Indexed>(task, at[j]));
    }
    for (; i < to; i += step)
        Op::absorb(acc, Reader<In>::one(a + order[i] * step_a, b + order[i] * step_b), position_of<Indexed>(task, order[i]));
    return Op::settle(acc);
}

// Grid: rows x ceil(chunks / warps) where `chunks` is the most pieces there can be. Writes a state a row and piece.
template <class Op, bool Indexed, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_pieces(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    const u64 row = blockIdx.x / task.splits, lane = threadIdx.x % 32;
    const u64 number = blockIdx.x % task.splits * (Threads / 32) + threadIdx.x / 32;
    if (number >= task.chunks) return;
    const Piece piece = find_piece(task, number);
    const u8* a = task.base[0].a + row * task.length * Reader<In>::size_a;
    const u8* b = task.base[0].b + row * task.length * Reader<In>::size_b;
    const u64 each = (piece.stop - piece.start + 31) / 32;
    u64 from = piece.start + (Op::commutative ? lane : lane * each), to = piece.stop;
    if (!Op::commutative && from + each < to) to = from + each;
    typename Op::State state = fold_stretch<Op, Indexed>(task, a, b, from, to, Op::commutative ? 32 : 1);
    state = warp_reduce<Op, 32>(state);
    if (lane == 0) ((typename Op::State*)task.out)[row * task.chunks + number] = state;
}

// Grid: rows x pieces x column tiles (`runs` of them). Writes a state a row, piece and column.
template <class Op, bool Indexed, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_columns(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    const u64 column = blockIdx.x % task.runs * Threads + threadIdx.x;
    const u64 number = blockIdx.x / task.runs % task.chunks, row = blockIdx.x / task.runs / task.chunks;
    if (column >= task.tiles) return;
    const Piece piece = find_piece(task, number);
    const u8* a = task.base[0].a + (row * task.length * task.tiles + column) * Reader<In>::size_a;
    const u8* b = task.base[0].b + (row * task.length * task.tiles + column) * Reader<In>::size_b;
    ((typename Op::State*)task.out)[(row * task.chunks + number) * task.tiles + column] =
        fold_stretch<Op, Indexed>(task, a, b, piece.start, piece.stop, 1);
}

// The pieces of one row, group and column from `from` to `to`, in order.
template <class Op> GR_HD typename Op::State join_pieces(const Task<2>& task, u64 row, u64 column, u64 from, u64 to) {
    typedef typename Op::State State;
    const State* states = (const State*)task.base[0].a;
    State state = Op::identity();
    for (u64 i = from; i < to; i++) {
        const State next = load_state(states + (row * task.chunks + i) * task.tiles + column);
        state = i == from ? next : Op::combine(state, next);
    }
    return state;
}

// Grid: any number of blocks; a warp takes a row, group and column, or a thread where `Side`: columns lie side by side.
// Folds its pieces, which base[0].a holds, in order, behind what base[0].b holds of chunks before, if anything.
template <class Op, bool Side, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_join(const __grid_constant__ Task<2> task) {
    typedef typename Op::State State;
    const int lanes = Side ? 1 : 32;
    const i64* pieces = (const i64*)task.base[1].b;
    const State* before = (const State*)task.base[0].b;
    const u64 lane = threadIdx.x % lanes, cells = task.rows * task.cells * task.tiles, step = gridDim.x * (Threads / lanes);
    for (u64 cell = (u64)blockIdx.x * (Threads / lanes) + threadIdx.x / lanes; cell < cells; cell += step) {
        const u64 column = cell % task.tiles, group = cell / task.tiles % task.cells, row = cell / task.tiles / task.cells;
        const u64 begin = pieces[group], end = pieces[group + 1], each = (end - begin + lanes - 1) / lanes;
        const u64 from = begin + lane * each, to = from + each < end ? from + each : end;
        State state = join_pieces<Op>(task, row, column, from, to);
        if (!Side) state = warp_reduce<Op, 32>(state);
        if (lane == 0) ((State*)task.out)[cell] = before ? Op::combine(load_state(before + cell), state) : state;
    }
}
