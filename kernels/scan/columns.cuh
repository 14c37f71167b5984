// Scans lines that lie side by side, in one pass over tiles of rows of a strip of columns. A lane scans V columns, so that a warp
// reads and writes whole stretches of a row; where a strip has few columns, several groups of lanes take rows of their own. Where
// strips are many, a warp scans one alone, from the first row to the last.
#pragma once
#include "chained_look_back.cuh"
#include "pipeline.cuh"
#include "reciprocal_table.cuh"
#include "row_staging.cuh"

// A lane's columns lie ColumnStride apart: side by side, or a warp's width. Anchored: chains are few, and tiles look back further than
// to the one before. StagesResults: results go through shared memory, as rows are too short to be written by a warp. LookBackWarps: of
// a tile, V if that is above one, each for one of a lane's columns. Batch: rows that a lane reads at once, where tiles are not folded.
template <class Op, class Emit, int Warps, int V, int ColumnStride, bool Anchored, bool StagesResults, bool Exclusive,
          int LookBackWarps, int Batch = 0>
struct StripScan : TileWork<Strips, Warps, LookBackWarps> {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const int room = 32 * V;  // columns whose states there is room for
    static const bool prefetches_tile = false;
    static const int blocks = sizeof(State) > 16 ? 1 : GR_BLOCKS;  // on an SM: ptxas by itself spills registers of variances
    // Rows that a lane reads from shared memory at once.
    static const int batch = Batch > 0 ? Batch : sizeof(In) * V > 8 || sizeof(State) > 16 ? 2 : 4;
    // Of the look-back: large states take registers.
    static const int PUBLISHED = sizeof(PublishedState<Op>), RADIX = PUBLISHED <= 16 ? 8 : 16;
    static const int SLOTS = PUBLISHED <= 16 ? 8 : 2;
    typedef ColumnOps<Op, Emit, V, Exclusive, (V > 1)> Ops;
    static const bool assumes_finite = Ops::Fold::assumes_finite;
    // Of means of floats, and of variances of all digits, reciprocals are computed once for all columns (reciprocal_table.cuh).
    typedef SerialColumnOps<Op, Emit, 1, Exclusive> Tables;
    static const bool uses_table = V == 1 && Tables::uses_table && Tables::of_variances != FewDigits<In>::yes;
    // Where a tile lies, and its first rows.
    struct TileLocation {
        u64 tile, link, chain, line;  // line: of its first column
        const u8 *a, *b;
        u8* out;
        u32 columns, rows;
    };
    struct SharedScratch {
        State state[STATE_SLOTS][Warps][room];  // of each warp's rows; then their prefixes
        TileRing<TileLocation> ring;
    };
    struct PendingState {
        State before;    // the lane's prefix within the warp
        bool is_finite;  // what folding assumed is so
    };

    const Strips& task;
    const u32 warp, lane;
    const u32 width, row_group, column;  // columns of a strip; this lane's group of lanes, and its first column in the strip
    const u32 most, first;               // rows of a warp; this lane's first among them
    const i64 skip_a, skip_b, skip_out;  // bytes from a tile's first row to this warp's; to this lane's first result
    GR_HD StripScan(const Strips& scan)
        : task(scan), warp(Warps == 1 ? 0 : threadIdx.x / 32), lane(threadIdx.x % 32), width((u32)scan.width),
          row_group(V > 1 || scan.row_groups == 1 ? 0 : (u32)scan.by_width.of(lane)),
          column(V == 1 ? lane - row_group * (u32)scan.width : ColumnStride == 1 ? lane * V : lane),
          most((u32)scan.row_groups * (u32)scan.rows), first(row_group * (u32)scan.rows),
          skip_a((i64)(warp * most) * scan.layout_a.step), skip_b((i64)(warp * most) * scan.layout_b.step),
          skip_out((i64)(warp * most + first) * scan.step_out + (i64)(column * sizeof(Out))) {}

