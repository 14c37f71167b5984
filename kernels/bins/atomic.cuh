// One atomic an element on its group's state in global memory, for operators that are exact in any order.
#pragma once
#include "elements.cuh"

// Grid: rows x splits. `out` holds the identity for each row and group.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_atomic(const __grid_constant__ Task<2> task) {
    typedef typename Op::State State;
    typedef typename Op::In In;
    const Share<Op, L, V, Lie> share(task);
    State* groups = (State*)task.out + share.row * task.cells;
    Grouper<L> grouper(task);
    auto take = [&](In x, L label, u64 at) {
        const u32 k = grouper.of(label);
        if (k < grouper.groups) Op::atomic(groups + k, lifted<Op>(x, position_of<Indexed>(task, at)));
    };
    for (u64 slot = share.first + threadIdx.x; slot < share.last; slot += Threads) {
        const Pack<In, V> x = share.elements(slot);
        const Pack<L, V> labels = share.labels_of(slot);
#pragma unroll
        for (int j = 0; j < V; j++) take(x.at[j], labels.at[j], slot * V + j);
    }
    for (u64 at = share.rest + threadIdx.x; at < share.stop; at += Threads) take(share.element(at), share.label(at), at);
    grouper.report(task);
}
