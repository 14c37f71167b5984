// Transpose 1: rows are read, columns are written: each lane of a warp writes to a line of memory of its own.
#pragma once
#include "transpose.cuh"

// A block a tile.
template <class T> __global__ void __launch_bounds__(SIDE* ROWS) step_transpose_01(const Step step) {
    const Tile tile(step);
#pragma unroll
    for (u32 y = tile.y; y < SIDE; y += ROWS) {
        const u64 row = tile.row + y, column = tile.column + tile.x;
        if (row < step.n && column < step.m)
            ((T*)step.out)[column * step.n + row] = ((const T*)step.in)[row * step.m + column];
    }
}
