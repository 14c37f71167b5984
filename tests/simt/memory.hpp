// Global memory that blocks pass partials through, as weak as CUDA's memory model lets it be.
//
// Kernels publish through simt::store and read through simt::load (kernels/core/state.cuh); all other accesses are
// plain C++ and take effect at once. Outside the `forward` schedule:
//
// - A store is seen by its own thread only. __syncwarp hands it to the warp and __syncthreads to the block, because
//   those barriers order memory among the threads that take part. Nobody else sees it before a fence.
// - __threadfence publishes, for all blocks, the stores of the calling thread and those it was handed by a barrier
//   (causality order is transitive: one thread may fence for a block that a barrier has just joined). The end of the
//   grid publishes the rest.
// - A load gets the oldest value it may: a write published after the thread's last fence stays unseen until the
//   thread, or one it meets at a barrier afterwards, fences again. So both sides need their fence: the one that
//   publishes before it counts itself in, the one that reads after it has seen the count. Atomics are relaxed, as in
//   CUDA: they act on memory at once and order nothing.
// - A store of more than eight bytes, or at no natural alignment, is several stores.
// - store_relaxed and load_relaxed stand for st/ld.relaxed.gpu of up to 16 bytes: never stale for ever, visible at a time
//   of the scheduler's choosing, in no order with stores to other addresses. Half of those of 16 bytes are two of 8,
//   which the model does not promise to be seen together.
#pragma once

#include <algorithm>

#include "schedule.hpp"

