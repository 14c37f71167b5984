// Extremes, their places, and the first or last elements: every group has a word that all threads raise by atomicMax, in
// shared memory or, where groups are too many, in the GPU's. Soon few elements are better than what is there, and most
// are compared and dropped.
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

// A group's words: the greatest of every column's. Word w of column c stands at words[w * distance + c].
template <class Op, int Columns> struct GroupBest {
    typedef typename Key<Op>::Code Code;
    Code words[Key<Op>::words];
    bool is_there;
    GR_HD GroupBest(const Code* from, u64 distance, u32 first, bool is_zero) : is_there(is_zero) {
#pragma unroll
        for (int w = 0; w < Key<Op>::words; w++) {
            words[w] = 0;
            for (u32 c = 0; c < Columns; c++) {
                const Code other = from[w * distance + (first + c) % Columns];
                words[w] = other > words[w] ? other : words[w];
            }
            is_there = is_there || words[w] != 0;
        }
    }
};

// Grid: rows x splits. Shared: Columns words for each group and each of its words, so that lanes meet neither at a word nor in a
// bank, and one more where an element may be as small as zero. Writes a state for each block and group, in order.
template <class Op, class L, int V, int Columns, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_best(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    typedef Key<Op> Keys;
    typedef typename Keys::Code Code;
    const u32 groups = (u32)task.cells, column = threadIdx.x % Columns, distance = groups * Columns;
    Code* const words = (Code*)GR_SHARED;
    Code* const zeros = words + Keys::words * distance;  // whether an element is as small as zero
    for (u32 i = threadIdx.x; i < Keys::words * distance + Keys::may_be_zero * groups; i += Threads) words[i] = 0;
    __syncthreads();
    const Share<Op, L, V, Lie> share(task);
    Grouper<L> grouper(task);
    const u64 begin = share.first * V;  // a block's elements are fewer than 2^32
    take_share<Threads, Loads>(share, [&](const In& x, L label, u64 at) {
        const u32 k = grouper.of(label);
        if (k >= groups) return;
#pragma unroll
        for (int w = 0; w < Keys::words; w++) {
            const Code word = Keys::at(w, x, (u32)(at - begin));
            if (Keys::may_be_zero && word == 0) raise_to(zeros + k, Code(1));
            else raise_to(words + w * distance + k * Columns + column, word);
        }
    });
    grouper.report(task);
    __syncthreads();
    for (u32 k = threadIdx.x; k < groups; k += Threads) {
        const GroupBest<Op, Columns> best(words + k * Columns, distance, column, Keys::may_be_zero && zeros[k]);
        const auto position = [&](u32 place) { return position_of<true>(task, begin + place); };
        const auto element = [&](u32 place) { return share.element(begin + place); };
        ((typename Op::State*)task.out)[blockIdx.x * task.cells + k] =
            Keys::state(best.words, Keys::place(best.words[0]), best.is_there, position, element);
    }
}

// Words of all rows' groups at `partials`, zero at first: the best, whether an element is as small as zero, and where a word has
// no room for a place, the places.
template <class Op> struct GroupWords {
    typedef Key<Op> Keys;
    typedef typename Keys::Code Code;
    const u64 distance;  // from a group's word to its next one
    Code *const best, *const zeros;
    u32* const places;
    GR_HD GroupWords(const Task<2>& task, u64 row)
        : distance(task.rows * task.cells), best((Code*)task.partials + row * task.cells), zeros(best + Keys::words * distance),
          places((u32*)((Code*)task.partials + (Keys::words + Keys::may_be_zero) * distance) + row * task.cells) {}
    // A look that L1 answers: words only rise, and what was there is no more than what is. None where the next is better.
    template <class Code> static GR_HD void raise(Code* word, Code least) {
        if (Keys::rises || *word < least) atomicMax(word, least);
    }
};

// Grid: rows x splits. Raises the words of GroupWords; with Places, those of places where the best of a group stand.
template <class Op, class L, int V, bool Places, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_raise(const __grid_constant__ Task<2> task) {
    typedef Key<Op> Keys;
    typedef typename Keys::Code Code;
    const Share<Op, L, V, Lie> share(task);
    const GroupWords<Op> words(task, share.row);
    Grouper<L> grouper(task);
    take_share<Threads, Loads>(share, [&](const typename Op::In& x, L label, u64 at) {
        const u32 k = grouper.of(label);
        if (k >= grouper.groups) return;
#pragma unroll
        for (int w = 0; w < Keys::words; w++) {
            const Code word = Keys::at(w, x, (u32)at);
            if (Places) {
                if (word == words.best[k]) words.raise(words.places + k, ~(u32)at);
            } else if (Keys::may_be_zero && word == 0) {
                words.zeros[k] = 1;
            } else {
                words.raise(words.best + w * words.distance + k, word);
            }
        }
    });
    grouper.report(task);
}

// Grid: a thread a row and group. States of what words have come to.
template <class Op, int Threads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_raised(const __grid_constant__ Task<2> task) {
    typedef Key<Op> Keys;
    const u64 cell = (u64)blockIdx.x * Threads + threadIdx.x;
    if (cell >= task.rows * task.cells) return;
    const u64 row = cell / task.cells, k = cell - row * task.cells;
    const Share<Op, u8, 1, Lie> share(task, row * task.splits);
    const GroupWords<Op> words(task, row);
    const GroupBest<Op, 1> best(words.best + k, words.distance, 0, Keys::may_be_zero && words.zeros[k]);
    const u32 place = Keys::in_two ? ~words.places[k] : Keys::place(best.words[0]);
    const auto position = [&](u32 at) { return position_of<true>(task, at); };
    const auto element = [&](u32 at) { return share.element(at); };
    ((typename Op::State*)task.out)[cell] = Keys::state(best.words, place, best.is_there, position, element);
}
