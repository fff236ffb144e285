// Sums over all unordered pairs of data rows, for cross-validation; r2 = |x_i - x_j|^2, i < j:
//
//   LEAST_SQUARES           sum u_i u_j value_b(r2)                                          for each bandwidth b
//   LEAST_SQUARES_GRADIENT  sum u_i u_j value(r2) (x_ik - x_jk)^2                            for each dimension k
//   LIKELIHOOD_GRADIENT     sum u_i u_j [2^(c r2 - l_i) + 2^(c r2 - l_j)] (x_ik - x_jk)^2    for each dimension k
//
//   value(r2) = f [p0 + p1 a + p2 a^2 + (v_i + v_j) f (r0 + r1 a)],  a = c r2,  f = 2^a,  c < 0
//
//   lines    (., padded)       REAL    unit x_j in `dimensions` lines, of which d hold coordinates and others zeros;
//                                      u_j in one, and v_j in one, which is -l_j for LIKELIHOOD_GRADIENT. Without weights
//                                      u_j is 1 and v_j a half. Past the end any numbers; see lines.cuh
//   terms    (count, 8)        REAL    c, p0, p1, p2, r0, r1 and two unused numbers, for each bandwidth. Without weights
//                                      r0 and r1 include v_i + v_j, which is the same for all pairs
//   sums     (warps, columns)  double  zero before; a column for each bandwidth or dimension, a multiple of 4 of them
//   unit     a power of two that keeps r2 in range; c and the gradients include it
//   limit    larger r2 are replaced by it; there f is zero for every bandwidth and a^2 finite; for the first two
//
// Tiles of 64 x 64 pairs at and above the diagonal are numbered column by column. Every block takes the same number of
// tiles, one after another: grid x over blocks. 16 x 16 threads have 4 x 4 pairs each and compute their squared distances
// once for all bandwidths; a gradient goes over the dimensions twice. The sum of a thread's pairs of a tile is of type
// REAL. For one bandwidth threads add these sums in double. For several, and for the dimensions of a gradient, sums over
// a warp are of type REAL, and lanes add them to the warp's own row of `sums`, in double and in the order of its tiles.
// (These additions are atomic only so that the warp does not wait for their results.) Every run gives the same bits.
// Barriers: two each time that anything is staged; all threads of a block pass all of them.
//
// Macros: KERNEL the name; OPERATION one of the three; REAL the arithmetic.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "lines.cuh"
#include "exp2_f64.cuh"
#include "lane_sums.cuh"

enum Operation { LEAST_SQUARES, LEAST_SQUARES_GRADIENT, LIKELIHOOD_GRADIENT };
constexpr Operation operation = OPERATION;

// Per multiprocessor. In double, squared distances and the numbers of rows take more than half of its registers.
#if __CUDA_ARCH__ / 100 == 10  // a few more there than two blocks leave
constexpr bool crowded = operation != LIKELIHOOD_GRADIENT;
#else
constexpr bool crowded = operation == LEAST_SQUARES;
#endif
constexpr int blocks_at_least = sizeof(Real) == 8 && crowded ? 1 : 2;
constexpr int group = 4;  // sums of a warp at a time

struct alignas(16) Term {
    Real c, p0, p1, p2, r0, r1, none[2];
};

// 2^a for a <= 0, at least the value at `limit`.
__device__ inline float power(float a) { return exp2_approx(a); }
__device__ inline double power(double a) { return exp2_from(magic, a); }

// value(r2) / f; the sum multiplies by f.
template <bool weighted>
__device__ inline Real value_by_power(const Term& of, Real a, Real f, Real factors) {
    const Real p = multiply_add(a, multiply_add(a, of.p2, of.p1), of.p0);
    return multiply_add(weighted ? factors * f : f, multiply_add(a, of.r1, of.r0), p);
}

// Add the sums over a warp of `values`, which are lost, to so many neighbours in `to`.
__device__ inline void add_over_warp(Real (&values)[group], Real* scratch, double* to) {
    __syncwarp();  // what was here has been read
    sum_over_lanes(values, scratch);
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (lane < group) atomicAdd(to + lane, double(scratch[lane]));
}

// The numbers of a thread's rows or columns.
struct Properties {
    Four weight;  // u_i
    Four factor;  // v_i, or a half; of LIKELIHOOD_GRADIENT -l_i

