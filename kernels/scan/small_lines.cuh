// Scans short lines without anything passing between lanes: a warp copies whole planes of them as they lie in memory, with what
// lies between their elements, and a lane takes one line at a time, or a run of lines that lie one after another.
#pragma once
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "column_ops.cuh"
#include "pack_scan.cuh"
#include "reciprocal_table.cuh"
#include "row_staging.cuh"
#include "scan_state.cuh"
#include "warp_share.cuh"

// Lines on their way through shared memory. Runs of lines begin at multiples of V elements, and have as many. Reverse: lines that
// lie one after another are scanned from the last one's end on. H200, 2026-11: with two shares on their way at once, and fewer
// warps therefore, 0.71 of a copy for 0.96 of float16 (n, 100), 0.96 for 0.99 of float32.
template <class Op, class Emit, int Warps, int V, bool Reverse> struct StagedLines {
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    static const int size_a = Reader<In>::size_a, size_b = Reader<In>::size_b, size_out = sizeof(Out);
    static const int warps = Warps, N = V > 1 ? V : 4;  // elements that are taken at once while their line goes on
    const SmallLines& task;
    const u32 lane, length;
    GR_HD StagedLines(const SmallLines& scan) : task(scan), lane(threadIdx.x % 32), length((u32)scan.length) {}

    // Positions are bytes from the start of shared memory.
    GR_HD u32 stage_bytes() const { return (u32)(task.a_planes.share + task.b_planes.share); }
    GR_HD u32 bytes() const { return 2 * stage_bytes() + (u32)task.results.share; }  // of a warp
    GR_HD u32 share_a(u32 stage) const { return threadIdx.x / 32 * bytes() + stage * stage_bytes(); }
    GR_HD u32 share_b(u32 stage) const { return share_a(stage) + (u32)task.a_planes.share; }
    GR_HD u32 share_out(u32 stage) const { return share_a(task.results.share ? 2 : stage); }
    GR_HD u8* table() const { return GR_SHARED + Warps * bytes(); }  // behind what warps have

    // Where a share's first plane begins, and what there is of it.
    struct Location {
        u64 line;  // its first
        u32 planes, lines;
        const u8 *a, *b;
        u8* out;
    };
    GR_HD Location location_of(u64 share) const {
        u64 sequence = 0;
        Offset at = {0, 0, 0};
        if (task.by_shares.size < task.tiles) {
            sequence = task.by_shares.size > 1 ? task.by_shares.of(share) : share;
            at = task.sequence.at(sequence);
        }
        const u64 plane = (share - sequence * task.by_shares.size) * task.most, left = task.planes - plane;
        const u64 planes = left < task.most ? left : task.most, each = task.rows * task.columns * task.together;
        const u64 line = (sequence * task.planes + plane) * each, rest = task.lines - line;
        const u32 lines = (u32)(rest < planes * each ? rest : planes * each);
        return {line, (u32)planes, lines, task.a + at.a + (i64)plane * task.a_planes.step,
                task.b + at.b + (i64)plane * task.b_planes.step, (u8*)task.out + at.c + (i64)plane * task.results.step};
    }
    static GR_HD RowStaging staging(const PlaneLayout& layout, const u8* first, u32 planes, u32 share) {
        return {first - layout.back, planes, (u32)layout.bytes, share};
    }
    GR_HD void fetch(u64 share, u32 stage) const {
        const Location location = location_of(share);
        staging(task.a_planes, location.a, location.planes, share_a(stage)).fetch(task.a_planes, task.a);
        if constexpr (size_b > 0) staging(task.b_planes, location.b, location.planes, share_b(stage)).fetch(task.b_planes, task.b);
    }
    GR_HD void drain(u64 share, u32 stage) const {
        const Location location = location_of(share);
        staging(task.results, location.out, location.planes, share_out(stage))
            .template drain<size_out>(task.results, (const u8*)task.out);
    }

    // Where the first element of a run of lines lies in shared memory, in the order of the scan.
    struct Run {
        const u8 *a, *b;
        u8* out;
    };
    GR_HD Run run_of(const Location& location, u32 stage, u32 number) const {
        const u32 columns = (u32)task.columns, plane = (u32)(number * task.per_plane >> 32);
        const u32 in_plane = number - plane * (u32)task.rows * columns, row = (u32)(in_plane * task.per_row >> 32);
        const auto place = [&](const PlaneLayout& layout, const u8* first, u32 share) {
            const u32 begin = staging(layout, first, location.planes, share).place(layout, plane) + (u32)layout.back;
            return GR_SHARED + begin + (i32)(row * (u32)layout.line_row + (in_plane - row * columns) * (u32)layout.line_column);
        };
        const u8 *a = place(task.a_planes, location.a, share_a(stage)), *b = a;
        if constexpr (size_b > 0) b = place(task.b_planes, location.b, share_b(stage));
        return {a, b, place(task.results, location.out, share_out(stage))};
    }
    // Elements of a run from number `at` on, in the order of the scan.
    template <int Count> GR_HD void read(const Run& run, u32 at, Pack<In, 1> (&from)[Count]) const {
        const i32 step_a = (i32)task.a_planes.element_step, step_b = (i32)task.b_planes.element_step;
#pragma unroll
        for (int i = 0; i < Count; i += V) {
            const i32 first = (i32)at + i + (Reverse ? V - 1 : 0);
            const Pack<In, V> pack = PackReader<In, V>::of(run.a + first * step_a, run.b + first * step_b, 0);
#pragma unroll
            for (int j = 0; j < V; j++) from[i + (Reverse ? V - 1 - j : j)].at[0] = pack.at[j];
        }
    }
    template <int Count> GR_HD void put(const Run& run, u32 at, const Pack<Out, 1> (&to)[Count]) const {
        const i32 step = (i32)task.results.element_step;
#pragma unroll
        for (int i = 0; i < Count; i += V) {
            Pack<Out, V> pack;
#pragma unroll
            for (int j = 0; j < V; j++) pack.at[j] = to[i + (Reverse ? V - 1 - j : j)].at[0];
            put_pack<Out, V>(run.out + ((i32)at + i + (Reverse ? V - 1 : 0)) * step, pack);
        }
    }
    // Scans so many elements of one line.
    template <int Count, class Scan> GR_HD void take(Scan& scan, const Run& run, u32 at) const {
        Pack<In, 1> from[Count];
        Pack<Out, 1> to[Count];
        read(run, at, from);
        scan.rows(from, to);
        put(run, at, to);
    }
};

