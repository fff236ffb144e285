// Boxes of 32 neighbouring blocks of data, for a search that looks at blocks of near groups alone (skipping_search.cu).
//
//   low, high   (box_axes, blocks)  float   of skipping_points.cu
//   most        (blocks,)           float   largest log2 w
//   of_groups   (2 box_axes + 1, groups)    the same of groups: low, high and most
//
// A warp takes a group, a lane a block. No barriers. Macros: none.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int threads = 128;

extern "C" __global__ void __launch_bounds__(threads)
    group_boxes(const float* __restrict__ low, const float* __restrict__ high, const float* __restrict__ most,
                float* __restrict__ of_groups, int blocks, int groups, int box_axes) {
    const int lane = threadIdx.x % 32, group = blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (group >= groups) return;
    const int b = min(group * 32 + lane, blocks - 1);
    for (int a = 0; a < 2 * box_axes + 1; a++) {
        const long long of_axis = (long long)(a % box_axes) * blocks + b;
        float found;
        if (a < box_axes) found = least_over_lanes<32>(low[of_axis]);
        else found = largest_over_lanes<32>(a < 2 * box_axes ? high[of_axis] : most[b]);
        if (lane == 0) of_groups[(long long)a * groups + group] = found;
    }
}
