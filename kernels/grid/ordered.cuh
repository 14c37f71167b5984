// Rows for operators that do not commute: lanes take neighbouring elements, and states merge left to right.
#pragma once
#include "../core/line.cuh"
#include "finish.cuh"
#include "rows.cuh"

// The line that holds slot `at` of a row, numbered through all of its lines, and the slot's number in it.
template <class In, int V, class TaskT>
GR_HD Line<In, V> find_slot(const TaskT& task, const typename TaskT::Place& row, u64 at, u64& slot, const Base*& base) {
    const u64 run = task.slots == 1 ? at : task.by_slots.of(at);
    slot = at - run * task.slots;
    return find_line<In, V>(task, row, run, base);
}

// All lanes call. Slots [first, end) of a row, numbered through all of its lines, as if left to right; where the operator
// stops, until it does. Result valid in lane 0. No block barrier.
template <class Op, int V, int Items, class TaskT>
GR_HD typename Op::State reduce_span(const TaskT& task, const typename TaskT::Place& row, u64 first, u64 end) {
    typedef typename Op::In In;
    typename Op::State total = Op::identity();
    const Base* base;
    const u64 tiles = first < end ? (end - first + 32 * Items - 1) / (32 * Items) : 0;
    for (u64 number = 0; number < tiles; number++) {
        const u64 tile = first + (Op::from_last ? tiles - 1 - number : number) * (32 * Items);
        // A lane reads Items neighbours: their cache lines are read once and found in L1 after that.
        typename Op::Acc acc = Op::start();
#pragma unroll
        for (int i = 0; i < Items; i++) {
            const u64 n = tile + (threadIdx.x % 32) * Items + i;
            if (n >= end) break;
            u64 slot;
            const Line<In, V> line = find_slot<In, V>(task, row, n, slot, base);
            const i64 from = line.position(slot);
            if (V == 1 || (from >= 0 && from + V <= (i64)task.length))
                Op::absorb_pack(acc, read_slot<In, V>(task, line, slot), line.index + from * task.step_c, task.step_c);
            else
                absorb_edge<Op, V>(acc, task, base, line, slot, task.length);
        }
        const typename Op::State part = warp_reduce<Op, 32>(Op::settle(acc));
        total = Op::from_last ? Op::combine(part, total) : Op::combine(total, part);
        if constexpr (Op::stops)
            if (__any_sync(0xffffffffu, threadIdx.x % 32 == 0 && Op::is_decided(total))) break;
    }
    return total;
}

// Grid: any number of blocks; block g handles (row, split) pairs g, g + grid, ...
template <class Op, class Emit, int V, int Threads, int Items, int Finish, int Chunks>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) reduce_ordered(const __grid_constant__ TaskOf<Op, Chunks> task) {
    typedef typename Op::State State;
    const u64 warps = Threads / 32, slots = task.slots * task.runs * task.chunks;
    for (u64 work = blockIdx.x; work < task.rows * task.splits; work += gridDim.x) {
        const u64 row = task.over_splits(work), split = work - row * task.splits;
        const auto at = task.row_at(row);
        u64 part = split * warps + threadIdx.x / 32, parts = task.splits * warps;
        u64 share = (slots + parts - 1) / parts, first = part * share;
        u64 end = first + share < slots ? first + share : slots;
        State state = reduce_span<Op, V, Items>(task, at, first, end);
        // One state a warp stands in its lane 0; the others are identities, so the block's order is the warps'.
        if (threadIdx.x % 32) state = Op::identity();
        state = block_reduce<Op, Threads>(state);
        finish_cell<Op, Emit, Threads, Finish>(task, row, split, task.first_cell + at.c, state);
    }
}
