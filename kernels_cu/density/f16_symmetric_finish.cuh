// Epilogue of f16_symmetric.cuh: partial sums at each point, from the sums S and T of the pass:
//
//   reference  (n,)    double   0
//   total      (n,)    double   own + 2^-13 S_i
//   moments    (n, d)  double   2^-13 (T_ik - S_i z_ik) unit, in the units of the data
//
// The point's own term is exact: `own` in the total, 1 or, if the data are other points, 0; and 0 in the moments about
// the point. z_ik is hi + lo (TERMS 3) or hi (TERMS 1), as for the exponents. `unit` is h / sqrt(log2 e).
//
// One thread for each element of T. No barriers.
#pragma once
#include "column_order.cuh"

constexpr int threads = 256;

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const uint4* __restrict__ hi, const uint4* __restrict__ lo, const float* __restrict__ S,
       const float* __restrict__ T, double* __restrict__ reference, double* __restrict__ total,
       double* __restrict__ moments, long long n, int d, double unit, double own) {
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
