// Scans short lines that lie one after another: a lane takes whole lines, so that nothing passes between lanes.
#pragma once
#include "../core/copy.cuh"
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "flow.cuh"
#include "share.cuh"

const int AHEAD = 2;  // shares of a warp on their way into shared memory, while one is scanned

// An array's share of 32 runs, a run a lane, in shared memory. Packs of an even run would lie in few banks: one more stands
// behind each.
struct Runs {
    u32 run, pitch, packs, hop;  // bytes of a run, in memory and in shared memory; packs of 16; whole runs that 32 of them fill
    GR_HD Runs(u32 elements, u32 size)
        : run(elements * size), pitch(run + (run % 32 == 0 ? 16 : 0)), packs(run / 16), hop(run >= 16 ? 32 / (run / 16) : 0) {}
    GR_HD u32 bytes() const { return 32 * pitch; }

    // All lanes of a warp call, with what is to be done with a pack: where it lies in shared memory, and in memory.
    template <class Move> GR_HD void each(u32 count, Move move) const {
        const u32 lane = threadIdx.x % 32;
        u32 at = lane * 16;
        if (pitch == run) {
#pragma unroll 4
            for (; at < count; at += 512) move(at, at);
            return;
        }
        const u32 first = lane / packs, skip = 32 - hop * packs;  // from a lane's pack to its next one: runs, and packs
        u32 pack = lane - first * packs, to = at + first * 16;
#pragma unroll 4
        for (; at < count; at += 512) {
            move(to, at);
            const bool wraps = pack + skip >= packs;
            to += 512 + (hop + wraps) * 16;
            pack += skip - (wraps ? packs : 0);
        }
    }
};

