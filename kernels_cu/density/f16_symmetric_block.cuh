// The state of a block of the symmetric pass: constants, rows in registers, tiles of columns in shared memory.
// f16_symmetric.cuh describes the pass.
#pragma once

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int tile = 16 * warps;                     // columns
constexpr int row_tiles = ROW_TILES;                 // of 16 rows, a warp
constexpr int block_rows = warps * row_tiles * 16;
constexpr int groups = DEPTH / 16;                   // of 16 dimensions
constexpr int pitch = DEPTH * 2 + 16;                // bytes of a row in shared memory: no bank conflicts
constexpr int terms_staged = TERMS == 3 ? 2 : 1;
constexpr int stages = 2;                            // tiles in shared memory: one to work on, one on its way
constexpr bool phi_is_shared = SHARE_PHI;

// The factors of phi, their terms one after the other in a row: hi, in float16; or values, in two bfloat16 terms.
constexpr bool of_values = COLUMNS > 0;
constexpr int factor_terms = of_values ? 2 : 1;      // and as many of phi
constexpr int factor_columns = of_values ? COLUMNS : DEPTH;
constexpr int factor_groups = factor_columns / 16;
constexpr int factor_pitch = factor_terms * factor_columns * 2 + 16;

// For 128, 168 or 255 registers a thread; from sm_100 on the compiler needs more than 168.
#if __CUDA_ARCH__ < 1000
constexpr int blocks_a_multiprocessor = BLOCKS;
#else
constexpr int blocks_a_multiprocessor = 2;
#endif

enum Sums { PRODUCT, EXACT };
constexpr bool sum_by_product = SUMS == PRODUCT;

// The right operand of the transposed product: the block's factors in shared memory, or transposes of hi that the
// compiler keeps in registers. The latter is 3% faster at DEPTH 16 if exact sums of two terms leave enough registers.
constexpr bool factors_in_shared_memory = of_values || phi_is_shared || (TERMS == 3 && !sum_by_product);

constexpr unsigned ones = 0x3c003c00;                // 1, 1
constexpr float shift = of_values ? 0 : 13;
constexpr float no_norm = -1e30f;

// The operands in memory; factors are hi, or V_hi and V_lo.
struct Operands {
    const uint4 *hi, *lo;
    const float* norms;
    const uint4* factors[factor_terms];
};

// The part of a block: rows from `first_row` on, columns [begin, end), none if begin >= end. It is kept in shared
// memory, because the rows take every register.
struct Part {
    int first_row, begin, end;
};

// The rows of a warp, in registers.
struct Rows {
    unsigned hi[row_tiles][groups][4];
    unsigned lo[TERMS == 3 ? row_tiles : 1][groups][4];
    float sum[row_tiles][4];                         // PRODUCT: a fragment; EXACT: the lane's part of rows g, g + 8
    float product[row_tiles][2 * factor_groups][4];
};

// Data of the block's rows in shared memory, because registers are scarce.
struct OwnRows {
    float2 norms[warps * row_tiles][8];              // of rows g and g + 8 of 16, with the shift
    unsigned char factors[factors_in_shared_memory ? block_rows : 1][factor_pitch];
};

struct Tile {
    unsigned char points[terms_staged][tile][pitch];
    float norms[tile];
#if COLUMNS
    unsigned char values[tile][factor_pitch];
#endif

    __device__ __forceinline__ const unsigned char* factors(int column) const {
#if COLUMNS
        return values[column];
#else
        return points[0][column];
#endif
    }
};

// The part of block `x` of blockIdx.y in the upper triangle or, if `own_rows` is less than `row_count`, in the rectangle of
// rows below `own_rows` and columns from there on.
__device__ inline Part part_of_block(int x, int row_count, int own_rows, int chunk) {
    if (own_rows < row_count) {
        const int begin = own_rows + int(blockIdx.y) * chunk;
        return {x * block_rows, begin, min(begin + chunk, row_count)};
    }
    const int chunks = (row_count - 1) / chunk + 1;
    const auto end_of = [=](int c) { return int(min((long long)(c + 1) * chunk, (long long)row_count)); };
    const auto row_blocks = [=](int c) { return (end_of(c) - 1) / block_rows + 1; };
    int c = blockIdx.y, row_block = x;
    if (row_block >= row_blocks(c)) {
        row_block -= row_blocks(c);
        c = chunks - 1 - c;
        if (c <= (int)blockIdx.y || row_block >= row_blocks(c)) return {0, 0, 0};
    }
    const int first_row = row_block * block_rows;
    return {first_row, max(c * chunk, first_row), end_of(c)};
}

