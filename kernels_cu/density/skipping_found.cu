// Better lower bounds of the queries' sums, from the blocks of data that skipping_nearest.cu found. Points are those of
// skipping_points.cu, sums those of skipping_below.cuh.
//
//   Y_local, Y_centres, Y_reach               queries
//   X_local, X_weights, X_centres, X_reach    data
//   squares     (query rows,)      float      |v|^2, twice squared lengths in bits
//   nearest     (query rows,)  unsigned long long     of skipping_nearest.cu: TOGETHER blocks; 0: none
//   reference   (query rows,)      float      b_i; becomes the larger of it and of the sum over these blocks
//   most_length                               of v of data that have finite norms in float16
//
// No exponent is larger than 0, so that a datum of more than `poor` bits is good. Where there is none, float16 may not tell
// which datum is nearest: data of larger norms may be nearer than what was found, or products be off by more bits than -poor.
// Such queries are few, and are compared with all data.
//
// A warp takes a query, a block of threads `warps` of them, far from each other: queries that are compared with all data are
// near each other, and all warps take part in that, a block of data for all such queries at once. Barriers: two, passed by
// all threads, or one where there are none.
//
// Macros: DIM as in skipping_points.cu; TOGETHER.
#include "skipping_below.cuh"

constexpr int warps = 8;
constexpr float poor = -60;
constexpr float product_error = 1.0f / 1024;  // of |v|^2, as a rule

extern "C" __global__ void __launch_bounds__(32 * warps, 3)
    bound_by_found(const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
                   const float* __restrict__ Y_reach, const float* __restrict__ X_local,
                   const float* __restrict__ X_weights, const float* __restrict__ X_centres,
                   const float* __restrict__ X_reach, const float* __restrict__ squares,
                   const unsigned long long* __restrict__ nearest, float* __restrict__ reference, long long m,
                   int data_blocks, float most_length) {
    __shared__ __align__(16) float y_of_warp[warps][DIM];
    __shared__ float2 sums[warps][warps][32];  // of a warp for a query
    __shared__ int unknown[warps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long row = (long long)warp * gridDim.x + blockIdx.x;
    const Points Y = {Y_local, Y_centres, Y_reach}, X = {X_local, X_centres, X_reach};
    bool far = false;
    if (row < m) {
        const unsigned long long key = nearest[row];
        float bound = reference[row];
        if (key) {
            SumFromBelow sum;
            const int first = int(unsigned(key)) * TOGETHER, end = min(first + TOGETHER, data_blocks);
            for (int from = first; from < end; from++) add_block(sum, y_of_warp[warp], Y, row, X, X_weights, from);
            bound = fmaxf(bound, over_lanes(sum).bits());
            if (lane == 0) reference[row] = bound;
        }
        const float square = squares[row];
        far = bound < poor && (sqrtf(square) + sqrtf(-2 * bound) > most_length || square * product_error > -poor);
    }
    if (lane == 0) unknown[warp] = far;
    __syncthreads();
    bool none = true;
    for (int i = 0; i < warps; i++) {
        none &= !unknown[i];
        sums[warp][i][lane] = {nothing_known, 0};
    }
    if (none) return;
    for (int from = warp; from < data_blocks; from += warps) {
#pragma unroll 1
        for (int i = 0; i < warps; i++) {
            if (!unknown[i]) continue;
            SumFromBelow sum = {sums[warp][i][lane].x, sums[warp][i][lane].y};
            add_block(sum, y_of_warp[warp], Y, (long long)i * gridDim.x + blockIdx.x, X, X_weights, from);
            sums[warp][i][lane] = {sum.largest, sum.total};
        }
    }
    __syncthreads();
    if (!far) return;
    SumFromBelow sum;
    for (int i = 0; i < warps; i++) sum.add(sums[i][warp][lane].x, sums[i][warp][lane].y);
    const float bound = over_lanes(sum).bits();
    if (lane == 0) reference[row] = fmaxf(reference[row], bound);
}
