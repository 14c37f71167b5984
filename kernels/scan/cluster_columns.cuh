// Contiguous columns scanned by clusters of blocks. The blocks of a cluster take neighbouring tiles and publish them as one, so
// that tile states are fewer and each block looks back for a part of the columns; they reach each other's shared memory sooner than
// a published state is seen. Lanes keep their rows in registers from the round after their folding on: tiles are a third larger
// than where four lie in shared memory, and there is as much more time until a tile's prefix is needed.
#pragma once
#include "../block/cluster.cuh"
#include "contiguous_columns.cuh"

template <class Op, class Emit, int WarpGroups, int WarpsPerGroup, int LookBackWarps, bool Exclusive, int Radix, int Rows,
          int Blocks>
struct ClusterColumnScan : ContiguousColumnScan<Op, Emit, WarpGroups, WarpsPerGroup, LookBackWarps, false, Exclusive, Radix,
                                                Radix, WRITE_DELAY + 1, ShiftedColumnOps<Op, Emit, 1, Exclusive>> {
    typedef ShiftedColumnOps<Op, Emit, 1, Exclusive> Ops;
    typedef typename ClusterColumnScan::ContiguousColumnScan Columns;
    typedef typename Columns::In In;
    typedef typename Columns::State State;
    typedef typename Columns::TileLocation TileLocation;
    typedef typename Columns::Links Links;
    typedef typename Columns::SharedScratch SharedScratch;
    typedef typename Columns::PendingState PendingState;
    typedef typename Emit::Out Out;
    using Columns::task, Columns::lane, Columns::warp_group, Columns::width, Columns::row_group, Columns::column, Columns::tile,
        Columns::share, Columns::is_inner, Columns::is_reverse, Columns::is_idle, Columns::sync_group, Columns::drain,
        Columns::scratch, Columns::part_state, Columns::scratch_index, Columns::parts, Columns::column_of;
    static_assert(Columns::in_place && WarpsPerGroup > 1 && sizeof(State) <= 16, "what is written for");
    static const int stages = WRITE_DELAY + 1, batch = 4, cluster_blocks = Blocks;
    static const u32 look_back_columns = 32 * LookBackWarps;  // columns that a block looks back for
    static const bool keeps_elements = true;
    struct RegisterTile { Pack<In, 1> row[Rows]; };
    // A state sent to another block: each of its words with the number of its tile in one 64-bit word. So the sender need not wait
    // until its words have been seen before it raises a flag, which takes a microsecond each time.
    static const int words = (sizeof(State) + 3) / 4;
    struct ClusterMessage { u64 words[ClusterColumnScan::words]; };
    // What this block receives, by the distance in the cluster of the block that sends it.
    struct ClusterMessages {
        // A round, and the tile number that the first block took for it.
        u64 tile_number[RING_SLOTS];
        // The sums of another block's tile; the prefixes of this one's.
        ClusterMessage sums[STATE_SLOTS][Blocks - 1][look_back_columns], prefixes[STATE_SLOTS][Blocks - 1][look_back_columns];
    };

    const u32 rank;
    GR_HD ClusterColumnScan(const Strips& scan) : Columns(scan), rank(cluster_rank<Blocks>()) {}
    GR_HD ClusterMessages& messages() const { return *(ClusterMessages*)((u8*)&scratch() + (sizeof(SharedScratch) + 7) / 8 * 8); }
    // All threads of the block call. One barrier of the cluster.
    GR_HD void begin() const {
        Columns::begin();
        for (u32 i = threadIdx.x; i < sizeof(ClusterMessages) / 8; i += blockDim.x) ((u64*)&messages())[i] = 0;
        sync_cluster<Blocks>();
    }

    // One thread of each block of the cluster calls: the first takes a tile number for all.
    GR_HD u32 take_tile(u32* ticket) const { return rank == 0 ? atomicAdd(ticket, 1u) : 0; }
    GR_HD u64 tile_of(u32 round, u32 tile_number) const {
        u64* const message = &messages().tile_number[round % RING_SLOTS];
        if (rank == 0) {
#pragma unroll
            for (u32 to = 1; to < Blocks; to++) put_remote<Blocks>(message, (u64)(round + 1) << 32 | tile_number, to);
        } else {
            tile_number = await_remote_word(message, round + 1);
        }
        return (u64)tile_number * Blocks + rank;
    }

    // `send`: to the block `away` places on in the cluster. `receive`: from it; waits.
    GR_HD void send(ClusterMessage (&in)[Blocks - 1][look_back_columns], u32 place, State state, u32 number, u32 away) const {
        const Exchanged<State> from(state);
#pragma unroll
        for (int i = 0; i < words; i++)
            put_remote<Blocks>(&in[Blocks - 1 - away][place].words[i], (u64)number << 32 | from.words[i], (rank + away) % Blocks);
    }
    static GR_HD State receive(const ClusterMessage (&in)[Blocks - 1][look_back_columns], u32 place, u32 number, u32 away) {
        Exchanged<State> to;
#pragma unroll
        for (int i = 0; i < words; i++) to.words[i] = await_remote_word(&in[away - 1][place].words[i], number);
        return to.value;
    }
    // The state of this block's tile in a column.
    GR_HD State own_state(u32 slot, u32 position) const {
        State all = Op::identity();
#pragma unroll 4
        for (u32 t = 0; position < width && t < parts(); t++) all = Op::combine(all, part_state(slot, t, position));
        return all;
    }
    GR_HD void write_prefixes(u32 slot, u32 position, State before) const {
#pragma unroll 2
        for (u32 t = 0; position < width && t < parts(); t++) {
            const State here = part_state(slot, t, position);
            part_state(slot, t, position) = before;
            before = Op::combine(before, here);
        }
    }
    // All lanes of a warp call, LookBackWarps warps for a tile: each looks back for its columns of the cluster's tiles together, of
    // which it receives the sums, and sends the other blocks their prefixes.
    GR_HD void find_prefixes(const TileLocation& location, u32 slot, u32 look_back_warp) const {
        const u32 place = look_back_warp * 32 + lane, mine = rank * look_back_columns + place;
        const u32 number = (u32)(location.link / Blocks) + 1;
        ClusterMessages& in = messages();
#pragma unroll
        for (u32 i = 1; i < Blocks; i++)
            send(in.sums[slot], place, own_state(slot, (rank + i) % Blocks * look_back_columns + place), number, i);
        State sums[Blocks], all = Op::identity(), start = all;
        const State here = own_state(slot, mine);
        // A block that has its prefix may send the sums of a later tile: these sums are read before it is sent.
#pragma unroll
        for (u32 i = 0; i < Blocks; i++) {
            sums[i] = i == rank ? here : receive(in.sums[slot], place, number, (i + Blocks - rank) % Blocks);
            all = i == 0 ? sums[i] : Op::combine(all, sums[i]);
        }
        __syncwarp();
        const bool active = mine < width;
        const u64 line = column_of(location, mine);
        if (task.carry && active) start = LineEnds<Op>::before(task, line);
        State before = Links(task, 0, mine, active, Blocks * look_back_columns, task.links / Blocks, active)
                           .before(location.link / Blocks, all, start, {0, 0});
        State prefix = before;
#pragma unroll
        for (u32 i = 0; i < Blocks; i++) {
            if (i == rank) prefix = before;
            else send(in.prefixes[slot], place, before, number, (i + Blocks - rank) % Blocks);
            before = Op::combine(before, sums[i]);
        }
        if (task.totals && active && location.link / Blocks + 1 == task.links / Blocks) LineEnds<Op>::keep(task, line, before);
        write_prefixes(slot, mine, prefix);
#pragma unroll
        for (u32 i = 1; i < Blocks; i++)
            write_prefixes(slot, (rank + i) % Blocks * look_back_columns + place, receive(in.prefixes[slot], place, number, i));
    }

    // Which rows of a lane exist, in the order of the scan.
    GR_HD void bounds(const TileLocation& location, u32& from, u32& end) const {
        const u32 first = warp_group * share() + row_group * Rows * width + column;
        const u32 low = first < location.low ? (location.low - first + width - 1) / width : 0;
        u32 high = first < location.high ? (location.high - first + width - 1) / width : 0;
        high = high < Rows ? high : Rows;
        from = is_reverse() ? Rows - high : low;
        end = is_reverse() ? Rows - low : high;
    }
    template <int Begin, class Scan> GR_HD void exchange_rows(u8* at, i32 step, Scan& scan, RegisterTile& elements_kept) const {
        const int Count = Rows - Begin < batch ? Rows - Begin : batch;
        Pack<In, 1> from[Count], taken[Count];
        Pack<Out, 1> results[Count];
#pragma unroll
        for (int i = 0; i < Count; i++) taken[i] = take_pack<In, 1>(at + i * step);
#pragma unroll
        for (int i = 0; i < Count; i++) from[i] = elements_kept.row[Begin + i];
        scan.rows(from, results);
#pragma unroll
        for (int i = 0; i < Count; i++) {
            put_pack<Out, 1>(at + i * step, results[i]);
            elements_kept.row[Begin + i] = taken[i];
        }
        if constexpr (Begin + Count < Rows) exchange_rows<Begin + Count>(at + Count * step, step, scan, elements_kept);
    }
    // All threads that scan call. The results of the tile that is in registers, if there is one, take the place of the elements of
    // the next tile in shared memory, which are in registers from now on. One barrier of the warp group.
    GR_HD void exchange(const TileLocation* location, u32 slot, const TileLocation& next, u32 stage, const PendingState& folded,
                        RegisterTile& elements_kept) const {
        const bool has_next = next.tile < task.tiles;
        if (!is_idle()) {
            const State before[1] = {location ? scratch().state[slot][scratch_index()] : Op::identity()};
            const i32 step = (is_reverse() ? -(i32)width : (i32)width) * (i32)sizeof(In);
            u8* at = tile(stage) +
                     (warp_group * share() + (row_group * Rows + (is_reverse() ? Rows - 1 : 0)) * width + column) * (u32)sizeof(In);
            if (location && has_next && is_inner(*location) && is_inner(next) && folded.is_finite) {
                typename Ops::Scan scan(before, task.option);
                exchange_rows<0>(at, step, scan, elements_kept);
            } else {
                AnyColumnScan<Op, Emit, 1, Exclusive> scan(before, task.option);
                u32 from = 0, end = 0, first = 0, last = 0;
                if (location) bounds(*location, from, end);
                if (has_next) bounds(next, first, last);
#pragma unroll
                for (u32 i = 0; i < Rows; i++, at += step) {
                    const Pack<In, 1> one[1] = {elements_kept.row[i]};
                    if (i >= first && i < last) elements_kept.row[i] = take_pack<In, 1>(at);
                    if (i >= from && i < end) {
                        Pack<Out, 1> result[1];
                        scan.rows(one, result);
                        put_pack<Out, 1>(at, result[0]);
                    }
                }
            }
        }
        sync_group();  // all have their rows, and have left results
        if (location) drain(*location, stage);
    }
};
