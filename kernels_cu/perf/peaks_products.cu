// Peak rate of matrix products of the tensor cores, from mma.sync on registers alone.
//
//   C += A B, `repeats` times for each of 4 x 4 accumulators a warp: 4 fragments of A, 16 rows each, by 4 of B, 8
//   columns each, as a block of a matrix product has them; 16 chains of dependent products hide each other's latency.
//   Register k of a lane's fragment i is made of  word = operands[k] ^ (thread of the block + i):  int8 and bits are
//   those of the word; of floating-point numbers the four highest bits of  0x9e3779b1 word,  less 8, are the first or
//   only one, the next four the other of two.
//
//   operands  (6,)          unsigned  four words for A, two for B, unknown to the compiler
//   sums      (grid * 256,) Sum       of the elements of each thread's accumulators, so that the compiler keeps them; those of
//                                     integers wrap around
//
// A block is 8 warps that share nothing. No barriers. Floating-point sums are exact while below 2^24: 2^14 repeats.
//
// Macros: KERNEL, its name; PRODUCT, which one: f16 (m16n8k16), tf32 (m16n8k8), f64 (m16n8k8), s8 (m16n8k32), or b1
// (m16n8k256 of bits with and.popc).
#include "ptx.cuh"

constexpr int threads = 256;
constexpr int rows = 4, columns = 4;  // of fragments

__device__ inline int number(unsigned word, int place = 0) {
    return int(word * 0x9e3779b1u >> (28 - 4 * place) & 15) - 8;
}

struct f16 {
    using Element = unsigned;
    using Accumulator = float;
    using Sum = float;
    static __device__ unsigned element(unsigned word) { return pack_f16(number(word), number(word, 1)); }
    static __device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
        mma_f16_m16n8k16(c, a, b[0], b[1]);
    }
};

struct tf32 {
    using Element = unsigned;
    using Accumulator = float;
    using Sum = float;
    static __device__ unsigned element(unsigned word) { return __float_as_uint(number(word)); }
    static __device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
        mma_tf32_m16n8k8(c, a, b);
    }
};

struct f64 {
    using Element = double;
    using Accumulator = double;
    using Sum = double;
    static __device__ double element(unsigned word) { return number(word); }
    static __device__ void multiply(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
        mma_f64_m16n8k8(c, a, b[0], b[1], c);
    }
};

struct s8 {
    using Element = unsigned;
    using Accumulator = int;
    using Sum = unsigned;
    static __device__ unsigned element(unsigned word) { return word; }
    static __device__ void multiply(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
        mma_s8_m16n8k32(c, a, b[0], b[1]);
    }
};

struct b1 {
    using Element = unsigned;
    using Accumulator = int;
    using Sum = unsigned;
    static __device__ unsigned element(unsigned word) { return word; }
    static __device__ void multiply(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
        mma_b1_m16n8k256(c, a, b[0], b[1]);
    }
};

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const unsigned* __restrict__ operands, PRODUCT::Sum* __restrict__ sums, int repeats) {
    PRODUCT::Element a[rows][4], b[columns][2];
    PRODUCT::Accumulator c[rows][columns][4] = {};
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int k = 0; k < 4; k++) a[i][k] = PRODUCT::element(operands[k] ^ (threadIdx.x + i));
#pragma unroll
    for (int j = 0; j < columns; j++)
#pragma unroll
        for (int k = 0; k < 2; k++) b[j][k] = PRODUCT::element(operands[4 + k] ^ (threadIdx.x + j));

#pragma unroll 1
    for (int repeat = 0; repeat < repeats; repeat++) {
#pragma unroll
        for (int i = 0; i < rows; i++)
#pragma unroll
            for (int j = 0; j < columns; j++) PRODUCT::multiply(c[i][j], a[i], b[j]);
    }

    PRODUCT::Sum sum = 0;
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < columns; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) sum += PRODUCT::Sum(c[i][j][k]);
    sums[blockIdx.x * threads + threadIdx.x] = sum;
}
