// Scans lines of some hundred elements: a sub-warp takes a whole line, each lane a run of it, so that nothing passes between warps
// and no line ends within a run. Lines may lie anywhere.
#pragma once
#include "../core/shared.cuh"
#include "moments_scan.cuh"
#include "warp_share.cuh"

// Lines begin at multiples of V elements, and have as many. Reverse: they are scanned from their ends in memory on.
template <class Op, class Emit, int Warps, int V, int Lanes, bool Exclusive, bool Reverse>
struct SubwarpLineScan : ShareWork<Warps> {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const int size_a = Reader<In>::size_a, size_b = Reader<In>::size_b, size_out = sizeof(Out), subwarps = 32 / Lanes;
    static const int ahead = 2;
    static const int N = V > 1 ? V : 4;  // elements that are taken at once
    typedef PackScan<Op, Emit, N> Packs;
    typedef ElementwiseScan<Op, Emit, Exclusive> Elementwise;
    typedef typename Conditional<!Exclusive && Packs::exists && !ShiftedPowerSums<Op>::skips, Packs, Elementwise>::type By;
    typedef StagedLine<size_a, Lanes> StagedA;
    typedef StagedLine<(size_b ? size_b : 1), Lanes> StagedB;
    typedef StagedLine<size_out, Lanes> StagedOut;

    const Scan& task;
    const u32 subwarp, place, length, begin, count;  // begin, count: of this lane's run in each line
    u8* const stages;                             // of this warp
    GR_HD SubwarpLineScan(const Scan& scan)
        : task(scan), subwarp(threadIdx.x % 32 / Lanes), place(threadIdx.x % Lanes), length((u32)scan.length),
          begin(place * (u32)scan.parts),
          count(begin < length ? length - begin < scan.parts ? length - begin : (u32)scan.parts : 0),
          stages(GR_SHARED + threadIdx.x / 32 * ((ahead + 1) * stage_bytes() + subwarps * (u32)scan.unit_out)) {}

    // The task's units are bytes from one line to the next in shared memory; `unit_out` is 0 where results replace elements.
    GR_HD u32 stage_bytes() const { return subwarps * (u32)(task.unit_a + task.unit_b); }
    GR_HD u8* staged_a(u32 stage) const { return stages + stage * stage_bytes() + subwarp * (u32)task.unit_a; }
    GR_HD u8* staged_b(u32 stage) const {
        return stages + stage * stage_bytes() + subwarps * (u32)task.unit_a + subwarp * (u32)task.unit_b;
    }
    GR_HD u8* staged_out(u32 stage) const {
        return task.unit_out ? stages + (ahead + 1) * stage_bytes() + subwarp * (u32)task.unit_out : staged_a(stage);
    }
    GR_HD u64 line_of(u64 share) const { return share * subwarps + subwarp; }
    // Where a line begins in memory.
    struct Line {
        const u8 *a, *b;
        u8* out;
    };
    GR_HD Line find(u64 line) const {
        const Offset at = task.line.at(line);
        return {task.a + at.a, task.b + at.b, (u8*)task.out + at.c};
    }

    GR_HD void fetch(u64 share, u32 stage) const {
        if (line_of(share) >= task.lines) return;
        const Line line = find(line_of(share));
        StagedA(line.a, length).fetch(staged_a(stage), line.a, task.a);
        if constexpr (size_b > 0) StagedB(line.b, length).fetch(staged_b(stage), line.b, task.b);
    }
    GR_HD void drain(u64 share, u32 stage) const {
        if (line_of(share) >= task.lines) return;
        const Line line = find(line_of(share));
        StagedOut(line.out, length).drain(staged_out(stage), line.out);
    }

