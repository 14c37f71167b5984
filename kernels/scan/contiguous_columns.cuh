// Scans lines that lie side by side where one row follows another in memory (contiguous_tile.cuh). A lane takes a strand: V neighbouring
// columns of a team's rows, and teams follow one another through the warps of a gang, so that few lanes are left over
// whatever the number of columns.
#pragma once
#include "contiguous_tile.cuh"

template <class Op, class Emit, int Gangs, int Each, int V, int Lookers, bool Anchored, bool Lines, bool Exclusive, int Stretch, int Slots, int Stages = STAGES,
          class Ways = Besides<Op, Emit, V, Exclusive>>
struct StrandScan : DenseTiles<Op, Emit, Gangs, Each, 32 * Gangs * Each * V, Lookers, Anchored, Lines, Stretch, Slots, Stages> {
    typedef DenseTiles<Op, Emit, Gangs, Each, 32 * Gangs * Each * V, Lookers, Anchored, Lines, Stretch, Slots, Stages> Tiles;
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Tiles::Flow Flow;
    typedef typename Tiles::State State;
    typedef typename Tiles::Spot Spot;
    typedef typename Emit::Out Out;
    using Tiles::task, Tiles::lane, Tiles::gang, Tiles::member, Tiles::width, Tiles::rows, Tiles::teams, Tiles::in_place, Tiles::is_reverse,
        Tiles::tile, Tiles::results, Tiles::share, Tiles::notes, Tiles::is_inner, Tiles::column_of, Tiles::turned, Tiles::meet,
        Tiles::drain;
    // Rows that a lane reads from shared memory at once.
    static const int batch = InRuns<Op>::yes ? 4 : sizeof(State) > 16 ? 2 : V > 1 || sizeof(State) > 8 ? 4 : 8;
    static const bool guesses = Ways::Fold::guesses;
    struct Held {
        State before[Each == 1 ? V : 1];  // within the warp, where it is a gang
        bool right;                       // what folding guessed
    };

    const u32 team, column;  // of this lane's strand; team: in its gang
    GR_HD StrandScan(const Strips& scan)
        : Tiles(scan), team((u32)scan.by_width.of(member * V)), column(member * V - team * (u32)scan.width) {}

    static GR_HD Held nothing() {
        Held none;
#pragma unroll
        for (int j = 0; j < (Each == 1 ? V : 1); j++) none.before[j] = Flow::identity();
        none.right = true;
        return none;
    }
    GR_HD u32 noted_at() const { return Each == 1 ? gang * width + column : gang * (teams / Gangs) * width + member * V; }
    GR_HD bool is_idle() const { return team >= teams / Gangs; }

