// Scans short lines without anything passing between lanes: a lane takes whole lines of a warp's share, those that lie one after
// another, or at any strides in small planes.
#pragma once
#include "../core/shared.cuh"
#include "reciprocal_table.cuh"
#include "warp_share.cuh"

// Lines one after another.

// An array's share of 32 runs, a run a lane, in shared memory. Where a run has an even number of packs, lanes would conflict in few
// banks: packs are swizzled within groups of a power of two, differently in each of the runs that would conflict.
struct RunLayout {
    u32 run, packs, hop;  // bytes of a run; packs of 16; whole runs that 32 of them fill
    u32 mask, down;       // of the swizzle: the bits of an address that change; how far a run's number is shifted down
    GR_HD RunLayout(u32 elements, u32 size) : run(elements * size), packs(run / 16), hop(packs > 0 ? 32 / packs : 0) {
        const u32 power = run % 16 ? 1 : packs % 8 == 0 ? 8 : packs & (0 - packs);
        mask = (power - 1) * 16;
        down = power == 8 ? 0 : power == 4 ? 1 : 2;
    }
    GR_HD u32 bytes() const { return 32 * run; }
    // Where a byte of a run lies, counted from the share's start.
    GR_HD u32 swizzle(u32 number) const { return number * 16 >> down & mask; }
    GR_HD u32 place(u32 number, u32 byte) const { return number * run + (byte ^ swizzle(number)); }

    // All lanes of a warp call. Calls move(byte in shared memory, byte in memory) for each pack.
    template <class Move> GR_HD void each(u32 count, Move move) const {
        const u32 lane = threadIdx.x % 32;
        u32 at = lane * 16;
        if (mask == 0) {
#pragma unroll 4
            for (; at < count; at += 512) move(at, at);
            return;
        }
        const u32 skip = 32 - hop * packs;  // from a lane's pack to its next one: runs, and packs
        u32 number = lane / packs, pack = lane - number * packs;
#pragma unroll 4
        for (; at < count; at += 512) {
            move(at ^ swizzle(number), at);
            const bool wraps = pack + skip >= packs;
            number += hop + wraps;
            pack += skip - (wraps ? packs : 0);
        }
    }
};

