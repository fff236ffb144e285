// All pairs of the data with themselves on the tensor cores in float16: each exponential serves both of its rows.
//
//   hi, lo  (rows, DEPTH)  float16  z = (x - centre) sqrt(log2 e) / h = hi + lo, in prepare.cu's order of dimensions;
//                                   rows: a multiple of 128, zero past the data
//   norms   (rows,)        float    -|z|^2/2 of the z that is used; -60000 past the data, so that 2^ of it is 0
//   S       (rows,)        float    S_i  += 2^13 sum_{j != i} phi_ij
//   T       (rows, DEPTH)  float    T_ik += 2^13 sum_{j != i} phi_ij hi_jk, dimensions in their own order
//   spread                 float    largest |z|^2, or null: the kernel does nothing where it exceeds `limit`
//   chunk                  columns that a block walks through, a multiple of 64
//
//   phi_ij = 2^(z_i . z_j - |z_i|^2/2 - |z_j|^2/2), j < i taken from phi_ji
//   TERMS 3: z_i . z_j = hi_i . hi_j + lo_i . hi_j + hi_i . lo_j;  TERMS 1: hi_i . hi_j
//   SUMS PRODUCT: S sums the float16 of phi that T sums, by a product with ones; EXACT: phi itself, lane by lane
//
// A point's own term is left out: it is exactly 1 for S and exactly hi_i for T, which finish_symmetric.cuh knows.
// The factor 2^13 keeps phi down to 2^-27 a normal float16.
//
// With PRODUCT, rounding phi to float16 changes T_i - S_i z_i by its part of phi (z_j - z_i), with EXACT by its part
// of phi z_j; but then S has the errors of the exponents alone.
//
// Only pairs with i < j are visited. One block owns `block_rows` rows i and one chunk of columns j. Each of its
// 4 warps keeps `row_tiles` x 16 rows in registers: fragments of hi and lo, and the rows' own sums, which leave
// for S and T once, at the end. Columns come through shared memory in tiles of 64, four groups of 16, each warp at
// one group in a step. The 16 x 16 fragment of phi, packed to float16, is the left operand of phi z as it stands.
// Tensor cores truncate: a chunk should have at most 8,192 columns.
//
// The columns' sums go to S and T once for all rows of the block. They come about in one of two ways:
//
//   Handed on: in step s warp w takes group (w + s) % 4, adds what its rows contribute to the sums of those
//     columns (movmatrix makes of phi the left operand of the transposed product), and hands these sums on through
//     shared memory; the warp of the last step adds them to S and T.
//   From shared phi (SHARED_BYTES > 0): sums of more than 16 dimensions are more bytes than phi itself. Each warp
//     leaves its phi in shared memory, 64 columns wide, where the block's hi are, too; once those of a tile are
//     complete, each warp makes the sums over all rows of the block for its own part of columns and dimensions. With
//     OVERLAP it does so during the steps of the next tile, a quarter of the rows in each.
//
// Grid: y over pairs of chunks (c, chunks - 1 - c), x over their row blocks, first those of the one, then those of
// the other: the upper triangle folded into a rectangle. Neighbours in x share their columns, so each begins
// with another tile and they do not add to the same rows at the same time.
//
// Shared memory: static where sums are handed on, dynamic where phi is shared (SharedWithPhi, up to 99 KiB).
//
// Barriers: one a tile, which says that the tile has come and that the one before is done with; and where sums are
// handed on, one between steps; where phi is shared without OVERLAP, one when phi is complete, with OVERLAP one more
// at the end. All threads of a block pass all of them.
#pragma once

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int tile = 16 * warps;                     // columns
constexpr int row_tiles = ROW_TILES;                 // of 16 rows, a warp
constexpr int block_rows = warps * row_tiles * 16;
// Row tiles whose exponents are in registers together: of large DEPTH more than one, so that each fragment of the
// columns is used as it comes, and the tensor cores have independent products.
constexpr int row_tiles_at_once = !SHARED_BYTES ? 1 : row_tiles % 2 ? row_tiles : 2;
constexpr int groups = DEPTH / 16;                   // of 16 dimensions

