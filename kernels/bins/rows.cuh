// Segmented reduction of rows that share their segments and fit in shared memory: a block stores the elements of some in the
// order of groups, which all rows have in common, so that a group is a stretch of each row that a sub-warp folds.
// Longer stretches are cut into pieces.
#pragma once
#include "../core/shared.cuh"
#include "pieces.cuh"
#include "rank.cuh"

// Where element `at` of a row in shared memory lies, of so many bytes: elements that are a power of two apart are in
// different banks. Rows have whole lines of `line` elements.
template <int Bytes> struct Banked {
    static const u32 line = Bytes <= 64 ? 128 / Bytes : 1, word = Bytes < 4 ? 4 / Bytes : 1, banks = line / word;
    static GR_HD u32 of(u32 at) { return at ^ ((at / banks ^ at / (banks * banks)) & (line - word)); }
};
GR_HD constexpr int power_of_two_from(int n) { return n <= 1 ? 1 : 2 * power_of_two_from((n + 1) / 2); }

// Grid: a thread an element of a row. Writes at `out` where each goes in shared memory, from positions in order at base[0].a.
template <class Rank, int Bytes, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_ranks(const __grid_constant__ Task<2> task) {
    const u64 at = (u64)blockIdx.x * Threads + threadIdx.x;
    if (at < task.length) ((Rank*)task.out)[((const u32*)task.base[0].a)[at]] = (Rank)Banked<Bytes>::of((u32)at);
}

// Walks cells of a table of so many columns, in C order, `step` of them at a time.
struct Cells {
    const u32 width, rows_on, on;
    u32 row, column;
    GR_HD Cells(u32 columns, u32 first, u32 step)
        : width(columns ? columns : 1), rows_on(step / width), on(step % width), row(first / width), column(first % width) {}
    GR_HD void next() {
        row += rows_on;
        column += on;
        if (column >= width) column -= width, row++;
    }
};

// A block's rows, `tiles` of them at most, and `chunks` pieces of each behind the first ones of groups.
template <class Op> struct RowTile {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef Banked<power_of_two_from(sizeof(In))> Place;
    const u64 first;
    const u32 length, rows, pitch, more;
    In* const elements;
    State* const extra;
    u32* const is_cut;  // whether any group has more pieces than one

    GR_HD RowTile(const Task<2>& task)
        : first(blockIdx.x * task.tiles), length((u32)task.length),
          rows((u32)(task.rows - first < task.tiles ? task.rows - first : task.tiles)),
          pitch((length + Place::line - 1) / Place::line * Place::line), more((u32)task.chunks), elements((In*)GR_SHARED),
          extra((State*)aligned_behind(elements + task.tiles * pitch)), is_cut((u32*)aligned_behind(extra + task.tiles * more)) {}
    GR_HD In* row(u32 number) const { return elements + number * pitch; }
};

// The places of V elements that follow one another. They stay in L1, as others read them too.
template <class Rank, int V> GR_HD Pack<Rank, V> load_ranks(const Rank* from) {
    const int wide = WordBytes<sizeof(Rank) * V, 16>::count;
    typedef typename Word<wide>::type W;
    union { W words[sizeof(Rank) * V / wide]; Pack<Rank, V> pack; } both;
#pragma unroll
    for (int i = 0; i < (int)sizeof(Rank) * V / wide; i++) both.words[i] = ((const W*)from)[i];
    return both.pack;
}

// V elements of one operand from any multiple of their size: as words that hold them where these are within [low, high).
template <class In, int V> GR_HD Pack<In, V> load_within(const u8* from, const u8* low, const u8* high) {
    const int bytes = V * sizeof(In);
    const u8* const word = from - (u64)from % bytes;
    if (word >= low && word + (word == from ? bytes : 2 * bytes) <= high) return load_unaligned<In, V>(from);
    Pack<In, V> pack;
#pragma unroll
    for (int j = 0; j < V; j++) pack.at[j] = Reader<In>::one(from + j * sizeof(In), from);
    return pack;
}