template <class Op, class Emit, int Warps, int V, bool Exclusive, bool Reverse> struct ShortScan {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const int size_a = Reader<In>::size_a, size_b = Reader<In>::size_b;
    static const bool in_place = sizeof(Out) == size_a;  // results take the place of elements
    const Scan& task;
    const u32 lane, each, elements;  // lines of a lane, and their elements
    const Runs runs_a, runs_b, runs_out;
    u8 *const stages, *const results;  // of this warp
    GR_HD ShortScan(const Scan& scan)
        : task(scan), lane(threadIdx.x % 32), each((u32)scan.parts), elements((u32)(scan.parts * scan.length)),
          runs_a(elements, size_a), runs_b(elements, size_b), runs_out(elements, sizeof(Out)),
          stages(GR_SHARED + threadIdx.x / 32 * bytes()), results(stages + (AHEAD + 1) * stage_bytes()) {}

    GR_HD u32 stage_bytes() const { return runs_a.bytes() + (size_b ? runs_b.bytes() : 0); }
    GR_HD u32 bytes() const { return (AHEAD + 1) * stage_bytes() + (in_place ? 0 : runs_out.bytes()); }
    GR_HD u8* share_a(u32 stage) const { return stages + stage * stage_bytes(); }
    GR_HD u8* share_b(u32 stage) const { return share_a(stage) + runs_a.bytes(); }
    GR_HD u8* share_out(u32 stage) const { return in_place ? share_a(stage) : results; }
    // Elements that there are of a share.
    GR_HD u64 first_of(u64 share) const { return share * 32 * elements; }
    GR_HD u32 count_of(u64 share) const {
        const u64 left = task.lines * task.length - first_of(share);
        return left < 32 * elements ? (u32)left : 32 * elements;
    }

    static GR_HD void fetch(const Runs& runs, u8* to, const u8* from, u32 count) {
        const u32 whole = count / 16 * 16;
        runs.each(whole, [&](u32 place, u32 at) { copy_async(to + place, from + at); });
        const u32 rest = whole + lane_of(), run = rest / runs.run;  // bytes of the last share
        if (rest < count) to[rest + run * (runs.pitch - runs.run)] = from[rest];
    }
    static GR_HD u32 lane_of() { return threadIdx.x % 32; }
    GR_HD void fetch(u64 share, u32 stage) const {
        fetch(runs_a, share_a(stage), task.a + first_of(share) * size_a, count_of(share) * size_a);
        if constexpr (size_b > 0) fetch(runs_b, share_b(stage), task.b + first_of(share) * size_b, count_of(share) * size_b);
    }
    GR_HD void drain(u64 share, u32 stage) const {
        const u8* from = share_out(stage);
        u8* to = (u8*)task.out + first_of(share) * sizeof(Out);
        const u32 count = count_of(share) * sizeof(Out), whole = count / 16 * 16;
        runs_out.each(whole, [&](u32 place, u32 at) { __stcs((uint4*)(to + at), *(const uint4*)(from + place)); });
        const u32 rest = whole + lane, run = rest / runs_out.run;
        if (rest < count) to[rest] = from[rest + run * (runs_out.pitch - runs_out.run)];
    }

    GR_HD State start_of(u64 line) const { return task.carry ? ((const State*)task.carry)[line] : Op::identity(); }
    // Replaces this lane's elements by results. Inner: all of its lines exist.
    template <bool Inner> GR_HD void walk(u64 share, u32 stage) const {
        const u64 first = (share * 32 + lane) * each;
        if (!Inner && first >= task.lines) return;
        const u32 lines = Inner || task.lines - first > each ? each : (u32)(task.lines - first);
        const u32 length = (u32)task.length, packs = elements / V, there = lines * length;
        const u8 *a = share_a(stage) + lane * runs_a.pitch, *b = size_b ? share_b(stage) + lane * runs_b.pitch : a;
        u8* out = share_out(stage) + lane * runs_out.pitch;
        u64 line = Reverse ? first + lines - 1 : first;
        u32 left = length;
        State state = start_of(line);
#pragma unroll 3
        for (u32 k = 0; k < packs; k++) {
            const u32 at = (Reverse ? packs - 1 - k : k) * V;
            if (!Inner && at >= there) continue;
            const Pack<In, V> from = Taken<In, V>::of(a, b, (int)at);
            Pack<Out, V> to;
#pragma unroll
            for (int i = 0; i < V; i++) {
                const int j = Reverse ? V - 1 - i : i;
                if (!Inner && at + j >= there) continue;
                if (Exclusive) to.at[j] = Emit::of(Before<Op>::of(state, from.at[j]), task.option);
                state = Take<Op>::of(state, from.at[j]);
                if (!Exclusive) to.at[j] = Emit::of(state, task.option);
                if (--left != 0) continue;
                if (task.totals) ((State*)task.totals)[line] = state;
                line += Reverse ? -1 : 1;
                left = length;
                state = task.carry && line - first < lines ? start_of(line) : Op::identity();
            }
            put_pack<Out, V>(out + at * sizeof(Out), to);
        }
    }

    GR_HD void run() const {
        const u64 all = (u64)gridDim.x * Warps;
        u64 share = (u64)blockIdx.x * Warps + threadIdx.x / 32;
        u32 stage = 0;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (share + i * all < task.tiles) fetch(share + i * all, i);
            commit_copies();
        }
        for (; share < task.tiles; share += all) {
            const u32 behind = stage == 0 ? AHEAD : stage - 1;  // the stage that was drained last
            if (share + AHEAD * all < task.tiles) fetch(share + AHEAD * all, behind);
            commit_copies();
            wait_copies<AHEAD>();
            __syncwarp();
            if (count_of(share) == 32 * elements) walk<true>(share, stage);
            else walk<false>(share, stage);
            __syncwarp();
            drain(share, stage);
            __syncwarp();
            stage = stage == AHEAD ? 0 : stage + 1;
        }
    }
};

// Grid: any number of blocks of Warps warps. Every array begins at a multiple of 16 bytes, and so do runs where V > 1.
template <class Op, class Emit, int Warps, int V, bool Exclusive, bool Reverse>
__global__ void __launch_bounds__(32 * Warps, GR_BLOCKS) scan_short(const __grid_constant__ Scan task) {
    ShortScan<Op, Emit, Warps, V, Exclusive, Reverse>(task).run();
}
