// Privatised states, for few groups: every thread has one of its own for each, in shared memory. No two threads share a
// bank's word, so that it does not matter which groups a warp's elements are of.
#pragma once
#include "../core/shared.cuh"
#include "../core/state.cuh"
#include "../warp/reduce.cuh"
#include "elements.cuh"

// Grid: rows x splits. Shared: a state for each thread and group, and one more a thread. Writes a state for each block and group, in order.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_private(const __grid_constant__ Task<2> task) {
    typedef typename Op::State State;
    typedef typename Op::In In;
    State* own = (State*)GR_SHARED + threadIdx.x;
    Grouper<L> grouper(task);
    for (u32 k = 0; k <= grouper.groups; k++) own[k * Threads] = Op::identity();
    const Share<Op, L, V, Lie> share(task);
    auto take = [&](In x, L label, u64 at) {  // what is in no group has a state too: that is no branch
        State* state = own + grouper.of(label) * Threads;
        *state = Op::combine(*state, lifted<Op>(x, position_of<Indexed>(task, at)));
    };
    u64 slot = share.first + threadIdx.x;
    for (; slot + (Loads - 1) * Threads < share.last; slot += Loads * Threads) {
        Pack<In, V> x[Loads];
        Pack<L, V> labels[Loads];
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            x[i] = share.elements(slot + i * Threads);
            labels[i] = share.labels_of(slot + i * Threads);
        }
#pragma unroll
        for (int i = 0; i < Loads; i++)
#pragma unroll
            for (int j = 0; j < V; j++) take(x[i].at[j], labels[i].at[j], (slot + i * Threads) * V + j);
    }
    for (; slot < share.last; slot += Threads) {
        Pack<In, V> x = share.elements(slot);
        Pack<L, V> labels = share.labels_of(slot);
#pragma unroll
        for (int j = 0; j < V; j++) take(x.at[j], labels.at[j], slot * V + j);
    }
    for (u64 at = share.rest + threadIdx.x; at < share.stop; at += Threads) take(share.element(at), share.label(at), at);
    grouper.report(task);
    __syncthreads();
    const int lane = threadIdx.x % 32, each = Threads / 32;
    for (u64 k = threadIdx.x / 32; k < task.cells; k += each) {
        const State* group = (const State*)GR_SHARED + k * Threads + lane * each;
        State state = group[0];
        for (int i = 1; i < each; i++) state = Op::combine(state, group[i]);
        state = warp_reduce<Op, 32>(state);
        if (lane == 0) ((State*)task.out)[blockIdx.x * task.cells + k] = state;
    }
}
