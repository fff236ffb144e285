// Write a block's sums for the gradient of a channel's weights to the partial sums of its split.
//
//   partial  (taps + 1,)  Real    of the split and the channel; the last is the sum of dy
#pragma once
#include "lane_sums.cuh"

// Of `sum`, whose last is of dy, tap first_tap + k is sum[shift + k], k < own_taps. All threads call; barriers: one.
template <int warps, int count, class Real>
__device__ inline void write_partial(Real (&sum)[count], Real* partial, int first_tap, int shift, int own_taps,
                                     int taps) {
    __shared__ Real of_warp[warps][count];
    sum_over_lanes(sum, of_warp[threadIdx.x / 32]);
    __syncthreads();
    for (int k = threadIdx.x; k < own_taps + (first_tap == 0); k += 32 * warps) {
        double total = 0;
        for (int warp = 0; warp < warps; warp++) total += double(of_warp[warp][k < own_taps ? shift + k : count - 1]);
        partial[k < own_taps ? first_tap + k : taps] = Real(total);
    }
}