// Every array begins at a multiple of 16 bytes, and runs at multiples of V elements.
template <class Op, class Emit, int Warps, int V, bool Exclusive, bool Reverse> struct LaneLineScan : ShareWork<Warps> {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const int size_a = Reader<In>::size_a, size_b = Reader<In>::size_b;
    static const bool in_place = sizeof(Out) == size_a;  // results take the place of elements
    static const int ahead = 1;  // two leave room for fewer warps
    const Scan& task;
    const u32 lane, each, elements;  // lines of a lane, and their elements
    const RunLayout runs_a, runs_b, runs_out;
    u8 *const stages, *const results;  // of this warp
    GR_HD LaneLineScan(const Scan& scan)
        : task(scan), lane(threadIdx.x % 32), each((u32)scan.parts), elements((u32)(scan.parts * scan.length)),
          runs_a(elements, size_a), runs_b(elements, size_b), runs_out(elements, sizeof(Out)),
          stages(GR_SHARED + threadIdx.x / 32 * bytes()), results(stages + (ahead + 1) * stage_bytes()) {}

    GR_HD u32 stage_bytes() const { return runs_a.bytes() + (size_b ? runs_b.bytes() : 0); }
    GR_HD u32 bytes() const { return (ahead + 1) * stage_bytes() + (in_place ? 0 : runs_out.bytes()); }
    GR_HD u8* share_a(u32 stage) const { return stages + stage * stage_bytes(); }
    GR_HD u8* share_b(u32 stage) const { return share_a(stage) + runs_a.bytes(); }
    GR_HD u8* share_out(u32 stage) const { return in_place ? share_a(stage) : results; }
    // The first element of a share, and how many elements of it exist.
    GR_HD u64 first_of(u64 share) const { return share * 32 * elements; }
    GR_HD u32 count_of(u64 share) const {
        const u64 left = task.lines * task.length - first_of(share);
        return left < 32 * elements ? (u32)left : 32 * elements;
    }

    static GR_HD void fetch(const RunLayout& runs, u8* to, const u8* from, u32 count) {
        const u32 whole = count / 16 * 16;
        runs.each(whole, [&](u32 place, u32 at) { copy_async(to + place, from + at); });
        const u32 rest = whole + threadIdx.x % 32, run = rest / runs.run;  // bytes of the last share
        if (rest < count) to[rest ^ runs.swizzle(run)] = from[rest];
    }
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
        if (rest < count) to[rest] = from[rest ^ runs_out.swizzle(run)];
    }

    // How far a lane is: its line, how many elements are left of it, and the state before them.
    struct Walk {
        u64 line;
        u32 left;  // elements of the line
        State state;
    };
    GR_HD void begin_line(Walk& walk, u64 first, u32 lines) const {
        walk.left = (u32)task.length;
        walk.state = task.carry && walk.line - first < lines ? LineEnds<Op>::before(task, walk.line) : Op::identity();
    }
    GR_HD void end_line(Walk& walk, u64 first, u32 lines) const {
        if (task.totals && walk.line - first < lines) LineEnds<Op>::keep(task, walk.line, walk.state);
        walk.line += Reverse ? -1 : 1;
        begin_line(walk, first, lines);
    }
    // Elements that are taken at once while their line goes on: a pack, or single ones.
    static const int N = V > 1 ? V : 4;
    typedef PackScan<Op, Emit, N> Packs;
    static const bool by_packs = !Exclusive && Packs::exists && !ShiftedPowerSums<Op>::skips;
    typedef typename Conditional<by_packs, Packs, ElementwiseScan<Op, Emit, Exclusive>>::type By;
    // This lane's elements from one on.
    template <int Count> GR_HD Pack<In, Count> take(u32 stage, u32 at) const {
        Pack<In, Count> from;
        unrolled<Count / V>([&](int i) {
            const u32 first = at + i * V;
            const u8 *a = share_a(stage) + runs_a.place(lane, first * size_a), *b = a;
            if (size_b) b = share_b(stage) + runs_b.place(lane, first * size_b);
            const Pack<In, V> pack = PackReader<In, V>::of(a, b, 0);
            unrolled<V>([&](int j) { from.at[i * V + j] = pack.at[j]; });
        });
        return from;
    }
    template <int Count> GR_HD void put(u32 stage, u32 at, const Pack<Out, Count>& to) const {
        unrolled<Count / V>([&](int i) {
            Pack<Out, V> pack;
            unrolled<V>([&](int j) { pack.at[j] = to.at[i * V + j]; });
            put_pack<Out, V>(share_out(stage) + runs_out.place(lane, (at + i * V) * sizeof(Out)), pack);
        });
    }
    // Takes N elements of a line that does not end before the last of them: no checks in between.
    GR_HD void take_on(Walk& walk, By& by, u32 stage, u32 place) const {
        Pack<Out, N> to;
        by.run(turned<Reverse>(take<N>(stage, place)), to);
        put<N>(stage, place, turned<Reverse>(to));
        walk.left -= N;
    }
    // Takes V elements, and after each calls `end` with whether its line ends there.
    template <class End> GR_HD void take_ends(Walk& walk, u32 stage, u32 place, const End& end) const {
        const Pack<In, V> from = take<V>(stage, place);
        Pack<Out, V> to;
        unrolled<V>([&](int i) {
            const int j = Reverse ? V - 1 - i : i;
            to.at[j] = scan_one<Op, Emit, Exclusive>(walk.state, from.at[j], task.option);
            end(--walk.left == 0);
        });
        put<V>(stage, place, to);
    }
    // Replaces this lane's elements by results. Not all of its lines may exist: a pack with the last one's end is taken whole.
    GR_HD void walk_lines(u64 share, u32 stage) const {
        const u64 first = (share * 32 + lane) * each;
        if (first >= task.lines) return;
        const u32 lines = task.lines - first > each ? each : (u32)(task.lines - first);
        const u32 there = lines * (u32)task.length, end = (there + V - 1) / V * V, more = Reverse ? end - there : 0;
        Walk walk = {Reverse ? first + lines : first, more, Op::identity()};
        if (more == 0) {
            walk.line -= Reverse;
            begin_line(walk, first, lines);
        }
        By by(walk.state, task.option);
#pragma unroll 1
        for (u32 at = 0; at < end;) {
            if (walk.left >= N) {
                take_on(walk, by, stage, Reverse ? end - N - at : at);
                at += N;
                if (walk.left > 0) continue;
                walk.state = by.now();
                end_line(walk, first, lines);
            } else {
                walk.state = by.now();
                const u32 place = Reverse ? end - V - at : at;
                if (task.totals || task.carry) take_ends(walk, stage, place, [&](bool ends) { if (ends) end_line(walk, first, lines); });
                else take_ends(walk, stage, place, [&](bool ends) {  // without a branch
                    walk.state = ends ? Op::identity() : walk.state;
                    walk.left = ends ? (u32)task.length : walk.left;
                });
                at += V;
            }
            by = By(walk.state, task.option);
        }
    }

    typedef WholeLineVariance<Op, Emit> WholeLine;
    static const bool whole_lines = !Exclusive && WholeLine::exists;
    struct CountReciprocal { f64 count, part; };  // of a number of elements
    GR_HD CountReciprocal* parts() const { return (CountReciprocal*)(GR_SHARED + Warps * bytes()); }
    // All threads of the block call, before all else. One block barrier, where there is a table.
    GR_HD void prepare() const {
        if constexpr (whole_lines) {
            for (u32 i = threadIdx.x; i < task.length; i += 32 * Warps)
                parts()[i] = {(f64)(i + 1), WholeLine::part_of(i + 1, task.option)};
            __syncthreads();
        }
    }
    // Replaces a lane's elements by results where all lines exist, without carries and totals: all lanes' lines end together.
    GR_HD void walk_whole_lines(u32 stage) const {
        const u32 length = (u32)task.length;
        u32 number = 0;  // elements of a line that are taken
        WholeLine by;
#pragma unroll 1
        for (u32 at = 0; at < elements;) {
            if (number > 0 && number + N <= length) {
                take_whole_line<N, false>(by, number, stage, Reverse ? elements - N - at : at);
                at += N;
            } else {
                take_whole_line<V, true>(by, number, stage, Reverse ? elements - V - at : at);
                at += V;
            }
        }
    }
    // Ends: lines may begin and end among the elements.
    template <int Count, bool Ends> GR_HD void take_whole_line(WholeLine& by, u32& number, u32 stage, u32 place) const {
        const Pack<In, Count> from = take<Count>(stage, place);
        const CountReciprocal* const part = parts();
        f64 variances[Count];
        unrolled<Count>([&](int i) {
            const int j = Reverse ? Count - 1 - i : i;
            const CountReciprocal with = part[Ends ? number : number + i];
            if (Ends && number == 0) by = WholeLine(from.at[j]);
            by.take(from.at[j]);
            variances[j] = by.variance(with.count, with.part);
            if (Ends && ++number == (u32)task.length) number = 0;
        });
        if (!Ends && (number += Count) == (u32)task.length) number = 0;
        Pack<Out, Count> to;
        VarianceResults<Op, Out>::of(variances, to);
        put<Count>(stage, place, to);
    }

    GR_HD void walk(u64 share, u32 stage) const {
        if constexpr (whole_lines)
            if (!task.carry && !task.totals && count_of(share) == 32 * elements) return walk_whole_lines(stage);
        walk_lines(share, stage);
    }
};

