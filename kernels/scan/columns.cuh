// Scans lines that lie side by side, in one pass over tiles of rows of a strip of columns. A lane walks down V columns that
// lie together, so that a warp reads and writes whole stretches of a row; where a strip has few columns, several teams of
// lanes take rows of their own.
#pragma once
#include "../core/shared.cuh"
#include "../core/task.cuh"
#include "chained_look_back.cuh"
#include "column_ops.cuh"
#include "pipeline.cuh"
#include "reciprocal_table.cuh"
#include "row_staging.cuh"
#include "scan_state.cuh"

// Two columns of elements with a flag each. Sums of float32 down (32768, 32768) 0.82 of a copy where warps meet, else 0.86.
template <class Op, int V> struct InSegments { static const bool yes = false; };
template <class Op, int V> struct InSegments<Segmented<Op>, V> { static const bool yes = V > 1; };

// A lane's columns lie Apart from each other: side by side, or as many as a warp has lanes. Anchored: chains are few, and
// tiles look back further than to the one before them. Early: tiles are drawn a round before they are fetched. Drained:
// results take the way through shared memory, as rows too short to be written by a warp at once do.
template <class Op, class Emit, int Warps, int V, int Apart, bool Anchored, bool Early, bool Drained, bool Exclusive>
struct ColumnScan {
    typedef typename Op::In In;
    typedef typename Op::State State;
    typedef typename Emit::Out Out;
    static const bool whole = Drained && V > 1 && Apart == 1;  // a lane takes whole rows
    static const int wide = whole ? 32 : 32 * V;  // columns that there is room for
    static const bool draws_early = Early;
    static const bool words = sizeof(In) == 4 && sizeof(Out) == 4 && Apart > 1;
    // Rows that a lane reads from shared memory at once. Sums of float32 apart, H200, 2026-11, shares of a copy with two, three,
    // four and six rows: down (32768, 32767) 0.89, 0.93, 0.91, 0.92; (n, 4095) 0.873, 0.874, 0.878, 0.871, (n, 513) 0.767,
    // 0.773, 0.774, 0.775, (n, 257) with two and four 0.70 and 0.73. Maxima 0.91, 0.91, 0.90; sums of float16 with four, six
    // and eight 0.74, 0.70, 0.69.
    static const bool sums = words && V > 2 && OfFloats<Op>::yes;
    static const int batch = sums                                         ? (Anchored ? 4 : 3)
                             : InRuns<Op>::yes || InSegments<Op, V>::yes ? 4
                             : sizeof(In) * V > 8 || sizeof(State) > 16  ? 2
                             : V > 1 || sizeof(State) > 8                ? 4
                                                                         : 8;
    // Columns that a lane looks back for: as many of its own as have small states together, which leaves warps to scan.
    static const int posted = Anchored && sizeof(In) < 4 ? 8 : 16;  // bytes of states, fewer for want of registers
    static const bool several = V > 1 && !whole && (Apart == 1 || (!Anchored && sizeof(In) <= 2));
    static const int taken = !several ? 1 : V * sizeof(State) <= posted ? V : Apart > 1 && 2 * sizeof(State) <= posted ? 2 : 1;
    static const int lookers = whole ? 1 : V / taken;
    // H200, 2026-11, shares of a copy, deep and not: sums of float32 down (n, 32) 0.90 and 0.88, maxima 0.90 and 0.86.
    static const bool deep = Anchored && V == 1 && sizeof(State) <= 8;
    // Words apart, whose states are short: as above, sums down (n, 513), (n, 4095) 0.69, 0.77 and 0.76, 0.87, maxima 0.77, 0.77
    // and 0.81, 0.88 (by steps and drawn early, and at once and drawn late).
    static const bool at_once = Anchored && words && taken == 1 && (OfFloats<Op>::yes || sizeof(State) <= 4);
    typedef typename Either<(V > 1), MovedBesides<Op, Emit, V, Exclusive>, Besides<Op, Emit, V, Exclusive>>::type Ways;
    static const bool guesses = Ways::Fold::guesses;
    static const bool meets = !(Busy<Op>::yes && taken > 1 && (Anchored || sizeof(In) <= 2)) && !InSegments<Op, V>::yes;
    // H200, 2026-11, down (32768, 32767) and as many bytes: maxima of float32 0.87 and 0.91 of a copy, of float16 0.67 and 0.75,
    // of uint8 0.47 and 0.50; but sums of float32 0.92 and 0.80.
    static const bool counts = V == 1 && !Exclusive && MeansOfFloats<Op>::yes;
    static const bool stays = Apart > 1 && sizeof(In) == sizeof(Out) && !Drained && !Busy<Op>::yes;
    // Strips of many chains that overlap, so that each writes whole sectors of memory: those of results that are wider than
    // elements, and of bytes where a lane has columns enough. H200, 2026-11, apart and so: sums of uint8 0.63 and 0.85, maxima
    // 0.50 and 0.57; but sums of float32 0.90 and 0.89, of float16 0.57 and 0.54.
    static const bool overlaps = Apart > 1 && !Anchored && (sizeof(Out) > sizeof(In) || (sizeof(Out) == 1 && V == 16));
    // Where a tile lies, and its first rows.
    struct Spot {
        u64 tile, link, chain, line;  // line: the first of its columns
        const u8 *a, *b;  // b: where strips overlap, which have one operand, the strip's own columns, and above if it is the first
        u8* out;
        u32 columns, rows;
    };
    struct Notes {
        State state[SLOTS][Warps][wide];  // of each warp's rows; then what comes before them
        Rounds<Spot> rounds;
    };
    struct Held {
        State before[whole ? V : 1];  // within the warp
        bool right;                   // what folding guessed
    };

