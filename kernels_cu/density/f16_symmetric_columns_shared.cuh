// The sums of columns of the symmetric pass, from phi in shared memory. Sums of more than 16 dimensions have more bytes
// than phi itself. Each warp writes its phi there, 64 columns wide, beside the factors of the block. When phi of a tile
// is complete, each warp sums over all rows of the block, for its own part of columns and dimensions. With OVERLAP it
// does so during the steps of the next tile, a quarter of the rows in each.
#pragma once
#include "f16_symmetric_pairs.cuh"

// OVERLAP keeps phi of two tiles, so that the tensor cores have products while a step waits for its exponentials. From
// sm_100 on the compiler has too few registers for that if the rows take most of them.
#if __CUDA_ARCH__ < 1000
constexpr bool overlap = OVERLAP;
#else
constexpr bool overlap = OVERLAP && (DEPTH < 64 || TERMS == 1);
#endif

// A warp sums 16 columns for all columns of the factors, or 32 columns for half of them, whichever reads fewer bytes.
constexpr int factor_parts = factor_columns == 64 ? 2 : 1;
constexpr int own_column_tiles = factor_parts;           // of 16 columns, a warp
constexpr int own_groups = factor_groups / factor_parts; // of 16 columns of factors, a warp
constexpr int phi_pitch = factor_terms * tile * 2 + 16;  // bytes of a row of phi: no bank conflicts
constexpr int phi_buffers = overlap ? 2 : 1;

// The sums of a warp's columns: fragments; of `sum` only with PRODUCT.
struct OwnColumns {
    float product[own_column_tiles][2 * own_groups][4];
    float sum[own_column_tiles][4];
};

// Results of a tile for the sums of its columns.
struct Phi {
    unsigned char phi[block_rows][phi_pitch];        // rows of 64 columns, a term after the other
    float sum[warps][tile];                          // EXACT: of the warp's rows
};

struct Shared {
    Tile tiles[stages];
    Phi left[phi_buffers];
    OwnRows own;
    Part part;
};

// One step of a tile: 16 columns against the warp's rows; phi is written for the sums of the columns. `meanwhile`
// is as for add_pairs.
template <bool on_diagonal, class Meanwhile>
__device__ __forceinline__ void step_to_phi(Rows& rows, Phi& left, const OwnRows& own, const Tile& tile_of_columns,
                                            int group, int above, const Meanwhile& meanwhile) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float column_sums[4] = {};
    add_pairs<on_diagonal>(rows, column_sums, own, tile_of_columns, group * 16, above, meanwhile,
                           [&](int m, const unsigned (&phi)[factor_terms][4]) {
                               unsigned char* to = left.phi[(warp * row_tiles + m) * 16 + g] + group * 32 + t * 4;
#pragma unroll
                               for (int term = 0; term < factor_terms; term++)
#pragma unroll
                                   for (int p = 0; p < 4; p++)
                                       *reinterpret_cast<unsigned*>(to + p % 2 * 8 * phi_pitch + term * tile * 2 +
                                                                    p / 2 * 16) = phi[term][p];
                           });
    if constexpr (!sum_by_product) {
        // Lanes of one t share columns 2t, 2t + 1, 2t + 8, 2t + 9: halve what a lane holds, then halve again.
        const bool upper = lane & 16, odd = lane & 8;
        float kept[2];
#pragma unroll
        for (int e = 0; e < 2; e++)
            kept[e] = (upper ? column_sums[2 + e] : column_sums[e]) +
                      __shfl_xor_sync(~0u, upper ? column_sums[e] : column_sums[2 + e], 16);
        float sum = (odd ? kept[1] : kept[0]) + __shfl_xor_sync(~0u, odd ? kept[0] : kept[1], 8);
        sum += __shfl_xor_sync(~0u, sum, 4);
        left.sum[warp][group * 16 + upper * 8 + 2 * t + odd] = sum;
    }
}

// Add the contribution of the s-th quarter of the block's rows to the warp's columns.
__device__ __forceinline__ void add_to_columns(OwnColumns& columns, const Phi& left, const OwnRows& own, int s) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_column = warp / factor_parts * own_column_tiles * 16;
    const int first_group = warp % factor_parts * own_groups;
    const int first_row = s * row_tiles * 16;
    const unsigned char* phi =
        left.phi[first_row + lane / 16 * 8 + lane % 8] + first_column * 2 + lane / 8 % 2 * 16;
    const unsigned char* factors = own.factors[first_row] + factors_of_lane() + first_group * 32;
