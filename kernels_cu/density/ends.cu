// What becomes of the sums of a pass, of one split of the data or of several, in double:
//
//   a_i = max_s a_si,  T_i = sum_s exp(a_si - a_i) T_si,  M_i likewise
//
//   references, totals  (splits, m)     double   a_si in natural logarithms, T_si
//   moments             (splits, m, k)  double   M_si, about the query; of density_of_sums null or one column
//
// density_of_sums:
//
//   density             (m,)            OUT      of T times exp(log_constant + a), or of both T and M, as `wanted` of
//                                                density_forms.cuh says
//
// points_of_sums:
//
//   Y                   (m, k)          STORAGE  queries, or null: zeros
//   points              (m, k)          OUT      Y + step M / T; may be the moments themselves where there is one split
//
// One warp for each query, 4 a block; no barriers.
//
// Macros: OUT, and STORAGE of points_of_sums.
#include "ptx.cuh"
#include "density_forms.cuh"
#include "log_sum_exp.cuh"

constexpr int threads = 128;
constexpr int blocks_at_least = 4;  // of a multiprocessor: 128 registers, without which some compilers spill

// Its largest reference; the sums of a split times `factor_of_split` are relative to that.
__device__ inline double top_of(const double* references, long long m, int splits, long long i) {
    double top = Exponent<double>::least;
    for (int s = threadIdx.x % 32; s < splits; s += 32) top = larger(top, references[s * m + i]);
    return largest_over_lanes<32>(top);
}

__device__ inline double factor_of_split(const double* references, double top, long long m, int splits, long long i, int s) {
    if (splits == 1) return 1;
    return s < splits ? exp(references[s * m + i] - top) : 0;
}

// The sum over splits of what is `pitch` numbers apart, for all lanes.
__device__ inline double merged(const double* references, const double* sums, double top, long long m, int splits,
                                long long i) {
    if (splits == 1) return sums[i];
    double sum = 0;
    for (int s = threadIdx.x % 32; s < splits; s += 32)
        sum += factor_of_split(references, top, m, splits, i, s) * sums[s * m + i];
    return sum_over_lanes<32>(sum);
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
density_of_sums(const double* __restrict__ references, const double* __restrict__ totals,
                const double* __restrict__ moments, OUT* __restrict__ density, double log_constant, long long m, int splits,
                int wanted) {
    const long long i = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (i >= m) return;
    const double top = splits == 1 ? references[i] : top_of(references, m, splits, i);
    const double total = merged(references, totals, top, m, splits, i);
    const double corrected = moments ? merged(references, moments, top, m, splits, i) : 0;
    if (threadIdx.x % 32) return;
    const double log_factor = log_constant + top;
    // No result is -0.
    density[i] = OUT(moments ? density_of_both(log_factor, total, corrected, wanted)
                             : density_of_total(log_factor, total, wanted)) + OUT(0);
}

#ifdef STORAGE
extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
points_of_sums(const double* __restrict__ references, const double* __restrict__ totals, const double* moments,
               const STORAGE* __restrict__ Y, OUT* points, double step, long long m, int k, int splits) {
    const int lane = threadIdx.x % 32;
    const long long i = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (i >= m) return;
    const double top = splits == 1 ? 0 : top_of(references, m, splits, i);
    const double scale = step / merged(references, totals, top, m, splits, i);
    for (int first = 0; first < k; first += 32) {
        const int column = first + lane;
        double moment = 0;
        for (int begin = 0; begin < splits; begin += 32) {  // a lane takes the factor of one split for all
            const double factor = factor_of_split(references, top, m, splits, i, begin + lane);
            const int end = splits - begin < 32 ? splits - begin : 32;
            for (int s = 0; s < end; s++) {
                const double of_split = __shfl_sync(~0u, factor, s);
                if (column < k) moment += of_split * moments[((begin + s) * m + i) * k + column];
            }
        }
        if (column < k) points[i * k + column] = OUT((Y ? double(Y[i * k + column]) : 0.0) + moment * scale);
    }
}
#endif
