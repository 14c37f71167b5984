// What the transposes share: a matrix cut into square tiles, and how a block's threads go over one.
#pragma once
#include "step.cuh"

const int SIDE = 64, ROWS = 8;  // a tile is SIDE x SIDE elements; a block is ROWS rows of SIDE threads
const int EACH = SIDE / ROWS;   // elements of a thread

// The tile of this block: its corner in the matrix of n rows and m columns, and the thread's place in its first rows.
struct Tile {
    u64 row, column;
    u32 x, y;
    GR_HD explicit Tile(const Step& step) {
        const u64 across = (step.m + SIDE - 1) / SIDE;
        row = blockIdx.x / across * SIDE;
        column = blockIdx.x % across * SIDE;
        x = threadIdx.x % SIDE;
        y = threadIdx.x / SIDE;
    }
};

// All threads call. A tile through shared memory: rows are read as rows and written as rows. Place says where in shared
// memory an element of the tile lies. One block barrier. A thread's elements go through registers, so that all of its
// loads are under way at once: the compiler may not move one before a store that could be to the same address.
template <class T, class Place> GR_HD void transpose_tile(const Step& step, T* each) {
    const Tile tile(step);
    const T* in = (const T*)step.in;
    T* out = (T*)step.out;
    T values[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const u64 row = tile.row + tile.y + k * ROWS, column = tile.column + tile.x;
        values[k] = row < step.n && column < step.m ? in[row * step.m + column] : T(0);
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) each[Place::of(tile.y + k * ROWS, tile.x)] = values[k];
    __syncthreads();  // the tile is there
#pragma unroll
    for (int k = 0; k < EACH; k++) values[k] = each[Place::of(tile.x, tile.y + k * ROWS)];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const u64 row = tile.column + tile.y + k * ROWS, column = tile.row + tile.x;
        if (row < step.m && column < step.n) out[row * step.n + column] = values[k];
    }
}