    __device__ Properties(const Real* from, int pitch) : weight(four_at(from)), factor(four_at(from + pitch)) {}
};

// Add value_b of a thread's squared distances to the warp's sums, for all bandwidths, or to the thread's for the one.
template <bool weighted>
__device__ inline void add_values(const Real (&pairs)[side][side], const Term* terms, int count,
                                  const Properties& of_rows, const Properties& of_columns, Real* scratch, double* to,
                                  double& to_one) {
    Real of_group[group] = {};
    const int turns = count == 1 ? 1 : (count + group - 1) / group * group;
#pragma unroll 1
    for (int b = 0; b < turns; b++) {
        // Registers have no changing index, and no room for four bandwidths at once.
#pragma unroll
        for (int g = 1; g < group; g++) of_group[g - 1] = of_group[g];
        Real& total = of_group[group - 1];
        total = 0;
        if (b < count) {
            const Term term = terms[b];
#pragma unroll
            for (int r = 0; r < side; r++) {
                Real sum = 0;
#pragma unroll
                for (int c = 0; c < side; c++) {
                    const Real a = term.c * pairs[r][c], f = power(a);
                    const Real factors = of_rows.factor.of[r] + of_columns.factor.of[c];
                    const Real value = value_by_power<weighted>(term, a, f, factors);
                    sum = multiply_add(weighted ? of_columns.weight.of[c] * f : f, value, sum);
                }
                total = weighted ? multiply_add(of_rows.weight.of[r], sum, total) : total + sum;
            }
        }
        if (count == 1) to_one += total;
        else if (b % group == group - 1) add_over_warp(of_group, scratch, to + b / group * group);
    }
}

