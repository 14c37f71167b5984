// A persistent, warp-specialised software pipeline: the rounds of a block. Two tiles are on their way into shared
// memory. Each is folded to states, which are published to the other blocks; WRITE_DELAY rounds later, when warps of
// their own have found its prefix, it is scanned from there and written.
#pragma once
#include "../block/cluster.cuh"
#include "../block/flag.cuh"
#include "../block/named.cuh"
#include "../core/copy.cuh"
#include "../core/task.cuh"

const int WRITE_DELAY = 2;                // rounds between a tile's folding and its writing
const int STAGES = WRITE_DELAY + 2;       // tiles in shared memory
const int STATE_SLOTS = WRITE_DELAY + 1;  // rounds whose states are in use
const int FIRST_TILES = 2;                // that are fetched before any is folded
const int RING_SLOTS = 8;                 // tiles of a block that are in use by any of its warps, at most

// In shared memory: the tiles of a block's rounds, and how far its warps are.
template <class TileLocation> struct TileRing {
    TileLocation location[RING_SLOTS];  // where the tiles lie, by rounds
    u32 taken;                          // flag: rounds whose tiles are known
    u32 found;                          // flag: look-back warps of all rounds that have found their prefixes
};

// What a Work has that says nothing else: tiles are folded and written from shared memory, and taken one by one; blocks have nothing
// to do before their first one, and as many places on an SM as the compiler finds. Where a Work `keeps_elements`, lanes keep their
// shares of a tile in a RegisterTile from the round after its folding on: `exchange` reads them from shared memory and leaves the
// results of an earlier tile in their place, so that fewer `stages` are enough.
template <class ScanTask, int Warps, int LookBackWarps> struct TileWork {
    typedef ScanTask Task;
    static const int warps = Warps, look_back_warps = LookBackWarps, blocks = GR_BLOCKS;
    static const int stages = STAGES;  // tiles in shared memory
    static const bool prefetches_tile = true, keeps_elements = false, keeps_step = false;
    struct RegisterTile {};
    GR_HD void begin() const {}  // all threads of the block call
    // One thread of a block calls: takes a number, and says whose tile's it is in a round.
    GR_HD u32 take_tile(u32* ticket) const { return atomicAdd(ticket, 1u); }
    GR_HD u64 tile_of(u32, u32 taken) const { return taken; }
};

