// Sums for each query over the data, for KDE kernels K other than the usual Gaussian, q_ij = |y_i - x_j|^2 / h^2:
//
//   S_i = sum_j w_j K(q_ij)                                  a_i = 0
//
//   TOPHAT 1, EPANECHNIKOV 1 - q, LINEAR 1 - sqrt(q), COSINE cos(pi sqrt(q) / 2): all where q < 1, otherwise 0
//
//   S_i = sum_j 2^(e_ij - a_i), a_i = max_j e_ij, at any q
//   e_ij = log2 w_j - log2(e) sqrt(q_ij)             EXPONENTIAL
//   e_ij = log2 w_j - log2(e) q_ij / (2 lambda_j^2)  GAUSSIAN, with a factor of the bandwidth for each data row
//
//   X            (n, d)       STORAGE  data
//   Y            (m, d)       STORAGE  queries
//   log_weights  (n,)         double   or null: all weights 1
//   scales       (n,)         REAL     log2(e) / (2 (unit h lambda_j)^2) of GAUSSIAN; otherwise null
//   reference    (splits, m)  double   a_i ln 2
//   total        (splits, m)  double   S_i
//   rows         data rows of a split, a multiple of 64
//   unit         a power of two that X and Y are multiplied by, so that r^2 stays in range for large h
//   scale        1 / (unit h)^2; of EXPONENTIAL log2(e) / (unit h); of GAUSSIAN unused
//   squared_h    h^2
//   edge_from, edge_to           pairs with q between them are computed again in double and by a division: there rounding
//                                would decide whether a pair counts, and it is not small relative to 1 - q
//
// One block owns 64 queries and one split of the data rows, which it goes through in tiles of 64: grid x over queries,
// z over splits. 16 x 16 threads have 4 x 4 pairs each (squared_distances.cuh) and keep their sums in double. There are
// no atomic operations, so every run gives the same bits; the caller merges the splits. Barriers: two for each chunk of
// dimensions; all threads of a block pass all of them.
//
// Macros: KERNEL the name; KIND one of the six; REAL the arithmetic; STORAGE the type of X and Y, which is REAL or, for
// GAUSSIAN with REAL float, may be double; CHUNK the dimensions staged at a time.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "squared_distances.cuh"
#include "running_sums.cuh"

enum Kind { TOPHAT, EPANECHNIKOV, LINEAR, COSINE, EXPONENTIAL, GAUSSIAN };
constexpr Kind kind = KIND;
constexpr bool of_exponents = kind == EXPONENTIAL || kind == GAUSSIAN;

constexpr int blocks_at_least = 2;  // of a multiprocessor

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }

// cos(pi sqrt(q) / 2) / (1 - q), a power series in q (COSINE_SERIES of cukde/density/kernels.py). The zero at q = 1 is
// divided out, so that values near it keep all their digits. The truncation error is below an eps for q <= 1.
__device__ inline Real cosine_factor(Real q) {
    constexpr double series[] = {1.0,
                                 -0.2337005501361698,
                                 0.019968957764878184,
                                 -0.0008945229984747742,
                                 2.4737276364651982e-05,
                                 -4.647660084086158e-07,
                                 6.321469473201108e-09,
                                 -6.513361059074081e-11,
                                 5.260205590538664e-13,
                                 -3.4194610195954536e-15};
    constexpr int terms = sizeof(Real) == 4 ? 6 : 10;
    Real sum = Real(series[terms - 1]);
#pragma unroll
    for (int k = terms - 2; k >= 0; k--) sum = multiply_add(sum, q, Real(series[k]));
    return sum;
}

// A KDE kernel of bounded support, for q < 1.
__device__ inline Real value_within(Real q) {
    if constexpr (kind == TOPHAT) return 1;
    else if constexpr (kind == LINEAR) return 1 - root(q);
    else if constexpr (kind == COSINE) return (1 - q) * cosine_factor(q);
    else return 1 - q;
}

__device__ inline Real value_of(Real q) { return q < 1 ? value_within(q) : Real(0); }

// The same in double, for a pair near the edge, where 1 - q decides.
__device__ inline double value_in_double(double q) {
    if (!(q < 1)) return 0;
    if constexpr (kind == TOPHAT) return 1;
    else if constexpr (kind == LINEAR) return (1 - q) / (1 + sqrt(q));
    else if constexpr (kind == COSINE) return (1 - q) * cosine_factor(Real(q));
    else return 1 - q;
}

__device__ inline double squared_distance(const Storage* x, const Storage* y, int d) {
    double sum = 0;
#pragma unroll 1
    for (int k = 0; k < d; k++) {
        const double step = double(x[k]) - double(y[k]);
        sum = fma(step, step, sum);
    }
    return sum;
}

