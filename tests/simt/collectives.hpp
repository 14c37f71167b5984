// Barriers of a block and collectives of a warp. Misuse that hangs or is undefined on a GPU is an error here. So is
// a barrier, or a warp's mask, without the threads that have left the kernel: newer GPUs let it pass, older ones hang.
#pragma once

#include "memory.hpp"

namespace simt {

// Every live thread of the block has arrived: they go on, each seeing what the others have written and seen.
inline void release_barrier(Block& block) {
    std::uint64_t view = 0;
    bool joined[1024] = {};
    for (Thread& t : block.threads) {
        if (t.wait != Wait::barrier) continue;
        joined[t.rank] = true;
        view = std::max(view, t.view);
    }
    for (Write& w : block.writes)
        if (joined[w.rank]) w.reach = kBlock;
    for (Thread& t : block.threads) {
        if (!joined[t.rank]) continue;
        t.wait = Wait::none;
        t.view = view;
        set_ready(t, true);
    }
    block.arrived = 0;
}

inline void barrier(const char* file, int line) {
    Thread& t = *machine.current;
    Block& block = *t.block;
    ++machine.steps;
    if (block.arrived && (block.line != line || std::strcmp(block.file, file)))
        fail("__syncthreads at %s:%d while %u threads of the block wait at %s:%d", file, line, block.arrived,
             block.file, block.line);
    t.file = block.file = file;
    t.line = block.line = line;
    if (block.live != block.count)
        fail("__syncthreads at %s:%d after %u threads of the block have left the kernel", file, line,
             block.count - block.live);
    t.wait = Wait::barrier;
    set_ready(t, false);
    if (++block.arrived == block.live) release_barrier(block);
    move_on();
}

// One thread comes to a named barrier for `threads` threads, and waits there or goes on. Once all have come, it is free
// for the next round. A GPU counts warps: lanes that may have parted come to a __syncwarp first.
inline void meet_named(unsigned id, unsigned threads, bool waits, const char* file, int line) {
    Thread& t = *machine.current;
    Block& block = *t.block;
    Named& barrier = block.named[id];
    ++machine.steps;
    if (!t.joined) fail("bar at %s:%d: lanes of the warp do not come together", file, line);
    t.joined = false;
    if (barrier.arrived.empty()) barrier.threads = threads;
    if (barrier.threads != threads || threads % 32)
        fail("bar at %s:%d for %u threads; barrier %u is for %u", file, line, threads, id, barrier.threads);
    for (const Named::Arrival& a : barrier.arrived)
        if (a.rank == t.rank) fail("bar at %s:%d: the thread has come to barrier %u already", file, line, id);
    barrier.arrived.push_back({t.rank, waits});
    t.file = file;
    t.line = line;
    if (waits) {
        t.wait = Wait::named;
        set_ready(t, false);
    }
    if (barrier.arrived.size() == threads) {
        std::uint64_t view = 0;
        bool joined[1024] = {};
        for (const Named::Arrival& a : barrier.arrived) {
            joined[a.rank] = true;
            view = std::max(view, block.threads[a.rank].view);
        }
        for (Write& w : block.writes)
            if (joined[w.rank]) w.reach = kBlock;
        for (const Named::Arrival& a : barrier.arrived) {
            if (!a.waits) continue;
            Thread& other = block.threads[a.rank];
            other.wait = Wait::none;
            other.view = view;
            set_ready(other, true);
        }
        barrier.arrived.clear();
    }
    move_on();
}

// The lane a shuffle reads from; its own where the rule points out of its segment.
inline unsigned shuffle_source(const Thread& t) {
    int lane = int(t.lane), first = lane & ~(t.width - 1), last = first + t.width - 1, from = lane;
    switch (t.wait) {
        case Wait::down: from = lane + t.argument; break;
        case Wait::up: return unsigned(lane - t.argument < first ? lane : lane - t.argument);
        case Wait::exchange: from = lane ^ t.argument; break;
        default: from = first + (t.argument & (t.width - 1));
    }
    return unsigned(from > last ? lane : from);
}

// All lanes of `mask` have arrived: computes what each gets.
inline void complete(Block& block, unsigned warp, unsigned mask) {
    Thread* lanes = &block.threads[warp * 32];
    std::uint64_t given[32], view = 0;
    unsigned votes = 0;
    for (unsigned i = 0; i < 32; ++i) {
        if (!(mask >> i & 1)) continue;
        given[i] = lanes[i].value;
        votes |= unsigned(given[i] != 0) << i;
        view = std::max(view, lanes[i].view);
    }
    for (unsigned i = 0; i < 32; ++i) {
        if (!(mask >> i & 1)) continue;
        Thread& t = lanes[i];
        switch (t.wait) {
            case Wait::ballot: t.value = votes; break;
            case Wait::any: t.value = votes != 0; break;
            case Wait::all: t.value = votes == mask; break;
            case Wait::sync: t.view = view, t.joined = mask == block.lanes[warp]; break;
            default: {
                unsigned source = shuffle_source(t);
                if (!(mask >> source & 1))
                    fail("%s at %s:%d: lane %u reads lane %u, which mask %08x leaves out", name(t.wait), t.file,
                         t.line, i, source, mask);
                t.value = given[source];
            }
        }
        t.wait = Wait::none;
        set_ready(t, true);
    }
    block.waiting[warp] &= ~mask;
}

inline void hand_to_warp(Block& block, unsigned warp, unsigned mask) {
    for (Write& w : block.writes)
        if (w.reach == kOwn && w.rank / 32 == warp && (mask >> w.rank % 32 & 1)) w.reach = kWarp;
}

// Warp collective: waits until every lane of `mask` has come to the same one.
inline std::uint64_t meet(Wait kind, unsigned mask, std::uint64_t value, int argument, int width, const char* file,
                          int line) {
    Thread& t = *machine.current;
    Block& block = *t.block;
    ++machine.steps;
    t.wait = kind, t.mask = mask, t.value = value, t.argument = argument, t.width = width;
    t.file = file, t.line = line;
    if (!(mask >> t.lane & 1)) fail("%s at %s:%d: mask %08x leaves out the caller", name(kind), file, line, mask);
    if (width < 1 || width > 32 || (width & (width - 1)))
        fail("%s at %s:%d: width %d; expected a power of two up to 32", name(kind), file, line, width);
    if (unsigned gone = mask & ~block.lanes[t.warp])
        fail("%s at %s:%d: mask %08x names lanes %08x, which have left the kernel or never were", name(kind), file,
             line, mask, gone);
    unsigned waiting = block.waiting[t.warp] |= 1u << t.lane;
    set_ready(t, false);
    if ((waiting & mask) == mask) {
        for (unsigned i = 0; i < 32; ++i) {
            const Thread& other = block.threads[t.warp * 32 + (mask >> i & 1 ? i : t.lane)];
            if (other.wait != kind || other.mask != mask)
                fail("%s at %s:%d with mask %08x, but lane %u came to %s at %s:%d with mask %08x", name(kind), file,
                     line, mask, other.lane, name(other.wait), other.file, other.line, other.mask);
        }
        if (kind == Wait::sync) hand_to_warp(block, t.warp, mask);
        complete(block, t.warp, mask);
    }
    move_on();
    return t.value;
}

// The current thread leaves the kernel: whoever waits for it must know.
inline void leave() {
    Thread& t = *machine.current;
    Block& block = *t.block;
    set_ready(t, false);
    block.lanes[t.warp] &= ~(1u << t.lane);
    for (unsigned i = 0; i < 32 && t.warp * 32 + i < block.count; ++i) {
        const Thread& other = block.threads[t.warp * 32 + i];
        if (block.waiting[t.warp] >> i & 1 && other.mask >> t.lane & 1)
            fail("left the kernel while lane %u waits for it in %s at %s:%d with mask %08x", i, name(other.wait),
                 other.file, other.line, other.mask);
    }
    if (block.arrived)
        fail("left the kernel while %u threads of the block wait at __syncthreads at %s:%d", block.arrived, block.file,
             block.line);
    note_progress();
    if (!--block.live) machine.current = nullptr, swap(t.fibre, machine.main);
    move_on();
}

}  // namespace simt