constexpr bool phi_is_shared = SHARED_BYTES > 0;
// OVERLAP keeps phi of two tiles, and gives the tensor cores products to do while a step waits for its exponentials.
// From sm_100 on the compiler has too few registers for that where rows take most.
#if __CUDA_ARCH__ < 1000
constexpr bool overlap = OVERLAP;
#else
constexpr bool overlap = OVERLAP && (DEPTH < 64 || TERMS == 1);
#endif

// For 128, 168 or 255 registers a thread; from sm_100 on the compiler needs more than 168.
#if __CUDA_ARCH__ < 1000
constexpr int blocks_a_multiprocessor = BLOCKS;
#else
constexpr int blocks_a_multiprocessor = 2;
#endif

enum Sums { PRODUCT, EXACT };
constexpr bool sum_by_product = SUMS == PRODUCT;

constexpr int pitch = DEPTH * 2 + 16;                // bytes of a row in shared memory: no bank conflicts
constexpr int terms_staged = TERMS == 3 ? 2 : 1;
constexpr int stages = 2;                            // tiles in shared memory: one to work on, one on its way

// Where the right operand of the transposed product comes from: the block's hi in shared memory, or transposes that
// the compiler keeps in registers, the fastest by 3% at DEPTH 16 where exact sums of two terms leave enough.
constexpr bool hi_in_shared_memory = phi_is_shared || (TERMS == 3 && !sum_by_product);

// With shared phi a warp makes the sums of 16 columns for all dimensions or of 32 for half of them, whatever reads the
// fewest bytes.
constexpr int dimension_parts = DEPTH == 64 ? 2 : 1;
constexpr int own_column_tiles = dimension_parts;    // of 16 columns, a warp
constexpr int own_groups = groups / dimension_parts; // of 16 dimensions, a warp
constexpr int phi_pitch = tile * 2 + 16;             // bytes of a row of phi: no bank conflicts
constexpr int phi_buffers = overlap ? 2 : 1;
constexpr unsigned ones = 0x3c003c00;                // 1, 1
constexpr float shift = 13;
constexpr float no_norm = -1e30f;

// What a warp keeps of its rows.
struct Rows {
    unsigned hi[row_tiles][groups][4];
    unsigned lo[TERMS == 3 ? row_tiles : 1][groups][4];
    float sum[row_tiles][4];                         // PRODUCT: a fragment; EXACT: the lane's part of rows g, g + 8
    float product[row_tiles][2 * groups][4];
};

// The sums of 16 columns: fragments and, with EXACT sums, the lane's part of columns 2t, 2t + 1, 2t + 8, 2t + 9.
struct Columns {
    float product[2 * groups][4];
    float sum[4];
};

// Where they are kept on their way from warp to warp.
struct Handed {
    float4 product[2 * groups][32];
    float4 sum[32];
};

// With shared phi, the sums of a warp's columns: fragments; of `sum` only with PRODUCT.
struct OwnColumns {
    float product[own_column_tiles][2 * own_groups][4];
    float sum[own_column_tiles][4];
};

// With shared phi, what a tile leaves for its columns' sums.
struct Phi {
    unsigned char phi[block_rows][phi_pitch];        // float16, in rows of 64 columns
    float sum[warps][tile];                          // EXACT: of the warp's rows
};

// What a block keeps of its rows in shared memory, because registers are scarce.
struct OwnRows {
    float2 norms[warps * row_tiles][8];              // of rows g and g + 8 of 16, with the shift
    unsigned char hi[hi_in_shared_memory ? block_rows : 1][pitch];
};

struct Tile {
    unsigned char points[terms_staged][tile][pitch];
    float norms[tile];
};

__device__ __forceinline__ float4 to_float4(const float (&a)[4]) { return make_float4(a[0], a[1], a[2], a[3]); }

__device__ __forceinline__ void to_array(float (&a)[4], float4 v) {
    a[0] = v.x;
    a[1] = v.y;
    a[2] = v.z;
    a[3] = v.w;
}

