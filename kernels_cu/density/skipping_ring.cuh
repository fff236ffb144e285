// Chunks of columns for a warp (skipping_mutual.cu, skipping_sums.cu): those of the listed blocks that have units come into
// a ring of its own in shared memory, so that the next two are under way while it works on one; rows of its item stay.
//
// Macros: GROUPS, ROW_TILES (8); rows_at_once is defined before.
#pragma once
#include "skipping_chunks.cuh"
#include "skipping_screen.cuh"

constexpr int sum_tiles = rows_at_once / 16;
constexpr int sweeps = 16 * row_tiles / rows_at_once;
static_assert(sizeof(Chunk) == sizeof(Screened), "one ring for both");

struct RowPoints {
    unsigned hi[rows_at_once][depth / 2], lo[rows_at_once][depth / 2];  // twice the coordinates
    float2 norms[rows_at_once];
};

struct alignas(16) Warp {
    RowPoints rows;
    Chunk ring[stages];
    Listed listed;
    unsigned queue[2 * most_listed];  // chunks that have units: their number, then a bit for each row tile
};

// The lane's address of 16 rows of a term, from a multiple of 16 on, for matrices of rows 0..7 and 8..15 of a piece, then
// of the next piece.
__device__ __forceinline__ const unsigned* by_rows(const unsigned (*term)[depth / 2], int first, int group) {
    const int row = threadIdx.x % 16, piece = group * 2 + threadIdx.x % 32 / 16;
    return term[first + row] + place_of_piece<pieces>(row, piece) * 4;
}

// And for matrices of rows 0..7 of two pieces, then of rows 8..15.
__device__ __forceinline__ const unsigned* by_pieces(const unsigned (*term)[depth / 2], int first, int group) {
    const int lane = threadIdx.x % 32, row = lane / 16 * 8 + lane % 8, piece = group * 2 + lane / 8 % 2;
    return term[first + row] + place_of_piece<pieces>(row, piece) * 4;
}

// The rows of an item's sweep, doubled.
__device__ inline void load_rows(RowPoints& rows, const Chunk* chunks, int there) {
    const int lane = threadIdx.x % 32;
    const auto twice = [](unsigned x) { return fma_f16x2(x, 0x40004000u, 0u); };
#pragma unroll 1
    for (int c = 0; c < there; c++) {
        const uint4* const from = reinterpret_cast<const uint4*>(chunks + c);
#pragma unroll
        for (int i = 0; i < 2 * pieces; i++) {
            uint4 piece = from[i * 32 + lane];
            piece = {twice(piece.x), twice(piece.y), twice(piece.z), twice(piece.w)};
            uint4* const to = reinterpret_cast<uint4*>(i < pieces ? rows.hi[c * 32] : rows.lo[c * 32]);
            to[i % pieces * 32 + lane] = piece;
        }
        rows.norms[c * 32 + lane] = chunks[c].norms[lane];
    }
}

// The chunks of the listed blocks that have units, in order; returns their number.
__device__ inline int make_queue(unsigned* queue, const Listed& listed, int count) {
    const int lane = threadIdx.x % 32;
    int chunks = 0;
#pragma unroll 1
    for (int base = 0; base < count; base += 32) {
        const unsigned mask = base + lane < count ? listed.masks[base + lane] : 0;
        const unsigned block = base + lane < count ? listed.blocks[base + lane] : 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const unsigned bits = mask >> (half * row_tiles) & ((1u << row_tiles) - 1);
            const unsigned votes = __ballot_sync(~0u, bits != 0);
            if (bits) queue[chunks + __popc(votes & ((1u << lane) - 1))] = (block * 2 + half) << row_tiles | bits;
            chunks += __popc(votes);
        }
    }
    __syncwarp();
    return chunks;
}

// Call use(sweep, first_chunk, there) for each sweep over an item's rows, which are those of `there` chunks of `chunks`
// from the first on; they are loaded.
template <class Use>
__device__ __forceinline__ void for_each_sweep(Warp& warp, const Chunk* chunks, int first_block, int blocks_there,
                                               const Use& use) {
#pragma unroll 1
    for (int sweep = 0; sweep < sweeps; sweep++) {
        const int first_chunk = first_block * 2 + sweep * (rows_at_once / chunk_points);
        const int there = min(rows_at_once / chunk_points, (first_block + blocks_there) * 2 - first_chunk);
        if (there <= 0) break;
        __syncwarp();
        load_rows(warp.rows, chunks + first_chunk, there);
        use(sweep, first_chunk, there);
    }
}

