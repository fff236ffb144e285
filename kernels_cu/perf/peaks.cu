// Peak rate of one kind of operation of the multiprocessors, from chains of such operations in registers.
//
//   x = a x + b, or x = 2^-x, `repeats` times 16 for each of CHAINS numbers x a thread, (thread of the block + chain) / 512
//   at first: chains are independent and hide each other's latency; 2^-x nears the same number from everywhere.
//
//   factors  (2,)          REAL  a and b, unknown to the compiler
//   sums     (grid * 256,) REAL  of the x of each thread, so that the compiler keeps them
//
// A block is 8 warps that share nothing. No barriers.
//
// Macros: KERNEL, its name; REAL, float or double; EXPONENTIAL, 1 for 2^-x; CHAINS.
#include "exp2_f64.cuh"
#include "ptx.cuh"

constexpr int threads = 256;
constexpr int steps = 16;

__device__ inline float power_of_minus(float x) { return exp2_approx(-x); }
__device__ inline double power_of_minus(double x) { return exp2_from(magic, -x); }

__device__ inline float multiply_add(float a, float x, float b) { return fmaf(a, x, b); }
__device__ inline double multiply_add(double a, double x, double b) { return fma(a, x, b); }

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const REAL* __restrict__ factors, REAL* __restrict__ sums, int repeats) {
    const REAL a = factors[0], b = factors[1];
    REAL x[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++) x[chain] = REAL(int(threadIdx.x) + chain) / 512;

#pragma unroll 1
    for (int repeat = 0; repeat < repeats; repeat++) {
#pragma unroll
        for (int step = 0; step < steps; step++)
#pragma unroll
            for (int chain = 0; chain < CHAINS; chain++)
                x[chain] = EXPONENTIAL ? power_of_minus(x[chain]) : multiply_add(a, x[chain], b);
    }

    REAL sum = 0;
#pragma unroll
    for (int chain = 0; chain < CHAINS; chain++) sum += x[chain];
    sums[blockIdx.x * threads + threadIdx.x] = sum;
}
