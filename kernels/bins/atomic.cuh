// One atomic an element on its group's state, in shared memory or, where groups are too many, in the GPU's, for operators that
// are exact in any order.
#pragma once
#include "../core/shared.cuh"
#include "../core/state.cuh"
#include "../warp/reduce.cuh"
#include "elements.cuh"

const u32 FEW_LANES = 4;  // of one group, which wait for each other

// All lanes call. The states of those that have one go to `cell` of their groups: of a group that lanes in the middle have, and of
// the first and the last, as where labels are sorted, in one.
template <class Op, class Cell> GR_HD void merge_lanes(bool is_there, u32 group, typename Op::State state, Cell cell) {
    const u32 lane = threadIdx.x % 32;
    u32 rest = __ballot_sync(0xffffffffu, is_there);
    for (int turn = 0; turn < 3 && __popc(rest) >= FEW_LANES; turn++) {
        const int leader = turn == 0 && rest >> 16 & 1 ? 16 : turn == 2 ? 31 - __clz((int)rest) : __ffs(rest) - 1;
        const u32 one = __shfl_sync(0xffffffffu, group, leader, 32);
        const bool is_mine = rest >> lane & 1 && group == one;
        const u32 mine = __ballot_sync(0xffffffffu, is_mine);
        if (turn == 0 && __popc(mine) < FEW_LANES) break;
        const typename Op::State all = warp_reduce<Op, 32>(is_mine ? state : Op::identity());
        if (lane == 0) Op::atomic(cell(one), all);
        rest &= ~mine;
    }
    if (rest >> lane & 1) Op::atomic(cell(group), state);
}

// Grid: rows x splits. With Columns, a block has so many states of each group in shared memory, so that lanes do not meet there,
// and writes a state a group, in order. Else `out` holds the identity for each row and group.
template <class Op, class L, int V, int Columns, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_atomic(const __grid_constant__ Task<2> task) {
    typedef typename Op::State State;
    typedef typename Op::In In;
    const Share<Op, L, V, Lie> share(task);
    Grouper<L> grouper(task);
    const u32 groups = grouper.groups, lane = threadIdx.x % 32, column = Columns ? threadIdx.x % Columns : 0;
    State* const states = Columns ? (State*)GR_SHARED : (State*)task.out + share.row * task.cells;
    if constexpr (Columns != 0) {
        for (u32 i = threadIdx.x; i < groups * Columns; i += Threads) states[i] = Op::identity();
        __syncthreads();
    }
    const auto cell = [&](u32 k) { return states + (Columns ? k * Columns + column : k); };
    for (u64 begin = share.first + (threadIdx.x - lane); begin < share.last; begin += Loads * Threads) {
        Pack<In, V> x[Loads];
        Pack<L, V> labels[Loads];
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            const u64 slot = begin + i * Threads + lane;
            if (slot >= share.last) continue;
            x[i] = share.elements(slot);
            labels[i] = share.labels_of(slot);
        }
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            bool alike = begin + i * Threads + lane < share.last;
            u32 first = groups;
            State state = Op::identity();
            if (alike) {
                u32 k[V];
#pragma unroll
                for (int j = 0; j < V; j++) k[j] = grouper.of(labels[i].at[j]), alike = alike && k[j] == k[0];
                first = k[0];
#pragma unroll
                for (int j = 0; j < V; j++) {
                    const State other = lifted<Op>(x[i].at[j], 0);
                    if (alike) state = Op::combine(state, other);
                    else if (k[j] < groups) Op::atomic(cell(k[j]), other);
                }
            }
            merge_lanes<Op>(alike && first < groups, first, state, cell);
        }
    }
    for (u64 at = share.rest + threadIdx.x; at < share.stop; at += Threads) {
        const u32 k = grouper.of(share.label(at));
        if (k < groups) Op::atomic(cell(k), lifted<Op>(share.element(at), 0));
    }
    grouper.report(task);
    if constexpr (Columns != 0) {
        __syncthreads();
        for (u32 k = threadIdx.x; k < groups; k += Threads) {
            State state = Op::identity();
            for (u32 c = 0; c < Columns; c++) state = Op::combine(state, states[k * Columns + (column + c) % Columns]);
            ((State*)task.out)[(u64)blockIdx.x * task.cells + k] = state;
        }
    }
}
