// What the kernels of the centred pass in float64 share, beside centred.cuh: points as they are given, and blocks of 64
// neighbours in two parts.
//
// In units of sqrt(log2 e) / h, u = (x - centre) scale for a centre in the units of the data: subtracted before it is
// scaled, so that no offset costs digits. A screen says in float16 which pairs can matter; operands in double are for
// these.
#pragma once
#include "exp2_f64.cuh"

constexpr int block_rows = 64;
constexpr int groups = block_rows / 8;  // of rows that a product takes at a time

// log2 of a weight of zero: beside any exponent that products are taken of, a power of it is zero, and an int holds both.
constexpr double nothing = -0x1p30;
constexpr double least_weight = -4096;  // log2 of other weights that float32 sums of a screen resolve

// Of v . u in one term of float16 each, and of what is rounded beside: relative to half of |v|^2 + |u|^2.
constexpr float error_of_screen = 1.1e-3f;

// Of operands: v . u then stays below 2^28, and float16 holds them.
constexpr float largest_operand = 16384;

constexpr float unbounded = 3e38f;  // squared radius of a block that products do not serve

// Which pairs can matter.
template <int depth>
struct Screen {
    static constexpr int steps = (depth + 15) / 16;
    uint2 right[groups][steps][32];  // of 8 rows and 16 dimensions: the operand of a lane, u in float16
    float norms[block_rows];         // -|u|^2 / 2 + log2 w, more by the error of the products
    float centre[16 * steps];        // in the units of z
    float radius2, log_mass;         // largest |u|^2; log2 of the sum of the weights
    float unused[2];
};

// What products in double are taken of.
template <int depth>
struct Exact {
    double points[block_rows][depth + 4];  // u; no two lanes of a load meet in a bank
    double norms[block_rows];              // -|u|^2 / 2 + log2 w
    double weights[block_rows];            // log2 w
    double centre[depth];                  // in the units of the data
    double radius2, most_weight;           // the largest |u|^2, and log2 w
};

template <int depth>
struct Block {
    Screen<depth> screen;
    Exact<depth> exact;
};

using Real = double;
using Point = double;

// A coordinate as it is kept, of a point whose z it is: no NaN, nor so far from the origin that squares are not finite.
__device__ inline double point_of(double raw, double z, double origin, double scale) {
    const double limit = smaller(1e152 * power_of_2(-exponent_of(scale)), 1e307);  // a division would take a stack
    if (z != z) return origin;
    return raw - origin > limit ? origin + limit : raw - origin < -limit ? origin - limit : raw;
}

// That in the units of z.
__device__ inline double coordinate_of(double kept, double origin, double scale) {
    return held_within((kept - origin) * scale, largest_coordinate);
}

// Squared distance of two points of d coordinates, in the units of z.
__device__ inline double distance2_of(const double* y, const double* x, int d, double scale) {
    double distance2 = 0;
#pragma unroll 4
    for (int k = 0; k < d; k++) {
        const double gap = (y[k] - x[k]) * scale;
        distance2 = fma(gap, gap, distance2);
    }
    return distance2;
}
