// What one launch does, by value: layouts, operands and where results go. Python packs the same bytes.
#pragma once
#include "types.cuh"
#include "walk.cuh"

// One chunk of a batch: its operands' first elements, and the index of its first element.
struct Base { const u8 *a, *b; i64 index; };

// Reduced elements are `runs` runs a chunk; in the rows kernels a run is `length` elements in a line, in the
// columns kernel it is one line of `length` kept columns. Kept cells are `rows` rows (times the columns).
template <int Chunks> struct Task {
    void* out;        // Emit::Out, one a cell
    void* partials;   // State, one a block and cell, where several blocks share a cell
    u32* tickets;     // one a group of blocks that share cells; zero before and after each launch
    u64 rows, runs, length;
    u64 slots;        // vectors that cover a line, whatever its alignment
    u64 splits;       // blocks that share a row (or a tile of columns)
    u64 tiles;        // warp tiles a line
    u64 chunks;       // chunks in the batch: the slowest reduced dimension
    u64 cells;        // cells of the output: with two passes, the distance between partials of one cell
    u64 tail;         // flat columns: elements in the last, incomplete line
    i64 step_a, step_b, step_c;  // from one element of a line to the next: bytes, bytes, index or output cell
    i64 first_cell;              // cell of row 0
    i64 low_a, high_a, low_b, high_b;  // bytes that belong to the operands, relative to their first elements
    f64 option[2];    // arguments of finalise: ddof; unused
    Div by_slots, by_tiles, by_runs;
    Div by_width;     // flat columns: cells repeat with this period along a line
    Walk row, run;
    Base base[Chunks];
};

// A cell's value as the partial keeps it.
template <class Op> struct Keep {
    typedef typename Op::State Out;
    static GR_HD Out of(typename Op::State state, const f64*) { return state; }
};

// A cell's value as the caller asked for it.
template <class Op, class Result> struct Final {
    typedef Result Out;
    static GR_HD Out of(typename Op::State state, const f64* option) {
        return cast<Result>(Op::finalise(state, option));
    }
};

// Blocks of a kernel that an SM must have room for. 0 leaves it to the compiler, which may spill registers to fit more.
#ifndef GR_BLOCKS
#define GR_BLOCKS 0
#endif

// How blocks that share a cell bring their partials together.
const int TICKET = 0, ATOMIC = 1, TWO_PASS = 2;
