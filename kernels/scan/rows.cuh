// Scans lines in one pass over tiles: with Lines one after another, as if all were one line.
#pragma once
#include "../core/shared.cuh"
#include "../core/task.cuh"
#include "askew.cuh"
#include "busy.cuh"
#include "flow.cuh"
#include "gaps.cuh"
#include "halves.cuh"
#include "logic.cuh"
#include "look_back.cuh"
#include "narrow.cuh"
#include "pipeline.cuh"
#include "quotients.cuh"
#include "share.cuh"

// Where a lane stands: its run's first element, its line, and how many elements of it are left.
struct Cursor {
    u64 line;
    u32 left;     // MANY stands for more than a run holds
    bool begins;  // the line does, here
};

template <class Op, class Emit, int Warps, int Run, int Lines, bool Gaps, bool Exclusive, bool Reverse> struct RowScan {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Emit::Out Out;
    typedef Flowing<Op, (Lines > 0)> Flow;
    typedef typename Flow::State State;
    typedef WarpShare<In, Out, Run> Share;
    static const int V = Share::V;
    static const bool draws_early = true;
    static const bool meets = !Busy<Op>::yes;
    // Packs whose walk is unrolled: registers are few, and where lines end, code is long: rolled, lines of 4095 float32 had 1.02
    // of a copy and not 0.86, of 200 0.81 and not 0.83 (H200, 2026-11).
    static const int unrolled = V > 8 || Gaps || sizeof(Value) > 16 ? 1 : V > 4 ? 2 : Run;
    template <bool Inner, bool Ends, int Lie> struct Unrolled {
        static const int packs = !Inner || Ends ? 1 : Lie == 0 ? unrolled : sizeof(Value) > 16 ? 1 : 3;
    };
    // Packs of memory that lie askew in a share are read as they lie, or straightened first.
    static const bool reads_askew =
        Gaps && Share::size_b == 0 && Share::size_a >= 4 && V * Share::size_a == 16 && !WarpFold<Op>::exists;
    static const int stage_bytes = Warps * (Share::bytes_a + Share::bytes_b);
    static const int tile_elements = Warps * Share::elements;
    struct Spot { u64 tile; };
    // Shared memory: stages, results where they do not fit into a stage, then what warps tell each other.
    static const int results_at = STAGES * stage_bytes;
    static const int notes_at = results_at + (Share::in_place ? 0 : Warps * Share::bytes_out);
    struct Notes {
        State total[SLOTS][Warps];  // by rounds
        Value base[SLOTS][Warps];
        u32 askew[STAGES][Gaps ? Warps : 1];  // what is to be done with a share that was fetched
        Rounds<Spot> rounds;
    };

    const Scan& task;
    const u32 warp, lane;
    GR_HD RowScan(const Scan& scan) : task(scan), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD Notes& notes() const { return *(Notes*)(GR_SHARED + notes_at); }
    GR_HD u8* share_a(u32 stage) const { return GR_SHARED + stage * stage_bytes + warp * Share::bytes_a; }
    GR_HD u8* share_b(u32 stage) const {
        return GR_SHARED + stage * stage_bytes + Warps * Share::bytes_a + warp * Share::bytes_b;
    }
    GR_HD u8* results(u32 stage) const {
        return Share::in_place ? share_a(stage) : GR_SHARED + results_at + warp * Share::bytes_out;
    }
    // The first position of this warp's share of a tile, in memory order.
    GR_HD i64 share_of(u64 tile) const {
        const u64 place = Reverse ? task.tiles - 1 - tile : tile;
        return (i64)(place * tile_elements + (Reverse ? Warps - 1 - warp : warp) * Share::elements);
    }
    GR_HD u32 run_of() const { return Reverse ? 31 - lane : lane; }
    // True where all of a share are elements, and the last of the scan is not among them. What lies behind the last is no
    // matter where nobody asks for the total: its results go nowhere.
    GR_HD bool is_inner(i64 first) const {
        const i64 low = (i64)task.lead, high = (i64)task.positions, end = first + Share::elements;
        const bool is_open = Lines == 0 && !task.totals;
        return Reverse ? (is_open || first > low) && end <= high : first >= low && (is_open || end < high);
    }

    GR_HD void fetch(const Spot& spot, u32 stage) const {
        const i64 first = share_of(spot.tile), low = (i64)task.lead, high = (i64)task.positions;
        if constexpr (Gaps) {
            u32 askew = fetch_grains<false, Share::elements, Share::size_a>(task, task.grain_a, share_a(stage), task.a, first);
            if constexpr (Share::size_b > 0)
                askew |= fetch_grains<true, Share::elements, Share::size_b>(task, task.grain_b, share_b(stage), task.b, first) << 8;
            if (lane == 0) notes().askew[stage][warp] = askew;
            return;
        }
        const u8* a = task.a - low * Share::size_a;
        fetch_packs<Share::elements, Share::size_a>(share_a(stage), a, first, low, high);
        if constexpr (Share::size_b > 0)
            fetch_packs<Share::elements, Share::size_b>(share_b(stage), task.b - low * Share::size_b, first, low, high);
    }
    GR_HD void straighten(u32 stage) const {
        if constexpr (Gaps && !reads_askew) {
            const u32 askew = notes().askew[stage][warp], second = askew >> 8;
            if (askew % 256) Solid<false, Share::elements, Share::size_a>::straighten(share_a(stage), askew % 256);
            if constexpr (Share::size_b > 0)
                if (second) Solid<true, Share::elements, Share::size_b>::straighten(share_b(stage), second);
        }
    }
    GR_HD void drain(u64 tile, u32 stage) const {
        const i64 low = (i64)task.lead;
        if (Gaps && task.grain_out)
            return drain_grains<Share::elements, Share::size_out>(task, task.grain_out, results(stage), (u8*)task.out,
                                                                  share_of(tile));
        drain_packs<Share::elements, Share::size_out>(results(stage), (u8*)task.out - low * Share::size_out, share_of(tile),
                                                      low, (i64)task.positions);
    }

    // Lines are numbered in the order of the scan, their carries and totals in that of memory.
    GR_HD u64 place(u64 line) const { return Reverse ? task.lines - 1 - line : line; }
    GR_HD Value start_of(u64 line) const {
        return task.carry ? ((const Value*)task.carry)[place(line)] : Op::identity();
    }
    // Of the first element of this lane's run, counted in the order of the scan. Positions without elements are not in any line.
    GR_HD Cursor cursor(i64 first) const {
        const i64 begin = Reverse ? (i64)task.positions - (first + (i64)(run_of() + 1) * Share::run)
                                  : first + (i64)run_of() * Share::run - (i64)task.lead;
        const u64 at = begin > 0 ? (u64)begin : 0;
        if (Lines == 0) return {at < task.length ? 0ull : 1ull, at_most_many(task.length - at), false};
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, in_line = at - line * task.length;
        return {line, at_most_many(task.length - in_line), in_line == 0};
    }

    // The first element of a lane's pack number k, in the order of the scan, counted from the share's.
    GR_HD int pack_of(int k) const { return run_of() * Share::run + (Reverse ? Run - 1 - k : k) * V; }
    GR_HD bool is_element(i64 position) const { return position >= (i64)task.lead && position < (i64)task.positions; }

    template <int Lie> using Packs =
        typename Either<Lie == 0, StraightPacks<RowScan>, AskewPacks<RowScan, Lie, Run, Reverse>>::type;
    // Folds this lane's run. Inner: all are elements. Ends: a line may end in the run.
    template <bool Inner, bool Ends, int Lie = 0> GR_HD State fold_run(i64 first, u32 stage, Cursor at) const {
        Packs<Lie> packs(*this, stage);
        bool began = Lines && at.begins;
        if (!Inner && at.line >= task.lines) return Flow::identity();
        Value start = began && Lines > 1 ? start_of(at.line) : Op::identity();
        Gather<Op> gather;
        const int together = Unrolled<Inner, Ends, Lie>::packs;
#pragma unroll together
        for (int k = 0; k < Run; k++) {
            const Pack<In, V> from = packs.next(k);
            if constexpr (Inner && !Ends && !Reverse) {
                gather.take(from);
                continue;
            }
#pragma unroll
            for (int i = 0; i < V; i++) {
                const int j = Reverse ? V - 1 - i : i;
                if (!Inner && !is_element(first + pack_of(k) + j)) continue;
                gather.take(from.at[j]);
                if (!Ends || Lines == 0 || --at.left != 0) continue;
                began = true;
                at.left = at_most_many(task.length);
                start = Lines > 1 && ++at.line < task.lines ? start_of(at.line) : Op::identity();
                gather = Gather<Op>();
            }
        }
        return Flow::of(began && Lines > 1 ? Op::combine(start, gather.state()) : gather.state(), began);
    }
    template <bool Inner, bool Ends> struct ByPacks {
        typedef PackScan<Op, Emit, V> Packs;
        static const bool yes = Inner && !Ends && !Reverse && !Exclusive && Packs::exists;
        typedef typename Either<yes, Packs, OneByOne>::type type;
    };
    // Walks this lane's run in the order of the scan and replaces elements by results, from the state given.
    template <bool Inner, bool Ends, int Lie = 0> GR_HD void write_run(i64 first, u32 stage, Cursor at, Value value) const {
        Packs<Lie> packs(*this, stage);
        if (Lie > 0 && Share::in_place) __syncwarp();  // results take the place of packs that other lanes hold by now
        u8* out = results(stage);
        if (!Inner && at.line >= task.lines) return;
        if (Lines && at.begins) value = Lines > 1 ? start_of(at.line) : Op::identity();
        typename ByPacks<Inner, Ends>::type by_packs(value, task.option);
        const int together = Unrolled<Inner, Ends, Lie>::packs;
#pragma unroll together
        for (int k = 0; k < Run; k++) {
            const Pack<In, V> from = packs.next(k);
            Pack<Out, V> to;
            if constexpr (ByPacks<Inner, Ends>::yes) {
                by_packs.run(from, to);
                put_pack<Out, V>(out + pack_of(k) * Share::size_out, to);
                continue;
            }
#pragma unroll
            for (int i = 0; i < V; i++) {
                const int j = Reverse ? V - 1 - i : i;
                if (!Inner && !is_element(first + pack_of(k) + j)) continue;
                if (Exclusive) to.at[j] = Emit::of(Before<Op>::of(value, from.at[j]), task.option);
                value = Take<Op>::of(value, from.at[j]);
                if (!Exclusive) to.at[j] = Emit::of(value, task.option);
                if (!Ends || --at.left != 0) continue;
                if (Lines != 1 && task.totals) ((Value*)task.totals)[place(at.line)] = value;
                if (Lines == 0) continue;
                at.left = at_most_many(task.length);
                if (Lines == 1) value = Op::identity();
                else if (++at.line < task.lines) value = start_of(at.line);
            }
            put_pack<Out, V>(out + pack_of(k) * Share::size_out, to);
        }
    }
    // True where no line ends in the share's runs, all of whose positions are elements.
    GR_HD bool is_even(const Cursor& at) const { return Lines == 0 || __all_sync(0xffffffffu, at.left > Share::run); }
    GR_HD State fold_share(i64 first, u32 stage) const {
        const Cursor at = cursor(first);
        if (!is_inner(first)) return fold_run<false, true>(first, stage, at);
        return is_even(at) ? fold_even<0>(lie(stage), first, stage, at) : fold_run<true, true>(first, stage, at);
    }
    // How a share lies, one of 2 V ways.
    GR_HD u32 lie(u32 stage) const { return reads_askew ? lie_of<V>(notes().askew[stage][warp], Share::size_a) : 0; }
    template <int Lie> GR_HD State fold_even(u32 lie, i64 first, u32 stage, Cursor at) const {
        if constexpr (reads_askew && Lie + 1 < 2 * V)
            if (lie != Lie) return fold_even<Lie + 1>(lie, first, stage, at);
        return fold_run<true, false, Lie>(first, stage, at);
    }
    template <int Lie> GR_HD void write_even(u32 lie, i64 first, u32 stage, Cursor at, Value value) const {
        if constexpr (reads_askew && Lie + 1 < 2 * V)
            if (lie != Lie) return write_even<Lie + 1>(lie, first, stage, at, value);
        write_run<true, false, Lie>(first, stage, at, value);
    }
    // All up to this lane's run.
    GR_HD State fold_warp(i64 first, u32 stage) const {
        if constexpr (!Reverse && WarpFold<Op>::exists) {
            const Cursor at = cursor(first);
            if (is_inner(first) && __all_sync(0xffffffffu, Lines == 0 || (at.left > Share::run && !at.begins))) {
                const In* share = (const In*)share_a(stage);
                WarpFold<Op> fold(share[0]);
#pragma unroll
                for (int k = 0; k < Run; k++) fold.take(take_pack<In, V>((const u8*)(share + pack_of(k))));
                return Flow::of(fold.through(Share::run), false);
            }
        }
        return warp_scan<Flow, 32>(fold_share(first, stage));
    }
    GR_HD void write_share(i64 first, u32 stage, Value value) const {
        const Cursor at = cursor(first);
        if (!is_inner(first)) write_run<false, true>(first, stage, at, value);
        else if (is_even(at)) write_even<0>(lie(stage), first, stage, at, value);
        else write_run<true, true>(first, stage, at, value);
    }

    // Which tiles count for this one.
    GR_HD Reach reach_of(u64 tile) const {
        if (Lines == 0) return {0, false, false};
        // Elements in the order of the scan. Positions without elements come before them, and in reverse behind them.
        const u64 lead = Reverse ? task.tiles * tile_elements - task.positions : task.lead;
        const u64 elements = task.positions - task.lead, first = tile * tile_elements;
        const u64 at = first > lead ? first - lead : 0;
        u64 end = first + tile_elements - lead;
        if (end > elements) end = elements;
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, begin = line * task.length;
        return {(begin + lead) / tile_elements, at == begin, at == begin || begin + task.length < end};
    }

    // What the rounds of a block ask for.
    typedef State Held;  // what comes before the lane within its warp
    static GR_HD Held nothing() { return Flow::identity(); }
    GR_HD Rounds<Spot>& rounds() const { return notes().rounds; }
    GR_HD Spot spot_of(u64 tile) const { return {tile}; }
    GR_HD Held fold(const Spot& spot, u32 stage, u32 slot) const {
        straighten(stage);
        const State through = fold_warp(share_of(spot.tile), stage);
        if (lane == 31) notes().total[slot][warp] = through;
        return lane_before<Flow, 32>(through);
    }
    GR_HD void write(const Spot& spot, u32 stage, u32 slot, Held held) const {
        const u64 tile = spot.tile;
        const State base = Flow::of(notes().base[slot][warp], false);
        write_share(share_of(tile), stage, Flow::value(Flow::combine(base, held)));
        __syncwarp();
        drain(tile, stage);
    }
    // One warp calls. The bases of a tile's warps, from their totals and what comes before the tile.
    GR_HD void find_bases(const Spot& spot, u32 slot, u32) const {
        const u64 tile = spot.tile;
        const State through = warp_scan<Flow, 32>(lane < Warps ? notes().total[slot][lane] : Flow::identity());
        const Value own = Flow::value(shuffle_from(0xffffffffu, through, Warps - 1, 32));
        const Value before = look_back<Op>(task, tile, reach_of(tile), own, Lines == 0 ? start_of(0) : Op::identity());
        const State within = lane_before<Flow, 32>(through);
        if (lane < Warps) notes().base[slot][lane] = Flow::value(Flow::combine(Flow::of(before, false), within));
    }
};

// Grid: any number of blocks of Warps + LAG warps. Without Gaps every array starts where position `lead` of packs of 16 bytes
// would; with Gaps the results do, where they have no grains.
template <class Op, class Emit, int Warps, int Run, int Lines, bool Gaps, bool Exclusive, bool Reverse>
__global__ void __launch_bounds__(32 * (Warps + LAG), GR_BLOCKS) scan_rows(const __grid_constant__ Scan task) {
    const RowScan<Op, Emit, Warps, Run, Lines, Gaps, Exclusive, Reverse> work(task);
    Pipeline<RowScan<Op, Emit, Warps, Run, Lines, Gaps, Exclusive, Reverse>, Warps, 1>(work, task.tiles, task.ticket).run();
}
