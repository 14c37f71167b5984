// Scans few lines that lie side by side and fill memory: a braid of columns. A lane takes a run of whole rows, as it would of
// one line, and what runs through the scan are the states of all columns.
#pragma once
#include "../core/shared.cuh"
#include "../core/task.cuh"
#include "beside.cuh"
#include "busy.cuh"
#include "flow.cuh"
#include "look_back.cuh"
#include "pipeline.cuh"
#include "share.cuh"

// Sums of floats that may be read as binary64 without a conversion (moved.cuh).
template <class Op> struct AddsMoved { static const bool yes = false; };
template <class T> struct AddsMoved<Sum<Value<T, f64>, f64>> { static const bool yes = Moved<T>::exists; };
template <class T> struct AddsMoved<Sum<NonNan<T, f64>, f64>> { static const bool yes = Moved<T>::exists; };

// Columns divides a run's elements. Where the first element is not aligned, positions before it move columns on.
template <class Op, class Emit, int Warps, int Run, int Columns, bool Exclusive> struct BraidScan {
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    typedef Several<Op, Columns> All;
    typedef typename All::State State;
    typedef WarpShare<In, Out, Run> Share;
    static const int V = Share::V;
    static_assert(Share::run % Columns == 0, "a run is whole rows");
    static const bool draws_early = true;
    static const bool meets = !Busy<Op>::yes;
    static const int stage_bytes = Warps * Share::bytes_a;
    static const int tile_elements = Warps * Share::elements;
    struct Spot { u64 tile; };
    static const int results_at = STAGES * stage_bytes;
    static const int notes_at = results_at + (Share::in_place ? 0 : Warps * Share::bytes_out);
    struct Notes {
        State total[SLOTS][Warps], base[SLOTS][Warps];  // by rounds
        Rounds<Spot> rounds;
    };
    typedef State Held;  // what comes before the lane within its warp

    const Scan& task;
    const u32 warp, lane;
    GR_HD BraidScan(const Scan& scan) : task(scan), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD Notes& notes() const { return *(Notes*)(GR_SHARED + notes_at); }
    GR_HD Rounds<Spot>& rounds() const { return notes().rounds; }
    GR_HD Spot spot_of(u64 tile) const { return {tile}; }
    static GR_HD Held nothing() { return All::identity(); }
    GR_HD u8* share(u32 stage) const { return GR_SHARED + stage * stage_bytes + warp * Share::bytes_a; }
    GR_HD u8* results(u32 stage) const {
        return Share::in_place ? share(stage) : GR_SHARED + results_at + warp * Share::bytes_out;
    }
    GR_HD i64 share_of(u64 tile) const { return (i64)(tile * tile_elements + warp * Share::elements); }
    GR_HD bool is_inner(i64 first) const {
        return first >= (i64)task.lead && first + Share::elements <= (i64)task.positions;
    }
    GR_HD void fetch(const Spot& spot, u32 stage) const {
        const i64 low = (i64)task.lead;
        fetch_packs<Share::elements, Share::size_a>(share(stage), task.a - low * Share::size_a, share_of(spot.tile), low,
                                                    (i64)task.positions);
    }
    // The column of a state, by its place in a row of positions.
    GR_HD u32 column_of(u32 place) const {
        const u32 column = place + Columns - (u32)(task.lead % Columns);
        return column < Columns ? column : column - Columns;
    }

    // Walks this lane's run in packs: period by period, so that it is known which column an element is in.
    static const int period = V % Columns == 0 ? 1 : Columns % V == 0 ? Columns / V : Columns;  // packs
    static_assert(Run % period == 0, "a run is whole periods");
    GR_HD int pack_of(int k) const { return (int)lane * Share::run + k * V; }
    template <bool Inner> GR_HD bool takes(i64 first, int at) const {
        return Inner || (first + at >= (i64)task.lead && first + at < (i64)task.positions);
    }
    template <bool Inner> GR_HD State fold_run(i64 first, u32 stage) const {
        Gather<Op> gather[Columns];
#pragma unroll 1
        for (int from = 0; from < Run; from += period)
#pragma unroll
            for (int k = 0; k < period; k++) {
                const Pack<In, V> pack = take_pack<In, V>(share(stage) + pack_of(from + k) * Share::size_a);
                if constexpr (Inner && AddsMoved<Op>::yes && V * sizeof(In) % 4 == 0) {
                    if (all_finite(pack)) {
#pragma unroll
                        for (int i = 0; i < V; i++) {
                            f64& sum = gather[(k * V + i) % Columns].sum;
                            sum = __fma_rn(Moved<In>::at(pack, i), Moved<In>::scale(), sum);
                        }
                        continue;
                    }
                }
#pragma unroll
                for (int i = 0; i < V; i++)
                    if (takes<Inner>(first, pack_of(from + k) + i)) gather[(k * V + i) % Columns].take(pack.at[i]);
            }
        State state;
#pragma unroll
        for (int c = 0; c < Columns; c++) state.at[c] = gather[c].state();
        return state;
    }
    template <bool Inner> GR_HD void write_run(i64 first, u32 stage, State state) const {
        u8* const out = results(stage);
#pragma unroll 1
        for (int from = 0; from < Run; from += period)
#pragma unroll
            for (int k = 0; k < period; k++) {
                const Pack<In, V> pack = take_pack<In, V>(share(stage) + pack_of(from + k) * Share::size_a);
                Pack<Out, V> to;
#pragma unroll
                for (int i = 0; i < V; i++) {
                    typename Op::State& own = state.at[(k * V + i) % Columns];
                    if (!takes<Inner>(first, pack_of(from + k) + i)) continue;
                    if (Exclusive) to.at[i] = Emit::of(Before<Op>::of(own, pack.at[i]), task.option);
                    own = Take<Op>::of(own, pack.at[i]);
                    if (!Exclusive) to.at[i] = Emit::of(own, task.option);
                }
                put_pack<Out, V>(out + pack_of(from + k) * Share::size_out, to);
            }
    }

    GR_HD Held fold(const Spot& spot, u32 stage, u32 slot) const {
        const i64 first = share_of(spot.tile);
        const State through = warp_scan<All, 32>(is_inner(first) ? fold_run<true>(first, stage) : fold_run<false>(first, stage));
        if (lane == 31) notes().total[slot][warp] = through;
        return lane_before<All, 32>(through);
    }
    GR_HD void write(const Spot& spot, u32 stage, u32 slot, Held held) const {
        const i64 first = share_of(spot.tile), low = (i64)task.lead;
        const State before = All::combine(notes().base[slot][warp], held);
        if (is_inner(first)) write_run<true>(first, stage, before);
        else write_run<false>(first, stage, before);
        __syncwarp();
        drain_packs<Share::elements, Share::size_out>(results(stage), (u8*)task.out - low * Share::size_out, first, low,
                                                      (i64)task.positions);
    }
    // Some columns at a time: of all there are more states to read than a lane has registers for.
    static const int together = Columns * sizeof(typename Op::State) <= 24 ? Columns : 16 / sizeof(typename Op::State);
    template <int From = 0> GR_HD State before_tile(u64 tile, const State& own, const State& start, u64 skip = 0) const {
        State before = start;
        if constexpr (From < Columns) {
            const int count = Columns - From < together ? Columns - From : together;
            typedef Several<Op, count> Some;
            typename Some::State mine, first;
#pragma unroll
            for (int c = 0; c < count; c++) mine.at[c] = own.at[From + c], first.at[c] = start.at[From + c];
            const typename Some::State found = look_back<Some>(task, tile, {0, false, false}, mine, first, skip);
            const u64 posts = task.tiles + task.tiles / 32 + task.tiles / 1024;
            before = before_tile<From + count>(tile, own, start, skip + posts * sizeof(Posted<typename Some::State>));
#pragma unroll
            for (int c = 0; c < count; c++) before.at[From + c] = found.at[c];
        }
        return before;
    }
    // One warp calls. The bases of a tile's warps, from their totals and what comes before the tile.
    GR_HD void find_bases(const Spot& spot, u32 slot, u32) const {
        const u64 tile = spot.tile;
        State start = All::identity();
        if (task.carry)
#pragma unroll
            for (int c = 0; c < Columns; c++) start.at[c] = ((const typename Op::State*)task.carry)[column_of(c)];
        const State through = warp_scan<All, 32>(lane < Warps ? notes().total[slot][lane] : All::identity());
        const State own = shuffle_from(0xffffffffu, through, Warps - 1, 32);
        const State before = before_tile(tile, own, start);
        const State within = lane_before<All, 32>(through);
        if (lane < Warps) notes().base[slot][lane] = All::combine(before, within);
        if (task.totals && tile + 1 == task.tiles && lane == 0) {
            const State all = All::combine(before, own);
#pragma unroll
            for (int c = 0; c < Columns; c++) ((typename Op::State*)task.totals)[column_of(c)] = all.at[c];
        }
    }
};

// Grid: any number of blocks of Warps + LAG warps. Both arrays start where position `lead` of packs of 16 bytes would.
template <class Op, class Emit, int Warps, int Run, int Columns, bool Exclusive>
__global__ void __launch_bounds__(32 * (Warps + LAG), GR_BLOCKS) scan_braid(const __grid_constant__ Scan task) {
    const BraidScan<Op, Emit, Warps, Run, Columns, Exclusive> work(task);
    Pipeline<BraidScan<Op, Emit, Warps, Run, Columns, Exclusive>, Warps, 1>(work, task.tiles, task.ticket).run();
}
