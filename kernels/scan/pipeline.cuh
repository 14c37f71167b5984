// The rounds of a persistent block: two tiles are on their way into shared memory, then each is folded to states that are
// posted to the other blocks, and LAG rounds later, when warps of their own have found what comes before it, it is scanned
// from there and written.
#pragma once
#include "../block/named.cuh"
#include "../block/flag.cuh"
#include "../core/copy.cuh"
#include "../core/types.cuh"

const int LAG = 2;            // rounds between a tile's folding and its writing
const int STAGES = LAG + 2;   // tiles in shared memory
const int SLOTS = LAG + 1;    // rounds whose states are in use

const int SPOTS = 8;          // tiles of a block that somebody still asks for, at most

// What the warps of a block tell each other.
template <class Spot> struct Rounds {
    Spot spot[SPOTS];  // where the tiles lie, by rounds
    u32 drawn;         // rounds whose tiles are known
    u32 found;         // and warps that have found theirs of those rounds' bases
};

template <class T> struct Always { typedef void type; };
// What Work may leave out: it draws as here, and its tiles are folded and written from shared memory.
template <class Work, class = void> struct Terms {
    static const bool holds = false;
    static const int stages = STAGES;  // tiles in shared memory
    struct Elements {};
    static GR_HD u32 draw(const Work&, u32* ticket) { return atomicAdd(ticket, 1u); }
    static GR_HD u64 tile_of(const Work&, u32, u32 drawn) { return drawn; }
};
// Where it has Elements, lanes hold their shares of a tile in them from the round after its folding on: `turn` takes them out
// of shared memory, and leaves there the results of the tile before, of which it has `stages` fewer.
template <class Work> struct Terms<Work, typename Always<typename Work::Elements>::type> {
    static const bool holds = true;
    static const int stages = Work::stages;
    typedef typename Work::Elements Elements;
    static GR_HD u32 draw(const Work& work, u32* ticket) { return work.draw(ticket); }
    static GR_HD u64 tile_of(const Work& work, u32 round, u32 drawn) { return work.tile_of(round, drawn); }
};

