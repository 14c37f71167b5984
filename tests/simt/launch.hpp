// Runs a grid to its end: starts blocks as others finish, and turns whatever goes wrong into a message.
#pragma once

#include <signal.h>
#include <sys/time.h>

#include <numeric>

#include "collectives.hpp"

namespace simt {

constexpr unsigned kCanaryBytes = 256;
constexpr int kSeconds = 10;  // of processor time, for loops that never come to a point the budget counts

inline void run_thread() {
    machine.request.body(machine.request.task);
    leave();
}

// Shared memory starts as noise, so that a read before any write shows; the bytes behind it are watched.
inline void give_shared(Block& block, unsigned bytes) {
    block.memory.resize(bytes + 128 + kCanaryBytes);
    auto address = reinterpret_cast<std::uintptr_t>(block.memory.data());
    block.shared = block.memory.data() + (128 - address % 128) % 128;
    for (unsigned i = 0; i < bytes; i += 8) {
        std::uint64_t noise = draw() * 0x9E3779B97F4A7C15ull;
        std::memcpy(block.shared + i, &noise, 8);
    }
    std::memset(block.shared + bytes, 0xC5, kCanaryBytes);
}

inline void check_shared(const Block& block) {
    for (unsigned i = 0; i < kCanaryBytes; ++i)
        if (block.shared[machine.request.shared_bytes + i] != 0xC5)
            fail("block (%u,%u,%u): wrote %u bytes past the end of its %u bytes of shared memory", block.index.x,
                 block.index.y, block.index.z, i + 1, machine.request.shared_bytes);
}

inline void start_block(unsigned number) {
    const Request& r = machine.request;
    if (machine.spare.empty()) machine.spare.push_back(std::make_unique<Block>());
    std::unique_ptr<Block> owned = std::move(machine.spare.back());
    machine.spare.pop_back();
    Block& block = *owned;
    machine.resident.push_back(std::move(owned));
    block.number = number;
    block.index = {number % r.grid.x, number / r.grid.x % r.grid.y, number / r.grid.x / r.grid.y};
    block.count = block.live = r.block.x * r.block.y * r.block.z;
    block.arrived = block.runnable = block.cursor = block.met = 0;
    for (Named& barrier : block.named) barrier.arrived.clear();
    block.asleep_until = 0;
    block.watched = false, block.writer = nullptr;
    std::memset(block.ready, 0, sizeof block.ready);
    std::memset(block.lanes, 0, sizeof block.lanes);
    std::memset(block.waiting, 0, sizeof block.waiting);
    give_shared(block, r.shared_bytes);
    block.threads.resize(block.count);
    for (unsigned i = 0; i < block.count; ++i) {
        Thread& t = block.threads[i];
        t.block = &block;
        t.stack = machine.stacks.take();
        t.index = {i % r.block.x, i / r.block.x % r.block.y, i / r.block.x / r.block.y};
        t.rank = i, t.lane = i % 32, t.warp = i / 32;
        t.wait = Wait::none, t.view = 0, t.polls = t.groups = 0, t.joined = false, t.file = "start of the kernel", t.line = 0;
        t.copies.clear();
        block.lanes[t.warp] |= 1u << t.lane;
        prepare(t.fibre, t.stack, run_thread);
        set_ready(t, true);
    }
    note_progress();
}

// Blocks of a cluster are in flight together, from the first that asks for another: it starts the others out of turn. None
// that has ended is there.
inline Block* beside(unsigned rank, unsigned blocks) {
    const unsigned number = machine.current->block->number / blocks * blocks + rank;
    for (auto& block : machine.resident)
        if (block->number == number) return block.get();
    auto next = std::find(machine.order.begin() + long(machine.started), machine.order.end(), number);
    if (next == machine.order.end()) return nullptr;
    machine.order.erase(next);
    machine.order.insert(machine.order.begin() + long(machine.started++), number);
    start_block(number);
    return machine.resident.back().get();
}

// All threads of the blocks of a cluster come here, and none goes on before all have come.
inline void meet_cluster(unsigned blocks) {
    Block& own = *machine.current->block;
    const unsigned meetings = own.met++ / own.count + 1;
    note_progress();
    for (unsigned rank = 0; rank < blocks; ++rank)
        for (Block* other = beside(rank, blocks); other && other->met < meetings * other->count; other = beside(rank, blocks))
            pause();
}

// Where `at`, in this block's shared memory, is in that of another block of its cluster.
template <class T> inline T* beside(T* at, unsigned rank, unsigned blocks) {
    Block* other = beside(rank, blocks);
    if (!other) fail("block %u of its cluster has ended, or has none", rank);
    const auto offset = reinterpret_cast<unsigned char*>(at) - machine.current->block->shared;
    return reinterpret_cast<T*>(other->shared + offset);
}

// Takes finished blocks out of flight. What they wrote without a fence stays hidden until the grid ends.
inline void retire_blocks(std::vector<Write>& left) {
    for (std::size_t i = 0; i < machine.resident.size();) {
        Block& block = *machine.resident[i];
        if (block.live) {
            ++i;
            continue;
        }
        check_shared(block);
        while (publish_relaxed(block, false)) {
        }
        left.insert(left.end(), block.writes.begin(), block.writes.end());
        block.writes.clear();
        for (Thread& t : block.threads) machine.stacks.give(t.stack);
        machine.spare.push_back(std::move(machine.resident[i]));
        machine.resident.erase(machine.resident.begin() + long(i));
    }
}

inline void report_deadlock() {
    for (auto& owned : machine.resident)
        for (const Thread& t : owned->threads) {
            if (t.wait == Wait::none) continue;
            unsigned there = 0;
            for (const Thread& other : owned->threads) there += other.wait == t.wait && other.line == t.line;
            const Index3& b = owned->index;
            fail("block (%u,%u,%u): %u of %u live threads wait in %s at %s:%d for others that never come", b.x, b.y,
                 b.z, there, owned->live, name(t.wait), t.file, t.line);
        }
}

inline void choose_order(unsigned blocks) {
    Schedule schedule = machine.request.schedule;
    machine.order.resize(blocks);
    std::iota(machine.order.begin(), machine.order.end(), 0u);
    if (schedule == Schedule::reverse) std::reverse(machine.order.begin(), machine.order.end());
    if (schedule == Schedule::random)
        for (unsigned i = blocks; i > 1; --i) std::swap(machine.order[i - 1], machine.order[draw() % i]);
    unsigned threads = machine.request.block.x * machine.request.block.y * machine.request.block.z;
    std::size_t most = std::clamp(8192u / threads, 2u, 16u);
    machine.window = schedule == Schedule::reverse ? 2 : schedule == Schedule::random ? 2 + draw() % (most - 1) : most;
}

inline void run_grid() {
    const Request& r = machine.request;
    machine.random = r.seed * 0x9E3779B97F4A7C15ull + 0x1234567;
    machine.steps = machine.idle = machine.clock = machine.started = 0;
    machine.turn = machine.eventual = 0;
    machine.polled = nullptr;
    machine.weak = r.schedule != Schedule::forward;
    choose_order(r.grid.x * r.grid.y * r.grid.z);
    std::vector<Write> left;
    for (;;) {
        while (machine.resident.size() < machine.window && machine.started < machine.order.size())
            start_block(machine.order[machine.started++]);
        if (machine.resident.empty()) break;
        machine.current = pick(false);
        if (!machine.current) report_deadlock();
        ++machine.turns;
        swap(machine.main, machine.current->fibre);
        machine.current = nullptr;
        retire_blocks(left);
    }
    for (const Write& w : left) publish(w);
}

// What a launch that ended early leaves behind must not reach the next one.
inline void clear() {
    for (auto& block : machine.resident) {
        block->writes.clear();
        machine.spare.push_back(std::move(block));
    }
    machine.resident.clear();
    machine.history.clear();
    machine.asleep.clear();
    machine.stacks.reclaim();
    machine.current = nullptr;
}

inline void on_signal(int number, siginfo_t* info, void*) {
    const char* what = number == SIGVTALRM ? "no end within the time limit" : strsignal(number);
    const Thread* t = machine.current;
    fail("%s (address %p; last barrier or collective: %s:%d)", what, number == SIGVTALRM ? nullptr : info->si_addr,
         t ? t->file : "none", t ? t->line : 0);
}

// Turns faults of the emulated threads, on their small stacks, into errors of the launch.
class Signals {
  public:
    Signals() : memory_(64 * 1024) {
        stack_t stack{};
        stack.ss_sp = memory_.data();
        stack.ss_size = memory_.size();
        sigaltstack(&stack, &stack_before_);
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int i = 0; i < kCount; ++i) sigaction(kNumbers[i], &action, &before_[i]);
        itimerval limit{{0, 0}, {kSeconds, 0}};
        setitimer(ITIMER_VIRTUAL, &limit, nullptr);
    }

