// Rows along memory: a long one by one or several blocks, whose warps stride over tiles of it; short ones by a warp or a
// sub-warp, several at a time.
#pragma once
#include "../core/line.cuh"
#include "../monoid/extremes.cuh"
#include "../monoid/logical.cuh"
#include "../monoid/sums.cuh"
#include "finish.cuh"
#include "runs.cuh"

// How a row's lines are taken: it is one, whose slots are aligned words, or begin with the line (SHORT_LINE); it is several,
// tile by tile (LONG_LINES), or of whole slots, side by side (SHORT_LINES), and all one stride apart (EVEN_LINES).
// LINE_AHEAD: one line, each tile of which is loaded before the one before it is used.
const int ONE_LINE = 0, LONG_LINES = 1, SHORT_LINE = 2, SHORT_LINES = 3, EVEN_LINES = 4, LINE_AHEAD = 5;

// A line's slots that lie in it whole: [first, end). The slots before and after hold its edges.
struct Whole { u64 first, end; };
template <class In, int V> GR_HD Whole whole_slots(const Line<In, V>& line, u64 length) {
    return {line.phase ? 1ull : 0ull, (u64)(line.phase + (i64)length) / V};
}

// The elements before the first whole slot (`which` 0) and after the last (`which` 1).
template <class Op, int V, class TaskT>
GR_HD void absorb_edges(typename Op::Acc& acc, const TaskT& task, const Base* base,
                        const Line<typename Op::In, V>& line, u32 which, u32 step) {
    if (V == 1) return;
    const Whole whole = whole_slots(line, task.length);
    for (; which < 2; which += step) {
        bool present = which == 0 ? line.phase != 0 : whole.end >= whole.first && (line.phase + (i64)task.length) % V;
        if (present) absorb_edge<Op, V>(acc, task, base, line, which == 0 ? 0 : whole.end, task.length);
    }
}

// A lane's share of a tile that is whole: its loads, and what is done with them.
template <class In, int V, int Lanes, int Items, class TaskT>
GR_HD void load_tile(Pack<In, V> (&pack)[Items], const TaskT& task, const Line<In, V>& line, u64 slot) {
#pragma unroll
    for (int i = 0; i < Items; i++) pack[i] = read_slot<In, V>(task, line, slot + i * Lanes);
}
template <class Op, int V, int Lanes, int Items, class TaskT>
GR_HD void absorb_loaded(typename Op::Acc& acc, const Pack<typename Op::In, V> (&pack)[Items], const TaskT& task,
                         const Line<typename Op::In, V>& line, u64 slot) {
    const i64 index = line.index + line.position(slot) * task.step_c;
    Op::template absorb_packs<Lanes>(acc, pack, index, (i64)(Lanes * V) * task.step_c, task.step_c);
}

// The same of those of a tile's slots that lie below `end`.
template <class In, int V, int Lanes, int Items, class TaskT>
GR_HD void load_part(Pack<In, V> (&pack)[Items], const TaskT& task, const Line<In, V>& line, u64 slot, u64 end) {
#pragma unroll
    for (int i = 0; i < Items; i++)
        if (slot + i * Lanes < end) pack[i] = read_slot<In, V>(task, line, slot + i * Lanes);
}
template <class Op, int V, int Lanes, int Items, class TaskT>
GR_HD void absorb_part(typename Op::Acc& acc, const Pack<typename Op::In, V> (&pack)[Items], const TaskT& task,
                       const Line<typename Op::In, V>& line, u64 slot, u64 end) {
    const i64 index = line.index + line.position(slot) * task.step_c, gap = (i64)(Lanes * V) * task.step_c;
#pragma unroll
    for (int i = 0; i < Items; i++)
        if (slot + i * Lanes < end) Op::absorb_pack(acc, pack[i], index + i * gap, task.step_c);
}

// One lane's share of a tile: Items slots, Lanes apart, those below `end`. All loads are issued before the first use.
template <class Op, int V, int Lanes, int Items, bool Bounded, class TaskT>
GR_HD void absorb_tile(typename Op::Acc& acc, const TaskT& task, const Line<typename Op::In, V>& line, u64 slot, u64 end) {
    Pack<typename Op::In, V> pack[Items];
    if (!Bounded) {
        load_tile<typename Op::In, V, Lanes>(pack, task, line, slot);
        absorb_loaded<Op, V, Lanes>(acc, pack, task, line, slot);
        return;
    }
    load_part<typename Op::In, V, Lanes>(pack, task, line, slot, end);
    absorb_part<Op, V, Lanes>(acc, pack, task, line, slot, end);
}

