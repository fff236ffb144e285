// A lower bound of each query's sum, from the data that are likely to be near, and the exponent below which a pair may
// be left out. Points are those of skipping_points.cu; e_ij = log2 w_j - |z_i - z_j|^2.
//
//   Y_local, Y_centres, Y_reach, Y_squares    queries; squares null: no screening
//   X_local, X_weights, X_centres, X_reach    data
//   near        (query blocks, 2)  int        first and last of the blocks of data to look at; null: the query block's own
//   reference   (query rows,)      float      b_i <= log2 sum_j 2^e_ij |f_ij|, the terms of output LAPLACE with their factors
//   threshold   (query blocks,)    float      least of the block's b_i + below: pairs below it may be left out
//   extent      (query blocks, 2)  float      least and largest b_i
//   limits      (query rows,)      float16    what a product in float16 must reach (skipping_units.cuh)
//   always      (query rows / 16,) unsigned char  1: float16 cannot tell, all pairs of these 16 rows count
//   below                                     log2 of the tolerance over the number of data: that many terms, each smaller
//                                             than 2^(b_i + below), are together at most the tolerance times the sum
//   top                                       1 + d/2 for output LAPLACE, else 0
//
// Every term that is looked at is bounded from below: coordinates are rounded to float, which moves a difference by at
// most `slack`, and r^2 by at most 1e-5 r^2 + 1e5 slack^2.
//
// The limit in float16. With h = sqrt(2) z rounded, L = |h_i| and t = threshold of row i, a pair counts only if
// |z_i - z_j| <= R / sqrt(2), R = sqrt(-2 t), as log2 w <= 0. Then |h_i - h_j| <= R' = R + 2^-11 (L + M), M = L + R', and
//     h_i . h_j - |h_j|^2 / 2 + log2 w_j >= L^2 / 2 + t - (R'^2 - R^2) / 2.
// The norms and each of GROUPS sums are rounded, or truncated, once to float16, when none is larger than
// B = M^2 / 2 + 2 L R' + |t|; so (GROUPS + 1) 2^-10 B is subtracted, and the limit is rounded down.
//
// One block of 64 threads for 64 queries, a thread a query. Barriers: two, passed by all threads.
//
// Macros: DIM, GROUPS as in skipping_points.cu.
#include "ptx.cuh"

constexpr int block = 64;
constexpr int most_blocks = 16;      // of data, for a block of queries
constexpr float never = 3e38f;
constexpr float float_error = 2e-7f; // of a coordinate and of a difference, relative to the reach
constexpr float largest_square = 30000;

struct Sum {
    float top = -1e38f, total = 0;

    // Add 2^e factor.
    __device__ void add(float e, float factor) {
        const float larger = fmaxf(top, e);
        total = total * exp2_approx(top - larger) + factor * exp2_approx(e - larger);
        top = larger;
    }
};

__device__ inline float warp_least(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = fminf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

extern "C" __global__ void __launch_bounds__(block, 16)
bound_sums(const float* __restrict__ Y_local, const float* __restrict__ Y_weights, const float* __restrict__ Y_centres,
           const float* __restrict__ Y_reach, const float* __restrict__ Y_squares, const float* __restrict__ X_local,
           const float* __restrict__ X_weights, const float* __restrict__ X_centres, const float* __restrict__ X_reach,
           const int* __restrict__ near, float* __restrict__ reference, float* __restrict__ threshold,
           float* __restrict__ extent, unsigned short* __restrict__ limits, unsigned char* __restrict__ always,
           long long m, int data_blocks, int sample_step, float below, float top) {
    __shared__ float y[DIM][block];
    __shared__ float least[2], largest[2], least_threshold[2];
    const int b = blockIdx.x, i = threadIdx.x;
    const long long row = (long long)b * block + i;
    const float reach = Y_reach[b];
    Sum sum;

    const auto look_at = [&](int from, int begin, int end) {
        float offset = 0;
        for (int k = 0; k < DIM; k++) {
            const float shift = Y_centres[b * DIM + k] - X_centres[from * DIM + k];
            offset = fmaxf(offset, fabsf(shift));
            y[k][i] = Y_local[row * DIM + k] + shift;
        }
        const float slack = float_error * sqrtf(float(DIM)) * (reach + X_reach[from] + offset);
        const float lost = 1e5f * slack * slack;
#pragma unroll 2
        for (int j = begin; j < end; j++) {
            const float4* const x = reinterpret_cast<const float4*>(X_local + ((long long)from * block + j) * DIM);
            float r2 = 0;
#pragma unroll 4
            for (int k = 0; k < DIM; k += 4) {
                const float4 four = x[k / 4];
                const float p = four.x - y[k][i], q = four.y - y[k + 1][i];
                const float r = four.z - y[k + 2][i], s = four.w - y[k + 3][i];
                r2 += p * p + q * q + r * r + s * s;
            }
            const float bounded = r2 * 1.00001f + lost;
            const float factor = top > 0 ? fmaxf(fabsf(top - 0.6931472f * r2) - 0.7f * (bounded - r2), 0.0f) : 1.0f;
            sum.add(X_weights[(long long)from * block + j] - bounded, factor);
        }
    };
    const int first = near ? max(near[2 * b] - 1, 0) : b, last = near ? min(near[2 * b + 1] + 1, data_blocks - 1) : b;
    const int step = (last - first) / most_blocks + 1;
    for (int from = first; from <= last; from += step) look_at(from, 0, block);
    if (sample_step > 0)
        for (int from = 0; from < data_blocks; from += sample_step) look_at(from, block / 2, block / 2 + 1);

    const bool exists = row < m;
    float bound = sum.total > 0 ? sum.top + log2f(sum.total) - 0.001f - 1e-6f * fabsf(sum.top) : -1e38f;
    reference[row] = exists ? bound : never;
    float t = bound + below;
    if (top > 0) t -= log2f(top + fabsf(t) + 20);  // what the factor of a pair at the threshold can be, and more
    if (!exists) t = never;
    const float low = warp_least(exists ? bound : never), high = -warp_least(exists ? -bound : never);
    const float lowest_threshold = warp_least(t);
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

    if (!Y_squares) return;
    const float square = Y_squares[row];
    const float L = sqrtf(square) * 1.0001f, R = sqrtf(fmaxf(-2 * t, 0.0f));
    const float rounded = R + (2 * L + R) * (1.01f / 2048) + 1e-4f, M = L + rounded;
    const float largest_sum = 0.5f * M * M + 2 * L * rounded + fabsf(t);
    const bool unknown = exists && !(0.5f * M * M < largest_square && fabsf(t) < largest_square);
    float limit = 0.5f * square + t - 0.5f * (rounded * rounded - R * R) - (GROUPS + 1) * largest_sum / 1024;
    limit -= (fabsf(limit) + 1) / 1024;  // for rounding it
    limits[row] = pack_f16(exists && !unknown ? fminf(fmaxf(limit, -60000.0f), 60000.0f) : 60000.0f, 0) & 0xffffu;
    const unsigned votes = __ballot_sync(~0u, unknown);
    if (i % 16 == 0) always[row / 16] = (votes >> (i % 32) & 0xffffu) != 0;
}
