// Scans lines that lie side by side where one row follows another in memory (contiguous_tile.cuh). Each lane scans a column; row
// groups are packed across a warp group so that few lanes idle, whatever the number of columns.
#pragma once
#include "contiguous_tile.cuh"

template <class Op, class Emit, int WarpGroups, int WarpsPerGroup, int LookBackWarps, bool Lines, bool Exclusive, int Radix,
          int Slots, int Stages = STAGES, class Ops = ColumnOps<Op, Emit, 1, Exclusive>>
struct ContiguousColumnScan
    : ContiguousTile<Op, Emit, WarpGroups, WarpsPerGroup, LookBackWarps, Lines, Radix, Slots, Stages> {
    typedef typename ContiguousColumnScan::ContiguousTile Tiles;
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Tiles::Running Running;
    typedef typename Tiles::State State;
    typedef typename Tiles::TileLocation TileLocation;
    typedef typename Emit::Out Out;
    using Tiles::task, Tiles::lane, Tiles::warp_group, Tiles::group_thread, Tiles::width, Tiles::rows, Tiles::row_groups,
        Tiles::in_place, Tiles::is_reverse, Tiles::tile, Tiles::results, Tiles::share, Tiles::scratch, Tiles::is_inner,
        Tiles::column_of, Tiles::rows_ahead, Tiles::sync_group, Tiles::drain;
    // Rows that a lane reads from shared memory at once.
    static const int batch = ScansRowRuns<Op>::yes ? 4 : sizeof(State) > 16 ? 2 : sizeof(State) > 8 ? 4 : 8;
    static const bool assumes_finite = Ops::Fold::assumes_finite;
    struct PendingState {
        State before;    // the lane's prefix within its warp, where that is a warp group
        bool is_finite;  // what folding assumed is so
    };

    const u32 row_group, column;  // this lane's row group in its warp group, and its column
    GR_HD ContiguousColumnScan(const Strips& scan)
        : Tiles(scan), row_group((u32)scan.by_width.of(group_thread)), column(group_thread - row_group * (u32)scan.width) {}

    static GR_HD PendingState no_pending() { return {Running::identity(), true}; }
    GR_HD u32 scratch_index() const {
        return WarpsPerGroup == 1 ? warp_group * width + column : warp_group * (row_groups / WarpGroups) * width + group_thread;
    }
    GR_HD bool is_idle() const { return row_group >= row_groups / WarpGroups; }

    // Folds this lane's column, row by row.
    template <class Fold> struct Reducer {
        const ContiguousColumnScan& scan;
        Fold fold;
        Value ahead;  // the state before the line that began last, if one did
        bool has_head, is_finite;
        GR_HD Reducer(const ContiguousColumnScan& owner) : scan(owner), has_head(false), is_finite(true) {}
        GR_HD bool was_finite() const {
            if constexpr (Fold::assumes_finite) return is_finite && fold.was_finite();
            return true;
        }
        GR_HD void begin(const TileLocation& location, u64 line) {
            is_finite = was_finite();
            fold = Fold();
            has_head = true;
            ahead = scan.line_start_of(location, line);
        }
        GR_HD void end(const TileLocation&, u64) {}
        GR_HD State state() const {
            const Value value = fold.state(0);
            return Running::of(Lines && has_head && scan.task.carry ? Op::combine(ahead, value) : value, has_head);
        }
        template <int Count> GR_HD void take(const Pack<In, 1> (&rows)[Count], u8*, i32) { fold.take(rows); }
    };
    template <class Scan> struct Writer {
        const ContiguousColumnScan& owner;
        Scan scan;
        GR_HD Writer(const ContiguousColumnScan& columns, const Value (&before)[1])
            : owner(columns), scan(before, columns.task.option) {}
        GR_HD void begin(const TileLocation& location, u64 line) {
            const Value state[1] = {owner.line_start_of(location, line)};
            scan = Scan(state, owner.task.option);
        }
        GR_HD void end(const TileLocation& location, u64 line) {
            if (owner.task.totals)
                LineEnds<Op>::keep(owner.task, line * owner.width + owner.column_of(location, owner.column), scan.after(0));
        }
        template <int Count> GR_HD void take(const Pack<In, 1> (&rows)[Count], u8* to, i32 step_to) {
            Pack<Out, 1> results[Count];
            scan.rows(rows, results);
            unrolled<Count>([&](int i) { put_pack<Out, 1>(to + i * step_to, results[i]); });
        }
    };
    // Which of a lane's rows exist, the first of which is at position `first`.
    GR_HD void bounds(const TileLocation& location, u32 first, u32 most, u32& from, u32& end) const {
        from = first < location.low ? (location.low - first + width - 1) / width : 0;
        end = first < location.high ? (location.high - first + width - 1) / width : 0;
        end = end < most ? end : most;
    }
    template <int Count> static GR_HD void read(const u8*& at, i32 step, Pack<In, 1> (&rows)[Count]) {
        unrolled<Count>([&](int i) { rows[i] = take_pack<In, 1>(at + i * step); });
        at += Count * step;
    }
    template <int Count, class Visit> static GR_HD void take(Visit& visit, const u8*& at, i32 step, u8*& to, i32 step_to) {
        Pack<In, 1> rows[Count];
        read(at, step, rows);
        visit.take(rows, to, step_to);
        to += Count * step_to;
    }
    template <class Visit> GR_HD void walk(const TileLocation& location, u32 stage, Visit& visit) const {
        u32 from = 0, end = rows;  // in the order of memory
        const u32 first = warp_group * share() + row_group * rows * width + column;
        if (!is_inner(location)) bounds(location, first, rows, from, end);
        const i32 step = is_reverse() ? -(i32)width : (i32)width;
        const u32 begin = first + (is_reverse() ? end - 1 : from) * width;
        const u8* at = tile(stage) + begin * (u32)sizeof(In);
        u8* to = results(stage) + begin * (u32)sizeof(Out);
        const i32 step_a = step * (i32)sizeof(In), step_out = step * (i32)sizeof(Out);
        u64 line = 0;
        u32 left = end > from ? end - from : 0, until = left;  // rows left; rows until a line ends
        if (Lines && left) {
            const u64 row = location.row + (warp_group * (row_groups / WarpGroups) + row_group) * rows +
                            (is_reverse() ? end - 1 : from) - rows_ahead(location, column);
            line = task.by_length.of(row);
            const u32 in_line = (u32)(row - line * task.length);
            until = is_reverse() ? in_line + 1 : (u32)task.length - in_line;
            if (until == task.length) visit.begin(location, line);
        }
#pragma unroll 1
        while (left > 0) {
            u32 next = !Lines || left < until ? left : until;
            left -= next;
            until -= next;
            if (next >= batch) {  // the next rows are read before results are written, which the compiler might take to overlap
                Pack<In, 1> loaded[batch];
                read(at, step_a, loaded);
#pragma unroll 2
                for (next -= batch; next >= batch; next -= batch) {
                    Pack<In, 1> ahead[batch];
                    read(at, step_a, ahead);
                    visit.take(loaded, to, step_out);
                    to += batch * step_out;
                    unrolled<batch>([&](int i) { loaded[i] = ahead[i]; });
                }
                visit.take(loaded, to, step_out);
                to += batch * step_out;
            }
            if (batch > 4 && next >= 4) {
                take<4>(visit, at, step_a, to, step_out);
                next -= 4;
            }
#pragma unroll 1
            for (; next > 0; next--) take<1>(visit, at, step_a, to, step_out);
            if (Lines && until == 0) {
                visit.end(location, line);
                line += is_reverse() ? -1 : 1;
                until = (u32)task.length;
                if (left > 0) visit.begin(location, line);
            }
        }
    }
    // The state before a line: its carry, or none.
    GR_HD Value line_start_of(const TileLocation& location, u64 line) const {
        return task.carry ? LineEnds<Op>::before(task, line * width + column_of(location, column)) : Op::identity();
    }

    // All lanes of a warp call that is a warp group. Scans the states of its row groups, column by column.
    GR_HD State scan_row_groups(State state, State& before) const {
        const u32 place = is_reverse() ? row_groups / WarpGroups - 1 - row_group : row_group;
        for (u32 up = 1; up < row_groups / WarpGroups; up *= 2) {
            const State earlier = shuffle_groups(state, up * width);
            if (!is_idle() && place >= up) state = Running::combine(earlier, state);
        }
        before = shuffle_groups(state, width);
        if (place == 0) before = Running::identity();
        return state;
    }
    GR_HD State shuffle_groups(const State& state, u32 lanes) const {
        return shuffle_from(0xffffffffu, state, (int)((is_reverse() ? lane + lanes : lane - lanes) % 32), 32);
    }

    // Folds this lane's column; false where what Fold assumes does not hold.
    template <class Fold> GR_HD bool fold_by(const TileLocation& location, u32 stage, State& state) const {
        Reducer<Fold> folding(*this);
        if (!is_idle()) walk(location, stage, folding);
        state = folding.state();
        return folding.was_finite();
    }
    template <class Scan> GR_HD void write_by(const TileLocation& location, u32 stage, const Value (&before)[1]) const {
        Writer<Scan> writing(*this, before);
        walk(location, stage, writing);
    }
    GR_HD PendingState fold(const TileLocation& location, u32 stage, u32 slot) const {
        sync_group();  // all have their copies
        State state;
        PendingState pending = no_pending();
        pending.is_finite = fold_by<typename Ops::Fold>(location, stage, state);
        if (assumes_finite && !pending.is_finite) fold_by<AnyColumnReduce<Op, 1>>(location, stage, state);
        bool ends = true;
        if constexpr (WarpsPerGroup == 1) {
            state = scan_row_groups(state, pending.before);
            ends = row_group == (is_reverse() ? 0 : row_groups / WarpGroups - 1);
        }
        if (!is_idle() && ends) scratch().state[slot][scratch_index()] = state;
        return pending;
    }
    GR_HD void write(const TileLocation& location, u32 stage, u32 slot, const PendingState& pending) const {
        if (!in_place) sync_group();  // the results of the tile before have been drained
        if (!is_idle()) {
            State state = scratch().state[slot][scratch_index()];
            if constexpr (WarpsPerGroup == 1) state = Running::combine(state, pending.before);
            const Value before[1] = {Running::value(state)};
            if (!assumes_finite || pending.is_finite) write_by<typename Ops::Scan>(location, stage, before);
            else write_by<AnyColumnScan<Op, Emit, 1, Exclusive>>(location, stage, before);
        }
        sync_group();
        drain(location, stage);
    }
};
