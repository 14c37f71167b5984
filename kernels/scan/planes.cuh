// Scans short lines that lie side by side in small planes, which follow one another: a warp takes whole planes through shared
// memory, a lane a line of them at a time.
#pragma once
#include "../core/copy.cuh"
#include "../core/scan_task.cuh"
#include "../core/shared.cuh"
#include "beside.cuh"
#include "shares.cuh"

// Planes of a share in shared memory: one after another as in memory, or `pitch` bytes apart, whole packs of 16, so that they
// begin in different banks.
struct Planes {
    u32 bytes, pitch, packs;  // of a plane; packs only where planes lie apart
    GR_HD Planes(u32 nbytes, u64 apart) : bytes(nbytes), pitch((u32)apart), packs(pitch > nbytes ? nbytes / 16 : 0) {}

    // All lanes of a warp call, with what is to be done with a pack: where it lies in shared memory, and in memory.
    template <class Move> GR_HD void each(u32 count, Move move) const {
        u32 at = threadIdx.x % 32 * 16;
        if (packs == 0) {
#pragma unroll 4
            for (; at < count; at += 512) move(at, at);
            return;
        }
        const u32 hop = 32 / packs, skip = 32 - hop * packs;  // from a lane's pack to its next one: planes, and packs
        u32 plane = threadIdx.x % 32 / packs, pack = threadIdx.x % 32 - plane * packs;
#pragma unroll 4
        for (; at < count; at += 512) {
            move(plane * pitch + pack * 16, at);
            const bool wraps = pack + skip >= packs;
            plane += hop + wraps;
            pack += skip - (wraps ? packs : 0);
        }
    }
};

template <class Op, class Emit, int Warps, bool Exclusive, bool Reverse> struct PlaneScan {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    // Nothing is folded before, which would tell whether a guess was right.
    typedef typename Either<FoldBeside<Op, 1>::guesses, ScanAny<Op, Emit, 1, Exclusive>, ScanBeside<Op, Emit, 1, Exclusive>>::type Scanned;
    static const bool in_place = sizeof(In) == sizeof(Out);  // results take the place of elements
    static const int ahead = 2;
    static const int batch = InRuns<Op>::yes || sizeof(State) > 8 ? 4 : 8;  // rows that a lane reads at once
    const Scan& task;
    const u32 lane, width, most;  // columns; planes of a share
    const Planes in, out;
    u8 *const stages, *const results;  // of this warp
    GR_HD PlaneScan(const Scan& scan)
        : task(scan), lane(threadIdx.x % 32), width((u32)scan.step_a / (u32)sizeof(In)), most((u32)scan.parts),
          in((u32)(scan.length * scan.step_a), scan.grain_a), out((u32)(scan.length * scan.step_out), scan.grain_out),
          stages(GR_SHARED + threadIdx.x / 32 * bytes()), results(stages + (ahead + 1) * most * in.pitch) {}

    GR_HD u32 bytes() const { return most * ((ahead + 1) * in.pitch + (in_place ? 0 : out.pitch)); }
    GR_HD u8* share_in(u32 stage) const { return stages + stage * most * in.pitch; }
    GR_HD u8* share_out(u32 stage) const { return in_place ? share_in(stage) : results; }
    // Lines that there are of a share.
    GR_HD u32 lines_of(u64 share) const {
        const u64 left = task.lines - share * most * width;
        return left < most * width ? (u32)left : most * width;
    }

    GR_HD void fetch(u64 share, u32 stage) const {
        u8* const to = share_in(stage);
        const u8* const from = task.a + share * most * in.bytes;
        const u32 count = lines_of(share) * (u32)(task.length * sizeof(In)), whole = count / 16 * 16, rest = whole + lane;
        in.each(whole, [&](u32 place, u32 at) { copy_async(to + place, from + at); });
        if (rest < count) to[rest] = from[rest];  // of the last share, where planes are no whole packs
    }
    GR_HD void drain(u64 share, u32 stage) const {
        const u8* const from = share_out(stage);
        u8* const to = (u8*)task.out + share * most * out.bytes;
        const u32 count = lines_of(share) * (u32)(task.length * sizeof(Out)), whole = count / 16 * 16, rest = whole + lane;
        out.each(whole, [&](u32 place, u32 at) { __stcs((uint4*)(to + at), *(const uint4*)(from + place)); });
        if (rest < count) to[rest] = from[rest];
    }

    GR_HD void walk(u64 share, u32 stage) const {
        const u32 lines = lines_of(share), hop = 32 / width, skip = 32 - hop * width;
        u32 plane = lane / width, column = lane - plane * width;
#pragma unroll 1
        for (u32 line = lane; line < lines; line += 32) {
            take_line(share * most * width + line, share_in(stage) + plane * in.pitch + column * sizeof(In),
                      share_out(stage) + plane * out.pitch + column * sizeof(Out));
            const bool wraps = column + skip >= width;
            plane += hop + wraps;
            column += skip - (wraps ? width : 0);
        }
    }
    GR_HD void take_line(u64 line, const u8* from, u8* to) const {
        const State before[1] = {task.carry ? ((const State*)task.carry)[line] : Op::identity()};
        Scanned scan(before, task.option);
        i32 step = (i32)task.step_a, step_out = (i32)task.step_out;
        if (Reverse) {
            from += ((u32)task.length - 1) * step;
            to += ((u32)task.length - 1) * step_out;
            step = -step;
            step_out = -step_out;
        }
        u32 left = (u32)task.length;
#pragma unroll 1
        for (; left >= batch; left -= batch) {
            Pack<In, 1> rows[batch];
#pragma unroll
            for (int i = 0; i < batch; i++) rows[i] = take_pack<In, 1>(from + i * step);
            Pack<Out, 1> found[batch];
            scan.rows(rows, found);
#pragma unroll
            for (int i = 0; i < batch; i++) put_pack<Out, 1>(to + i * step_out, found[i]);
            from += batch * step;
            to += batch * step_out;
        }
        Pack<In, 1> rows[batch - 1];
#pragma unroll
        for (int i = 0; i < batch - 1; i++)
            if (i < (int)left) rows[i] = take_pack<In, 1>(from + i * step);
#pragma unroll
        for (int i = 0; i < batch - 1; i++) {
            if (i >= (int)left) break;
            const Pack<In, 1> row[1] = {rows[i]};
            Pack<Out, 1> found[1];
            scan.rows(row, found);
            put_pack<Out, 1>(to + i * step_out, found[0]);
        }
        if (task.totals) ((State*)task.totals)[line] = scan.after(0);
    }
};

// Grid: any number of blocks of Warps warps. Both arrays begin at a multiple of 16 bytes, and so do shares.
template <class Op, class Emit, int Warps, bool Exclusive, bool Reverse>
__global__ void __launch_bounds__(32 * Warps, GR_BLOCKS) scan_planes(const __grid_constant__ Scan task) {
    const PlaneScan<Op, Emit, Warps, Exclusive, Reverse> work(task);
    take_shares<Warps>(work, task.tiles);
}
