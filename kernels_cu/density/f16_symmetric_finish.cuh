// From the sums of f16_symmetric.cuh to partial sums at the points that they belong to:
//
//   reference  (n,)    double   0
//   total      (n,)    double   own + 2^-13 S_i
//   moments    (n, d)  double   2^-13 (T_ik - S_i z_ik) unit, in the units of the data
//
// The point's own term, `own` in the total and 0 in the moments about the point, is exact: 1, or 0 where the data are
// other points. z_ik is hi + lo (TERMS 3) or hi (TERMS 1): of the points that the exponents were taken from. `unit` is
// h / sqrt(log2 e). `spread`, `limit` as there: nothing is written where the pass did nothing.
//
// One thread an element of T. No barriers.
#pragma once
#include "column_order.cuh"

constexpr int threads = 256;

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const uint4* __restrict__ hi, const uint4* __restrict__ lo, const float* __restrict__ S,
       const float* __restrict__ T, const float* __restrict__ spread, double* __restrict__ reference,
       double* __restrict__ total, double* __restrict__ moments, long long n, int d, double unit, double own,
       float limit) {
    if (spread && !(*spread <= limit)) return;
    const long long element = (long long)blockIdx.x * threads + threadIdx.x;
    const long long i = element / DEPTH;
    const int k = element % DEPTH;
    if (i >= n) return;
    constexpr double shift = 1.0 / 8192;
    const double others = S[i] * shift;
    if (k == 0) {
        reference[i] = 0;
        total[i] = own + others;
    }
    if (k >= d) return;
    const long long pair = i * (DEPTH / 2) + position_of(k) / 2;
    const auto value = [=](const uint4* operand) {
        float half[2];
        unpack_f16(reinterpret_cast<const unsigned*>(operand)[pair], half[0], half[1]);
        return double(k % 2 ? half[1] : half[0]);
    };
    const double z = value(hi) + (TERMS == 3 ? value(lo) : 0.0);
    moments[i * d + k] = (T[element] * shift - others * z) * unit;
}
