// A Kulisch accumulator a group in GPU memory, by 64-bit atomics: exact sums of more groups than blocks have room for, of
// elements whose significand is a single digit of at most 32 bits.
#pragma once
#include "added.cuh"

// What an element adds to a group's words.
template <class Op> struct WordsAdder {
    const ExactWords<Op>& words;
    u32 group;
    GR_HD void special(u32 flags) const { words.special(group, flags); }
    template <int F> GR_HD bool add(const Exact& x) const {
        typedef typename Added<Op>::template At<F> At;
        const bool here = !At::floats || x.place < (u32)At::places;
        if (here) add_rare<F>(x);
        return here;
    }
    template <int F> GR_HD void add_rare(const Exact& x) const {
        static_assert(Added<Op>::template At<F>::digits == 1, "a word has room for one digit");
        if (x.low) words.template add<F>(group, x.place, x.low, x.negative);
    }
};

// Grid: rows x splits. Words at `out` and their flags at `partials`, all zero.
template <class Op, class L, int V, bool Indexed, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_exact(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    typedef Added<Op> Add;
    const Share<Op, L, V, Lie> share(task);
    const ExactWords<Op> words(task, share.row);
    Grouper<L> grouper(task);
    take_share<Threads, Loads>(share, [&](In x, L label, u64) {
        const u32 k = grouper.of(label);
        if (k >= grouper.groups) return;
        Add::take(x, WordsAdder<Op>{words, k});
        if (Add::counted && Add::counts(x)) words.add_count(k, 1);
    });
    grouper.report(task);
}
