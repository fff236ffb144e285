// Sums for each query over the data, for KDE kernels K other than the Gaussian, q_ij = |y_i - x_j|^2 / h^2:
//
//   S_i = sum_j w_j K(q_ij)                                  a_i = 0
//
//   TOPHAT 1, EPANECHNIKOV 1 - q, LINEAR 1 - sqrt(q), COSINE cos(pi sqrt(q) / 2): all where q < 1, otherwise 0
//
//   S_i = sum_j 2^(e_ij - a_i), a_i = max_j e_ij, at any q
//   e_ij = log2 w_j - log2(e) sqrt(q_ij)             EXPONENTIAL
//
//   X            (n, d)       STORAGE  data
//   Y            (m, d)       STORAGE  queries
//   log_weights  (n,)         double   or null: all weights 1
//   reference    (splits, m)  double   a_i ln 2
//   total        (splits, m)  double   S_i
//   rows         data rows of a split, a multiple of 64
//   unit         a power of two that X and Y are multiplied by, so that r^2 stays in range for large h
//   scale        1 / (unit h)^2; of EXPONENTIAL log2(e) / (unit h)
//   squared_h    h^2
//   edge_from, edge_to           pairs with q between them are computed again in double and by a division: there rounding
//                                would decide whether a pair counts, and it is not small relative to 1 - q
//   own_out      leave out the pair of query i and data row i
//
// One block owns 64 queries and one split of the data rows, which it goes through in tiles of 64 (radial.cuh): grid x over
// queries, z over splits. There are no atomic operations, so every run gives the same bits; the caller merges the splits.
//
// Macros: KERNEL the name; KIND one of the five; REAL the arithmetic and STORAGE the type of X and Y, which is the same;
// CHUNK the dimensions staged at a time.
#include "radial.cuh"

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const Storage* __restrict__ X, const Storage* __restrict__ Y, const double* __restrict__ log_weights,
       double* __restrict__ reference, double* __restrict__ total, long long n, long long m, int d, long long rows,
       Storage unit, Real scale, double squared_h, Real edge_from, Real edge_to, int own_out) {
    __shared__ TileMemory staged;
    const Pass pass = {X, Y, log_weights, n, m, d, unit, scale, squared_h, edge_from, edge_to};
    const long long first_query = (long long)blockIdx.x * tile;
    const long long begin = blockIdx.z * rows;
    const long long end = begin + rows < n ? begin + rows : n;

    Sums sums;
    sums.begin(of_exponents ? Exponent<Real>::least : Real(0));
    for (long long at = begin; at < end; at += tile)
        add_tile(sums, staged, pass, at, end, first_query, at == begin, true, own_out);
    sums.share();
    sums.write(reference, total, first_query, m);
}
