// Scans many lines that lie side by side: a warp falls down a strip of columns alone, from the first row to the last, so that
// nothing is folded before and nobody looks back.
#pragma once
#include "columns.cuh"
#include "counted.cuh"

const int FALL_STAGES = 4;  // tiles in shared memory
const int FALL_BLOCKS = 8;  // of an SM, at most: registers are plenty

template <class Op, class Emit, int V, bool Exclusive> struct FallScan {
    typedef ColumnScan<Op, Emit, 1, V, 1, false, false, false, Exclusive> Columns;
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const bool pairs = Reader<In>::size_b > 0;
    static_assert(!FoldBeside<Op, V>::guesses, "nothing is folded before, which would tell whether a guess was right");
    static const int batch = InRuns<Op>::yes || sizeof(In) * V > 8 ? 4 : 8;  // rows that a lane reads at once
    const Strips& task;
    const u32 column, stage_bytes;
    GR_HD FallScan(const Strips& scan)
        : task(scan), column(threadIdx.x * V), stage_bytes((u32)(scan.bands_a.share + scan.bands_b.share)) {}

    // A strip's first row.
    struct Spot {
        u64 line;  // the first of its columns
        const u8 *a, *b;
        u8* out;
        u32 columns;
    };
    GR_HD Spot spot_of(u64 chain) const {
        const u64 plane = task.strips > 1 ? task.by_strips.of(chain) : chain, strip = chain - plane * task.strips;
        const i64 begin = (i64)(strip * task.width) - (i64)task.lead;  // were the first strip whole
        const u64 from = begin > 0 ? (u64)begin : 0, behind = (u64)(begin + (i64)task.width);
        const u64 end = behind < task.columns ? behind : task.columns;
        const Offset at = task.plane.at(plane);
        return {plane * task.columns + from, task.a + at.a + task.bands_a.lowest(from, end),
                task.b + at.b + task.bands_b.lowest(from, end), (u8*)task.out + at.c + (i64)(from * sizeof(Out)),
                (u32)(end - from)};
    }
    GR_HD u32 rows_of(u64 link) const {
        const u64 left = task.length - link * task.rows;
        return left < task.rows ? (u32)left : (u32)task.rows;
    }
    GR_HD Band band_of(const Bands& bands, const u8* first, const Spot& spot, u64 link, u32 share) const {
        return {first + (i64)(link * task.rows) * bands.step, rows_of(link), bands.bytes(spot.columns), share};
    }
    GR_HD Band band_a(const Spot& spot, u64 link, u32 stage) const {
        return band_of(task.bands_a, spot.a, spot, link, stage * stage_bytes);
    }
    GR_HD Band band_b(const Spot& spot, u64 link, u32 stage) const {
        return band_of(task.bands_b, spot.b, spot, link, stage * stage_bytes + (u32)task.bands_a.share);
    }
    GR_HD void fetch(const Spot& spot, u64 link, u32 stage) const {
        if (link < task.links) {
            band_a(spot, link, stage).template fetch<true>(task.bands_a, task.a);
            if constexpr (pairs) band_b(spot, link, stage).template fetch<true>(task.bands_b, task.b);
        }
        commit_copies();
    }
    GR_HD Track track(const Bands& bands, const Band& band, const Spot& spot) const {
        return band.track(bands, 0, bands.byte(column, spot.columns), 1, V - 1);
    }
    // As one that can be begun anew for each tile.
    template <class Scan> struct Onto {
        Scan& scan;
        template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
            scan.rows(from, to);
        }
    };
    template <class Scan> GR_HD void write(const Spot& spot, u64 link, u32 stage, Scan& scan) const {
        u8* const to = spot.out + (i64)(link * task.rows) * task.step_out + column * sizeof(Out);
        typename Columns::template Writing<Onto<Scan>> writing = {{scan}, to, task.step_out, 0, {0, 0, 0, 0, 0, 0}, {0, 0, true, true}};
        const Track a = track(task.bands_a, band_a(spot, link, stage), spot);
        Track b = {0, 0, 0, 0, 0, 0};
        if constexpr (pairs) b = track(task.bands_b, band_b(spot, link, stage), spot);
        if (a.turn | b.turn) walk<true>(a, b, (i32)rows_of(link), writing);
        else walk<false>(a, b, (i32)rows_of(link), writing);
    }
    template <bool Turning, class Visit> static GR_HD void walk(Track a, Track b, i32 left, Visit& visit) {
        for (; left >= batch; left -= batch) visit.template take<Turning, batch>(a, b);
        for (; left > 0; left--) visit.template take<Turning, 1>(a, b);
    }
    template <class Scan> GR_HD void run(const Spot& spot, State (&state)[V]) const {
        Scan scan(state, task.option);
#pragma unroll
        for (int i = 0; i < FALL_STAGES - 1; i++) fetch(spot, i, i);
        u32 stage = 0;
        for (u64 link = 0; link < task.links; link++) {
            wait_copies<FALL_STAGES - 2>();
            __syncwarp();  // no lane is in the tile before
            fetch(spot, link + FALL_STAGES - 1, (stage + FALL_STAGES - 1) % FALL_STAGES);
            scan.begin(link * task.rows, rows_of(link), GR_SHARED + FALL_STAGES * stage_bytes);
            __syncwarp();
            if (column < spot.columns) write(spot, link, stage, scan);
            stage = (stage + 1) % FALL_STAGES;
        }
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = scan.after(j);
    }
    GR_HD void fall(u64 chain) const {
        typedef Fall<Op, Emit, V, Exclusive> Ways;
        const Spot spot = spot_of(chain);
        const bool has = column < spot.columns;  // all of its columns
        State state[V];
#pragma unroll
        for (int j = 0; j < V; j++)
            state[j] = task.carry && has ? ((const State*)task.carry)[spot.line + column + j] : Op::identity();
        if constexpr (Ways::counts) {
            if (RowParts::suits(state, has)) run<typename Ways::Alike>(spot, state);
            else run<typename Ways::Any>(spot, state);
        } else {
            run<typename Ways::Any>(spot, state);
        }
        if (task.totals && has)
#pragma unroll
            for (int j = 0; j < V; j++) ((State*)task.totals)[spot.line + column + j] = state[j];
    }
};

// Grid: a warp for each chain.
template <class Op, class Emit, int V, bool Exclusive>
__global__ void __launch_bounds__(32, FALL_BLOCKS) scan_falls(const __grid_constant__ Strips task) {
    FallScan<Op, Emit, V, Exclusive>(task).fall(blockIdx.x);
}
