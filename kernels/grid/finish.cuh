// Brings the partials of the blocks that share a cell together: ticket, atomic, or a second launch.
#pragma once
#include "../block/reduce.cuh"
#include "../core/task.cuh"

// All threads call; thread 0's stores before this are published first. True in every thread of the last of
// `splits` blocks to arrive at this ticket, which is then zero again. Shared memory: one word, at its start.
// Two block barriers.
GR_HD bool is_last_block(u32* ticket, u64 splits) {
    u32* last = (u32*)GR_SHARED;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *last = atomicAdd(ticket, 1u) == (u32)splits - 1;
        if (*last) *ticket = 0;
    }
    __syncthreads();
    bool mine = *last != 0;
    __threadfence();
    __syncthreads();
    return mine;
}

// All threads call. Folds `count` published partials, always in the same order and left to right where that matters.
// Result valid in thread 0. Block barriers.
template <class Op, int Threads>
GR_HD typename Op::State fold_partials(const typename Op::State* partials, u64 count) {
    typename Op::State state = Op::identity();
    const u64 share = (count + Threads - 1) / Threads;
    const u64 first = Op::commutative ? threadIdx.x : threadIdx.x * share, step = Op::commutative ? Threads : 1;
    const u64 end = Op::commutative || first + share > count ? count : first + share;
#pragma unroll 8
    for (u64 i = first; i < end; i += step) state = Op::combine(state, load_state(partials + i));
    return block_reduce<Op, Threads>(state);
}

// All threads call; `state` counts in thread 0. The cell is complete once all `splits` blocks have called.
template <class Op, class Emit, int Threads, int Finish, int Chunks>
GR_HD void finish_cell(const Task<Chunks>& task, u64 row, u64 split, i64 cell, typename Op::State state) {
    typedef typename Op::State State;
    typename Emit::Out* out = (typename Emit::Out*)task.out;
    if (task.splits == 1) {
        if (threadIdx.x == 0) out[cell] = Emit::of(state, task.option);
        return;
    }
    if constexpr (Finish == ATOMIC) {
        if (threadIdx.x == 0) Op::atomic((State*)task.out + cell, state);
        return;
    }
    State* partials = (State*)task.partials + row * task.splits;
    if (threadIdx.x == 0) store_state(partials + split, state);
    if (Finish == TWO_PASS) return;
    if (!is_last_block(task.tickets + row, task.splits)) return;
    state = fold_partials<Op, Threads>(partials, task.splits);
    if (threadIdx.x == 0) out[cell] = Emit::of(state, task.option);
}
