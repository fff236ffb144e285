// The exponents below which pairs may be left out, from lower bounds of the queries' sums.
//
//   squares     (query rows,)      float      |v|^2, of skipping_points.cu; null: no screening
//   reference   (query rows,)      float      b_i
//   threshold   (query blocks,)    float      least of the block's b_i + below: pairs below it may be left out
//   extent      (query blocks, 2)  float      least and largest b_i
//   limits      (query rows,)      float16    what a product in float16 must reach, or `no_limit`
//   always      (query rows / 16,) unsigned char  1: float16 cannot tell, all pairs of these 16 rows count
//   below                                     log2 of the tolerance over the number of data: that many terms, each smaller
//                                             than 2^(b_i + below), are together at most the tolerance times the sum
//   shrink                                    of the operands in float16, a power of two (skipping_points.cu)
//   top                                       1 + d/2 for output LAPLACE, else 0: see most_factor
//   lowest                                    limits are to be good for thresholds down to this, too, which are lower by
//                                             as much as the limits then are (skipping_mutual.cu)
//
// The limit in float16. With v = sqrt(2) z rounded, L = |v_i| and t = threshold of row i, a pair counts only if
// |z_i - z_j| <= R / sqrt(2), R = sqrt(-2 t), as log2 w <= 0. Then |v_i - v_j| <= R' = R + 2^-11 (L + M), M = L + R', and
//     v_i . v_j - |v_j|^2 / 2 + log2 w_j >= L^2 / 2 + t - (R'^2 - R^2) / 2.
// The norms and each of GROUPS sums are rounded, or truncated, once to float16, when none is larger than
// B = M^2 / 2 + 2 L R' + |t|; so (GROUPS + 1) 2^-10 B is subtracted, and the limit is rounded down.
//
// One block of 64 threads for 64 queries, a thread a query. Barriers: one, passed by all threads.
//
// Macro: GROUPS as in skipping_points.cu.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "skipping_blocks.cuh"

constexpr float never = 3e38f;
constexpr float largest_square = 30000;

extern "C" __global__ void __launch_bounds__(block, 16)
    set_limits(const float* __restrict__ squares, const float* __restrict__ reference, float* __restrict__ threshold,
               float* __restrict__ extent, unsigned short* __restrict__ limits, unsigned char* __restrict__ always,
               long long m, float below, float top, float shrink, float lowest) {
    __shared__ float least[2], largest[2], least_threshold[2];
    const int b = blockIdx.x, i = threadIdx.x;
    const long long row = (long long)b * block + i;
    const bool exists = row < m;
    const float bound = reference[row];
    float t = bound + below;
    t -= log2f(most_factor(t, top));
    if (!exists) t = never;
    const float low = least_over_lanes<32>(exists ? bound : never),
                high = largest_over_lanes<32>(exists ? bound : -never);
    const float lowest_threshold = least_over_lanes<32>(t);
    if (i % 32 == 0) {
        least[i / 32] = low;
        largest[i / 32] = high;
        least_threshold[i / 32] = lowest_threshold;
    }
    __syncthreads();
    if (i == 0) {
        extent[2 * b] = fminf(least[0], least[1]);
        extent[2 * b + 1] = fmaxf(largest[0], largest[1]);
        threshold[b] = fminf(least_threshold[0], least_threshold[1]);
    }

    if (!squares) return;
    const float square = squares[row];
    const float furthest = fminf(t, lowest);
    const float L = sqrtf(square) * 1.0001f, R = sqrtf(fmaxf(-2 * furthest, 0.0f));
    const float rounded = R + (2 * L + R) * (1.01f / 2048) + 1e-4f + 1e-6f / shrink, M = L + rounded;
    const float largest_sum = 0.5f * M * M + 2 * L * rounded + fabsf(furthest);
    const float shrink2 = shrink * shrink;
    const bool unknown =
        exists && !(0.5f * M * M * shrink2 < largest_square && fabsf(furthest) * shrink2 < largest_square);
    float limit = 0.5f * square + t - 0.5f * (rounded * rounded - R * R) - (GROUPS + 1) * largest_sum / 1024;
    limit *= shrink2;
    limit -= (fabsf(limit) + 1) / 1024;  // for rounding it
    limits[row] =
        exists && !unknown ? pack_f16(fminf(fmaxf(limit, -60000.0f), 60000.0f), 0) & 0xffffu : unsigned(no_limit);
    const unsigned votes = __ballot_sync(~0u, unknown);
    if (i % 16 == 0) always[row / 16] = (votes >> (i % 32) & 0xffffu) != 0;
}