    // A strand, row by row.
    template <class Fold> struct Folding {
        const StrandScan& scan;
        Fold fold;
        Value ahead[V];  // of the line that began last, if one did
        bool began, right;
        GR_HD Folding(const StrandScan& all) : scan(all), began(false), right(true) {}
        GR_HD bool was_right() const {
            if constexpr (Fold::guesses) return right && fold.was_right();
            return true;
        }
        GR_HD void begin(const Spot& spot, u64 line) {
            right = was_right();
            fold = Fold();
            began = true;
            scan.ahead_of(spot, line, ahead);
        }
        GR_HD void end(const Spot&, u64) {}
        GR_HD State state(int j) const {
            const Value value = fold.state(j);
            return Flow::of(Lines && began && scan.task.carry ? Op::combine(ahead[j], value) : value, began);
        }
        template <int Count> GR_HD void take(const Pack<In, V> (&rows)[Count], u8*, i32) { fold.take(rows); }
    };
    template <class Scan> struct Writing {
        const StrandScan& all;
        Scan scan;
        GR_HD Writing(const StrandScan& strands, const Value (&before)[V]) : all(strands), scan(before, strands.task.option) {}
        GR_HD void begin(const Spot& spot, u64 line) {
            Value state[V];
            all.ahead_of(spot, line, state);
            scan = Scan(state, all.task.option);
        }
        GR_HD void end(const Spot& spot, u64 line) {
            if (all.task.totals)
#pragma unroll
                for (int j = 0; j < V; j++)
                    ((Value*)all.task.totals)[line * all.width + all.column_of(spot, all.column + j)] = scan.after(j);
        }
        template <int Count> GR_HD void take(const Pack<In, V> (&rows)[Count], u8* to, i32 step_to) {
            Pack<Out, V> results[Count];
            scan.rows(rows, results);
#pragma unroll
            for (int i = 0; i < Count; i++) put_pack<Out, V>(to + i * step_to, results[i]);
        }
    };
    template <int Count> static GR_HD void read(const u8*& at, i32 step, Pack<In, V> (&rows)[Count]) {
#pragma unroll
        for (int i = 0; i < Count; i++) rows[i] = take_pack<In, V>(at + i * step);
        at += Count * step;
    }
    template <int Count, class Visit> static GR_HD void take(Visit& visit, const u8*& at, i32 step, u8*& to, i32 step_to) {
        Pack<In, V> rows[Count];
        read(at, step, rows);
        visit.take(rows, to, step_to);
        to += Count * step_to;
    }
    template <class Visit> GR_HD void walk(const Spot& spot, u32 stage, Visit& visit) const {
        u32 from = 0, end = rows;  // in the order of memory
        const u32 first = gang * share() + team * rows * width + column;
        if (!is_inner(spot)) {
            from = first < spot.low ? (spot.low - first + width - 1) / width : 0;
            end = first < spot.high ? (spot.high - first + width - 1) / width : 0;
            end = end < rows ? end : rows;
        }
        const i32 step = is_reverse() ? -(i32)width : (i32)width;
        const u32 begin = first + (is_reverse() ? end - 1 : from) * width;
        const u8* at = tile(stage) + begin * (u32)sizeof(In);
        u8* to = results(stage) + begin * (u32)sizeof(Out);
        const i32 step_a = step * (i32)sizeof(In), step_out = step * (i32)sizeof(Out);
        u64 line = 0;
        u32 left = end > from ? end - from : 0, until = left;  // rows; those before a line ends
        if (Lines && left) {
            const u64 row = spot.row + (gang * (teams / Gangs) + team) * rows + (is_reverse() ? end - 1 : from) - turned(spot, column);
            line = task.by_length.of(row);
            const u32 in_line = (u32)(row - line * task.length);
            until = is_reverse() ? in_line + 1 : (u32)task.length - in_line;
            if (until == task.length) visit.begin(spot, line);
        }
#pragma unroll 1
        while (left > 0) {
            u32 next = !Lines || left < until ? left : until;
            left -= next;
            until -= next;
            if (next >= batch) {  // those that come next are read before results go where they might lie
                Pack<In, V> held[batch];
                read(at, step_a, held);
#pragma unroll 2
                for (next -= batch; next >= batch; next -= batch) {
                    Pack<In, V> ahead[batch];
                    read(at, step_a, ahead);
                    visit.take(held, to, step_out);
                    to += batch * step_out;
#pragma unroll
                    for (int i = 0; i < batch; i++) held[i] = ahead[i];
                }
                visit.take(held, to, step_out);
                to += batch * step_out;
            }
            if (batch > 4 && next >= 4) {
                take<4>(visit, at, step_a, to, step_out);
                next -= 4;
            }
#pragma unroll 1
            for (; next > 0; next--) take<1>(visit, at, step_a, to, step_out);
            if (Lines && until == 0) {
                visit.end(spot, line);
                line += is_reverse() ? -1 : 1;
                until = (u32)task.length;
                if (left > 0) visit.begin(spot, line);
            }
        }
    }
    // What stands before a line.
    GR_HD void ahead_of(const Spot& spot, u64 line, Value (&state)[V]) const {
#pragma unroll
        for (int j = 0; j < V; j++)
            state[j] = task.carry ? ((const Value*)task.carry)[line * width + column_of(spot, column + j)] : Op::identity();
    }

