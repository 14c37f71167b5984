// Mixed-radix walks: a linear position to byte offsets in strided arrays, division-free.
#pragma once
#include "types.cuh"

const int MAX_DIMS = 8;

// Division by a value fixed at launch: a multiplication and a shift (Granlund and Montgomery, 1994).
// size >= 2; right for every n < 2^63. magic = ceil(2^(63 + l) / size), shift = l - 1, l = ceil(log2 size).
struct Div {
    u64 size, magic;
    u64 shift;
    GR_HD u64 of(u64 n) const { return __umul64hi(n, magic) >> shift; }
};

// Where a position lies: dims[0] is the slowest. `a` and `b` are byte strides of the operands, `c` a third
// stride: of the output cell for kept dimensions, of the element's index for reduced ones.
struct Offset { i64 a, b, c; };
struct Offset4 : Offset { i64 more[2]; };  // and of a third and fourth operand

// What a walk knows of a dimension, all in one place: a launch's parameters are read by the cache line, from far away.
struct Stride { Div div; i64 a, b, c; };

struct Walk {
    u64 count;  // dimensions in use, at least 1
    Stride dim[MAX_DIMS];

    GR_HD Offset at(u64 n) const {
        Offset offset = {0, 0, 0};
        for (int d = (int)count - 1; d > 0; d--) {
            u64 q = dim[d].div.of(n);
            i64 r = (i64)(n - q * dim[d].div.size);
            offset.a += r * dim[d].a; offset.b += r * dim[d].b; offset.c += r * dim[d].c;
            n = q;
        }
        offset.a += (i64)n * dim[0].a; offset.b += (i64)n * dim[0].b; offset.c += (i64)n * dim[0].c;
        return offset;
    }
};
