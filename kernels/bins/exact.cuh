// Sums and means of floats up to binary32 by atomics in memory, exact and hence the same in any order.
#pragma once
#include "added.cuh"

// Grid: rows x splits. `chunks` limbs at `out` and a word of flags for each row and group at `partials`, all zero.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_exact(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    const Share<Op, L, V> share(task);
    const Limbs limbs = Limbs::of_row<Added<Op>::counted>(task, share.row);
    Grouper<L> grouper(task);
    auto take = [&](In x, L label) {
        const u32 k = grouper.of(label);
        if (k >= grouper.groups) return;
        limbs.add_float(k, Added<Op>::of(x));
        if (Added<Op>::counted && Added<Op>::counts(x)) limbs.add_count(k, 1);
    };
    for (u64 slot = share.first + threadIdx.x; slot < share.last; slot += Threads) {
        const Pack<In, V> x = share.elements(slot);
        const Pack<L, V> labels = share.labels_of(slot);
#pragma unroll
        for (int j = 0; j < V; j++) take(x.at[j], labels.at[j]);
    }
    for (u64 at = share.rest + threadIdx.x; at < share.stop; at += Threads) take(share.element(at), share.label(at));
    grouper.report(task);
}

GR_HD void round_to(f64* state, f64 sum, i64) { *state = sum; }
GR_HD void round_to(Averaged<f64>* state, f64 sum, i64 count) { *state = {sum, count}; }

// Grid: any number of blocks. The state of each row and group, from base[0].a (limbs) and base[0].b (flags).
template <class Op, int Threads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_round(const __grid_constant__ Task<2> task) {
    const bool counted = Added<Op>::counted;
    const u64 cells = task.rows * task.cells;
    for (u64 cell = (u64)blockIdx.x * Threads + threadIdx.x; cell < cells; cell += (u64)gridDim.x * Threads) {
        const u64 row = cell / task.cells, k = cell % task.cells;
        const i64* limbs = (const i64*)task.base[0].a + row * (task.chunks + counted) * task.cells + k;
        Twofold sum = Twofold();
        for (u64 l = 0; l < task.chunks; l++) {
            const i64 limb = limbs[l * task.cells];
            const int place = (int)(l * task.slots) - 149;
            add(sum, (f64)(u32)limb * power_of_two(place));
            add(sum, (f64)(limb >> 32) * power_of_two(place + 32));
        }
        f64 total = value_of(sum);
        const u32 seen = ((const u32*)task.base[0].b)[cell];
        const f64 infinity = bit_cast<f64>(0x7ff0000000000000ull);
        if (seen & SEEN_PLUS) total = infinity;
        if (seen & SEEN_MINUS) total = -infinity;
        if (seen & SEEN_NAN || (seen & SEEN_PLUS && seen & SEEN_MINUS)) total = bit_cast<f64>(0x7ff8000000000000ull);
        round_to((typename Op::State*)task.out + cell, total, counted ? limbs[task.chunks * task.cells] : 0);
    }
}
