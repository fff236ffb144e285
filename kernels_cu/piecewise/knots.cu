// Positions of knots by the arithmetic of pieces.cuh, so that tables are exact: the cell of a knot among equal cells, and
// the knot that uniform_knot computes from its number.
//
//   knots    (n,)   Real
//   cell_of  (n,)   int32
//   uniform  (n,)   Real
//
// A thread owns a knot. Grid: x over knots. No barriers.
//
// Macros: STORAGE (core/storage.cuh); SEARCH (pieces.cuh), which makes no difference; THREADS.
#include "pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
piecewise_knots(const Real* __restrict__ knot, int* __restrict__ cell_of, Real* __restrict__ uniform, int n, Real scale,
                Real offset, Real cells, Real first, Real step) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const Knots knots = {first, first, scale, offset, cells, step, 0, 0, nullptr};
    cell_of[i] = int(last_bits(cell(knot[i], knots)) - magic_bits);
    uniform[i] = uniform_knot(Real(i), knots);
}