    // A lane's run of a line: where the line begins in shared memory, and the run's end.
    struct Run {
        const u8 *a, *b;
        u8* out;
        u32 end;
    };
    // Count elements from `at` on, in the order of the scan.
    template <int Count> GR_HD Pack<In, Count> take(const Run& run, u32 at) const {
        const u32 first = Reverse ? length - Count - at : at;
        Pack<In, Count> from;
        unrolled<Count / V>([&](int i) {
            const Pack<In, V> pack = PackReader<In, V>::of(run.a, run.b, (int)(first + i * V));
            unrolled<V>([&](int j) { from.at[Reverse ? Count - 1 - i * V - j : i * V + j] = pack.at[j]; });
        });
        return from;
    }
    template <int Count> GR_HD void put(const Run& run, u32 at, const Pack<Out, Count>& to) const {
        const u32 first = Reverse ? length - Count - at : at;
        unrolled<Count / V>([&](int i) {
            Pack<Out, V> pack;
            unrolled<V>([&](int j) { pack.at[j] = to.at[Reverse ? Count - 1 - i * V - j : i * V + j]; });
            put_pack<Out, V>(run.out + (first + i * V) * size_out, pack);
        });
    }
    template <class Reduce> GR_HD void fold(Reduce& reduce, const Run& run) const {
        u32 k = begin;
#pragma unroll 2
        for (; k + N <= run.end; k += N) reduce.take(take<N>(run, k));
        if constexpr (V == 1)
            for (; k < run.end; k++) reduce.take(take<1>(run, k).at[0]);
    }
    // Replaces Count elements at a time by results, from element k on.
    template <int Count, int Unroll, class By> GR_HD void write(By& by, const Run& run, u32& k) const {
#pragma unroll Unroll
        for (; k + Count <= run.end; k += Count) {
            Pack<Out, Count> to;
            by.run(take<Count>(run, k), to);
            put<Count>(run, k, to);
        }
    }
    typedef WholeLineVariance<Op, Emit> WholeLine;
    static const bool whole_lines = !Exclusive && WholeLine::exists;
    // The table, element after element of all lanes, so that neighbouring lanes read neighbouring numbers.
    GR_HD f64* parts() const {
        return (f64*)(GR_SHARED + Warps * ((ahead + 1) * stage_bytes() + subwarps * (u32)task.unit_out));
    }
    // All threads of the block call, before all else. One block barrier, where there is a table.
    GR_HD void prepare() const {
        if constexpr (whole_lines) {
            const u32 run = (u32)task.parts;
            for (u32 i = threadIdx.x; i < run * Lanes; i += 32 * Warps)
                parts()[i] = WholeLine::part_of(i % Lanes * run + i / Lanes + 1, task.option);
            __syncthreads();
        }
    }
    struct WholeLineScan : WholeLine {
        f64 count;
        const f64* part;  // of the next element
        GR_HD WholeLineScan(In first, f64 before, const f64* table) : WholeLine(first), count(before), part(table) {}
        template <int Count> GR_HD void run(const Pack<In, Count>& from, Pack<Out, Count>& to) {
            f64 variances[Count];
            unrolled<Count>([&](int i) {
                WholeLine::take(from.at[i]);
                count += 1;
                variances[i] = WholeLine::variance(count, part[i * Lanes]);
            });
            part += Count * Lanes;
            VarianceResults<Op, Out>::of(variances, to);
        }
    };
    // All lanes of a sub-warp call. A line without carries.
    GR_HD void walk_whole_line(u64 line, const Run& run) const {
        typedef typename WholeLine::Sums Sums;
        WholeLineScan by(run.end > 0 ? ((const In*)run.a)[Reverse ? length - 1 : 0] : In(), begin, parts() + place);
        fold(by, run);
        by.sums = lane_before<Sums, Lanes>(warp_scan<Sums, Lanes>(by.sums));
        __syncwarp();  // results may take the place of the first element
        u32 k = begin;
        write<N, 2>(by, run, k);
        if constexpr (V == 1) write<1, 1>(by, run, k);
        if (task.totals && run.end == length && run.end > begin) LineEnds<Op>::keep(task, line, by.template settled<MeanOf<In>>(by.sums, length));
    }
    GR_HD void walk(u64 share, u32 stage) const {
        const u64 line = line_of(share);
        const bool there = line < task.lines;
        const Line at = find(there ? line : 0);
        const u8* a = staged_a(stage) + StagedA(at.a, length).lead;
        const u8* b = size_b ? staged_b(stage) + StagedB(at.b, length).lead : a;
        const Run run = {a, b, staged_out(stage) + StagedOut(at.out, length).lead, there ? begin + count : begin};
        if constexpr (whole_lines)
            if (!task.carry) return walk_whole_line(line, run);

        ThreadReduce<Op> reduce;
        fold(reduce, run);
        State state = lane_before<Op, Lanes>(warp_scan<Op, Lanes>(reduce.state()));
        if (run.end == begin) return;
        if (task.carry) {
            const State start = LineEnds<Op>::before(task, line);
            state = place == 0 ? start : Op::combine(start, state);
        }
        By by(state, task.option);
        u32 k = begin;
        write<N, 1>(by, run, k);
        Elementwise last(by.now(), task.option);
        if constexpr (V == 1) write<1, 1>(last, run, k);
        if (task.totals && run.end == length) LineEnds<Op>::keep(task, line, last.now());
    }
};