// Work says what is done with a tile: each of Warps warps fetches, folds and writes its share of it, and Lookers warps find
// what comes before. Spot is where a tile lies, found by one lane for all; Held is what a lane keeps between folding and
// writing. A block's tiles are drawn one by one, in order, so that it never waits for a tile of its own: where Work says
// `draws_early`, a round before it is fetched and by a warp that scans, else by those that look back, when they are done.
// H200, CUDA 13.0, 2026-11, 4 GiB of float32, early and late: one line 0.95 and 0.93 of a copy (float64 0.88 and 0.82), 32
// lines 0.94 and 0.89, down (2^25, 32) 0.88 and 0.82; but down (32768, 32768) 0.87 and 0.97, where the blocks that are ahead
// should have the next tiles of the same rows. Where Work says `meets`, warps that scan wait for one another at the barrier
// that tells that bases are found; else each goes on once they are, and some fold while others write: in the same order,
// one line of float32 maxima 0.99 and 0.95, of int64 sums 0.98 and 0.96, but of float32 sums 0.94 and 0.97, of float16 0.84
// and 0.92; 32768 lines of float32 0.90 and 1.01.
template <class Work, int Warps, int Lookers> struct Pipeline {
    typedef typename Work::Held Held;
    typedef typename Work::Spot Spot;
    typedef Terms<Work> Given;
    static const int stages = Given::stages;
    const Work& work;
    const u64 tiles;
    u32* const ticket;
    const u32 warp, lane;
    GR_HD Pipeline(const Work& w, u64 count, u32* next)
        : work(w), tiles(count), ticket(next), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

    GR_HD Spot& spot(u32 round) const { return work.rounds().spot[round % SPOTS]; }
    GR_HD u32 draw() const { return Given::draw(work, ticket); }
    GR_HD Spot drawn_spot(u32 round, u32 drawn) const { return work.spot_of(Given::tile_of(work, round, drawn)); }

    // Barriers of a round: its tile is folded; its bases are found, where warps meet. A number comes again for the same
    // warps that look back, 2 LAG rounds later: all that meets at it has passed it by then.
    static GR_HD u32 folded(u32 round) { return 1 + round % (2 * LAG); }
    static GR_HD u32 found(u32 round) { return 1 + 2 * LAG + round % (2 * LAG); }
    static const u32 meeting = 32 * (Warps + Lookers);  // threads: of all warps that scan, and of those that look back

    // What the warps behind those that scan do, Lookers of them a round: they look back for rounds i, i + LAG, ...
    GR_HD void look() const {
        const u32 looker = (warp - Warps) % Lookers;
        for (u32 round = (warp - Warps) / Lookers;; round += LAG) {
            wait_at(folded(round), meeting);
            if (spot(round).tile >= tiles) return;
            work.find_bases(spot(round), round % SLOTS, looker);
            if (Work::meets) {
                arrive_at(found(round), meeting);
            } else {
                __syncwarp();
                if (speaks(lane)) {  // in turn
                    await(&work.rounds().found, round * Lookers + looker);
                    raise(&work.rounds().found, round * Lookers + looker + 1);
                }
            }
            if (!Work::draws_early && looker == 0 && lane == 0) {  // a trip to memory for which those that scan need not wait
                await(&work.rounds().drawn, round + STAGES);
                spot(round + STAGES) = drawn_spot(round + STAGES, draw());
                raise(&work.rounds().drawn, round + STAGES + 1);
            }
        }
    }

    // Of the two rounds whose tiles are on their way before the first is folded.
    GR_HD void fetch_first(int round) const {
        if (spot(round).tile < tiles) work.fetch(spot(round), round);
        commit_copies();
    }

    // What the other warps do, each with its share of every tile.
    GR_HD void scan() const {
        Held held[LAG];  // of the LAG rounds before this one
        u32 drawn = Work::draws_early && threadIdx.x == 0 ? draw() : 0;  // of the round three ahead
#pragma unroll
        for (int i = 0; i < 2 && !Work::draws_early; i++) fetch_first(i);
        typename Given::Elements elements;
        for (u32 round = 0;; round++) {
            Held now = Work::nothing();
            if (spot(round).tile < tiles) {
                wait_copies<1>();
                __syncwarp();
                now = work.fold(spot(round), round % stages, round % SLOTS);
            }
            if (round >= LAG && spot(round - LAG).tile >= tiles) return;
            arrive_at(folded(round), meeting);
            if (round >= LAG) {
                if (Work::draws_early && warp == 0) {  // what is below shows the spot to the other warps
                    if (lane == 0) {
                        spot(round + 2) = drawn_spot(round + 2, drawn);
                        drawn = draw();  // nothing waits for it in this round
                        if (!Work::meets) raise(&work.rounds().drawn, round + 3);
                    }
                    __syncwarp();
                }
                if (Work::meets) {
                    wait_at(found(round - LAG), meeting);
                } else {
                    if (speaks(lane)) await(&work.rounds().found, (round - LAG + 1) * Lookers);
                    __syncwarp();
                }
                if constexpr (!Given::holds)
                    work.write(spot(round - LAG), (round - LAG) % stages, (round - LAG) % SLOTS, held[LAG - 1]);
            }
            if constexpr (Given::holds)
                if (round > 0)
                    work.turn(round >= LAG ? &spot(round - LAG) : nullptr, (round + SLOTS - LAG) % SLOTS, spot(round - 1),
                              (round - 1) % stages, held[LAG - 1], elements);
            if (Given::holds || round >= LAG) __syncwarp();
            if (!Work::draws_early || (!Work::meets && round >= LAG)) {
                if (speaks(lane)) await(&work.rounds().drawn, round + 3);
                __syncwarp();
            }
            if (spot(round + 2).tile < tiles) work.fetch(spot(round + 2), (round + 2) % stages);
            commit_copies();
#pragma unroll
            for (int i = LAG - 1; i > 0; i--) held[i] = held[i - 1];
            held[0] = now;
        }
    }

    // All threads of the block call: Warps + LAG Lookers warps. A block that draws early draws its first tiles one after
    // another, in which time the other blocks have theirs: with four neighbours each, every block would wait for the last
    // of the block before it (H200, 2026-11: 60 us until all of them wrote; 2^28 float32 0.93 of a copy and 0.87). Where
    // chains are many, neighbours wait for nobody, and blocks out of step are better (a cube's middle axis 0.95 and 0.93).
    GR_HD void run() const {
        if (threadIdx.x == 0) {
            begin_flag(&work.rounds().drawn, STAGES, 0, 1);
            begin_flag(&work.rounds().found, 0, 1, 32);
            begin_named(1, 4 * LAG, meeting);
        }
        if constexpr (Work::draws_early) {
#pragma unroll 1
            for (int i = 0; i < STAGES; i++) {
                if (threadIdx.x == 0) spot(i) = drawn_spot(i, draw());
                __syncthreads();
                if (i < 2 && warp < Warps) fetch_first(i);
            }
        } else {
            if (threadIdx.x == 0)
                for (int i = 0; i < STAGES; i++) spot(i) = drawn_spot(i, draw());
            __syncthreads();
        }
        if (warp < Warps) scan();
        else look();
    }
};
