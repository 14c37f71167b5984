// Transpose 4: each row of the tile is permuted by its own number: 32 neighbours in a column lie in 32 banks, and no gap is needed.
#pragma once
#include "transpose.cuh"

struct Swizzled {
    static const int elements = SIDE * SIDE;
    static GR_HD u32 of(u32 y, u32 x) { return y * SIDE + (x ^ y); }
};

// A block a tile.
template <class T> __global__ void __launch_bounds__(SIDE* ROWS) step_transpose_04(const Step step) {
    STATIC_SHARED(T, each, Swizzled::elements);
    transpose_tile<T, Swizzled>(step, each);
}
