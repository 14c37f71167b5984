// Brings the partials of the blocks that share a cell together: published states, ticket, atomic, or a second launch.
#pragma once
#include "../block/reduce.cuh"
#include "../core/published.cuh"
#include "../core/task.cuh"

// One thread calls. Counts one more and gives the count before it. What it wrote before, and others that it met at a barrier, is
// seen by whoever counts later: a release and an acquire in one, where fences before and behind would wait twice.
GR_HD u32 count_arrival(u32* ticket) {
#ifdef GR_EMULATED
    __threadfence();  // release
    const u32 before = atomicAdd(ticket, 1u);
    __threadfence();  // acquire
#else
    u32 before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(ticket) : "memory");
#endif
    return before;
}

// All threads call; what they stored before this is published first. True in every thread of the last of `splits` blocks
// to arrive at this ticket, which is then zero again, and which sees what the others published. Shared memory: one word, at its
// start. Block barriers.
GR_HD bool is_last_block(u32* ticket, u64 splits) {
    u32* last = (u32*)GR_SHARED;
    __syncthreads();
    if (threadIdx.x == 0) {
        *last = count_arrival(ticket) == (u32)splits - 1;
        if (*last) *ticket = 0;
    }
    __syncthreads();
    const bool mine = *last != 0;
    __syncthreads();
    return mine;
}

// The partials that the last block reads behind a ticket, and those that it waits for and clears.
template <class State> struct Stored {
    const State* at;
    GR_HD State read(u32 i) const { return load_state(at + i); }
};
template <class State> struct Published {
    TileState<State, 16>* at;
    GR_HD bool read(u32 i, State& to) const { return at[i].read(to); }
    GR_HD void clear(u32 i) const { at[i].clear(); }
};
template <class State, int Finish, class TaskT> GR_HD auto partials_of(const TaskT& task, u64 first) {
    if constexpr (Finish == POLLED) return Published<State>{(TileState<State, 16>*)task.tickets + first};
    else return Stored<State>{(const State*)task.partials + first};
}
// Makes a partial known to the block that will read it.
template <class State> GR_HD void publish_partial(const Stored<State>& to, u32 i, const State& state) {
    store_state((State*)to.at + i, state);
}
template <class State> GR_HD void publish_partial(const Published<State>& to, u32 i, const State& state) { to.at[i].publish(state); }

// All threads call. True in those of the block that brings the partials of `splits` blocks together. Block barriers.
template <int Finish, class TaskT> GR_HD bool is_joining(const TaskT& task, u64 group, u64 split) {
    if constexpr (Finish == POLLED) {
        __syncthreads();
        return split == task.splits - 1;
    }
    return is_last_block(task.tickets + group, task.splits);
}

// Combines the partials first, first + step, ... below `end`, left to right. What a kernel needs here it needs beside its
// loop over elements, which holds loads under way in registers: so what is there already is read one by one.
template <class Op, int, class State>
GR_HD void combine_partials(State& state, const Stored<State>& partials, u32 first, u32 end, u32 step) {
#pragma unroll 2
    for (u32 at = first; at < end; at += step) state = Op::combine(state, partials.read(at));
}
// The same of partials that are waited for, so many at a time.
template <class Op, int count, class State>
GR_HD void combine_partials(State& state, const Published<State>& partials, u32 first, u32 end, u32 step) {
    for (u32 at = first; at < end; at += count * step) {
        State each[count];
        bool there[count], all;
#pragma unroll
        for (int i = 0; i < count; i++) there[i] = at + i * step >= end;
        do {
            all = true;
#pragma unroll
            for (int i = 0; i < count; i++) {
                if (!there[i]) there[i] = partials.read(at + i * step, each[i]);
                all = all && there[i];
            }
        } while (!all);
#pragma unroll
        for (int i = 0; i < count; i++) {
            if (at + i * step >= end) continue;
            state = Op::combine(state, each[i]);
            partials.clear(at + i * step);
        }
    }
}

// All threads call. Folds `count` partials, always in the same order and left to right where that matters.
// Result valid in thread 0. Block barriers.
template <class Op, int Threads, class Partials>
GR_HD typename Op::State fold_partials(const Partials& partials, u64 count) {
    typename Op::State state = Op::identity();
    const u64 share = (count + Threads - 1) / Threads;
    const u64 first = Op::commutative ? threadIdx.x : threadIdx.x * share, step = Op::commutative ? Threads : 1;
    const u64 end = Op::commutative || first + share > count ? count : first + share;
    combine_partials<Op, (sizeof(typename Op::State) > 16 ? 1 : 2)>(state, partials, first, end, step);
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
    const auto partials = partials_of<State, Finish>(task, row * task.splits);
    if (threadIdx.x == 0) publish_partial(partials, split, state);
    if (Finish == TWO_PASS || !is_joining<Finish>(task, row, split)) return;
    state = fold_partials<Op, Threads>(partials, task.splits);
    if (threadIdx.x == 0) out[cell] = Emit::of(state, task.option);
}
