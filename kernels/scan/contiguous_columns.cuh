// Scans lines that lie side by side where one row follows another in memory: a tile is one stretch of memory, whole rows, and is
// copied as such. Each lane scans a column; row groups are packed across a warp group so that few lanes idle, whatever the number
// of columns.
#pragma once
#include "chained_look_back.cuh"
#include "pipeline.cuh"
#include "warp_share.cuh"

// Positions count the elements of a plane from the aligned 16 bytes on that hold its first one, which has position `lead`. Rows of
// positions have `width` columns as rows of elements do, rotated by `lead`.
// A warp group is WarpsPerGroup warps that take a share of a tile and wait for no warps but those that look back. A row group is
// the lanes of a warp group that have one row together. LookBackWarps: warps that look back for a tile. Lines: planes follow one
// another, many begin within a tile, and all are one chain. Radix, Slots: of the look-back. Stages: tiles in shared memory.
template <class Op, class Emit, int WarpGroups, int WarpsPerGroup, int LookBackWarps, bool Lines, bool Exclusive, int Radix,
          int Slots, int Stages = STAGES, bool ShiftsFloats = false>
struct ContiguousColumnScan : TileWork<Strips, WarpGroups * WarpsPerGroup, LookBackWarps> {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef SegmentedState<Op, Lines> Running;
    typedef typename Running::State State;
    typedef typename Emit::Out Out;
    typedef ColumnOps<Op, Emit, 1, Exclusive, ShiftsFloats> Ops;
    static const u32 lanes = 32 * WarpsPerGroup;  // of a warp group
    static const bool in_place = sizeof(In) == sizeof(Out);
    static const bool in_f32 = !Lines && !Exclusive && VarianceF32Delta<Op, Emit>::exists;  // where rows change variances little
    // Rows that a lane reads from shared memory at once.
    static const int batch = ScansRowRuns<Op>::yes ? 4 : sizeof(State) > 16 ? 2 : sizeof(State) > 8 ? 4 : 8;
    static const bool assumes_finite = Ops::Fold::assumes_finite;
    static const u32 FIRST_BARRIER = 2 * WRITE_DELAY + 1;  // named barrier of the first warp group
    typedef TwoLevelLookBack<typename Conditional<Lines, Running, Op>::type, Radix, Slots> Links;
    static_assert(WarpsPerGroup == 1 || FIRST_BARRIER + WarpGroups <= 16, "as many barriers as there are");
    // Where a tile lies in memory, and which of its positions are elements.
    struct TileLocation {
        u64 tile, link, chain;
        const u8* a;
        u8* out;
        u32 low, high, lead;
        u64 row;  // the first row of positions
    };
    struct SharedScratch {
        TileRing<TileLocation> ring;
        State state[STATE_SLOTS][32 * WarpGroups * WarpsPerGroup];  // of parts, by columns; then their prefixes
    };
    struct PendingState {
        State through;   // of the lane's rows, and where a warp is a warp group of those before them in the warp
        bool is_finite;  // what folding assumed is so
    };

    const Strips& task;
    const u32 lane, warp_group, group_thread;  // group_thread: this thread's number in its warp group
    const u32 width, rows, row_groups;         // columns; rows of a row group; row groups of all warp groups
    const u32 row_group, column;               // this lane's row group in its warp group, and its column
    GR_HD ContiguousColumnScan(const Strips& scan)
        : task(scan), lane(threadIdx.x % 32), warp_group(threadIdx.x / lanes), group_thread(threadIdx.x % lanes),
          width((u32)scan.width), rows((u32)scan.rows), row_groups((u32)scan.row_groups),
          row_group((u32)scan.by_width.of(group_thread)), column(group_thread - row_group * (u32)scan.width) {}

    GR_HD void begin() const {
        if (WarpsPerGroup > 1 && threadIdx.x == 0) begin_named(FIRST_BARRIER, FIRST_BARRIER + WarpGroups - 1, lanes);
    }
    GR_HD u32 share() const { return row_groups / WarpGroups * rows * width; }  // elements of a warp group
    GR_HD u32 elements() const { return WarpGroups * share(); }
    // All threads of a warp group call. A barrier for them, and no others.
    GR_HD void sync_group() const {
        if (WarpsPerGroup > 1) wait_at(FIRST_BARRIER + warp_group, lanes);
        else __syncwarp();
    }
    GR_HD bool is_reverse() const { return task.step_out < 0; }
    GR_HD u8* tile(u32 stage) const { return GR_SHARED + stage * elements() * (u32)sizeof(In); }
    GR_HD u8* results(u32 stage) const { return in_place ? tile(stage) : tile(Stages); }
    GR_HD SharedScratch& scratch() const {
        return *(SharedScratch*)(tile(Stages) + (in_place ? 0 : elements() * (u32)sizeof(Out)));
    }
    GR_HD TileRing<TileLocation>& ring() const { return scratch().ring; }

