// Elements and their labels, side by side, as every kernel of groups reads them.
//
// A chunk is `rows` rows of `length` elements, and all rows have the same labels. `splits` blocks share a row. base[0]
// holds the operands, base[1].a the labels; `cells` is the number of groups. `tickets` is a word of flags for labels
// that no group has, or null; with `tail`, negative labels are such, too.
//
// Rows lie one after another, or as Lines says: then `row` and `run` are walks of rows, and of a row's elements, of which V
// that follow one another lie `step_a` bytes apart.
#pragma once
#include "../core/line.cuh"
#include "../core/task.cuh"

const u32 LARGE = 1, NEGATIVE = 2;  // what the flags say of labels

// A label as a number of 32 or 64 bits, with and without a sign. There are fewer than 2^31 groups, and as an unsigned
// number a negative label is larger than any.
template <class L, bool Signed, bool Narrow> struct Number;
template <class L> struct Number<L, true, true> { typedef i32 own; typedef u32 code; };
template <class L> struct Number<L, false, true> { typedef u32 own; typedef u32 code; };
template <class L> struct Number<L, true, false> { typedef i64 own; typedef u64 code; };
template <class L> struct Number<L, false, false> { typedef u64 own; typedef u64 code; };
template <class L> struct NumberOf : Number<L, ((L)-1 < (L)0), (sizeof(L) <= 4)> {
    static GR_HD typename NumberOf::own of(L label) { return label; }
};
template <> struct NumberOf<boolean> : Number<boolean, false, true> {
    static GR_HD u32 of(boolean label) { return label.byte; }
};

// The groups of a thread's elements. It keeps the greatest and the least label, and says at its end whether they are
// labels that no group has.
template <class L> struct Grouper {
    typedef typename NumberOf<L>::own Own;
    typedef typename NumberOf<L>::code Unsigned;
    u32 groups;
    Own most, least;
    GR_HD Grouper(const Task<2>& task) : groups((u32)task.cells), most(0), least(0) {}
    // The number of groups itself stands for none.
    GR_HD u32 of(L label) {
        const Own number = NumberOf<L>::of(label);
        most = number > most ? number : most;
        least = number < least ? number : least;
        return (Unsigned)number < groups ? (u32)number : groups;
    }
    GR_HD void report(const Task<2>& task) const {
        u32 wrong = (Unsigned)most >= groups ? LARGE : 0;
        if (task.tail && least < 0) wrong |= NEGATIVE;
        if (wrong && task.tickets) atomicOr(task.tickets, wrong);
    }
};

// One element as a state.
template <class Op> GR_HD typename Op::State lifted(typename Op::In x, i64 index) {
    typename Op::Acc acc = Op::start();
    Op::absorb(acc, x, index);
    return Op::settle(acc);
}

// The position of element `at` of a row, for operators that ask.
template <bool Indexed> GR_HD i64 position_of(const Task<2>& task, u64 at) {
    return Indexed ? task.base[0].index + task.run.at(at).c : 0;
}

enum Lines { NO_LINES, PACKED, TURNED, STEPPED };  // PACKED, and from their end, TURNED: packs begin at multiples of their size

// V elements some steps apart. Others read what lies between them: it stays in L1.
template <class In, int V> GR_HD Pack<In, V> load_stepped(const u8* from, i64 step) {
    const int wide = WordBytes<sizeof(In), alignof(In)>::count, each = sizeof(In) / wide;
    typedef typename Word<wide>::type W;
    union { W words[each * V]; Pack<In, V> pack; } both;
#pragma unroll
    for (int i = 0; i < each * V; i++) both.words[i] = ((const W*)(from + i / each * step))[i % each];
    return both.pack;
}

// V elements of a row that begins at an address, from `at` on: those of one operand, which lie as Lie and `run` say.
template <class In, int V, int Lie> GR_HD Pack<In, V> load_laid(const Task<2>& task, const u8* row, u64 at) {
    const u8* const from = row + task.run.at(at).a;
    if constexpr (Lie == STEPPED) return load_stepped<In, V>(from, task.step_a);
    if constexpr (Lie == PACKED) return load_pack<In, V>(from);
    return reversed(load_pack<In, V>(from - (V - 1) * sizeof(In)));
}

