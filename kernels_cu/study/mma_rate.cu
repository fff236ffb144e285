// Study, not for use: how many products a second the tensor cores of a device do, nothing but mma.sync from registers:
// what percentages of the sign products are of.
//
//   C += A B, `repeats` times for each of 4 x 4 accumulators a warp: 4 fragments of A, 16 rows each, by 4 of B, 8
//   columns each, as a block of a matrix product has them; 16 chains of dependent products hide each other's latency.
//
//   operands  (6,)           unsigned  bits that the fragments are made of, unknown to the compiler
//   sums      (grid * 256,)  int       the accumulators' sum of each thread, so that they are wanted; wraps around
//
// A block is 8 warps that share nothing. No barriers.
//
// Macros: KERNEL, its name; ONE_BIT, 1 for m16n8k256 of bits with and.popc, 0 for m16n8k32 of int8.
#include "ptx.cuh"

constexpr int threads = 256;
constexpr int rows = 4, columns = 4;  // of fragments

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const unsigned* __restrict__ operands, int* __restrict__ sums, int repeats) {
    unsigned a[rows][4], b[columns][2];
    int c[rows][columns][4] = {};
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int k = 0; k < 4; k++) a[i][k] = operands[k] ^ (threadIdx.x + i);
#pragma unroll
    for (int j = 0; j < columns; j++)
#pragma unroll
        for (int k = 0; k < 2; k++) b[j][k] = operands[4 + k] ^ (threadIdx.x + j);

#pragma unroll 1
    for (int repeat = 0; repeat < repeats; repeat++) {
#pragma unroll
        for (int i = 0; i < rows; i++)
#pragma unroll
            for (int j = 0; j < columns; j++) {
#if ONE_BIT
                mma_b1_m16n8k256(c[i][j], a[i], b[j][0], b[j][1]);
#else
                mma_s8_m16n8k32(c[i][j], a[i], b[j][0], b[j][1]);
#endif
            }
    }

    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < columns; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) sum += unsigned(c[i][j][k]);
    sums[blockIdx.x * threads + threadIdx.x] = int(sum);
}