    const Strips& task;
    const u32 warp, lane;
    const u32 width, team, column;  // of a strip; this lane's, and its column in the strip
    const u32 most, first;          // rows of a warp; this lane's first among them
    const i64 skip_a, skip_b, skip_out;  // bytes from a tile's first row to this warp's; to this lane's first result
    GR_HD ColumnScan(const Strips& scan)
        : task(scan), warp(threadIdx.x / 32), lane(threadIdx.x % 32), width((u32)scan.width),
          team(whole ? lane : V > 1 || scan.teams == 1 ? 0 : (u32)scan.by_width.of(lane)),
          column(whole ? 0 : V == 1 ? lane - team * (u32)scan.width : Apart == 1 ? lane * V : lane), most((u32)scan.teams * (u32)scan.rows),
          first(team * (u32)scan.rows), skip_a((i64)(warp * most) * scan.bands_a.step),
          skip_b((i64)(warp * most) * scan.bands_b.step),
          skip_out((i64)(warp * most + first) * scan.step_out + (i64)(column * sizeof(Out))) {}

    GR_HD u32 stage_bytes() const { return Warps * (u32)(task.bands_a.share + task.bands_b.share); }
    GR_HD u32 share_a(u32 stage) const { return stage * stage_bytes() + warp * (u32)task.bands_a.share; }
    GR_HD u32 share_b(u32 stage) const {
        return stage * stage_bytes() + Warps * (u32)task.bands_a.share + warp * (u32)task.bands_b.share;
    }
    GR_HD u32 share_out() const { return Drained ? (most * width * (u32)sizeof(Out) + 31) / 16 * 16 : 0; }
    GR_HD u32 results() const { return STAGES * stage_bytes() + warp * share_out(); }
    GR_HD u32 share_parts() const { return counts ? most * (u32)sizeof(RowParts::Part) : 0; }
    GR_HD u8* parts() const { return GR_SHARED + STAGES * stage_bytes() + Warps * share_out() + warp * share_parts(); }
    GR_HD Notes& notes() const {
        return *(Notes*)(GR_SHARED + STAGES * stage_bytes() + Warps * (share_out() + share_parts()));
    }
    GR_HD Rounds<Spot>& rounds() const { return notes().rounds; }
    static GR_HD Held nothing() {
        Held none;
#pragma unroll
        for (int j = 0; j < (whole ? V : 1); j++) none.before[j] = Op::identity();
        none.right = true;
        return none;
    }

