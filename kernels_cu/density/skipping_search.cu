// Better lower bounds of the sums of queries that are far from the data they were compared with, where boxes decide alone:
// blocks of data whose boxes may hold a larger exponent than the best that is known, the most promising first. Points are
// those of skipping_points.cu, sums those of skipping_below.cuh.
//
//   Y_local, Y_centres, Y_reach               queries
//   X_local, X_weights, X_centres, X_reach    data
//   low, high, most, axes                     boxes of the data, and their axes
//   of_groups                                 of skipping_groups.cu
//   heaviest    (1,)               float      largest log2 w; null: 0
//   reference   (query rows,)      float      b_i; becomes the larger of it and of the sum over the blocks that were visited
//
// In the end no exponent is larger than b_i + `close`, beside rounding, unless `most_visits` blocks were visited before. No
// block is visited twice. Boxes say where to look; what is found holds however they are rounded.
//
// A warp takes a query, and returns at once if its bound is good. It looks at 32 boxes at a time, of groups of 32 blocks and
// then of blocks of a group, and takes a block as add_block does.
//
// No barriers but of a warp. Macro: DIM as in skipping_points.cu.
#include "skipping_below.cuh"

constexpr int threads = 256;
constexpr int most_axes = 5;
constexpr int most_visits = 256;
constexpr float poor = -10, close = 4;  // bits
constexpr float none = -3e38f;

// The largest exponent that box b of so many may hold, of a query that lies `along` the axes.
__device__ inline float promise(const float (&along)[most_axes], const float* low, const float* high, const float* most,
                                int count, int b, int box_axes) {
    float distance = 0;
#pragma unroll
    for (int a = 0; a < most_axes; a++) {
        if (a >= box_axes) continue;
        const long long place = (long long)a * count + b;
        const float gap = fmaxf(0.0f, fmaxf(along[a] - high[place], low[place] - along[a]));
        distance = fmaf(gap, gap, distance);
    }
    return most[b] - distance;
}

// Lane that makes the largest promise, if it is above `least`, otherwise -1; then that lane has made it.
__device__ inline int take_largest(float& promised, float least) {
    const float largest = largest_over_lanes<32>(promised);
    if (!(largest > least)) return -1;
    const int taken = __ffs(__ballot_sync(~0u, promised == largest)) - 1;
    if (threadIdx.x % 32 == taken) promised = none;
    return taken;
}

extern "C" __global__ void __launch_bounds__(threads, 4)
    search_boxes(const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
                 const float* __restrict__ Y_reach, const float* __restrict__ X_local,
                 const float* __restrict__ X_weights, const float* __restrict__ X_centres,
                 const float* __restrict__ X_reach, const float* __restrict__ low, const float* __restrict__ high,
                 const float* __restrict__ most, const float* __restrict__ axes, const float* __restrict__ of_groups,
                 const float* __restrict__ heaviest, float* __restrict__ reference, long long m, int data_blocks,
                 int groups, int d, int box_axes) {
    __shared__ __align__(16) float y_of_warp[threads / 32][DIM];
    float (&y)[DIM] = y_of_warp[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (row >= m) return;
    const float known = reference[row];
    if (known >= poor + (heaviest ? *heaviest : 0.0f)) return;

    float along[most_axes];
#pragma unroll
    for (int a = 0; a < most_axes; a++) {
        along[a] = 0;
        for (int k = 0; k < d && a < box_axes; k++)
            along[a] = fmaf(Y_local[row * DIM + k] + Y_centres[row / block * DIM + k], axes[a * d + k], along[a]);
    }
    const float *const group_low = of_groups, *const group_high = group_low + (long long)box_axes * groups,
                       *const group_most = group_high + (long long)box_axes * groups;
    const auto of_group = [&](int group) {
        return group < groups ? promise(along, group_low, group_high, group_most, groups, group, box_axes) : none;
    };
    // Begin with the groups about the most promising one.
    float largest = none;
    int start = lane;
    for (int group = lane; group < groups; group += 32) {
        const float promised = of_group(group);
        if (promised > largest) largest = promised, start = group;
    }
    start = __shfl_sync(~0u, start, max(take_largest(largest, none), 0)) / 32;

    const Points Y = {Y_local, Y_centres, Y_reach}, X = {X_local, X_centres, X_reach};
    SumFromBelow sum;
    float best = known;
    int visits = 0;
    const int turns = (groups + 31) / 32;
    for (int turn = 0; turn < turns; turn++) {
        const int first = (start + turn) % turns * 32;
        float of_groups_there = of_group(first + lane);
        for (int group; visits < most_visits && (group = take_largest(of_groups_there, best + close)) >= 0;) {
            const int first_block = (first + group) * 32, b = first_block + lane;
            float of_block = b < data_blocks ? promise(along, low, high, most, data_blocks, b, box_axes) : none;
            for (int taken; visits < most_visits && (taken = take_largest(of_block, best + close)) >= 0; visits++) {
                add_block(sum, y, Y, row, X, X_weights, first_block + taken);
                best = fmaxf(best, largest_over_lanes<32>(sum.largest));
            }
        }
    }
    if (!visits) return;
    const float found = over_lanes(sum).bits();
    if (lane == 0) reference[row] = fmaxf(known, found);
}
