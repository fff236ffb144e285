// KDE kernels other than the Gaussian over a tile of 64 x 64 pairs: 16 x 16 threads have 4 x 4 pairs each
// (squared_distances.cuh) and keep their sums in double. radial.cu has the formulas; it, radial_near.cu and
// radial_exponential.cu choose the tiles.
//
// Macros: KIND one of the five; REAL the arithmetic and STORAGE the type of X and Y, which is the same; CHUNK the dimensions
// staged at a time.
#pragma once
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "squared_distances.cuh"
#include "running_sums.cuh"
#include "radial_boxes.cuh"

enum Kind { TOPHAT, EPANECHNIKOV, LINEAR, COSINE, EXPONENTIAL };
constexpr Kind kind = KIND;
constexpr bool of_exponents = kind == EXPONENTIAL;

constexpr int blocks_at_least = 2;  // of a multiprocessor

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
    // Add 2^e of a tile's data rows.
    __device__ void add_exponentials(const Real (&r2)[side][side], const Real* exponents_of_weights, Real scale) {
#pragma unroll
        for (int r = 0; r < side; r++) {
            Real exponents[side];
#pragma unroll
            for (int c = 0; c < side; c++) exponents[c] = multiply_add(-scale, root(r2[r][c]), exponents_of_weights[c]);
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

// What all tiles of a launch have in common.
struct Pass {
    const Storage *X, *Y;
    const double* log_weights;
    long long n, m;
    int d;
    Storage unit;
    Real scale;
    double squared_h;
    Real edge_from, edge_to;
};

// Shared memory of a block.
struct TileMemory {
    alignas(16) Coordinate ys[chunk_size];
    alignas(16) Coordinate xs[chunk_size];
    alignas(16) Real counts[tile];     // of a data row: 1, and 0 past the end; of exponents log2 w_j
    alignas(16) double weights[tile];  // w_j, and 0 past the end
};

// Add the data rows from `at` on, 64 of them but none from `end` on, to the sums of 64 queries. Up to CHUNK dimensions these
// are staged by their `first` tile. Warps of which no query `reaches` the data add nothing. Barriers: two for each chunk of
// dimensions; all threads of a block pass all of them. `own_out` leaves out the pairs of query i and data row i.
__device__ inline void add_tile(Sums& sums, TileMemory& staged, const Pass& pass, long long at, long long end,
                                long long first_query, bool first, bool reaches, bool own_out = false) {
    const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
    const int d = pass.d;
    Real r2[side][side] = {};
    for (int k0 = 0; k0 < d; k0 += CHUNK) {
        __syncthreads();
        stage_chunk(staged.xs, pass.X, at, pass.n, k0, d, pass.unit);
        if (d > CHUNK || first) stage_chunk(staged.ys, pass.Y, first_query, pass.m, k0, d, pass.unit);
        if (k0 == 0 && threadIdx.x < tile) {
            const long long j = at + threadIdx.x;
            if (of_exponents) {
                staged.counts[threadIdx.x] = exponent_of_weight<Real>(pass.log_weights, j, end);
            } else {
                staged.counts[threadIdx.x] = j < end;
                staged.weights[threadIdx.x] = j < end && pass.log_weights ? exp(pass.log_weights[j]) : double(j < end);
            }
        }
        __syncthreads();
        if (reaches) add_squares(r2, staged.ys, staged.xs, d - k0 < CHUNK ? d - k0 : CHUNK, tx, ty);
    }
    if (!reaches) return;
    if (own_out && at == first_query && tx == ty) {
#pragma unroll
        for (int r = 0; r < side; r++) r2[r][r] = -Exponent<Real>::none / 4;  // farther than any point
    }
    if constexpr (of_exponents) {
        sums.add_exponentials(r2, staged.counts + tx * side, pass.scale);
    } else {
        const double* const own_weights = staged.weights + tx * side;
        unsigned at_edge = sums.add_values(r2, staged.counts + tx * side, pass.log_weights ? own_weights : nullptr,
                                           pass.scale, pass.edge_from, pass.edge_to);
        while (at_edge) {
            const int pair = __ffs(at_edge) - 1, r = pair / side, c = pair % side;
            at_edge &= at_edge - 1;
            const long long query = first_query + ty * side + r, i = query < pass.m ? query : pass.m - 1;
            const double q = squared_distance(pass.X + (at + tx * side + c) * d, pass.Y + i * d, d) / pass.squared_h;
            sums.add(r, own_weights[c] * value_in_double(q));
        }
    }
}
