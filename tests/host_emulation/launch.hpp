// From Python's array of pointers to a kernel's arguments.
#pragma once

#include <stdio.h>
#include <type_traits>
#include <utility>

#include "cuda.hpp"

namespace emulation {

// A parameter in a form Python can check: scalars "f4" "f8" "i4" "u8" ..., structs "v<bytes>", pointers "*"
// and what they point to, with "k" between where that is const; "*v0" is void*.
template <class T>
void describe(char*& out, const char* end) {
    if constexpr (std::is_pointer_v<T>) {
        using Pointee = std::remove_pointer_t<T>;
        out += snprintf(out, end - out, std::is_const_v<Pointee> ? "*k" : "*");
        describe<std::remove_cv_t<Pointee>>(out, end);
    } else if constexpr (std::is_void_v<T>) {
        out += snprintf(out, end - out, "v0");
    } else {
        const char kind = std::is_floating_point_v<T> ? 'f'
                          : !std::is_integral_v<T>    ? 'v'
                          : std::is_signed_v<T>       ? 'i'
                                                      : 'u';
        out += snprintf(out, end - out, "%c%zu", kind, sizeof(T));
    }
}

template <auto kernel>
struct Kernel;

template <class... Parameters, void (*kernel)(Parameters...)>
struct Kernel<kernel> {
    static void call(void** arguments) { unpack(arguments, std::index_sequence_for<Parameters...>()); }

    template <size_t... I>
    static void unpack(void** arguments, std::index_sequence<I...>) {
        kernel(*static_cast<Parameters*>(arguments[I])...);
    }

    static const char* parameters() {
        static char text[32 * sizeof...(Parameters) + 1];
        char *out = text, *const end = text + sizeof text;
        ((describe<Parameters>(out, end), out += snprintf(out, end - out, " ")), ...);
        return text;
    }
};

// Memory for the threads' stacks: `size` bytes each, `spacing` bytes apart.
struct Stacks {
    char* first;
    size_t spacing, size;
};

// Run a grid. Returns nullptr, or what went wrong.
[[gnu::visibility("hidden")]] const char* run_grid(const unsigned* grid, const unsigned* block, void** arguments,
                                                   Memory dynamic_shared, const Stacks& stacks, void (*call)(void**));

}  // namespace emulation

// What Python calls; written once after the kernel's source.
#define EMULATED_KERNEL(name)                                                                               \
    extern "C" __attribute__((visibility("default"))) const char* emulated_parameters() {                  \
        return ::emulation::Kernel<&::emulated::name>::parameters();                                       \
    }                                                                                                      \
    extern "C" __attribute__((visibility("default"))) const char* emulated_launch(                         \
        const unsigned* grid, const unsigned* block, void** arguments, void* shared, size_t shared_bytes,   \
        const ::emulation::Stacks* stacks) {                                                                \
        return ::emulation::run_grid(grid, block, arguments, {shared, shared_bytes}, *stacks,              \
                                     &::emulation::Kernel<&::emulated::name>::call);                       \
    }
