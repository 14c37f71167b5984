// Fibres: one stack a thread of the grid, and the switch from one to another.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if !defined(__x86_64__) || defined(SIMT_UCONTEXT)
#include <ucontext.h>
#endif

namespace simt {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr std::size_t kGuardBytes = 64;
constexpr unsigned char kGuard = 0xa5;

#if defined(__x86_64__) && !defined(SIMT_UCONTEXT)

// Saves what a called function must preserve, then takes the other stack. swapcontext does the same but asks the
// kernel for the signal mask at every switch, which costs more than all the rest of the emulation.
extern "C" void simt_switch(void** save, void* load);
asm(R"(
    .text
    .type simt_switch, @function
simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simt_switch, .-simt_switch
)");

struct Fibre {
    void* top = nullptr;
};

inline void prepare(Fibre& fibre, char* stack, void (*entry)()) {
    auto** words = reinterpret_cast<void**>(stack + kStackBytes) - 8;
    for (int i = 0; i < 8; ++i) words[i] = nullptr;
    words[6] = reinterpret_cast<void*>(entry);  // where the first `ret` goes, on a stack aligned as after a call
    fibre.top = words;
}

inline void swap(Fibre& from, Fibre& to) { simt_switch(&from.top, to.top); }

#else

struct Fibre {
    ucontext_t context;
};

inline void prepare(Fibre& fibre, char* stack, void (*entry)()) {
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = stack;
    fibre.context.uc_stack.ss_size = kStackBytes;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, entry, 0);
}

inline void swap(Fibre& from, Fibre& to) { swapcontext(&from.context, &to.context); }

#endif

// Stacks are mapped once and used again by later blocks and launches. Bytes below each tell of an overflow; a page that
// faults would tell sooner, but each one counts as a mapping, of which a process may have 65530.
class Stacks {
  public:
    char* take() {
        if (free_.empty()) grow();
        char* stack = free_.back();
        free_.pop_back();
        return stack;
    }

    void give(char* stack) {
        check(stack);
        free_.push_back(stack);
    }

    // After a launch that failed no fibre runs any more, so every stack is free.
    void reclaim() { free_ = all_; }

  private:
    static void check(const char* stack) {
        for (std::size_t i = 1; i <= kGuardBytes; ++i)
            if (static_cast<unsigned char>(stack[-static_cast<std::ptrdiff_t>(i)]) != kGuard) __builtin_trap();
    }

    void grow() {
        constexpr int kSlab = 256;
        constexpr std::size_t kStep = kGuardBytes + kStackBytes;
        void* slab = mmap(nullptr, kSlab * kStep, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slab == MAP_FAILED) __builtin_trap();
        for (int i = kSlab - 1; i >= 0; --i) {
            char* base = static_cast<char*>(slab) + i * kStep;
            std::memset(base, kGuard, kGuardBytes);
            all_.push_back(base + kGuardBytes);
            free_.push_back(base + kGuardBytes);
        }
    }

    std::vector<char*> free_, all_;
};

}  // namespace simt
