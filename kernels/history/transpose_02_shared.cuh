// Transpose 2: a tile turns in shared memory, so that reads and writes go along rows; its columns share one bank.
#pragma once
#include "transpose.cuh"

struct Plain {
    static const int elements = SIDE * SIDE;
    static GR_HD u32 of(u32 y, u32 x) { return y * SIDE + x; }
};

// A block a tile.
template <class T> __global__ void __launch_bounds__(SIDE* ROWS) step_transpose_02(const Step step) {
    STATIC_SHARED(T, each, Plain::elements);
    transpose_tile<T, Plain>(step, each);
}
