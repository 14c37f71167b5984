// Transpose 1: rows are read, columns are written: each lane of a warp writes to a line of memory of its own.
#pragma once
#include "transpose.cuh"

// A block a tile.
template <class T> __global__ void __launch_bounds__(SIDE* ROWS) step_transpose_01(const Step step) {
    const Tile tile(step);
    T values[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const u64 row = tile.row + tile.y + k * ROWS, column = tile.column + tile.x;
        values[k] = row < step.n && column < step.m ? ((const T*)step.in)[row * step.m + column] : T(0);
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const u64 row = tile.row + tile.y + k * ROWS, column = tile.column + tile.x;
        if (row < step.n && column < step.m) ((T*)step.out)[column * step.n + row] = values[k];
    }
}
