// Scans lines of some hundred elements: a sub-warp takes a whole line, each lane a run of it, so that nothing passes between warps
// and no line ends within a run. Lines may lie anywhere.
#pragma once
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "moments_scan.cuh"
#include "scan_state.cuh"
#include "small_lines.cuh"

// Running variances of whole lines without carries: about a line's first element, which is one of them, so that no more digits
// cancel than the line's length has; by reciprocals from a table, since all lines have one length.
template <class Op, class Emit, int Lanes> struct WholeLineVariance { static const bool exists = false; };
template <class T, bool Root, class Result, int Lanes>
struct WholeLineVariance<Variance<T, false, Root>, Final<Variance<T, false, Root>, Result>, Lanes> : PivotSums {
    typedef Variance<T, false, Root> Op;
    static const bool exists = FewDigits<T>::yes;
    f64 count;        // elements before the next one
    const f64* next;  // of the next one in the table, which has those of all lanes side by side
    GR_HD WholeLineVariance(T first, u32 before, const f64* table) : PivotSums(cast<f64>(first)), count(before), next(table) {}
    template <int Count> GR_HD void take(const Pack<T, Count>& from) {
#pragma unroll
        for (int i = 0; i < Count; i++) add(cast<f64>(from.at[i]));
    }
    template <int Count> GR_HD void rows(const Pack<T, 1> (&from)[Count], Pack<Result, 1> (&to)[Count]) {
        f64 variances[Count];
#pragma unroll
        for (int i = 0; i < Count; i++) {
            add(cast<f64>(from[i].at[0]));
            count += 1;
            variances[i] = __fma_rn(-sums.sum, sums.sum, count * sums.squares) * next[i * Lanes];
        }
        next += Count * Lanes;
        Pack<Result, Count> found;
        VarianceResults<Op, Result>::of(variances, found);
#pragma unroll
        for (int i = 0; i < Count; i++) to[i].at[0] = found.at[i];
    }
    GR_HD typename Op::State after(int) const {
        return settle_powers<MeanOf<T>>(PowerSums<2>{pivot, {sums.sum, sums.squares}, (u32)count});
    }
    // In the table: one over the product of a count and the divisor of its squares.
    static GR_HD f64 part_of(f64 count, const f64* option) {
        const f64 freedom = count - option[0];
        return freedom > 0 ? 1 / (count * freedom) : bit_cast<f64>(0x7ff0000000000000ull);
    }
};

// A sub-warp takes the line of a plane. Lines begin at multiples of V elements, and have as many.
template <class Op, class Emit, int Warps, int V, int Lanes, bool Exclusive, bool Reverse>
struct SubwarpLineScan : StagedLines<Op, Emit, Warps, V, Reverse> {
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

    typedef WholeLineVariance<Op, Emit, Lanes> WholeLine;
    static const bool whole_lines = !Exclusive && WholeLine::exists;
    // All threads of the block call, before all else. One block barrier, where there is a table.
    GR_HD void prepare() const {
        if constexpr (whole_lines) {
            const u32 run = (u32)task.part;
            for (u32 i = threadIdx.x; i < run * Lanes; i += 32 * Warps)
                ((f64*)Lines::table())[i] = WholeLine::part_of(i % Lanes * run + i / Lanes + 1, task.option);
            __syncthreads();
        }
    }
    // Folds this lane's elements of a line, which are there before `end`.
    template <class Reduce> GR_HD void fold(Reduce& reduce, const Run& run, u32 end) const {
        u32 k = begin;
#pragma unroll 2
        for (; k + N <= end; k += N) take_in<N>(reduce, run, k);
        if constexpr (V == 1)
            for (; k < end; k++) take_in<1>(reduce, run, k);
    }
    template <int Count, class Reduce> GR_HD void take_in(Reduce& reduce, const Run& run, u32 k) const {
        Pack<In, 1> from[Count];
        Pack<In, Count> pack;
        Lines::read(run, k, from);
#pragma unroll
        for (int i = 0; i < Count; i++) pack.at[i] = from[i].at[0];
        reduce.take(pack);
    }
    template <class Scan> GR_HD void write(Scan& scan, const Run& run, u64 line, u32 end) const {
        if (end == begin) return;
        u32 k = begin;
#pragma unroll 1
        for (; k + N <= end; k += N) Lines::template take<N>(scan, run, k);
        if constexpr (V == 1)
            for (; k < end; k++) Lines::template take<1>(scan, run, k);
        if (task.totals && end == length) LineEnds<Op>::keep(task, line, scan.after(0));
    }
    GR_HD void walk(u64 share, u32 stage) const {
        const typename Lines::Location location = Lines::location_of(share);
        const u32 number = lane / Lanes;
        const bool there = number < location.lines;
        const Run run = Lines::run_of(location, stage, there ? number : 0);
        const u64 line = location.line + number;
        const u32 end = there ? begin + count : begin;
        if constexpr (whole_lines) {
            if (!task.carry) {
                typedef typename WholeLine::Sums Sums;
                WholeLine scan(end > begin ? *(const In*)run.a : In(), begin, (const f64*)Lines::table() + place);
                fold(scan, run, end);
                scan.sums = lane_before<Sums, Lanes>(warp_scan<Sums, Lanes>(scan.sums));
                __syncwarp();  // results may take the place of the first element
                return write(scan, run, line, end);
            }
        }
        ThreadReduce<Op> reduce;
        fold(reduce, run, end);
        State state[1] = {lane_before<Op, Lanes>(warp_scan<Op, Lanes>(reduce.state()))};
        if (task.carry && there) {
            const State start = LineEnds<Op>::before(task, line);
            state[0] = place == 0 ? start : Op::combine(start, state[0]);
        }
        typename LineScanOf<Op, Emit, N, Exclusive>::type scan(state, task.option);
        write(scan, run, line, end);
    }
};
