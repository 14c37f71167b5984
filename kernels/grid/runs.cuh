// The inner loop of columns: a thread keeps to one slot (an aligned vector) of a line and goes down the runs, line after line, with
// several loads in flight.
#pragma once
#include "../core/line.cuh"
#include "../monoid/columns.cuh"

// A slot at an end of its line, element by element where it passes the operands' memory. Columns outside the line
// hold whatever lies there: they are never written out.
template <class In, int V, class TaskT>
GR_HD Pack<In, V> read_end_slot(const TaskT& task, const Base* base, const Line<In, V>& line, u64 slot) {
    if (V == 1 || owns_slot<In, V>(task, base, line, slot)) return read_slot<In, V>(task, line, slot);
    Pack<In, V> pack = Pack<In, V>();
    const i64 from = line.position(slot);
    for (int j = 0; j < V; j++) {
        if (from + j < 0 || from + j >= (i64)task.length) continue;
        const i64 at = (i64)(slot * V + j);
        In x = Reader<In>::one(Reader<In>::ahead(line, at));
#pragma unroll
        for (int k = 0; k < V; k++)  // a constant index keeps the pack in registers
            if (k == j) pack.at[k] = x;
    }
    return pack;
}

// The line of run number `run`, from that of run 0 where runs are even.
template <class In, int V, bool Even, class TaskT>
GR_HD Line<In, V> run_of(const TaskT& task, const typename TaskT::Place& row, const Line<In, V>& origin, u64 run,
                         const Base*& base) {
    if (!Even) return find_line<In, V>(task, row, run, base);
    Line<In, V> line = origin;
    (typename Reader<In>::At&)line = task.ran(line, (i64)run);
    line.index += (i64)run * task.run.dim[0].c;
    return line;
}

// Whether a slot belongs to the operands in so many runs, at most Items.
template <class In, int V, int Items, bool Even, class TaskT>
GR_HD bool owns_runs(const TaskT& task, const typename TaskT::Place& row, const Base* base, const Line<In, V>& origin,
                     u64 run, u64 stride, u64 slot, u64 count) {
    const auto owns = [&](u64 i) {
        const Line<In, V> line = run_of<In, V, Even>(task, row, origin, run + i * stride, base);
        return owns_slot<In, V>(task, base, line, slot);
    };
    if (Even) return owns(0) && owns(count - 1);  // they ascend or descend
    bool owned = true;
#pragma unroll
    for (int i = 0; i < Items; i++)
        if (i < (int)count) owned = owned && owns(i);
    return owned;
}