// All threads call: stores rows in shared memory, in the order of groups. A thread has Loads packs on their way.
template <class Op, class Rank, int V, bool Unaligned, int Loads, int Threads, int Lie>
GR_HD void store_rows(const Task<2>& task, const RowTile<Op>& tile) {
    typedef typename Op::In In;
    const u8* const a = task.base[0].a + tile.first * tile.length * Reader<In>::size_a;
    const u8* const b = task.base[0].b + tile.first * tile.length * Reader<In>::size_b;
    const u8* const end = task.base[0].a + task.rows * task.length * Reader<In>::size_a;
    const Rank* const ranks = (const Rank*)task.base[1].a;
    const auto row_of = [&](u32 row) { return task.base[0].a + task.row.at(tile.first + row).a; };
    const u32 slots = tile.length / V, rest = tile.length % V;
    for (Cells cell(slots, threadIdx.x, Threads); slots && cell.row < tile.rows;) {
        Pack<In, V> x[Loads];
        Pack<Rank, V> to[Loads];
        In* row[Loads];
#pragma unroll
        for (int i = 0; i < Loads; i++, cell.next()) {
            row[i] = cell.row < tile.rows ? tile.row(cell.row) : nullptr;
            if (!row[i]) continue;
            const u32 at = cell.column * V, from = cell.row * tile.length + at;
            if constexpr (Lie != NO_LINES) x[i] = load_laid<In, V, Lie>(task, row_of(cell.row), at);
            else if constexpr (Unaligned) x[i] = load_within<In, V>(a + from * Reader<In>::size_a, task.base[0].a, end);
            else x[i] = Reader<In>::template load<V>(a + from * Reader<In>::size_a, b + from * Reader<In>::size_b);
            to[i] = load_ranks<Rank, V>(ranks + at);
        }
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            if (!row[i]) continue;
#pragma unroll
            for (int j = 0; j < V; j++) row[i][to[i].at[j]] = x[i].at[j];
        }
    }
    for (Cells cell(rest, threadIdx.x, Threads); rest && cell.row < tile.rows; cell.next()) {
        const u32 at = slots * V + cell.column, from = cell.row * tile.length + at;
        In& to = tile.row(cell.row)[ranks[at]];
        if constexpr (Lie != NO_LINES) to = load_laid<In, 1, PACKED>(task, row_of(cell.row), at).at[0];
        else to = Reader<In>::one(a + from * Reader<In>::size_a, b + from * Reader<In>::size_b);
    }
}

// All lanes call: a sub-warp's state of a piece of a row in shared memory, valid in its first lane.
template <class Op, bool Indexed, int Lanes>
GR_HD typename Op::State fold_ordered(const Task<2>& task, const typename Op::In* row, const Piece& piece) {
    const u32* order = (const u32*)task.partials;
    const Part<u32> part = part_of<Op, Lanes, u32>(piece);
    return warp_reduce<Op, Lanes>(fold_part<Op>(
        part, [](u32 i) { return i; }, [&](u32 i) { return row[RowTile<Op>::Place::of(i)]; },
        [&](u32 i) { return position_of<Indexed>(task, Indexed ? order[i] : 0); }));
}

// Grid: a block for `tiles` rows. Shared: a RowTile. base[1]: where elements go (bins_ranks), and where stretches begin;
// `partials`: positions in order. Writes a state a row and group.
template <class Op, class Rank, int V, bool Unaligned, bool Indexed, int Lanes, int Loads, int Threads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 1024 / Threads) bins_rows(const __grid_constant__ Task<2> task) {
    typedef typename Op::State State;
    const RowTile<Op> tile(task);
    if (threadIdx.x == 0) *tile.is_cut = 0;
    store_rows<Op, Rank, V, Unaligned, Loads, Threads, Lie>(task, tile);
    __syncthreads();
    const u32* const starts = (const u32*)task.base[1].b;
    State* const out = (State*)task.out + tile.first * task.cells;
    const u32 groups = (u32)task.cells, size = (u32)task.slots, lane = threadIdx.x % Lanes;
    const u32 subwarps = Threads / Lanes, subwarp = threadIdx.x / Lanes, first = threadIdx.x / 32 * (32 / Lanes);
    bool is_cut = false;
    Cells cell(groups, subwarp, subwarps);
    for (u32 i = first; i < tile.rows * groups; i += subwarps, cell.next()) {
        const bool is_there = cell.row < tile.rows;
        const u32 start = is_there ? starts[cell.column] : 0, end = is_there ? starts[cell.column + 1] : 0;
        const u32 stop = end - start > size ? start + size : end;
        is_cut = is_cut || stop < end;
        const State state = fold_ordered<Op, Indexed, Lanes>(task, tile.row(is_there ? cell.row : 0), {start, stop});
        if (is_there && lane == 0) out[(u64)cell.row * groups + cell.column] = state;
    }
    if (is_cut && lane == 0) atomicOr(tile.is_cut, 1u);
    __syncthreads();
    if (!*tile.is_cut) return;
    Cells next(tile.more, subwarp, subwarps);
    for (u32 i = first; i < tile.rows * tile.more; i += subwarps, next.next()) {
        const bool is_there = next.row < tile.rows;
        const Piece piece = is_there ? find_piece(task, starts, groups + next.column) : Piece{0, 0};
        const State state = fold_ordered<Op, Indexed, Lanes>(task, tile.row(is_there ? next.row : 0), piece);
        if (is_there && lane == 0) tile.extra[next.row * tile.more + next.column] = state;
    }
    __syncthreads();
    Cells some((groups + 31) / 32, threadIdx.x / 32, Threads / 32);  // 32 groups of a row, a lane each
    for (; some.row < tile.rows; some.next()) {
        const u32 mine = some.column * 32 + threadIdx.x % 32;
        u32 cut = __ballot_sync(0xffffffffu, mine < groups && starts[mine + 1] - starts[mine] > size);
        for (; cut; cut &= cut - 1) {
            const u32 group = some.column * 32 + __ffs(cut) - 1;
            const State* extra = tile.extra + some.row * tile.more + (more_pieces(task, starts, group) - groups);
            State* const to = out + (u64)some.row * groups + group;
            const State state = join_parts<Op, 32>((starts[group + 1] - starts[group] + size - 1) / size,
                                                   [&](u64 i) { return i ? extra[i - 1] : load_state(to); });
            if (threadIdx.x % 32 == 0) *to = state;
        }
    }
}
