// What the kernels of the centred pass share: sums over all pairs with operands about the centres of blocks of data.
//
// A point is z = (point - origin) sqrt(log2 e) / h, so that the exponent of a pair is -|z - z'|^2 / 2 in bits. Points are
// kept in two floats, the second of them the rounding of the first. Data lie in the order of their codes, in blocks of 128
// neighbours, and each block has a centre of its own. It is one piece of memory, read as it is into shared memory:
//
//   right    [16][steps][32]     uint4   of 8 rows and 16 dimensions: the operand of a lane, u = z - centre in two terms of
//                                        float16: hi, hi, lo, lo
//   across   [8][2 steps][32]    uint4   for moments: of 16 rows and 8 dimensions, likewise
//   norms    [128]               float   -|u|^2 / 2 + log2 w, of u as it is kept; `never` of rows that do not count
//   weights  [128]               float   log2 w, here and above less the largest of the block
//   centre   [16 steps]          float
//   radius2, log_mass, most, least  float  largest |u|^2, log2 of the sum of the weights, of the largest, and of the least of
//                                        the rows that count
//
// With the macro F64 points are as they are given, and centred_f64.cuh says what a block is.
//
// Boxes of blocks and of tiles of 32 queries are along six axes at most, the others are zero.
#pragma once
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int tile_rows = 32;
constexpr int box_axes = 6;

// Exponent of a row that does not count, and what is still below every exponent that does.
constexpr float never = -3e38f, hardly = -1e38f;

// Coordinates are held within this, so that squared distances stay finite.
constexpr double largest_coordinate = 5e17;

// Rows of the array of tiles: the lower ends, the upper ends, the least reference, the squared radius about the centre, the
// nearest block.
constexpr int tile_lines = 2 * box_axes + 3;

// Kernels take 0 in place of NaN, and the sums that it belongs to are made NaN at last.
__device__ inline double number_or_0(double z) { return z == z ? z : 0; }

// Within +-limit; NaN stays.
__device__ inline double held_within(double z, double limit) { return z > limit ? limit : z < -limit ? -limit : z; }

#ifdef F64
#include "centred_f64.cuh"
#else
constexpr int block_rows = 128;

__host__ __device__ constexpr int right_bytes(int steps) { return 16 * steps * 32 * 16; }
__host__ __device__ constexpr int across_bytes(int steps, bool moments) { return moments ? right_bytes(steps) : 0; }
__host__ __device__ constexpr int norms_at(int steps, bool moments) {
    return right_bytes(steps) + across_bytes(steps, moments);
}
__host__ __device__ constexpr int weights_at(int steps, bool moments) { return norms_at(steps, moments) + 4 * block_rows; }
__host__ __device__ constexpr int centre_at(int steps, bool moments) { return weights_at(steps, moments) + 4 * block_rows; }
__host__ __device__ constexpr int radius_at(int steps, bool moments) { return centre_at(steps, moments) + 64 * steps; }
__host__ __device__ constexpr int block_bytes(int steps, bool moments) { return radius_at(steps, moments) + 16; }

// A coordinate in two floats.
__device__ inline float2 two_floats(double z) {
    const float first = float(z);
    return make_float2(first, float(z - first));
}

// The difference of two coordinates in two floats.
__device__ inline float difference(float2 y, float2 x) { return (y.x - x.x) + (y.y - x.y); }

using Real = float;    // of references
using Point = float2;  // a coordinate

// The coordinate `raw` of a point as it is kept, z being that in the units of the kernels; and that of what is kept.
__device__ inline Point point_of(double, double z, double, double) { return two_floats(z); }
__device__ inline double coordinate_of(Point kept, double, double) { return double(kept.x) + kept.y; }

// Squared distance of two points of d coordinates in two floats. All kernels have the same bits: those of a large one are
// worth many powers of 2.
__device__ inline float distance2_of(const float2* y, const float2* x, int d, double = 1) {
    float distance2 = 0;
#pragma unroll 4
    for (int k = 0; k < d; k++) {
        const float gap = difference(y[k], x[k]);
        distance2 = fmaf(gap, gap, distance2);
    }
    return distance2;
}

#endif

// The sum, and the largest, over a thread block of so many warps, for all threads; `parts` is shared, a float for each warp.
// Barriers: two; all threads call.
template <int warps>
__device__ inline float sum_of_block(float value, float* parts) {
    value = sum_over_lanes<32>(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < warps; w++) sum += parts[w];
    return sum;
}

template <int warps>
__device__ inline float largest_of_block(float value, float* parts) {
    value = largest_over_lanes<32>(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float largest = parts[0];
    for (int w = 1; w < warps; w++) largest = fmaxf(largest, parts[w]);
    return largest;
}

// The ends of a box along the axes, over a thread block of so many warps: lower ones, then upper ones, in rows of `count`.
// They are wider by the rounding; threads that are not there do not count. Barriers: all threads call.
template <int warps>
__device__ inline void write_box(float* boxes, long long count, long long column, const float (&places)[box_axes], bool there,
                                 float* parts) {
#pragma unroll
    for (int a = 0; a < box_axes; a++) {
        const float slack = fabsf(places[a]) * 0x1p-22f;
        const float high = largest_of_block<warps>(there ? places[a] + slack : -3e38f, parts);
        const float low = -largest_of_block<warps>(there ? slack - places[a] : -3e38f, parts);
        if (threadIdx.x == 0) {
            boxes[a * count + column] = low;
            boxes[(box_axes + a) * count + column] = high;
        }
    }
}
