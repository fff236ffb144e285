// Points in an order, in blocks of 64 with their boxes.
//
//   X            (n, d)       REAL       points
//   order        (n,)         long long  which of them comes first, second, ...
//   log_weights  (n,)         double     or null
//   points       (n, d)       REAL       in order
//   weights      (n,)         double     log_weights in order; or null
//   low, high    (d, blocks)  REAL       least and largest coordinates of a block times `unit`, a power of two; NaN counts
//                                        for nothing
//
// One block of 64 threads for 64 points, a thread a point. Barriers: two a dimension, passed by all threads.
//
// Macros: KERNEL the name; REAL.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

typedef REAL Real;

constexpr int warps = tile / 32;

extern "C" __global__ void __launch_bounds__(tile)
KERNEL(const Real* __restrict__ X, const long long* __restrict__ order, const double* __restrict__ log_weights,
       Real* __restrict__ points, double* __restrict__ weights, Real* __restrict__ low, Real* __restrict__ high,
       long long n, int d, Real unit) {
    __shared__ Real least[warps], largest[warps];
    const long long row = (long long)blockIdx.x * tile + threadIdx.x, last = n - 1;
    const bool exists = row < n;
    const long long from = order[exists ? row : last];
    if (exists && weights) weights[row] = log_weights[from];
    for (int k = 0; k < d; k++) {
        const Real x = X[from * d + k];
        if (exists) points[row * d + k] = x;
        const Real lowest = least_over_lanes<32>(x * unit), highest = largest_over_lanes<32>(x * unit);
        if (threadIdx.x % 32 == 0) {
            least[threadIdx.x / 32] = lowest;
            largest[threadIdx.x / 32] = highest;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            low[(long long)k * gridDim.x + blockIdx.x] = smaller(least[0], least[1]);
            high[(long long)k * gridDim.x + blockIdx.x] = larger(largest[0], largest[1]);
        }
        __syncthreads();
    }
}
