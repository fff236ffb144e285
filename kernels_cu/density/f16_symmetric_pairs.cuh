// One step of the symmetric pass: the exponents of a warp's rows with 16 columns, phi, and the rows' sums.
// f16_symmetric.cuh describes the pass.
#pragma once
#include "f16_symmetric_block.cuh"

// Row tiles whose exponents are in registers together. For large DEPTH it is more than one, so that each fragment of the
// columns is used when it is loaded, and the tensor cores have independent products.
constexpr int row_tiles_at_once = !phi_is_shared ? 1 : row_tiles % 2 ? row_tiles : 2;

// Register p of a fragment of phi: two neighbours, in as many terms as the factors have.
__device__ __forceinline__ void pack_phi(unsigned (&phi)[factor_terms][4], int p, float low, float high) {
    if constexpr (of_values) {
        float low_of_first, high_of_first;
        phi[0][p] = pack_bf16(low, high);
        unpack_bf16(phi[0][p], low_of_first, high_of_first);
        phi[factor_terms - 1][p] = pack_bf16(low - low_of_first, high - high_of_first);
    } else {
        phi[0][p] = pack_f16(low, high);
    }
}

// Offset of the lane's row of the 8 x 8 matrices in 16 rows of factors (matrices: rows 0..7 and 8..15 with columns 0..7,
// then with columns 8..15).
__device__ __forceinline__ int factors_of_lane() {
    const int lane = threadIdx.x % 32;
    return lane % 16 * factor_pitch + lane / 16 * 16;
}

// Group q of the factors of 16 rows as right operands.
__device__ __forceinline__ void load_factors(unsigned (&to)[factor_terms][4], const unsigned char* of_lane, int q) {
#pragma unroll
    for (int term = 0; term < factor_terms; term++)
        load_matrices_transposed(to[term], of_lane + (term * factor_columns + q * 16) * 2);
}

// Add phi times a group of factors to the fragments of its two halves. Product p takes term p % 2 of phi and term p / 2
// of the factors, the largest last.
__device__ __forceinline__ void add_product(float (*to)[4], const unsigned (&phi)[factor_terms][4],
                                            const unsigned (&factors)[factor_terms][4]) {
#pragma unroll
    for (int p = of_values ? 3 : 0; p >= 0; p--)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const auto& left = phi[p % 2];
            const auto& right = factors[p / 2];
            if constexpr (of_values) mma_bf16_m16n8k16(to[half], left, right[2 * half], right[2 * half + 1]);
            else mma_f16_m16n8k16(to[half], left, right[2 * half], right[2 * half + 1]);
        }
}

// All rows of the warp against 16 columns of the tile, from `column` on. `use(m, phi)` gets the fragment of phi of each
// row tile m, for the sums of the columns. `above` is the position of the tile's first column among the block's rows; it
// counts only in tiles `on_diagonal`, where pairs with j <= i are left out. `meanwhile()` is independent work.
template <bool on_diagonal, class Meanwhile, class Use>
__device__ __forceinline__ void add_pairs(Rows& rows, float (&column_sums)[4], const OwnRows& own,
                                          const Tile& tile_of_columns, int column, int above,
                                          const Meanwhile& meanwhile, const Use& use) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first_row_tile = threadIdx.x / 32 * row_tiles;
    // Where this lane's rows of the 8 x 8 matrices begin, for operands of z_i . z_j (matrices: columns 0..7
    // with dimensions 0..7 and 8..15, then columns 8..15).
    const int of_dot = (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16;
    const unsigned char* high = tile_of_columns.points[0][column];
    const unsigned char* low = tile_of_columns.points[terms_staged - 1][column];
    const unsigned char* factors_of_columns = tile_of_columns.factors(column) + factors_of_lane();

    float column_norm[2][2];
#pragma unroll
    for (int n8 = 0; n8 < 2; n8++) {
        const float2 pair = *reinterpret_cast<const float2*>(&tile_of_columns.norms[column + n8 * 8 + 2 * t]);
        column_norm[n8][0] = pair.x;
        column_norm[n8][1] = pair.y;
    }
    unsigned hi[groups][4], lo[groups][4], factors[factor_groups][factor_terms][4];

#pragma unroll
    for (int m0 = 0; m0 < row_tiles; m0 += row_tiles_at_once) {
        // 1. exponents
        float pairs[row_tiles_at_once][2][4];
#pragma unroll
        for (int b = 0; b < row_tiles_at_once; b++) {
            const float2 row_norm = own.norms[first_row_tile + m0 + b][g];
#pragma unroll
            for (int n8 = 0; n8 < 2; n8++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    pairs[b][n8][i] = column_norm[n8][i % 2] + (i < 2 ? row_norm.x : row_norm.y);
        }
#pragma unroll
        for (int q = 0; q < groups; q++) {
            if (m0 == 0) {
                load_matrices(hi[q], high + of_dot + q * 32);
                if constexpr (TERMS == 3) load_matrices(lo[q], low + of_dot + q * 32);
            }
#pragma unroll
            for (int b = 0; b < row_tiles_at_once; b++)
#pragma unroll
                for (int n8 = 0; n8 < 2; n8++) {
                    mma_f16_m16n8k16(pairs[b][n8], rows.hi[m0 + b][q], hi[q][2 * n8], hi[q][2 * n8 + 1]);
                    if constexpr (TERMS == 3) {
                        mma_f16_m16n8k16(pairs[b][n8], rows.lo[m0 + b][q], hi[q][2 * n8], hi[q][2 * n8 + 1]);
                        mma_f16_m16n8k16(pairs[b][n8], rows.hi[m0 + b][q], lo[q][2 * n8], lo[q][2 * n8 + 1]);
                    }
                }
        }

        // 2. phi, and the rows' sums of it
        unsigned phi[row_tiles_at_once][factor_terms][4];
#pragma unroll
        for (int b = 0; b < row_tiles_at_once; b++)
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const int n8 = p / 2, r = p % 2;
                float of_column[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    of_column[e] = exp2_approx(pairs[b][n8][2 * r + e]);
                    if constexpr (on_diagonal) {
                        const int i = (first_row_tile + m0 + b) * 16 + g + 8 * r;
                        const int j = above + column + n8 * 8 + 2 * t + e;
                        of_column[e] = j > i ? of_column[e] : 0.0f;
                    }
                    if constexpr (!sum_by_product) {
                        rows.sum[m0 + b][r] += of_column[e];
                        column_sums[2 * n8 + e] += of_column[e];
                    }
                }
                pack_phi(phi[b], p, of_column[0], of_column[1]);
            }

        if (m0 == 0) meanwhile();

        // 3. phi times factors, for the rows
#pragma unroll
        for (int q = 0; q < factor_groups; q++) {
            if (m0 == 0) load_factors(factors[q], factors_of_columns, q);
#pragma unroll
            for (int b = 0; b < row_tiles_at_once; b++)
                add_product(&rows.product[m0 + b][2 * q], phi[b], factors[q]);
        }
        if constexpr (sum_by_product) {
#pragma unroll
            for (int b = 0; b < row_tiles_at_once; b++) mma_f16_m16n8k16(rows.sum[m0 + b], phi[b][0], ones, ones);
        }

        // 4. what the columns need
#pragma unroll
        for (int b = 0; b < row_tiles_at_once; b++) use(m0 + b, phi[b]);
    }
}