    // One lane calls.
    GR_HD TileLocation location_of(u64 tile) const {
        if (tile >= task.tiles) return {tile, 0, 0, nullptr, nullptr, 0, 0, 0, 0};
        const u64 link = !Lines && task.chains > 1 ? task.by_chains.of(tile) : tile;
        const u64 chain = Lines ? 0 : tile - link * task.chains;
        const Offset at = task.plane.at(chain);
        const u8* a = task.a + at.a;
        u8* out = (u8*)task.out + at.c;
        const u32 lead = sizeof(In) <= sizeof(Out) ? (u32)((u64)a % 16 / sizeof(In)) : (u32)((u64)out % 16 / sizeof(Out));
        const u64 number = is_reverse() ? task.links - 1 - link : link, first = number * elements();
        const u64 end = task.length * width * (Lines ? task.chains : 1) + lead, left = end > first ? end - first : 0;
        return {tile, link, chain, a + ((i64)first - lead) * (i64)sizeof(In), out + ((i64)first - lead) * (i64)sizeof(Out),
                first == 0 ? lead : 0, left < elements() ? (u32)left : elements(), lead, number * row_groups * rows};
    }
    GR_HD bool is_inner(const TileLocation& location) const { return location.low == 0 && location.high == elements(); }

    // All threads of a warp group call. For each pack of 16 bytes that a thread has of the group's share: whole(byte) where all of a
    // tile's positions are elements, else part(byte, begin, end), bytes from `begin` to below `end` being of elements.
    template <class Whole, class Part>
    GR_HD void each_pack(const TileLocation& location, u32 size, const Whole& whole, const Part& part) const {
        const u32 bytes = (warp_group + 1) * share() * size, mine = warp_group * share() * size + group_thread * 16;
        if (is_inner(location)) {
#pragma unroll 4
            for (u32 at = mine; at < bytes; at += lanes * 16) whole(at);
            return;
        }
#pragma unroll 1
        for (u32 at = mine; at < bytes; at += lanes * 16) part(at, location.low * size, location.high * size);
    }
    static GR_HD void copy_bytes(u8* to, const u8* from, u32 at, u32 begin, u32 end) {
#pragma unroll 1
        for (u32 byte = at; byte < at + 16; byte++)
            if (byte >= begin && byte < end) to[byte] = from[byte];
    }
    // Each thread fetches the packs that it drains.
    GR_HD void fetch(const TileLocation& location, u32 stage) const {
        u8* const to = tile(stage);
        const u8* const from = location.a;
        each_pack(location, sizeof(In), [&](u32 at) { copy_async(to + at, from + at); }, [&](u32 at, u32 begin, u32 end) {
            if (at >= begin) copy_async_part(to + at, from + at, at + 16 <= end ? 16 : at < end ? end - at : 0);
            else copy_bytes(to, from, at, begin, end);
        });
    }
    GR_HD void drain(const TileLocation& location, u32 stage) const {
        const u8* const from = results(stage);
        const auto whole = [&](u32 at) { __stcs((uint4*)(location.out + at), *(const uint4*)(from + at)); };
        each_pack(location, sizeof(Out), whole, [&](u32 at, u32 begin, u32 end) {
            if (at >= begin && at + 16 <= end) whole(at);
            else copy_bytes(location.out, from, at, begin, end);
        });
    }

