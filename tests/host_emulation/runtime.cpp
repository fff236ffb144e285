// What is the same in all libraries, compiled once: the fibers, the checks, and the way over the blocks of a grid.
#include <link.h>

#include "launch.hpp"

#include "checks.hpp"
#include "scheduler.hpp"

namespace emulation {

Memory dynamic_shared_memory;

static thread_local char some_shared_memory;  // no library is without

static int find_shared_memory(dl_phdr_info* library, size_t, void* found) {
    const auto own_code = reinterpret_cast<ElfW(Addr)>(&find_shared_memory);
    const ElfW(Phdr)* thread_local_segment = nullptr;
    bool own = false;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr)& segment = library->dlpi_phdr[i];
        if (segment.p_type == PT_TLS) thread_local_segment = &segment;
        if (segment.p_type == PT_LOAD) own |= own_code - library->dlpi_addr - segment.p_vaddr < segment.p_memsz;
    }
    if (own) *static_cast<Memory*>(found) = {library->dlpi_tls_data, thread_local_segment->p_memsz};
    return own;
}

// Fill with ones: NaN in every floating type, -1 in every signed one.
static void poison(Memory memory) { memset(memory.start, 0xff, memory.size); }

// The shared memory of this library.
static Memory shared_memory() {
    *static_cast<volatile char*>(&some_shared_memory) = 0;  // now it is allocated
    Memory found = {};
    dl_iterate_phdr(find_shared_memory, &found);
    return found;
}

const char* run_grid(const unsigned* grid, const unsigned* block, void** arguments, Memory dynamic_shared,
                     const Stacks& stacks, void (*call)(void**)) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    thread_count = block[0] * block[1] * block[2];
    kernel_body = call;
    kernel_arguments = arguments;
    order = 1;
    current = nullptr;
    make_fibers(stacks.first, stacks.spacing, stacks.size);
    const Memory shared = shared_memory();
    dynamic_shared_memory = dynamic_shared;
    const char* failure = nullptr;
    signal_net.spread();
    if (sigsetjmp(launch_frame, 1) == 0) {
        for (unsigned z = 0; z < grid[2]; z++)
            for (unsigned y = 0; y < grid[1]; y++)
                for (unsigned x = 0; x < grid[0]; x++) {
                    blockIdx = {x, y, z};
                    poison(shared);
                    poison(dynamic_shared);
                    run_block();
                }
    } else {
        failure = message;
    }
    signal_net.fold();
    return failure;
}

}  // namespace emulation