// Work says what is done with a tile of a Task: each of `warps` warps fetches, folds and writes its share of it, and
// `look_back_warps` warps find its prefixes. TileLocation is where a tile lies, found by one lane for all; PendingState
// is what a lane keeps between folding and writing. A block takes tile numbers one by one, in order, so that it never
// waits for a tile of its own. Where Work says `prefetches_tile`, a warp that scans takes the number a round before the
// tile is fetched; else a warp that looks back does so when it is done: strips are faster then, where the blocks that are
// ahead should have the next tiles of the same rows.
// Where Work says `keeps_step`, warps that scan wait for one another until prefixes are found, so that a block reads and
// writes in bursts; else each goes on once they are, and some fold while others write.
template <class Work> struct Pipeline {
    typedef typename Work::PendingState PendingState;
    typedef typename Work::TileLocation TileLocation;
    static const int stages = Work::stages, Warps = Work::warps, LookBackWarps = Work::look_back_warps;
    static const int threads = 32 * (Warps + WRITE_DELAY * LookBackWarps);  // of a block
    const Work& work;
    const u64 tiles;
    u32* const ticket;
    const u32 warp, lane;
    GR_HD Pipeline(const Work& w, u64 count, u32* next)
        : work(w), tiles(count), ticket(next), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD TileLocation& location(u32 round) const { return work.ring().location[round % RING_SLOTS]; }
    GR_HD u32 take_tile() const { return work.take_tile(ticket); }
    GR_HD TileLocation taken_location(u32 round, u32 taken) const { return work.location_of(work.tile_of(round, taken)); }

    // One lane of a block calls. The tile of a round, which the other warps may then use.
    GR_HD void take_for(u32 round) const {
        location(round) = taken_location(round, take_tile());
        raise(&work.ring().taken, round + 1);
    }

    // Named barriers of a round: its tile is folded; its prefixes are found, where warps keep step. A number is used again by the
    // same look-back warps 2 WRITE_DELAY rounds later: all warps have passed it by then.
    static GR_HD u32 fold_barrier(u32 round) { return 1 + round % (2 * WRITE_DELAY); }
    static GR_HD u32 prefix_barrier(u32 round) { return 2 * WRITE_DELAY + fold_barrier(round); }
    // Threads of a barrier: all warps that scan, and those that look back for one tile.
    static const u32 barrier_threads = 32 * (Warps + LookBackWarps);

    // All lanes of the warps behind those that scan call. LookBackWarps of them look back for every WRITE_DELAY-th round.
    GR_HD void run_look_back() const {
        const u32 look_back_warp = (warp - Warps) % LookBackWarps;
        if (!Work::prefetches_tile && warp == Warps && lane == 0)
            for (u32 round = FIRST_TILES; round < STAGES; round++) take_for(round);
        __syncwarp();
        for (u32 round = (warp - Warps) / LookBackWarps;; round += WRITE_DELAY) {
            wait_at(fold_barrier(round), barrier_threads);
            if (location(round).tile >= tiles) return;
            work.find_prefixes(location(round), round % STATE_SLOTS, look_back_warp);
            __syncwarp();
            if (Work::keeps_step) {
                arrive_at(prefix_barrier(round), barrier_threads);
            } else if (represents_warp(lane)) {  // one warp after another
                await(&work.ring().found, round * LookBackWarps + look_back_warp);
                raise(&work.ring().found, round * LookBackWarps + look_back_warp + 1);
            }
            // An access to global memory for which the warps that scan need not wait.
            if (!Work::prefetches_tile && look_back_warp == 0 && lane == 0) {
                await(&work.ring().taken, round + STAGES);
                take_for(round + STAGES);
            }
        }
    }

    // All lanes of the warps that scan call, each warp for its share of every tile.
    GR_HD void scan() const {
        PendingState pending[WRITE_DELAY];  // of the WRITE_DELAY rounds before this one
        u32 taken = Work::prefetches_tile && threadIdx.x == 0 ? take_tile() : 0;  // the number of the tile that is fetched next
        typename Work::RegisterTile elements;
        for (u32 round = 0;; round++) {
            PendingState now = Work::no_pending();
            if (location(round).tile < tiles) {
                wait_copies<1>();
                __syncwarp();
                now = work.fold(location(round), round % stages, round % STATE_SLOTS);
            }
            if (round >= WRITE_DELAY && location(round - WRITE_DELAY).tile >= tiles) return;
            arrive_at(fold_barrier(round), barrier_threads);
            if (Work::prefetches_tile && warp == 0) {  // the flag below shows the location to the other warps
                if (lane == 0) {
                    location(round + 2) = taken_location(round + 2, taken);
                    taken = take_tile();  // nothing waits for it in this round
                    raise(&work.ring().taken, round + 3);
                }
                __syncwarp();
            }
            if (round >= WRITE_DELAY) {
                if (Work::keeps_step) wait_at(prefix_barrier(round - WRITE_DELAY), barrier_threads);
                else if (represents_warp(lane)) await(&work.ring().found, (round - WRITE_DELAY + 1) * LookBackWarps);
                __syncwarp();
                if constexpr (!Work::keeps_elements)
                    work.write(location(round - WRITE_DELAY), (round - WRITE_DELAY) % stages, (round - WRITE_DELAY) % STATE_SLOTS,
                               pending[WRITE_DELAY - 1]);
            }
            if constexpr (Work::keeps_elements)
                if (round > 0)
                    work.exchange(round >= WRITE_DELAY ? &location(round - WRITE_DELAY) : nullptr,
                                  (round + STATE_SLOTS - WRITE_DELAY) % STATE_SLOTS, location(round - 1), (round - 1) % stages,
                                  pending[WRITE_DELAY - 1], elements);
            if (Work::keeps_elements || round >= WRITE_DELAY) __syncwarp();
            if (represents_warp(lane)) await(&work.ring().taken, round + 3);
            __syncwarp();
            if (location(round + 2).tile < tiles) work.fetch(location(round + 2), (round + 2) % stages);
            commit_copies();
#pragma unroll
            for (int i = WRITE_DELAY - 1; i > 0; i--) pending[i] = pending[i - 1];
            pending[0] = now;
        }
    }

    // All threads of the block call. A block takes its first tiles one after another, in which time the other blocks have theirs:
    // with four neighbours each, every block would wait for the last of the block before it.
    GR_HD void run() const {
        if (threadIdx.x == 0) {
            begin_flag(&work.ring().taken, FIRST_TILES, 0, 1);
            begin_flag(&work.ring().found, 0, 1, 32);
            begin_named(1, (Work::keeps_step ? 4 : 2) * WRITE_DELAY, barrier_threads);
        }
#pragma unroll 1
        for (int i = 0; i < FIRST_TILES; i++) {
            if (threadIdx.x == 0) location(i) = taken_location(i, take_tile());
            __syncthreads();
            if (warp < Warps) {
                if (location(i).tile < tiles) work.fetch(location(i), i);
                commit_copies();
            }
        }
        if (warp < Warps) scan();
        else run_look_back();
    }
};

// All threads of a block call, of as many blocks as there are.
template <class Work> GR_HD void run_tiles(const typename Work::Task& task) {
    const Work work(task);
    work.begin();
    Pipeline<Work>(work, task.tiles, task.ticket).run();
}
// Grid: any number of blocks.
template <class Work>
__global__ void __launch_bounds__(Pipeline<Work>::threads, Work::blocks)
    scan_tiles(const __grid_constant__ typename Work::Task task) {
    run_tiles<Work>(task);
}
// Grid: any number of clusters. No block ends before it has received all that it is sent.
template <class Work>
__global__ void GR_CLUSTER(Work::cluster_blocks) __launch_bounds__(Pipeline<Work>::threads, Work::blocks)
    scan_cluster_tiles(const __grid_constant__ typename Work::Task task) {
    run_tiles<Work>(task);
}
