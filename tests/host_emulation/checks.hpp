// What would be undefined behaviour or a crash ends the launch with a message instead.
//
// Two nets: signals (a wild pointer, a fiber's stack overflow), and the compiler's undefined-behaviour checks
// (-fsanitize=bounds,alignment,shift,signed-integer-overflow,integer-divide-by-zero), whose handlers are
// defined here so that no sanitizer library has to be loaded into Python.
#pragma once

#include <signal.h>

#include "fibers.hpp"

namespace emulation {

constexpr int caught_signals[] = {SIGSEGV, SIGBUS, SIGFPE};
constexpr int caught_signal_count = sizeof caught_signals / sizeof *caught_signals;

static void on_signal(int number, siginfo_t* info, void*) {
    const char* name = number == SIGSEGV ? "segmentation fault" : number == SIGBUS ? "bus error" : "SIGFPE";
    fail("%s at address %p: a wild pointer, or local arrays beyond a thread's stack", name, info->si_addr);
}

// Signal handlers for the time of a launch, on their own stack: a fiber's may be the one that overflowed.
struct SignalNet {
    struct sigaction before[caught_signal_count];
    stack_t stack_before;
    char stack[64 * 1024];

    void spread() {
        stack_t own = {};
        own.ss_sp = stack;
        own.ss_size = sizeof stack;
        sigaltstack(&own, &stack_before);
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int i = 0; i < caught_signal_count; i++) sigaction(caught_signals[i], &action, &before[i]);
    }

    void fold() {
        for (int i = 0; i < caught_signal_count; i++) sigaction(caught_signals[i], &before[i], nullptr);
        sigaltstack(&stack_before, nullptr);
    }
};

static SignalNet signal_net;

// The start of every record the compiler hands to a handler.
struct CheckRecord {
    const char* file;
    uint32_t line, column;
};

[[noreturn]] static void fail_check(const void* record, const char* what) {
    const auto* where = static_cast<const CheckRecord*>(record);
    fail("%s (%s:%u)", what, file_name(where->file), where->line);
}

}  // namespace emulation

#define EMULATION_HANDLER(name, what)                                                                   \
    extern "C" [[noreturn, gnu::used, gnu::visibility("hidden")]] void __ubsan_handle_##name##_abort(   \
        void* record, uintptr_t, uintptr_t) {                                                           \
        ::emulation::fail_check(record, what);                                                          \
    }

EMULATION_HANDLER(out_of_bounds, "index out of the bounds of an array")
EMULATION_HANDLER(type_mismatch_v1, "misaligned access")
EMULATION_HANDLER(shift_out_of_bounds, "shift by more than the bits there are")
EMULATION_HANDLER(add_overflow, "overflow of a signed integer")
EMULATION_HANDLER(sub_overflow, "overflow of a signed integer")
EMULATION_HANDLER(mul_overflow, "overflow of a signed integer")
EMULATION_HANDLER(negate_overflow, "overflow of a signed integer")
EMULATION_HANDLER(divrem_overflow, "integer division by zero")