// Takes one tile out of `subwarps` of the whole tiles of a line, from `tile` on. The loads of one are issued before the
// one before it is used, so that there are some under way at any time. Returns the tile behind the last.
template <class Op, int V, int Lanes, int Items, class TaskT>
GR_HD u64 absorb_whole_tiles(typename Op::Acc& acc, const TaskT& task, const Line<typename Op::In, V>& line, Whole whole,
                             u64 tile, u64 subwarps) {
    typedef typename Op::In In;
    const u64 tiles = whole.end > whole.first ? (whole.end - whole.first) / (Lanes * Items) : 0;
    if (tile >= tiles) return tile;
    const u64 step = subwarps * (Lanes * Items), end = whole.first + tiles * (Lanes * Items);
    u64 slot = whole.first + tile * (Lanes * Items) + threadIdx.x % Lanes;
    Pack<In, V> even[Items], odd[Items];
    load_tile<In, V, Lanes>(even, task, line, slot);
    for (;;) {
        if (slot + step < end) load_tile<In, V, Lanes>(odd, task, line, slot + step);
        absorb_loaded<Op, V, Lanes>(acc, even, task, line, slot);
        slot += step;
        if (slot >= end) break;
        if (slot + step < end) load_tile<In, V, Lanes>(even, task, line, slot + step);
        absorb_loaded<Op, V, Lanes>(acc, odd, task, line, slot);
        slot += step;
        if (slot >= end) break;
    }
    return (slot - whole.first) / (Lanes * Items);
}

// Tile by tile through a line of many slots. Sub-warp `subwarp`, of Lanes lanes, takes one tile out of `subwarps`.
template <class Op, int V, int Lanes, int Items, bool Ahead, class TaskT>
GR_HD void absorb_line(typename Op::Acc& acc, const TaskT& task, const typename TaskT::Place& row, u64 subwarp, u64 subwarps) {
    typedef typename Op::In In;
    const Base* base = &task.base[0];
    const u32 lane = threadIdx.x % Lanes;
    const Line<In, V> line = first_line<In, V>(task, row, base);
    const Whole whole = whole_slots(line, task.length);
    if (subwarp == 0) absorb_edges<Op, V>(acc, task, base, line, lane, Lanes);
    if (Ahead) subwarp = absorb_whole_tiles<Op, V, Lanes, Items>(acc, task, line, whole, subwarp, subwarps);
    for (u64 tile = subwarp; tile < task.tiles; tile += subwarps) {
        const u64 first = whole.first + tile * (Lanes * Items);
        if (!Ahead && first + Lanes * Items <= whole.end)
            absorb_tile<Op, V, Lanes, Items, false>(acc, task, line, first + lane, whole.end);
        else
            absorb_tile<Op, V, Lanes, Items, true>(acc, task, line, first + lane, whole.end);
    }
}

// A tile of one of several lines.
template <class In, int V, class TaskT> struct LineTile {
    const Base* base;
    Line<In, V> line;
    Whole whole;
    u64 number;  // of the line's tiles

    GR_HD LineTile(const TaskT& task, const typename TaskT::Place& row, u64 tile) {
        const u64 run = task.tiles == 1 ? tile : task.by_tiles.of(tile);
        line = find_line<In, V>(task, row, run, base);
        whole = whole_slots(line, task.length);
        number = tile - run * task.tiles;
    }
};

// The same through several lines. Where the next tile lies is found while the loads of one are on their way.
template <class Op, int V, int Lanes, int Items, class TaskT>
GR_HD void absorb_lines(typename Op::Acc& acc, const TaskT& task, const typename TaskT::Place& row, u64 subwarp, u64 subwarps) {
    typedef typename Op::In In;
    const u64 tiles = task.tiles * task.runs * task.chunks;
    if (subwarp >= tiles) return;
    LineTile<In, V, TaskT> at(task, row, subwarp);
    for (u64 tile = subwarp; tile < tiles;) {
        const Line<In, V> line = at.line;
        const u64 first = at.whole.first + at.number * (Lanes * Items), slot = first + threadIdx.x % Lanes, end = at.whole.end;
        const bool is_whole = first + Lanes * Items <= end;
        Pack<In, V> pack[Items];
        if (is_whole) load_tile<In, V, Lanes>(pack, task, line, slot);
        else load_part<In, V, Lanes>(pack, task, line, slot, end);
        if (at.number == 0) absorb_edges<Op, V>(acc, task, at.base, line, threadIdx.x % Lanes, Lanes);
        tile += subwarps;
        if (tile < tiles) at = LineTile<In, V, TaskT>(task, row, tile);
        if (is_whole) absorb_loaded<Op, V, Lanes>(acc, pack, task, line, slot);
        else absorb_part<Op, V, Lanes>(acc, pack, task, line, slot, end);
    }
}

