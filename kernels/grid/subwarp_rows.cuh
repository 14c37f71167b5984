// Rows of some hundred bytes, at one distance from each other and at no alignment: a tile of rows is staged through shared
// memory, and sub-warps take them from there, slot by slot of 16 bytes. Other blocks' copies are on their way
// meanwhile.
#pragma once
#include "../monoid/raw.cuh"
#include "../warp/reduce.cuh"
#include "staged.cuh"

// A row in shared memory, in slots of V elements: the first starts `phase` elements before the row does.
template <class In, int V> struct TileRow {
    const In* row;
    i32 phase, length;
    GR_HD TileRow(const In* from, i32 elements) : row(from), length(elements) {
        phase = (i32)((u64)from / sizeof(In) % V);
    }
    GR_HD Pack<In, V> slot(i32 place) const {
        typedef typename Word<sizeof(In) * V>::type Words;
        return bit_cast<Pack<In, V>>(*(const Words*)(row + place));
    }
};

// A sub-warp's lanes go through the slots of their row: `whole` for those that lie in it, and `edge` for what is left
// at its ends, each with the slot's pack and the place of its first element. Lanes that read together begin in banks of
// their own.
template <int Lanes, class In, int V, class Take, class Edge>
GR_HD void each_slot(const TileRow<In, V>& line, Take whole, Edge edge) {
    const i32 lane = threadIdx.x % Lanes, first = line.phase ? V - line.phase : 0;  // place of the first whole slot
    const i32 slots = (line.length - first) / V;  // may be negative: none
    i32 turn = 0;
    if constexpr (sizeof(In) * V == 16 && Lanes < 8) {
        turn = (i32)((threadIdx.x / Lanes * Lanes - (u32)((u64)(line.row + first) / 16)) % 8);
        if (turn >= slots) turn -= slots;
        if (turn >= slots) turn = 0;
    }
#pragma unroll 4
    for (i32 n = lane; n < slots; n += Lanes) {
        const i32 slot = n + turn < slots ? n + turn : n + turn - slots, place = first + slot * V;
        whole(line.slot(place), place);
    }
    if constexpr (V > 1) {
        for (i32 which = lane; which < 2; which += Lanes) {
            const i32 place = which ? first + (slots > 0 ? slots : 0) * V : first - V;
            if (place < line.length && (which ? place >= 0 : place > -V)) edge(line.slot(place), place);
        }
    }
}

// Takes in one line of a sub-warp's row. Where lanes know the row's first element, it fills what lies outside every
// line.
template <class R, int Lanes, class In, int V>
GR_HD void take_line(typename R::Acc& acc, const TileRow<In, V>& line, typename R::Pivot& pivot, bool first, i64 index,
                     i64 step) {
    In fill = R::filled ? line.row[0] : In();
    if constexpr (R::headed) {
        if (first) pivot = fill;
        fill = pivot;
    }
    each_slot<Lanes>(
        line, [&](Pack<In, V> pack, i32 place) { R::take(acc, pack, pivot, place, index, step); },
        [&](Pack<In, V> pack, i32 place) {
            if constexpr (R::filled) {
                fill_outside(pack, place, line.length, fill);
                R::take(acc, pack, pivot, place, index, step);
            } else {
                R::take_part(acc, pack, place, line.length, index, step);
            }
        });
}

// All lanes of the warp call, each sub-warp with a row, or with one of length 0. What each lane knows of its row; its
// pivot.
template <class Op, int V, int Lanes, int Chunks>
GR_HD typename Raw<Op>::State tile_row_state(const Task<Chunks>& task, const TileRow<typename Op::In, V>& line,
                                             typename Raw<Op>::Pivot& pivot) {
    typedef typename Op::In In;
    typedef Raw<Op> R;
    const i64 index = task.base[0].index, step = task.step_c;
    auto acc = R::start();
    if constexpr (R::pivoted && !R::headed) {
        const In fill = line.row[0];
        auto seen = R::nothing();
        each_slot<Lanes>(
            line, [&](Pack<In, V> pack, i32 place) { R::look(seen, pack, place); },
            [&](Pack<In, V> pack, i32 place) {
                fill_outside(pack, place, line.length, fill);
                R::look(seen, pack, place);
            });
        pivot = R::template agree<Lanes>(seen.best);
        if (seen.place != none) {
            Pack<In, V> pack = line.slot(seen.place);
            fill_outside(pack, seen.place, line.length, fill);
            R::take(acc, pack, pivot, seen.place, index, step);
        }
    } else {
        take_line<R, Lanes>(acc, line, pivot, true, index, step);
    }
    return R::raw(acc);
}

// All lanes of the warp call. Reduces `count` rows of the tile, from its row `first` on, a row a sub-warp, and writes
// their cells. With Checked it leaves all unwritten, and answers false, where one of them may have had a NaN in it.
template <class Op, class Emit, int V, int Lanes, bool Checked, int Chunks>
GR_HD bool reduce_tile_rows(const Task<Chunks>& task, const StagedTile& rows, const typename Op::In* tile, u32 first, u32 count) {
    typedef typename Op::In In;
    typedef Raw<Op> R;
    const u32 row = threadIdx.x % 32 / Lanes;
    const In* from = tile + (row < count ? first + row : first) * staged_step<In>(task);
    typename R::Pivot pivot;
    const auto raw = tile_row_state<Op, V, Lanes>(task, TileRow<In, V>(from, row < count ? (i32)task.length : 0), pivot);
    const auto state = R::settle(reduce_to_all<R, Lanes>(raw), pivot, task.length, task.base[0].index, task.step_c);
    if constexpr (Checked)
        if (__any_sync(0xffffffffu, row < count && is_suspect(state))) return false;
    if (row >= count || threadIdx.x % Lanes) return true;
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell;
    store_streaming(out + task.row.at(rows.row(first) + row).c, Emit::of(state, task.option));
    return true;
}

// Grid: one block a tile of rows. Uses a tile of shared memory. For commutative operators.
template <class Op, class Emit, int V, int Threads, int Lanes, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_subwarp_rows(const __grid_constant__ Task<Chunks> task) {
    const StagedTile rows(task);
    const typename Op::In* tile = stage_rows<typename Op::In, Threads>(task, task.base[0].a, rows, (u8*)GR_SHARED);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    // Whole warps go round together: a sub-warp without a row still takes part in the shuffles.
    for (u32 row = threadIdx.x / 32 * (32 / Lanes); row < rows.rows; row += Threads / Lanes) {
        const u32 count = rows.rows - row < 32 / Lanes ? rows.rows - row : 32 / Lanes;
        if constexpr (Clean<Op>::simpler)
            if (reduce_tile_rows<typename Clean<Op>::type, Emit, V, Lanes, true>(task, rows, tile, row, count)) continue;
        reduce_tile_rows<Op, Emit, V, Lanes, false>(task, rows, tile, row, count);
    }
}
