// Distances of boxes of points, lower bounds and upper ones to rounding.
//
// Macro: REAL.
#pragma once
#include "log_sum_exp.cuh"

typedef REAL Real;

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }

struct Boxes {
    const Real *low, *high;  // (d, count)
    int count;

    __device__ long long place(int k, int box) const { return (long long)k * count + box; }
};

__device__ inline Real gap_of(Real low, Real high, Real other_low, Real other_high) {
    return larger(Real(0), larger(low - other_high, other_low - high));
}

// The least squared distance of two points of boxes.
__device__ inline Real squared_gap(const Boxes& x, int a, const Boxes& y, int b, int d) {
    Real distance = 0;
    for (int k = 0; k < d; k++) {
        const long long p = x.place(k, a), q = y.place(k, b);
        const Real gap = gap_of(x.low[p], x.high[p], y.low[q], y.high[q]);
        distance = multiply_add(gap, gap, distance);
    }
    return distance;
}

// The largest.
__device__ inline Real squared_span(const Boxes& x, int a, const Boxes& y, int b, int d) {
    Real distance = 0;
    for (int k = 0; k < d; k++) {
        const long long p = x.place(k, a), q = y.place(k, b);
        const Real span = larger(x.high[p] - y.low[q], y.high[q] - x.low[p]);
        distance = multiply_add(span, span, distance);
    }
    return distance;
}

// What a block of data adds by the exponential kernel to the sum of any query of a box, in bits, at most: of a scale with
// the rounding of distances taken off.
__device__ inline Real most_bits(const Boxes& x, int a, const Real* mass, const Boxes& y, int b, int d, Real scale) {
    return multiply_add(-scale, root(squared_gap(x, a, y, b, d)), mass[a]);
}
