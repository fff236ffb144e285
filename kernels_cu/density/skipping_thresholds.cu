// Which blocks of data an item of queries may leave out whole, and which parts of others, by what they can add at most.
//
//   extent      (query blocks, 2)  float   least and largest lower bound of the queries' sums, in bits
//   most        (data blocks,)     float   largest log2 w
//   threshold   (row_items, 2)     float   least -|distance of boxes|^2 + most of the blocks to take, and of their parts
//   top                                    1 + d/2 for output LAPLACE, else 0: see most_factor
//
// A block of 64 data adds at most 2^(6 + most - distance^2) to a sum, with factors at most so many times what one can be at
// this exponent. Counts of blocks by this exponent, one bit a class, say
// from which class on all of them are together at most half of `tolerance` times 2^(least bound of the item). Of the data
// of the others the parts that are left out are together at most the other half, if none of them adds more than an equal
// share of it. The boxes are those of skipping_points.cu, an item is two blocks of queries (skipping_boxes.cu).
//
// A warp takes an item, and looks at all blocks of data. No barriers but of a warp. Macros: none.
#include "skipping_blocks.cuh"

constexpr int threads = 128;
constexpr int blocks_of_item = 2;
constexpr int classes = 128;

extern "C" __global__ void __launch_bounds__(threads, 8)
    box_thresholds(const float* __restrict__ Y_low, const float* __restrict__ Y_high, const float* __restrict__ extent,
                   const float* __restrict__ X_low, const float* __restrict__ X_high, const float* __restrict__ most,
                   float2* __restrict__ threshold, int query_blocks, int data_blocks, int row_items, int box_axes,
                   float tolerance, float top) {
    __shared__ unsigned counts[threads / 32][classes];
    unsigned* const count = counts[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, item = blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (item >= row_items) return;
    const Boxes Y = {Y_low, Y_high, query_blocks}, X = {X_low, X_high, data_blocks};
    const int first = item * blocks_of_item, second = first + 1 < query_blocks ? first + 1 : first;
    const float bound = fminf(extent[2 * first], extent[2 * second]);
#pragma unroll
    for (int i = lane; i < classes; i += 32) count[i] = 0;
    __syncwarp();
    for (int b = lane; b < data_blocks; b += 32) {
        const float e = most[b] - box_distance(X, b, Y, first, blocks_of_item, box_axes);
        const float below = fminf(fmaxf(bound - 6 - e, 0.0f), classes - 1.0f);
        atomicAdd(count + int(below), 1u);
    }
    __syncwarp();
    // From the furthest class on: lane 0 takes them one after the other.
    if (lane == 0) {
        float together = 0;
        int taken = classes, blocks_taken = data_blocks;
        while (taken > 0) {
            together += count[taken - 1] * exp2_approx(1.0f - taken) * most_factor(bound - 5 - taken, top);
            if (!(together <= 0.5f * tolerance)) break;
            taken--;
            blocks_taken -= count[taken];
        }
        const float rounding = 0.01f + 1e-6f * fabsf(bound);
        float of_parts = bound - 6 + log2f(0.5f * tolerance / max(blocks_taken, 1)) - rounding;
        of_parts -= log2f(most_factor(of_parts, top));
        threshold[item] = make_float2(bound - 6 - taken - rounding, of_parts);
    }
}