// Lines in small planes, at any strides: a warp copies whole planes as they lie in memory, with what lies between their elements,
// and a lane takes one of their lines at a time. Results lie one after another.

// Planes of a share, copied all at once or, where `pitch` is given, each by itself.
struct StagedPlanes {
    const PlaneLayout& layout;
    const u32 count;
    const u8* const low;   // the lowest byte in memory of what is copied first
    const u32 hop, drift;  // in shared memory, from one plane to the next: bytes, and by how many more its lowest lies behind 16
    GR_HD StagedPlanes(const PlaneLayout& planes, const u8* first, u32 many)
        : layout(planes), count(many), low(first - planes.back), hop((u32)(planes.pitch ? planes.pitch : planes.gap)),
          drift(planes.pitch ? (u32)planes.gap % 16 : 0) {}
    GR_HD u32 lead() const { return (u32)(u64)low % 16; }

    // All lanes of a warp call. Calls whole(place in shared memory, pack of 16 bytes in memory) for all packs that are of planes,
    // and part(place, pack, begin, end) for those of which some bytes are.
    template <class Whole, class Part> GR_HD void each(Whole whole, Part part) const {
        const u32 lane = threadIdx.x % 32;
        if (layout.pitch == 0) {
            const u32 end = lead() + (u32)layout.bytes + (count - 1) * (u32)layout.gap;
            const u32 last = end / 16 * 16;
            const u8* const from = low - lead();
#pragma unroll 4
            for (u32 at = (lead() ? 16 : 0) + lane * 16; at < last; at += 512) whole(at, from + at);
            if (lead() && lane == 0) part(0, from, lead(), end < 16 ? end : 16);
            if (end > last && lane == 1 && (last > 0 || !lead())) part(last, from + last, 0, end - last);
            return;
        }
        const u32 bytes = (u32)layout.bytes, pitch = (u32)layout.pitch;
        const bool even = layout.gap % 16 == 0 && bytes % 16 == 0 && lead() == 0;
        const u32 packs = even ? bytes / 16 : (bytes + 30) / 16, all = count * packs;
        const u32 next = 32 / packs, skip = 32 - next * packs;  // from a lane's pack to its next one: planes, and packs
        u32 plane = lane / packs, pack = lane - plane * packs;
#pragma unroll 1
        for (u32 at = lane; at < all; at += 32) {
            const u8* const from = low + plane * layout.gap;
            if (even) {
                whole(plane * pitch + pack * 16, from + pack * 16);
            } else {
                const u32 before = (u32)(u64)from % 16, begin = pack ? 0 : before, end = before + bytes - pack * 16;
                if (begin == 0 && (i32)end >= 16) whole(plane * pitch + pack * 16, from - before + pack * 16);
                else if ((i32)end > 0) part(plane * pitch + pack * 16, from - before + pack * 16, begin, end < 16 ? end : 16);
            }
            const bool wraps = pack + skip >= packs;
            plane += next + wraps;
            pack += skip - (wraps ? packs : 0);
        }
    }
};