// How a line is scanned, as columns are (column_ops.cuh): N of its elements at a time, or one.
template <class Op, class Emit, int N> struct PackLineScan {
    typedef typename Op::State State;
    typedef PackScan<Op, Emit, N> Packs;
    Packs packs;
    const f64* option;
    GR_HD PackLineScan(const State (&before)[1], const f64* options) : packs(before[0], options), option(options) {}
    template <class In, class Out, int Count> GR_HD void rows(const Pack<In, 1> (&from)[Count], Pack<Out, 1> (&to)[Count]) {
        if constexpr (Count == N) {
            Pack<In, N> pack;
            Pack<Out, N> found;
#pragma unroll
            for (int i = 0; i < N; i++) pack.at[i] = from[i].at[0];
            packs.run(pack, found);
#pragma unroll
            for (int i = 0; i < N; i++) to[i].at[0] = found.at[i];
        } else {
            State state = packs.now();
#pragma unroll
            for (int i = 0; i < Count; i++) to[i].at[0] = scan_one<Op, Emit, false>(state, from[i].at[0], option);
            packs = Packs(state, option);
        }
    }
    GR_HD State after(int) const { return packs.now(); }
};
// Means and variances are packs as columns too.
template <class Op, class Emit, int N, bool Exclusive> struct LineScanOf {
    static const bool is_variance = ShiftedPowerSums<Op>::exists, has_packs = PackScan<Op, Emit, N>::exists;
    static const bool by_packs = !Exclusive && has_packs && !ScansRowRuns<Op>::yes && !is_variance;
    typedef typename Conditional<by_packs, PackLineScan<Op, Emit, N>, UncheckedColumnScan<Op, Emit, 1, Exclusive>>::type type;
};