    // All lanes of a warp call, LookBackWarps warps for a tile, each for some columns. Leaves the prefix of each part, of which
    // groups of lanes take some each.
    GR_HD void find_prefixes(const TileLocation& location, u32 slot, u32 look_back_warp) const {
        const LaneGroups lane_groups = LaneGroups::of(width, LookBackWarps, Links::LINE);
        const u32 column = look_back_warp * lane_groups.width + lane_groups.place(), all = lane_groups.width * LookBackWarps;
        const bool is_one = lane_groups.is_one(), active = is_one && column < width, is_last = active && lane_groups.is_last();
        const u64 line = location.chain * width + column_of(location, column);
        State start = Running::identity();
        if (!Lines && task.carry && active) start = Running::of(LineEnds<Op>::before(task, line), false);
        const Links chain(task, location.chain, column, active, all, task.links, is_one && lane_groups.group == 0);
        const auto part = [&](u32 t) -> State& { return part_state(slot, t, column); };
        const ElementCounts counts = counts_of(location, column);
        const u32 recent = Lines ? tiles_of_line(location, column) : ~0u;
        const State before = find_part_prefixes<Running>(chain, location.link, start, counts, lane_groups, parts(), part, recent);
        if (!Lines && is_last && task.totals && location.link + 1 == task.links)
            LineEnds<Op>::keep(task, line, Running::value(before));
    }
    // How many elements of a column come before a tile.
    GR_HD ElementCounts counts_of(const TileLocation& location, u32 column) const {
        const i64 each = (i64)row_groups * rows, less = column < width ? rows_ahead(location, column) : 0;
        return {each, is_reverse() ? (i64)task.length + less - (i64)task.links * each : -less};
    }
    // How many tiles before one have elements of the line that goes on in it.
    GR_HD u32 tiles_of_line(const TileLocation& location, u32 column) const {
        const u32 each = row_groups * rows, ahead = rows_ahead(location, column);
        const u64 last = location.row + (is_reverse() ? each - 1 : 0), row = last > ahead ? last - ahead : 0;
        const u32 in_line = (u32)(row - task.by_length.of(row) * task.length);  // as long as a few tiles
        return ((is_reverse() ? (u32)task.length - 1 - in_line : in_line) + each - 1) / each;
    }
    // The parts of a tile that have states: warp groups of one warp, else row groups.
    GR_HD u32 parts() const { return WarpsPerGroup == 1 ? WarpGroups : row_groups; }
    // The state of a part, counted in the order of the scan.
    GR_HD State& part_state(u32 slot, u32 t, u32 column) const {
        return scratch().state[slot][(is_reverse() ? parts() - 1 - t : t) * width + column];
    }
    // The column of elements in a column of positions.
    GR_HD u32 column_of(const TileLocation& location, u32 position) const {
        return position + rows_ahead(location, position) * width - location.lead;
    }
    // By how many rows the positions of a column are ahead of its elements.
    GR_HD u32 rows_ahead(const TileLocation& location, u32 position) const {
        return position < location.lead ? (location.lead - position + width - 1) / width : 0;
    }

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
        if constexpr (Lines) if (left) {
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
            if (batch > 4 && next >= 4) take<4>(visit, at, step_a, to, step_out), next -= 4;
#pragma unroll 1
            for (; next > 0; next--) take<1>(visit, at, step_a, to, step_out);
            if constexpr (Lines) if (until == 0) {
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
    GR_HD State scan_row_groups(State state) const {
        for (u32 up = 1; up < row_groups / WarpGroups; up *= 2) {
            const State earlier = shuffle_groups(state, up * width);
            if (!is_idle() && group_place() >= up) state = Running::combine(earlier, state);
        }
        return state;
    }
    // A row group's number in the order of the scan.
    GR_HD u32 group_place() const { return is_reverse() ? row_groups / WarpGroups - 1 - row_group : row_group; }
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
    // `squares`: of the lane's rows about the mean before them, of variances.
    template <class Scan>
    GR_HD void write_by(const TileLocation& location, u32 stage, const Value (&before)[1], f64 squares) const {
        if constexpr (in_f32) {
            Writer<F32ColumnScan<Op, Emit, 1>> writing(*this, before);
            if (writing.scan.runs[0].is_small(squares < 0 ? 0 : squares)) return walk(location, stage, writing);
        }
        Writer<Scan> writing(*this, before);
        walk(location, stage, writing);
    }
    GR_HD PendingState fold(const TileLocation& location, u32 stage, u32 slot) const {
        sync_group();  // all have their copies
        State state;
        PendingState pending = no_pending();
        pending.is_finite = fold_by<typename Ops::Fold>(location, stage, state);
        if (assumes_finite && !pending.is_finite) fold_by<AnyColumnReduce<Op, 1>>(location, stage, state);
        if constexpr (WarpsPerGroup == 1) state = scan_row_groups(state);
        const bool ends = WarpsPerGroup > 1 || group_place() + 1 == row_groups / WarpGroups;
        pending.through = state;
        if (!is_idle() && ends) scratch().state[slot][scratch_index()] = state;
        return pending;
    }
    GR_HD void write(const TileLocation& location, u32 stage, u32 slot, const PendingState& pending) const {
        if (!in_place) sync_group();  // the results of the tile before have been drained
        State ahead = Running::identity();  // of the rows before the lane's in its warp, where that is a warp group
        if constexpr (WarpsPerGroup == 1) {
            const State earlier = shuffle_groups(pending.through, width);
            if (group_place() > 0) ahead = earlier;
        }
        if (!is_idle()) {
            State state = scratch().state[slot][scratch_index()];
            if constexpr (WarpsPerGroup == 1) state = Running::combine(state, ahead);
            const Value before[1] = {Running::value(state)};
            f64 squares = 0;
            if constexpr (in_f32)
                squares = squares_about(before[0].mean, pending.through) - squares_about(before[0].mean, ahead);
            if constexpr (in_f32 && ShiftedPowerSums<Op>::skips)
                if (pending.through.count - ahead.count != rows) squares = bit_cast<f64>(0x7ff8000000000000ull);  // some are left out
            if (!assumes_finite || pending.is_finite) write_by<typename Ops::Scan>(location, stage, before, squares);
            else write_by<AnyColumnScan<Op, Emit, 1, Exclusive>>(location, stage, before, squares);
        }
        sync_group();
        drain(location, stage);
    }
};
