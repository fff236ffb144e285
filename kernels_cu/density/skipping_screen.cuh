// Screening in float16 (skipping_units.cu): which blocks of data a warp looks at, and the largest product of its queries
// with 32 data.
//
// Macros: GROUPS; ROW_TILES (4 or 8), of 16 queries.
#pragma once
#include "skipping_blocks.cuh"

constexpr int threads = 128;
constexpr int row_tiles = ROW_TILES;
constexpr int blocks_of_item = row_tiles / 4;
constexpr int most_listed = 128;  // blocks of data: a span is at most so long

struct Listed {
    unsigned blocks[most_listed];
    unsigned masks[most_listed];
};

// Blocks of data that can matter to the item's queries; returns their number.
__device__ inline int list_blocks(Listed& listed, const Boxes& X, const Boxes& Y, const float* most,
                                  float least_threshold, int first_row_block, int begin, int end, int box_axes) {
    const int lane = threadIdx.x % 32;
    int count = 0;
    for (int base = begin; base < end; base += 32) {
        const int b = base + lane;
        bool near = false;
        if (b < end)
            near = most[b] - box_distance(X, b, Y, first_row_block, blocks_of_item, box_axes) >= least_threshold;
        const unsigned votes = __ballot_sync(~0u, near);
        if (near) listed.blocks[count + __popc(votes & ((1u << lane) - 1))] = b;
        count += __popc(votes);
    }
    __syncwarp();
    return count;
}

// The lane's part of a fragment of 16 points by 16 dimensions.
__device__ inline void fragment(unsigned (&to)[4], const unsigned* from, long long number) {
    const uint4 f = *reinterpret_cast<const uint4*>(from + (number * 32 + threadIdx.x % 32) * 4);
    to[0] = f.x, to[1] = f.y, to[2] = f.z, to[3] = f.w;
}

// The queries of an item as left operands.
struct Rows {
    unsigned of[row_tiles][GROUPS][4];

    __device__ void load(const unsigned* halves, int first_row_block, int tiles) {
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            const int tile = first_row_block * 4 + (m < tiles ? m : 0);
#pragma unroll
            for (int q = 0; q < GROUPS; q++) fragment(of[m][q], halves, (long long)tile * GROUPS + q);
        }
    }
};

// Largest v_i . v_j - |v_j|^2 / 2 + log2 w_j over the lane's columns of 32 data, of rows g and g + 8 of each row tile, two
// columns to a register. `n16` is the number of the first 16 data. With `more`, of these and of what is there.
template <bool more>
__device__ inline void largest_products(unsigned (&largest)[row_tiles][2], const Rows& rows, const unsigned* X_halves,
                                        const unsigned short* norms, long long n16) {
    const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const long long columns = n16 + part;
        uint2 b[GROUPS][2];  // right operands: points 0..7 and 8..15
#pragma unroll
        for (int q = 0; q < GROUPS; q++) {
            const uint4 f = *reinterpret_cast<const uint4*>(X_halves + ((columns * GROUPS + q) * 32 + lane) * 4);
            b[q][0] = {f.x, f.y};
            b[q][1] = {f.z, f.w};
        }
        const uint2 n0 = *reinterpret_cast<const uint2*>(norms + (columns * 8 + t) * 4);
        const uint2 n1 = *reinterpret_cast<const uint2*>(norms + (columns * 8 + 4 + t) * 4);
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            unsigned left[2], right[2];
            mma_f16_in_f16(left, rows.of[m][0], b[0][0].x, b[0][0].y, n0.x, n0.y);
            mma_f16_in_f16(right, rows.of[m][0], b[0][1].x, b[0][1].y, n1.x, n1.y);
#pragma unroll
            for (int q = 1; q < GROUPS; q++) {
                mma_f16_in_f16(left, rows.of[m][q], b[q][0].x, b[q][0].y, left[0], left[1]);
                mma_f16_in_f16(right, rows.of[m][q], b[q][1].x, b[q][1].y, right[0], right[1]);
            }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const unsigned both = larger_f16x2(left[r], right[r]);
                largest[m][r] = more || part ? larger_f16x2(largest[m][r], both) : both;
            }
        }
    }
}
