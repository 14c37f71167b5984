// The machine's state: the blocks in flight, their threads, and how a launch ends with an error.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fibre.hpp"

namespace simt {

struct Index3 {
    unsigned x, y, z;
};

enum class Schedule : int { forward, reverse, random, starved, round_robin };

enum class Wait : unsigned char { none, barrier, down, up, exchange, broadcast, ballot, any, all, sync, named };

inline const char* name(Wait wait) {
    static const char* const names[] = {"nothing",         "__syncthreads", "__shfl_down_sync", "__shfl_up_sync",
                                        "__shfl_xor_sync", "__shfl_sync",   "__ballot_sync",    "__any_sync",
                                        "__all_sync",      "__syncwarp",    "bar.sync"};
    return names[static_cast<int>(wait)];
}

struct Block;

// An asynchronous copy from global to shared memory that may still be on its way.
struct Copy {
    void* to;
    const void* from;
    unsigned bytes, group;
};

struct Thread {
    Fibre fibre;
    Block* block;
    char* stack;
    Index3 index;
    unsigned rank, lane, warp;
    Wait wait;            // what it waits for
    unsigned mask;        // of the collective it waits in
    int argument, width;  // of a shuffle
    std::uint64_t value;  // given to the collective, then got from it
    std::uint64_t view;   // it sees every write published up to this time (memory.hpp)
    unsigned polls;
    bool joined;          // came out of a __syncwarp of all its warp, and to no named barrier since
    unsigned groups;      // of copies it has closed
    std::vector<Copy> copies;
    const char* file;     // the last barrier or collective it came to
    int line;
};

// A write to global memory that not every thread can see yet (memory.hpp).
struct Write {
    unsigned char* to;
    unsigned rank;  // the thread that wrote
    unsigned char bytes, reach;
    bool eventual;  // becomes visible in time without a fence
    unsigned char value[16];
};

// A barrier that some warps of a block wait at and others only arrive at.
struct Named {
    struct Arrival { unsigned rank; bool waits; };
    std::vector<Arrival> arrived;
    unsigned threads;  // that it is for
};

struct Block {
    Index3 index;
    unsigned number, count, live, arrived, runnable, cursor;
    unsigned met;  // threads that have come to a cluster's meetings, all in all
    std::uint64_t asleep_until;
    const char* file;  // the barrier that threads wait at
    int line;
    std::vector<Thread> threads;
    std::uint64_t ready[16];          // one bit a thread: it can run
    unsigned lanes[32], waiting[32];  // one bit a lane: alive; in a collective
    std::vector<unsigned char> memory;
    unsigned char* shared;
    Named named[16];
    std::vector<Write> writes;
    bool watched;  // what its threads write to shared memory behind an atomic may be late (memory.hpp)
    std::vector<unsigned char> before;  // shared memory as it was when a thread came back from its last atomic
    const Thread* writer;               // that thread, and when: nobody else has run since
    std::uint64_t since;
};

// What a stretch of memory held before the write published at `time`.
struct Old {
    std::uint64_t time;
    unsigned char at, bytes, value[16];
};

// Memory that kernels may touch.
struct Range {
    std::uintptr_t begin, end;
};

struct Request {
    void (*body)(const void* task);
    const void* task;
    Index3 grid, block;
    unsigned shared_bytes;
    Schedule schedule;
    std::uint64_t seed;
    std::uint64_t budget;  // accesses without progress after which a spin counts as endless
    const Range* ranges;   // sorted; none: unchecked
    unsigned range_count;
};

struct Sleeper {
    std::uint64_t until;
    Thread* thread;
};

struct Machine {
    Thread* current = nullptr;
    Block* polled = nullptr;  // whose thread gave way last, and the thread that is next in order
    int behind = 0;
    Request request{};
    Fibre main;
    Stacks stacks;
    std::vector<std::unique_ptr<Block>> resident;  // in the order they started
    std::vector<std::unique_ptr<Block>> spare;
    std::vector<Sleeper> asleep;
    std::vector<unsigned> order;                   // of block numbers: which starts next
    std::size_t started = 0, window = 1;
    std::uint64_t random = 1, steps = 0, idle = 0, clock = 0, turns = 0;
    unsigned turn = 0, eventual = 0;
    bool weak = false;  // writes are published late and read stale, as far as the model allows
    std::unordered_map<std::uintptr_t, std::vector<Old>> history;
    bool failed = false;
    char message[1024] = "";
    sigjmp_buf escape;
};

inline Machine machine;

inline std::uint64_t draw() {  // xorshift64* (Vigna, 2016)
    std::uint64_t x = machine.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    machine.random = x;
    return (x * 0x2545F4914F6CDD1Dull) >> 16;
}

// Keeps the first error of a launch, preceded by who was running.
[[gnu::format(printf, 1, 0)]] inline void explain(const char* format, std::va_list arguments) {
    if (machine.failed) return;
    machine.failed = true;
    int used = 0;
    if (const Thread* t = machine.current) {
        const Index3& b = t->block->index;
        used = std::snprintf(machine.message, sizeof machine.message, "block (%u,%u,%u) thread (%u,%u,%u): ", b.x,
                             b.y, b.z, t->index.x, t->index.y, t->index.z);
    }
    std::vsnprintf(machine.message + used, sizeof machine.message - used, format, arguments);
}

// Ends the launch with an error, from any fibre or a signal; the fibres in flight are abandoned.
[[noreturn, gnu::format(printf, 1, 2)]] inline void fail(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    explain(format, arguments);
    va_end(arguments);
    siglongjmp(machine.escape, 1);
}

inline void set_ready(Thread& t, bool ready) {
    std::uint64_t bit = 1ull << (t.rank % 64);
    std::uint64_t& word = t.block->ready[t.rank / 64];
    if (bool(word & bit) == ready) return;
    word ^= bit;
    t.block->runnable += ready ? 1u : ~0u;
}

}  // namespace simt