#pragma unroll
    for (int k = 0; k < row_tiles; k++) {
        unsigned across[own_column_tiles][factor_terms][4];
#pragma unroll
        for (int c = 0; c < own_column_tiles; c++)
#pragma unroll
            for (int term = 0; term < factor_terms; term++)
                load_matrices_transposed(across[c][term], phi + k * 16 * phi_pitch + term * tile * 2 + c * 32);
#pragma unroll
        for (int q = 0; q < own_groups; q++) {
            unsigned right[factor_terms][4];
            load_factors(right, factors + k * 16 * factor_pitch, q);
#pragma unroll
            for (int c = 0; c < own_column_tiles; c++) add_product(&columns.product[c][2 * q], across[c], right);
        }
        if constexpr (sum_by_product) {
#pragma unroll
            for (int c = 0; c < own_column_tiles; c++) mma_f16_m16n8k16(columns.sum[c], across[c][0], ones, ones);
        }
    }
}

// Add the sums of a tile's columns, from row `first` on, to S and T.
__device__ __forceinline__ void give_columns(const OwnColumns& columns, const Phi& left, float* S, float* T,
                                             int first) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first_column = warp / factor_parts * own_column_tiles * 16;
    const int first_group = warp % factor_parts * own_groups;
#pragma unroll
    for (int c = 0; c < own_column_tiles; c++) {
        const int of_tile = first + first_column + c * 16;
        add_products(T + first_group * 16, of_tile, columns.product[c]);
        if constexpr (sum_by_product) {
            if (t == 0 && first_group == 0) {
                add_global(S + of_tile + g, columns.sum[c][0]);
                add_global(S + of_tile + g + 8, columns.sum[c][2]);
            }
        }
    }
    if constexpr (!sum_by_product) {
        if (threadIdx.x < tile) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < warps; w++) sum += left.sum[w][threadIdx.x];
            add_global(S + first + threadIdx.x, sum);
        }
    }
}

// All tiles of the block, the first of them from column `now` on.
__device__ __forceinline__ void walk(Rows& rows, Shared& shared, const Operands& from, float* S, float* T,
                                     unsigned left, int now) {
    int before = now;  // first column of the tile before; its phi are zero where there was none
    if constexpr (overlap) {
        auto& nothing = shared.left[(left + 1) % phi_buffers];
        for (int i = threadIdx.x; i < int(sizeof nothing / 4); i += threads)
            reinterpret_cast<unsigned*>(&nothing)[i] = 0;
    }
    for_each_tile(shared.tiles, shared.part, from, left, now, [&](const Tile& tile_of_columns, unsigned at, int first) {
        Phi& phi = shared.left[at % phi_buffers];
        const Phi& phi_before = shared.left[(at + 1) % phi_buffers];
        const int above = first - shared.part.first_row;
        OwnColumns columns = {};
        if (above < block_rows) {
#pragma unroll 1
            for (int s = 0; s < warps; s++)
                step_to_phi<true>(rows, phi, shared.own, tile_of_columns, s, above, [&] {
                    if constexpr (overlap) add_to_columns(columns, phi_before, shared.own, s);
                });
        } else {
#pragma unroll 1
            for (int s = 0; s < warps; s++)
                step_to_phi<false>(rows, phi, shared.own, tile_of_columns, s, above, [&] {
                    if constexpr (overlap) add_to_columns(columns, phi_before, shared.own, s);
                });
        }
        if constexpr (overlap) {
            give_columns(columns, phi_before, S, T, before);
        } else {
            __syncthreads();
#pragma unroll 1
            for (int s = 0; s < warps; s++) add_to_columns(columns, phi, shared.own, s);
            give_columns(columns, phi, S, T, first);
        }
        before = first;
    });
    if constexpr (overlap) {
        __syncthreads();
        const Phi& phi_before = shared.left[phi_buffers - 1];
        OwnColumns columns = {};
#pragma unroll 1
        for (int s = 0; s < warps; s++) add_to_columns(columns, phi_before, shared.own, s);
        give_columns(columns, phi_before, S, T, before);
    }
}
