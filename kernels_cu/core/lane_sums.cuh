// Sums over the lanes of a warp, of several values for each lane, always in the same order.
//
// Half of the values change lanes at each step, so that 32 of them take 31 shuffles and not 160.
#pragma once

// Write the sums over all lanes of values[0] to values[count - 1], which are lost, to `sums`. All lanes call.
template <int count, int begin = 0, class Real>
__device__ inline void sum_over_lanes(Real (&values)[count], Real* sums) {
    constexpr int left = count - begin;
    constexpr int together = left >= 32 ? 32 : left >= 16 ? 16 : left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const int half = together * step / 32;  // of the values that a lane still has, the number that it passes on
        if (half == 0) values[begin] += __shfl_xor_sync(~0u, values[begin], step);
#pragma unroll
        for (int j = 0; j < together / 2; j++) {
            if (j >= half) continue;
            Real &low = values[begin + j], high = values[begin + j + half];
            const bool upper = threadIdx.x & step;
            low = (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, step);
        }
    }
    constexpr int lanes_of_sum = 32 / together;
    const int lane = threadIdx.x % 32;
    if (lane % lanes_of_sum == 0) sums[begin + lane / lanes_of_sum] = values[begin];
    if constexpr (left > together) sum_over_lanes<count, begin + together>(values, sums);
}