// Batch: elements that a lane reads at once. Axes: those of a plane, besides the scanned one, that have more than one line.
template <class Op, class Emit, int Warps, int Batch, int Axes, bool Exclusive>
struct SmallLineScan : ShareWork<Warps, SmallLines> {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    typedef SerialColumnOps<Op, Emit, 1, Exclusive> Tables;
    typedef UnlikeCounts<Op, Emit, 1, Exclusive> LineScan;  // where there is a table, for lines with carries alone
    static const int ahead = 2;
    // One of a share's lines.
    struct Line {
        u32 plane, row, column;
        GR_HD Line(u32 number, u32 rows, u32 columns)
            : plane(number / (rows * columns)), row(number % (rows * columns) / columns), column(number % columns) {}
    };
    // Where a lane's lines begin in shared memory: numbers that are computed once, where states leave registers.
    struct Places {
        u32 at, phase;                   // bytes, but for how planes are aligned; the lower bits say that
        u32 step, row_wrap, plane_wrap;  // bytes to the next line, and how many more where a row of lines ends, and a plane
        u32 turn, drift;                 // as much of `phase`
        GR_HD Places(const StagedPlanes& planes, const u8* share, const Line& first, const Line& hop, u32 rows, u32 columns)
            : at(stays((u32)(share - GR_SHARED) + (u32)planes.layout.back + of(planes, first))),
              phase(stays(planes.lead() + first.plane * planes.drift)), step(stays(of(planes, hop))),
              row_wrap(stays((u32)planes.layout.row - columns * (u32)planes.layout.column)),
              plane_wrap(stays(planes.hop - rows * (u32)planes.layout.row)), turn(stays(hop.plane * planes.drift)),
              drift(stays(planes.drift)) {}
        static GR_HD u32 stays(u32 x) {
#ifndef GR_EMULATED
            if (sizeof(State) <= 16) asm volatile("" : "+r"(x));
#endif
            return x;
        }
        static GR_HD u32 of(const StagedPlanes& planes, const Line& line) {
            return line.plane * planes.hop + line.row * (u32)planes.layout.row + line.column * (u32)planes.layout.column;
        }
        GR_HD u8* line() const { return GR_SHARED + (at + phase % 16); }
        GR_HD void move(bool ends_row, bool ends_plane) {
            at += step + (ends_row ? row_wrap : 0) + (ends_plane ? plane_wrap : 0);
            phase += turn + (ends_plane ? drift : 0);
        }
    };
    const SmallLines& task;
    const u32 lane, rows, columns;
    const Line first, hop;  // this lane's first line, and from one of its lines to the next
    u8 *const stages, *const results;  // of this warp
    GR_HD SmallLineScan(const SmallLines& scan)
        : task(scan), lane(threadIdx.x % 32), rows(Axes < 2 ? 1 : (u32)scan.rows), columns(Axes < 1 ? 1 : (u32)scan.columns),
          first(lane, rows, columns), hop(32, rows, columns),
          stages(GR_SHARED + threadIdx.x / 32 * ((ahead + 1) * scan.in.share + scan.results.share)),
          results(stages + (ahead + 1) * scan.in.share) {}

