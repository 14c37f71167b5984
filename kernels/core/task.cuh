// Kernel parameters of one launch, by value: layouts, operands and where results go. Python packs the same bytes.
#pragma once
#include "types.cuh"
#include "walk.cuh"

// One chunk of a batch: its operands' first elements, and the index of its first element.
struct Base { const u8 *a, *b; i64 index; };

// Where elements lie that are read together: of one or two operands, and of up to four.
struct Pointers {
    const u8 *a, *b;
    GR_HD Pointers offset_by(const Offset& by) const { return {a + by.a, b + by.b}; }
};
struct Pointers4 : Pointers {
    const u8* more[2];
    GR_HD Pointers4 offset_by(const Offset4& by) const {
        return {Pointers::offset_by(by), {more[0] + by.more[0], more[1] + by.more[1]}};
    }
};

// Reduced elements are `runs` runs a chunk; in the rows kernels a run is `length` elements in a line, in the
// columns kernel it is one line of `length` kept columns. Kept cells are `rows` rows (times the columns).
template <int Chunks> struct Task {
    void* out;        // Emit::Out, one a cell
    void* partials;   // State, one a block and cell, where several blocks share a cell
    u32* tickets;     // one a group of blocks that share cells, or their published states; zero before and after each launch
    Base base[Chunks];
    u64 rows, runs, length;
    u64 slots;        // vectors that cover a line, whatever its alignment
    u64 splits;       // blocks that share a row (or a tile of columns)
    u64 tiles;        // warp tiles a line; tiles of a plane of staged rows, or of columns; of a row in another order of
                      // indices: lines of a long one; flat columns: elements from one line to the next
    u64 chunks;       // chunks in the batch: the slowest reduced dimension
    u64 cells;        // cells of the output: with two passes, the distance between partials of one cell
    u64 tail;         // flat columns: elements in the last, incomplete line
    i64 step_a, step_b, step_c;  // from one element of a line to the next: bytes, bytes (of staged rows, from one
                                 // row to the next), index or output cell
    i64 first_cell;              // cell of row 0
    i64 low_a, high_a, low_b, high_b;  // bytes that belong to the operands, relative to their first elements
    f64 option[2];    // arguments of finalise: ddof; unused
    Div by_slots, by_tiles, by_runs;
    Div by_width;     // flat columns: cells of each of the lines that are one; staged rows: rows of a plane
    Div by_splits;
    Walk row, run;

    static const int most_chunks = Chunks;
    typedef Offset Place;
    GR_HD Place row_at(u64 n) const { return row.at(n); }
    GR_HD Place run_at(u64 n) const { return run.at(n); }
    GR_HD u64 over_splits(u64 n) const { return splits == 1 ? n : by_splits.of(n); }  // the quotient
    GR_HD Pointers pointers(const Base* of) const { return {of->a, of->b}; }
    // So many elements on in a line, and so many runs on where these are one stride apart.
    GR_HD Pointers stepped(const Pointers& at, i64 n) const { return {at.a + n * step_a, at.b + n * step_b}; }
    GR_HD Pointers ran(const Pointers& at, i64 n) const { return {at.a + n * run.dim[0].a, at.b + n * run.dim[0].b}; }
    // True where slot number `slot` from these on, of so many bytes, belongs to the chunk's operands.
    GR_HD bool owns(const Pointers& at, const Base* of, i64 slot, int bytes_a, int bytes_b) const {
        i64 a = (i64)(at.a - of->a) + slot * bytes_a, b = (i64)(at.b - of->b) + slot * bytes_b;
        bool owned = a >= low_a && a + bytes_a <= high_a;
        if (bytes_b) owned = owned && b >= low_b && b + bytes_b <= high_b;
        return owned;
    }
};

// The same for up to four operands: of the third and fourth, what the others have above.
template <int Chunks> struct Task4 : Task<Chunks> {
    i64 step_more[2], low_more[2], high_more[2];
    i64 row_more[2][MAX_DIMS], run_more[2][MAX_DIMS];
    const u8* base_more[Chunks][2];

    typedef Offset4 Place;
    GR_HD Place row_at(u64 n) const { return at(this->row, row_more, n); }
    GR_HD Place run_at(u64 n) const { return at(this->run, run_more, n); }
    GR_HD Pointers4 pointers(const Base* of) const {
        const auto& more = base_more[of - this->base];
        return {{of->a, of->b}, {more[0], more[1]}};
    }
    GR_HD Pointers4 stepped(const Pointers4& at, i64 n) const {
        return {Task<Chunks>::stepped(at, n), {at.more[0] + n * step_more[0], at.more[1] + n * step_more[1]}};
    }
    GR_HD Pointers4 ran(const Pointers4& at, i64 n) const {
        return {Task<Chunks>::ran(at, n), {at.more[0] + n * run_more[0][0], at.more[1] + n * run_more[1][0]}};
    }
    GR_HD bool owns_more(const Pointers4& at, const Base* of, i64 slot, int bytes_c, int bytes_d) const {
        const auto& more = base_more[of - this->base];
        const i64 c = at.more[0] - more[0] + slot * bytes_c, d = at.more[1] - more[1] + slot * bytes_d;
        const bool owned = c >= low_more[0] && c + bytes_c <= high_more[0];
        return owned && (bytes_d == 0 || (d >= low_more[1] && d + bytes_d <= high_more[1]));
    }
    static GR_HD Place at(const Walk& walk, const i64 (&strides)[2][MAX_DIMS], u64 n) {
        Place found = {walk.at(n), {0, 0}};
        for (int d = (int)walk.count - 1; d > 0; d--) {
            const u64 q = walk.dim[d].div.of(n);
            const i64 r = (i64)(n - q * walk.dim[d].div.size);
            found.more[0] += r * strides[0][d]; found.more[1] += r * strides[1][d];
            n = q;
        }
        found.more[0] += (i64)n * strides[0][0]; found.more[1] += (i64)n * strides[1][0];
        return found;
    }
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
// POLLED: the last of them waits for what the others publish, which is faster than a ticket by a fence and an atomic. It
// holds a place on an SM as it waits, so such groups are few.
const int TICKET = 0, ATOMIC = 1, TWO_PASS = 2, POLLED = 3;

// Whether one of the blocks that share a result folds what they leave.
template <int Finish> constexpr bool JOINS = Finish == TICKET || Finish == POLLED;
