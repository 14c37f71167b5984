// Kernel parameters of one scan, by value. Python packs the same bytes: every member is eight bytes wide.
//
// Positions number the elements of all lines one after another, behind `lead` positions that hold none: they move
// the first element to where its address, modulo 16, has it.
#pragma once
#include "types.cuh"
#include "walk.cuh"

// What every scan begins with.
struct ScanArrays {
    void* out;
    const u8 *a, *b;      // operands: of position `lead`
    const void* carry;    // State a line, taken before its first element; or null
    void* totals;         // State a line, after its last element; or null
    void* states;         // zeros: what tiles publish to each other
    u32* ticket;          // zero: the next tile
    const u8* flags;      // of two operands: bool, true where segments begin
    i64 index;            // of each line's first element
};

struct Scan : ScanArrays {
    u64 positions;        // lead and elements
    u64 lead;
    u64 lines, length;    // length: elements of a line
    u64 tiles;            // or splits of a line
    u64 parts;            // short lines: those of a lane; lines side by side: those of a plane
    i64 step_flags, step_index;
    i64 step_a, step_b, step_out;  // lines at any strides: bytes from one element to the next
    u64 unit_a, unit_b, unit_out;  // strided lines: bytes that lie together, aligned, wherever lines begin; lines side by side:
                          // bytes from one to the next
    u64 magic, shift;     // strided lines: the quotient by their length of any number below 2^31
    f64 option[2];        // arguments of finalise
    Div by_length, by_lines;  // lines side by side: by the blocks of a plane
    Walk line;            // lines at any strides: where each begins in the operands and, in bytes, in the results
    Walk flag;            // and among flags
};

// How an operand's rows lie in shared memory: `pitch` bytes apart, each where its address, modulo 16, has it. Where they lie
// one after another in memory (`joined`), they do in shared memory as well.
struct RowLayout {
    i64 step;         // bytes in memory from one row to the next, in the order of the scan
    i64 pitch, phase_step;  // bytes in shared memory, and by how much the address modulo 16 grows
    i64 column_step;  // bytes from one column to the next; 0: all columns take one element
    i64 low, high;    // bytes that the operand owns, relative to its first element
    u64 joined;
    u64 share;        // bytes of shared memory for a warp's rows
    u64 hop;          // whole rows that 32 packs of 16 bytes fill in shared memory
    u64 inverse;      // of a row's packs, times 2^16, rounded up
    i64 more;         // bytes of an element less those to the next column

    // Bytes that so many columns of a row span.
    GR_HD u32 bytes(u32 columns) const { return columns * (u32)column_step + (u32)more; }
};

// A scan of lines that lie side by side, by strips of columns. A strip's line of tiles is a chain.
struct Strips : ScanArrays {
    u64 length, columns;  // elements of a line; lines side by side
    u64 strips, width;    // of a plane of columns; columns of a strip
    u64 lead;             // columns that the first strip lacks, so that the others begin where memory is aligned
    u64 chains, links;    // strips of all planes; tiles of each
    u64 rows, row_groups; // rows that a lane takes of a tile; lanes of a warp in one column
    u64 tiles;
    i64 step_out;
    f64 option[2];
    Div by_chains, by_strips, by_width, by_length;
    RowLayout layout_a, layout_b;
    Walk plane;           // where planes begin in the operands and, in bytes, in the results
};

// How the planes of a scan of short lines lie: in memory, and in shared memory where their bytes have the address, modulo 16, that
// they have in memory.
struct PlaneLayout {
    i64 gap;          // bytes in memory from a plane to the next
    i64 bytes, back;  // that a plane spans; from its lowest byte to its first element in the order of the scan
    i64 pitch;        // bytes in shared memory from a plane to the next; 0: planes lie there as they do in memory
    i64 share;        // bytes of shared memory for the planes of a share; 0: results take the place of elements
    i64 step;         // bytes from one element of a line to the next, in the order of the scan
    i64 row, column;  // bytes from one line to the next
};

// A scan of short lines, of which whole planes are copied into shared memory.
struct SmallLines : ScanArrays {
    u64 tiles;            // shares: planes that a warp takes together
    u64 length;           // elements of a line
    u64 planes, most;     // of a run, in which they follow one another by one step; of a share
    u64 rows, columns;    // of lines in a plane
    PlaneLayout in, results;
    f64 option[2];
    Div by_shares;        // of a run
    Walk run;             // where runs begin in the operand and, in bytes, in the results
};