    // One lane calls.
    GR_HD Spot spot_of(u64 tile) const {
        if (tile >= task.tiles) return {tile, 0, 0, 0, nullptr, nullptr, nullptr, 0, 0};
        const u64 link = task.chains > 1 ? task.by_chains.of(tile) : tile, chain = tile - link * task.chains;
        const u64 plane = task.strips > 1 ? task.by_strips.of(chain) : chain, strip = chain - plane * task.strips;
        const u64 next = overlaps ? task.own : width;
        const i64 begin = (i64)(strip * next) - (i64)task.lead;  // columns that there would be, were the first strip whole
        const u64 from = begin > 0 ? (u64)begin : 0, end = (u64)begin + width < task.columns ? (u64)begin + width : task.columns;
        const Offset at = task.plane.at(plane);
        const u64 row = link * Warps * most, rows = task.length - row;
        return {tile, link, chain, plane * task.columns + from,
                task.a + at.a + task.bands_a.lowest(from, end) + (i64)row * task.bands_a.step,
                overlaps ? (const u8*)((end == task.columns ? end - from : next) | (u64)(from == 0) << 32)
                         : task.b + at.b + task.bands_b.lowest(from, end) + (i64)row * task.bands_b.step,
                (u8*)task.out + at.c + (i64)(from * sizeof(Out)) + (i64)row * task.step_out, (u32)(end - from),
                rows < Warps * most ? (u32)rows : Warps * most};
    }
    // Of a tile, the rows that this warp takes.
    GR_HD u32 rows_of(const Spot& spot) const {
        const i32 left = (i32)spot.rows - (i32)(warp * most);
        return left < 0 ? 0 : left < (i32)most ? (u32)left : most;
    }
    GR_HD Band band_a(const Spot& spot, u32 rows, u32 stage) const {
        return {spot.a + skip_a, rows, task.bands_a.bytes(spot.columns), share_a(stage)};
    }
    GR_HD Band band_b(const Spot& spot, u32 rows, u32 stage) const {
        return {spot.b + skip_b, rows, task.bands_b.bytes(spot.columns), share_b(stage)};
    }

    GR_HD void fetch(const Spot& spot, u32 stage) const {
        const u32 rows = rows_of(spot);
        band_a(spot, rows, stage).fetch(task.bands_a, task.a);
        if constexpr (Reader<In>::size_b > 0) band_b(spot, rows, stage).fetch(task.bands_b, task.b);
    }

