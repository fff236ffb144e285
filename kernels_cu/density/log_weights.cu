// Logarithms of weights divided by their sum, which may be beyond the range of a double:
//
//   log w_i - log W,  log W = log top + log sum_p (top_p / top) S_p,  S_p = sum_i w_i / top_p over part p,  top = max top_p
//
//   weights     (n,)      STORAGE
//   tops, sums  (parts,)  double   largest weight of each part of `rows` weights, and S_p; 0 of weights of zero
//   logs        (n,)      double   at least `log_of_zero`; NaN where a weight is no number, or all are zero
//
// part_sums: grid x over parts; two barriers, which all threads pass. log_weights: grid x over blocks of 256 weights, each
// of whose warps adds up the parts; no barriers.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int threads = 256;
constexpr int blocks_at_least = 4;  // of a multiprocessor: 64 registers, without which some compilers spill
constexpr double log_of_zero = -1e30;  // finite, so that differences of exponents stay numbers
constexpr double least_ratio = 1e-300;  // of a weight and the largest: below the quotient has fewer bits, or is 0

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
part_sums(const STORAGE* __restrict__ weights, double* __restrict__ tops, double* __restrict__ sums, long long n,
          long long rows) {
    __shared__ double of_warp[2][threads / 32];
    const long long begin = blockIdx.x * rows, end = begin + rows < n ? begin + rows : n;
    const int warp = threadIdx.x / 32;
    double top = 0;
    for (long long i = begin + threadIdx.x; i < end; i += threads) top = fmax(top, double(weights[i]));
    top = largest_over_lanes<32>(top);
    if (threadIdx.x % 32 == 0) of_warp[0][warp] = top;
    __syncthreads();
    for (int other = 0; other < threads / 32; other++) top = fmax(top, of_warp[0][other]);
    double sum = 0;
    for (long long i = begin + threadIdx.x; i < end; i += threads) {
        const double weight = weights[i];
        sum += top > 0 ? weight / top : weight;
    }
    sum = sum_over_lanes<32>(sum);
    if (threadIdx.x % 32 == 0) of_warp[1][warp] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int other = 1; other < threads / 32; other++) sum += of_warp[1][other];
    tops[blockIdx.x] = top;
    sums[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
log_weights(const STORAGE* __restrict__ weights, const double* __restrict__ tops, const double* __restrict__ sums,
            double* __restrict__ logs, long long n, int parts) {
    const int lane = threadIdx.x % 32;
    double top = 0, sum = 0;
    for (int p = lane; p < parts; p += 32) top = fmax(top, tops[p]);
    top = largest_over_lanes<32>(top);
    for (int p = lane; p < parts; p += 32) sum += tops[p] / top * sums[p];
    sum = sum_over_lanes<32>(sum);
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
    const double weight = weights[i], ratio = weight / top;
    const bool low = ratio < least_ratio;
    const double log_weight = log(low ? weight : ratio) - (low ? log(top) : 0.0) - log(sum);
    logs[i] = log_weight < log_of_zero ? log_of_zero : log_weight;
}
