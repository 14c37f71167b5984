// A privatised Kulisch accumulator a group, in a block's shared memory: of all its exponents a window, about those of a sample.
// Atomics there add integers of 32 bits in one instruction. A group has limbs of 64 or 96 bits for each of its sums, in words
// of 32: what is added to a word returns what it held, and so tells the carry to the next one, which is right in any order.
// The last one needs few additions. A digit of a number belongs to the limb of its place: the limbs lie about the mean place of
// a sample, and what is outside of all goes to words in memory. Of the limb in the middle, which takes more than any, there are
// `Columns` times all words but the last, so that lanes meet neither at a word nor, with 32, in a bank.
#pragma once
#include "../core/shared.cuh"
#include "added.cuh"

const u32 BELOW = 5;  // places of a narrow middle limb below the mean one: from 9 on additions of a binary32 have a high word
const u32 SAMPLED = 256;  // threads that take a slot of the sample
const u32 HALF = 0x80000000u;  // what all words but the last begin with: sums about zero then have no carries

// The limbs of one sum: of the middle one all words but the last [word][rows][columns], and of all [limb][word][rows].
struct Limbs {
    u32 *middle_words, *words;
    u32 number, low, middle;  // of limbs; the place of the first; the middle one
    u32 cover;                // places from `low` on that are in a limb with all digits of a number
};

// A whole integer is a sum of one digit, which is as it is.
struct WholeField {
    static const bool floats = false;
    static const int digits = 1, words_a_limb = 2, span = 64;
    static GR_HD u32 limbs(u32) { return 1; }
};
template <class Add, int F, bool IsWhole> struct FieldOf { typedef typename Add::template At<F> type; };
template <class Add, int F> struct FieldOf<Add, F, true> { typedef WholeField type; };

// The caller's number in the block, read once: the compiler would ask for it again for each element.
GR_HD u32 own_thread() {
#ifdef GR_EMULATED
    return threadIdx.x;
#else
    u32 thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
#endif
}

// Parts of a sample's elements: their places.
template <class Add> struct Sample {
    u32 *sum, *number;
    GR_HD void special(u32) const {}
    template <int F> GR_HD void add_rare(const Exact&) const {}
    template <int F> GR_HD bool add(const Exact& x) const {
        const u32 place = Add::sums ? x.place : x.place / 2;  // of the number itself
        if (F == 0 && place < (u32)Exactly<typename Add::Real>::places) {
            atomicAdd(sum, place);
            atomicAdd(number, 1u);
        }
        return true;
    }
};

// What is carried to the next word: 128 bits in two's complement.
struct Rest {
    u64 low;
    i64 high;
    GR_HD void add(u64 value, i64 above, u32 shift) {  // 96 bits and a sign, by less than 32
        const u64 shifted = value << shift;
        low += shifted;
        high += (i64)((u64)above << shift | (shift ? value >> (64 - shift) : 0)) + (low < shifted);
    }
};