    ~Signals() {
        itimerval none{};
        setitimer(ITIMER_VIRTUAL, &none, nullptr);
        for (int i = 0; i < kCount; ++i) sigaction(kNumbers[i], &before_[i], nullptr);
        sigaltstack(&stack_before_, nullptr);
    }

  private:
    static constexpr int kCount = 5;
    static constexpr int kNumbers[kCount] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
    std::vector<char> memory_;
    stack_t stack_before_{};
    struct sigaction before_[kCount];
};

// Empty text, or what went wrong.
inline const char* launch(const Request& request) {
    machine.request = request;
    machine.failed = false;
    machine.message[0] = '\0';
    Signals signals;
    if (!sigsetjmp(machine.escape, 1)) run_grid();
    clear();
    return machine.message;
}

// A kernel takes one struct by value; each thread gets a copy of its bytes.
struct Kernel {
    void (*body)(const void* task);
    unsigned task_bytes;
};
template <auto Name> struct Entry;
template <class Task, void (*Name)(Task)> struct Entry<Name> {
    static void body(const void* task) { Name(*static_cast<const Task*>(task)); }
    static constexpr Kernel kernel{body, sizeof(Task)};
};

// What the Python driver calls. Empty text, or what went wrong.
inline const char* launch(const Kernel& kernel, const void* task, unsigned task_bytes, const unsigned* shape,
                          unsigned shared_bytes, int schedule, std::uint64_t seed, std::uint64_t budget,
                          const void* ranges, unsigned range_count) {
    if (task_bytes != kernel.task_bytes) {
        std::snprintf(machine.message, sizeof machine.message, "task of %u bytes; the kernel takes %u", task_bytes,
                      kernel.task_bytes);
        return machine.message;
    }
    alignas(64) static unsigned char copy[32 * 1024];
    if (task_bytes > sizeof copy) __builtin_trap();
    std::memcpy(copy, task, task_bytes);
    return launch(Request{kernel.body, copy, {shape[0], shape[1], shape[2]}, {shape[3], shape[4], shape[5]},
                          shared_bytes, static_cast<Schedule>(schedule), seed, budget,
                          static_cast<const Range*>(ranges), range_count});
}

}  // namespace simt
