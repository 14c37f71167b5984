// Scans lines along memory in one pass over tiles: one line, or (Lines) lines one after another as if all were one. Every array
// starts where position `lead` of aligned packs of 16 bytes would; or Strided: lines with gaps between them or at another alignment
// are copied unit by unit.
#pragma once
#include "lane_run.cuh"
#include "look_back.cuh"
#include "pipeline.cuh"

template <class Op, class Emit, int Warps, int Run, bool Lines, bool Strided, bool Exclusive, bool Reverse, bool KeepsStep>
struct RowScan : TileWork<Scan, Warps, 1> {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Emit::Out Out;
    typedef SegmentedState<Op, Lines> Running;
    typedef typename Running::State State;
    typedef WarpShare<In, Out, Run> Share;
    typedef LaneRun<Op, Emit, Run, Lines, Strided, Exclusive, Reverse> Lane;
    static const int V = Share::V;
    static const bool keeps_step = KeepsStep;
    static const int stage_bytes = Warps * (Share::bytes_a + Share::bytes_b);
    static const int tile_elements = Warps * Share::elements;
    // A lane's prefix within its warp is kept as power sums where a warp's share is folded to those.
    static const bool by_power_sums = ShiftedPowerSums<Op>::exists, skips = ShiftedPowerSums<Op>::skips;
    static const int blocks = 1;  // on an SM: variances are faster with more registers than ptxas takes by itself
    struct TileLocation { u64 tile; };
    // Shared memory: stages, results where they do not fit into a stage, then the scratch.
    static const int results_at = STAGES * stage_bytes;
    static const int notes_at = results_at + (Share::in_place ? 0 : Warps * Share::bytes_out);
    struct SharedScratch {
        State total[STATE_SLOTS][Warps];  // by rounds: of each warp's share
        Value prefix[STATE_SLOTS][Warps];
        // Bytes by which a share that was fetched is shifted; after its folding, whether no element was left out.
        u32 misaligned[STAGES][Strided || skips ? Warps : 1];
        TileRing<TileLocation> ring;
    };

    const Scan& task;
    const u32 warp, lane;
    GR_HD RowScan(const Scan& scan) : task(scan), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD SharedScratch& scratch() const { return *(SharedScratch*)(GR_SHARED + notes_at); }
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
    // True where all positions of a share are elements, and the last element of the scan is not among them. Without totals
    // positions behind the last do no harm: their results are not drained.
    GR_HD bool is_inner(i64 first) const {
        const i64 low = (i64)task.lead, high = (i64)task.positions, end = first + Share::elements;
        const bool is_open = !Lines && !task.totals;
        return Reverse ? (is_open || first > low) && end <= high : first >= low && (is_open || end < high);
    }

    GR_HD void fetch(const TileLocation& location, u32 stage) const {
        const i64 first = share_of(location.tile), low = (i64)task.lead, high = (i64)task.positions;
        if constexpr (Strided) {
            const ShareStart<Share::elements> start(task, first);
            u32 misaligned = fetch_units<&Offset::a, Share::size_a>(task, task.unit_a, share_a(stage), task.a, first, start);
            if constexpr (Share::size_b > 0)
                misaligned |= 16 * fetch_units<&Offset::b, Share::size_b>(task, task.unit_b, share_b(stage), task.b, first, start);
            if (lane == 0) scratch().misaligned[stage][warp] = misaligned;
            return;
        }
        fetch_packs<Share::elements, Share::size_a>(share_a(stage), task.a - low * Share::size_a, first, low, high);
        if constexpr (Share::size_b > 0)
            fetch_packs<Share::elements, Share::size_b>(share_b(stage), task.b - low * Share::size_b, first, low, high);
    }
    // The first element of a share in the order of the scan.
    GR_HD In first_element(u32 stage) const { return ((const In*)share_a(stage))[Reverse ? Share::elements - 1 : 0]; }
    GR_HD void realign(u32 stage) const {
        if constexpr (Strided) {
            const u32 misaligned = scratch().misaligned[stage][warp], first = misaligned % 16, second = misaligned / 16;
            if (first) SteppedSpan<Share::elements, Share::size_a>::realign(share_a(stage), first);
            if constexpr (Share::size_b > 0)
                if (second) SteppedSpan<Share::elements, Share::size_b>::realign(share_b(stage), second);
        }
    }
    GR_HD void drain(u64 tile, u32 stage) const {
        const i64 low = (i64)task.lead;
        if (Strided && task.unit_out)
            return drain_units<Share::elements, Share::size_out>(task, task.unit_out, results(stage), (u8*)task.out,
                                                                  share_of(tile), {task, share_of(tile)});
        drain_packs<Share::elements, Share::size_out>(results(stage), (u8*)task.out - low * Share::size_out, share_of(tile),
                                                      low, (i64)task.positions);
    }

