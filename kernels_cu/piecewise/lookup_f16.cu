// Any function of float16 numbers, from the table of all of them:
//
//   y[i] = table[bits of x[i]]
//
//   x, y     (n,)      float16, by their bits; vectors if both are aligned to 16 bytes
//   table    (65536,)  float16
//
// A block has the table in shared memory, 128 KiB, so only one block runs on a multiprocessor. Memory and the banks of
// shared memory limit the time: of 32 random numbers, three or four share a bank.
//
// A block owns tiles of IN_FLIGHT vectors for each thread, in a grid-stride loop. A thread's next loads are in flight
// while it looks up. Barriers: one, after the table is loaded.
//
// Macros: THREADS, IN_FLIGHT.
#include "ptx.cuh"

struct Half {
    unsigned short bits;
};

constexpr int vector = 8;  // numbers of 16 bytes
constexpr int tile = THREADS * IN_FLIGHT * vector;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
lookup_f16(const Half* __restrict__ x, const Half* __restrict__ table, Half* __restrict__ y, long long n) {
    extern __shared__ uint4 shared_table[];
    const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(y)) % 16 == 0;
    const auto is_whole = [&](long long begin) { return aligned && begin + tile <= n; };
    uint4 ahead[IN_FLIGHT];
    const auto fetch = [&](long long begin) {
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; v++)
            ahead[v] = load_streaming(x + begin + (v * THREADS + threadIdx.x) * vector);
    };
    if (is_whole((long long)blockIdx.x * tile)) fetch((long long)blockIdx.x * tile);
    for (int i = threadIdx.x; i < 65536 / vector; i += THREADS)
        shared_table[i] = reinterpret_cast<const uint4*>(table)[i];
    __syncthreads();

    const unsigned short* const values = reinterpret_cast<const unsigned short*>(shared_table);
    const auto two = [&](unsigned bits) { return values[bits & 0xffffu] | unsigned(values[bits >> 16]) << 16; };
    const long long stride_of_grid = (long long)gridDim.x * tile;
    for (long long begin = (long long)blockIdx.x * tile; begin < n; begin += stride_of_grid) {
        if (is_whole(begin)) {
            uint4 loaded[IN_FLIGHT];
#pragma unroll
            for (int v = 0; v < IN_FLIGHT; v++) loaded[v] = ahead[v];
            if (is_whole(begin + stride_of_grid)) fetch(begin + stride_of_grid);
#pragma unroll
            for (int v = 0; v < IN_FLIGHT; v++)
                store_streaming(y + begin + (v * THREADS + threadIdx.x) * vector,
                                make_uint4(two(loaded[v].x), two(loaded[v].y), two(loaded[v].z), two(loaded[v].w)));
        } else {
            const int left = int(min(n - begin, (long long)tile));
            for (int at = threadIdx.x; at < left; at += THREADS) y[begin + at].bits = values[x[begin + at].bits];
        }
    }
}
