// Staging of coordinates of data rows in shared memory, from a transposed array: each coordinate has its own line. Numbers
// lie in shared memory as they are read, 16 bytes at a time.
//
//   lines  (count, padded) REAL  line k holds coordinate k of every row, or some other property; aligned to 16 bytes.
//                                padded is a multiple of 64, and at least the rows of whole tiles of 64 and
//                                `wide` - 64 more
//
// 16 x 16 threads have 4 x 4 pairs each of a tile of 64 x 64. Up to `chunk` dimensions are staged for several tiles at
// once. If there are more, as many dimensions as there is room for are staged for one tile.
#pragma once

typedef REAL Real;

constexpr int lanes = 16;           // threads along each side of a tile; 16 neighbours share their rows
constexpr int side = tile / lanes;  // rows, and columns, of a thread
constexpr int threads = lanes * lanes;

constexpr int chunk = 8;                            // dimensions of a sum that is added to others: it bounds rounding
constexpr int wide = sizeof(Real) == 4 ? 256 : 128;  // rows staged at a time of up to `chunk` dimensions
constexpr int deep = chunk * wide / tile;           // dimensions staged at a time, of a tile's rows
constexpr int staged = chunk * wide;                // coordinates

struct alignas(16) Four {
    Real of[4];
};

__device__ inline Four four_at(const Real* from) { return *reinterpret_cast<const Four*>(from); }

// Stage `count` lines of so many rows.
template <int rows>
__device__ inline void stage_lines(Real* to, const Real* from, long long padded, int count) {
    constexpr int fours = rows / 4;
#pragma unroll 1
    for (int i = threadIdx.x; i < count * fours; i += threads)
        reinterpret_cast<Four*>(to)[i] = four_at(from + i / fours * padded + i % fours * 4);
}

// Add (x_j - y_i)^2 over some dimensions to the sums of a thread's pairs, and with `products` (y_i - x_j) m_j. ys, xs and
// ms are those of the thread's first row and column.
template <bool products, int at_once = 2>
__device__ inline void add_dimensions(Real (&of_squares)[side][side], Real (&of_products)[side][side], const Real* ys,
                                      int row_pitch, const Real* xs, const Real* ms, int column_pitch, int count) {
#pragma unroll at_once
    for (int k = 0; k < count; k++) {
        const Four y = four_at(ys + k * row_pitch), x = four_at(xs + k * column_pitch);
        Four m = {};
        if constexpr (products) m = four_at(ms + k * column_pitch);
#pragma unroll
        for (int r = 0; r < side; r++)
#pragma unroll
            for (int c = 0; c < side; c++) {
                const Real step = y.of[r] - x.of[c];
                of_squares[r][c] = multiply_add(step, step, of_squares[r][c]);
                if constexpr (products) of_products[r][c] = multiply_add(step, m.of[c], of_products[r][c]);
            }
    }
}

// The same over any number of dimensions of a tile. In float each chunk is summed by itself: rounding grows with the
// number of chunks.
template <bool products>
__device__ inline void add_chunks(Real (&of_squares)[side][side], Real (&of_products)[side][side], const Real* ys,
                                  const Real* xs, const Real* ms, int count) {
    if constexpr (sizeof(Real) == 8) {
        add_dimensions<products, 1>(of_squares, of_products, ys, tile, xs, ms, tile, count);
        return;
    }
#pragma unroll 1
    for (int k = 0; k < count; k += chunk) {
        Real squares[side][side] = {}, steps[side][side] = {};
        add_dimensions<products, 1>(squares, steps, ys + k * tile, tile, xs + k * tile, ms + k * tile, tile,
                                 count - k < chunk ? count - k : chunk);
#pragma unroll
        for (int r = 0; r < side; r++)
#pragma unroll
            for (int c = 0; c < side; c++) {
                of_squares[r][c] += squares[r][c];
                if constexpr (products) of_products[r][c] += steps[r][c];
            }
    }
}
