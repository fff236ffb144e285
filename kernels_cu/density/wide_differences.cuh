// Pairs that wide.cu takes again, as products of their rounded points are too rough: near each other, and far from the
// centre.
//
// A point kept in two float16 terms is off by 2^-14.2 of its quantum q in each coordinate, twice that in one that holds most
// of its length, and the exponent of a pair t apart by 2^-13.7 q t (root mean square), whatever the dimension. An exponent
// of t^2/2 bits may be off by 5e-7 t^2, and at least by 4e-5. So pairs nearer than 1024 q, and 16, are taken again, but for
// those nearer than 1/(8 q), and small parts of a sum. In one term each coordinate is off by 2^-12 of itself, which is meant
// for precision "tf32".
//
// A few pairs of a warp are taken by differences of the given points, one by one. Where there are more, products with the
// third terms of points correct all pairs of the warp, up to a quantum of 1/32 (a length of 128): beyond it, what tensor cores
// truncate of small terms counts, 2^-30 of squared lengths. They do not where powers have two terms, since moments of those
// need the points themselves, from a length of 32 on. From `least_of_moments` on, where two terms of a factor do not suffice,
// pairs by differences have moments of their own, too.
#pragma once
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "wide_fixed.cuh"

constexpr float far_quantum = 1.0f / 64;   // of a row that may have such pairs: 32 bandwidths from the centre, in bits
// Moments of powers in two terms need the points themselves; and from sm_100 on the compiler needs more registers for those
// of one term, and for sums, than third terms leave.
#if __CUDA_ARCH__ >= 1000
constexpr bool third_terms_fit = TERMS == 1 || (output != MOMENTS && output != SUM);
#else
constexpr bool third_terms_fit = TERMS == 1 || output != MOMENTS || POWER_TERMS == 1;
#endif
constexpr float most_of_third_terms = TERMS == 1 ? 1.0f / 4 : third_terms_fit ? 1.0f / 32 : 1.0f / 128;
constexpr float least_of_moments = POWER_TERMS == 2 ? 1.0f / 64 : 1.0f / 4;
constexpr int most_one_by_one = 32;  // pairs of a warp that take less time by differences than all of them by third terms
constexpr float third_scale = 4096;  // that third terms are kept larger by

// Terms are small enough, whatever their error, from so many bits below the sum.
constexpr float most_bits_that_matter = 32;

// The distance within which pairs of rows of a quantum are taken again.
__device__ inline float reach_again(float quantum) { return TERMS == 2 ? fmaxf(1024 * quantum, 16.0f) : 4096 * quantum; }

// The least exponents in bits, of rows of a quantum, that are taken again.
__device__ inline float least_again(float quantum) {
    if (quantum < far_quantum) return 3e38f;
    if (quantum >= 2) return -3e38f;
    const float reach = reach_again(quantum);
    return -0.5f * reach * reach;
}

// The largest ones: nearer pairs are off by little.
__device__ inline float most_again(float quantum) {
    const float reach = 1 / (8 * quantum);
    return TERMS == 1 || quantum > 1.0f / 32 ? 3e38f : -0.5f * reach * reach;
}

// Bits below the sum from which a pair of rows of a quantum is a small enough part of it for its error. Roundings of data are
// independent: errors of many pairs, up to twice what is allowed, add up to half of it. That of the query is in all of them, and
// a small part.
__device__ inline float bits_that_matter(float quantum) {
    if (TERMS == 1 || quantum >= 2) return most_bits_that_matter;
    return quantum > 1.0f / 32 ? 26.0f : 4.0f;
}

// How far an exponent by products is off at most: by the rounding of norms, 2^-24 of (4096 q)^2, and less by other things, or by
// that of points in one term.
__device__ inline float error_of_products(float quantum) { return (TERMS == 1 ? 1024 : 8) * quantum * quantum; }

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
