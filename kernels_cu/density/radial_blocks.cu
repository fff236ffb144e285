// Points in an order, in blocks of 64 with their boxes.
//
//   X            (n, d)       REAL       points
//   order        (n,)         long long  which of them comes first, second, ...
//   log_weights  (n,)         double     or null
//   points       (n, d)       REAL       in order
//   weights      (n,)         double     log_weights in order; or null
//   low, high    (d, blocks)  REAL       least and largest coordinates of a block times `unit`, a power of two; NaN counts
//                                        for nothing
//   mass         (blocks,)    REAL       log2 of the sum of a block's weights, rounded up; or null
//
// One block of 64 threads for 64 points, a thread a point. Barriers: two a dimension and two for a mass, passed by all
// threads.
//
// Macros: KERNEL the name; REAL.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

typedef REAL Real;

constexpr int warps = tile / 32;
constexpr Real mass_rounding = 1.0 / 1024;

extern "C" __global__ void __launch_bounds__(tile)
KERNEL(const Real* __restrict__ X, const long long* __restrict__ order, const double* __restrict__ log_weights,
       Real* __restrict__ points, double* __restrict__ weights, Real* __restrict__ low, Real* __restrict__ high,
       Real* __restrict__ mass, long long n, int d, Real unit) {
    __shared__ Real least[warps], largest[warps];
    __shared__ double parts[warps];
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
    if (!mass) return;
    const Real exponent = exists ? exponent_of_weight<Real>(log_weights, from, n) : Exponent<Real>::none;
    const Real of_warp = largest_over_lanes<32>(exponent);
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = of_warp;
    __syncthreads();
    const Real top = larger(largest[0], largest[1]);
    const double part = sum_over_lanes<32>(exists ? exp2(double(exponent) - double(top)) : 0.0);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x == 0) mass[blockIdx.x] = top + Real(log2(parts[0] + parts[1])) + mass_rounding;
}