    // True where no line begins or ends in a share, all of whose positions are elements.
    GR_HD bool is_even(i64 first, const Cursor& at) const {
        return is_inner(first) && (!Lines || __all_sync(0xffffffffu, at.left > Share::run && !at.is_head));
    }
    // All lanes of a warp call. Inclusive scan of the lanes' runs.
    GR_HD State fold_warp(i64 first, const Cursor& at, bool even, u32 stage, bool& finite) const {
        const Lane run = lane_run(stage);
        State state;
        if (even) {
            Value own;
            if constexpr (Lane::assumes_finite) finite = run.fold_finite(own);
            if (!finite) own = run.fold_even(at.index);
            if constexpr (Lines) return Running::of(warp_scan<Op, 32>(own), false);
            state = Running::of(own, false);
        } else {
            state = run.fold_ends(at, run.elements_of(first));
        }
        return scan_warp_states<Op, Running>(state);
    }
    // A lane's prefix within its warp, and what is known of the share: no line begins or ends in it; all its elements are finite.
    struct PendingState {
        State before;
        bool even, finite;
    };
    // All lanes of a warp call. Replaces the warp's share by results, behind the warp's prefix and the lane's within it.
    GR_HD void write_share(i64 first, u32 stage, u32 slot, PendingState pending) const {
        const Value prefix = scratch().prefix[slot][warp];
        const Lane run = lane_run(stage);
        const Value value = Running::value(Running::combine(Running::of(prefix, false), pending.before));
        if constexpr (Lane::assumes_finite) if (pending.finite) return run.write_finite(value);
        const bool even = Lines ? pending.even : is_inner(first);  // of one line without a register
        const Cursor at = Lines && even && !KeepsIndex<Op>::yes ? Cursor() : run.cursor(first);
        if constexpr (by_power_sums) if (even && (!skips || scratch().misaligned[stage][warp])) {
            const Value own = Running::value(pending.before);
            const ShiftedPowerSums<Op> fold(first_element(stage));
            __syncwarp();  // results may take the elements' place
            const Value before = fold.append(prefix, fold.unpacked(own), lane * Share::run);
            return run.write_even(before, at.index, fold.squares_of(own, before, Share::run));
        }
        if (even) return run.write_even(value, at.index);
        run.write_ends(at, run.elements_of(first), value);
    }

    // Positions without elements before the first element in the order of the scan.
    GR_HD u64 lead() const { return Reverse ? task.tiles * tile_elements - task.positions : task.lead; }
    // Which tiles count for a tile's prefix.
    GR_HD LookBackRange range_of(u64 tile) const {
        if (!Lines) return {0, false, false};
        const u64 elements = task.positions - task.lead, first = tile * tile_elements, at = first > lead() ? first - lead() : 0;
        u64 end = first + tile_elements - lead();
        if (end > elements) end = elements;
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, head = line * task.length;
        return {(head + lead()) / tile_elements, at == head, at == head || head + task.length < end};
    }

    static GR_HD PendingState no_pending() { return {Running::identity(), false, false}; }
    GR_HD TileRing<TileLocation>& ring() const { return scratch().ring; }
    GR_HD TileLocation location_of(u64 tile) const { return {tile}; }
    GR_HD PendingState fold(const TileLocation& location, u32 stage, u32 slot) const {
        realign(stage);
        const i64 first = share_of(location.tile);
        const Cursor at = lane_run(stage).cursor(first);
        const bool even = is_even(first, at);
        if constexpr (by_power_sums) if (even) {
            ShiftedPowerSums<Op> fold(first_element(stage));
#pragma unroll 3
            for (int k = 0; k < Run; k++) fold.take(lane_run(stage).pack(k));
            const typename ShiftedPowerSums<Op>::SumState through = fold.through();
            const bool whole = !skips || __all_sync(0xffffffffu, fold.is_whole());
            if (skips && lane == 0) scratch().misaligned[stage][warp] = whole;
            if (whole) {
                const Value all = fold.template settled<MeanOf<In>>(through, Share::elements);
                if (lane == 31) scratch().total[slot][warp] = Running::of(all, false);
                return {Running::of(fold.packed(fold.before(through)), false), even, false};
            }
        }
        bool finite = false;
        const State through = fold_warp(first, at, even, stage, finite);
        if (lane == 31) scratch().total[slot][warp] = through;
        return {lane_before<Running, 32>(through), even, finite};
    }
    GR_HD void write(const TileLocation& location, u32 stage, u32 slot, PendingState pending) const {
        const u64 tile = location.tile;
        write_share(share_of(tile), stage, slot, pending);
        __syncwarp();
        drain(tile, stage);
    }
    // All lanes of one warp call. The prefixes of a tile's warps, from their totals and the tile's prefix.
    GR_HD void find_prefixes(const TileLocation& location, u32 slot, u32) const {
        const u64 tile = location.tile;
        const State through = scan_warp_states<Op, Running>(lane < Warps ? scratch().total[slot][lane] : Running::identity());
        const Value own = Running::value(shuffle_from(0xffffffffu, through, Warps - 1, 32));
        const LookBackRange range = range_of(tile);
        const Value start = !Lines ? lane_run(0).start_of(0) : Op::identity();
        const Value before = look_back<Op>(task, tile, range, own, start);
        const State exclusive = lane_before<Running, 32>(through);
        if (lane < Warps) scratch().prefix[slot][lane] = Running::value(Running::combine(Running::of(before, false), exclusive));
    }
};
