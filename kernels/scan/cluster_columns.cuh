// Strands of columns by blocks that are allies: those of a cluster take neighbouring tiles and post them as one, so that posts
// are fewer and each block looks back for a part of the columns. They reach each other's shared memory sooner than posts are
// seen. And lanes hold their rows in registers from the round after their folding on: tiles are a third larger than where four
// lie in shared memory, and there is as much more time until what comes before a tile is wanted.
#pragma once
#include "../block/cluster.cuh"
#include "contiguous_columns.cuh"

template <class Op, class Emit, int Gangs, int Each, int Lookers, bool Exclusive, int Stretch, int Rows, int Blocks>
struct AlliedStrands : StrandScan<Op, Emit, Gangs, Each, 1, Lookers, true, false, Exclusive, Stretch, Stretch, LAG + 1,
                                  MovedBesides<Op, Emit, 1, Exclusive>> {
    typedef MovedBesides<Op, Emit, 1, Exclusive> Ways;
    typedef StrandScan<Op, Emit, Gangs, Each, 1, Lookers, true, false, Exclusive, Stretch, Stretch, LAG + 1, Ways> Strands;
    typedef typename Strands::In In;
    typedef typename Strands::State State;
    typedef typename Strands::Spot Spot;
    typedef typename Strands::AtOnce AtOnce;
    typedef typename Strands::Notes Notes;
    typedef typename Strands::Held Held;
    typedef typename Emit::Out Out;
    using Strands::task, Strands::lane, Strands::gang, Strands::width, Strands::team, Strands::column, Strands::tile, Strands::share,
        Strands::is_inner, Strands::is_reverse, Strands::is_idle, Strands::meet, Strands::drain, Strands::notes, Strands::noted,
        Strands::noted_at, Strands::parts, Strands::column_of;
    static_assert(Strands::in_place && Each > 1 && sizeof(State) <= 16, "what is written for");
    static const int stages = LAG + 1, batch = 4;
    static const u32 looked = 32 * Lookers;  // columns that a block looks back for
    struct Elements { Pack<In, 1> row[Rows]; };
    // A state as it is told: every word of it beside the number of what it is of, both written at once. Nobody waits until others
    // have seen what he wrote, as who raises a flag behind it does: a microsecond each time.
    static const int words = (sizeof(State) + 3) / 4;
    struct Letter { u64 words[AlliedStrands::words]; };
    // What this block is told, by how far away in the cluster who tells it is.
    struct Letters {
        u64 drawn[SPOTS];                                                       // a round, and what the first of them drew for it
        Letter sums[SLOTS][Blocks - 1][looked], bases[SLOTS][Blocks - 1][looked];  // of a block's tile; what comes before this one's
    };

    const u32 rank;
    GR_HD AlliedStrands(const Strips& scan) : Strands(scan), rank(cluster_rank<Blocks>()) {}
    GR_HD Letters& letters() const { return *(Letters*)((u8*)&notes() + (sizeof(Notes) + 7) / 8 * 8); }
    // All threads call, before a meeting.
    GR_HD void begin() const {
        for (u32 i = threadIdx.x; i < sizeof(Letters) / 8; i += blockDim.x) ((u64*)&letters())[i] = 0;
    }

    // One thread of each ally calls: the first draws for all.
    GR_HD u32 draw(u32* ticket) const { return rank == 0 ? atomicAdd(ticket, 1u) : 0; }
    GR_HD u64 tile_of(u32 round, u32 drawn) const {
        u64* const letter = &letters().drawn[round % SPOTS];
        if (rank == 0) {
#pragma unroll
            for (u32 to = 1; to < Blocks; to++) put_beside<Blocks>(letter, (u64)(round + 1) << 32 | drawn, to);
        } else {
            drawn = await_word_beside(letter, round + 1);
        }
        return (u64)drawn * Blocks + rank;
    }

    // To the ally so many places on; from it.
    GR_HD void tell(Letter (&in)[Blocks - 1][looked], u32 place, State state, u32 number, u32 away) const {
        const Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < words; i++)
            put_beside<Blocks>(&in[Blocks - 1 - away][place].words[i], (u64)number << 32 | from.words[i], (rank + away) % Blocks);
    }
    static GR_HD State told(const Letter (&in)[Blocks - 1][looked], u32 place, u32 number, u32 away) {
        Exchanged<State> to;
#pragma unroll
        for (int i = 0; i < words; i++) to.words[i] = await_word_beside(&in[away - 1][place].words[i], number);
        return to.value;
    }
    // Of this block's tile, in a column.
    GR_HD State own(u32 slot, u32 position) const {
        State all = Op::identity();
#pragma unroll 4
        for (u32 t = 0; position < width && t < parts(); t++) all = Op::combine(all, noted(slot, t, position));
        return all;
    }
    GR_HD void note(u32 slot, u32 position, State before) const {
#pragma unroll 2
        for (u32 t = 0; position < width && t < parts(); t++) {
            const State here = noted(slot, t, position);
            noted(slot, t, position) = before;
            before = Op::combine(before, here);
        }
    }
    // One warp calls, Lookers for a tile: each looks back for the same columns as others do for the tiles of the allies
    // together, of which it is told what they hold.
    GR_HD void find_bases(const Spot& spot, u32 slot, u32 looker) const {
        const u32 place = looker * 32 + lane, mine = rank * looked + place, number = (u32)(spot.link / Blocks) + 1;
        Letters& in = letters();
#pragma unroll
        for (u32 i = 1; i < Blocks; i++) tell(in.sums[slot], place, own(slot, (rank + i) % Blocks * looked + place), number, i);
        State sums[Blocks], all = Op::identity(), start = all;
        const State here = own(slot, mine);
        // Who has its base may tell sums of a later tile: these are read before it is told.
#pragma unroll
        for (u32 i = 0; i < Blocks; i++) {
            sums[i] = i == rank ? here : told(in.sums[slot], place, number, (i + Blocks - rank) % Blocks);
            all = i == 0 ? sums[i] : Op::combine(all, sums[i]);
        }
        __syncwarp();
        const bool active = mine < width;
        const u64 line = column_of(spot, mine);
        if (task.carry && active) start = ((const State*)task.carry)[line];
        State before = AtOnce(task, task.links / Blocks, 0, mine, active, active, Blocks * looked)
                           .before(spot.link / Blocks, all, start, {0, 1, 32}, {0, 0});
        State base = before;
#pragma unroll
        for (u32 i = 0; i < Blocks; i++) {
            if (i == rank) base = before;
            else tell(in.bases[slot], place, before, number, (i + Blocks - rank) % Blocks);
            before = Op::combine(before, sums[i]);
        }
        if (task.totals && active && spot.link / Blocks + 1 == task.links / Blocks) ((State*)task.totals)[line] = before;
        note(slot, mine, base);
#pragma unroll
        for (u32 i = 1; i < Blocks; i++)
            note(slot, (rank + i) % Blocks * looked + place, told(in.bases[slot], place, number, i));
    }

    // In the order of the scan: which rows of a lane there are.
    GR_HD void bounds(const Spot& spot, u32& from, u32& end) const {
        const u32 first = gang * share() + team * Rows * width + column;
        const u32 low = first < spot.low ? (spot.low - first + width - 1) / width : 0;
        u32 high = first < spot.high ? (spot.high - first + width - 1) / width : 0;
        high = high < Rows ? high : Rows;
        from = is_reverse() ? Rows - high : low;
        end = is_reverse() ? Rows - low : high;
    }
    template <int Begin, class Scan> GR_HD void turn_rows(u8* at, i32 step, Scan& scan, Elements& held) const {
        const int Count = Rows - Begin < batch ? Rows - Begin : batch;
        Pack<In, 1> from[Count], taken[Count];
        Pack<Out, 1> results[Count];
#pragma unroll
        for (int i = 0; i < Count; i++) taken[i] = take_pack<In, 1>(at + i * step);
#pragma unroll
        for (int i = 0; i < Count; i++) from[i] = held.row[Begin + i];
        scan.rows(from, results);
#pragma unroll
        for (int i = 0; i < Count; i++) {
            put_pack<Out, 1>(at + i * step, results[i]);
            held.row[Begin + i] = taken[i];
        }
        if constexpr (Begin + Count < Rows) turn_rows<Begin + Count>(at + Count * step, step, scan, held);
    }
    // All threads that scan call. The results of the tile that is held, if there is one, take the place of the elements of the
    // next one, which are held from now on.
    GR_HD void turn(const Spot* spot, u32 slot, const Spot& next, u32 stage, const Held& folded, Elements& held) const {
        const bool takes = next.tile < task.tiles;
        if (!is_idle()) {
            const State before[1] = {spot ? notes().state[slot][noted_at()] : Op::identity()};
            const i32 step = (is_reverse() ? -(i32)width : (i32)width) * (i32)sizeof(In);
            u8* at = tile(stage) + (gang * share() + (team * Rows + (is_reverse() ? Rows - 1 : 0)) * width + column) * (u32)sizeof(In);
            if (spot && takes && is_inner(*spot) && is_inner(next) && folded.right) {
                typename Ways::Scan scan(before, task.option);
                turn_rows<0>(at, step, scan, held);
            } else {
                ScanAny<Op, Emit, 1, Exclusive> scan(before, task.option);
                u32 from = 0, end = 0, first = 0, last = 0;
                if (spot) bounds(*spot, from, end);
                if (takes) bounds(next, first, last);
#pragma unroll
                for (u32 i = 0; i < Rows; i++, at += step) {
                    const Pack<In, 1> one[1] = {held.row[i]};
                    if (i >= first && i < last) held.row[i] = take_pack<In, 1>(at);
                    if (i >= from && i < end) {
                        Pack<Out, 1> result[1];
                        scan.rows(one, result);
                        put_pack<Out, 1>(at, result[0]);
                    }
                }
            }
        }
        meet();  // all have their rows, and have left results
        if (spot) drain(*spot, stage);
    }
};

// Grid: any number of clusters, of Blocks blocks of Gangs Each + LAG Lookers warps.
template <class Op, class Emit, int Gangs, int Each, int Lookers, bool Exclusive, int Stretch, int Rows, int Blocks,
          class Work = AlliedStrands<Op, Emit, Gangs, Each, Lookers, Exclusive, Stretch, Rows, Blocks>>
__global__ void GR_CLUSTER(Blocks) __launch_bounds__(32 * (Gangs * Each + LAG * Lookers), GR_BLOCKS)
    scan_allies(const __grid_constant__ Strips task) {
    if (threadIdx.x == 0) begin_named(Work::FIRST, Work::FIRST + Gangs - 1, Work::lanes);
    const Work work(task);
    work.begin();
    meet_cluster<Blocks>();
    Pipeline<Work, Gangs * Each, Lookers>(work, task.tiles, task.ticket).run();  // whoever is sent a thing awaits it
}
