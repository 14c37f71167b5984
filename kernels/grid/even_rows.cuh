// Rows of few elements that are one slot a lane, all aligned: nothing but loads, adds and a transposed reduction.
#pragma once
#include "../core/line.cuh"
#include "../monoid/raw.cuh"
#include "../warp/reduce.cuh"

// Grid: any number of blocks. A team of Lanes lanes takes Batch rows at a time; `slots` (at most Lanes) slots a row,
// every row one stride from the last. For commutative operators.
template <class Op, class Emit, int V, int Threads, int Lanes, int Batch, int Chunks>
__global__ void __launch_bounds__(Threads) reduce_even_rows(const __grid_constant__ Task<Chunks> task) {
    typedef typename Op::In In;
    typedef TransposeReduce<Raw<Op>, Lanes, Batch> Transpose;
    const u32 teams = 32 / Lanes, team = threadIdx.x % 32 / Lanes, lane = threadIdx.x % Lanes;
    const u64 warp = ((u64)blockIdx.x * Threads + threadIdx.x) / 32, warps = (u64)gridDim.x * (Threads / 32);
    const u64 group = teams * Batch;  // rows a warp takes at a time
    typename Emit::Out* out = (typename Emit::Out*)task.out;
    const bool reads = lane < task.slots;
    const i64 index = task.base[0].index;
    for (u64 first = warp * group; first < task.rows; first += warps * group) {
        Pack<In, V> pack[Batch];
        typename Raw<Op>::State states[Batch];
#pragma unroll
        for (int r = 0; r < Batch; r++) {
            const i64 row = (i64)(first + r * teams + team);
            pack[r] = Pack<In, V>();
            if (reads && row < (i64)task.rows)
                pack[r] = Reader<In>::template load<V>(
                    task.base[0].a + row * task.row.a[0] + lane * (V * Reader<In>::size_a),
                    task.base[0].b + row * task.row.b[0] + lane * (V * Reader<In>::size_b));
        }
#pragma unroll
        for (int r = 0; r < Batch; r++) {
            f64 pivot = 0;
            if constexpr (Raw<Op>::pivots) pivot = cast<f64>(shuffle_from(0xffffffffu, pack[r].at[0], 0, Lanes));
            const bool present = reads && first + r * teams + team < task.rows;
            states[r] = present ? Raw<Op>::of(pack[r], pivot, (i32)(lane * V), index, task.step_c) : Raw<Op>::empty(pivot);
        }
        Transpose::run(states);
        // Lanes past the number of rows hold copies: the first of each writes.
        if (Lanes > Batch && lane >= Batch) continue;
#pragma unroll
        for (int r = 0; r < (Batch > Lanes ? Batch / Lanes : 1); r++) {
            const i64 row = (i64)(first + Transpose::kept_row(r) * teams + team);
            if (row < (i64)task.rows)
                out[task.first_cell + row * task.row.c[0]] = Emit::of(Raw<Op>::settle(states[r], task.length, index, task.step_c), task.option);
        }
    }
}
