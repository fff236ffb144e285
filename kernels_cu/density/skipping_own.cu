// What skipping_mutual.cu leaves of a point, as skipping_units.cu adds to it. `own` is 1, or 0 where another device that
// shares the items adds the own terms.
//
//   local, kinds   of skipping_points.cu
//   S, T           (rows,), (rows, DIM)  float   of common blocks: 2^13 S and 2^14 sum_j 2^e_ij z_j without the own term
//                                                become S with it, and sum_j 2^e_ij (z_j - z_i); others stay
//
// One thread a point. No barriers. Macro: DIM.
#include "skipping_chunks.cuh"

constexpr int threads = 128;
constexpr int block = 64;

extern "C" __global__ void __launch_bounds__(threads)
    add_own(const float* __restrict__ local, const unsigned char* __restrict__ kinds, float* __restrict__ S,
            float* __restrict__ T, long long rows, float own) {
    const long long row = (long long)blockIdx.x * threads + threadIdx.x;
    if (row >= rows || kinds[row / block] < common_kind) return;
    const float total = S[row] * (1.0f / 8192);
    S[row] = total + own;
    for (int k = 0; k < DIM; k++) {
        const long long place = row * DIM + k;
        T[place] = T[place] * (1.0f / 16384) - local[place] * total;
    }
}
