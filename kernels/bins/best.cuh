// Extremes, with their places or without: every group has a word in shared memory that all threads raise. Soon few elements are better than what is
// there, and most are compared and dropped. `Columns` words a group, so that lanes meet neither at a word nor in a bank.
#pragma once
#include "../core/shared.cuh"
#include "elements.cuh"
#include "order.cuh"

template <class Code> GR_HD void raise_to(Code* word, Code least) {
#ifndef GR_CHECKED  // racecheck knows no look beside atomics
    if (*(const volatile Code*)word >= least) return;
#endif
    atomicMax(word, least);
}

// Grid: rows x splits. Shared: Columns words for each group, and for integers one more. Writes a state for each block and
// group, in order.
template <class Op, class L, int V, int Columns, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_best(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    typedef Key<Op> Keys;
    typedef typename Keys::Code Code;
    const u32 groups = (u32)task.cells, column = threadIdx.x % Columns;
    Code* const words = (Code*)GR_SHARED;
    Code* const zeros = words + groups * Columns;  // whether an element is as small as zero
    for (u32 i = threadIdx.x; i < groups * (Columns + Keys::may_be_zero); i += Threads) words[i] = 0;
    __syncthreads();
    const Share<Op, L, V> share(task);
    Grouper<L> grouper(task);
    const u64 begin = share.first * V;  // a block's elements are fewer than 2^32
    take_share<Threads, Loads>(share, [&](In x, L label, u64 at) {
        const u32 k = grouper.of(label);
        if (k >= groups) return;
        const Code word = Keys::at(x, (u32)(at - begin));
        if (Keys::may_be_zero && word == 0) raise_to(zeros + k, Code(1));
        else raise_to(words + k * Columns + column, word);
    });
    grouper.report(task);
    __syncthreads();
    for (u32 k = threadIdx.x; k < groups; k += Threads) {
        Code word = 0;
        for (u32 c = 0; c < Columns; c++) {
            const Code other = words[k * Columns + (column + c) % Columns];
            word = other > word ? other : word;
        }
        const bool is_there = word != 0 || (Keys::may_be_zero && zeros[k]);
        auto position = [&](u32 place) { return position_of<true>(task, begin + place); };
        ((typename Op::State*)task.out)[blockIdx.x * task.cells + k] = Keys::state(word, is_there, position);
    }
}
