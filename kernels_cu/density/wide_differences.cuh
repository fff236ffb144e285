// Pairs that wide.cu takes by differences of the given coordinates, as products of their rounded points would be too
// rough: near each other, and far from the centre.
//
// A point kept in two float16 terms is off by 2^-14.2 of its quantum q in each coordinate, and the exponent of a pair t
// apart, whatever the dimension, by 2^-13.7 q t (root mean square). Four times that is within the error that an exponent
// of t^2/2 bits may have, 1e-7 t^2 and at least 4e-5, but for t between 4e-5 / (3e-4 q) and 640 q. With a norm beyond
// 2^23, that is q of 2 and more, there is the rounding of norms, too.
#pragma once
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "wide_fixed.cuh"

// Quanta from which on a row is far from the centre: 32 bandwidths, in bits.
constexpr float far_quantum = 1.0f / 128;

// Terms are small enough beside the largest one, whatever their error, from so many bits below it.
constexpr float bits_that_matter = 32;

// Exponents in bits from which on products are not good enough, of rows of a quantum.
__device__ inline float least_by_differences(float quantum) {
    if (quantum < far_quantum) return 3e38f;
    if (quantum >= 2) return -3e38f;
    const float reach = TERMS == 2 ? fmaxf(640 * quantum, 16.0f) : 4096 * quantum;
    return -0.5f * reach * reach;
}

// How far an exponent by products is off at most: by the rounding of norms, 2^-24 of (4096 q)^2, and less by other things.
__device__ inline float error_of_products(float quantum) { return 8 * quantum * quantum; }

struct Given {
    const void *Y, *X;   // (m, d) and (n, d), float or with `in_double` double
    int in_double, d;
    float scale;         // sqrt(log2 e) / h

    // z_jk - z_ik
    __device__ float difference(long long i, long long j, int k) const {
        const long long y = i * d + k, x = j * d + k;
        if (in_double)
            return float(static_cast<const double*>(X)[x] - static_cast<const double*>(Y)[y]) * scale;
        return (static_cast<const float*>(X)[x] - static_cast<const float*>(Y)[y]) * scale;
    }

    // -|z_i - z_j|^2 / 2, by all lanes of a warp together.
    __device__ float exponent(long long i, long long j) const {
        float sum = 0;
#pragma unroll 4
        for (int k = threadIdx.x % 32; k < d; k += 32) {
            const float a = difference(i, j, k);
            sum = fmaf(a, a, sum);
        }
        return -0.5f * sum_over_lanes<32>(sum);
    }
};
