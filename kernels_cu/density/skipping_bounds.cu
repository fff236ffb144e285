// A lower bound of each query's sum, from the data that are likely to be near. Points are those of skipping_points.cu;
// e_ij = log2 w_j - |z_i - z_j|^2.
//
//   Y_local, Y_centres, Y_reach               queries
//   X_local, X_weights, X_centres, X_reach    data
//   near        (query blocks, 2)  int        first and last of the blocks of data to look at; null: the query block's own
//   axes        (box_axes, d)      float      those of the boxes X_low, X_high: queries far from the data that are looked at
//                                             look at the block of the nearest box, too; null: they do not
//   reference   (query rows,)      float      b_i <= log2 sum_j 2^e_ij |f_ij|, f being 1 or the factors of Laplace-corrected
//                                             densities
//   extent      (query blocks, 2)  float      least b_i, twice
//   around                                    blocks to look at beside these, on either side
//   most_blocks                               of these are looked at, at equal distances
//   sample_step                               a datum of every so many blocks, too; 0: none
//   top                                       1 + d/2 for Laplace-corrected densities, else 0
//
// Every term is bounded from below: coordinates are rounded to float, which moves a difference by at most `slack`, and r^2
// by at most 1e-5 r^2 + 1e5 slack^2.
//
// One block of 64 threads for 64 queries, a thread a query. Barriers: one, passed by all threads.
//
// Macro: DIM as in skipping_points.cu.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int block = 64;
constexpr float never = 3e38f;
constexpr int most_box_axes = 5;      // where `axes` are given
constexpr float poor = -30;           // a largest exponent below which there may be much nearer data
constexpr float float_error = 2e-7f;  // of a coordinate and of a difference, relative to the reach

struct Sum {
    float top = -1e38f, total = 0;

    // Add 2^e factor.
    __device__ void add(float e, float factor) {
        const float larger = fmaxf(top, e);
        total = total * exp2_approx(top - larger) + factor * exp2_approx(e - larger);
        top = larger;
    }
};

extern "C" __global__ void __launch_bounds__(block, 8)
    bound_sums(const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
               const float* __restrict__ Y_reach, const float* __restrict__ X_local,
               const float* __restrict__ X_weights, const float* __restrict__ X_centres,
               const float* __restrict__ X_reach, const float* __restrict__ X_low, const float* __restrict__ X_high,
               const float* __restrict__ axes, const int* __restrict__ near, float* __restrict__ reference,
               float* __restrict__ extent, long long m, int data_blocks, int around, int most_blocks, int sample_step,
               int d, int box_axes, float top) {
    __shared__ float y[DIM][block];
    __shared__ float least[2];
    const int b = blockIdx.x, i = threadIdx.x;
    const long long row = (long long)b * block + i;
    const float reach = Y_reach[b];
    Sum sum;

    const auto look_at = [&](Sum& sum, int from, int begin, int end) {
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
    const int first = max((near ? near[2 * b] : b) - around, 0);
    const int last = min((near ? near[2 * b + 1] : b) + around, data_blocks - 1);
    const int step = (last - first) / most_blocks + 1;
    for (int from = first; from <= last; from += step) look_at(sum, from, 0, block);
    // No datum counts twice.
    if (sample_step > 0)
        for (int from = 0; from < data_blocks; from += sample_step)
            if (from < first || from > last || (from - first) % step) look_at(sum, from, block / 2, block / 2 + 1);

    const bool exists = row < m;
    if (axes && exists && !(sum.total > 0 && sum.top > poor)) {
        // A query far from these: the block of data whose box is nearest has a near point, if not the nearest.
        float along[most_box_axes];
        int nearest = 0;
        float least_distance = 3e38f;
#pragma unroll
        for (int a = 0; a < most_box_axes; a++) {
            along[a] = 0;
            for (int k = 0; k < d && a < box_axes; k++)
                along[a] = fmaf(Y_local[row * DIM + k] + Y_centres[b * DIM + k], axes[a * d + k], along[a]);
        }
        for (int from = 0; from < data_blocks; from++) {
            float distance = 0;
#pragma unroll
            for (int a = 0; a < most_box_axes; a++) {
                if (a >= box_axes) continue;
                const long long place = (long long)a * data_blocks + from;
                const float gap = fmaxf(0.0f, fmaxf(along[a] - X_high[place], X_low[place] - along[a]));
                distance = fmaf(gap, gap, distance);
            }
            if (distance < least_distance) {
                least_distance = distance;
                nearest = from;
            }
        }
        Sum there;  // it may be among those, and a datum counts once
        look_at(there, nearest, 0, block);
        if (there.total > 0 && !(sum.total > 0 && sum.top + log2f(sum.total) > there.top + log2f(there.total)))
            sum = there;
    }
    float bound = sum.total > 0 ? sum.top + log2f(sum.total) - 0.001f - 1e-6f * fabsf(sum.top) : -1e38f;
    // A query that is a datum has at least itself, however wide its block.
    if (!near) bound = fmaxf(bound, X_weights[row] * 1.000001f + (top > 0 ? log2f(top) : 0.0f) - 0.001f);
    reference[row] = exists ? bound : never;
    const float low = least_over_lanes<32>(exists ? bound : never);
    if (i % 32 == 0) least[i / 32] = low;
    __syncthreads();
    if (i == 0) extent[2 * b] = extent[2 * b + 1] = fminf(least[0], least[1]);
}