__device__ __forceinline__ void load_rows(Rows& rows, OwnRows& own, const uint4* hi, const uint4* lo,
                                          const float* norms, int first_of_block, int row_count) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if constexpr (hi_in_shared_memory) {
        constexpr int pieces = DEPTH / 8;
        for (int i = threadIdx.x; i < block_rows * pieces; i += threads) {
            const size_t row = min(first_of_block + i / pieces, row_count - 1);
            copy_async_16(&own.hi[i / pieces][i % pieces * 16], hi + row * pieces + i % pieces);
        }
    }
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        // The last block can reach past the end, by whole tiles.
        const int wanted = first_of_block + (warp * row_tiles + m) * 16;
        const bool present = wanted < row_count;
        const size_t row = (present ? wanted : 0) + g;
        const unsigned* high = reinterpret_cast<const unsigned*>(hi) + row * (DEPTH / 2) + t;
        const unsigned* low = reinterpret_cast<const unsigned*>(lo) + row * (DEPTH / 2) + t;
#pragma unroll
        for (int q = 0; q < groups; q++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = q * 8 + i / 2 * 4 + i % 2 * 8 * (DEPTH / 2);
                rows.hi[m][q][i] = high[at];
                if constexpr (TERMS == 3) rows.lo[m][q][i] = low[at];
            }
        if (t == 0) {
            own.norms[warp * row_tiles + m][g] =
                present ? make_float2(norms[row] + shift, norms[row + 8] + shift) : make_float2(no_norm, no_norm);
        }
#pragma unroll
        for (float& value : rows.sum[m]) value = 0;
#pragma unroll
        for (int k = 0; k < 2 * groups; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) rows.product[m][k][i] = 0;
    }
}

// Fetch columns [first, first + 64).
__device__ __forceinline__ void fetch(Tile& to, const uint4* hi, const uint4* lo,
                                      const float* norms, int first) {
    constexpr int pieces = DEPTH / 8;  // of 16 bytes, a row
#pragma unroll
    for (int i = 0; i < tile * pieces / threads; i++) {
        const int piece = threadIdx.x + i * threads, row = piece / pieces, at = piece % pieces;
        const size_t from = (size_t)first * pieces + piece;
        copy_async_16(&to.points[0][row][at * 16], hi + from);
        if constexpr (TERMS == 3) copy_async_16(&to.points[1][row][at * 16], lo + from);
    }
    if (threadIdx.x < tile / 4) copy_async_16(&to.norms[threadIdx.x * 4], norms + first + threadIdx.x * 4);
    copy_async_commit();
}

// All rows of the warp against 16 columns of the tile, from `column` on, but for these columns' products: what
// `use(m, phi)` does with the fragment of phi of each row tile m. `above` is the place of the tile's first column
// among the block's rows; it counts only in tiles `on_diagonal`, where pairs with j <= i are left out. `meanwhile()`
// depends on none of this.
template <bool on_diagonal, class Meanwhile, class Use>
__device__ __forceinline__ void add_pairs(Rows& rows, float (&column_sums)[4], const OwnRows& own,
                                          const Tile& tile_of_columns, int column, int above,
                                          const Meanwhile& meanwhile, const Use& use) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first_row_tile = threadIdx.x / 32 * row_tiles;
    // Where this lane's rows of the 8 x 8 matrices begin, for operands of z_i . z_j (matrices: columns 0..7
    // with dimensions 0..7 and 8..15, then columns 8..15), and of phi z (the middle two the other way round).
    const int of_dot = (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16;
    const int of_moment = lane % 16 * pitch + lane / 16 * 16;
    const unsigned char* high = tile_of_columns.points[0][column];
    const unsigned char* low = tile_of_columns.points[terms_staged - 1][column];

    float column_norm[2][2];
#pragma unroll
    for (int n8 = 0; n8 < 2; n8++) {
        const float2 pair = *reinterpret_cast<const float2*>(&tile_of_columns.norms[column + n8 * 8 + 2 * t]);
        column_norm[n8][0] = pair.x;
        column_norm[n8][1] = pair.y;
    }
    unsigned hi[groups][4], lo[groups][4], z[groups][4];

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
        unsigned phi[row_tiles_at_once][4];
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
                phi[b][p] = pack_f16(of_column[0], of_column[1]);
            }

        if (m0 == 0) meanwhile();

        // 3. phi z, for the rows
