// Queries of which float16 tells nothing (skipping_limits.cu): which blocks of data lie too far from them.
//
// Macros: DIM; MOST_SQUARE, of |local|^2 in blocks that are not wide (skipping_points.cu).
#pragma once
#include "skipping_differences.cuh"

// Whether no datum of block b reaches `least` with one of 16 queries from `first` on that have no limit in float16. The
// distance to the block's centre, less that of its furthest datum from there, bounds distances from below; both are off by
// less than 1e-4 of themselves and `slack`. What is not a number is not far. For a warp, two lanes a query.
__device__ inline bool is_far(const Points& Y, const Points& X, const unsigned short* limits,
                              const unsigned char* X_kinds, const float* most, float least, long long first,
                              long long b) {
    const int lane = threadIdx.x % 32;
    const long long row = first + lane % 16;
    float square = 0;
#pragma unroll 1
    for (int k = lane / 16 * 4; k < DIM; k += 8) {
        float y[4];
        shifted(y, Y, X, row, b * block, k);
        square += y[0] * y[0] + y[1] * y[1] + y[2] * y[2] + y[3] * y[3];
    }
    square += __shfl_xor_sync(~0u, square, 16);
    float radius = sqrtf(float(DIM)) * X.reach[b];
    if (X_kinds[b]) radius = fminf(radius, sqrtf(float(MOST_SQUARE)));
    const float slack = sqrtf(float(DIM)) * (1e-6f * Y.reach[row / block] + 4e-6f);
    const float gap = sqrtf(square) * 0.9999f - radius * 1.0001f - slack;
    const bool far = gap > 0 && (most ? most[b] : 0.0f) - gap * gap < least;
    return !__any_sync(~0u, limits[row] == no_limit && !far);
}