// A block's share of a row: slots of V elements, and elements behind the last slot.
template <class Op, class L, int V, int Lie = NO_LINES> struct Share {
    typedef typename Op::In In;
    const Task<2>& task;
    const u8 *a, *b, *labels;
    u64 row, first, last;   // slots
    u64 rest, stop;         // elements

    GR_HD Share(const Task<2>& of, u64 block = blockIdx.x) : task(of) {
        row = block / task.splits;
        const u64 split = block % task.splits, slots = task.length / V;
        const u64 each = (slots + task.splits - 1) / task.splits;
        first = split * each < slots ? split * each : slots;
        last = first + each < slots ? first + each : slots;
        rest = split + 1 == task.splits ? slots * V : task.length;
        stop = task.length;
        a = task.base[0].a + (Lie ? task.row.at(row).a : row * task.length * Reader<In>::size_a);
        b = task.base[0].b + row * task.length * Reader<In>::size_b;
        labels = task.base[1].a;
    }
    GR_HD Pack<In, V> elements(u64 slot) const {
        if constexpr (Lie != NO_LINES) return load_laid<In, V, Lie>(task, a, slot * V);
        else return Reader<In>::template load<V>(a + slot * V * Reader<In>::size_a, b + slot * V * Reader<In>::size_b);
    }
    GR_HD Pack<L, V> labels_of(u64 slot) const { return load_pack<L, V>(labels + slot * V * sizeof(L)); }
    GR_HD In element(u64 at) const {
        if constexpr (Lie != NO_LINES) return load_pack<In, 1>(a + task.run.at(at).a).at[0];
        return Reader<In>::one(a + at * Reader<In>::size_a, b + at * Reader<In>::size_b);
    }
    GR_HD L label(u64 at) const { return load_pack<L, 1>(labels + at * sizeof(L)).at[0]; }
};

// All threads of a block call; `take` gets each pack of elements of its share, their labels, and the place in the row of the
// first. A thread has Loads packs at hand, and as many are on their way.
template <int Threads, int Loads, class Op, class L, int V, int Lie, class Take>
GR_HD void take_packs(const Share<Op, L, V, Lie>& share, Take take) {
    Pack<typename Op::In, V> x[Loads], next_x[Loads];
    Pack<L, V> labels[Loads], next_labels[Loads];
    auto load = [&](u64 slot, Pack<typename Op::In, V>* to, Pack<L, V>* labels_to) {
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            if (slot + i * Threads >= share.last) continue;
            to[i] = share.elements(slot + i * Threads);
            labels_to[i] = share.labels_of(slot + i * Threads);
        }
    };
    u64 slot = share.first + threadIdx.x;
    load(slot, x, labels);
    for (; slot < share.last; slot += Loads * Threads) {
        load(slot + Loads * Threads, next_x, next_labels);
#pragma unroll
        for (int i = 0; i < Loads; i++)
            if (slot + i * Threads < share.last) take(x[i], labels[i], (slot + i * Threads) * V);
#pragma unroll
        for (int i = 0; i < Loads; i++) {
            x[i] = next_x[i];
            labels[i] = next_labels[i];
        }
    }
    for (u64 at = share.rest + threadIdx.x; at < share.stop; at += Threads)
        take(Pack<typename Op::In, 1>{{share.element(at)}}, Pack<L, 1>{{share.label(at)}}, at);
}
// What takes packs element by element. NVRTC 13.0 takes a lambda for any packs for a function of the host.
template <class Take> struct EachElement {
    Take& take;
    template <class In, class L, int N> GR_HD void operator()(const Pack<In, N>& x, const Pack<L, N>& labels, u64 at) const {
#pragma unroll
        for (int j = 0; j < N; j++) take(x.at[j], labels.at[j], at + j);
    }
};
// The same; `take` gets one element, its label and its place.
template <int Threads, int Loads, class Op, class L, int V, int Lie, class Take>
GR_HD void take_share(const Share<Op, L, V, Lie>& share, Take take) {
    take_packs<Threads, Loads>(share, EachElement<Take>{take});
}