// What a thread has of a line that begins with a slot: all V elements of one, or with Partial `count` of them.
template <class In, int V> struct Slot { Pack<In, V> pack; i64 index; u32 count; };

// True where the slot lies in the operands' memory, and is loaded. Else there is nothing in it yet.
template <class In, int V, bool Partial, class TaskT>
GR_HD bool load_slot(Slot<In, V>& to, const TaskT& task, const Base* base, const Line<In, V>& line, u64 slot) {
    const u64 left = task.length - slot * V;
    to.index = line.index + (i64)(slot * V) * task.step_c;
    if (Partial && !owns_slot<In, V, Partial>(task, base, line, slot)) return false;
    to.count = !Partial || left >= V ? V : (u32)left;
    to.pack = read_slot<In, V, Partial>(task, line, slot);
    return true;
}

// What may stand in a slot behind the line: nothing, zero, or the slot's first element, which is in the line.
const int NO_FILL = 0, ZERO_FILL = 1, FIRST_FILL = 2;
template <class Op> constexpr int FILL = NO_FILL;
template <class T, bool Max, bool SkipNan> constexpr int FILL<MinMax<T, Max, SkipNan>> = FIRST_FILL;
template <class T> constexpr int FILL<PeakToPeak<T>> = FIRST_FILL;
template <class T> constexpr int FILL<MaxMagnitude<T>> = FIRST_FILL;
template <class T> constexpr int FILL<Any<T>> = FIRST_FILL;
template <class T> constexpr int FILL<All<T>> = FIRST_FILL;
template <class T> constexpr int FILL<CountNonzero<T>> = ZERO_FILL;
template <class Map, class A> constexpr int FILL<Sum<Map, A>> = ZERO_FILL;
template <class Map, class A> constexpr int FILL<RootSum<Map, A>> = ZERO_FILL;

// Elements outside of the line become ones that change nothing, where there are such.
template <class Op, int V, bool Partial>
GR_HD void absorb_slot(typename Op::Acc& acc, Slot<typename Op::In, V>& slot, i64 step) {
    typedef typename Op::In In;
    if constexpr (Partial && FILL<Op> != NO_FILL) {
        if (slot.count < V) fill_outside(slot.pack, 0, (i32)slot.count, FILL<Op> == FIRST_FILL ? slot.pack.at[0] : In());
        Op::absorb_pack(acc, slot.pack, slot.index, step);
    } else if (!Partial || slot.count == V) {
        Op::absorb_pack(acc, slot.pack, slot.index, step);
    } else {
        absorb_some<Op, V>(acc, slot.pack, 0, (i32)slot.count, slot.index, step);
    }
}

// A slot at an end of the operands' memory, element by element.
template <class Op, int V, class TaskT>
GR_HD void absorb_singly(typename Op::Acc& acc, const TaskT& task, const Line<typename Op::In, V>& line, u64 slot) {
    for (u64 at = slot * V; at < slot * V + V && at < task.length; at++)
        Op::absorb(acc, Reader<typename Op::In>::one(Reader<typename Op::In>::ahead(line, (i64)at)),
                   line.index + (i64)at * task.step_c);
}

// Slot by slot through one line that begins with a slot; with Partial it begins at any alignment, and its last slot is part
// of one. Thread `member` of Group takes slots that are Group apart.
template <class Op, int V, int Group, int Items, bool Partial, class TaskT>
GR_HD void absorb_short_line(typename Op::Acc& acc, const TaskT& task, const typename TaskT::Place& row, u32 member) {
    typedef typename Op::In In;
    const Base* base = &task.base[0];
    const Line<In, V> line = first_line<In, V, Partial>(task, row, base);
    for (u64 first = member; first < task.slots; first += Group * Items) {
        Slot<In, V> each[Items];
        u32 loaded = 0, singly = 0;  // a bit an item
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u64 slot = first + i * Group;
            if (slot >= task.slots) continue;
            if (load_slot<In, V, Partial>(each[i], task, base, line, slot)) loaded |= 1u << i;
            else singly |= 1u << i;
        }
#pragma unroll
        for (int i = 0; i < Items; i++)
            if (loaded & 1u << i) absorb_slot<Op, V, Partial>(acc, each[i], task.step_c);
        if (!Partial) continue;
#pragma unroll 1
        for (int i = 0; singly >> i; i++)
            if (singly & 1u << i) absorb_singly<Op, V>(acc, task, line, first + i * Group);
    }
}

