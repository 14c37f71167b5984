// Exact sums in shared memory, whose atomics add integers of 32 bits in one instruction. A group has a few limbs of 64
// bits there, each two words: what is added to the low word returns what it held, and so tells the carry to the high
// one, which few additions need. A float belongs to the limb of its exponent, SPAN exponents a limb: the limbs lie about
// the mean exponent of a sample, and what is outside of all goes to the limbs in memory. Of the limb in the middle, which
// takes nearly everything, there are `Columns` low words, so that lanes meet neither at a word nor, with 32, in a bank.
#pragma once
#include "../core/shared.cuh"
#include "added.cuh"

const u32 SPAN = 17;    // a block has 2^22 elements at most: 24 + 16 + 22 bits and a sign fit a limb
const u32 BELOW = 5;    // exponents of the middle limb below the mean one: from 9 on an addition has a high word
const u32 SAMPLED = 256;  // threads that take a slot of the sample
const u32 HALF = 0x80000000u;  // what low words of integers begin with: sums about zero then have no carries

template <class Op, int Columns> struct Window {
    typedef Added<Op> Add;
    static const u32 columns = Columns > 1 ? Columns : 0;
    u32 *head, *middle_words, *counts, *limbs;  // two words for the sample, then [rows][columns], the last [limb][2][rows]
    u32 first, rows, number;                    // groups from `first` on, so many; limbs
    u32 low, cover, middle, column;             // exponents from `low` on, so many; the middle limb; the caller's column

    GR_HD Window(const Task<2>& task, u32 range) : number((u32)task.runs) {
        const u32 groups = (u32)task.cells, each = (groups + (u32)task.tiles - 1) / (u32)task.tiles;
        first = range * each < groups ? range * each : groups;
        rows = groups - first < each ? groups - first : each;
        head = (u32*)GR_SHARED;
        middle_words = head + 4;
        counts = middle_words + rows * columns;
        limbs = counts + (Add::counted ? rows * Columns : 0);
        low = cover = middle = 0;
        column = threadIdx.x % Columns;
    }
    // All threads of the block call, before the first addition. Two barriers.
    template <class Share> GR_HD void open(const Share& share, u32 threads) {
        u32* end = limbs + 2 * number * rows;
        for (u32* word = head + threadIdx.x; word < end; word += threads) *word = 0;
        __syncthreads();
        if (!Add::floats) {
            u32* low_words = columns ? middle_words : limbs;
            for (u32 i = threadIdx.x; i < rows * Columns; i += threads) low_words[i] = HALF;
        }
        if (Add::floats) {
            const u64 step = (share.last - share.first + SAMPLED - 1) / SAMPLED, slot = share.first + threadIdx.x * step;
            if (threadIdx.x < SAMPLED && slot < share.last) sample(share.elements(slot));
        }
        __syncthreads();
        if (Add::floats) {
            const u32 mean = head[1] ? head[0] / head[1] : 127, from = mean > BELOW + 1 ? mean - BELOW : 1;
            middle = (from - 1) / SPAN < number / 2 ? (from - 1) / SPAN : number / 2;
            low = from - middle * SPAN;
            cover = number * SPAN < 255 - low ? number * SPAN : 255 - low;
        }
    }
    template <class P> GR_HD void sample(const P& pack) {
        u32 sum = 0, normal = 0;
        for (auto x : pack.at) {
            const u32 exponent = Add::of(x) >> 23 & 255;
            if (exponent == 0 || exponent == 255) continue;
            sum += exponent;
            normal++;
        }
        atomicAdd(head, sum);
        atomicAdd(head + 1, normal);
    }
    GR_HD void add(u32 k, u32 limb, u64 value) const {
        u32* low_word = limbs + limb * 2 * rows + k;
        u32* high_word = low_word + rows;
        if (columns && (!Add::floats || limb == middle)) low_word = middle_words + k * columns + column;
        const u32 part = (u32)value, held = atomicAdd(low_word, part), up = (u32)(value >> 32) + (held + part < part);
        if (up) atomicAdd(high_word, up);
    }
    // Of groups from another range, or of none, nothing. `outside` takes what is in no limb here.
    GR_HD void take(typename Op::In x, u32 group, const Limbs& outside) const {
        const u32 k = group - first;
        if (k >= rows) return;
        if constexpr (Add::floats) {
            const u32 bits = Add::of(x), place = (bits >> 23 & 255) - low;
            if (place < cover) {
                const u32 limb = place * 241 >> 12;  // place / SPAN
                const u64 value = (u64)((bits & 0x7fffffu) | 0x800000u) << (place - limb * SPAN);
                add(k, limb, (i32)bits < 0 ? 0 - value : value);
            } else if (bits << 1) {
                outside.add_float(group, bits);
            }
        } else {
            add(k, 0, Add::of(x));
        }
        if (Add::counted && Add::counts(x)) atomicAdd(counts + k * Columns + column, 1u);
    }
    GR_HD u64 sum_columns(const u32* words, u32 k) const {
        u64 sum = 0;
        for (u32 c = 0; c < Columns; c++) sum += words[k * Columns + (column + c) % Columns];
        return sum;
    }
    // What limb `limb` of group k has come to, behind a barrier.
    GR_HD u64 total(u32 k, u32 limb) const {
        const u32* word = limbs + limb * 2 * rows + k;
        const u64 own = (u64)word[rows] << 32, begun = Add::floats ? 0 : (u64)HALF * Columns;
        return own + (columns && limb == middle ? sum_columns(middle_words, k) : word[0]) - begun;
    }
};

// Grid: rows x splits x `tiles` ranges of groups: blocks side by side read the same elements, of which memory gives most
// once. Shared: 16 bytes, and the words of a Window with `runs` limbs. Of integers `out` holds states, of floats what
// bins_exact says; all zero.
template <class Op, class L, int V, int Columns, int Threads, int Loads>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_window(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    typedef Added<Op> Add;
    const Share<Op, L, V> share(task, blockIdx.x / task.tiles);
    const Limbs limbs = Limbs::of_row<Add::counted>(task, share.row);
    Window<Op, Columns> window(task, blockIdx.x % task.tiles);
    window.open(share, Threads);
    Grouper<L> grouper(task);
    take_share<Threads, Loads>(share, [&](In x, L label, u64) { window.take(x, grouper.of(label), limbs); });
    grouper.report(task);
    __syncthreads();
    const u32 turn = (u64)blockIdx.x * window.rows / gridDim.x;  // blocks end together, and begin at other groups
    for (u32 i = threadIdx.x; i < window.rows; i += Threads) {
        const u32 k = i + turn < window.rows ? i + turn : i + turn - window.rows, group = window.first + k;
        u64* state = (u64*)((typename Op::State*)task.out + share.row * task.cells + group);
        for (u32 limb = 0; limb < window.number; limb++) {
            const u64 total = window.total(k, limb);
            const u32 place = window.low - 1 + limb * SPAN;
            const i32 high = (i32)(total >> 32);
            if (!Add::floats) {
                if (total) atomicAdd(state, total);
                continue;
            }
            if ((u32)total) limbs.add(group, place, (u32)total, false);
            if (high) limbs.add(group, place + 32, high < 0 ? 0 - (u32)high : (u32)high, high < 0);
        }
        if (!Add::counted) continue;
        const u64 number = window.sum_columns(window.counts, k);
        if (number && Add::floats) limbs.add_count(group, number);
        if (number && !Add::floats) atomicAdd(state + 1, number);
    }
}
