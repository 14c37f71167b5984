// Scans few lines that lie side by side and fill memory: a braid of columns. A lane takes a run of whole rows, as it would of
// one line, and what runs through the scan are the states of all columns.
#pragma once
#include "dense.cuh"

// Sums of floats that may be read as binary64 without a conversion (moved.cuh).
template <class Op> struct AddsMoved { static const bool yes = false; };
template <class Map> struct AddsMoved<Sum<Map, f64>> : IsMoved<Map> {};

// Columns divides a run's elements; a warp is a team of rows.
template <class Op, class Emit, int Warps, int Run, int Columns, bool Exclusive>
struct BraidScan : DenseTiles<Op, Emit, Warps, 1, Warps * Columns, 1, true, false> {
    typedef DenseTiles<Op, Emit, Warps, 1, Warps * Columns, 1, true, false> Tiles;
    typedef typename Op::In In;
    typedef typename Emit::Out Out;
    typedef Several<Op, Columns> All;
    typedef typename All::State State;
    typedef typename Tiles::Spot Spot;
    typedef WarpShare<In, Out, Run> Share;
    using Tiles::task, Tiles::lane, Tiles::gang, Tiles::tile, Tiles::results, Tiles::notes, Tiles::is_inner,
        Tiles::drain;
    static const int V = Share::V;
    static_assert(Share::run % Columns == 0, "a run is whole rows");
    typedef State Held;  // what comes before the lane within its warp

    GR_HD BraidScan(const Strips& scan) : Tiles(scan) {}
    static GR_HD Held nothing() { return All::identity(); }

    // Walks this lane's run in packs: period by period, so that it is known which column an element is in.
    static const int period = V % Columns == 0 ? 1 : Columns % V == 0 ? Columns / V : Columns;  // packs
    static_assert(Run % period == 0, "a run is whole periods");
    GR_HD u32 pack_of(int k) const { return gang * Share::elements + lane * Share::run + k * V; }
    template <bool Inner> GR_HD bool takes(const Spot& spot, u32 at) const {
        return Inner || (at >= spot.low && at < spot.high);
    }
    template <bool Inner> GR_HD State fold_run(const Spot& spot, u32 stage) const {
        Gather<Op> gather[Columns];
#pragma unroll 1
        for (int from = 0; from < Run; from += period)
#pragma unroll
            for (int k = 0; k < period; k++) {
                const Pack<In, V> pack = take_pack<In, V>(tile(stage) + pack_of(from + k) * Share::size_a);
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
                    if (takes<Inner>(spot, pack_of(from + k) + i)) gather[(k * V + i) % Columns].take(pack.at[i]);
            }
        State state;
#pragma unroll
        for (int c = 0; c < Columns; c++) state.at[c] = gather[c].state();
        return state;
    }
    template <bool Inner> GR_HD void write_run(const Spot& spot, u32 stage, State state) const {
        u8* const out = results(stage);
#pragma unroll 1
        for (int from = 0; from < Run; from += period)
#pragma unroll
            for (int k = 0; k < period; k++) {
                const Pack<In, V> pack = take_pack<In, V>(tile(stage) + pack_of(from + k) * Share::size_a);
                Pack<Out, V> to;
#pragma unroll
                for (int i = 0; i < V; i++) {
                    typename Op::State& own = state.at[(k * V + i) % Columns];
                    if (!takes<Inner>(spot, pack_of(from + k) + i)) continue;
                    if (Exclusive) to.at[i] = Emit::of(Before<Op>::of(own, pack.at[i]), task.option);
                    own = Take<Op>::of(own, pack.at[i]);
                    if (!Exclusive) to.at[i] = Emit::of(own, task.option);
                }
                put_pack<Out, V>(out + pack_of(from + k) * Share::size_out, to);
            }
    }

    GR_HD Held fold(const Spot& spot, u32 stage, u32 slot) const {
        const State own = is_inner(spot) ? fold_run<true>(spot, stage) : fold_run<false>(spot, stage);
        const State through = warp_scan<All, 32>(own);
        if (lane == 31)
#pragma unroll
            for (int c = 0; c < Columns; c++) notes().state[slot][gang * Columns + c] = through.at[c];
        return lane_before<All, 32>(through);
    }
    GR_HD void write(const Spot& spot, u32 stage, u32 slot, Held held) const {
        State base;
#pragma unroll
        for (int c = 0; c < Columns; c++) base.at[c] = notes().state[slot][gang * Columns + c];
        const State before = All::combine(base, held);
        if (is_inner(spot)) write_run<true>(spot, stage, before);
        else write_run<false>(spot, stage, before);
        __syncwarp();
        drain(spot, stage);
    }
};

// Grid: any number of blocks of Warps + LAG warps.
template <class Op, class Emit, int Warps, int Run, int Columns, bool Exclusive>
__global__ void __launch_bounds__(32 * (Warps + LAG), GR_BLOCKS) scan_braid(const __grid_constant__ Strips task) {
    const BraidScan<Op, Emit, Warps, Run, Columns, Exclusive> work(task);
    Pipeline<BraidScan<Op, Emit, Warps, Run, Columns, Exclusive>, Warps, 1>(work, task.tiles, task.ticket).run();
}
