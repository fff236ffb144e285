// Piecewise polynomial with several values at a point, or periodic:
//
//   y[., q] = sum_j c[j, i, q] t^(k - 1 - j),   t = x - knots[i], or x if the origin is global
//
// With PERIODIC, x is replaced by first + (x - first) mod (last - first), as in SciPy.
//
//   x        (n,)                           STORAGE bits
//   rows     (rows, pieces, columns)        Row     coefficients, rows = ceil(k / row_width), see pieces.cuh
//   search   as in pieces.cuh               Row     tree; not read for uniform knots
//   y        (n, columns)                   STORAGE bits
//
// A block owns tiles of THREADS points, in a grid-stride loop. A thread finds the piece of one point; then neighbouring
// threads compute and write neighbouring values. Barriers: before and after the values of a tile.
//
// Macros: STORAGE (core/storage.cuh), SEARCH (pieces.cuh), THREADS.
#include "pieces.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
piecewise_columns(const Stored* __restrict__ x, const Row* __restrict__ rows, const Row* __restrict__ search,
                  Stored* __restrict__ y, long long n, long long columns, int pieces, int coefficients, int levels,
                  int beyond, int local, Real first, Real last, Real scale, Real offset, Real cells, Real step) {
    __shared__ unsigned piece_of[THREADS];
    __shared__ Real argument_of[THREADS];
    const Knots knots = {first, last, scale, offset, cells, step, levels, pieces, nullptr};
    const int rows_of_piece = (coefficients + row_width - 1) / row_width;
    const int first_terms = coefficients - (rows_of_piece - 1) * row_width;
    const long long plane = pieces * columns;

    for (long long begin = (long long)blockIdx.x * THREADS; begin < n; begin += (long long)gridDim.x * THREADS) {
        if (begin + threadIdx.x < n) {
            Real at[1] = {to_real(x[begin + threadIdx.x])}, origin[1];
            unsigned piece[1];
            if (beyond == PERIODIC) {
                const Real period = last - first;
                const Real past = fmod(at[0] - first, period);
                at[0] = first + (past < 0 ? past + period : past);
            }
            at[0] = brought_within(at[0], beyond, knots);
            locate(at, search, sizeof(Row), knots, piece, origin);
            piece_of[threadIdx.x] = piece[0] - piece_excess;
            argument_of[threadIdx.x] = local ? at[0] - origin[0] : at[0];
        }
        __syncthreads();
        const long long values = min(n - begin, (long long)THREADS) * columns;
        long long q = threadIdx.x % columns;
        int point = int(threadIdx.x / columns);
        for (long long i = threadIdx.x; i < values; i += THREADS) {
            const Real t = argument_of[point];
            const Row* const own_rows = rows + piece_of[point] * columns + q;
            Real value = begin_horner(own_rows[0], t, first_terms);
#pragma unroll 1
            for (int row = 1; row < rows_of_piece; row++) value = go_on_horner(value, own_rows[row * plane], t);
            if (beyond == EXTRAPOLATE && value != value && is_infinite(t))
                value = limit([&](int row) { return own_rows[row * plane]; }, rows_of_piece, t);
            y[begin * columns + i] = to_stored(t == t ? value : t);
            q += THREADS % columns;
            point += int(THREADS / columns);
            if (q >= columns) {
                q -= columns;
                point++;
            }
        }
        __syncthreads();
    }
}
