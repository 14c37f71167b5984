// A textbook way to scan in passes over memory (Merrill and Grimshaw 2009): lines are cut into parts, a block each, and each part
// is folded to its state; the states are scanned, as lines of their own; then each part is scanned from its base.
//
// Source 0 is elements; source n is states of the parts of source n - 1, which a scan replaces by what comes before each.
#pragma once
#include "../core/shared.cuh"
#include "../core/task.cuh"
#include "../warp/reduce.cuh"
#include "../warp/scan.cuh"
#include "scan_state.cuh"

// All threads of the block call, Threads of them. What comes before this thread's state; `through` is the states of all.
// Two block barriers.
template <class Op, int Threads>
GR_HD typename Op::State block_before(typename Op::State own, typename Op::State& through) {
    typedef typename Op::State State;
    State* totals = (State*)GR_SHARED;
    const State inclusive = warp_scan<Op, 32>(own);
    if (threadIdx.x % 32 == 31) totals[threadIdx.x / 32] = inclusive;
    __syncthreads();
    State before = Op::identity();
    through = Op::identity();
    for (u32 w = 0; w < Threads / 32; w++) {
        if (w == threadIdx.x / 32) before = through;
        through = Op::combine(through, totals[w]);
    }
    __syncthreads();
    return Op::combine(before, lane_before<Op, 32>(inclusive));
}

// How a source is cut. Parts of elements are as many as the plan says; those of states have Fan of them.
template <class Op, int Fan> struct Cuts {
    typedef typename Op::State State;
    const Scan& task;
    u64 count, length, share;  // of a line: parts; elements, or states; those of a part
    State *from, *to;          // states of this source, and of its parts
    GR_HD Cuts(const Scan& scan, int source)
        : task(scan), count(scan.tiles), length(scan.length), share((scan.length + scan.tiles - 1) / scan.tiles), from(nullptr),
          to((State*)scan.states) {
        for (; source > 0; source--) {
            from = to;
            to += task.lines * count;
            length = count;
            count = (length + Fan - 1) / Fan;
            share = Fan;
        }
    }
    GR_HD u64 all() const { return task.lines * count; }
    // Of a part's number: its line, and where in it the part begins and ends.
    GR_HD u64 line(u64 part) const { return part / count; }
    GR_HD u64 begin(u64 part) const {
        const u64 at = part % count * share;
        return at < length ? at : length;
    }
    GR_HD u64 end(u64 part) const { return begin(part) + share < length ? begin(part) + share : length; }
};

// Elements of a line, or states in place of them.
template <class Op> struct Elements {
    typedef typename Op::In Item;
    typedef typename Op::State State;
    const Scan& task;
    const Offset at;
    const StridedLine<Item> line;
    GR_HD Elements(const Scan& scan, u64 number, State*, u64)
        : task(scan), at(scan.line.at(number)), line(scan, at, number) {}
    GR_HD Item get(u64 k) const { return line.get(task, k); }
    GR_HD State add(State state, Item x, u64 k) const { return ScanStep<Op>::of(state, x, index_of(task, k)); }
    template <class Emit> GR_HD void put(u64 k, State state) const {
        store_once((typename Emit::Out*)((u8*)task.out + at.c + (i64)k * task.step_out), Emit::of(state, task.option));
    }
};
template <class Op> struct States {
    typedef typename Op::State Item;
    typedef typename Op::State State;
    State* const row;
    GR_HD States(const Scan&, u64 line, State* from, u64 length) : row(from + line * length) {}
    GR_HD Item get(u64 k) const { return row[k]; }
    static GR_HD State add(State state, Item x, u64) { return Op::combine(state, x); }
    template <class Emit> GR_HD void put(u64 k, State state) const { row[k] = state; }
};
template <class Op, int Source> struct ItemsOf { typedef States<Op> type; };
template <class Op> struct ItemsOf<Op, 0> { typedef Elements<Op> type; };

// Grid: any number of blocks, a part after another. States of the parts of a source.
template <class Op, int Threads, int Items, int Source>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_method_fold(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const Cuts<Op, Threads * Items> parts(task, Source);
    for (u64 part = blockIdx.x; part < parts.all(); part += gridDim.x) {
        const u64 end = parts.end(part);
        const typename ItemsOf<Op, Source>::type line(task, parts.line(part), parts.from, parts.length);
        State state = Op::identity(), through;
        for (u64 at = parts.begin(part); at < end; at += Threads * Items) {
            State own = Op::identity();
            const u64 first = at + threadIdx.x * Items;
            for (u64 k = first; k < first + Items && k < end; k++) own = line.add(own, line.get(k), k);
            block_before<Op, Threads>(own, through);
            state = Op::combine(state, through);
        }
        if (threadIdx.x == 0) parts.to[part] = state;
    }
}

// Grid: any number of blocks, a part after another. Scans a source from the bases of its parts; without Based there is one part
// a line, and carries are its bases.
template <class Op, class Emit, int Threads, int Items, int Source, bool Based, bool Exclusive>
__global__ void __launch_bounds__(Threads, GR_BLOCKS) scan_method_scan(const __grid_constant__ Scan task) {
    typedef typename Op::State State;
    const Cuts<Op, Threads * Items> parts(task, Source);
    for (u64 part = blockIdx.x; part < parts.all(); part += gridDim.x) {
        const u64 end = parts.end(part), number = parts.line(part);
        const typename ItemsOf<Op, Source>::type line(task, number, parts.from, parts.length);
        State state = Op::identity(), through;
        if (Based) state = parts.to[part];
        else if (task.carry) state = LineEnds<Op>::before(task, number);
        for (u64 at = parts.begin(part); at < end; at += Threads * Items) {
            const u64 first = at + threadIdx.x * Items, last = first + Items < end ? first + Items : end;
            State own = Op::identity();
            for (u64 k = first; k < last; k++) own = line.add(own, line.get(k), k);
            State before = Op::combine(state, block_before<Op, Threads>(own, through));
            for (u64 k = first; k < last; k++) {
                const auto x = line.get(k);
                const State with = line.add(before, x, k);
                if constexpr (Source > 0) line.template put<Emit>(k, before);
                else if constexpr (Exclusive) line.template put<Emit>(k, ExclusiveState<Op>::of(before, x));
                else line.template put<Emit>(k, with);
                before = with;
            }
            state = Op::combine(state, through);
        }
        if (!Based && threadIdx.x == 0 && task.totals) LineEnds<Op>::keep(task, number, state);
    }
}