// Column of the tile of a number among those at and above the diagonal, counted through by columns.
__device__ inline long long column_of(long long number) {
    long long column = (long long)(0.5 * (sqrt(8.0 * number + 1) - 1));
    while (column * (column + 1) / 2 > number) column--;
    while ((column + 1) * (column + 2) / 2 <= number) column++;
    return column;
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const Real* __restrict__ lines, const Term* __restrict__ terms, double* __restrict__ sums, long long n,
       long long padded, int d, int dimensions, int count, int columns, int weighted, Real limit) {
    alignas(16) __shared__ Real ys[staged], xs[staged];
    alignas(16) __shared__ Real of_rows[2 * wide], of_columns[2 * tile];
    alignas(16) __shared__ Real scratch_of_warps[threads / 32][group];

    const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes, warp = threadIdx.x / 32;
    Real* const scratch = scratch_of_warps[warp];
    double* const own_sums = sums + ((long long)blockIdx.x * (threads / 32) + warp) * columns;
    double own_sum = 0;  // of one bandwidth
    const Real* const properties = lines + dimensions * padded;
    const bool shallow = dimensions <= chunk;
    const int pitch = shallow ? wide : tile;  // of rows

    const long long tiles = (n + tile - 1) / tile, all = tiles * (tiles + 1) / 2;
    const long long share = (all + gridDim.x - 1) / gridDim.x;
    const long long begin = blockIdx.x * share, end = begin + share < all ? begin + share : all;
    long long tile_column = column_of(begin), tile_row = begin - tile_column * (tile_column + 1) / 2;
    bool new_column = true;
    for (long long number = begin; number < end;) {
        const long long rows_left = tile_column + 1 - tile_row, tiles_left = end - number;
        const int together = int(min((long long)(pitch / tile), min(rows_left, tiles_left)));
        const long long first_column = tile_column * tile;
        if (shallow) {
            __syncthreads();
            stage_lines<wide>(ys, lines + tile_row * tile, padded, dimensions);
            stage_lines<wide>(of_rows, properties + tile_row * tile, padded, 2);
            if (new_column) {
                stage_lines<tile>(xs, lines + first_column, padded, dimensions);
                stage_lines<tile>(of_columns, properties + first_column, padded, 2);
            }
            __syncthreads();
        }
#pragma unroll 1
        for (int one = 0; one < together; one++) {
            const long long first_row = (tile_row + one) * tile;
            const int row = one * tile + ty * side, column = tx * side;  // the thread's first
            Real pairs[side][side] = {};                                 // r^2; of a gradient then its weights
            Real none[side][side];
            const auto stage = [&](int k0) {
                const int used = dimensions - k0 < deep ? dimensions - k0 : deep;
                __syncthreads();
                stage_lines<tile>(ys, lines + k0 * padded + first_row, padded, used);
                stage_lines<tile>(xs, lines + k0 * padded + first_column, padded, used);
                if (k0 == 0) {
                    stage_lines<tile>(of_rows, properties + first_row, padded, 2);
                    stage_lines<tile>(of_columns, properties + first_column, padded, 2);
                }
                __syncthreads();
            };
            if (shallow) {
                add_dimensions<false>(pairs, none, ys + row, wide, xs + column, xs, tile, d);
            } else {
#pragma unroll 1
                for (int k0 = 0; k0 < d; k0 += deep) {
                    stage(k0);
                    add_chunks<false>(pairs, none, ys + row, xs + column, xs, d - k0 < deep ? d - k0 : deep);
                }
            }

            // Pairs that count: i < j < n. Of most tiles all do.
            const bool edge = first_row == first_column || first_column + tile > n;
            const auto counts = [=](int r, int c) {
                return first_row + ty * side + r < first_column + column + c && first_column + column + c < n;
            };
            const Properties own_rows(of_rows + row, pitch), own_columns(of_columns + column, tile);
            if constexpr (operation == LEAST_SQUARES) {
#pragma unroll
                for (int r = 0; r < side; r++)
#pragma unroll
                    for (int c = 0; c < side; c++) {
                        pairs[r][c] = smaller(pairs[r][c], limit);
                        if (edge && !counts(r, c)) pairs[r][c] = limit;
                    }
                if (weighted)
                    add_values<true>(pairs, terms, count, own_rows, own_columns, scratch, own_sums, own_sum);
                else
                    add_values<false>(pairs, terms, count, own_rows, own_columns, scratch, own_sums, own_sum);
            } else {
                const Term term = terms[0];
#pragma unroll
                for (int r = 0; r < side; r++)
#pragma unroll
                    for (int c = 0; c < side; c++) {
                        const Real u_i = own_rows.weight.of[r], u_j = own_columns.weight.of[c];
                        Real of_pair;
                        if constexpr (operation == LIKELIHOOD_GRADIENT) {
                            // Of a row far from all others both terms are large: what the product rounds would count.
                            const Real e_i = multiply_add(term.c, pairs[r][c], own_rows.factor.of[r]);
                            const Real e_j = multiply_add(term.c, pairs[r][c], own_columns.factor.of[c]);
                            // What stands in the inner brackets is bounded, however small u_i and u_j.
                            of_pair = u_i * (u_j * exp2_of(e_i)) + u_j * (u_i * exp2_of(e_j));
                        } else {
                            const Real a = term.c * smaller(pairs[r][c], limit), f = power(a);
                            const Real both = own_rows.factor.of[r] + own_columns.factor.of[c];
                            of_pair = u_i * (u_j * (f * value_by_power<true>(term, a, f, both)));
                        }
                        // It is infinite where a row far from all others is its own neighbour.
                        pairs[r][c] = edge && !counts(r, c) ? Real(0) : of_pair;
                    }
                for (int k0 = 0; k0 < d; k0 += deep) {
                    if (dimensions > deep) stage(k0);
#pragma unroll 1
                    for (int k = 0; k < deep && k0 + k < d; k += group) {
                        Real of_group[group] = {};
#pragma unroll
                        for (int g = 0; g < group; g++) {
                            const Four y = four_at(ys + (k + g) * pitch + row);
                            const Four x = four_at(xs + (k + g) * tile + column);
#pragma unroll
                            for (int r = 0; r < side; r++)
#pragma unroll
                                for (int c = 0; c < side; c++) {
                                    const Real step = x.of[c] - y.of[r];
                                    of_group[g] = multiply_add(pairs[r][c] * step, step, of_group[g]);
                                }
                        }
                        add_over_warp(of_group, scratch, own_sums + k0 + k);
                    }
                }
            }
        }
        number += together;
        tile_row += together;
        new_column = tile_row > tile_column;
        if (new_column) {
            tile_column++;
            tile_row = 0;
        }
    }
    if (operation == LEAST_SQUARES && count == 1) {
        own_sum = sum_over_lanes<32>(own_sum);
        if (threadIdx.x % 32 == 0) own_sums[0] = own_sum;
    }
}
