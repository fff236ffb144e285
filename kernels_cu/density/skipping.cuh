// What the sums of the passes that leave out pairs share: points in blocks of 64 as skipping_points.cu leaves them.
//
// A pair (i, j) has the exponent e_ij = log2 w_j - |z_i - z_j|^2, in bits. It may be left out where e_ij is below the
// query's threshold (skipping_limits.cu), so that all that is left out is at most the tolerance times what is kept.
#pragma once
#include "skipping_blocks.cuh"
#include "exp2_f64.cuh"
#include "skipping_output.cuh"

typedef REAL Real;
constexpr bool in_double = sizeof(Real) == 8;

// Beyond this reach of a block, coordinates rounded to float move an exponent of 80 by 3e-5 and more: three of them, or
// more of which seldom all are as large.
constexpr float float_reach = DIM <= 8 ? 40 : 64;
// Sums of queries whose references lie further apart are not taken about a common one.
constexpr float most_extent = 40;
constexpr float nothing = -1e30f;

// Points as kernels see them; arrays as in skipping_points.cu.
struct Points {
    const void* given;  // (n, d), float or double: as the caller has them
    bool given_in_double;
    const int* source;     // (rows,)
    const float* local;    // (rows, DIM)
    const float* centres;  // (blocks, DIM)
    const float* reach;    // (blocks,)
    Boxes boxes;
    const double* log_weights;  // (n,) natural logarithms, or null; of data alone
};

__device__ inline float power_of_2(float e) { return exp2_approx(e); }
// Infinity from 1023 on, where exp2_from would wrap: what has a reference so far below it is summed again.
__device__ inline double power_of_2(double e) {
    const double power = exp2_from(magic, fmax(e, -2000.0));
    return __double2hiint(e) < 0x408ff800 ? power : __hiloint2double(0x7ff00000, 0);
}

// Coordinate k of the point that `at` is the first coordinate of.
__device__ inline double coordinate(const Points& points, long long at, int k) {
    if (in_double || points.given_in_double) return static_cast<const double*>(points.given)[at + k];
    return static_cast<const float*>(points.given)[at + k];
}

// log2 w of the datum of a row: in double from what the caller has, for `weights` are rounded to float.
__device__ inline Real weight_of(const Points& X, const float* weights, long long column) {
    const float rounded = weights[column];
    if constexpr (in_double)
        if (X.log_weights && rounded > nothing) return X.log_weights[X.source[column]] * log2_e;
    return rounded;
}

__device__ inline void add_to(float* place, float x) { atomicAdd(place, x); }
__device__ inline void add_to(double* place, double x) { atomicAdd(place, x); }
