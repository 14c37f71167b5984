// Tiles of lines that lie side by side where one row follows another in memory: a tile is one stretch of it, whole rows, and
// is copied as such, whatever the number of columns.
#pragma once
#include "../block/named.cuh"
#include "../core/scan_task.cuh"
#include "../core/task.cuh"
#include "chained_look_back.cuh"
#include "column_ops.cuh"
#include "pipeline.cuh"
#include "scan_state.cuh"
#include "warp_share.cuh"

// Sums of float64, the one kind of states so large of which it has been measured how they are best looked back for.
template <class Op> struct InPairs { static const bool yes = false; };
template <class Map> struct InPairs<Sum<Map, Twofold>> { static const bool yes = true; };

// Positions count the elements of a plane from where 16 bytes are aligned, `lead` before its first one: they are in rows of
// `width` as elements are, and their columns those of elements, turned by `lead`. A gang is
// Each warps that take a share of a tile, and waits for nobody but those that look back. States counts those of a tile, of so
// many a column; for each tile Lookers warps look back. Lines: planes follow one another, and many begin within a tile; all are
// one chain. Stretch, Slots: of a chain that is looked for at once, else 0. Stages: tiles in shared memory.
template <class Op, class Emit, int Gangs, int Each, int States, int Lookers, bool Anchored, bool Lines, int Stretch = 0, int Slots = 0, int Stages = STAGES>
struct DenseTiles {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef Flowing<Op, Lines> Flow;
    typedef typename Flow::State State;
    typedef typename Emit::Out Out;
    static const int Warps = Gangs * Each;
    static const u32 lanes = 32 * Each;  // of a gang
    static const bool in_place = sizeof(In) == sizeof(Out);
    static const bool draws_early = Anchored;
    static const bool meets = !Busy<Op>::yes;
    static const u32 FIRST = 4 * LAG + 1;  // barrier of a gang
    // H200, 2026-11, shares of a copy, deep and not: sums of float32 down (n, 5) 0.90 and 0.85, (n, 8) 0.92 and 0.90, (n, 33)
    // 0.77 and 0.79, of float64 (n, 5) 0.78 and 0.71, (n, 32) 0.70 and 0.77; maxima of float32 (n, 32) 0.95 and 0.94.
    // Not of braids, which have a state a warp: sums of float32 down (n, 3) 0.93 and 0.96.
    static const bool deep = Anchored && States >= 32 * Warps && Lookers <= (sizeof(State) <= 4 ? 4 : sizeof(State) <= 8 ? 3 : InPairs<Op>::yes && !Lines ? 1 : 0);
    typedef typename Either<deep, DeepChain<Flow, 2>, Chain<Flow, Anchored, true>>::type Links;
    typedef AtOnceChain<Op, (Stretch > 0 ? Stretch : 1), (Slots > 0 ? Slots : 1)> AtOnce;
    static const bool at_once = Stretch > 0;
    static_assert(!at_once || !Lines, "lines that begin within a tile are looked back for by steps");
    static_assert(Each == 1 || FIRST + Gangs <= 16, "as many barriers as there are");
    // Where a tile lies in memory, and which of its positions are elements.
    struct Spot {
        u64 tile, link, chain;
        const u8* a;
        u8* out;
        u32 low, high, lead;
        u64 row;  // of positions, its first
    };
    struct Notes {
        Rounds<Spot> rounds;
        State state[SLOTS][States];  // of parts, by columns; then what comes before them
    };

    const Strips& task;
    const u32 lane, gang, member;  // member: of a gang, this thread
    const u32 width, rows, teams;  // rows of a team; teams of all gangs
    GR_HD DenseTiles(const Strips& scan)
        : task(scan), lane(threadIdx.x % 32), gang(threadIdx.x / lanes), member(threadIdx.x % lanes), width((u32)scan.width),
          rows((u32)scan.rows), teams((u32)scan.teams) {}

    GR_HD u32 share() const { return teams / Gangs * rows * width; }  // elements of a gang
    GR_HD u32 elements() const { return Gangs * share(); }
    // All threads of a gang call.
    GR_HD void meet() const {
        if (Each > 1) wait_at(FIRST + gang, lanes);
        else __syncwarp();
    }
    GR_HD bool is_reverse() const { return task.step_out < 0; }
    GR_HD u8* tile(u32 stage) const { return GR_SHARED + stage * elements() * (u32)sizeof(In); }
    GR_HD u8* results(u32 stage) const { return in_place ? tile(stage) : tile(Stages); }
    GR_HD Notes& notes() const {
        return *(Notes*)(tile(Stages) + (in_place ? 0 : elements() * (u32)sizeof(Out)));
    }
    GR_HD Rounds<Spot>& rounds() const { return notes().rounds; }