template <class Op, int Columns> struct Window {
    typedef Added<Op> Add;
    template <int F> using FieldAt = typename FieldOf<Add, F, Add::whole>::type;
    static const u32 columns = Columns > 1 ? Columns : 0;
    u32 *head, *counts, *end;   // two words for the sample; [rows][Columns]
    Limbs sums[Add::fields];
    u32 first, rows, column;    // groups from `first` on, so many; the caller's column

    GR_HD Window(const Task<2>& task, u32 range) {
        const u32 groups = (u32)task.cells, each = (groups + (u32)task.tiles - 1) / (u32)task.tiles;
        first = range * each < groups ? range * each : groups;
        rows = groups - first < each ? groups - first : each;
        head = (u32*)GR_SHARED;
        end = head + 4;
        lay<0>((u32)task.runs);
        counts = end;
        end += Add::counted ? rows * Columns : 0;
        column = own_thread() % Columns;
    }
    template <int F> GR_HD void lay(u32 more) {
        if constexpr (F < Add::fields) {
            const u32 number = FieldAt<F>::limbs(more);
            const u32 lower = FieldAt<F>::words_a_limb - 1;
            sums[F] = {end, end + rows * columns * lower, number, 0, 0, 0};
            end += rows * (columns * lower + (lower + 1) * number);
            lay<F + 1>(more);
        }
    }
    // All threads of the block call, before the first addition. Two barriers.
    template <class Share> GR_HD void open(const Share& share, u32 threads) {
        for (u32* word = head + threadIdx.x; word < end; word += threads) *word = 0;
        __syncthreads();
        begin<0>(threads);
        if constexpr (sampled()) {
            const u64 step = (share.last - share.first + SAMPLED - 1) / SAMPLED, slot = share.first + threadIdx.x * step;
            if (threadIdx.x < SAMPLED && slot < share.last) {
                const auto pack = share.elements(slot);
                for (const auto& x : pack.at) Add::take(x, Sample<Add>{head, head + 1});
            }
        }
        __syncthreads();
        if constexpr (sampled()) place<0>(head[1] ? head[0] / head[1] : 0);
    }
    static constexpr GR_HD bool sampled() {
        if constexpr (Add::whole) return false;
        else return FieldAt<0>::floats;
    }
    template <int F> GR_HD void begin(u32 threads) {
        if constexpr (F < Add::fields) {
            const Limbs& sum = sums[F];
            const u32 words = FieldAt<F>::words_a_limb;
            for (u32* word = sum.middle_words + threadIdx.x; word < sum.words; word += threads) *word = HALF;
            for (u32 i = threadIdx.x; i < rows * words * sum.number; i += threads)
                if (i / rows % words + 1 < words) sum.words[i] = HALF;
            begin<F + 1>(threads);
        }
    }
    // The mean place of numbers says where the highest digit of theirs, or of their squares, lies.
    template <int F> GR_HD void place(u32 mean) {
        if constexpr (F < Add::fields) {
            typedef FieldAt<F> At;
            const u32 power = F < Add::sums ? 1 : 2, at = power * mean + At::digit * (At::digits - 1);
            const u32 below = At::wide ? At::span / 2 : BELOW, from = at > below ? at - below : 0, number = sums[F].number;
            const u32 middle = number > At::below ? At::below + (number - 1 - At::below) / 2 : number - 1;
            sums[F].middle = from / At::span < middle ? from / At::span : middle;
            sums[F].low = from - sums[F].middle * At::span;
            const u32 covered = number * At::span - At::digit * (At::digits - 1);
            const u32 there = At::places > sums[F].low ? At::places - sums[F].low : 0;  // of numbers that are finite
            sums[F].cover = covered < there ? covered : there;
            place<F + 1>(mean);
        }
    }
    // Where word `word` of a limb is that the caller adds to.
    template <int F> GR_HD u32* word_of(u32 k, u32 limb, u32 word) const {
        const Limbs& sum = sums[F];
        const u32 words = FieldAt<F>::words_a_limb;
        if (columns && limb == sum.middle && word + 1 < words) return sum.middle_words + (word * rows + k) * columns + column;
        return sum.words + (limb * words + word) * rows + k;
    }
    // Adds a number of 64 bits, and `above` beyond it.
    template <int F> GR_HD void add_to(u32 k, u32 limb, u64 value, u32 above) const {
        u32 low = (u32)value, old = atomicAdd(word_of<F>(k, limb, 0), low), up = (u32)(value >> 32);
        const bool carry = old + low < low;
        if (FieldAt<F>::words_a_limb == 2) {
            up += carry;
            if (up) atomicAdd(word_of<F>(k, limb, 1), up);
        } else {
            const u32 middle = up + carry;
            above += middle < up;
            old = middle ? atomicAdd(word_of<F>(k, limb, 1), middle) : 0;
            above += old + middle < middle;
            if (above) atomicAdd(word_of<F>(k, limb, 2), above);
        }
    }
    // Of groups from another range, or of none, nothing. `outside` takes what is in no limb here.
    GR_HD void take(typename Op::In x, u32 group, const ExactWords<Op>& outside) const {
        const u32 k = group - first;
        if (k >= rows) return;
        if constexpr (Add::whole) add_to<0>(k, 0, Add::of(x), 0);
        else Add::take(x, Adder{*this, outside, k});
        if (Add::counted && Add::counts(x)) atomicAdd(counts + k * Columns + column, 1u);
    }
    // Digits that a number has in all sums; registers have room for two that are added up.
    template <int F> static constexpr GR_HD int digits() {
        if constexpr (F < Add::fields) return FieldAt<F>::digits + digits<F + 1>();
        else return 0;
    }
    // Elements that are all of one group, as where labels are sorted, are added up before: all lanes may be at its words.
    template <int V, class L>
    GR_HD void take(const Pack<typename Op::In, V>& x, const Pack<L, V>& labels, Grouper<L>& grouper,
                    const ExactWords<Op>& outside) const {
        u32 groups[V];
        bool alike = V > 1 && digits<0>() <= 2;
#pragma unroll
        for (int j = 0; j < V; j++) groups[j] = grouper.of(labels.at[j]), alike = alike && groups[j] == groups[0];
        if (!alike) {
#pragma unroll
            for (int j = 0; j < V; j++) take(x.at[j], groups[j], outside);
            return;
        }
        const u32 k = groups[0] - first;
        if (k >= rows) return;
        if constexpr (Add::whole) {
            u64 sum = 0;
#pragma unroll
            for (int j = 0; j < V; j++) sum += Add::of(x.at[j]);
            add_to<0>(k, 0, sum, 0);
        } else {
            Together<0> held;
            const Adder adder = {*this, outside, k};
#pragma unroll
            for (int j = 0; j < V; j++) Add::take(x.at[j], Collector{adder, held});
            held.add_all(adder);
        }
        u32 number = 0;
#pragma unroll
        for (int j = 0; j < V; j++) number += Add::counts(x.at[j]);
        if (Add::counted && number) atomicAdd(counts + k * Columns + column, number);
    }
    // Digits that were added up, and where they belong: one for each that a number has, of each sum.
    struct Held {
        u32 limb, above;
        u64 value;
        GR_HD bool is_there() const { return value || above; }
    };
    template <int F, bool There = (F < Add::fields)> struct Together;
    struct Adder {
        const Window& window;
        const ExactWords<Op>& outside;
        u32 k;
        GR_HD void special(u32 flags) const { outside.special(window.first + k, flags); }
        // A digit times 2^shift, which is less than 2^64.
        template <int F> static GR_HD Held shifted(u32 limb, u64 digit, u32 shift, bool negative) {
            typedef FieldAt<F> At;
            u64 value;
            const u32 sign = negative ? ~0u : 0;
            if constexpr (At::digit < 32) value = (u64)(i64)(i32)(((u32)digit ^ sign) - sign) << shift;
            else value = ((digit ^ (i64)(i32)sign) - (i64)(i32)sign) << shift;
            return {limb, digit ? sign : 0, value};
        }
        template <int F> GR_HD void add_digit(u32 limb, u64 digit, u32 shift, bool negative) const {
            hold<F>(0, shifted<F>(limb, digit, shift, negative));
        }
        template <int F> GR_HD void hold(int, const Held& x) const { window.template add_to<F>(k, x.limb, x.value, x.above); }
        template <int F> GR_HD bool add(const Exact& x) const { return add_digits<F>(x, *this); }
        template <int F, class To> GR_HD bool add_digits(const Exact& x, const To& to) const {
            typedef FieldAt<F> At;
            const u32 at = x.place - window.sums[F].low;
            if (At::floats && __builtin_expect(at >= window.sums[F].cover, 0)) return false;
#pragma unroll
            for (int j = 0; j < At::digits; j++) {
                const u64 digit = At::part(x, j);
                if (At::digits > 1 && digit == 0) continue;
                const u32 place = at + j * At::digit, limb = At::floats ? place / At::span : j;
                to.template hold<F>(j, shifted<F>(limb, digit, At::floats ? place - limb * At::span : 0, x.negative));
            }
            return true;
        }
        template <int F> GR_HD void add_rare(const Exact& x) const {
            typedef FieldAt<F> At;
            for (int j = 0; j < At::digits; j++) {
                const u64 digit = At::part(x, j);
                const u32 place = x.place + j * At::digit, at = place - window.sums[F].low, limb = at / At::span;
                if (digit == 0) continue;
                if (limb < window.sums[F].number) add_digit<F>(limb, digit, at - limb * At::span, x.negative);
                else outside.template add_cut<F>(window.first + k, place, digit, x.negative);  // below the first, `at` is past all
            }
        }
    };
    template <int F> struct Together<F, false> {
        GR_HD void add_all(const Adder&) const {}
    };
    template <int F> struct Together<F, true> : Together<F + 1> {
        Held digits[FieldAt<F>::digits];
        GR_HD Together() {
#pragma unroll
            for (auto& held : digits) held = {0, 0, 0};
        }
        GR_HD void add_all(const Adder& to) const {
#pragma unroll
            for (int j = 0; j < FieldAt<F>::digits; j++)
                if (digits[j].is_there()) to.template hold<F>(j, digits[j]);
            Together<F + 1>::add_all(to);
        }
    };
    // Adds digits of one limb up before they go there.
    struct Collector {
        const Adder& adder;
        Together<0>& held;
        GR_HD void special(u32 flags) const { adder.special(flags); }
        template <int F> GR_HD bool add(const Exact& x) const { return adder.template add_digits<F>(x, *this); }
        template <int F> GR_HD void add_rare(const Exact& x) const { adder.template add_rare<F>(x); }
        template <int F> GR_HD void hold(int j, const Held& x) const {
            Held& there = static_cast<Together<F>&>(held).digits[j];
            if (there.limb != x.limb) {
                if (there.is_there()) adder.template hold<F>(j, there);
                there = x;
                return;
            }
            there.value += x.value;
            there.above += x.above + (there.value < x.value);
        }
    };
    GR_HD u64 sum_columns(const u32* words, u32 k) const {
        u64 sum = 0;
        for (u32 c = 0; c < Columns; c++) sum += words[k * Columns + (column + c) % Columns];
        return sum;
    }
    // What word `word` of a limb, not the last, has come to, behind a barrier.
    template <int F> GR_HD i64 word_total(u32 k, u32 limb, u32 word) const {
        const Limbs& sum = sums[F];
        const u32 words = FieldAt<F>::words_a_limb;
        if (columns && limb == sum.middle) return (i64)(sum_columns(sum.middle_words + word * rows * columns, k) - (u64)HALF * Columns);
        return (i64)sum.words[(limb * words + word) * rows + k] - (i64)HALF;
    }
    // What limb `limb` of group k has come to, times 2^shift.
    template <int F> GR_HD void add_limb(Rest& rest, u32 k, u32 limb, u32 shift) const {
        const u32 words = FieldAt<F>::words_a_limb;
        const i64 low = word_total<F>(k, limb, 0), last = (i32)sums[F].words[(limb * words + words - 1) * rows + k];
        rest.add((u64)low, low >> 63, shift);
        if (words == 2) {
            rest.add((u64)last << 32, last >> 32, shift);
        } else {
            const i64 middle = word_total<F>(k, limb, 1);
            rest.add((u64)middle << 32, middle >> 32, shift);
            rest.add(0, last, shift);
        }
    }
    GR_HD u64 whole_total(u32 k) const {
        Rest rest = {0, 0};
        add_limb<0>(rest, k, 0, 0);
        return rest.low;
    }
    // Adds the limbs of each sum to words in memory, 32 bits to each from the lowest limb up. What fits a signed word is added
    // as one: then no carry, and no sign, goes up through all words above.
    template <int F> GR_HD void flush(u32 k, const ExactWords<Op>& to) const {
        if constexpr (F < Add::fields) {
            typedef FieldAt<F> At;
            const Limbs& sum = sums[F];
            Rest rest = {0, 0};
            u32 limb = 0;
            for (u32 word = sum.low / 32;; word++) {
                for (; limb < sum.number && sum.low + limb * At::span < 32 * (word + 1); limb++)
                    add_limb<F>(rest, k, limb, sum.low + limb * At::span - 32 * word);
                const i64 digit = (i32)rest.low;
                const bool is_last = (i64)rest.low == digit && rest.high == digit >> 63;  // what there is fits a signed word
                const u64 value = is_last ? (u64)digit : (u32)rest.low;
                if (value) to.template add_word<F>(first + k, word, value);
                if (is_last && limb == sum.number) break;
                if (is_last) rest = {0, 0};
                else rest = {rest.low >> 32 | (u64)rest.high << 32, rest.high >> 32};
            }
            flush<F + 1>(k, to);
        }
    }
};

