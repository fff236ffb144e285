// Sums of 2^e about a running reference, the largest exponent so far, in float or double.
//
// The reference starts at Exponent::least, below every exponent of two finite points. A data row that must not count
// has Exponent::none, so far below `least` that 2^(none - least) = 0. So no infinity appears, and a block of such rows
// sums to 0.
#pragma once

constexpr double log2_e = 1.4426950408889634;
constexpr double ln_2 = 0.6931471805599453;

// Logarithms of weights below this mean a weight of zero.
constexpr double log_zero = -1e29;

template <typename Real> struct Exponent;
template <> struct Exponent<float> {
    static constexpr float least = -1e38f, none = -3e38f;
};
template <> struct Exponent<double> {
    static constexpr double least = -5e307, none = -1.5e308;
};

__device__ inline float exp2_of(float x) { return exp2_approx(x); }
__device__ inline double exp2_of(double x) { return exp2(x); }

__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }

__device__ inline float smaller(float a, float b) { return fminf(a, b); }
__device__ inline double smaller(double a, double b) { return fmin(a, b); }

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// Exponent that data row j adds to each of its pairs: log2 of its weight, `none` past the end of the split.
// log_weights (n,) are natural logarithms, or null where all weights are 1.
template <typename Real>
__device__ inline Real exponent_of_weight(const double* log_weights, long long j, long long end) {
    if (j >= end) return Exponent<Real>::none;
    if (!log_weights) return 0;
    const double weight = log_weights[j];
    return weight < log_zero ? Exponent<Real>::none : Real(weight * log2_e);
}

// Reduce over the `lanes` consecutive lanes (a power of two) that share a query.
template <int lanes, typename Real>
__device__ inline Real sum_over_lanes(Real value) {
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

template <int lanes, typename Real>
__device__ inline Real largest_over_lanes(Real value) {
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) value = larger(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

template <int lanes, typename Real>
__device__ inline Real least_over_lanes(Real value) {
    return -largest_over_lanes<lanes>(-value);
}

// Queries of a block, and data rows of a tile.
constexpr int tile = 64;

// After so many tiles (8,192 data rows) sums move from registers to the result, in double. This bounds the accumulated
// rounding, and the truncation by tensor cores.
constexpr int tiles_per_accumulator = 128;

// Add to a result in memory that is relative to an older reference; the first time there is no result yet.
template <typename Real>
__device__ inline void accumulate(double& result, double sum, Real rescale, bool first) {
    result = first ? sum : result * rescale + sum;
}
