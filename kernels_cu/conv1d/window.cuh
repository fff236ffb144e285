// The sliding window of the depthwise convolution of contiguous rows: sums of a thread's outputs over blocks of taps.
//
// A thread has `own` neighbouring outputs. Their inputs lie in shared memory as Rows, and so do the taps: a Row is a block
// of row_width taps. The Rows under a block of taps are in a ring of registers: for own * row_width multiply-adds, one more
// Row and one Row of taps are read. The inputs may begin anywhere in a Row; the sums are compiled for each such position.
// If the taps are no multiple of row_width, the first block lacks some at its front. These are skipped: taps of zero would
// give NaN for infinite x.
//
// Macro: STORAGE (core/storage.cuh).
#pragma once
#include "storage.cuh"

constexpr int own = 4 * row_width;  // outputs of a thread: four Rows
constexpr int ring = 8;             // Rows in registers, of which five or six are read

template <int place_in_row, class Rows>
__device__ inline void accumulate_from(Real (&sums)[own], const Rows& under, const Row* tap_rows, int blocks, int absent) {
    constexpr int rows = (place_in_row + own + row_width - 2) / row_width + 1;  // that a block of taps meets
    Real window[ring][row_width];
#pragma unroll
    for (int r = 0; r < rows - 1; r++) from_row(under(r, 0), window[r]);
#pragma unroll 1
    for (int m = 0; m < blocks; m += ring) {
#pragma unroll
        for (int s = 0; s < ring; s++) {
            if (m + s >= blocks) break;
            from_row(under(s + rows - 1, m), window[(s + rows - 1) % ring]);
            Real tap[row_width];
            from_row(tap_rows[m + s], tap);
#pragma unroll
            for (int e = 0; e < row_width; e++) {
                if (s == 0 && m == 0 && e < absent) continue;
#pragma unroll
                for (int i = 0; i < own; i++) {
                    const int met = place_in_row + i + e;
                    sums[i] = fma(tap[e], window[(s + met / row_width) % ring][met % row_width], sums[i]);
                }
            }
        }
    }
}

// Add the products of so many blocks of taps to the sums. under(r, m) is Row r + m of those that output 0 meets, the first
// of which it meets from `place_in_row` on; m is a multiple of the ring.
template <class Rows>
__device__ inline void accumulate(Real (&sums)[own], const Rows& under, const Row* tap_rows, int blocks, int absent,
                                  int place_in_row) {
    switch (place_in_row) {
        case 0: accumulate_from<0>(sums, under, tap_rows, blocks, absent); break;
        case 1: accumulate_from<1>(sums, under, tap_rows, blocks, absent); break;
#if STORAGE != 64
        case 2: accumulate_from<2>(sums, under, tap_rows, blocks, absent); break;
        case 3: accumulate_from<3>(sums, under, tap_rows, blocks, absent); break;
#endif
    }
}
