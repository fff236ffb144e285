// What a pass that leaves out pairs sums of a query (OUTPUT): S of 2^e over the pairs, and with it moments, or the
// Laplace-corrected sum of 2^e (at_zero - ln 2 r^2), where at_zero = 1 + d/2 and r is the distance of a pair in bits.
#pragma once
#include "ptx.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE };
constexpr Output output = OUTPUT;

// The Laplace-corrected sum from those of 2^e and of 2^e r^2.
template <typename Real>
__device__ inline Real corrected(Real total, Real squares, Real at_zero) {
    return multiply_add(at_zero, total, -Real(ln_2) * squares);
}

// The same from those of 2^e and of 2^e e, where e = -r^2 - base: without weights.
__device__ inline float corrected_by_bits(float total, float bits, float base, float at_zero) {
    return fmaf(fmaf(float(ln_2), base, at_zero), total, float(ln_2) * bits);
}