namespace simt {

// Loads and stores that the shim sees are checked to the byte; others meet the guard pages around arrays.
inline void check_owned(const void* at, unsigned bytes) {
    const Request& r = machine.request;
    if (!r.ranges) return;
    auto first = reinterpret_cast<std::uintptr_t>(at);
    auto shared = reinterpret_cast<std::uintptr_t>(machine.current->block->shared);
    if (first >= shared && first + bytes <= shared + r.shared_bytes) return;
    const Range* next = std::upper_bound(r.ranges, r.ranges + r.range_count, first,
                                         [](std::uintptr_t address, const Range& range) { return address < range.begin; });
    if (next == r.ranges || first + bytes > next[-1].end) fail("access of %u bytes at %p: in no array", bytes, at);
}

enum : unsigned char { kOwn, kWarp, kBlock };  // how far a write has been handed on

inline bool overlaps(const Write& w, const void* at, unsigned bytes) {
    auto* begin = static_cast<const unsigned char*>(at);
    return w.to < begin + bytes && begin < w.to + w.bytes;
}

inline bool sees(const Thread& t, const Write& w) {
    return w.reach == kBlock || w.rank == t.rank || (w.reach == kWarp && w.rank / 32 == t.warp);
}

inline void publish(const Write& w) {
    if (machine.weak) {
        auto address = reinterpret_cast<std::uintptr_t>(w.to);
        Old old{++machine.clock, static_cast<unsigned char>(address % 16), w.bytes, {}};
        std::memcpy(old.value, w.to, w.bytes);
        machine.history[address / 16].push_back(old);
    }
    machine.eventual -= w.eventual;
    std::memcpy(w.to, w.value, w.bytes);
    note_progress();
}

// Publishes the pending writes of a block for which `which` holds, oldest first.
template <class Which> inline void publish_where(Block& block, Which which) {
    auto rest = block.writes.begin();
    for (const Write& w : block.writes) {
        if (which(w)) publish(w);
        else *rest++ = w;
    }
    block.writes.erase(rest, block.writes.end());
}

// Publishes a relaxed store of the block, and what was written at its address before it. False if there is none.
inline bool publish_relaxed(Block& block, bool at_random) {
    for (std::size_t i = 0; i < block.writes.size(); ++i) {
        Write chosen = block.writes[i];
        if (!chosen.eventual || (at_random && draw() % 2)) continue;
        std::size_t at = 0;
        publish_where(block, [&](const Write& w) { return at++ <= i && overlaps(w, chosen.to, chosen.bytes); });
        return true;
    }
    return false;
}

// Now and then, some block's relaxed store becomes visible.
inline void drain() {
    if (machine.eventual && draw() % 8 == 0)
        publish_relaxed(*machine.resident[draw() % machine.resident.size()], true);
}

inline void write(void* to, const void* from, unsigned bytes, bool eventual) {
    Thread& t = *machine.current;
    Write w{static_cast<unsigned char*>(to), t.rank, static_cast<unsigned char>(bytes), kOwn, eventual, {}};
    std::memcpy(w.value, from, bytes);
    machine.eventual += eventual;
    if (machine.weak) t.block->writes.push_back(w);
    else publish(w);
}

inline void store(void* to, const void* from, unsigned bytes) {
    check_owned(to, bytes);
    pause();
    auto* target = static_cast<unsigned char*>(to);
    auto* source = static_cast<const unsigned char*>(from);
    while (bytes) {
        unsigned piece = std::min<unsigned>(bytes, 8 - reinterpret_cast<std::uintptr_t>(target) % 8);
        write(target, source, piece, false);
        target += piece, source += piece, bytes -= piece;
    }
}

// Lays what `t` has been handed, but not everyone has, over what it read from memory.
inline void overlay_pending(const Thread& t, unsigned char* to, const unsigned char* from, unsigned bytes) {
    for (const Write& w : t.block->writes) {
        if (!overlaps(w, from, bytes) || !sees(t, w)) continue;
        for (unsigned i = 0; i < w.bytes; ++i)
            if (w.to + i >= from && w.to + i < from + bytes) to[w.to + i - from] = w.value[i];
    }
}

// Undoes the writes published after `view`, newest first.
inline void rewind(std::uint64_t view, unsigned char* to, const unsigned char* from, unsigned bytes) {
    auto first = reinterpret_cast<std::uintptr_t>(from), last = first + bytes - 1;
    for (std::uintptr_t granule = first / 16; granule <= last / 16; ++granule) {
        auto found = machine.history.find(granule);
        if (found == machine.history.end()) continue;
        for (auto old = found->second.rbegin(); old != found->second.rend() && old->time > view; ++old)
            for (unsigned i = 0; i < old->bytes; ++i) {
                std::uintptr_t at = granule * 16 + old->at + i;
                if (at >= first && at <= last) to[at - first] = old->value[i];
            }
    }
}

inline void load(void* to, const void* from, unsigned bytes) {
    check_owned(from, bytes);
    pause();
    auto* target = static_cast<unsigned char*>(to);
    auto* source = static_cast<const unsigned char*>(from);
    std::memcpy(target, source, bytes);
    if (!machine.weak) return;
    rewind(machine.current->view, target, source, bytes);
    overlay_pending(*machine.current, target, source, bytes);
}

inline void check_whole(const void* at, unsigned bytes, const char* what) {
    check_owned(at, bytes);
    if (bytes > 16 || (bytes & (bytes - 1))) fail("%s of %u bytes; expected 1, 2, 4, 8 or 16", what, bytes);
    if (reinterpret_cast<std::uintptr_t>(at) % bytes) fail("%s of %u bytes at %p: misaligned", what, bytes, at);
}

// `element`: bytes of it that others see whole.
inline void store_relaxed(void* to, const void* from, unsigned bytes, unsigned element = 8) {
    check_whole(to, bytes, "relaxed store");
    pause();
    const unsigned piece = bytes > element && machine.weak && draw() % 2 ? element : bytes;
    for (unsigned i = 0; i < bytes; i += piece)
        write(static_cast<unsigned char*>(to) + i, static_cast<const unsigned char*>(from) + i, piece, true);
}

inline void load_relaxed(void* to, const void* from, unsigned bytes) {
    check_whole(from, bytes, "relaxed load");
    drain();
    pause();
    std::memcpy(to, from, bytes);
    overlay_pending(*machine.current, static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes);
}

// Shared memory is plain C++ memory, and what is written there is there at once; but for what a thread has written since
// its last atomic where a flag follows at once: a raise without a release lets others see the flag first.
inline void watch_shared() { machine.current->block->watched = machine.weak; }

inline void keep_shared() {
    Block& block = *machine.current->block;
    if (!block.watched) return;
    block.before.assign(block.shared, block.shared + machine.request.shared_bytes);
    block.writer = machine.current;
    block.since = machine.turns;
}

inline void release() { machine.current->block->writer = nullptr; }

inline void raise(unsigned* flag, unsigned number) {
    Thread& t = *machine.current;
    Block& block = *t.block;
    std::vector<std::pair<unsigned, unsigned char>> late;
    if (block.writer == &t && block.since == machine.turns)
        for (unsigned i = 0; i < machine.request.shared_bytes; ++i)
            if (block.shared[i] != block.before[i]) {
                late.push_back({i, block.shared[i]});
                block.shared[i] = block.before[i];
            }
    pause();
    *flag = number;
    note_progress();
    if (late.empty()) return;
    for (std::uint64_t left = draw() % 256; left > 0; --left) pause();
    for (auto [at, value] : late) block.shared[at] = value;
}

// Reads, changes and writes an object as one step. Relaxed: nothing else becomes visible by it.
template <class T, class Change> inline T rmw(T* at, Change change) {
    check_whole(at, sizeof(T), "atomic");
    pause(true);
    stop_block();
    Thread& t = *machine.current;
    publish_where(*t.block, [&](const Write& w) { return sees(t, w) && overlaps(w, at, sizeof(T)); });
    T old = *at, now = change(old);
    if (std::memcmp(&old, &now, sizeof(T))) note_progress();
    *at = now;
    stop_block();
    keep_shared();
    return old;
}

inline void fence() {
    pause(true);
    Thread& t = *machine.current;
    publish_where(*t.block, [&](const Write& w) { return sees(t, w); });
    t.view = machine.clock;
}

// cp.async and its groups: a copy may be made at once, and need not be made before its thread waits for it.
inline void wait_copies(unsigned pending) {
    Thread& t = *machine.current;
    auto rest = t.copies.begin();
    for (const Copy& c : t.copies) {
        if (c.group + pending < t.groups) std::memcpy(c.to, c.from, c.bytes);
        else *rest++ = c;
    }
    t.copies.erase(rest, t.copies.end());
}

inline void copy_async(void* to_shared, const void* from, unsigned bytes) {
    check_whole(to_shared, bytes, "asynchronous copy to shared memory");
    check_whole(from, bytes, "asynchronous copy");
    if (machine.weak && draw() % 8) machine.current->copies.push_back({to_shared, from, bytes, machine.current->groups});
    else std::memcpy(to_shared, from, bytes);
}

inline void commit_copies() { ++machine.current->groups; }

}  // namespace simt
