// Squared distances of a tile of 64 x 64 pairs from differences, r^2 = sum_k (y_ik - x_jk)^2: nothing cancels, wherever
// the points lie.
//
// 16 x 16 threads, each with 4 x 4 pairs. CHUNK dimensions at a time are staged in shared memory, as [CHUNK][pitch];
// the caller puts barriers between staging and use.
#pragma once
#include "coordinate.cuh"

constexpr int lanes = 16;           // threads along each side of a tile; 16 neighbours share their queries
constexpr int side = tile / lanes;  // queries, and data rows, of a thread
constexpr int threads = lanes * lanes;
constexpr int pitch = tile + 4;     // of shared rows: against bank conflicts, aligned for vector loads

constexpr int step_of_chunk = CHUNK <= 4 ? 1 : 4;
constexpr int chunk_size = CHUNK * pitch;

// Stage dimensions [k0, k0 + CHUNK) of 64 rows of A from `first` on. Rows past the end repeat the last one,
// so that even what is thrown away is finite; dimensions past d are zero and add nothing.
__device__ inline void stage_chunk(Coordinate* to, const Storage* A, long long first, long long rows_of_A, int k0,
                                   int d, Storage unit) {
#pragma unroll 1
    for (int i = threadIdx.x; i < tile * CHUNK; i += threads) {
        const int row = i / CHUNK, k = i % CHUNK;
        const long long from = first + row < rows_of_A ? first + row : rows_of_A - 1;
        Coordinate& place = to[k * pitch + row];
        if (k0 + k < d) put(A[from * d + k0 + k] * unit, place);
        else clear(place);
    }
}

// Add the chunk's squared differences to r^2 of the thread's pairs.
__device__ inline void add_squares(Real (&r2)[side][side], const Coordinate* ys, const Coordinate* xs, int used,
                                   int tx, int ty) {
    // Long sums in float are added chunk by chunk: rounding grows with the number of chunks, not of dimensions.
    constexpr bool by_chunks = CHUNK > 4 && sizeof(Real) == 4;
    Real part[side][side] = {};
#pragma unroll 1
    for (int k4 = 0; k4 < used; k4 += step_of_chunk)
#pragma unroll
    for (int k = k4; k < k4 + step_of_chunk; k++) {
        Coordinate y[side], x[side];
#pragma unroll
        for (int r = 0; r < side; r++) y[r] = ys[k * pitch + ty * side + r];
#pragma unroll
        for (int c = 0; c < side; c++) x[c] = xs[k * pitch + tx * side + c];
#pragma unroll
        for (int r = 0; r < side; r++)
#pragma unroll
            for (int c = 0; c < side; c++) {
                const Real step = difference(x[c], y[r]);
                Real& sum = by_chunks ? part[r][c] : r2[r][c];
                sum = multiply_add(step, step, sum);
            }
    }
    if (by_chunks) {
#pragma unroll
        for (int r = 0; r < side; r++)
#pragma unroll
            for (int c = 0; c < side; c++) r2[r][c] += part[r][c];
    }
}
