// Sums of data's terms 2^e_ij from below, with e_ij = log2 w_j - |z_i - z_j|^2.
//
// Coordinates are rounded to float, about the centres of blocks, and of blocks that are not wide to 2^-19. That moves a
// distance r by at most `slack`, and so r^2 by at most slack (2 r + slack).
//
// Macro: DIM as in skipping_points.cu.
#pragma once
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int block = 64;
constexpr float nothing_known = -1e38f;
constexpr float square_error = (DIM / 4 + 6) * 6e-8f;  // of a sum of DIM squares, relative

// Points as skipping_points.cu leaves them.
struct Points {
    const float *local, *centres, *reach;
};

// How far distances of two blocks' points are off; no coordinates of their centres differ by more than `offset`.
__device__ inline float slack_of(float reach, float other_reach, float offset) {
    return sqrtf(float(DIM)) * (2e-7f * (reach + other_reach + offset) + 4e-6f);
}

struct SumFromBelow {
    float largest = nothing_known, total = 0;  // total is relative to 2^largest

    // Add 2^e factor, which may be nothing.
    __device__ void add(float e, float factor) {
        if (!(factor > 0)) return;
        if (e > largest) {
            total *= exp2_approx(largest - e);
            largest = e;
        }
        total = fmaf(factor, exp2_approx(e - largest), total);
    }

    // Add the term of a datum of weight 2^weight at the squared distance r2.
    __device__ void add(float weight, float r2, float slack) {
        const float r = fminf(r2 * rsqrtf(r2 + 1e-30f), r2 + 1);  // which infinity is, too
        const float more = r2 * square_error + slack * (2 * r + slack);
        add(weight - (r2 + more), 1.0f);
    }

    __device__ float bits() const {
        return total > 0 ? largest + log2f(total) - 0.001f - 3e-7f * fabsf(largest) : nothing_known;
    }
};

// Add the data of a block, two a lane, to the sums of a warp's lanes; `y` is memory of the warp.
__device__ inline void add_block(SumFromBelow& sum, float (&y)[DIM], const Points& Y, long long row, const Points& X,
                                 const float* weights, int from) {
    const int lane = threadIdx.x % 32;
    const long long own = row / block;
    float offset = 0;
    __syncwarp();
    for (int k = lane; k < DIM; k += 32) {
        const float shift = Y.centres[own * DIM + k] - X.centres[(long long)from * DIM + k];
        offset = fmaxf(offset, fabsf(shift));
        y[k] = Y.local[row * DIM + k] + shift;
    }
    offset = largest_over_lanes<32>(offset);
    __syncwarp();
    const float slack = slack_of(Y.reach[own], X.reach[from], offset);
#pragma unroll(DIM <= 16 ? 2 : 1)
    for (int half = 0; half < 2; half++) {
        const long long column = (long long)from * block + half * 32 + lane;
        const float4* const x = reinterpret_cast<const float4*>(X.local + column * DIM);
        float r2 = 0;
#pragma unroll 4
        for (int k = 0; k < DIM; k += 4) {
            const float4 four = x[k / 4], own_four = *reinterpret_cast<const float4*>(y + k);
            const float p = four.x - own_four.x, q = four.y - own_four.y;
            const float r = four.z - own_four.z, s = four.w - own_four.w;
            r2 += p * p + q * q + r * r + s * s;
        }
        sum.add(weights[column], r2, slack);
    }
}

// The sum of all lanes' sums, the same on every lane.
__device__ inline SumFromBelow over_lanes(SumFromBelow sum) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        sum.add(__shfl_down_sync(~0u, sum.largest, step), __shfl_down_sync(~0u, sum.total, step));
    return {__shfl_sync(~0u, sum.largest, 0), __shfl_sync(~0u, sum.total, 0)};
}