    // All lanes of a warp call, of one that is a gang. A scan of the teams' states, as many columns as they have.
    GR_HD State through_teams(State state, State& before) const {
        const u32 next = width / V, place = is_reverse() ? teams / Gangs - 1 - team : team;  // lanes to the next team
        for (u32 up = 1; up < teams / Gangs; up *= 2) {
            const State earlier = beside(state, up * next);
            if (!is_idle() && place >= up) state = Flow::combine(earlier, state);
        }
        before = beside(state, next);
        if (place == 0) before = Flow::identity();
        return state;
    }
    GR_HD State beside(const State& state, u32 lanes) const {
        return shuffle_from(0xffffffffu, state, (int)((is_reverse() ? lane + lanes : lane - lanes) % 32), 32);
    }

    // Says whether the states are right.
    template <class Fold> GR_HD bool fold_by(const Spot& spot, u32 stage, State (&state)[V]) const {
        Folding<Fold> folding(*this);
        if (!is_idle()) walk(spot, stage, folding);
#pragma unroll
        for (int j = 0; j < V; j++) state[j] = folding.state(j);
        return folding.was_right();
    }
    template <class Scan> GR_HD void write_by(const Spot& spot, u32 stage, const Value (&before)[V]) const {
        Writing<Scan> writing(*this, before);
        walk(spot, stage, writing);
    }
    GR_HD Held fold(const Spot& spot, u32 stage, u32 slot) const {
        meet();  // all have their copies
        State states[V];
        Held held = nothing();
        held.right = fold_by<typename Ways::Fold>(spot, stage, states);
        if (guesses && !held.right) fold_by<FoldAny<Op, V>>(spot, stage, states);
#pragma unroll
        for (int j = 0; j < V; j++) {
            State state = states[j];
            bool ends = true;
            if constexpr (Each == 1) {
                state = through_teams(state, held.before[j]);
                ends = team == (is_reverse() ? 0 : teams / Gangs - 1);
            }
            if (!is_idle() && ends) notes().state[slot][noted_at() + j] = state;
        }
        return held;
    }
    GR_HD void write(const Spot& spot, u32 stage, u32 slot, const Held& held) const {
        if (!in_place) meet();  // the tile before has left
        if (!is_idle()) {
            Value before[V];
#pragma unroll
            for (int j = 0; j < V; j++) {
                State state = notes().state[slot][noted_at() + j];
                if constexpr (Each == 1) state = Flow::combine(state, held.before[j]);
                before[j] = Flow::value(state);
            }
            if (!guesses || held.right) write_by<typename Ways::Scan>(spot, stage, before);
            else write_by<ScanAny<Op, Emit, V, Exclusive>>(spot, stage, before);
        }
        meet();
        drain(spot, stage);
    }
};

// Grid: any number of blocks of Gangs Each + LAG Lookers warps.
template <class Op, class Emit, int Gangs, int Each, int V, int Lookers, bool Anchored, bool Lines, bool Exclusive,
          int Stretch = 0, int Slots = 0, class Work = StrandScan<Op, Emit, Gangs, Each, V, Lookers, Anchored, Lines, Exclusive, Stretch, Slots>>
__global__ void __launch_bounds__(32 * (Gangs * Each + LAG * Lookers), GR_BLOCKS)
    scan_strands(const __grid_constant__ Strips task) {
    if (Each > 1 && threadIdx.x == 0) begin_named(Work::FIRST, Work::FIRST + Gangs - 1, Work::lanes);
    const Work work(task);
    Pipeline<Work, Gangs * Each, Lookers>(work, task.tiles, task.ticket).run();
}

// Scans few lines that lie side by side and fill memory: a braid of columns. A lane takes a run of whole rows, as it would of
// one line, and what runs through the scan are the states of all columns.

// Sums of floats that may be read as binary64 without a conversion (exponent_shift.cuh).
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
