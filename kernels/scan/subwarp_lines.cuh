// Scans lines of some hundred elements: a sub-warp takes a whole line, each lane a run of it, so that nothing passes between warps
// and no line ends within a run. Lines may lie anywhere.
#pragma once
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "moments_scan.cuh"
#include "scan_state.cuh"
#include "small_lines.cuh"

// A sub-warp takes the line of a plane. Lines begin at multiples of V elements, and have as many.
template <class Op, class Emit, int Warps, int V, int Lanes, bool Exclusive, bool Reverse>
struct SubwarpLineScan : StagedLines<Op, Emit, Warps, V, Reverse, 2> {
    typedef typename SubwarpLineScan::StagedLines Lines;
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    typedef typename Lines::Run Run;
    using Lines::task, Lines::lane, Lines::length, Lines::N;
    const u32 place, begin, count;  // begin, count: of this lane's elements in each line
    GR_HD SubwarpLineScan(const SmallLines& scan)
        : Lines(scan), place(lane % Lanes), begin(place * (u32)scan.part),
          count(begin < length ? length - begin < scan.part ? length - begin : (u32)scan.part : 0) {}

    typedef WholeLineVariance<Op, Emit> WholeLine;
    static const bool whole_lines = !Exclusive && WholeLine::exists;
    // The table, element after element of all lanes, so that neighbouring lanes read neighbouring numbers.
    GR_HD f64* parts() const { return (f64*)Lines::table(); }
    // All threads of the block call, before all else. One block barrier, where there is a table.
    GR_HD void prepare() const {
        if constexpr (whole_lines) {
            const u32 run = (u32)task.part;
            for (u32 i = threadIdx.x; i < run * Lanes; i += 32 * Warps)
                parts()[i] = WholeLine::part_of(i % Lanes * run + i / Lanes + 1, task.option);
            __syncthreads();
        }
    }
    template <int Count> GR_HD void write_whole_line(WholeLine& by, f64& count, const f64* part, const Run& run, u32 k) const {
        const Pack<In, Count> from = Lines::template read<Count>(run, k);
        f64 variances[Count];
#pragma unroll
        for (int i = 0; i < Count; i++) {
            by.take(from.at[i]);
            count += 1;
            variances[i] = by.variance(count, part[i * Lanes]);
        }
        Pack<Out, Count> to;
        VarianceResults<Op, Out>::of(variances, to);
        Lines::template put<Count>(run, k, to);
    }
    // All lanes of a sub-warp call. A line without carries.
    GR_HD void walk_whole_lines(u64 line, u32 end, const Run& run) const {
        WholeLine by(end > 0 ? *(const In*)run.a : In());
        u32 k = begin;
#pragma unroll 2
        for (; k + N <= end; k += N) {
            const Pack<In, N> from = Lines::template read<N>(run, k);
#pragma unroll
            for (int i = 0; i < N; i++) by.take(from.at[i]);
        }
        if constexpr (V == 1)
            for (; k < end; k++) by.take(Lines::template read<1>(run, k).at[0]);
        by.sums = lane_before<typename WholeLine::Sums, Lanes>(warp_scan<typename WholeLine::Sums, Lanes>(by.sums));
        __syncwarp();  // results may take the place of the first element
        const f64* part = parts() + place;
        f64 count = begin;
        k = begin;
#pragma unroll 2
        for (; k + N <= end; k += N, part += N * Lanes) write_whole_line<N>(by, count, part, run, k);
        if constexpr (V == 1)
            for (; k < end; k++, part += Lanes) write_whole_line<1>(by, count, part, run, k);
        if (task.totals && end == length && end > begin) LineEnds<Op>::keep(task, line, by.state(length));
    }
    GR_HD void walk(u64 share, u32 stage) const {
        const typename Lines::Location location = Lines::location_of(share);
        const u32 number = lane / Lanes;
        const bool there = number < location.lines;
        const Run run = Lines::run_of(location, stage, there ? number : 0);
        const u64 line = location.line + number;
        const u32 end = there ? begin + count : begin;
        if constexpr (whole_lines)
            if (!task.carry) return walk_whole_lines(line, end, run);

        ThreadReduce<Op> reduce;
        u32 k = begin;
#pragma unroll 2
        for (; k + N <= end; k += N) reduce.take(Lines::template read<N>(run, k));
        if constexpr (V == 1)
            for (; k < end; k++) reduce.take(Lines::template read<1>(run, k).at[0]);

        State state[1] = {lane_before<Op, Lanes>(warp_scan<Op, Lanes>(reduce.state()))};
        if (end == begin) return;
        if (task.carry) {
            const State start = LineEnds<Op>::before(task, line);
            state[0] = place == 0 ? start : Op::combine(start, state[0]);
        }
        typename LineScanOf<Op, Emit, N, Exclusive>::type scan(state, task.option);
        k = begin;
#pragma unroll 1
        for (; k + N <= end; k += N) Lines::template take<N>(scan, run, k);
        if constexpr (V == 1)
            for (; k < end; k++) Lines::template take<1>(scan, run, k);
        if (task.totals && end == length) LineEnds<Op>::keep(task, line, scan.after(0));
    }
};
