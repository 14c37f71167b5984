// Rows of few elements that are a slot or a few a lane, all aligned: nothing but loads, adds and a transposed reduction.
#pragma once
#include "../core/line.cuh"
#include "../monoid/raw.cuh"
#include "../warp/reduce.cuh"

// All lanes of the warp call, each team of Lanes lanes with what its lanes know of Batch rows: of the `count` rows from
// `first` on, dealt to the teams in turn. Writes their cells. With Checked it leaves all unwritten, and answers false,
// where one of them may have had a NaN in it.
template <class Op, class Emit, int Lanes, int Batch, bool Checked, int Chunks>
GR_HD bool write_rows(const Task<Chunks>& task, u64 first, u32 count, typename Raw<Op>::State (&states)[Batch],
                      const typename Raw<Op>::Pivot (&pivots)[Batch]) {
    typedef TransposeReduce<Raw<Op>, Lanes, Batch> Transpose;
    const u32 teams = 32 / Lanes, team = threadIdx.x % 32 / Lanes, lane = threadIdx.x % Lanes;
    const int kept_rows = Batch > Lanes ? Batch / Lanes : 1;
    Transpose::run(states);
    typename Op::State settled[kept_rows];
    bool suspect = false;
#pragma unroll
    for (int r = 0; r < kept_rows; r++) {
        typename Raw<Op>::Pivot pivot = pivots[0];
        if constexpr (Raw<Op>::pivoted) {
#pragma unroll
            for (int k = 1; k < Batch; k++)  // a constant index keeps them in registers
                pivot = either(k == Transpose::kept_row(r), pivots[k], pivot);
        }
        settled[r] = Raw<Op>::settle(states[r], pivot, task.length, task.base[0].index, task.step_c);
        if constexpr (Checked) suspect |= Transpose::kept_row(r) * teams + team < count && is_suspect(settled[r]);
    }
    if (Checked && __any_sync(0xffffffffu, suspect)) return false;
    // Lanes past the number of rows hold copies: the first of each writes.
    if (Lanes > Batch && lane >= Batch) return true;
    typename Emit::Out* out = (typename Emit::Out*)task.out + task.first_cell;
#pragma unroll
    for (int r = 0; r < kept_rows; r++) {
        const u32 row = Transpose::kept_row(r) * teams + team;
        if (row < count) store_once(out + task.row.at(first + row).c, Emit::of(settled[r], task.option));
    }
    return true;
}

// What the lanes of a team must know of their row before they reduce it: all of them call, each with its slots, of which
// the first begins with element number `place`.
template <class Op, int V, int Lanes, int Items>
GR_HD typename Raw<Op>::Pivot pivot_of(const Pack<typename Op::In, V> (&packs)[Items], i32 place, i32 length) {
    if constexpr (Raw<Op>::headed) {
        return shuffle_from(0xffffffffu, packs[0].at[0], 0, Lanes);
    } else if constexpr (Raw<Op>::pivoted) {
        auto seen = Raw<Op>::nothing();
#pragma unroll
        for (int i = 0; i < Items; i++)
            if (place + i * (Lanes * V) < length) Raw<Op>::look(seen, packs[i], 0);
        return Raw<Op>::template agree<Lanes>(seen.best);
    } else {
        return {};
    }
}

// All lanes of the warp call. Reduces Batch rows a team, from row `first` on, and writes their cells, or with Checked
// what write_rows says.
template <class Op, class Emit, int V, int Lanes, int Batch, int Items, bool Checked, int Chunks>
GR_HD bool reduce_row_group(const Task<Chunks>& task, u64 first) {
    typedef typename Op::In In;
    const u32 teams = 32 / Lanes, team = threadIdx.x % 32 / Lanes, lane = threadIdx.x % Lanes;
    const u64 rest = task.rows - first;
    const u32 count = rest < teams * Batch ? (u32)rest : teams * Batch;
    const i32 length = (i32)task.length, place = (i32)lane * V;
    const i64 at = (i64)(first + team), leap_a = teams * task.row.dim[0].a, leap_b = teams * task.row.dim[0].b;
    const u8* a = task.base[0].a + at * task.row.dim[0].a + lane * (V * Reader<In>::size_a);
    const u8* b = task.base[0].b + at * task.row.dim[0].b + lane * (V * Reader<In>::size_b);
    Pack<In, V> pack[Batch][Items];
    typename Raw<Op>::State states[Batch];
    typename Raw<Op>::Pivot pivots[Batch];
#pragma unroll
    for (int r = 0; r < Batch; r++) {
#pragma unroll
        for (int i = 0; i < Items; i++) {
            pack[r][i] = Pack<In, V>();
            if (place + i * (Lanes * V) < length && r * teams + team < count)
                pack[r][i] = Reader<In>::template load<V>(a + r * leap_a + i * (Lanes * V * Reader<In>::size_a),
                                                         b + r * leap_b + i * (Lanes * V * Reader<In>::size_b));
        }
    }
#pragma unroll
    for (int r = 0; r < Batch; r++) {
        pivots[r] = pivot_of<Op, V, Lanes>(pack[r], place, length);
        states[r] = Raw<Op>::empty();
#pragma unroll
        for (int i = 0; i < Items; i++) {
            if (place + i * (Lanes * V) >= length) continue;
            const auto state = Raw<Op>::of(pack[r][i], pivots[r], place + i * (Lanes * V), task.base[0].index, task.step_c);
            states[r] = i == 0 ? state : Raw<Op>::combine(states[r], state);
        }
    }
    return write_rows<Op, Emit, Lanes, Batch, Checked>(task, first, count, states, pivots);
}

// Grid: any number of blocks. A team of Lanes lanes takes Batch rows at a time; `slots` (at most Lanes * Items) slots a
// row, every row one stride from the last. For commutative operators.
template <class Op, class Emit, int V, int Threads, int Lanes, int Batch, int Items, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS ? GR_BLOCKS : 5) reduce_even_rows(const __grid_constant__ Task<Chunks> task) {
    const u64 warp = ((u64)blockIdx.x * Threads + threadIdx.x) / 32, warps = (u64)gridDim.x * (Threads / 32);
    const u64 group = 32 / Lanes * Batch;  // rows a warp takes at a time
    for (u64 first = warp * group; first < task.rows; first += warps * group) {
        if constexpr (Clean<Op>::simpler)
            if (reduce_row_group<typename Clean<Op>::type, Emit, V, Lanes, Batch, Items, true>(task, first)) continue;
        reduce_row_group<Op, Emit, V, Lanes, Batch, Items, false>(task, first);
    }
}