#pragma unroll
        for (int q = 0; q < groups; q++) {
            if (m0 == 0) load_matrices_transposed(z[q], high + of_moment + q * 32);
#pragma unroll
            for (int b = 0; b < row_tiles_at_once; b++)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    mma_f16_m16n8k16(rows.product[m0 + b][2 * q + k], phi[b], z[q][2 * k], z[q][2 * k + 1]);
        }
        if constexpr (sum_by_product) {
#pragma unroll
            for (int b = 0; b < row_tiles_at_once; b++) mma_f16_m16n8k16(rows.sum[m0 + b], phi[b], ones, ones);
        }

        // 4. what the columns need
#pragma unroll
        for (int b = 0; b < row_tiles_at_once; b++) use(m0 + b, phi[b]);
    }
}

// Add rows g and g + 8 of a fragment of 16 rows to T; a lane holds four consecutive dimensions of each 16.
template <int fragments>
__device__ __forceinline__ void add_products(float* T, int first, const float (&product)[fragments][4]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int q = 0; q < fragments / 2; q++)
            add_global_4(T + (size_t)(first + g + 8 * r) * DEPTH + q * 16 + 4 * t, product[2 * q][2 * r],
                         product[2 * q][2 * r + 1], product[2 * q + 1][2 * r], product[2 * q + 1][2 * r + 1]);
}

