// Contiguous columns scanned by clusters of blocks. The blocks of a cluster take neighbouring tiles and publish them as one, so
// that tile states are fewer and each block looks back for a part of the columns; they reach each other's shared memory sooner than
// a published state is seen. Lanes keep their rows in registers from the round after their folding on: tiles are a third larger
// than where four lie in shared memory, and there is as much more time until a tile's prefix is needed.
#pragma once
#include "contiguous_columns.cuh"

const int CLUSTER_BLOCKS = 2, CLUSTER_RADIX = 8;  // blocks of a cluster; of the look-back

template <class Op, class Emit, int WarpGroups, int WarpsPerGroup, int LookBackWarps, bool Exclusive, int Rows>
struct ClusterColumnScan
    : ContiguousColumnScan<Op, Emit, WarpGroups, WarpsPerGroup, LookBackWarps, false, Exclusive, CLUSTER_RADIX, CLUSTER_RADIX,
                           WRITE_DELAY + 1, true> {
    typedef typename ClusterColumnScan::ContiguousColumnScan Columns;
    typedef typename Columns::Ops Ops;
    typedef typename Columns::In In;
    typedef typename Columns::State State;
    typedef typename Columns::TileLocation TileLocation;
    typedef typename Columns::SharedScratch SharedScratch;
    typedef typename Columns::PendingState PendingState;
    typedef typename Emit::Out Out;
    using Columns::task, Columns::lane, Columns::warp_group, Columns::width, Columns::row_group, Columns::column, Columns::tile,
        Columns::share, Columns::is_inner, Columns::is_reverse, Columns::is_idle, Columns::sync_group, Columns::drain,
        Columns::scratch, Columns::part_state, Columns::scratch_index, Columns::parts, Columns::column_of;
    static_assert(Columns::in_place && WarpsPerGroup > 1 && sizeof(State) <= 16, "what is written for");
    static const int stages = WRITE_DELAY + 1, batch = 4, cluster_blocks = CLUSTER_BLOCKS;
    static const u32 look_back_columns = 32 * LookBackWarps;  // columns that a block looks back for
    static const bool keeps_elements = true;
    struct RegisterTile { Pack<In, 1> row[Rows]; };
    // A state sent to another block: each of its words with the number of its tile in one 64-bit word. So the sender need not wait
    // until its words have been seen before it raises a flag, which takes a microsecond each time.
    static const int words = (sizeof(State) + 3) / 4;
    struct ClusterMessage { u64 words[ClusterColumnScan::words]; };
    // What this block receives from the other one.
    struct ClusterMessages {
        // A round, and the tile number that the first block took for it.
        u64 tile_number[RING_SLOTS];
        // The sums of the other block's tile; the prefixes of this one's.
        ClusterMessage sums[STATE_SLOTS][look_back_columns], prefixes[STATE_SLOTS][look_back_columns];
    };

    const u32 rank;
    GR_HD ClusterColumnScan(const Strips& scan) : Columns(scan), rank(cluster_rank<CLUSTER_BLOCKS>()) {}
    GR_HD ClusterMessages& messages() const { return *(ClusterMessages*)((u8*)&scratch() + (sizeof(SharedScratch) + 7) / 8 * 8); }
    // All threads of the block call. One barrier of the cluster.
    GR_HD void begin() const {
        Columns::begin();
        for (u32 i = threadIdx.x; i < sizeof(ClusterMessages) / 8; i += blockDim.x) ((u64*)&messages())[i] = 0;
        sync_cluster<CLUSTER_BLOCKS>();
    }

    // One thread of each block of the cluster calls: the first takes a tile number for both.
    GR_HD u32 take_tile(u32* ticket) const { return rank == 0 ? atomicAdd(ticket, 1u) : 0; }
    GR_HD u64 tile_of(u32 round, u32 tile_number) const {
        u64* const message = &messages().tile_number[round % RING_SLOTS];
        if (rank == 0) put_remote<CLUSTER_BLOCKS>(message, (u64)(round + 1) << 32 | tile_number, 1);
        else tile_number = await_remote_word(message, round + 1);
        return (u64)tile_number * CLUSTER_BLOCKS + rank;
    }

    // `send`: to the other block. `receive`: from it; waits.
    GR_HD void send(ClusterMessage& to, State state, u32 number) const {
        const Exchanged<State> from(state);
        unrolled<words>([&](int i) { put_remote<CLUSTER_BLOCKS>(&to.words[i], (u64)number << 32 | from.words[i], 1 - rank); });
    }
    static GR_HD State receive(const ClusterMessage& from, u32 number) {
        Exchanged<State> to;
        unrolled<words>([&](int i) { to.words[i] = await_remote_word(&from.words[i], number); });
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
    // All lanes of a warp call, LookBackWarps warps for a tile: each looks back for its columns of both blocks' tiles together, of
    // which it receives the sums, and sends the other block its prefixes.
    GR_HD void find_prefixes(const TileLocation& location, u32 slot, u32 look_back_warp) const {
        const u32 place = look_back_warp * 32 + lane, mine = rank * look_back_columns + place;
        const u32 others = (1 - rank) * look_back_columns + place, number = (u32)(location.link / CLUSTER_BLOCKS) + 1;
        ClusterMessage &sums = messages().sums[slot][place], &prefixes = messages().prefixes[slot][place];
        send(sums, own_state(slot, others), number);
        const State here = own_state(slot, mine);
        // A block that has its prefix may send the sums of a later tile: these sums are read before it is sent.
        const State there = receive(sums, number), first = rank == 0 ? here : there, second = rank == 0 ? there : here;
        const State all = Op::combine(first, second);
        __syncwarp();
        const bool active = mine < width;
        const u64 line = column_of(location, mine), links = task.links / CLUSTER_BLOCKS;
        State start = Op::identity();
        if (task.carry && active) start = LineEnds<Op>::before(task, line);
        const State before = typename Columns::Links(task, 0, mine, active, CLUSTER_BLOCKS * look_back_columns, links, active)
                                 .before(location.link / CLUSTER_BLOCKS, all, start, {0, 0}, {0, 1, 32}, ~0u);
        const State between = Op::combine(before, first);
        send(prefixes, rank == 0 ? between : before, number);
        if (task.totals && active && location.link / CLUSTER_BLOCKS + 1 == links)
            LineEnds<Op>::keep(task, line, Op::combine(between, second));
        write_prefixes(slot, mine, rank == 0 ? before : between);
        write_prefixes(slot, others, receive(prefixes, number));
    }

    // Which rows of a lane exist, in the order of the scan.
    GR_HD void bounds(const TileLocation& location, u32& from, u32& end) const {
        u32 low, high;
        Columns::bounds(location, warp_group * share() + row_group * Rows * width + column, Rows, low, high);
        from = is_reverse() ? Rows - high : low;
        end = is_reverse() ? Rows - low : high;
    }
    template <int Begin, class Scan> GR_HD void exchange_rows(u8* at, i32 step, Scan& scan, RegisterTile& elements_kept) const {
        const int Count = Rows - Begin < batch ? Rows - Begin : batch;
        Pack<In, 1> from[Count], taken[Count];
        Pack<Out, 1> results[Count];
        unrolled<Count>([&](int i) { taken[i] = take_pack<In, 1>(at + i * step); });
        unrolled<Count>([&](int i) { from[i] = elements_kept.row[Begin + i]; });
        scan.rows(from, results);
        unrolled<Count>([&](int i) {
            put_pack<Out, 1>(at + i * step, results[i]);
            elements_kept.row[Begin + i] = taken[i];
        });
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