// What takes packs into a window.
template <class Window, class Grouper, class Words> struct IntoWindow {
    Window& window;
    Grouper& grouper;
    const Words& words;
    template <class In, class L, int N> GR_HD void operator()(const Pack<In, N>& x, const Pack<L, N>& labels, u64) const {
        window.take(x, labels, grouper, words);
    }
};

// Grid: rows x splits x `tiles` ranges of groups: blocks side by side read the same elements, of which memory gives most
// once. Shared: 16 bytes, and the words of a Window with `runs` limbs more than are needed. Of whole integers `out` holds states,
// else the words of ExactWords and `partials` its flags; all zero.
template <class Op, class L, int V, int Columns, int Threads, int Loads, int Lie = NO_LINES>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) bins_window(const __grid_constant__ Task<2> task) {
    typedef typename Op::In In;
    typedef Added<Op> Add;
    const Share<Op, L, V, Lie> share(task, blockIdx.x / task.tiles);
    const ExactWords<Op> words(task, share.row);
    Window<Op, Columns> window(task, blockIdx.x % task.tiles);
    window.open(share, Threads);
    Grouper<L> grouper(task);
    take_packs<Threads, Loads>(share, IntoWindow<Window<Op, Columns>, Grouper<L>, ExactWords<Op>>{window, grouper, words});
    grouper.report(task);
    __syncthreads();
    const u32 turn = (u64)blockIdx.x * window.rows / gridDim.x;  // blocks end together, and begin at other groups
    for (u32 i = threadIdx.x; i < window.rows; i += Threads) {
        const u32 k = i + turn < window.rows ? i + turn : i + turn - window.rows, group = window.first + k;
        u64* state = (u64*)((typename Op::State*)task.out + share.row * task.cells + group);
        if constexpr (Add::whole) {
            const u64 total = window.whole_total(k);
            if (total) atomicAdd(state, total);
        } else {
            window.template flush<0>(k, words);
        }
        if (!Add::counted) continue;
        const u64 number = window.sum_columns(window.counts, k);
        if (number && Add::whole) atomicAdd(state + 1, number);
        if constexpr (!Add::whole) if (number) words.add_count(group, number);
    }
}