// Call use(chunk, number, bits) for each chunk of the queue that has units in the sweep.
template <class Use>
__device__ __forceinline__ void for_each_chunk(Warp& warp, const Chunk* chunks, int queued, int sweep, const Use& use) {
    int slot = 0;
    const auto fetch = [&](int c) {
        if (c < queued) {
            const Chunk* const from = chunks + (warp.queue[c] >> row_tiles);
            copy_to_ring(&warp.ring[slot], from, sizeof(Chunk));
        }
        copy_async_commit();
        slot = slot + 1 == stages ? 0 : slot + 1;
    };
#pragma unroll
    for (int c = 0; c < stages - 1; c++) fetch(c);
#pragma unroll 1
    for (int c = 0; c < queued; c++) {
        copy_async_wait<stages - 2>();
        __syncwarp();
        fetch(c + stages - 1);
        const unsigned entry = warp.queue[c], bits = entry >> (sweep * sum_tiles) & ((1u << sum_tiles) - 1);
        if (bits) use(warp.ring[slot], int(entry >> row_tiles), bits);  // the next to be filled is the oldest
    }
    copy_async_wait<0>();
}

typedef unsigned Right[2][GROUPS][4];  // right operands of a chunk

__device__ __forceinline__ void load_right(Right& to, const unsigned (*term)[depth / 2]) {
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int q = 0; q < GROUPS; q++) load_matrices(to[f][q], by_pieces(term, f * 16, q));
}

// A chunk as right operands of exponents, and its norms: of fine blocks whole, else in two parts. More than 16 dimensions
// take so many registers that second terms are loaded for each tile.
template <bool coarse>
struct Columns {
    static constexpr bool keeps_lo = GROUPS == 1;
    Right hi, lo_kept;
    const unsigned (*lo)[depth / 2];
    float norms[4][2], rest[coarse ? 4 : 1][2];

    __device__ __forceinline__ void load(const Chunk& chunk) {
        const int t = threadIdx.x % 4;
        load_right(hi, chunk.hi);
        if constexpr (keeps_lo) load_right(lo_kept, chunk.lo);
        lo = chunk.lo;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float4 two = *reinterpret_cast<const float4*>(&chunk.norms[j * 8 + 2 * t]);
            norms[j][0] = coarse ? two.x : two.x + two.y;
            norms[j][1] = coarse ? two.z : two.z + two.w;
            if constexpr (coarse) rest[j][0] = two.y, rest[j][1] = two.w;
        }
    }
};

// Exponents of a unit, with `added` to those of rows g and g + 8.
template <bool coarse>
__device__ __forceinline__ void exponents(float (&e)[4][4], const RowPoints& rows, int m,
                                          const Columns<coarse>& columns, const float (&added)[2]) {
    const int g = threadIdx.x % 32 / 4;
    unsigned hi[GROUPS][4], lo[GROUPS][4];
#pragma unroll
    for (int q = 0; q < GROUPS; q++) {
        load_matrices(hi[q], by_rows(rows.hi, m * 16, q));
        load_matrices(lo[q], by_rows(rows.lo, m * 16, q));
    }
    const float2 first = rows.norms[m * 16 + g], second = rows.norms[m * 16 + g + 8];
    const float rest[2] = {first.y + added[0], second.y + added[1]};
    const float norms[2] = {coarse ? first.x : first.x + rest[0], coarse ? second.x : second.x + rest[1]};
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) e[j][i] = columns.norms[j][i % 2] + norms[i / 2];
    const auto multiply = [&](const unsigned (&a)[GROUPS][4], const Right& b) {
#pragma unroll
        for (int q = 0; q < GROUPS; q++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                mma_f16_m16n8k16(e[j], a[q], b[j / 2][q][j % 2 * 2], b[j / 2][q][j % 2 * 2 + 1]);
    };
    // First terms add up exactly where they come first. Of fine blocks the product of second terms does not matter.
    multiply(hi, columns.hi);
    multiply(lo, columns.hi);
    const auto multiply_second = [&](const Right& columns_lo) {
        multiply(hi, columns_lo);
        if constexpr (coarse) multiply(lo, columns_lo);
    };
    if constexpr (Columns<coarse>::keeps_lo) {
        multiply_second(columns.lo_kept);
    } else {
        Right now;
        load_right(now, columns.lo);
        multiply_second(now);
    }
    if constexpr (coarse) {
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) e[j][i] += columns.rest[j][i % 2] + rest[i / 2];
    }
}

// Call add(m) for the row tiles of `bits`, `together` at a time where one of them has a bit: they are independent work, and
// what does not count is too small to matter.
template <int together, class Add>
__device__ __forceinline__ void for_each_tile(unsigned bits, const Add& add) {
#pragma unroll
    for (int m = 0; m < sum_tiles; m += together) {
        if (!(bits >> m & ((1u << together) - 1))) continue;
#pragma unroll
        for (int i = 0; i < together; i++) add(m + i);
    }
}
