// Tiles of lines that lie side by side where one row follows another in memory: a tile is one stretch of memory, whole rows, and is
// copied as such, whatever the number of columns.
#pragma once
#include "chained_look_back.cuh"
#include "pipeline.cuh"
#include "warp_share.cuh"

// Positions count the elements of a plane from the aligned 16 bytes on that hold its first one, which has position `lead`. Rows of
// positions have `width` columns as rows of elements do, rotated by `lead`.
//
// A warp group is WarpsPerGroup warps that take a share of a tile and wait for no warps but those that look back. A row group is
// the lanes of a warp group that have one row together. LookBackWarps: warps that look back for a tile. Lines: planes follow one
// another, many begin within a tile, and all are one chain. Radix, Slots: of the look-back. Stages: tiles in shared memory.
template <class Op, class Emit, int WarpGroups, int WarpsPerGroup, int LookBackWarps, bool Lines, int Radix, int Slots,
          int Stages = STAGES>
struct ContiguousTile : TileWork<Strips, WarpGroups * WarpsPerGroup, LookBackWarps> {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef SegmentedState<Op, Lines> Running;
    typedef typename Running::State State;
    typedef typename Emit::Out Out;
    static const u32 lanes = 32 * WarpsPerGroup;  // of a warp group
    static const bool in_place = sizeof(In) == sizeof(Out);
    static const bool prefetches_tile = true;
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

    const Strips& task;
    const u32 lane, warp_group, group_thread;  // group_thread: this thread's number in its warp group
    const u32 width, rows, row_groups;         // columns; rows of a row group; row groups of all warp groups
    GR_HD ContiguousTile(const Strips& scan)
        : task(scan), lane(threadIdx.x % 32), warp_group(threadIdx.x / lanes), group_thread(threadIdx.x % lanes),
          width((u32)scan.width), rows((u32)scan.rows), row_groups((u32)scan.row_groups) {}

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

    // All threads of a warp group call, for the packs of 16 bytes of its share. Calls whole(byte) for each pack of a thread where all
    // positions are elements, else part(byte, begin, end), which are those that are.
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
        const u32 all = LookBackWarps * Links::LINE, per = (width + all - 1) / all * Links::LINE, groups = 32 / per;
        const LaneGroups lane_groups = {groups > 1 ? lane / per : 0, groups, per};
        const u32 place = lane - lane_groups.group * per, column = look_back_warp * per + place;
        const bool active = place < per && column < width && lane_groups.group < groups;
        const u32 share = lane_groups.share(parts()), begin = lane_groups.group * share;
        const u32 end = !active ? 0 : begin + share < parts() ? begin + share : parts();
        State own = Running::identity(), start = own;
#pragma unroll 4
        for (u32 t = begin; t < end; t++) own = Running::combine(own, part_state(slot, t, column));
        const State through = lane_groups.template through<Running>(own);
        const State exclusive = lane_groups.template of<Running>(through, lane_groups.group > 0 ? lane_groups.group - 1 : 0);
        const u64 line = location.chain * width + column_of(location, column);
        if (!Lines && task.carry && active) start = Running::of(LineEnds<Op>::before(task, line), false);
        own = lane_groups.template of<Running>(through, groups - 1);
        const bool publishes = place < per && lane_groups.group == 0;
        const Links chain(task, location.chain, column, active, per * LookBackWarps, task.links, publishes);
        State before = chain.before(location.link, own, start, counts_of(location, column), lane_groups);
        if (!active) return;
        if (lane_groups.group > 0) before = Running::combine(before, exclusive);
        State next = begin < end ? part_state(slot, begin, column) : before;
#pragma unroll 2
        for (u32 t = begin; t < end; t++) {
            const State here = next;
            if (t + 1 < end) next = part_state(slot, t + 1, column);
            part_state(slot, t, column) = before;
            before = Running::combine(before, here);
        }
        if (!Lines && task.totals && location.link + 1 == task.links && lane_groups.group + 1 == groups)
            LineEnds<Op>::keep(task, line, Running::value(before));
    }
    // How many elements of a column come before a tile.
    GR_HD ElementCounts counts_of(const TileLocation& location, u32 column) const {
        const i64 each = (i64)row_groups * rows, less = column < width ? rows_ahead(location, column) : 0;
        return {each, is_reverse() ? (i64)task.length + less - (i64)task.links * each : -less};
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
};