__device__ __forceinline__ void load_rows(Rows& rows, OwnRows& own, const Operands& from, int first_of_block,
                                          int own_rows) {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if constexpr (factors_in_shared_memory) {
        constexpr int pieces = factor_columns / 8;
        for (int i = threadIdx.x; i < block_rows * pieces; i += threads) {
            const size_t row = min(first_of_block + i / pieces, own_rows - 1);
#pragma unroll
            for (int term = 0; term < factor_terms; term++)
                copy_async_16(&own.factors[i / pieces][(term * pieces + i % pieces) * 16],
                              from.factors[term] + row * pieces + i % pieces);
        }
    }
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        // The last block can reach past the end, by whole tiles.
        const int wanted = first_of_block + (warp * row_tiles + m) * 16;
        const bool present = wanted < own_rows;
        const size_t row = (present ? wanted : 0) + g;
        const unsigned* high = reinterpret_cast<const unsigned*>(from.hi) + row * (DEPTH / 2) + t;
        const unsigned* low = reinterpret_cast<const unsigned*>(from.lo) + row * (DEPTH / 2) + t;
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
                present ? make_float2(from.norms[row] + shift, from.norms[row + 8] + shift)
                        : make_float2(no_norm, no_norm);
        }
#pragma unroll
        for (float& value : rows.sum[m]) value = 0;
#pragma unroll
        for (int k = 0; k < 2 * factor_groups; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) rows.product[m][k][i] = 0;
    }
}

// Fetch columns [first, first + 64).
__device__ __forceinline__ void fetch(Tile& to, const Operands& from, int first) {
    constexpr int pieces = DEPTH / 8;  // of 16 bytes, a row
#pragma unroll
    for (int i = 0; i < tile * pieces / threads; i++) {
        const int piece = threadIdx.x + i * threads, row = piece / pieces, at = piece % pieces;
        const size_t place = (size_t)first * pieces + piece;
        copy_async_16(&to.points[0][row][at * 16], from.hi + place);
        if constexpr (TERMS == 3) copy_async_16(&to.points[1][row][at * 16], from.lo + place);
    }
#if COLUMNS
    constexpr int value_pieces = COLUMNS / 8;
#pragma unroll
    for (int i = 0; i < tile * value_pieces / threads; i++) {
        const int piece = threadIdx.x + i * threads, row = piece / value_pieces, at = piece % value_pieces;
#pragma unroll
        for (int term = 0; term < factor_terms; term++)
            copy_async_16(&to.values[row][(term * value_pieces + at) * 16],
                          from.factors[term] + (size_t)first * value_pieces + piece);
    }
#endif
    if (threadIdx.x < tile / 4) copy_async_16(&to.norms[threadIdx.x * 4], from.norms + first + threadIdx.x * 4);
    copy_async_commit();
}

// All tiles of the block: call work(tile, left, now) for the one whose first column is `now`; `left` counts those that
// are left with it. Each is fetched while the one before is worked on.
template <class Work>
__device__ __forceinline__ void for_each_tile(Tile (&tiles)[stages], const Part& part, const Operands& from,
                                              unsigned left, int now, const Work& work) {
    fetch(tiles[left % stages], from, now);
#pragma unroll 1
    for (; left > 0; left--) {
        copy_async_wait<0>();
        __syncthreads();
        const int next = now + tile == part.end ? part.begin : now + tile;
        if (left > 1) fetch(tiles[(left - 1) % stages], from, next);
        work(tiles[left % stages], left, now);
        now = next;
    }
}

// Add rows g and g + 8 of a fragment of 16 rows to T; a lane holds four consecutive columns of each 16.
template <int fragments>
__device__ __forceinline__ void add_products(float* T, int first, const float (&product)[fragments][4]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int q = 0; q < fragments / 2; q++)
            add_global_4(T + (size_t)(first + g + 8 * r) * factor_columns + q * 16 + 4 * t, product[2 * q][2 * r],
                         product[2 * q][2 * r + 1], product[2 * q + 1][2 * r], product[2 * q + 1][2 * r + 1]);
}