    GR_HD u8* share_in(u32 stage) const { return stages + stage * task.in.share; }
    GR_HD u8* share_out(u32 stage) const { return task.results.share ? results : share_in(stage); }
    // Where a share's first plane begins, and how many planes it has.
    struct Location {
        u64 plane;  // counted through all runs
        u32 count;
        const u8* a;
        u8* out;
    };
    GR_HD Location location_of(u64 share) const {
        u64 run = 0;
        Offset at = {0, 0, 0};
        if (task.by_shares.size < task.tiles) {
            run = task.by_shares.size > 1 ? task.by_shares.of(share) : share;
            at = task.run.at(run);
        }
        const u64 plane = (share - run * task.by_shares.size) * task.most, left = task.planes - plane;
        return {run * task.planes + plane, left < task.most ? (u32)left : (u32)task.most, task.a + at.a + (i64)plane * task.in.gap,
                (u8*)task.out + at.c + (i64)plane * task.results.gap};
    }

    GR_HD void fetch(u64 share, u32 stage) const {
        const Location location = location_of(share);
        u8* const to = share_in(stage);
        const u8* const lowest = task.a - task.in.back;
        StagedPlanes(task.in, location.a, location.count)
            .each([&](u32 place, const u8* pack) { copy_async(to + place, pack); },
                  [&](u32 place, const u8* pack, u32 begin, u32 end) {
                      if (begin == 0 || pack >= lowest) return copy_async_part(to + place, pack, end);
#pragma unroll 1
                      for (u32 byte = begin; byte < end; byte++) to[place + byte] = pack[byte];
                  });
    }
    GR_HD void drain(u64 share, u32 stage) const {
        typedef typename Word<sizeof(Out)>::type W;
        const Location location = location_of(share);
        const u8* const from = share_out(stage);
        StagedPlanes(task.results, location.out, location.count)
            .each([&](u32 place, const u8* pack) { __stcs((uint4*)pack, *(const uint4*)(from + place)); },
                  [&](u32 place, const u8* pack, u32 begin, u32 end) {
#pragma unroll 1
                      for (u32 byte = begin; byte < end; byte += sizeof(Out))
                          *(W*)(pack + byte) = *(const W*)(from + place + byte);
                  });
    }

