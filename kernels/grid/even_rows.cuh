// Rows of few elements that are a slot or a few a lane, all aligned: nothing but loads, adds and a transposed reduction.
#pragma once
#include "../core/line.cuh"
#include "../monoid/raw.cuh"
#include "../warp/reduce.cuh"

// All lanes of the warp call. Reduces the rows from `first` on, Batch a team, dealt to the teams in turn, and writes their
// cells. With Checked it leaves them unwritten, and answers false, where one of them may have had a NaN in it.
template <class Op, class Emit, int V, int Lanes, int Batch, int Items, bool Checked, int Chunks>
GR_HD bool reduce_row_group(const Task<Chunks>& task, u64 first) {
    typedef typename Op::In In;
    typedef TransposeReduce<Raw<Op>, Lanes, Batch> Transpose;
    const u32 teams = 32 / Lanes, team = threadIdx.x % 32 / Lanes, lane = threadIdx.x % Lanes;
    const i64 index = task.base[0].index;
    typename Emit::Out* out = (typename Emit::Out*)task.out;
    Pack<In, V> pack[Batch][Items];
    typename Raw<Op>::State states[Batch];
    typename Raw<Op>::Pivot pivots[Batch];
#pragma unroll
    for (int r = 0; r < Batch; r++) {
        const i64 row = (i64)(first + r * teams + team);
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 slot = lane + i * Lanes;
            pack[r][i] = Pack<In, V>();
            if (slot < task.slots && row < (i64)task.rows)
                pack[r][i] = Reader<In>::template load<V>(
                    task.base[0].a + row * task.row.a[0] + slot * (V * Reader<In>::size_a),
                    task.base[0].b + row * task.row.b[0] + slot * (V * Reader<In>::size_b));
        }
    }
#pragma unroll
    for (int r = 0; r < Batch; r++) {
        if constexpr (Raw<Op>::pivoted) pivots[r] = shuffle_from(0xffffffffu, pack[r][0].at[0], 0, Lanes);
        states[r] = Raw<Op>::empty();
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u32 slot = lane + i * Lanes;
            if (slot >= task.slots || first + r * teams + team >= task.rows) continue;
            const auto state = Raw<Op>::of(pack[r][i], pivots[r], (i32)(slot * V), index, task.step_c);
            states[r] = i == 0 ? state : Raw<Op>::combine(states[r], state);
        }
    }
    Transpose::run(states);
    const int kept_rows = Batch > Lanes ? Batch / Lanes : 1;
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
        settled[r] = Raw<Op>::settle(states[r], pivot, task.length, index, task.step_c);
        if constexpr (Checked) suspect |= is_suspect(settled[r]);
    }
    if (Checked && __any_sync(0xffffffffu, suspect)) return false;
    // Lanes past the number of rows hold copies: the first of each writes.
    if (Lanes > Batch && lane >= Batch) return true;
#pragma unroll
    for (int r = 0; r < kept_rows; r++) {
        const i64 row = (i64)(first + Transpose::kept_row(r) * teams + team);
        if (row < (i64)task.rows)
            store_once(out + task.first_cell + row * task.row.c[0], Emit::of(settled[r], task.option));
    }
    return true;
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