    // One lane calls.
    GR_HD Spot spot_of(u64 tile) const {
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
                first == 0 ? lead : 0, left < elements() ? (u32)left : elements(), lead, number * teams * rows};
    }
    GR_HD bool is_inner(const Spot& spot) const { return spot.low == 0 && spot.high == elements(); }

    // Each thread fetches the packs of 16 bytes that it drains.
    GR_HD void fetch(const Spot& spot, u32 stage) const {
        u8* const to = tile(stage);
        const u32 bytes = (gang + 1) * share() * (u32)sizeof(In), mine = gang * share() * (u32)sizeof(In) + member * 16;
        const u32 begin = spot.low * (u32)sizeof(In), end = spot.high * (u32)sizeof(In);
        if (is_inner(spot)) {
#pragma unroll 4
            for (u32 at = mine; at < bytes; at += lanes * 16) copy_async(to + at, spot.a + at);
            return;
        }
#pragma unroll 1
        for (u32 at = mine; at < bytes; at += lanes * 16) {
            if (at >= begin) {
                copy_async_part(to + at, spot.a + at, at + 16 <= end ? 16 : at < end ? end - at : 0);
                continue;
            }
#pragma unroll 1
            for (u32 byte = at; byte < at + 16; byte++)
                if (byte >= begin && byte < end) to[byte] = spot.a[byte];
        }
    }
    GR_HD void drain(const Spot& spot, u32 stage) const {
        const u8* const from = results(stage);
        const u32 bytes = (gang + 1) * share() * (u32)sizeof(Out), mine = gang * share() * (u32)sizeof(Out) + member * 16;
        const u32 begin = spot.low * (u32)sizeof(Out), end = spot.high * (u32)sizeof(Out);
        if (is_inner(spot)) {
#pragma unroll 4
            for (u32 at = mine; at < bytes; at += lanes * 16)
                __stcs((uint4*)(spot.out + at), *(const uint4*)(from + at));
            return;
        }
#pragma unroll 1
        for (u32 at = mine; at < bytes; at += lanes * 16) {
            if (at >= begin && at + 16 <= end) __stcs((uint4*)(spot.out + at), *(const uint4*)(from + at));
            else
#pragma unroll 1
                for (u32 byte = at; byte < at + 16; byte++)
                    if (byte >= begin && byte < end) spot.out[byte] = from[byte];
        }
    }

    // One warp calls, Lookers for a tile, each for some columns. What comes before each part, of which groups of lanes take
    // some each.
    GR_HD void find_bases(const Spot& spot, u32 slot, u32 looker) const {
        const u32 unit = at_once ? AtOnce::LINE : 1, per = (width + Lookers * unit - 1) / (Lookers * unit) * unit, groups = 32 / per;
        const Dealt by = {groups > 1 ? lane / per : 0, groups, per};
        const u32 place = lane - by.group * per, column = looker * per + place;
        const bool active = place < per && column < width && by.group < groups;
        const u32 share = by.share(parts()), begin = by.group * share;
        const u32 end = !active ? 0 : begin + share < parts() ? begin + share : parts();
        State own = Flow::identity(), start = own;
#pragma unroll 4
        for (u32 t = begin; t < end; t++) own = Flow::combine(own, noted(slot, t, column));
        const State through = by.template through<Flow>(own);
        const State within = by.template of<Flow>(through, by.group > 0 ? by.group - 1 : 0);
        const u64 line = spot.chain * width + column_of(spot, column);
        if (!Lines && task.carry && active) start = Flow::of(((const Value*)task.carry)[line], false);
        own = by.template of<Flow>(through, groups - 1);
        State before;
        if constexpr (at_once)
            before = AtOnce(task, task.links, 0, column, active, place < per && by.group == 0, per * Lookers)
                         .before(spot.link, own, start, by, counts_of(spot, column));
        else
            before = Links(task, spot.chain, column, active, width < 8 ? 8 : width).before(spot.link, own, start, by);
        if (!active) return;
        if (by.group > 0) before = Flow::combine(before, within);
        State next = begin < end ? noted(slot, begin, column) : before;
#pragma unroll 2
        for (u32 t = begin; t < end; t++) {
            const State here = next;
            if (t + 1 < end) next = noted(slot, t + 1, column);
            noted(slot, t, column) = before;
            before = Flow::combine(before, here);
        }
        if (!Lines && task.totals && spot.link + 1 == task.links && by.group + 1 == groups)
            ((Value*)task.totals)[line] = Flow::value(before);
    }
    // Elements of a column before a tile.
    GR_HD Counts counts_of(const Spot& spot, u32 column) const {
        const i64 each = (i64)teams * rows, less = column < width ? turned(spot, column) : 0;
        return {each, is_reverse() ? (i64)task.length + less - (i64)task.links * each : -less};
    }
    // Whose states are noted: those of a gang of one warp together, else each team's.
    GR_HD u32 parts() const { return Each == 1 ? Gangs : teams; }
    // Of a part, counted in the order of the scan.
    GR_HD State& noted(u32 slot, u32 t, u32 column) const {
        return notes().state[slot][(is_reverse() ? parts() - 1 - t : t) * width + column];
    }
    // The column of elements that a column of positions is.
    GR_HD u32 column_of(const Spot& spot, u32 position) const {
        return position + turned(spot, position) * width - spot.lead;
    }
    // By how many rows positions of a column are ahead of its elements.
    GR_HD u32 turned(const Spot& spot, u32 position) const {
        return position < spot.lead ? (spot.lead - position + width - 1) / width : 0;
    }
};
