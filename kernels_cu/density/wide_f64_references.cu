// References of wide_f64.cu for points far from the centre: whole numbers that rise, block by block, to at least the largest
// exponent of a query so far, so that powers stay in the range of double.
//
//   P, Y_norms, X_norms, X_weights, top, left, width   as there, of a block before its powers are made
//   references  (queries,)     double  at first `lowest`
//   shifted     (queries,)     double  Y_norms less the references: takes the place of Y_norms there
//   totals      (parts, pitch) double  sums so far, which are multiplied by 2^(what a reference rises by)
//   corrected   (parts, pitch) double  likewise, LAPLACE, about the reference; or null
//   products    (m, columns)   double  likewise; or null
//
// One warp for each query, 4 a block. No barriers.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "exp2_f64.cuh"

constexpr int threads = 128;
constexpr double lowest = -0x1p26;  // below every exponent but those of rows that do not count

extern "C" __global__ void __launch_bounds__(threads)
raise_references(const double* __restrict__ P, const double* __restrict__ Y_norms, const double* __restrict__ X_norms,
                 const double* __restrict__ X_weights, double* __restrict__ references, double* __restrict__ shifted,
                 double* __restrict__ totals, double* __restrict__ corrected, double* __restrict__ products, long long m,
                 long long top, long long left, long long width, long long P_pitch, long long pitch, int parts, int columns) {
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32, i = top + row;
    double most = 4 * lowest;
#pragma unroll 4
    for (long long j = lane; j < width; j += 32) {
        const double exponent = P[row * P_pitch + j] + X_norms[left + j] + (X_weights ? X_weights[left + j] : 0.0);
        most = exponent > most ? exponent : most;
    }
    most = largest_over_lanes<32>(most);
    const double before = references[i], above = ceil(most + Y_norms[i]), after = above > before ? above : before;
    __syncwarp();
    if (lane == 0) {
        references[i] = after;
        shifted[i] = Y_norms[i] - after;
    }
    if (after == before) return;
    const double rise = after - before, factor = rise < 1000 ? power_of_2(-int(rise)) : 0.0;
    for (int part = lane; part < parts; part += 32) {
        double& total = totals[part * pitch + i];
        if (corrected) corrected[part * pitch + i] = factor * (corrected[part * pitch + i] - ln_2 * rise * total);
        total *= factor;
    }
    if (products && i < m)
        for (int k = lane; k < columns; k += 32) products[i * columns + k] *= factor;
}
