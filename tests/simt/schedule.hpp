// The scheduler: which thread of which block runs next.
//
// A thread runs until it waits (barrier, warp collective), ends, or comes to a point where others may act first
// (fence, atomic, hooked load or store, barrier, collective) and the schedule takes the processor from it. Every
// schedule is an execution that CUDA allows; a kernel is right only if each of them gives the right answer.
//
//   forward      blocks start first to last, each thread runs as far as it can, memory is sequentially consistent
//   reverse      blocks start last to first, two at a time; last thread first
//   random       any thread of any block at any point
//   starved      random, but one warp of each block comes last, and with an even seed threads fall asleep at fences
//                and atomics, with an odd one whole blocks do before or after an atomic: what breaks a wrong protocol
//                is somebody who stops between two steps of it for as long as all the others take
//   round_robin  another block and another thread at every point
#pragma once

#include <algorithm>

#include "machine.hpp"

namespace simt {

// The nearest thread that can run, at `from` or after it (before it when `down`), or -1.
inline int nearest(const Block& block, int from, bool down) {
    int word = from / 64;
    std::uint64_t bits = block.ready[word] & (down ? ~0ull >> (63 - from % 64) : ~0ull << (from % 64));
    for (;;) {
        if (bits) return word * 64 + (down ? 63 - __builtin_clzll(bits) : __builtin_ctzll(bits));
        word += down ? -1 : 1;
        if (word < 0 || word > 15) return -1;
        bits = block.ready[word];
    }
}

inline int nearest_round(const Block& block, int from, bool down) {
    int found = nearest(block, from, down);
    return found >= 0 ? found : nearest(block, down ? 1023 : 0, down);
}

// The block that started first, its first thread (its last when `down`). After a thread that polls come those behind it
// in its block, then the other blocks, and only then it and those before it, or what it waits for would never happen.
inline Thread* pick_in_order(bool down, bool give_way) {
    std::size_t count = machine.resident.size(), begin = 0;
    if (give_way) machine.polled = machine.current->block, machine.behind = int(machine.current->rank) + (down ? -1 : 1);
    if (machine.polled) {
        while (begin < count && machine.resident[begin].get() != machine.polled) ++begin;
        const bool inside = begin < count && machine.behind >= 0 && machine.behind < 1024;
        int found = inside ? nearest(*machine.polled, machine.behind, down) : -1;
        if (found >= 0) return &machine.polled->threads[found];
        for (std::size_t i = begin + 1; i < count; ++i) {
            Block& block = *machine.resident[i];
            if (block.runnable) return &block.threads[nearest(block, down ? 1023 : 0, down)];
        }
        machine.polled = nullptr;
    }
    for (auto& block : machine.resident)
        if (block->runnable) return &block->threads[nearest(*block, down ? 1023 : 0, down)];
    return nullptr;
}

// The resident block, at random, that runs next; those asleep only where no other can run, the first to wake first.
inline Block* pick_block() {
    std::size_t count = machine.resident.size(), begin = draw() % count;
    Block* block = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
        Block& next = *machine.resident[(begin + i) % count];
        if (!next.runnable) continue;
        if (next.asleep_until <= machine.steps) return &next;
        if (!block || next.asleep_until < block->asleep_until) block = &next;
    }
    if (block) block->asleep_until = 0;
    return block;
}

inline Thread* pick_at_random(bool starve) {
    Block* block = pick_block();
    if (!block) return nullptr;
    int found = nearest_round(*block, int(draw() % block->count), draw() & 1);
    unsigned warps = (block->count + 31) / 32, last = block->number % warps;
    const bool stuck = machine.idle > 4000 && draw() % 4 == 0;  // the others only poll, for what it has yet to do
    if (starve && !stuck && warps > 1 && block->threads[found].warp == last)
        found = nearest_round(*block, int((last + 1) % warps * 32), false);  // its own warp if no other can run
    return &block->threads[found];
}

inline Thread* pick_in_turn() {
    std::size_t count = machine.resident.size();
    for (std::size_t i = 0; i < count; ++i) {
        Block& block = *machine.resident[++machine.turn % count];
        if (!block.runnable) continue;
        int found = nearest_round(block, int(block.cursor % block.count), false);
        block.cursor = unsigned(found) + 1;
        return &block.threads[found];
    }
    return nullptr;
}

// Longer than blocks take to their end; whoever sleeps wakes earlier where all others wait for it.
inline std::uint64_t nap() { return machine.steps + draw() % 65536; }

// The current thread stops where it is.
inline void sleep() {
    set_ready(*machine.current, false);
    machine.asleep.push_back({nap(), machine.current});
}

// Wakes the threads whose time has come; where nobody else can run, whoever would wake first.
inline void wake() {
    auto& asleep = machine.asleep;
    std::uint64_t now = machine.steps;
    bool idle = true;
    for (auto& block : machine.resident) idle = idle && !block->runnable;
    if (idle)
        for (std::size_t i = 0; i < asleep.size(); ++i) now = i ? std::min(now, asleep[i].until) : asleep[i].until;
    for (std::size_t i = 0; i < asleep.size();) {
        if (asleep[i].until > now) {
            ++i;
            continue;
        }
        set_ready(*asleep[i].thread, true);
        asleep[i] = asleep.back();
        asleep.pop_back();
    }
}

inline Thread* pick(bool give_way) {
    if (!machine.asleep.empty()) wake();
    switch (machine.request.schedule) {
        case Schedule::forward: return pick_in_order(false, give_way);
        case Schedule::reverse: return pick_in_order(true, give_way);
        case Schedule::random: return pick_at_random(false);
        case Schedule::starved: return pick_at_random(true);
        default: return pick_in_turn();
    }
}

// Leaves the current fibre for the one the schedule names, or for the main loop where none can run.
inline void move_on(bool give_way = false) {
    Thread* from = machine.current;
    Thread* to = pick(give_way);
    if (to == from) return;
    ++machine.turns;
    machine.current = to;
    swap(from->fibre, to ? to->fibre : machine.main);
}

// A block starts, a thread ends, memory changes.
inline void note_progress() { machine.idle = 0; }

inline bool sleepy() { return machine.request.schedule == Schedule::starved && machine.request.seed % 2 == 0; }

// Before and after an atomic the whole block may stop.
inline void stop_block() {
    if (machine.request.schedule != Schedule::starved || sleepy() || draw() % 3) return;
    machine.current->block->asleep_until = nap();
    move_on();
}

// A point where other threads may act before the current one goes on. `decisive`: a fence or an atomic.
inline void pause(bool decisive = false) {
    ++machine.steps;
    if (++machine.idle > machine.request.budget) {
        const Thread& t = *machine.current;
        fail("%llu accesses without progress, a spin waits for what cannot come (last barrier or collective: %s:%d)",
             static_cast<unsigned long long>(machine.idle), t.file, t.line);
    }
    switch (machine.request.schedule) {
        case Schedule::forward:
        case Schedule::reverse:
            if (++machine.current->polls % 32 == 0) move_on(true);
            return;
        case Schedule::round_robin: return move_on();
        case Schedule::starved:
            if (sleepy() && draw() % (decisive ? 2 : 1024) == 0) sleep(), move_on();
            else if (draw() % 4 == 0) move_on();
            return;
        default:
            if (draw() % 4 == 0) move_on();
    }
}

}  // namespace simt
