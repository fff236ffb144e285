// Epilogue of wide_f64.cu: the sums of each query, from its totals and the matrix products with its p_ij:
//
//   totals     (parts, pitch)  double  2^shift parts of S_i
//   corrected  (parts, pitch)  double  2^shift parts of the sums of LAPLACE, which are its moments; or null
//   products   (m, width)      double  2^shift sum_j 2^e_ij times z_jk, or times V_jk; null: only totals are needed
//   points     (rows, depth)   double  z of the queries, if products are with z of the data; or null
//   references (rows,)         double  log2 of what all of these are relative to; or null: 1
//
//   reference, total  (m,)     double  natural logarithm of the reference, and the total about it: 1 to 2
//   moments           (m, k)   double  about the query, in the units of the data (`unit` is that of z); or sums of values
//
// One warp for each query, 4 a block. No barriers.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "exp2_f64.cuh"

constexpr int threads = 128;

extern "C" __global__ void __launch_bounds__(threads)
finish_wide_f64(const double* __restrict__ totals, const double* __restrict__ corrected,
                const double* __restrict__ products, const double* __restrict__ points,
                const double* __restrict__ references, double* __restrict__ reference,
                double* __restrict__ total, double* __restrict__ moments, long long m, long long pitch, int k,
                int width, int depth, int parts, double shift, double unit) {
    const int lane = threadIdx.x % 32;
    const long long i = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (i >= m) return;

    double sum = 0;
    for (int p = lane; p < parts; p += 32) sum += totals[p * pitch + i];
    sum = sum_over_lanes<32>(sum);
    // A total of zero stays zero, with a reference below all others.
    const int exponent = exponent_of(sum);
    const double factor = power_of_2(-exponent), about = references ? references[i] : 0.0;
    if (lane == 0) {
        reference[i] = (exponent - shift + about) * ln_2;
        total[i] = sum * factor;
    }
    if (corrected) {
        double moment = 0;
        for (int p = lane; p < parts; p += 32) moment += corrected[p * pitch + i];
        moment = fma(ln_2 * about, sum, sum_over_lanes<32>(moment));
        if (lane == 0) moments[i] = moment * factor;
    }
    if (!products) return;
    for (int column = lane; column < k; column += 32) {
        double moment = products[i * width + column];
        if (points) moment = fma(-sum, points[i * depth + column], moment);
        moments[i * k + column] = moment * factor * unit;
    }
}
