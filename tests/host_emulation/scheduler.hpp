// What runs the fibers of a block (fibers.hpp): switching, barriers, order, failures.
//
// Entering a fiber takes a ucontext; after that _setjmp and _longjmp switch, which need no system call.
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "fibers.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

Thread threads[most_threads];
Warp warps[most_threads / lanes_of_warp];
Thread* current;
unsigned thread_count;
unsigned long long blocks_begun;

static unsigned arrived_at_barrier;
static void (*kernel_body)(void** arguments);
static void** kernel_arguments;
static jmp_buf scheduler;
static sigjmp_buf launch_frame;
static char message[1024];

// ---------------------------------------------------------------------------------------------- failures

void fail(const char* format, ...) {
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

EMULATION_OPAQUE void to_scheduler() {
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

// ---------------------------------------------------------------------------------------------- waiting

void block_barrier(Site site) {
    wait_at("__syncthreads", site, 0, nullptr);
    if (++arrived_at_barrier < thread_count) return to_scheduler();
    for (unsigned i = 0; i < thread_count; i++)
        if (!same_site(threads[i], *current))
            fail("threads of one block meet at different __syncthreads: lines %d and %d of %s",
                 threads[i].site.line, site.line, file_name(site.file));
    arrived_at_barrier = 0;
    for (unsigned i = 0; i < thread_count; i++) threads[i].state = Thread::runnable;
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
