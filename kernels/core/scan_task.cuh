// What one scan does, by value. Python packs the same bytes: every member is eight bytes wide.
//
// Positions number the elements of all lines one after another, behind `lead` positions that hold none: they move
// the first element to where its address, modulo 16, has it.
#pragma once
#include "types.cuh"
#include "walk.cuh"

struct Scan {
    void* out;
    const u8 *a, *b;      // operands: of position `lead`
    const void* carry;    // State a line, taken before its first element; or null
    void* totals;         // State a line, after its last element; or null
    void* states;         // zeros: what tiles post to each other
    u32* ticket;          // zero: the next tile
    u64 positions;        // lead and elements
    u64 lead;
    u64 lines, length;    // length: elements of a line
    u64 tiles;            // or splits of a line
    i64 step_a, step_b, step_out;  // strided lines: bytes from one element to the next
    f64 option[2];        // arguments of finalise
    Div by_length, by_lines;
    Walk line;            // strided lines: where each begins in the operands and, in bytes, in the results
};
