// Columns whose lines begin at several phases: a block reads the runs of one phase after another, each aligned to itself,
// and brings what it found of every column together in shared memory.
#pragma once
#include "columns.cuh"

// Grid: one block a (split of the runs, tile of columns), Wide threads across it: a tile has one slot of columns fewer.
// One chunk, one line of cells, runs one stride apart, of which every Phases-th begins at the same phase. Uses
// Threads * V states of shared memory. For commutative operators.
template <class Op, class Emit, int V, int Threads, int Wide, int Items, int Phases, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_phased_columns(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    typedef typename Op::State State;
    const int tall = Threads / Wide, columns_a_tile = (Wide - 1) * V;
    const u32 across = threadIdx.x % Wide, down = threadIdx.x / Wide;
    const u64 tiles = gridDim.x / task.splits, split = blockIdx.x / tiles, tile = blockIdx.x - split * tiles;
    const u64 share = (task.runs + task.splits * Phases - 1) / (task.splits * Phases) * Phases, begin = split * share;
    const u64 end = begin + share < task.runs ? begin + share : task.runs, slot = tile * (Wide - 1) + across;
    State* mine = (State*)GR_SHARED + down * columns_a_tile;
    for (u32 q = across; q < columns_a_tile; q += Wide) mine[q] = Op::identity();
#pragma unroll 1
    for (u32 phase = 0; phase < Phases; phase++) {
        const Offset row = {(i64)phase * task.run.a[0], 0, 0};  // from where every Phases-th run is looked at
        const i64 place = line_at<In, V>(task.pointers(task.base).moved(row), 0).position(slot);
        const i64 index = (i64)phase * task.run.c[0], left = (i64)task.length - place;
        i64 within[V];
#pragma unroll
        for (int j = 0; j < V; j++) within[j] = index;
        EvenColumns<Op, V> columns;
        columns.start();
        if (left > 0 && begin + phase < end)
            absorb_columns<Op, V, Items, true>(columns, task, row, slot, begin + down * Phases, end - phase, tall * Phases,
                                               within);
        __syncthreads();  // all have done with the columns of the phase before
        const i32 first = (i32)(place - (i64)tile * columns_a_tile);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const State state = settle_column<Op, V>(columns, j, task, row, begin + down * Phases, tall * Phases, index);
            const u32 q = (u32)(first + j);
            if (q >= (u32)columns_a_tile || j >= left) continue;
            State& cell = mine[q % V * (Wide - 1) + q / V];  // so that neighbouring threads meet different banks
            cell = Op::combine(cell, state);
        }
    }
    finish_tile<Op, Emit, V, Threads, Wide - 1, false, Finish>(task, tile, split);
}
