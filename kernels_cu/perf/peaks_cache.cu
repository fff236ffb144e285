// Peak bandwidth of the last cache before memory (L2).
//
//   data  (words,)       uint4     fits that cache; words is a power of two and at least 2048
//   sums  (grid * 256,)  unsigned  of all that each thread has read, which wraps around
//
// Every block reads all of the data `repeats` times, past the caches of the multiprocessors: 16 bytes for each thread and 8
// loads in flight, 4 KiB at a time. Each block has its own order, because loads of the same line by several multiprocessors
// at the same time may be served as one and would count several times. No barriers.
#include "ptx.cuh"

constexpr int threads = 256;
constexpr int in_flight = 8;

__device__ inline unsigned hash(unsigned x) {  // Knuth's, its high bits
    x = (x + 1) * 2654435761u;
    return x ^ x >> 15;
}

extern "C" __global__ void __launch_bounds__(threads)
peaks_cache(const uint4* __restrict__ data, unsigned* __restrict__ sums, int words, int repeats) {
    const unsigned last = unsigned(words / threads - 1);  // chunk; their number is a power of two, and odd steps meet all
    const unsigned first = hash(2 * blockIdx.x), step = hash(2 * blockIdx.x + 1) | 1;
    unsigned sum = 0;
#pragma unroll 1
    for (int repeat = 0; repeat < repeats; repeat++)
#pragma unroll 1
        for (unsigned chunk = 0; chunk <= last; chunk += in_flight) {
            uint4 read[in_flight];
#pragma unroll
            for (int k = 0; k < in_flight; k++)
                read[k] = load_streaming(data + (first + (chunk + k) * step & last) * threads + threadIdx.x);
#pragma unroll
            for (int k = 0; k < in_flight; k++) sum += read[k].x + read[k].y + read[k].z + read[k].w;
        }
    sums[blockIdx.x * threads + threadIdx.x] = sum;
}
