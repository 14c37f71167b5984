// Elements and their labels, side by side, as every kernel of groups reads them.
//
// A chunk is `rows` rows of `length` elements, and all rows have the same labels. `splits` blocks share a row. base[0]
// holds the operands, base[1].a the labels; `cells` is the number of groups. `tickets` is a word of flags for labels
// that no group has, or null; with `tail`, negative labels are such, too.
#pragma once
#include "../core/line.cuh"
#include "../core/task.cuh"

const u32 LARGE = 1, NEGATIVE = 2;  // what the flags say of labels

template <class L> GR_HD u64 code_of(L label) { return (u64)(i64)label; }
GR_HD u64 code_of(boolean label) { return label.byte; }
template <class L> struct IsSigned { static const bool yes = (L)-1 < (L)0; };
template <> struct IsSigned<boolean> { static const bool yes = false; };

// The group of an element, or any number from `cells` on for none.
template <class L> GR_HD u64 group_of(const Task<2>& task, L label) {
    const u64 code = code_of(label);
    if (code < task.cells || !task.tickets) return code;
    const bool negative = IsSigned<L>::yes && (i64)code < 0;
    if (!negative) atomicOr(task.tickets, LARGE);
    else if (task.tail) atomicOr(task.tickets, NEGATIVE);
    return ~0ull;
}

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

// A block's share of a row: slots of V elements, and elements behind the last slot.
template <class Op, class L, int V> struct Share {
    typedef typename Op::In In;
    const u8 *a, *b, *labels;
    u64 row, first, last;   // slots
    u64 rest, stop;         // elements

    GR_HD Share(const Task<2>& task) {
        row = blockIdx.x / task.splits;
        const u64 split = blockIdx.x % task.splits, slots = task.length / V;
        const u64 each = (slots + task.splits - 1) / task.splits;
        first = split * each < slots ? split * each : slots;
        last = first + each < slots ? first + each : slots;
        rest = split + 1 == task.splits ? slots * V : task.length;
        stop = task.length;
        a = task.base[0].a + row * task.length * Reader<In>::size_a;
        b = task.base[0].b + row * task.length * Reader<In>::size_b;
        labels = task.base[1].a;
    }
    GR_HD Pack<In, V> elements(u64 slot) const {
        return Reader<In>::template load<V>(a + slot * V * Reader<In>::size_a, b + slot * V * Reader<In>::size_b);
    }
    GR_HD Pack<L, V> labels_of(u64 slot) const { return load_pack<L, V>(labels + slot * V * sizeof(L)); }
    GR_HD In element(u64 at) const {
        return Reader<In>::one(a + at * Reader<In>::size_a, b + at * Reader<In>::size_b);
    }
    GR_HD L label(u64 at) const { return load_pack<L, 1>(labels + at * sizeof(L)).at[0]; }
};