    GR_HD u32 stage_bytes() const { return Warps * (u32)(task.layout_a.share + task.layout_b.share); }
    GR_HD u32 share_a(u32 stage) const { return stage * stage_bytes() + warp * (u32)task.layout_a.share; }
    GR_HD u32 share_b(u32 stage) const {
        return stage * stage_bytes() + Warps * (u32)task.layout_a.share + warp * (u32)task.layout_b.share;
    }
    GR_HD u32 share_out() const { return StagesResults ? (most * width * (u32)sizeof(Out) + 31) / 16 * 16 : 0; }
    GR_HD u32 results() const { return STAGES * stage_bytes() + warp * share_out(); }
    GR_HD u32 table_bytes() const { return uses_table ? most * (u32)sizeof(ReciprocalTable::Entry) : 0; }
    GR_HD u8* table() const { return GR_SHARED + STAGES * stage_bytes() + Warps * share_out() + warp * table_bytes(); }
    GR_HD SharedScratch& scratch() const {
        return *(SharedScratch*)(GR_SHARED + STAGES * stage_bytes() + Warps * (share_out() + table_bytes()));
    }
    GR_HD TileRing<TileLocation>& ring() const { return scratch().ring; }
    static GR_HD PendingState no_pending() { return {Op::identity(), true}; }

    // One lane calls.
    GR_HD TileLocation location_of(u64 tile) const {
        if (tile >= task.tiles) return {tile, 0, 0, 0, nullptr, nullptr, nullptr, 0, 0};
        const u64 link = task.chains > 1 ? task.by_chains.of(tile) : tile, chain = tile - link * task.chains;
        const u64 plane = task.strips > 1 ? task.by_strips.of(chain) : chain, strip = chain - plane * task.strips;
        const i64 begin = (i64)(strip * width) - (i64)task.lead;  // counted as if the first strip were whole
        const u64 from = begin > 0 ? (u64)begin : 0, end = (u64)begin + width < task.columns ? (u64)begin + width : task.columns;
        const Offset at = task.plane.at(plane);
        const u64 row = link * Warps * most, rows = task.length - row;
        return {tile, link, chain, plane * task.columns + from,
                task.a + at.a + (i64)from * task.layout_a.column_step + (i64)row * task.layout_a.step,
                task.b + at.b + (i64)from * task.layout_b.column_step + (i64)row * task.layout_b.step,
                (u8*)task.out + at.c + (i64)(from * sizeof(Out)) + (i64)row * task.step_out, (u32)(end - from),
                rows < Warps * most ? (u32)rows : Warps * most};
    }
    // How many rows of a tile this warp takes.
    GR_HD u32 rows_of(const TileLocation& location) const {
        const i32 left = (i32)location.rows - (i32)(warp * most);
        return left < 0 ? 0 : left < (i32)most ? (u32)left : most;
    }
    GR_HD RowStaging staging_a(const TileLocation& location, u32 rows, u32 stage) const {
        return {location.a + skip_a, rows, task.layout_a.bytes(location.columns), share_a(stage)};
    }
    GR_HD RowStaging staging_b(const TileLocation& location, u32 rows, u32 stage) const {
        return {location.b + skip_b, rows, task.layout_b.bytes(location.columns), share_b(stage)};
    }

    template <bool Even = false> GR_HD void fetch(const TileLocation& location, u32 stage) const {
        const u32 rows = rows_of(location);
        staging_a(location, rows, stage).template fetch<Even>(task.layout_a, task.a);
        if constexpr (Reader<In>::size_b > 0) staging_b(location, rows, stage).template fetch<Even>(task.layout_b, task.b);
    }

