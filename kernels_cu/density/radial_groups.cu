// Boxes of groups of 256 blocks, from those of the blocks.
//
//   low, high              (d, blocks)  REAL  boxes of blocks (radial_blocks.cu)
//   group_low, group_high  (d, groups)  REAL
//
// One block of 256 threads for a group, x, and a dimension, y; a thread a block of points. Barriers: one, passed by all
// threads.
//
// Macros: KERNEL the name; REAL.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

typedef REAL Real;

constexpr int threads = 256;
constexpr int warps = threads / 32;

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const Real* __restrict__ low, const Real* __restrict__ high, Real* __restrict__ group_low,
       Real* __restrict__ group_high, int blocks) {
    __shared__ Real least[warps], largest[warps];
    const int own = blockIdx.x * threads + threadIdx.x, b = own < blocks ? own : blocks - 1;
    const long long from = (long long)blockIdx.y * blocks + b, to = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    const Real lowest = least_over_lanes<32>(low[from]), highest = largest_over_lanes<32>(high[from]);
    if (threadIdx.x % 32 == 0) {
        least[threadIdx.x / 32] = lowest;
        largest[threadIdx.x / 32] = highest;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const Real of_low = least_over_lanes<warps>(least[threadIdx.x % warps]);
        const Real of_high = largest_over_lanes<warps>(largest[threadIdx.x % warps]);
        if (threadIdx.x == 0) {
            group_low[to] = of_low;
            group_high[to] = of_high;
        }
    }
}
