// Scans lines in one pass over tiles: with Lines one after another, as if all were one line; 1 of long ones, 2 of others.
#pragma once
#include "../core/shared.cuh"
#include "../core/task.cuh"
#include "lane_run.cuh"
#include "look_back.cuh"
#include "pipeline.cuh"
#include "scan_state.cuh"

// An SM has room for one block, whatever registers it takes: variances are faster with more than ptxas takes by itself. H200,
// 2026-11, of a copy: of a line of float32 0.95 and 0.96, along (32768, 32768) 0.93 and 0.94, of float64 alike; but deviations of a
// line of float32 with 12 warps 0.92 and 0.86, along 32 lines 0.88 and 0.85.
template <class Op, int Lines> struct Ample { static const bool yes = WarpFold<Op>::exists; };
template <bool SkipNan, int Lines> struct Ample<Std<f32, SkipNan>, Lines> { static const bool yes = Lines == 2; };

template <class Op, class Emit, int Warps, int Run, int Lines, bool Gaps, bool Exclusive, bool Reverse> struct RowScan {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Emit::Out Out;
    typedef Flowing<Op, (Lines > 0)> Flow;
    typedef typename Flow::State State;
    typedef WarpShare<In, Out, Run> Share;
    typedef LaneRun<Op, Emit, Run, Lines, Gaps, Exclusive, Reverse> Lane;
    static const int V = Share::V;
    static const bool draws_early = true;
    // Where lines end, some warps have more to do than others: met, 16384 float64 a line had 0.91 of a copy, else 0.99, 65536
    // uint8 0.86 and 0.99; but maxima along 32 long lines, of which few shares have ends, 1.01, else 0.88 (H200, 2026-11).
    static const bool meets = Lines < 2 && !Busy<Op>::yes;
    // Packs of memory that lie askew in a share are read as they lie, or straightened first.
    static const bool reads_askew =
        Gaps && Share::size_b == 0 && Share::size_a >= 4 && V * Share::size_a == 16 && !WarpFold<Op>::exists;
    static const int stage_bytes = Warps * (Share::bytes_a + Share::bytes_b);
    static const int tile_elements = Warps * Share::elements;
    // What comes before a lane is kept as sums where a warp's share is folded to those.
    static const bool by_powers = WarpFold<Op>::exists, skips = WarpFold<Op>::skips;
    // A share in which one line begins is folded and written as others are, but for the elements of the lane where it does: of
    // int32, whose warps have fewer registers, variances along lines of 16384 had 0.59 of a copy by it, else 0.83 (H200, 2026-11).
    static const bool some_begin = by_powers && !skips && Lines > 0 && !Exclusive && Share::in_place;
    static const int blocks = Ample<Op, Lines>::yes ? 1 : GR_BLOCKS;
    struct Spot { u64 tile; };
    // Shared memory: stages, results where they do not fit into a stage, then what warps tell each other.
    static const int results_at = STAGES * stage_bytes;
    static const int notes_at = results_at + (Share::in_place ? 0 : Warps * Share::bytes_out);
    struct Notes {
        State total[SLOTS][Warps];  // by rounds
        Value base[SLOTS][Warps];
        u32 askew[STAGES][Gaps || skips ? Warps : 1];  // what is to be done with a share that was fetched; then, if it is whole
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
    GR_HD Lane lane_run(u32 stage) const { return Lane(task, share_a(stage), share_b(stage), results(stage)); }
    // The first position of this warp's share of a tile, in memory order.
    GR_HD i64 share_of(u64 tile) const {
        const u64 place = Reverse ? task.tiles - 1 - tile : tile;
        return (i64)(place * tile_elements + (Reverse ? Warps - 1 - warp : warp) * Share::elements);
    }
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
            const Start<Share::elements> start(task, first);
            u32 askew = fetch_grains<false, Share::elements, Share::size_a>(task, task.grain_a, share_a(stage), task.a, first, start);
            if constexpr (Share::size_b > 0)
                askew |= fetch_grains<true, Share::elements, Share::size_b>(task, task.grain_b, share_b(stage), task.b, first, start) << 8;
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
                                                                  share_of(tile), {task, share_of(tile)});
        drain_packs<Share::elements, Share::size_out>(results(stage), (u8*)task.out - low * Share::size_out, share_of(tile),
                                                      low, (i64)task.positions);
    }

    // True where no line begins or ends in a share, all of whose positions are elements. Told by where the tile stands, without a
    // division for each warp, sums along lines of 65536 and of 5000 float16 had 0.89 and 0.84 of a copy, as it is 0.90 and 0.88, and
    // of float32 1.03 either way (H200, 2026-11).
    GR_HD bool is_even(i64 first, const Cursor& at) const {
        return is_inner(first) && (Lines == 0 || __all_sync(0xffffffffu, at.left > Share::run && !at.begins));
    }
    typedef LineBegin<Op, Emit, Share, Reverse> Begin;
    GR_HD Begin begin_of(i64 first, const Cursor& at, u32 stage) const {
        if (!some_begin || !is_inner(first)) return Begin(share_a(stage), Begin::all);
        return Begin(share_a(stage), Begin::found(at.begins, at.left, task.length));
    }
    // From that lane on.
    static GR_HD u64 line_begun(const Cursor& at, const Begin& begin) { return at.line + (begin.lane == begin.owner && !at.begins); }
    // How a share lies, one of 2 V ways.
    GR_HD u32 lie(u32 stage) const { return reads_askew ? lie_of<V>(notes().askew[stage][warp], Share::size_a) : 0; }
    template <int Lie> GR_HD Value fold_even(u32 lie, const Lane& run) const {
        if constexpr (reads_askew && Lie + 1 < 2 * V)
            if (lie != Lie) return fold_even<Lie + 1>(lie, run);
        return run.template fold_even<Lie>();
    }
    template <int Lie> GR_HD void write_even(u32 lie, const Lane& run, Value value) const {
        if constexpr (reads_askew && Lie + 1 < 2 * V)
            if (lie != Lie) return write_even<Lie + 1>(lie, run, value);
        run.template write_even<Lie>(value);
    }
    template <int Lie> GR_HD bool fold_finite(u32 lie, const Lane& run, Value& value) const {
        if constexpr (reads_askew && Lie + 1 < 2 * V)
            if (lie != Lie) return fold_finite<Lie + 1>(lie, run, value);
        return run.template fold_finite<Lie>(value);
    }
    template <int Lie> GR_HD void write_finite(u32 lie, const Lane& run, Value value) const {
        if constexpr (reads_askew && Lie + 1 < 2 * V)
            if (lie != Lie) return write_finite<Lie + 1>(lie, run, value);
        run.template write_finite<Lie>(value);
    }
    // All up to this lane's run.
    GR_HD State fold_warp(i64 first, const Cursor& at, bool even, u32 stage, bool& finite) const {
        const Lane run = lane_run(stage);
        State state;
        if (even) {
            Value own;
            if constexpr (Lane::guesses) finite = fold_finite<0>(lie(stage), run, own);
            if (!finite) own = fold_even<0>(lie(stage), run);
            if constexpr (Lines > 0) return Flow::of(warp_scan<Op, 32>(own), false);
            state = Flow::of(own, false);
        } else {
            state = Lines > 0 && is_inner(first) ? run.fold_ends(at) : run.fold_part(first, at);
        }
        return scan_lanes<Op, Flow>(state);
    }
    // What comes before a lane within its warp, and what is known of its share: whether it is even, and all that is added finite.
    struct Held {
        State before;
        bool even, finite;
    };
    // What comes before the warp, and what does so within it.
    GR_HD void write_share(i64 first, u32 stage, u32 slot, Held held) const {
        const Value base = notes().base[slot][warp];
        const Lane run = lane_run(stage);
        if constexpr (Lane::guesses)
            if (held.finite) return write_finite<0>(lie(stage), run, Flow::value(Flow::combine(Flow::of(base, false), held.before)));
        const bool even = Lines == 0 ? is_inner(first) : held.even;  // of one line told again: held, float16 had 0.93 of a copy for 0.95
        const Cursor at = Lines > 0 && even ? Cursor() : run.cursor(first);
        if constexpr (by_powers) {
            const Begin begin = even ? Begin(share_a(stage), Begin::all) : begin_of(first, at, stage);
            if (even || begin.exists()) {
                Value value, ended = Op::identity();
                f64 squares = bit_cast<f64>(0x7ff8000000000000ull);
                typename Begin::Held begun;
                if (!skips || notes().askew[stage][warp]) {
                    const Value own = Flow::value(held.before);
                    const WarpFold<Op> fold(begin.pivot());
                    if (begin.exists()) {
                        begun = begin.held();
                        if (task.totals) ended = begin.ended();
                    }
                    __syncwarp();  // results may take their place
                    value = fold.behind(begin.is_behind() ? run.start_of(at.line) : base, fold.unpacked(own), begin.before());
                    squares = fold.squares_of(own, value, Share::run);
                } else {
                    value = Flow::value(Flow::combine(Flow::of(base, false), held.before));
                }
                run.template write_even<0>(value, squares);
                if (!begin.exists()) return;
                __syncwarp();
                if (task.totals && lane == begin.owner && begin.at > 0)
                    ((Value*)task.totals)[run.place(at.line - at.begins)] = Op::combine(value, ended);
                const u64 line = shuffle_from(0xffffffffu, line_begun(at, begin), (int)begin.owner, 32);
                return begin.write(begun, run.start_of(line), task.option, results(stage));
            }
        }
        const Value value = Flow::value(Flow::combine(Flow::of(base, false), held.before));
        if (even) return write_even<0>(lie(stage), run, value);
        if constexpr (Lines > 0)
            if (is_inner(first)) return run.write_ends(at, value);
        run.write_part(first, at, value);
    }

    // Positions without elements come before those with them, and in reverse behind them.
    GR_HD u64 lead() const { return Reverse ? task.tiles * tile_elements - task.positions : task.lead; }
    GR_HD u64 elements_before(u64 tile) const {
        const u64 first = tile * tile_elements;
        return first > lead() ? first - lead() : 0;
    }
    // Which tiles count for this one.
    GR_HD Reach reach_of(u64 tile) const {
        if (Lines == 0) return {0, false, false, false, 0, elements_before(tile)};
        const u64 elements = task.positions - task.lead, first = tile * tile_elements, at = elements_before(tile);
        u64 end = first + tile_elements - lead();
        if (end > elements) end = elements;
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, begin = line * task.length;
        const bool breaks = at == begin || begin + task.length < end, few = task.length <= FEW * (u64)tile_elements;
        return {(begin + lead()) / tile_elements, at == begin, breaks, few, line, at - begin};
    }

    // What the rounds of a block ask for.
    static GR_HD Held nothing() { return {Flow::identity(), false, false}; }
    GR_HD Rounds<Spot>& rounds() const { return notes().rounds; }
    GR_HD Spot spot_of(u64 tile) const { return {tile}; }
    GR_HD Held fold(const Spot& spot, u32 stage, u32 slot) const {
        straighten(stage);
        const i64 first = share_of(spot.tile);
        const Cursor at = lane_run(stage).cursor(first);
        const bool even = is_even(first, at);
        if constexpr (by_powers) {
            const Begin begin = even ? Begin(share_a(stage), Begin::all) : begin_of(first, at, stage);
            if (even || begin.exists()) {
                const In* share = (const In*)share_a(stage);
                WarpFold<Op> fold(begin.pivot());
#pragma unroll 3
                for (int k = 0; k < Run; k++) fold.take(take_pack<In, V>((const u8*)(share + lane_run(stage).pack_of(k))));
                const typename WarpFold<Op>::Held through = begin.exists() ? begin.through(fold.sums) : fold.through();
                const bool whole = !skips || __all_sync(0xffffffffu, fold.is_whole());
                if (skips && lane == 0) notes().askew[stage][warp] = whole;
                if (whole) {
                    if (lane == 31) {
                        const Value own = begin.exists() ? begin.begun(through) : fold.template state_of<Share::elements>(through);
                        const Value start = begin.exists() ? lane_run(stage).start_of(line_begun(at, begin)) : Op::identity();
                        notes().total[slot][warp] = Flow::of(task.carry && begin.exists() ? Op::combine(start, own) : own, begin.exists());
                    }
                    return {Flow::of(fold.packed(fold.before(through)), false), even, false};
                }
            }
        }
        bool finite = false;
        const State through = fold_warp(first, at, even, stage, finite);
        if (lane == 31) notes().total[slot][warp] = through;
        return {lane_before<Flow, 32>(through), even, finite};
    }
    GR_HD void write(const Spot& spot, u32 stage, u32 slot, Held held) const {
        const u64 tile = spot.tile;
        write_share(share_of(tile), stage, slot, held);
        __syncwarp();
        drain(tile, stage);
    }
    // One warp calls. The bases of a tile's warps, from their totals and what comes before the tile.
    GR_HD void find_bases(const Spot& spot, u32 slot, u32) const {
        const u64 tile = spot.tile;
        const State through = scan_lanes<Op, Flow>(lane < Warps ? notes().total[slot][lane] : Flow::identity());
        const Value own = Flow::value(shuffle_from(0xffffffffu, through, Warps - 1, 32));
        typedef Posting<Op> Short;
        const Reach reach = reach_of(tile);
        const Value start = Lines == 0 || reach.elements > 0 ? lane_run(0).start_of(reach.line) : Op::identity();
        const Value before = Short::whole(look_back<typename Short::Rest, (Lines > 0)>(
            task, tile, reach, Short::of(own), Short::of(Lines == 0 ? start : Op::identity())), start, reach.elements);
        const State within = lane_before<Flow, 32>(through);
        if (lane < Warps) notes().base[slot][lane] = Flow::value(Flow::combine(Flow::of(before, false), within));
    }
};

// Grid: any number of blocks of Warps + LAG warps. Without Gaps every array starts where position `lead` of packs of 16 bytes
// would; with Gaps the results do, where they have no grains.
template <class Op, class Emit, int Warps, int Run, int Lines, bool Gaps, bool Exclusive, bool Reverse,
          class Work = RowScan<Op, Emit, Warps, Run, Lines, Gaps, Exclusive, Reverse>>
__global__ void __launch_bounds__(32 * (Warps + LAG), Work::blocks) scan_rows(const __grid_constant__ Scan task) {
    const Work work(task);
    Pipeline<Work, Warps, 1>(work, task.tiles, task.ticket).run();
}
