// Scans lines that lie one after another, in one pass. A persistent block holds several tiles: two are on their way into
// shared memory, then each is folded to a state that is posted to the other blocks, and LAG rounds later, when a warp of
// its own has found what comes before it, it is scanned from there and written.
#pragma once
#include "../block/named.cuh"
#include "../core/shared.cuh"
#include "../core/task.cuh"
#include "flow.cuh"
#include "look_back.cuh"
#include "share.cuh"

const int LAG = 2;            // rounds between a tile's folding and its writing: one warp looks back for each
const int STAGES = LAG + 2;   // tiles in shared memory

// Where a lane stands: its run's first element, its line, and how many elements of it are left.
struct Cursor {
    u64 line;
    u32 left;     // MANY stands for more than a run holds
    bool begins;  // the line does, here
};
const u32 MANY = 1u << 31;
GR_HD u32 at_most_many(u64 count) { return count < MANY ? (u32)count : MANY; }

template <class Op, class Emit, int Warps, int Run, int Lines, bool Exclusive, bool Reverse> struct RowScan {
    typedef typename Op::In In;
    typedef typename Op::State Value;
    typedef typename Emit::Out Out;
    typedef Flowing<Op, (Lines > 0)> Flow;
    typedef typename Flow::State State;
    typedef WarpShare<In, Out, Run> Share;
    static const int V = Share::V;
    static const int stage_bytes = Warps * (Share::bytes_a + Share::bytes_b);
    static const int tile_elements = Warps * Share::elements;
    // Shared memory: stages, results where they do not fit into a stage, then what warps tell each other.
    static const int results_at = STAGES * stage_bytes;
    static const int notes_at = results_at + (Share::in_place ? 0 : Warps * Share::bytes_out);
    struct Notes {
        State total[LAG + 1][Warps];  // by rounds
        Value base[LAG + 1][Warps];
        u64 tile[STAGES];
        u64 drawn[2];  // the tile two rounds on
    };

    const Scan& task;
    const u32 warp, lane;
    GR_HD RowScan(const Scan& scan) : task(scan), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD Notes& notes() const { return *(Notes*)(GR_SHARED + notes_at); }
    GR_HD u8* share_a(u32 stage) const { return GR_SHARED + stage * stage_bytes + warp * Share::bytes_a; }
    GR_HD u8* share_b(u32 stage) const {
        return GR_SHARED + stage * stage_bytes + Warps * Share::bytes_a + warp * Share::bytes_b;
    }
    GR_HD u8* results(u32 stage) const {
        return Share::in_place ? share_a(stage) : GR_SHARED + results_at + warp * Share::bytes_out;
    }
    // The first position of this warp's share of a tile, in memory order.
    GR_HD i64 share_of(u64 tile) const {
        const u64 place = Reverse ? task.tiles - 1 - tile : tile;
        return (i64)(place * tile_elements + (Reverse ? Warps - 1 - warp : warp) * Share::elements);
    }
    GR_HD u32 run_of() const { return Reverse ? 31 - lane : lane; }
    // True where all of a share are elements, and the last of the scan is not among them.
    GR_HD bool is_inner(i64 first) const {
        const i64 low = (i64)task.lead, high = (i64)task.positions, end = first + Share::elements;
        return Reverse ? first > low && end <= high : first >= low && end < high;
    }

    GR_HD void fetch(u64 tile, u32 stage) const {
        const i64 first = share_of(tile), low = (i64)task.lead, high = (i64)task.positions;
        const u8* a = task.a - low * Share::size_a;
        fetch_packs<Share::elements, Share::size_a>(share_a(stage), a, first, low, high);
        if constexpr (Share::size_b > 0)
            fetch_packs<Share::elements, Share::size_b>(share_b(stage), task.b - low * Share::size_b, first, low, high);
    }
    GR_HD void drain(u64 tile, u32 stage) const {
        const i64 low = (i64)task.lead;
        drain_packs<Share::elements, Share::size_out>(results(stage), (u8*)task.out - low * Share::size_out, share_of(tile),
                                                      low, (i64)task.positions);
    }

    // Lines are numbered in the order of the scan, their carries and totals in that of memory.
    GR_HD u64 place(u64 line) const { return Reverse ? task.lines - 1 - line : line; }
    GR_HD Value start_of(u64 line) const {
        return task.carry ? ((const Value*)task.carry)[place(line)] : Op::identity();
    }
    // Of the first element of this lane's run, counted in the order of the scan. Positions without elements are not in any line.
    GR_HD Cursor cursor(i64 first) const {
        const i64 begin = Reverse ? (i64)task.positions - (first + (i64)(run_of() + 1) * Share::run)
                                  : first + (i64)run_of() * Share::run - (i64)task.lead;
        const u64 at = begin > 0 ? (u64)begin : 0;
        if (Lines == 0) return {at < task.length ? 0ull : 1ull, at_most_many(task.length - at), false};
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, in_line = at - line * task.length;
        return {line, at_most_many(task.length - in_line), in_line == 0};
    }

    // Walks this lane's run in the order of the scan. With Write it replaces elements by results, from the state given.
    // Inner: all are elements. Ends: a line may end in the run.
    template <bool Write, bool Inner, bool Ends> GR_HD State walk(i64 first, u32 stage, Cursor at, Value value) const {
        const u8 *a = share_a(stage), *b = share_b(stage);
        u8* out = results(stage);
        const u32 length = at_most_many(task.length);
        bool began = Lines && at.begins;
        if (!Inner && at.line >= task.lines) return Flow::identity();
        if (began) value = Lines > 1 ? start_of(at.line) : Op::identity();
#pragma unroll
        for (int k = 0; k < Run; k++) {
            const int pack = run_of() * Share::run + (Reverse ? Run - 1 - k : k) * V;
            const Pack<In, V> from = Taken<In, V>::of(a, b, pack);
            Pack<Out, V> to;
#pragma unroll
            for (int i = 0; i < V; i++) {
                const int j = Reverse ? V - 1 - i : i;
                const i64 position = first + pack + j;
                if (!Inner && (position < (i64)task.lead || position >= (i64)task.positions)) continue;
                if (Write && Exclusive) to.at[j] = Emit::of(Before<Op>::of(value, from.at[j]), task.option);
                value = Take<Op>::of(value, from.at[j]);
                if (Write && !Exclusive) to.at[j] = Emit::of(value, task.option);
                if (!Ends || --at.left != 0) continue;
                if (Write && Lines != 1 && task.totals) ((Value*)task.totals)[place(at.line)] = value;
                if (Lines == 0) continue;
                began = true;
                at.left = length;
                if (Lines == 1) value = Op::identity();
                else if (++at.line < task.lines) value = start_of(at.line);
            }
            if (Write) put_pack<Out, V>(out + pack * Share::size_out, to);
        }
        return Flow::of(value, began);
    }
    template <bool Write> GR_HD State walk(i64 first, u32 stage, Value value) const {
        const Cursor at = cursor(first);
        if (!is_inner(first)) return walk<Write, false, true>(first, stage, at, value);
        if (Lines == 0 || __all_sync(0xffffffffu, at.left > Share::run)) return walk<Write, true, false>(first, stage, at, value);
        return walk<Write, true, true>(first, stage, at, value);
    }

    // Which tiles count for this one.
    GR_HD Reach reach_of(u64 tile) const {
        if (Lines == 0) return {0, false, false};
        // Elements in the order of the scan. Positions without elements come before them, and in reverse behind them.
        const u64 lead = Reverse ? task.tiles * tile_elements - task.positions : task.lead;
        const u64 elements = task.positions - task.lead, first = tile * tile_elements;
        const u64 at = first > lead ? first - lead : 0;
        u64 end = first + tile_elements - lead;
        if (end > elements) end = elements;
        const u64 line = task.length > 1 ? task.by_length.of(at) : at, begin = line * task.length;
        return {(begin + lead) / tile_elements, at == begin, at == begin || begin + task.length < end};
    }

    // One warp calls. The bases of a tile's warps, from their totals and what comes before the tile.
    GR_HD void find_bases(u64 tile, const State* total, Value* base) const {
        const State through = warp_scan<Flow, 32>(lane < Warps ? total[lane] : Flow::identity());
        const Value own = Flow::value(shuffle_from(0xffffffffu, through, Warps - 1, 32));
        const Value before = look_back<Op>(task, tile, reach_of(tile), own, Lines == 0 ? start_of(0) : Op::identity());
        const State within = lane_before<Flow, 32>(through);
        if (lane < Warps) base[lane] = Flow::value(Flow::combine(Flow::of(before, false), within));
    }

    // Barriers of a round: its tile is folded; its bases are found. A number comes again for the same warp that looks back,
    // 2 LAG rounds later: all that meets at it has passed it by then.
    static GR_HD u32 folded(u32 round) { return 1 + round % (2 * LAG); }
    static GR_HD u32 found(u32 round) { return 1 + 2 * LAG + round % (2 * LAG); }
    static const u32 meeting = 32 * (Warps + 1);  // threads: of all warps that scan, and of one that looks back

    // What warp Warps + i does: looks back for rounds i, i + LAG, ...
    GR_HD void look() const {
        for (u32 round = warp - Warps;; round += LAG) {
            const u32 stage = round % STAGES;
            wait_at(folded(round), meeting);
            const u64 tile = notes().tile[stage];
            if (tile >= task.tiles) return;
            find_bases(tile, notes().total[round % (LAG + 1)], notes().base[round % (LAG + 1)]);
            __syncwarp();
            arrive_at(found(round), meeting);
        }
    }

    // What the other warps do, each with its share of every tile. A block's tiles are drawn one by one, in order, so
    // that it never waits for a tile of its own.
    GR_HD void scan(u64 drawn) const {
        Notes& note = notes();
        u64 tile[STAGES];  // of the rounds from LAG before this one to the one after it; then the next
        State held[LAG];   // before this lane, within its warp, in the LAG rounds before this one
        tile[LAG] = note.tile[0];
        tile[LAG + 1] = note.tile[1];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (tile[LAG + i] < task.tiles) fetch(tile[LAG + i], i);
            commit_copies();
        }
        for (u32 round = 0;; round++) {
            const u32 stage = round % STAGES, freed = (round + 2) % STAGES;
            State before = Flow::identity();
            if (warp == 0 && lane == 0) note.tile[stage] = tile[LAG];
            if (tile[LAG] < task.tiles) {
                wait_copies<1>();
                __syncwarp();
                const State through = warp_scan<Flow, 32>(walk<false>(share_of(tile[LAG]), stage, Op::identity()));
                before = lane_before<Flow, 32>(through);
                if (lane == 31) note.total[round % (LAG + 1)][warp] = through;
            }
            __syncwarp();
            u64 next;
            if (round < LAG) {
                arrive_at(folded(round), meeting);
                next = note.tile[round + 2];
            } else {
                if (tile[0] >= task.tiles) return;
                arrive_at(folded(round), meeting);
                if (warp == 0) {
                    if (lane == 0) note.drawn[round % 2] = drawn;
                    drawn = next_tile();  // for the next round: nothing waits for it here
                    __syncwarp();
                }
                wait_at(found(round - LAG), meeting);
                next = note.drawn[round % 2];
                const State base = Flow::of(note.base[(round - LAG) % (LAG + 1)][warp], false);
                walk<true>(share_of(tile[0]), freed, Flow::value(Flow::combine(base, held[LAG - 1])));
                __syncwarp();
                drain(tile[0], freed);
                __syncwarp();
            }
            if (next < task.tiles) fetch(next, freed);
            commit_copies();
#pragma unroll
            for (int i = 0; i + 1 < STAGES; i++) tile[i] = tile[i + 1];
            tile[STAGES - 1] = next;
#pragma unroll
            for (int i = LAG - 1; i > 0; i--) held[i] = held[i - 1];
            held[0] = before;
        }
    }

    // One warp calls. Lane 0's is the next tile that no block has.
    GR_HD u64 next_tile() const { return lane == 0 ? atomicAdd(task.ticket, 1u) : 0; }

    GR_HD void run() const {
        u64 drawn = 0;
        if (warp == 0) {
            for (int i = 0; i < STAGES; i++) {
                const u64 tile = next_tile();
                if (lane == 0) notes().tile[i] = tile;
            }
            drawn = next_tile();
        }
        __syncthreads();
        if (warp < Warps) scan(drawn);
        else look();
    }
};

// Grid: any number of blocks of Warps + LAG warps. Every operand starts where position `lead` of packs of 16 bytes would.
template <class Op, class Emit, int Warps, int Run, int Lines, bool Exclusive, bool Reverse>
__global__ void __launch_bounds__(32 * (Warps + LAG), GR_BLOCKS) scan_rows(const __grid_constant__ Scan task) {
    RowScan<Op, Emit, Warps, Run, Lines, Exclusive, Reverse>(task).run();
}