// One step of a tile: take the columns' sums from the warp before, add, hand on, or to S and T after the last step.
template <bool on_diagonal>
__device__ __forceinline__ void step(Rows& rows, Handed& handed, const OwnRows& own,
                                     const Tile& tile_of_columns, float* S, float* T, int group, int s,
                                     int first_column, int above) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    Columns columns = {};
    if (s > 0) {
#pragma unroll
        for (int k = 0; k < 2 * groups; k++) to_array(columns.product[k], handed.product[k][lane]);
        to_array(columns.sum, handed.sum[lane]);
    }
    // The transpose of phi, times z and 1.
    const auto add_columns = [&](int m, const unsigned (&phi)[4]) {
        const int of_moment = lane % 16 * pitch + lane / 16 * 16;
        const unsigned across[4] = {transpose_8x8(phi[0]), transpose_8x8(phi[2]), transpose_8x8(phi[1]),
                                    transpose_8x8(phi[3])};
#pragma unroll
        for (int q = 0; q < groups; q++) {
            unsigned right[4];
            if constexpr (hi_in_shared_memory) {
                load_matrices_transposed(right,
                                         own.hi[(threadIdx.x / 32 * row_tiles + m) * 16] + of_moment + q * 32);
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) right[i] = transpose_8x8(rows.hi[m][q][i]);
            }
#pragma unroll
            for (int k = 0; k < 2; k++)
                mma_f16_m16n8k16(columns.product[2 * q + k], across, right[2 * k], right[2 * k + 1]);
        }
        if constexpr (sum_by_product) mma_f16_m16n8k16(columns.sum, across, ones, ones);
    };
    add_pairs<on_diagonal>(rows, columns.sum, own, tile_of_columns, group * 16, above, [] {}, add_columns);
    if (s < warps - 1) {
#pragma unroll
        for (int k = 0; k < 2 * groups; k++) handed.product[k][lane] = to_float4(columns.product[k]);
        handed.sum[lane] = to_float4(columns.sum);
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

// With shared phi, one step of a tile: 16 columns against the warp's rows, phi left for the columns' sums. `meanwhile`
// is as for add_pairs.
template <bool on_diagonal, class Meanwhile>
__device__ __forceinline__ void step_to_phi(Rows& rows, Phi& left, const OwnRows& own, const Tile& tile_of_columns,
                                            int group, int above, const Meanwhile& meanwhile) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float column_sums[4] = {};
    add_pairs<on_diagonal>(rows, column_sums, own, tile_of_columns, group * 16, above, meanwhile,
                           [&](int m, const unsigned (&phi)[4]) {
                               unsigned char* to = left.phi[(warp * row_tiles + m) * 16 + g] + group * 32 + t * 4;
#pragma unroll
                               for (int p = 0; p < 4; p++)
                                   *reinterpret_cast<unsigned*>(to + p % 2 * 8 * phi_pitch + p / 2 * 16) = phi[p];
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

// With shared phi, add what the s-th quarter of the block's rows contributes to the warp's columns.
__device__ __forceinline__ void add_to_columns(OwnColumns& columns, const Phi& left, const OwnRows& own, int s) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first_column = warp / dimension_parts * own_column_tiles * 16;
    const int first_group = warp % dimension_parts * own_groups;
    const int first_row = s * row_tiles * 16;
    const unsigned char* phi =
        left.phi[first_row + lane / 16 * 8 + lane % 8] + first_column * 2 + lane / 8 % 2 * 16;
    const unsigned char* hi = own.hi[first_row + lane % 16] + first_group * 32 + lane / 16 * 16;
#pragma unroll
    for (int k = 0; k < row_tiles; k++) {
        unsigned across[own_column_tiles][4];
#pragma unroll
        for (int c = 0; c < own_column_tiles; c++)
            load_matrices_transposed(across[c], phi + k * 16 * phi_pitch + c * 32);
#pragma unroll
        for (int q = 0; q < own_groups; q++) {
            unsigned right[4];
            load_matrices_transposed(right, hi + k * 16 * pitch + q * 32);
#pragma unroll
            for (int c = 0; c < own_column_tiles; c++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    mma_f16_m16n8k16(columns.product[c][2 * q + e], across[c], right[2 * e], right[2 * e + 1]);
        }
        if constexpr (sum_by_product) {
#pragma unroll
            for (int c = 0; c < own_column_tiles; c++) mma_f16_m16n8k16(columns.sum[c], across[c], ones, ones);
        }
    }
}

// With shared phi, add the sums of a tile's columns, from row `first` on, to S and T.
__device__ __forceinline__ void give_columns(const OwnColumns& columns, const Phi& left, float* S, float* T,
                                             int first) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first_column = warp / dimension_parts * own_column_tiles * 16;
    const int first_group = warp % dimension_parts * own_groups;
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

// What a block owns: rows from `first_row` on, columns [begin, end), none where begin >= end. It is kept in shared
// memory: the rows take every register.
struct Part {
    int first_row, begin, end;
};

__device__ inline Part part_of_block(int row_count, int chunk) {
    const int chunks = (row_count - 1) / chunk + 1;
    const auto end_of = [=](int c) { return int(min((long long)(c + 1) * chunk, (long long)row_count)); };
    const auto row_blocks = [=](int c) { return (end_of(c) - 1) / block_rows + 1; };
    int c = blockIdx.y, row_block = blockIdx.x;
    if (row_block >= row_blocks(c)) {
        row_block -= row_blocks(c);
        c = chunks - 1 - c;
        if (c <= (int)blockIdx.y || row_block >= row_blocks(c)) return {0, 0, 0};
    }
    const int first_row = row_block * block_rows;
    return {first_row, max(c * chunk, first_row), end_of(c)};
}

struct Shared {
    Tile tiles[stages];
    Handed handed[warps];
    OwnRows own;
    Part part;
};

struct SharedWithPhi {
    Tile tiles[stages];
    Phi left[phi_buffers];
    OwnRows own;
    Part part;
};

// All tiles of the block, columns' sums handed from warp to warp.
__device__ __forceinline__ void walk(Rows& rows, Shared& shared, const uint4* hi, const uint4* lo, const float* norms,
                                     float* S, float* T, unsigned left, int now) {
    const int warp = threadIdx.x / 32;
    fetch(shared.tiles[left % stages], hi, lo, norms, now);
#pragma unroll 1
    for (; left > 0; left--) {
        copy_async_wait<0>();
        __syncthreads();
        const int next = now + tile == shared.part.end ? shared.part.begin : now + tile;
        if (left > 1) fetch(shared.tiles[(left - 1) % stages], hi, lo, norms, next);
        const Tile& tile_of_columns = shared.tiles[left % stages];
        const int above = now - shared.part.first_row;
        if (above < block_rows) {
#pragma unroll 1
            for (int s = 0; s < warps; s++) {
                const int group = (warp + s) % warps;
                step<true>(rows, shared.handed[group], shared.own, tile_of_columns, S, T, group, s, now, above);
            }
        } else {
#pragma unroll 1
            for (int s = 0; s < warps; s++) {
                const int group = (warp + s) % warps;
                step<false>(rows, shared.handed[group], shared.own, tile_of_columns, S, T, group, s, now, above);
            }
        }
        now = next;
    }
}

// All tiles of the block, columns' sums from phi in shared memory.
__device__ __forceinline__ void walk(Rows& rows, SharedWithPhi& shared, const uint4* hi, const uint4* lo,
                                     const float* norms, float* S, float* T, unsigned left, int now) {
    fetch(shared.tiles[left % stages], hi, lo, norms, now);
    int before = now;  // first column of the tile before; its phi are zero where there was none
    if constexpr (overlap) {
        auto& nothing = shared.left[(left + 1) % phi_buffers];
        for (int i = threadIdx.x; i < int(sizeof nothing / 4); i += threads)
            reinterpret_cast<unsigned*>(&nothing)[i] = 0;
    }
#pragma unroll 1
    for (; left > 0; left--) {
        copy_async_wait<0>();
        __syncthreads();
        const int next = now + tile == shared.part.end ? shared.part.begin : now + tile;
        if (left > 1) fetch(shared.tiles[(left - 1) % stages], hi, lo, norms, next);
        const Tile& tile_of_columns = shared.tiles[left % stages];
        Phi& phi = shared.left[left % phi_buffers];
        const Phi& phi_before = shared.left[(left + 1) % phi_buffers];
        const int above = now - shared.part.first_row;
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
            give_columns(columns, phi, S, T, now);
        }
        before = now;
        now = next;
    }
    if constexpr (overlap) {
        __syncthreads();
        const Phi& phi_before = shared.left[phi_buffers - 1];
        OwnColumns columns = {};
#pragma unroll 1
        for (int s = 0; s < warps; s++) add_to_columns(columns, phi_before, shared.own, s);
        give_columns(columns, phi_before, S, T, before);
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_a_multiprocessor)
KERNEL(const uint4* __restrict__ hi, const uint4* __restrict__ lo, const float* __restrict__ norms,
       const float* __restrict__ spread, float* __restrict__ S, float* __restrict__ T, int row_count, int chunk,
       float limit) {
#if !SHARED_BYTES
    __shared__ Shared shared;
#else
    extern __shared__ uint4 dynamic_shared[];
    static_assert(sizeof(SharedWithPhi) <= SHARED_BYTES, "the launcher asks for too little");
    auto& shared = *reinterpret_cast<SharedWithPhi*>(dynamic_shared);
#endif

    if (spread && !(*spread <= limit)) return;
    const Part own_part = part_of_block(row_count, chunk);
    if (own_part.begin >= own_part.end) return;
    if (threadIdx.x == 0) shared.part = own_part;

    const int warp = threadIdx.x / 32;
    Rows rows;
    load_rows(rows, shared.own, hi, lo, norms, own_part.first_row, row_count);

    const unsigned left = (own_part.end - own_part.begin) / tile;
    walk(rows, shared, hi, lo, norms, S, T, left, own_part.begin + int(blockIdx.x * 11 % left) * tile);

    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        const int first = shared.part.first_row + (warp * row_tiles + m) * 16;
        float sum[2] = {rows.sum[m][0], rows.sum[m][sum_by_product ? 2 : 1]};
        if constexpr (!sum_by_product) {
#pragma unroll
            for (float& value : sum) {
                value += __shfl_xor_sync(~0u, value, 1);
                value += __shfl_xor_sync(~0u, value, 2);
            }
        }
        if (first >= row_count) continue;
        add_products(T, first, rows.product[m]);
        if (t == 0) {
            add_global(S + first + g, sum[0]);
            add_global(S + first + g + 8, sum[1]);
        }
    }
}
