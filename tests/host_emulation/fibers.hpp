// The threads of one block as fibers of one OS thread: scheduling, barriers, warp collectives, failures.
//
// A fiber runs until it waits or returns, so a launch is deterministic. Warps, and lanes within a warp, run
// ahead of each other in an order that flips pseudo-randomly between sweeps: what is read without the barrier
// that orders it shows as a wrong (stale, overwritten or poisoned) value. Blocks run one after another.
//
// This is what a kernel's code sees of them; scheduler.hpp has the rest.
#pragma once

#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

#pragma GCC visibility push(hidden)  // each library has its own of what follows

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

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

extern Thread threads[most_threads];
extern Warp warps[most_threads / lanes_of_warp];
extern Thread* current;
extern unsigned thread_count;
extern unsigned long long blocks_begun;  // of all launches: tells what one block left behind from another's

// End the launch; the message names the block and the thread that noticed.
[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* format, ...);

// Give way to the block's other threads until this one is runnable again.
void to_scheduler();

void block_barrier(Site site);

inline const char* file_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

inline bool same_text(const char* a, const char* b) { return a == b || strcmp(a, b) == 0; }

inline bool same_site(const Thread& a, const Thread& b) {
    return a.site.line == b.site.line && same_text(a.what, b.what) && same_text(a.site.file, b.site.file);
}

inline void wait_at(const char* what, Site site, unsigned mask, void* registers) {
    current->state = Thread::waiting;
    current->what = what;
    current->site = site;
    current->mask = mask;
    current->registers = registers;
}

inline unsigned lane() { return unsigned(current - threads) % lanes_of_warp; }

// The one mechanism behind every warp-wide operation. Each lane of `mask` brings its registers; the last one to
// arrive runs `operate(mask, registers)` on all of them in place, with registers[l] those of lane l.
template <class Registers, class Operation>
inline void collective(const char* what, Site site, unsigned mask, Registers& own, Operation operate) {
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

}  // namespace emulation

#pragma GCC visibility pop
