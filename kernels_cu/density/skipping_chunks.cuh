// Points of common blocks, 32 to a chunk, as they stand in shared memory (skipping_mutual.cu, skipping_sums.cu).
#pragma once

constexpr int chunk_points = 32;
constexpr int common_kind = 2, fine_kind = 3;  // of blocks (skipping_points.cu)

// Where a piece of 16 bytes of a row of `pieces` stands among them: rows of a matrix of 8 x 8 then lie in different banks.
template <int pieces>
__device__ inline int place_of_piece(int row, int piece) {
    return piece ^ (row * pieces / 8 & (pieces - 1));
}

#if defined GROUPS && GROUPS > 0
constexpr int depth = 16 * GROUPS;  // dimensions
constexpr int pieces = depth / 8;   // of 16 bytes, a point and term
constexpr int words_of_term = chunk_points * depth / 2;

// Coordinates in two terms, and in norms minus the square of the first and what the whole of it leaves, weight included.
// In each 16 dimensions 4 t + 2 k + e stands at 8 k + 2 t + e, so that a lane's sums are of four neighbours.
struct alignas(16) Chunk {
    unsigned hi[chunk_points][depth / 2], lo[chunk_points][depth / 2];
    float2 norms[chunk_points];
};

// Where dimensions 2 w and 2 w + 1 of a row stand, in words.
__device__ inline int word_of_chunk(int row, int w) {
    return (row * pieces + place_of_piece<pieces>(row, w / 8 * 2 + w % 2)) * 4 + w % 8 / 2;
}
#endif
