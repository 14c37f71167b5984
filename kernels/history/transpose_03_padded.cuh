// Transpose 3: an unused element behind each row of the tile, so that 32 neighbours in a column lie in 32 banks.
#pragma once
#include "transpose.cuh"

struct Padded {
    static const int elements = SIDE * (SIDE + 1);
    static GR_HD u32 of(u32 y, u32 x) { return y * (SIDE + 1) + x; }
};

// A block a tile.
template <class T> __global__ void __launch_bounds__(SIDE* ROWS) step_transpose_03(const Step step) {
    STATIC_SHARED(T, each, Padded::elements);
    transpose_tile<T, Padded>(step, each);
}
