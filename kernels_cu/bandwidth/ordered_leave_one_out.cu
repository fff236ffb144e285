// Sums at data rows x_i over the other data rows, in powers of 2 about a running reference (log-sum-exp). So a row has a
// logarithm however far it is from all others. Its own term is left out by its index, never subtracted.
//
//   S_i = sum_{j != i} w_j 2^(-e_ij - a_i),  a_i = max_{j != i} log2 w_j - e_ij
//   e_ij = scale |x_i - x_j|^2                                                      DEBIASED 0
//   e_ij = scale |x_i - t_ij|^2, t_ij the debiased x_j of the data without x_i      DEBIASED 1
//
// With u = x_i - x_j, the mean shift m_j and the sum T_j of all data at x_j, and the share of x_i in that sum,
// s = w_i 2^(-scale |u|^2) / T_j:
//
//   x_i - t_ij = (u (1 - s/2) - m_j / 2) / (1 - s) = u / 2 + (u - m_j) / (2 (1 - s))
//
//   X           (n, d)       REAL    data
//   M           (n, d)       double  m_j; only with DEBIASED 1, as T
//   T           (n,)         double
//   weights     (n,)         double  positive; null: `weight` each
//   lines       (., padded)  REAL    unit x_j in d lines and log2 w_j, or 0 for equal weights, in one; with DEBIASED,
//                                    between them, unit m_j in d lines, |unit m_j|^2 / 4 and -log2 T_j, with log2 of
//                                    equal weights. Past the end zeros or, for logarithms, `none`; see lines.cuh
//   rows        (m,)         int64   rows of the queries in X, or null: 0 to m - 1
//   scales      (m,)         REAL    scale of each query in units, or null: `scale`
//   reference   (splits, m)  double  a_i ln 2, or less
//   total       (splits, m)  double  S_i
//   split_rows  data rows of a split, a multiple of 64
//   scale       log2(e) / (2 h^2) of distances in a unit, a power of two that keeps r^2 in range
//   scale_of_X  the same of distances in X
//
// One block owns 64 queries and one split of the data rows, which it goes through in tiles of 64: grid x over queries,
// z over splits. DEBIASED expands the square, which loses little accuracy while s is small. The shares of one x_j sum to at
// most 1, so at most 1 / LARGE of its pairs have s > LARGE. These are computed again in double, by differences, with
// T_j (1 - s) bounded below by w_j. The reference rises only if a sum about it would be large; only then the largest
// exponent of a tile is computed. There are no atomic operations, so every run gives the same bits; the caller merges the
// splits. Barriers: two each time that anything is staged; all threads of a block pass all of them.
//
// Macros: KERNEL the name; DEBIASED 0 or 1; REAL the arithmetic, which is the type of X.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "lines.cuh"
#include "running_sums.cuh"

constexpr int blocks_at_least = sizeof(Real) == 8 && DEBIASED ? 1 : 2;  // of a multiprocessor, whose registers they share
constexpr double large_share = 1.0 / 16;
constexpr Real most = 1ll << 60;  // of a sum of four powers about a reference

__device__ inline float over_square(float a, float b) { return a * reciprocal_approx(b * b); }
__device__ inline double over_square(double a, double b) { return a / (b * b); }