// Where a thread is in the runs of its slot: the run it takes next, and how many are left, `stride` apart. Even runs are
// those of one chunk, whose first elements `base` has.
template <class Op, int V, bool Even, class TaskT> struct RunWalk {
    typedef typename Op::In In;
    const TaskT& task;
    const typename TaskT::Place& row;
    const i64 (&column_offset)[V];
    const Base* base;
    const Line<In, V> origin;
    const u64 slot, stride;
    u64 run, left;
    bool whole;

    GR_HD RunWalk(const TaskT& of, const typename TaskT::Place& place, const Base* first_of, u64 number, u64 first, u64 count,
                  u64 step, const i64 (&index)[V])
        : task(of), row(place), column_offset(index), base(first_of), origin(first_line<In, V>(of, place, first_of)),
          slot(number), stride(step), run(first), left(count) {
        const i64 from = origin.position(slot);  // the same in every run: the plan sees to that
        whole = left == 0 || V == 1 || (from >= 0 && from + V <= (i64)task.length);
    }
    // All lanes of the warp call, those with nothing to take too. A warp with a lane whose line does not fill its slot goes
    // the longer way together. Few: threads that have fewer runs than Items take them in whole batches.
    template <int Items, bool Few, class Running> GR_HD void take_all(Running& columns) {
        if (V == 1 || !__any_sync(0xffffffffu, !whole)) {
            if constexpr (Few && Items > 1)
                if (left < Items) return take_few<Items / 2>(columns);
            take<Items, true>(columns);
        } else {
            take<Even || Items < 2 ? Items : 2, false>(columns);
        }
    }
    // Batches of Items runs, all of whose loads are issued before the first use, and what is left in one more, of Least or more.
    // Without Whole the line may not fill the slot, which is read whole where the operands have it in all runs of a batch.
    template <int Items, bool Whole, int Least = 1, class Running> GR_HD void take(Running& columns) {
#pragma unroll 1
        while (left >= Items) take_whole<Items, Whole>(columns);
        take_rest<Items, Whole, Least>(columns);
    }
    // A batch of Items runs.
    template <int Items, bool Whole, class Running> GR_HD void take_whole(Running& columns) {
        if (Whole || owns_runs<In, V, Items, Even>(task, row, base, origin, run, stride, slot, Items)) {
            const Batch<Items> batch(*this, Items);
            take_batch(columns, batch.pack, batch.index, column_offset);
        } else {
            take_singly(columns, Items);
        }
        run += Items * stride;
        left -= Items;
        if constexpr (Op::stops)
            if (columns.is_decided()) left = 0;
    }
    // Fewer runs than 2 Items, in whole batches: a thread of narrow loads that has no others is done sooner with fewer instructions
    // than with fewer waits. 64 MiB, so and with those that are missing stood for, us: maxima of 10 rows of bytes 52 and 68, of 9
    // rows of bool 36 and 51; but with loads of 16 bytes, sums of 3 rows of float32 33 and 28 (H200, 2026-11-30).
    template <int Items, class Running> GR_HD void take_few(Running& columns) {
        static_assert((Items & (Items - 1)) == 0, "half of a batch, and half of that, are all that may be left");
        if (left >= Items) take_whole<Items, true>(columns);
        if constexpr (Items > 1) take_few<Items / 2>(columns);
    }
    // Fewer runs than Items, in a batch that is no more than half empty where it has not Least already.
    template <int Items, bool Whole, int Least, class Running> GR_HD void take_rest(Running& columns) {
        if constexpr (Items > Least)
            if (left <= Items / 2) return take_rest<Items / 2, Whole, Least>(columns);
        if (left == 0) return;
        if (Whole || owns_runs<In, V, Items, Even>(task, row, base, origin, run, stride, slot, left)) {
            const Batch<Items> batch(*this, (int)left);
            take_some(columns, batch.pack, batch.index, column_offset, (int)left);
        } else {
            take_singly(columns, left);
        }
    }
    template <class Running> GR_HD void take_singly(Running& columns, u64 count) {
#pragma unroll 1
        for (u64 i = 0; i < count; i++) {
            const Line<In, V> line = run_of<In, V, Even>(task, row, origin, run + i * stride, base);
            const Pack<In, V> pack = read_end_slot<In, V>(task, base, line, slot);
            columns.take(pack, line.index, column_offset);
        }
    }
    // The elements of the slot in the next runs, so many of Items, and the indices of these. The last stands for those that are
    // not there: its loads are in the cache, and take no branch. Indices of even runs are counted on from the first, so that they
    // take no registers while loads are on their way.
    template <int Items> struct Batch {
        Pack<In, V> pack[Items];
        i64 index[Items];
        GR_HD Batch(const RunWalk& walk, int count) {
            const i64 gap = (i64)walk.stride * walk.task.run.dim[0].c;
#pragma unroll
            for (int i = 0; i < Items; i++) {
                const Base* of = walk.base;
                const u64 run = walk.run + (i < count ? i : count - 1) * walk.stride;
                const Line<In, V> line = run_of<In, V, Even>(walk.task, walk.row, walk.origin, run, of);
                index[i] = Even && i ? index[0] + i * gap : line.index;
                pack[i] = read_slot<In, V>(walk.task, line, walk.slot);
            }
        }
    };
};