    // Scans rows from the states before them; results go to memory, or where they are `staged`.
    template <class Scan> struct Writer {
        Scan& scan;
        u8* to;
        i64 step;
        u32 columns;  // of the strip, from this lane's first on
        ColumnCursor staged;
        template <int Count> GR_HD void take(const Pack<In, V> (&from)[Count]) {
            Pack<Out, V> results[Count];
            scan.rows(from, results);
#pragma unroll
            for (int i = 0; i < Count; i++) {
                const Pack<Out, V>& result = results[i];
                if constexpr (StagesResults) {
                    Out* at = (Out*)staged.template next<false>();
#pragma unroll
                    for (int j = 0; j < V; j++)
                        if (ColumnStride == 1 || j * ColumnStride < columns) at[j * ColumnStride] = result.at[j];
                } else if constexpr (ColumnStride == 1 && V > 1) store_pack_streaming<Out, V>(to, result);
                else
#pragma unroll
                    for (int j = 0; j < V; j++)
                        if (V == 1 || j * ColumnStride < columns) store_streaming((Out*)to + j * ColumnStride, result.at[j]);
                to += step;
            }
        }
    };
    // Hands this lane's rows of a tile to `visit`, some at a time.
    template <int Together = batch, class Visit>
    GR_HD void walk(const TileLocation& location, u32 rows, u32 stage, Visit& visit) const {
        if (column >= location.columns || row_group >= task.row_groups || first >= rows) return;
        const u32 left = rows - first, count = left < task.rows ? left : (u32)task.rows;
        const i32 behind = (i32)(location.columns - column - 1) / ColumnStride, more = behind < V - 1 ? behind : V - 1;
        const ColumnCursor a = staging_a(location, rows, stage).cursor(task.layout_a, first, column, ColumnStride, more);
        ColumnCursor b = {0, 0, 0, 0, 0, 0};
        if constexpr (Reader<In>::size_b > 0)
            b = staging_b(location, rows, stage).cursor(task.layout_b, first, column, ColumnStride, more);
        if (a.phase_step | b.phase_step) walk<Together, true>(a, b, (i32)count, visit);
        else walk<Together, false>(a, b, (i32)count, visit);
    }
    template <int Together, bool PhaseVaries, class Visit>
    GR_HD void walk(ColumnCursor a, ColumnCursor b, i32 left, Visit& visit) const {
        for (; left >= Together; left -= Together) take<PhaseVaries, Together>(a, b, visit);
        if (Together > 4 && left >= 4) take<PhaseVaries, 4>(a, b, visit), left -= 4;
        for (; left > 0; left--) take<PhaseVaries, 1>(a, b, visit);
    }
    // Reads `Count` rows of this lane's columns.
    template <bool PhaseVaries, int Count, class Visit> static GR_HD void take(ColumnCursor& a, ColumnCursor& b, Visit& visit) {
        Pack<In, V> from[Count];
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const u8* left = a.template next<PhaseVaries>();
            const u8* right = Reader<In>::size_b > 0 ? b.template next<PhaseVaries>() : left;
            if constexpr (ColumnStride == 1) from[i] = PackReader<In, V>::of(left, right, 0);
            else
#pragma unroll
                for (int j = 0; j < V; j++)
                    from[i].at[j] = PackReader<In, 1>::of(left + a.next_column(j), right + b.next_column(j), 0).at[0];
        }
        visit.take(from);
    }
    // The first byte in memory of a warp's rows of results, which lie one after another.
    GR_HD u8* lowest_out(const TileLocation& location, u32 rows) const {
        return location.out + (i64)(warp * most + (task.step_out < 0 ? rows - 1 : 0)) * task.step_out;
    }

    // Folds this lane's columns; false where what Fold assumes does not hold.
    template <class Fold> GR_HD bool fold_by(const TileLocation& location, u32 stage, State (&state)[V]) const {
        Fold fold;
        walk(location, rows_of(location), stage, fold);
        unrolled<V>([&](int j) { state[j] = fold.state(j); });
        if constexpr (Fold::assumes_finite) return fold.was_finite();
        return true;
    }
    GR_HD PendingState fold(const TileLocation& location, u32 stage, u32 slot) const {
        State state[V];
        PendingState pending = no_pending();
        pending.is_finite = fold_by<typename Ops::Fold>(location, stage, state);
        if (assumes_finite && !pending.is_finite) fold_by<AnyColumnReduce<Op, V>>(location, stage, state);
        if constexpr (V == 1) if (task.row_groups > 1) {  // a scan over the row groups, column by column
            for (u32 up = width; up < 32; up *= 2) {
                const State earlier = shuffle_up(0xffffffffu, state[0], (int)up, 32);
                if (lane >= up) state[0] = Op::combine(earlier, state[0]);
            }
            const State before = shuffle_up(0xffffffffu, state[0], (int)width, 32);
            if (row_group > 0) pending.before = before;
        }
        if (row_group + 1 == task.row_groups)
            unrolled<V>([&](int j) { scratch().state[slot][warp][column + j * ColumnStride] = state[j]; });
        return pending;
    }
    GR_HD void write(const TileLocation& location, u32 stage, u32 slot, PendingState pending) const {
        const u32 rows = rows_of(location);
        State state[V];
        unrolled<V>([&](int j) { state[j] = scratch().state[slot][warp][column + j * ColumnStride]; });
        if constexpr (V == 1) if (task.row_groups > 1) state[0] = Op::combine(state[0], pending.before);
        if (!assumes_finite || pending.is_finite) write_by<typename Ops::Scan>(location, rows, stage, state);
        else write_by<AnyColumnScan<Op, Emit, V, Exclusive>>(location, rows, stage, state);
        if (!StagesResults || rows == 0) return;
        __syncwarp();
        const u32 row = (u32)(task.step_out < 0 ? -task.step_out : task.step_out) / sizeof(Out);  // elements
        u8* const low = lowest_out(location, rows);
        StagedLine<sizeof(Out)>(low, (rows - 1) * row + location.columns).drain(GR_SHARED + results(), low);
    }

    // All lanes of a warp call. Writes the rows where all columns have equally many elements before them; else returns false.
    GR_HD bool write_equal_counts(const TileLocation& location, u32 rows, u32 stage, const State (&before)[V]) const {
        State start[1] = {before[0]};
        start[0].count -= first;
        if (!ReciprocalTable::counts_agree(start, column < location.columns && row_group < task.row_groups)) return false;
        typename SerialColumnOps<Op, Emit, V, Exclusive>::EqualCounts scan(before, task.option);
        scan.begin(0, rows, table());
        scan.pass((int)first);
        __syncwarp();
        write_rows<4>(location, rows, stage, scan);
        return true;
    }
    template <class Scan> GR_HD void write_by(const TileLocation& location, u32 rows, u32 stage, const State (&before)[V]) const {
        if constexpr (uses_table) if (write_equal_counts(location, rows, stage, before)) return;
        if constexpr (!Exclusive && VarianceF32Delta<Op, Emit>::exists) {
            F32ColumnScan<Op, Emit, V> scan(before, task.option);
            if (scan.is_small(2 * (u32)task.rows)) {
                write_rows<4>(location, rows, stage, scan);
                if (scan.is_small((u32)task.rows)) return;  // else all are written again
            }
        }
        Scan scan(before, task.option);
        write_rows(location, rows, stage, scan);
    }
    template <int Together = batch, class Scan>
    GR_HD void write_rows(const TileLocation& location, u32 rows, u32 stage, Scan& scan) const {
        Writer<Scan> writing = {scan, location.out + skip_out, task.step_out, location.columns - column, {0, 0, 0, 0, 0, 0}};
        if (StagesResults) {
            const u8* low = lowest_out(location, rows);
            writing.staged = {results() + (u32)((u64)low % 16) + (u32)(writing.to - low), (i32)task.step_out, 0, 0, 0};
        }
        walk<Together>(location, rows, stage, writing);
    }

    // All lanes of a warp call, LookBackWarps warps for a tile: the prefixes of each warp's rows, for a column of each lane.
    GR_HD void find_prefixes(const TileLocation& location, u32 slot, u32 look_back_warp) const {
        typedef typename Conditional<Anchored, TwoLevelLookBack<Op, RADIX, SLOTS>, ChainedScan<Op>>::type Links;
        const LaneGroups groups = V > 1 ? LaneGroups{0, 1, 32} : LaneGroups::of(width, LookBackWarps, Links::LINE);
        const u32 place = look_back_warp * groups.width + groups.place();
        const u32 at = ColumnStride == 1 && V > 1 ? lane * V + look_back_warp : place;
        const bool active = groups.is_one() && at < location.columns, is_last = active && groups.is_last();
        const State start = task.carry && active ? LineEnds<Op>::before(task, location.line + at) : Op::identity();
        const Links chain(task, location.chain, place, active, 32 * V, task.links, active && groups.group == 0);
        const auto part = [&](u32 w) -> State& { return scratch().state[slot][w][at]; };
        const State before = find_part_prefixes<Op>(chain, location.link, start, {(i64)(Warps * most), 0}, groups, Warps, part);
        if (is_last && task.totals && location.link + 1 == task.links) LineEnds<Op>::keep(task, location.line + at, before);
    }
};