    // A table of as many entries as a line has elements, for lines before which nothing comes.
    GR_HD u8* table() const { return GR_SHARED + Warps * ((ahead + 1) * task.in.share + task.results.share); }
    // All threads of the block call, before all else. One block barrier, where there is a table.
    GR_HD void prepare() const {
        if constexpr (Tables::uses_table) {
            if (threadIdx.x < 32) fresh().fill(0, (u32)task.length, table(), task.option[0], task.option[1]);
            __syncthreads();
        }
    }
    // All lanes of a warp call.
    GR_HD typename Tables::EqualCounts fresh() const {
        const State none[1] = {Op::identity()};
        return {none, task.option};
    }
    GR_HD void walk(u64 share, u32 stage) const {
        if constexpr (Tables::uses_table) if (!task.carry) {
            auto scan = fresh();
            scan.next = (const ReciprocalTable::Entry*)table();
            return walk_lines(share, stage, [&](u64) { return scan; });
        }
        walk_lines(share, stage, [&](u64 line) {
            const State before[1] = {task.carry ? LineEnds<Op>::before(task, line) : Op::identity()};
            return LineScan(before, task.option);
        });
    }
    // Begin: how a line is scanned from its first element on.
    template <class Begin> GR_HD void walk_lines(u64 share, u32 stage, const Begin& begin) const {
        const Location location = location_of(share);
        const StagedPlanes in(task.in, location.a, location.count), out(task.results, location.out, location.count);
        const u64 before = location.plane * rows * columns;
        const u32 lines = location.count * rows * columns;
        Places from(in, share_in(stage), first, hop, rows, columns), to(out, share_out(stage), first, hop, rows, columns);
        u32 row = first.row, column = first.column;
#pragma unroll 1
        for (u32 line = lane; line < lines; line += 32) {
            auto scan = begin(before + line);
            take_line(scan, from.line(), to.line());
            if (task.totals) LineEnds<Op>::keep(task, before + line, scan.after(0));
            column += hop.column;
            const bool ends_row = column >= columns;
            column -= ends_row ? columns : 0;
            row += hop.row + ends_row;
            const bool ends_plane = row >= rows;
            row -= ends_plane ? rows : 0;
            from.move(ends_row, ends_plane);
            to.move(ends_row, ends_plane);
        }
    }
    template <class Columns> GR_HD void take_line(Columns& scan, const u8* from, u8* to) const {
        u32 left = (u32)task.length;
#pragma unroll 1
        for (; left >= Batch; left -= Batch) {
            take_rows<true>(scan, from, to, left);
            from += Batch * (i32)task.in.step;
            to += Batch * (i32)task.results.step;
        }
        if constexpr (Batch > 1) if (left > 0) take_rows<false>(scan, from, to, left);
    }
    // The next elements of a line, a whole batch or what is left. All are read before results are written.
    template <bool Whole, class Columns> GR_HD void take_rows(Columns& scan, const u8* from, u8* to, u32 left) const {
        const int most = Whole ? Batch : Batch - 1;
        Pack<In, 1> rows[most];
        unrolled<most>([&](int i) { if (Whole || i < left) rows[i] = take_pack<In, 1>(from + i * (i32)task.in.step); });
        scan_batch<Pack<Out, 1>, (Whole ? Batch : 1), Whole>(scan, rows, left, [&](int i, const Pack<Out, 1>& row) {
            put_pack<Out, 1>(to + i * (i32)task.results.step, row);
        });
    }
};
