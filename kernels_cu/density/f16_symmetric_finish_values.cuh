// Epilogue of f16_symmetric.cuh with values: partial self-interaction sums of the data (Y = X):
//
//   V          (n, k)                   STORAGE
//   S, T       (rows,), (rows, COLUMNS)  float
//   reference  (n,)                     double   0
//   total      (n,)                     double   1 + S_i
//   moments    (n, k)                   double   V_ik + T_ik
//
// The point's own term is exact.
//
// One thread for each element of T. No barriers.
#pragma once

constexpr int threads = 256;

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const STORAGE* __restrict__ V, const float* __restrict__ S, const float* __restrict__ T,
       double* __restrict__ reference, double* __restrict__ total, double* __restrict__ moments, long long n, int k) {
    const long long element = (long long)blockIdx.x * threads + threadIdx.x;
    const long long i = element / COLUMNS;
    const int column = element % COLUMNS;
    if (i >= n || column >= k) return;
    if (column == 0) {
        reference[i] = 0;
        total[i] = 1 + double(S[i]);
    }
    moments[i * k + column] = V[i * k + column] + double(T[element]);
}