// What a thread takes of one slot of several lines. Even: lines are one stride apart.
template <class Op, int V, bool Even> struct SlotOfLines {
    typedef typename Op::In In;
    static const bool takes_four = false, takes_rows = Even;
    typename Op::Acc& acc;
    const i64 ahead, step;  // of the index: from the line's first element to the slot's, and between elements
    GR_HD void take(const Pack<In, V>& pack, i64 index, const i64 (&)[V]) {
        Op::absorb_pack(acc, pack, index + ahead, step);
    }
    // Several lines at once where their indices ascend from one to the next, as packs' do: not those of a transposed array.
    template <int N> GR_HD void take_rows(const Pack<In, V> (&packs)[N], const i64 (&index)[N], const i64 (&column_offset)[V]) {
        const i64 gap = N > 1 ? index[N > 1] - index[0] : 0;
        if (N == 1 || gap >= (V - 1) * step) {
            Op::template absorb_packs<1>(acc, packs, index[0] + ahead, gap, step);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) take(packs[i], index[0] + i * gap, column_offset);
        }
    }
};

// Lines of whole slots, as many side by side as fit into a group's threads: each keeps to one slot of those that it takes.
// Even: one chunk, lines one stride apart.
template <class Op, int V, int Group, int Items, bool Even, class TaskT>
GR_HD void absorb_short_lines(typename Op::Acc& acc, const TaskT& task, const typename TaskT::Place& row, u32 member,
                              u64 group, u64 groups) {
    const u32 slots = (u32)task.slots, lines_each = Group / slots, own = member / slots, slot = member - own * slots;
    const u64 lines = task.runs * task.chunks, stride = groups * lines_each, first = group * lines_each + own;
    if (own >= lines_each || first >= lines) return;
    const i64 column_offset[V] = {};
    SlotOfLines<Op, V, Even> part = {acc, (i64)(slot * V) * task.step_c, task.step_c};
    RunWalk<Op, V, Even, TaskT> walk(task, row, &task.base[0], slot, first, (lines - first + stride - 1) / stride, stride,
                                     column_offset);
    walk.template take<Items, true, Items>(part);  // one more batch alone: packs of several lines take much code
}

// A row that is shared by `groups` groups of Group threads: of this one `member` calls.
template <class Op, int V, int Group, int Items, int Lines, bool Partial, class TaskT>
GR_HD void absorb_row(typename Op::Acc& acc, const TaskT& task, const typename TaskT::Place& row, u32 member, u64 group,
                      u64 groups) {
    const int lanes = Group < 32 ? Group : 32;
    if constexpr (Lines == SHORT_LINE)
        absorb_short_line<Op, V, Group, Items, Partial>(acc, task, row, member);
    else if constexpr (Lines == SHORT_LINES || Lines == EVEN_LINES)
        absorb_short_lines<Op, V, Group, Items, Lines == EVEN_LINES>(acc, task, row, member, group, groups);
    else if constexpr (Lines == LONG_LINES)
        absorb_lines<Op, V, lanes, Items>(acc, task, row, group * (Group / lanes) + member / lanes, groups * (Group / lanes));
    else
        absorb_line<Op, V, lanes, Items, Lines == LINE_AHEAD>(acc, task, row, group * (Group / lanes) + member / lanes,
                                                              groups * (Group / lanes));
}

// Where loads run ahead, or the next tile is found while many are on their way, registers are kept to as many as let so many
// threads share an SM: the blocks of a wave.
const int AHEAD_THREADS = 512;
template <class Op, int V, int Threads, int Items, int Lines>
constexpr int RESIDENT = Lines == LINE_AHEAD || (Lines == LONG_LINES && Items * V * Reader<typename Op::In>::size_a >= 128)
                             ? AHEAD_THREADS / Threads : GR_BLOCKS;