    // Reads `Count` rows of this lane's columns.
    template <bool Turning, int Count> static GR_HD void read(Track& a, Track& b, Pack<In, V> (&from)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) {
            const u8 *left = a.template next<Turning>(), *right = Reader<In>::size_b > 0 ? b.template next<Turning>() : left;
            if constexpr (Apart == 1 && !whole) from[i] = Taken<In, V>::of(left, right, 0);
            else
#pragma unroll
                for (int j = 0; j < V; j++)
                    from[i].at[j] = Taken<In, 1>::of(left + a.beside(j), right + b.beside(j), 0).at[0];
        }
    }
    // Folds rows.
    template <class Fold> struct Folding {
        Fold fold;
        template <bool Turning, int Count> GR_HD void take(Track& a, Track& b) {
            Pack<In, V> from[Count];
            read<Turning, Count>(a, b, from);
            fold.take(from);
        }
    };
    // Scans rows from the states before them; results go to memory, or where they are `kept`. Stays: they take the place of
    // their elements first, from where rows of all the strip are written by the pack; stores of 32 columns that begin anywhere
    // would write more sectors in part.
    template <class Scan, bool Stays = false> struct Writing {
        Scan scan;
        u8* to;
        i64 step;
        u32 columns;  // those behind this lane's first that exist, where they lie apart
        Track kept;
        Window window;
        template <bool Turning, int Count> GR_HD void take(Track& a, Track& b) {
            Track places = a;
            Pack<In, V> from[Count];
            read<Turning, Count>(a, b, from);
            Pack<Out, V> results[Count];
            scan.rows(from, results);
            if constexpr (Stays) {
                const u32 first = threadIdx.x % 32 * (u32)sizeof(Out), share = places.at - first;
#pragma unroll
                for (int i = 0; i < Count; i++) {
                    u8* const place = (u8*)places.template next<Turning>();
#pragma unroll
                    for (int j = 0; j < V; j++) ((Out*)place)[j * Apart] = results[i].at[j];
                }
                __syncwarp();
                drain_rows<Turning, Count, V * Apart * (int)sizeof(Out), Out, overlaps>(share, places.pitch, to - first, step, window);
                to += Count * step;
                return;
            }
#pragma unroll
            for (int i = 0; i < Count; i++) {
                const Pack<Out, V>& result = results[i];
                if constexpr (Drained) {
                    Out* at = (Out*)kept.template next<false>();
#pragma unroll
                    for (int j = 0; j < V; j++)
                        if (Apart == 1 || j * Apart < columns) at[j * Apart] = result.at[j];
                } else if constexpr (Apart == 1) store_pack(to, result);
                else if constexpr (overlaps) {
                    const u32 first = threadIdx.x % 32 * (u32)sizeof(Out), low = window.low(to - first), high = window.high(to - first);
#pragma unroll
                    for (int j = 0; j < V; j++)
                        if (first + j * (u32)(Apart * sizeof(Out)) - low < high - low) store_once((Out*)to + j * Apart, result.at[j]);
                } else
#pragma unroll
                    for (int j = 0; j < V; j++)
                        if (j * Apart < columns) store_once((Out*)to + j * Apart, result.at[j]);
                to += step;
            }
        }
    };
    static GR_HD void store_pack(u8* to, const Pack<Out, V>& result) {
        if constexpr (V == 1) {
            store_once((Out*)to, result.at[0]);
        } else {
            Shared<Out, V> both;
            both.pack = result;
            __stcs((typename Shared<Out, V>::W*)to, both.word);
        }
    }
    // Walks this lane's rows of a tile.
    template <class Visit> GR_HD void walk(const Spot& spot, u32 rows, u32 stage, Visit& visit) const {
        if (column >= spot.columns || team >= task.teams || first >= rows) return;
        const u32 left = rows - first, count = left < task.rows ? left : (u32)task.rows;
        const i32 behind = (i32)(spot.columns - column - 1) / Apart, more = behind < V - 1 ? behind : V - 1;
        const Track a = band_a(spot, rows, stage).track(task.bands_a, first, task.bands_a.byte(column, spot.columns), Apart, more);
        Track b = {0, 0, 0, 0, 0, 0};
        if constexpr (Reader<In>::size_b > 0)
            b = band_b(spot, rows, stage).track(task.bands_b, first, task.bands_b.byte(column, spot.columns), Apart, more);
        if (a.turn | b.turn) walk<true>(a, b, (i32)count, visit);
        else walk<false>(a, b, (i32)count, visit);
    }
    template <bool Turning, class Visit> GR_HD void walk(Track a, Track b, i32 left, Visit& visit) const {
        for (; left >= batch; left -= batch) visit.template take<Turning, batch>(a, b);
        if (batch > 4 && left >= 4) {
            visit.template take<Turning, 4>(a, b);
            left -= 4;
        }
        for (; left > 0; left--) visit.template take<Turning, 1>(a, b);
    }
    // Of the rows of a warp, which lie one after another, the first byte in memory.
    GR_HD u8* lowest_out(const Spot& spot, u32 rows) const {
        return spot.out + (i64)(warp * most + (task.step_out < 0 ? rows - 1 : 0)) * task.step_out;
    }

    // The states of this lane's columns; says whether they are right.
    template <class Fold> GR_HD bool fold_by(const Spot& spot, u32 stage, State (&state)[V]) const {
        Folding<Fold> folding;
        walk(spot, rows_of(spot), stage, folding);
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = folding.fold.state(j);
        if constexpr (Fold::guesses) return folding.fold.was_right();
        return true;
    }
    GR_HD Held fold(const Spot& spot, u32 stage, u32 slot) const {
        State state[V];
        Held held = nothing();
        held.right = fold_by<typename Ways::Fold>(spot, stage, state);
        if (guesses && !held.right) fold_by<FoldAny<Op, V>>(spot, stage, state);
        if constexpr (V == 1 || whole) {
            if (task.teams > 1) {  // a scan of as many columns as teams have
                const u32 next = whole ? 1 : width;  // lanes to the next team
#pragma unroll
                for (int j = 0; j < V; j++) {
                    for (u32 up = next; up < 32; up *= 2) {
                        const State earlier = shuffle_up(0xffffffffu, state[j], (int)up, 32);
                        if (lane >= up) state[j] = Op::combine(earlier, state[j]);
                    }
                    const State before = shuffle_up(0xffffffffu, state[j], (int)next, 32);
                    if (team > 0) held.before[j] = before;
                }
            }
        }
        if (team + 1 == task.teams)
#pragma unroll
            for (int j = 0; j < V; j++) notes().state[slot][warp][column + j * Apart] = state[j];
        return held;
    }
    GR_HD void write(const Spot& spot, u32 stage, u32 slot, Held held) const {
        const u32 rows = rows_of(spot);
        State state[V];
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = notes().state[slot][warp][column + j * Apart];
        if constexpr (V == 1 || whole) {
            if (task.teams > 1)
#pragma unroll
                for (int j = 0; j < V; j++) state[j] = Op::combine(state[j], held.before[j]);
        }
        if (!guesses || held.right) write_by<typename Ways::Scan>(spot, rows, stage, state);
        else write_by<ScanAny<Op, Emit, V, Exclusive>>(spot, rows, stage, state);
        if (!Drained || rows == 0) return;
        __syncwarp();
        const u32 row = (u32)(task.step_out < 0 ? -task.step_out : task.step_out);
        drain_bytes(results(), lowest_out(spot, rows), (rows - 1) * row + spot.columns * (u32)sizeof(Out));
    }

    // All lanes of a warp call. Where all columns have as many elements; says whether that is so.
    GR_HD bool write_alike(const Spot& spot, u32 rows, u32 stage, const State (&before)[V]) const {
        State start[1] = {before[0]};
        start[0].count -= first;
        if (!RowParts::suits(start, column < spot.columns && team < task.teams)) return false;
        typename Fall<Op, Emit, V, Exclusive>::Alike scan(start, task.option);
        scan.begin(0, rows, parts());
        scan.pass((int)first);
        __syncwarp();
        write_rows<Onto<decltype(scan)>, false>(spot, rows, stage, {scan});
        return true;
    }
    template <class Scan> struct Onto {
        Scan& scan;
        template <int Count> GR_HD void rows(const Pack<In, V> (&from)[Count], Pack<Out, V> (&to)[Count]) {
            scan.rows(from, to);
        }
    };
    template <class Scan> GR_HD void write_by(const Spot& spot, u32 rows, u32 stage, const State (&before)[V]) const {
        if constexpr (counts)
            if (write_alike(spot, rows, stage, before)) return;
        if constexpr (stays) {
            const i64 away = (i64)spot.out - (i64)spot.a, turn = task.step_out - task.bands_a.step;
            if (spot.columns == wide && task.bands_a.wide == (i64)sizeof(Out) && (away | turn) % 16 == 0)
                return write_rows<Scan, true>(spot, rows, stage, {before, task.option});
        }
        write_rows<Scan, false>(spot, rows, stage, {before, task.option});
    }
    GR_HD Window window_of(const Spot& spot) const {
        const u32 own = (u32)(u64)spot.b;
        return {own * (u32)sizeof(Out), spot.columns * (u32)sizeof(Out), (u64)spot.b >> 32 != 0, own == spot.columns};
    }
    template <class Scan, bool Stays> GR_HD void write_rows(const Spot& spot, u32 rows, u32 stage, const Scan& scan) const {
        Writing<Scan, Stays> writing = {
            scan, spot.out + skip_out, task.step_out, spot.columns - column, {0, 0, 0, 0, 0, 0}, window_of(spot)};
        if (Drained) {
            const u8* low = lowest_out(spot, rows);
            writing.kept = {results() + (u32)((u64)low % 16) + (u32)(writing.to - low), (i32)task.step_out, 0, 0, 0};
        }
        walk(spot, rows, stage, writing);
    }

    // One warp calls, `lookers` for a tile. What comes before each warp's rows, in some of a lane's columns.
    GR_HD void find_bases(const Spot& spot, u32 slot, u32 looker) const {
        typedef Several<Op, taken> Columns;
        typedef typename Either<deep, DeepChain<Columns, 4>, Chain<Columns, Anchored, counts>>::type Steps;
        typedef typename Either<at_once, AtOnceLinks<Columns>, Steps>::type Links;
        const u32 first = whole ? lane : Apart == 1 ? lane * V + looker * taken : looker * taken * Apart + lane;
        const bool active = first < spot.columns;
        typename Columns::State own = Columns::identity(), start = own;
        if (active) {
            for (int w = 0; w < Warps; w++) own = Columns::combine(own, noted(slot, w, first));
            if (task.carry)
#pragma unroll
                for (int j = 0; j < taken; j++)
                    if (has(spot, first, j)) start.at[j] = ((const State*)task.carry)[spot.line + first + j * Apart];
        }
        const Links chain(task, spot.chain, looker * 32 + lane, active, 32 * lookers);
        typename Columns::State before = chain.before(spot.link, own, start);
        if (!active) return;
        for (int w = 0; w < Warps; w++) {
            const typename Columns::State after = Columns::combine(before, noted(slot, w, first));
#pragma unroll
            for (int j = 0; j < taken; j++) notes().state[slot][w][first + j * Apart] = before.at[j];
            before = after;
        }
        if (task.totals && spot.link + 1 == task.links)
#pragma unroll
            for (int j = 0; j < taken; j++)
                if (has(spot, first, j)) ((State*)task.totals)[spot.line + first + j * Apart] = before.at[j];
    }
    GR_HD typename Several<Op, taken>::State noted(u32 slot, int w, u32 first) const {
        typename Several<Op, taken>::State states;
#pragma unroll
        for (int j = 0; j < taken; j++) states.at[j] = notes().state[slot][w][first + j * Apart];
        return states;
    }
    // Columns side by side are there or not together.
    static GR_HD bool has(const Spot& spot, u32 first, int j) { return Apart == 1 || first + j * Apart < spot.columns; }
};

// Grid: any number of blocks of Warps + LAG lookers warps.
template <class Op, class Emit, int Warps, int V, int Apart, bool Anchored, bool Early, bool Drained, bool Exclusive,
          class Work = ColumnScan<Op, Emit, Warps, V, Apart, Anchored, Early, Drained, Exclusive>>
__global__ void __launch_bounds__(32 * (Warps + LAG * Work::lookers), GR_BLOCKS) scan_columns(const __grid_constant__ Strips task) {
    const Work work(task);
    Pipeline<Work, Warps, Work::lookers>(work, task.tiles, task.ticket).run();
}

// Scans many lines that lie side by side: a warp falls down a strip of columns alone, from the first row to the last, so that
// nothing is folded before and nobody looks back.

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
