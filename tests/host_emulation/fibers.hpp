// The threads of one block as fibers of one OS thread: scheduling, barriers, warp collectives, failures.
//
// A fiber runs until it waits or returns, so a launch is deterministic. Warps, and lanes within a warp, run
// ahead of each other in an order that flips pseudo-randomly between sweeps: what is read without the barrier
// that orders it shows as a wrong (stale, overwritten or poisoned) value. Blocks run one after another.
//
// Entering a fiber takes a ucontext; after that _setjmp and _longjmp switch, which need no system call.
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

namespace emulation {

constexpr unsigned lanes_of_warp = 32;
constexpr unsigned most_threads = 1024;

// Where in the kernel's source a barrier or a collective was called.
struct Site {
    const char* file;
    int line;
};

// As a function's last parameters: the caller's place.
#define EMULATION_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

struct Thread {
    enum State { runnable, waiting, returned } state;
    uint3 index;
    bool entered;       // its stack holds a frame to jump back to
    jmp_buf frame;
    ucontext_t entry;
    const char* what;   // what it waits at ...
    Site site;          // ... and where
    unsigned mask;      // the lanes that take part
    void* registers;    // what it brings to a warp collective
};

struct Warp {
    unsigned arrived;   // lanes that wait at a collective
};

static Thread threads[most_threads];
static Warp warps[most_threads / lanes_of_warp];
static Thread* current;
static unsigned thread_count, arrived_at_barrier;
static unsigned long long blocks_begun;  // of all launches: tells what one block left behind from another's
static void (*kernel_body)(void** arguments);
static void** kernel_arguments;
static jmp_buf scheduler;
static sigjmp_buf launch_frame;
static char message[1024];

// ---------------------------------------------------------------------------------------------- failures

// End the launch; the message names the block and the thread that noticed.
[[noreturn, gnu::format(printf, 1, 2)]] static void fail(const char* format, ...) {
    int used = snprintf(message, sizeof message, "block (%u, %u, %u)", blockIdx.x, blockIdx.y, blockIdx.z);
    if (current)
        used += snprintf(message + used, sizeof message - used, ", thread (%u, %u, %u)", threadIdx.x,
                         threadIdx.y, threadIdx.z);
    used += snprintf(message + used, sizeof message - used, ": ");
    va_list values;
    va_start(values, format);
    vsnprintf(message + used, sizeof message - used, format, values);
    va_end(values);
    siglongjmp(launch_frame, 1);
}

static const char* file_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool same_text(const char* a, const char* b) { return a == b || strcmp(a, b) == 0; }

static bool same_site(const Thread& a, const Thread& b) {
    return a.site.line == b.site.line && same_text(a.what, b.what) && same_text(a.site.file, b.site.file);
}

// Nobody can go on: say how many threads are where.
[[noreturn]] static void fail_deadlock() {
    char report[800];
    int used = 0;
    bool told[most_threads] = {};
    for (unsigned i = 0; i < thread_count && used < int(sizeof report) - 1; i++) {
        if (told[i]) continue;
        const Thread& one = threads[i];
        unsigned count = 0;
        for (unsigned j = i; j < thread_count; j++) {
            const Thread& other = threads[j];
            if (other.state != one.state) continue;
            if (one.state == Thread::waiting && !same_site(one, other)) continue;
            told[j] = true;
            count++;
        }
        used += snprintf(report + used, sizeof report - used, "%s%u of %u threads (first: %u) ",
                         used ? "; " : "", count, thread_count, i);
        if (used >= int(sizeof report)) break;
        if (one.state == Thread::returned)
            used += snprintf(report + used, sizeof report - used, "returned");
        else
            used += snprintf(report + used, sizeof report - used, "wait at %s (%s:%d)", one.what,
                             file_name(one.site.file), one.site.line);
    }
    current = nullptr;
    fail("deadlock: %s", report);
}

// ---------------------------------------------------------------------------------------------- switching

// noipa: the compiler must take every static variable, shared memory with them, as changed by a switch.
#define EMULATION_OPAQUE __attribute__((noinline, noipa))

EMULATION_OPAQUE static void to_scheduler() {
    if (!_setjmp(current->frame)) _longjmp(scheduler, 1);
}

EMULATION_OPAQUE static void resume(Thread& thread) {
    current = &thread;
    threadIdx = thread.index;
    if (_setjmp(scheduler)) return;
    if (thread.entered) _longjmp(thread.frame, 1);
    thread.entered = true;
    setcontext(&thread.entry);
}

// A fiber outlives its block: it runs the kernel once each time the scheduler comes back to it.
static void fiber() {
    for (;;) {
        kernel_body(kernel_arguments);
        current->state = Thread::returned;
        to_scheduler();
    }
}

static void wait_at(const char* what, Site site, unsigned mask, void* registers) {
    current->state = Thread::waiting;
    current->what = what;
    current->site = site;
    current->mask = mask;
    current->registers = registers;
}

// ---------------------------------------------------------------------------------------------- waiting

static void block_barrier(Site site) {
    wait_at("__syncthreads", site, 0, nullptr);
    if (++arrived_at_barrier < thread_count) return to_scheduler();
    for (unsigned i = 0; i < thread_count; i++)
        if (!same_site(threads[i], *current))
            fail("threads of one block meet at different __syncthreads: lines %d and %d of %s",
                 threads[i].site.line, site.line, file_name(site.file));
    arrived_at_barrier = 0;
    for (unsigned i = 0; i < thread_count; i++) threads[i].state = Thread::runnable;
}

static unsigned lane() { return unsigned(current - threads) % lanes_of_warp; }

// The one mechanism behind every warp-wide operation. Each lane of `mask` brings its registers; the last one to
// arrive runs `operate(mask, registers)` on all of them in place, with registers[l] those of lane l.
template <class Registers, class Operation>
static void collective(const char* what, Site site, unsigned mask, Registers& own, Operation operate) {
    const unsigned me = lane();
    Thread* const lanes = current - me;
    Warp& warp = warps[(current - threads) / lanes_of_warp];
    if (!(mask >> me & 1)) fail("%s (%s:%d): lane %u is not in its own mask %08x", what,
                                file_name(site.file), site.line, me, mask);
    if (lanes + lanes_of_warp > threads + thread_count) {
        const unsigned present = thread_count % lanes_of_warp;
        if (mask >> present)
            fail("%s (%s:%d): mask %08x names lanes of a warp that has only %u threads", what,
                 file_name(site.file), site.line, mask, present);
    }
    wait_at(what, site, mask, &own);
    warp.arrived |= 1u << me;
    if ((warp.arrived & mask) != mask) return to_scheduler();

    Registers* registers[lanes_of_warp] = {};
    for (unsigned l = 0; l < lanes_of_warp; l++) {
        if (!(mask >> l & 1)) continue;
        if (lanes[l].mask != mask || !same_site(lanes[l], *current))
            fail("lanes %u and %u of one warp meet at different collectives: %s (%s:%d, mask %08x) and "
                 "%s (%s:%d, mask %08x)", l, me, lanes[l].what, file_name(lanes[l].site.file),
                 lanes[l].site.line, lanes[l].mask, what, file_name(site.file), site.line, mask);
        registers[l] = static_cast<Registers*>(lanes[l].registers);
    }
    operate(mask, registers);
    warp.arrived &= ~mask;
    for (unsigned l = 0; l < lanes_of_warp; l++)
        if (mask >> l & 1) lanes[l].state = Thread::runnable;
}

// ---------------------------------------------------------------------------------------------- one block

static uint32_t order;  // state of the generator that flips directions

static bool flipped() {
    order = order * 1664525u + 1013904223u;
    return order >> 31;
}

// Run a warp's threads until each of them waits for another warp or has returned; say whether any ran.
static bool run_warp(unsigned first) {
    const unsigned count = thread_count - first < lanes_of_warp ? thread_count - first : lanes_of_warp;
    bool ran = false;
    for (bool again = true; again;) {
        again = false;
        const bool backwards = flipped();
        for (unsigned i = 0; i < count; i++) {
            Thread& thread = threads[first + (backwards ? count - 1 - i : i)];
            if (thread.state != Thread::runnable) continue;
            resume(thread);
            ran = again = true;
        }
    }
    return ran;
}

static void run_block() {
    blocks_begun++;
    arrived_at_barrier = 0;
    memset(warps, 0, sizeof warps);
    for (unsigned i = 0; i < thread_count; i++) threads[i].state = Thread::runnable;
    const unsigned warp_count = (thread_count + lanes_of_warp - 1) / lanes_of_warp;
    for (bool again = true; again;) {
        again = false;
        const bool backwards = flipped();
        for (unsigned w = 0; w < warp_count; w++)
            again |= run_warp((backwards ? warp_count - 1 - w : w) * lanes_of_warp);
    }
    for (unsigned i = 0; i < thread_count; i++)
        if (threads[i].state != Thread::returned) fail_deadlock();
}

// ---------------------------------------------------------------------------------------------- stacks

// Give every thread of a block its stack. Python keeps the stacks for all launches: first touches are dear.
static void make_fibers(char* stacks, size_t spacing, size_t stack_size) {
    for (unsigned i = 0; i < thread_count; i++) {
        Thread& thread = threads[i];
        thread.entered = false;
        thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        getcontext(&thread.entry);
        thread.entry.uc_stack.ss_sp = stacks + i * spacing;
        thread.entry.uc_stack.ss_size = stack_size - i % lanes_of_warp * 128;  // not all in the same cache sets
        thread.entry.uc_link = nullptr;
        makecontext(&thread.entry, fiber, 0);
    }
}

}  // namespace emulation