template <class Op, class Emit, int Warps, int V, bool Exclusive, bool Reverse>
struct SmallLineScan : StagedLines<Op, Emit, Warps, V, Reverse> {
    typedef typename SmallLineScan::StagedLines Lines;
    typedef typename Op::State State;
    typedef typename Lines::Run Run;
    using Lines::task, Lines::lane, Lines::length, Lines::N, Lines::run_of, Lines::table;
    typedef typename LineScanOf<Op, Emit, N, Exclusive>::type LineScan;
    typedef SerialColumnOps<Op, Emit, 1, Exclusive> Tables;
    GR_HD SmallLineScan(const SmallLines& scan) : Lines(scan) {}

    // All threads of the block call, before all else. One block barrier, where there is a table: of as many entries as a line has
    // elements, for lines before which nothing comes.
    GR_HD void prepare() const {
        if constexpr (Tables::uses_table) {
            if (threadIdx.x < 32) fresh().fill(0, length, table(), task.option[0]);
            __syncthreads();
        }
    }
    // All lanes of a warp call.
    GR_HD typename Tables::EqualCounts fresh() const {
        const State none[1] = {Op::identity()};
        return {none, task.option};
    }
    GR_HD void walk(u64 share, u32 stage) const {
        if constexpr (Tables::uses_table) {
            if (!task.carry) {
                auto scan = fresh();
                scan.next = (const ReciprocalTable::Entry*)table();
                return walk_runs(share, stage, [&](u64) { return scan; });
            }
        }
        walk_runs(share, stage, [&](u64 line) {
            const State before[1] = {task.carry && line < task.lines ? LineEnds<Op>::before(task, line) : Op::identity()};
            return LineScan(before, task.option);
        });
    }
    // Begin: how a line is scanned from its first element on.
    template <class Begin> GR_HD void walk_runs(u64 share, u32 stage, const Begin& begin) const {
        const typename Lines::Location location = Lines::location_of(share);
        const u32 together = (u32)task.together;
#pragma unroll 1
        for (u32 number = lane; number * together < location.lines; number += 32)
            walk_run(run_of(location, stage, number), location.line + number * together, begin);
    }
    // Replaces a run's elements by results. Lines that do not exist are scanned as others, and their results are not copied.
    template <class Begin> GR_HD void walk_run(const Run& run, u64 line, const Begin& begin) const {
        const u32 elements = (u32)task.together * length;
        if (Reverse) line += task.together - 1;
        auto scan = begin(line);
        u32 left = length;  // elements of the line
        const auto next_line = [&] {
            if (task.totals && line < task.lines) LineEnds<Op>::keep(task, line, scan.after(0));
            line += Reverse ? -1 : 1;
            scan = begin(line);
            left = length;
        };
#pragma unroll 1
        for (u32 at = 0; at < elements;) {
            if (left >= N) {  // the line does not end before the last of them
                Lines::template take<N>(scan, run, at);
                at += N;
                left -= N;
            } else {
                take_ends(scan, run, at, left, next_line);
                at += V;
            }
            if (left == 0) next_line();
        }
    }
    // Scans V elements, among which lines may end.
    template <class Scan, class Next>
    GR_HD void take_ends(Scan& scan, const Run& run, u32 at, u32& left, const Next& next_line) const {
        Pack<typename Op::In, 1> from[V];
        Pack<typename Emit::Out, 1> to[V];
        Lines::read(run, at, from);
#pragma unroll
        for (int i = 0; i < V; i++) {
            const Pack<typename Op::In, 1> element[1] = {from[i]};
            Pack<typename Emit::Out, 1> found[1];
            scan.rows(element, found);
            to[i] = found[0];
            if (--left == 0 && i + 1 < V) next_line();
        }
        Lines::put(run, at, to);
    }
};
