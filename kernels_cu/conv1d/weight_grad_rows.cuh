// Products of the gradient of the weights along rows, of which a lane has four Rows of outputs.
//
// Macros: STORAGE (core/storage.cuh), TAPS.
#pragma once
#include "storage.cuh"
#include "weight_grad_partial.cuh"

constexpr int warps = 4;
constexpr int own = 4 * row_width;  // outputs of a lane

// Add to sums 0 to `sums` - 1 the products with each x that is met, and to the last dy. `dy_row(r)` is Row r of the
// lane's, `x_row(r)` of what its outputs meet.
template <int sums, class DyRow, class XRow>
__device__ inline void add_products(Real (&sum)[sums + 1], const DyRow& dy_row, const XRow& x_row) {
    constexpr int rows_met = (own + sums - 1 + row_width - 1) / row_width;
    Real g[own];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        Real part[row_width];
        from_row(dy_row(r), part);
#pragma unroll
        for (int e = 0; e < row_width; e++) {
            g[r * row_width + e] = part[e];
            sum[sums] += part[e];
        }
    }
#pragma unroll
    for (int r = 0; r < rows_met; r++) {
        Real met[row_width];
        from_row(x_row(r), met);
#pragma unroll
        for (int e = 0; e < row_width; e++) {
#pragma unroll
            for (int i = 0; i < own; i++) {
                const int k = r * row_width + e - i;
                if (k >= 0 && k < sums) sum[k] += g[i] * met[e];
            }
        }
    }
}