// Many strips: a warp scans one alone, from the first row to the last, so that nothing is folded before and no tile looks back.
const int SERIAL_STAGES = 4;  // tiles in shared memory
const int SERIAL_BLOCKS = 8;  // of one warp on an SM, at most

// Rows that a lane reads at once.
template <class Op, int V> constexpr int SERIAL_BATCH = ScansRowRuns<Op>::yes || sizeof(typename Op::In) * V > 8 ? 4 : 8;

template <class Op, class Emit, int V, bool Exclusive>
struct SerialColumnScan : StripScan<Op, Emit, 1, V, 1, false, false, Exclusive, V, SERIAL_BATCH<Op, V>> {
    typedef typename SerialColumnScan::StripScan Strip;
    typedef typename Op::State State;
    typedef typename Strip::TileLocation TileLocation;
    typedef SerialColumnOps<Op, Emit, V, Exclusive> Ops;
    using Strip::task, Strip::column, Strip::stage_bytes;
    GR_HD SerialColumnScan(const Strips& scan) : Strip(scan) {}

    // A tile of the strip whose first one is given.
    GR_HD TileLocation tile_of(TileLocation strip, u64 link) const {
        const u64 row = link * task.rows, left = task.length - row;
        strip.a += (i64)row * task.layout_a.step;
        strip.b += (i64)row * task.layout_b.step;
        strip.out += (i64)row * task.step_out;
        strip.rows = left < task.rows ? (u32)left : (u32)task.rows;
        return strip;
    }
    GR_HD void fetch(const TileLocation& strip, u64 link, u32 stage) const {
        if (link < task.links) Strip::template fetch<true>(tile_of(strip, link), stage);
        commit_copies();
    }
    // All lanes of a warp call.
    template <class Scan> GR_HD void run(const TileLocation& strip, State (&state)[V]) const {
        Scan scan(state, task.option);
        unrolled<SERIAL_STAGES - 1>([&](int i) { fetch(strip, i, i); });
        u32 stage = 0;
        for (u64 link = 0; link < task.links; link++) {
            wait_copies<SERIAL_STAGES - 2>();
            __syncwarp();  // no lane reads the tile before any longer
            fetch(strip, link + SERIAL_STAGES - 1, (stage + SERIAL_STAGES - 1) % SERIAL_STAGES);
            const TileLocation tile = tile_of(strip, link);
            if constexpr (IsSame<Scan, typename Ops::EqualCounts>::yes)
                scan.begin(link * task.rows, tile.rows, GR_SHARED + SERIAL_STAGES * stage_bytes());
            __syncwarp();
            Strip::write_rows(tile, tile.rows, stage, scan);
            stage = (stage + 1) % SERIAL_STAGES;
        }
        unrolled<V>([&](int j) { state[j] = scan.after(j); });
    }
    GR_HD void scan_strip(u64 chain) const {
        const TileLocation strip = Strip::location_of(chain);
        const bool has = column < strip.columns;  // all of its columns exist, or none
        State state[V];
#pragma unroll
        for (int j = 0; j < V; j++)
            state[j] = task.carry && has ? LineEnds<Op>::before(task, strip.line + column + j) : Op::identity();
        bool agree = false;
        if constexpr (Ops::uses_table) {
            agree = ReciprocalTable::counts_agree(state, has);
            if (agree) run<typename Ops::EqualCounts>(strip, state);
        }
        if (!agree) run<UnlikeCounts<Op, Emit, V, Exclusive>>(strip, state);
        if (task.totals && has) unrolled<V>([&](int j) { LineEnds<Op>::keep(task, strip.line + column + j, state[j]); });
    }
};

// Grid: a warp for each chain.
template <class Op, class Emit, int V, bool Exclusive>
__global__ void __launch_bounds__(32, SERIAL_BLOCKS) scan_serial_columns(const __grid_constant__ Strips task) {
    SerialColumnScan<Op, Emit, V, Exclusive>(task).scan_strip(blockIdx.x);
}