// The exponent e_ij of one pair in double. `mass` is T_j, `own` w_i and `other` w_j.
__device__ inline double debiased_exponent(const Real* x_i, const Real* x_j, const double* shift, double mass,
                                           double own, double other, int d, double scale) {
    double square = 0;
#pragma unroll 1
    for (int k = 0; k < d; k++) {
        const double u = double(x_i[k]) - double(x_j[k]);
        square = fma(u, u, square);
    }
    const double rest = fmax(mass - own * exp2(-scale * square), other);
    const double half = 0.5 * mass / rest;
    square = 0;
#pragma unroll 1
    for (int k = 0; k < d; k++) {
        const double u = double(x_i[k]) - double(x_j[k]);
        const double step = fma(half, u - shift[k], 0.5 * u);
        square = fma(step, step, square);
    }
    return scale * square;
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const Real* __restrict__ X, const double* __restrict__ M, const double* __restrict__ T,
       const double* __restrict__ weights, const Real* __restrict__ lines, const long long* __restrict__ rows,
       const Real* __restrict__ scales, double* __restrict__ reference, double* __restrict__ total, long long n,
       long long m, long long padded, int d, long long split_rows, Real scale, double scale_of_X, double weight) {
    // Lines of columns: x, then m, |m|^2 / 4 and the logarithm of the mass if DEBIASED, then that of the weight.
    constexpr int properties = 1 + 2 * DEBIASED, points = 1 + DEBIASED;
    alignas(16) __shared__ Real xs[points * staged + properties * wide], ys[deep * tile];
    alignas(16) __shared__ Real own[tile];       // log2 w_i if DEBIASED, else the scale
    alignas(16) __shared__ int own_tiles[tile];  // that hold the queries as columns, counted from the split's first

    const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
    const long long first_query = (long long)blockIdx.x * tile;
    const long long begin = blockIdx.z * split_rows;
    const long long end = begin + split_rows < n ? begin + split_rows : n;

    // Row of X of a query of the block; -1 past the end.
    const auto row_of = [=](int place) {
        const long long query = first_query + place;
        return query >= m ? -1 : rows ? rows[query] : query;
    };
    const auto stage_queries = [&](int k0, int used) {
#pragma unroll 1
        for (int i = threadIdx.x; i < used * tile; i += threads) {
            const long long row = row_of(i % tile);
            ys[i] = lines[(k0 + i / tile) * padded + (row < 0 ? 0 : row)];
        }
    };
    const bool shallow = d <= chunk;
    const int columns = shallow ? wide : tile;  // of a stage, and its pitch
    Real* const ms = xs + (shallow ? d * wide : staged);  // DEBIASED
    Real* const of_columns = shallow ? xs + points * d * wide : xs + points * staged;

    if (threadIdx.x < tile) {
        const long long row = row_of(threadIdx.x);
        own_tiles[threadIdx.x] = row < begin ? -1 : int((row - begin) / tile);
        own[threadIdx.x] = row < 0    ? DEBIASED ? Exponent<Real>::none : scale
                           : DEBIASED ? lines[(2 * d + 2) * padded + row]
                           : scales   ? scales[first_query + threadIdx.x]
                                      : scale;
    }
    if (shallow) stage_queries(0, d);
    RunningSums sums;
    sums.begin(Exponent<Real>::least);
#pragma unroll 1
    for (long long at = begin; at < end; at += columns) {
        if (shallow) {
            __syncthreads();
            stage_lines<wide>(xs, lines + at, padded, points * d + properties);
            __syncthreads();
        }
        Real stage_sums[side] = {};
#pragma unroll 1
        for (int first = 0; first < columns && at + first < end; first += tile) {
            const int column = first + tx * side;  // the thread's first
            Real pairs[side][side] = {};           // r^2, then exponents
            Real products[side][side] = {};        // DEBIASED: u m_j, then 1 - s
            if (shallow) {
                add_dimensions<DEBIASED>(pairs, products, ys + ty * side, tile, xs + column, ms + column, wide, d);
            } else {
#pragma unroll 1
                for (int k0 = 0; k0 < d; k0 += deep) {
                    const int used = d - k0 < deep ? d - k0 : deep;
                    __syncthreads();
                    stage_lines<tile>(xs, lines + k0 * padded + at, padded, used);
                    if (DEBIASED) stage_lines<tile>(ms, lines + (d + k0) * padded + at, padded, used);
                    if (k0 == 0) stage_lines<tile>(of_columns, lines + points * d * padded + at, padded, properties);
                    if (d > deep || at == begin) stage_queries(k0, used);
                    __syncthreads();
                    add_chunks<DEBIASED>(pairs, products, ys + ty * side, xs + column, ms + column, used);
                }
            }

            const int number = int((at + first - begin) / tile);
            bool special = false;  // it holds a row's own term, or a large share
#pragma unroll
            for (int r = 0; r < side; r++) special |= own_tiles[ty * side + r] == number;
            const Four of_rows = four_at(own + ty * side);
            const Four of_weight = four_at(of_columns + column + 2 * DEBIASED * columns);
            if constexpr (DEBIASED) {
                const Four of_square = four_at(of_columns + column), of_mass = four_at(of_columns + column + columns);
                Real least = 1;
#pragma unroll
                for (int r = 0; r < side; r++)
#pragma unroll
                    for (int c = 0; c < side; c++) {
                        const Real r2 = pairs[r][c];
                        const Real left = 1 - exp2_of(multiply_add(-scale, r2, of_rows.of[r]) + of_mass.of[c]);
                        const Real part = multiply_add(Real(0.5), left, Real(0.5));
                        const Real square =
                            multiply_add(part, multiply_add(part, r2, -products[r][c]), of_square.of[c]);
                        pairs[r][c] = multiply_add(-scale, over_square(square, left), of_weight.of[c]);
                        products[r][c] = left;
                        least = smaller(least, left);
                    }
                special |= least < Real(1 - large_share);
            } else {
#pragma unroll
                for (int r = 0; r < side; r++)
#pragma unroll
                    for (int c = 0; c < side; c++)
                        pairs[r][c] = multiply_add(-of_rows.of[r], pairs[r][c], of_weight.of[c]);
            }
            if (special) {
                unsigned again = 0;  // a bit for each pair to be taken again
#pragma unroll
                for (int r = 0; r < side; r++) {
                    const long long own = row_of(ty * side + r), j = at + column;
#pragma unroll
                    for (int c = 0; c < side; c++) {
                        if (j + c == own) pairs[r][c] = Exponent<Real>::none;
                        else if (DEBIASED && products[r][c] < Real(1 - large_share)) again |= 1u << (r * side + c);
                    }
                }
                while (DEBIASED && again) {
                    const int pair = __ffs(again) - 1;
                    again &= again - 1;
                    const long long i = row_of(ty * side + pair / side), j = at + column + pair % side;
                    const double e =
                        debiased_exponent(X + i * d, X + j * d, M + j * d, T[j], weights ? weights[i] : weight,
                                          weights ? weights[j] : weight, d, scale_of_X);
                    const Real exponent = of_columns[column + 2 * columns + pair % side] - Real(e);
#pragma unroll
                    for (int one = 0; one < side * side; one++)
                        if (one == pair) pairs[one / side][one % side] = exponent;
                }
            }

            Real powers[side];
            bool fits = true;
#pragma unroll
            for (int r = 0; r < side; r++) {
                powers[r] = 0;
#pragma unroll
                for (int c = 0; c < side; c++) powers[r] += exp2_of(pairs[r][c] - sums.reference[r]);
                fits &= powers[r] <= most;
            }
            if (!fits) {
#pragma unroll
                for (int r = 0; r < side; r++) {
                    Real largest = sums.reference[r];
#pragma unroll
                    for (int c = 0; c < side; c++) {
                        // Differences of what overflowed, of rows that have no distance.
                        pairs[r][c] = larger(pairs[r][c], Exponent<Real>::none);
                        largest = larger(largest, pairs[r][c]);
                    }
                    sums.total[r] += stage_sums[r];
                    sums.raise(r, largest);
                    stage_sums[r] = powers[r] = 0;
#pragma unroll
                    for (int c = 0; c < side; c++) powers[r] += exp2_of(pairs[r][c] - largest);
                }
            }
#pragma unroll
            for (int r = 0; r < side; r++) stage_sums[r] += powers[r];
        }
#pragma unroll
        for (int r = 0; r < side; r++) sums.total[r] += stage_sums[r];
    }
    sums.share();
    sums.write(reference, total, first_query, m);
}
