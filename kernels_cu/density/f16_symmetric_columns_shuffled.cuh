// The sums of columns of the symmetric pass, passed between warps. In step s warp w takes group (w + s) % 4 and adds the
// contribution of its rows to the sums of those columns (movmatrix makes phi the left operand of the transposed
// product). It passes the sums to the next warp through shared memory; the warp of the last step adds them to S and T.
#pragma once
#include "f16_symmetric_pairs.cuh"

// The sums of 16 columns: fragments and, with EXACT sums, the lane's part of columns 2t, 2t + 1, 2t + 8, 2t + 9.
struct Columns {
    float product[2 * factor_groups][4];
    float sum[4];
};

// The sums in shared memory, between two warps.
struct PassedSums {
    float4 product[2 * factor_groups][32];
    float4 sum[32];
};

struct Shared {
    Tile tiles[stages];
    PassedSums passed[warps];
    OwnRows own;
    Part part;
};

__device__ __forceinline__ float4 to_float4(const float (&a)[4]) { return make_float4(a[0], a[1], a[2], a[3]); }

__device__ __forceinline__ void to_array(float (&a)[4], float4 v) {
    a[0] = v.x;
    a[1] = v.y;
    a[2] = v.z;
    a[3] = v.w;
}

// One step of a tile: take the sums from the warp before, add to them, and pass them on or, after the last step, add
// them to S and T.
template <bool on_diagonal>
__device__ __forceinline__ void step(Rows& rows, PassedSums& passed, const OwnRows& own,
                                     const Tile& tile_of_columns, float* S, float* T, int group, int s,
                                     int first_column, int above) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    Columns columns = {};
    if (s > 0) {
#pragma unroll
        for (int k = 0; k < 2 * factor_groups; k++) to_array(columns.product[k], passed.product[k][lane]);
        to_array(columns.sum, passed.sum[lane]);
    }
    // The transpose of phi, times factors and 1.
    const auto add_columns = [&](int m, const unsigned (&phi)[factor_terms][4]) {
        unsigned across[factor_terms][4];
#pragma unroll
        for (int term = 0; term < factor_terms; term++)
#pragma unroll
            for (int p = 0; p < 4; p++) across[term][p] = transpose_8x8(phi[term][p % 2 * 2 + p / 2]);
#pragma unroll
        for (int q = 0; q < factor_groups; q++) {
            unsigned right[factor_terms][4];
            if constexpr (factors_in_shared_memory) {
                load_factors(right, own.factors[(threadIdx.x / 32 * row_tiles + m) * 16] + factors_of_lane(), q);
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) right[0][i] = transpose_8x8(rows.hi[m][q][i]);
            }
            add_product(&columns.product[2 * q], across, right);
        }
        if constexpr (sum_by_product) mma_f16_m16n8k16(columns.sum, across[0], ones, ones);
    };
    add_pairs<on_diagonal>(rows, columns.sum, own, tile_of_columns, group * 16, above, [] {}, add_columns);
    if (s < warps - 1) {
#pragma unroll
        for (int k = 0; k < 2 * factor_groups; k++) passed.product[k][lane] = to_float4(columns.product[k]);
        passed.sum[lane] = to_float4(columns.sum);
        __syncthreads();
        return;
    }
    const int first = first_column + group * 16;
    add_products(T, first, columns.product);
    if constexpr (sum_by_product) {
        if (t == 0) {
            add_global(S + first + g, columns.sum[0]);
            add_global(S + first + g + 8, columns.sum[2]);
        }
    } else {
#pragma unroll
        for (float& value : columns.sum)
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes *= 2) value += __shfl_xor_sync(~0u, value, lanes);
        if (g == 0) {
#pragma unroll
            for (int i = 0; i < 4; i++) add_global(S + first + i / 2 * 8 + 2 * t + i % 2, columns.sum[i]);
        }
    }
}

// All tiles of the block, the first of them from column `now` on.
__device__ __forceinline__ void walk(Rows& rows, Shared& shared, const Operands& from, float* S, float* T,
                                     unsigned left, int now) {
    const int warp = threadIdx.x / 32;
    for_each_tile(shared.tiles, shared.part, from, left, now, [&](const Tile& tile_of_columns, unsigned, int first) {
        const int above = first - shared.part.first_row;
        if (above < block_rows) {
#pragma unroll 1
            for (int s = 0; s < warps; s++) {
                const int group = (warp + s) % warps;
                step<true>(rows, shared.passed[group], shared.own, tile_of_columns, S, T, group, s, first, above);
            }
        } else {
#pragma unroll 1
            for (int s = 0; s < warps; s++) {
                const int group = (warp + s) % warps;
                step<false>(rows, shared.passed[group], shared.own, tile_of_columns, S, T, group, s, first, above);
            }
        }
    });
}
