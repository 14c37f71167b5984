// What the transposes share: a matrix cut into square tiles, and how a block's threads go over one.
#pragma once
#include "step.cuh"

const int SIDE = 32, ROWS = 8;  // a tile is SIDE x SIDE elements; a block is ROWS rows of SIDE threads

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
// memory an element of the tile lies. One block barrier.
template <class T, class Place> GR_HD void transpose_tile(const Step& step, T* each) {
    const Tile tile(step);
    const T* in = (const T*)step.in;
    T* out = (T*)step.out;
#pragma unroll
    for (u32 y = tile.y; y < SIDE; y += ROWS) {
        const u64 row = tile.row + y, column = tile.column + tile.x;
        if (row < step.n && column < step.m) each[Place::of(y, tile.x)] = in[row * step.m + column];
    }
    __syncthreads();  // the tile is there
#pragma unroll
    for (u32 y = tile.y; y < SIDE; y += ROWS) {
        const u64 row = tile.column + y, column = tile.row + tile.x;
        if (row < step.m && column < step.n) out[row * step.n + column] = each[Place::of(tile.x, y)];
    }
}
