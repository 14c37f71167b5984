// any and all along one line: results are one truth value up to the first element that decides, and the other from there on. So a
// share is folded to one position, and its elements make room for others as soon as that is known. Both arrays start where position
// `lead` of packs of 16 bytes would.
#pragma once
#include "look_back.cuh"
#include "pipeline.cuh"
#include "warp_share.cuh"

template <class Op, int Warps, int Run> struct AnyAllScan : TileWork<Scan, Warps, 1> {
    typedef typename Op::In In;
    static const bool after = IsSame<Op, Any<In>>::yes;  // the result from the element that decides on
    static const int V = 16 / sizeof(In), elements = 32 * Run * V, bytes = elements * sizeof(In);
    static const int stage_bytes = Warps * bytes, tile_elements = Warps * elements;
    static const int shared_tiles = 2;  // tiles in shared memory: one comes while one is folded
    struct TileLocation { u64 tile; };
    struct SharedScratch {
        u32 decided[STATE_SLOTS][Warps];  // by rounds: whether a warp's share has an element that decides
        u32 before[STATE_SLOTS][Warps];   // by rounds: whether there is one before the share
        TileRing<TileLocation> ring;
    };

    const Scan& task;
    const u32 warp, lane;
    GR_HD AnyAllScan(const Scan& scan) : task(scan), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD SharedScratch& scratch() const { return *(SharedScratch*)(GR_SHARED + shared_tiles * stage_bytes); }
    GR_HD TileRing<TileLocation>& ring() const { return scratch().ring; }
    GR_HD TileLocation location_of(u64 tile) const { return {tile}; }
    GR_HD u8* share(u32 stage) const { return GR_SHARED + stage % shared_tiles * stage_bytes + warp * bytes; }
    GR_HD i64 share_of(u64 tile) const { return (i64)(tile * tile_elements + warp * elements); }

    static GR_HD boolean state_of(bool decided) { return {(u8)(decided == after)}; }
    static GR_HD bool is_decided(boolean state) { return (state.byte != 0) == after; }
    // True where one of the elements decides.
    template <int Count> static GR_HD bool decides(const Pack<In, Count>& from) {
        typename Op::Acc acc = Op::start();
        Op::absorb_pack(acc, from, 0, 1);
        return is_decided(Op::settle(acc));
    }
    GR_HD Pack<In, V> pack_at(u32 stage, u32 pack) const { return take_pack<In, V>(share(stage) + pack * 16); }

    GR_HD void fetch(const TileLocation& location, u32 stage) const {
        fetch_packs<elements, sizeof(In)>(share(stage), task.a - (i64)task.lead * sizeof(In), share_of(location.tile),
                                          (i64)task.lead, (i64)task.positions);
    }

    typedef u32 PendingState;  // elements of the warp's share before the first that decides
    static GR_HD PendingState no_pending() { return elements; }
    GR_HD PendingState fold(const TileLocation& location, u32 stage, u32 slot) const {
        const i64 first = share_of(location.tile);
        if (first < (i64)task.lead) fill_lead((u32)((i64)task.lead - first), stage);
        u32 found = search(stage);
        if (first + found >= (i64)task.positions) found = elements;
        if (lane == 0) scratch().decided[slot][warp] = found < elements;
        return found;
    }
    // All lanes of a warp call. Positions before the first element get bytes that do not decide; those behind the last are zeros,
    // behind which no element comes.
    GR_HD void fill_lead(u32 positions, u32 stage) const {
        if (lane < positions)
            for (int byte = 0; byte < (int)sizeof(In); byte++)
                share(stage)[lane * sizeof(In) + byte] = after ? 0 : 1;
        __syncwarp();
    }
    // All lanes of a warp call; each gets the first element of the share that decides, or `elements`.
    GR_HD u32 search(u32 stage) const {
        typename Op::Acc acc = Op::start();
        unrolled<Run>([&](int k) { Op::absorb_pack(acc, pack_at(stage, k * 32 + lane), 0, 1); });
        if (!__any_sync(0xffffffffu, is_decided(Op::settle(acc)))) return elements;
        u32 pack = 0;
        for (;; pack += 32) {
            const u32 lanes = __ballot_sync(0xffffffffu, decides(pack_at(stage, pack + lane)));
            if (lanes == 0) continue;
            pack += __ffs(lanes) - 1;
            break;
        }
        const Pack<In, V> from = pack_at(stage, pack);
        u32 found = V - 1;
#pragma unroll
        for (int j = V - 2; j >= 0; j--) found = decides(Pack<In, 1>{{from.at[j]}}) ? j : found;
        return pack * V + found;
    }
    // Sixteen results, the first `undecided` of which are those before an element that decides.
    static GR_HD uint4 results(i32 undecided) {
        u32 words[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const i32 left = undecided - 4 * w;
            const u32 bytes_after = left >= 4 ? 0 : left <= 0 ? 0x01010101u : 0x01010101u << 8 * left;
            words[w] = after ? bytes_after : bytes_after ^ 0x01010101u;
        }
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
    GR_HD void write(const TileLocation& location, u32, u32 slot, PendingState pending) const {
        const i64 first = share_of(location.tile), low = (i64)task.lead, high = (i64)task.positions;
        const i32 undecided = scratch().before[slot][warp] ? 0 : (i32)pending;
        u8* to = (u8*)task.out - low + first;
        const auto whole = [&](int at) { __stcs((uint4*)(to + at), results(undecided - at)); };
        each_pack<elements, 1>(first, low, high, whole, [&](int at, i64 position) {
            if (position >= low && position + 16 <= high) return whole(at);
#pragma unroll 1
            for (int i = at; i < at + 16; i++)
                if (first + i >= low && first + i < high) to[i] = state_of(i >= undecided).byte;
        });
    }
    // All lanes of one warp call.
    GR_HD void find_prefixes(const TileLocation& location, u32 slot, u32) const {
        const u32 decided = __ballot_sync(0xffffffffu, lane < Warps && scratch().decided[slot][lane]);
        const boolean own = state_of(decided != 0), start = task.carry ? *(const boolean*)task.carry : Op::identity();
        const boolean before = look_back<Op>(task, location.tile, {0, false, false}, own, start);
        if (lane < Warps) scratch().before[slot][lane] = is_decided(before) || (decided & ((1u << lane) - 1)) != 0;
        if (task.totals && location.tile + 1 == task.tiles && lane == 0) *(boolean*)task.totals = Op::combine(before, own);
    }
};