// Sums of a thread's queries; for KDE kernels of bounded support the reference is 0.
struct Sums : RunningSums {
    // Add 2^e of a tile's data rows, whose scales are one or, of GAUSSIAN, `scales`.
    __device__ void add_exponentials(const Real (&r2)[side][side], const Real* exponents_of_weights, Real scale,
                                     const Real* scales) {
#pragma unroll
        for (int r = 0; r < side; r++) {
            Real exponents[side];
#pragma unroll
            for (int c = 0; c < side; c++) {
                const Real length = kind == GAUSSIAN ? r2[r][c] : root(r2[r][c]);
                exponents[c] = multiply_add(kind == GAUSSIAN ? -scales[c] : -scale, length, exponents_of_weights[c]);
            }
            add_powers(r, exponents);
        }
    }

    // Add KDE kernels of bounded support for the data rows whose `counts` is 1 and not 0, times their weights unless
    // all are 1. Return a bit for each pair at the edge, which is left to the caller.
    __device__ unsigned add_values(const Real (&r2)[side][side], const Real* counts, const double* weights, Real scale,
                                   Real edge_from, Real edge_to) {
        unsigned at_edge = 0;
#pragma unroll
        for (int r = 0; r < side; r++) {
            Real values[side];
#pragma unroll
            for (int c = 0; c < side; c++) {
                const Real q = r2[r][c] * scale;
                values[c] = value_of(q) * counts[c];
                if (q >= edge_from && q <= edge_to) {
                    values[c] = 0;
                    if (counts[c] != 0) at_edge |= 1u << (r * side + c);
                }
            }
            if (weights) {
#pragma unroll
                for (int c = 0; c < side; c++) total[r] = fma(weights[c], double(values[c]), total[r]);
            } else {
                Real sum = 0;
#pragma unroll
                for (int c = 0; c < side; c++) sum += values[c];
                total[r] += sum;
            }
        }
        return at_edge;
    }

    __device__ void add(int row, double term) {
#pragma unroll
        for (int r = 0; r < side; r++)
            if (r == row) total[r] += term;
    }
};

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const Storage* __restrict__ X, const Storage* __restrict__ Y, const double* __restrict__ log_weights,
       const Real* __restrict__ scales, double* __restrict__ reference, double* __restrict__ total, long long n,
       long long m, int d, long long rows, Storage unit, Real scale, double squared_h, Real edge_from, Real edge_to) {
    alignas(16) __shared__ Coordinate buffer[2 * chunk_size];
    alignas(16) __shared__ Real counts[tile];     // of a data row: 1, and 0 past the end; of exponents log2 w_j
    alignas(16) __shared__ double weights[tile];  // w_j, and 0 past the end
    alignas(16) __shared__ Real row_scales[tile];
    Coordinate* const ys = buffer;
    Coordinate* const xs = buffer + chunk_size;

    const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
    const long long first_query = (long long)blockIdx.x * tile;
    const long long begin = blockIdx.z * rows;
    const long long end = begin + rows < n ? begin + rows : n;

    Sums sums;
    sums.begin(of_exponents ? Exponent<Real>::least : Real(0));
    for (long long at = begin; at < end; at += tile) {
        Real r2[side][side] = {};
        for (int k0 = 0; k0 < d; k0 += CHUNK) {
            __syncthreads();
            stage_chunk(xs, X, at, n, k0, d, unit);
            if (d > CHUNK || at == begin) stage_chunk(ys, Y, first_query, m, k0, d, unit);
            if (k0 == 0 && threadIdx.x < tile) {
                const long long j = at + threadIdx.x;
                if (of_exponents) {
                    counts[threadIdx.x] = exponent_of_weight<Real>(log_weights, j, end);
                    if (kind == GAUSSIAN) row_scales[threadIdx.x] = j < end ? scales[j] : Real(0);
                } else {
                    counts[threadIdx.x] = j < end;
                    weights[threadIdx.x] = j < end && log_weights ? exp(log_weights[j]) : double(j < end);
                }
            }
            __syncthreads();
            add_squares(r2, ys, xs, d - k0 < CHUNK ? d - k0 : CHUNK, tx, ty);
        }
        if constexpr (of_exponents) {
            sums.add_exponentials(r2, counts + tx * side, scale, row_scales + tx * side);
        } else {
            const double* const own_weights = weights + tx * side;
            const double* const given_weights = log_weights ? own_weights : nullptr;
            unsigned at_edge = sums.add_values(r2, counts + tx * side, given_weights, scale, edge_from, edge_to);
            while (at_edge) {
                const int pair = __ffs(at_edge) - 1, r = pair / side, c = pair % side;
                at_edge &= at_edge - 1;
                const long long query = first_query + ty * side + r, i = query < m ? query : m - 1;
                const double q = squared_distance(X + (at + tx * side + c) * d, Y + i * d, d) / squared_h;
                sums.add(r, own_weights[c] * value_in_double(q));
            }
        }
    }
    sums.share();
    sums.write(reference, total, first_query, m);
}