// Grid: any number of blocks; block g handles (row, split) pairs g, g + grid, ... For commutative operators.
template <class Op, class Emit, int V, int Threads, int Items, int Lines, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, RESIDENT<Op, V, Threads, Items, Lines>) reduce_rows(
    const __grid_constant__ TaskOf<Op, Chunks> task) {
    for (u64 work = blockIdx.x; work < task.rows * task.splits; work += gridDim.x) {
        const u64 row = task.over_splits(work), split = work - row * task.splits;
        const auto at = task.row_at(row);
        typename Op::Acc acc = Op::start();
        absorb_row<Op, V, Threads, Items, Lines, false>(acc, task, at, threadIdx.x, split, task.splits);
        const typename Op::State state = block_reduce<Op, Threads>(Op::settle(acc));
        finish_cell<Op, Emit, Threads, Finish>(task, row, split, task.first_cell + at.c, state);
    }
}

// One slot of each of Batch rows a lane: all loads are issued before the first use.
template <class Op, int V, int Lanes, int Batch, bool Partial, class TaskT>
GR_HD void absorb_single_slots(typename Op::Acc (&acc)[Batch], const TaskT& task,
                               const typename TaskT::Place (&at)[Batch],
                               const u64 (&row)[Batch]) {
    typedef typename Op::In In;
    Slot<In, V> each[Batch];
    Line<In, V> line[Batch];
    u32 loaded = 0, singly = 0;  // a bit a row
    const u64 slot = threadIdx.x % Lanes;
#pragma unroll
    for (int r = 0; r < Batch; r++) {
        if (row[r] >= task.rows || slot >= task.slots) continue;
        line[r] = line_at<In, V, Partial>(task.pointers(task.base).offset_by(at[r]), task.base[0].index);
        if (load_slot<In, V, Partial>(each[r], task, &task.base[0], line[r], slot)) loaded |= 1u << r;
        else singly |= 1u << r;
    }
#pragma unroll
    for (int r = 0; r < Batch; r++) {
        if (loaded & 1u << r) absorb_slot<Op, V, Partial>(acc[r], each[r], task.step_c);
        else if (Partial && singly & 1u << r) absorb_singly<Op, V>(acc[r], task, line[r], slot);
    }
}

// Rows of few elements: a sub-warp of Lanes lanes takes Batch rows at a time, so that many loads are in flight.
// Partial: a line of few slots begins at any alignment, or does not end with one.
// Grid: any number of blocks. For commutative operators; for others where each lane has one slot at most, since lanes are in order.
template <class Op, class Emit, int V, int Threads, int Lanes, int Batch, int Items, int Lines, bool Partial, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_short_rows(const __grid_constant__ TaskOf<Op,
                                  Chunks> task) {
    typedef typename Op::In In;
    const u64 subwarps = (u64)gridDim.x * (Threads / Lanes);
    const u64 subwarp = (u64)blockIdx.x * (Threads / Lanes) + threadIdx.x / Lanes;
    typename Emit::Out* out = (typename Emit::Out*)task.out;
    // Whole warps go round together: a sub-warp without a row still takes part in the shuffles.
    const u64 rounds = (task.rows + subwarps * Batch - 1) / (subwarps * Batch);
    for (u64 round = 0; round < rounds; round++) {
        typename Op::Acc acc[Batch];
        typename TaskOf<Op, Chunks>::Place at[Batch];
        u64 row[Batch];
#pragma unroll
        for (int r = 0; r < Batch; r++) {
            acc[r] = Op::start();
            row[r] = (round * Batch + r) * subwarps + subwarp;
            if (row[r] < task.rows) at[r] = task.row_at(row[r]);
        }
        if (Lines == ONE_LINE && Items == 1) {
            absorb_single_slots<Op, V, Lanes, Batch, Partial>(acc, task, at, row);
        } else {
#pragma unroll
            for (int r = 0; r < Batch; r++)
                if (row[r] < task.rows) absorb_row<Op, V, Lanes, Items, Lines, Partial>(acc[r], task, at[r], threadIdx.x % Lanes, 0, 1);
        }
#pragma unroll
        for (int r = 0; r < Batch; r++) {
            typename Op::State state = warp_reduce<Op, Lanes>(Op::settle(acc[r]));
            // Of a thread's one load there is room to keep the cell; else it is looked up once more.
            const bool is_kept = Lanes == 1 && Lines == ONE_LINE && Items == 1;
            if (threadIdx.x % Lanes == 0 && row[r] < task.rows)
                store_streaming(out + task.first_cell + (is_kept ? at[r].c : task.row.at(row[r]).c), Emit::of(state, task.option));
        }
    }
}
