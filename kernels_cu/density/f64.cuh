// Sums over all pairs of queries and data on the tensor cores in float64, from centred and scaled points (f64_operands.cu):
//
//   u_ij = z_i . z_j - |z_j|^2/2 + log2 w_j = e_ij + |z_i|^2/2
//
//   X            (rows, DEPTH)  double   z of the data
//   X_norms      (rows,)        double   -|z_j|^2/2 + log2 w_j; past the data `nothing` of f64_operands.cu
//   X_weights    (rows,)        double   log2 w_j, for output LAPLACE: then X_norms does not include it
//   Y            (rows, DEPTH)  double   z of the queries
//   V            (n, k)         double   values, for output VALUES
//   reference, total, moments            see pairs.cu
//   rows         data rows of a split, a multiple of 64
//   at_zero      1 + d/2, for output LAPLACE, of which k = 1
//   unit         unit of z in the units of the data, for output MOMENTS
//   own_out      leave out the pair of query i and data row i
//
// No reference is needed: a double holds 2^(e + shift) for any two points. With |z|^2 <= B, e is in [-2B, 0] before
// weights. If weights sum to 1, the largest is at least 1/n, so the largest term of a query is at least
// 2^(shift - 2B) / n. With shift = 940 and B = 620 log2(e) that is 2^-850 / n. Terms that come out as zero are below
// 2^-1021, and 2^50 of them are below the last bit of the sum. Sums stay below 2^941 n, times 2^12 for moments and the
// factor of LAPLACE. Values have their own range and no weights, so VALUES has no shift, and B = 350 log2(e).
//
// The exponential adds the integer nearest to -|z_i|^2/2, and the shift, to its exponents. The fraction goes to the
// reference; so does, at the end, the exponent of the total, which is then in [1, 2).
//
// WARPS warps; each keeps ROW_TILES x 16 queries in registers and goes through all data rows of a split. The data pass
// through shared memory in tiles of TILE rows, the next one fetched during the work on this one. A fragment of 2^u lies
// in registers as the left operand of the second matrix product: its columns 2t and 2t + 1 become t and t + 4 of the
// inner index, and so do the rows of the right operand, the points themselves for MOMENTS. In the first product
// dimensions 2t and 2t + 1 become these indices, so that a lane reads them at once. Data row row_of(g) is column g of
// the fragment. Then there are no bank conflicts: lanes read 16 bytes of rows row_of(2q) and row_of(2q + 1) in the first
// product, and 8 bytes of rows row_of(2t), or of rows row_of(2t + 1), in the second.
//
// Barriers: one a tile; all threads of a block pass all of them.
#pragma once
#include "exp2_f64.cuh"

constexpr int threads = 32 * WARPS;
constexpr int row_tiles = ROW_TILES;
constexpr int block_queries = WARPS * ROW_TILES * 16;
constexpr int steps = DEPTH / 8;  // of the first product

constexpr bool has_moments = output == MOMENTS || output == VALUES;
constexpr int columns = output == MOMENTS ? DEPTH : output == VALUES ? COLUMNS : 8;
constexpr int column_tiles = columns / 8;

// Groups of 8 data rows at a time: two, whose exponentials hide each other's latency, if registers are left.
constexpr int groups = row_tiles == 1 && DEPTH + (has_moments ? columns : 0) <= 48 ? 2 : 1;

constexpr int pitch = DEPTH + 4;  // doubles of a row in shared memory: see above
constexpr int value_pitch = COLUMNS + 4;

constexpr double shift = output == VALUES ? 0 : 940;

constexpr double nothing = -1048576;  // 2^nothing is zero, and an int holds it

struct Tile {
    alignas(16) double points[TILE][pitch];
    alignas(16) double norms[TILE];
    alignas(16) double weights[output == LAPLACE ? TILE : 2];
    alignas(16) double values[output == VALUES ? TILE : 1][value_pitch];
};

// The queries of a warp; each thread has rows g and g + 8 of each row tile.
struct Queries {
    double points[row_tiles][steps][4];
    double norm[row_tiles][2];  // -|z_i|^2/2
    double from[row_tiles][2];  // its nearest integer + shift, as exp2_from takes it
};

struct Sums {
    double total[row_tiles][2];                              // of the lane's columns
    double corrected[output == LAPLACE ? row_tiles : 1][2];  // of the same powers times the factors of LAPLACE
    double product[row_tiles][column_tiles][4];
};

// The data row of a group of 8 that is column g of its fragments.
__device__ inline int row_of(int g) { return (g & 4) + ((g ^ g >> 2) & 1) * 2 + (g >> 1 & 1); }

__device__ inline double nearest_integer(double x) { return x + magic - magic; }

// Call f(i) for all i < count, each by one thread.
template <int count, class F>
__device__ inline void for_each_thread(F f) {
#pragma unroll
    for (int begin = 0; begin < count; begin += threads) {
        const int i = begin + threadIdx.x;
        if (begin + threads <= count || i < count) f(i);
    }
}

// Begin to fetch data rows [first, first + TILE).
__device__ inline void fetch(Tile& to, const double* X, const double* X_norms, const double* X_weights, const double* V,
                             long long first, long long n, int first_column, int k) {
    constexpr int pieces = DEPTH / 2;  // of 16 bytes, a row
    for_each_thread<TILE * pieces>([&](int piece) {
        copy_async_16(&to.points[piece / pieces][piece % pieces * 2], X + first * DEPTH + piece * 2);
    });
    for_each_thread<TILE / 2>([&](int piece) {
        copy_async_16(&to.norms[piece * 2], X_norms + first + piece * 2);
        if constexpr (output == LAPLACE) copy_async_16(&to.weights[piece * 2], X_weights + first + piece * 2);
    });
    if constexpr (output == VALUES) {
        for_each_thread<TILE * columns>([&](int i) {
            const int row = i / columns, column = first_column + i % columns;
            const bool exists = first + row < n && column < k;
            copy_async_8(&to.values[row][i % columns], exists ? V + (first + row) * k + column : V, exists);
        });
    }
    copy_async_commit();
}

// Load the warp's queries, of which the first is row `first`; rows past the end repeat the last one.
__device__ inline void load(Queries& y, const double* Y, long long first, long long m) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const long long wanted = first + i * 16 + g + 8 * r, row = wanted < m ? wanted : m - 1;
            double square = 0;
#pragma unroll
            for (int s = 0; s < steps; s++) {
                const double2 pair = *reinterpret_cast<const double2*>(Y + row * DEPTH + s * 8 + 2 * t);
                y.points[i][s][r] = pair.x;
                y.points[i][s][r + 2] = pair.y;
                square = fma(pair.x, pair.x, fma(pair.y, pair.y, square));
            }
            y.norm[i][r] = -0.5 * sum_over_lanes<4>(square);
            y.from[i][r] = y.norm[i][r] + magic + shift;
        }
}

// Add the pairs of the warp's queries with the 8 x groups data rows of `x` from `row` on. Where the number of the first query
// is `below`, less than 8 x groups, more than that of the first data row, leave out those of one number.
__device__ inline void add_pairs(Sums& sums, const Queries& y, const Tile& x, int row, double at_zero, int below) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int own = row + row_of(g), even = row + row_of(2 * t), odd = row + row_of(2 * t + 1);

    double u[row_tiles][groups][4];
#pragma unroll
    for (int group = 0; group < groups; group++) {
        const double of_even = x.norms[even + group * 8], of_odd = x.norms[odd + group * 8];
        const double norms[4] = {of_even, of_odd, of_even, of_odd};
#pragma unroll
        for (int s = 0; s < steps; s++) {
            const double2 b = *reinterpret_cast<const double2*>(&x.points[own + group * 8][s * 8 + 2 * t]);
#pragma unroll
            for (int i = 0; i < row_tiles; i++) {
                double(&of_tile)[4] = u[i][group];
                if (s == 0) mma_f64_m16n8k8(of_tile, y.points[i][s], b.x, b.y, norms);
                else mma_f64_m16n8k8(of_tile, y.points[i][s], b.x, b.y, of_tile);
            }
        }
    }

    if (below < 8 * groups) {
#pragma unroll
        for (int group = 0; group < groups; group++)
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    if (below + 16 * i + g + c / 2 * 8 == 8 * group + row_of(2 * t + c % 2)) u[i][group][c] = nothing;
    }

#pragma unroll
    for (int group = 0; group < groups; group++)
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                double& place = u[i][group][c];
                if constexpr (output == LAPLACE) {
                    const double weight = x.weights[(c % 2 ? odd : even) + group * 8];
                    const double factor = fma(ln_2, place + y.norm[i][c / 2], at_zero);
                    double& corrected = sums.corrected[i][c / 2];
                    place = exp2_from(y.from[i][c / 2], place + weight);
                    corrected = fma(place, factor, corrected);
                } else {
                    place = exp2_from(y.from[i][c / 2], place);
                }
                sums.total[i][c / 2] += place;
            }

    if constexpr (has_moments) {
#pragma unroll
        for (int group = 0; group < groups; group++)
#pragma unroll
            for (int tile = 0; tile < column_tiles; tile++) {
                const int column = tile * 8 + g, first = even + group * 8, second = odd + group * 8;
                const double b0 = output == VALUES ? x.values[first][column] : x.points[first][column];
                const double b1 = output == VALUES ? x.values[second][column] : x.points[second][column];
#pragma unroll
                for (int i = 0; i < row_tiles; i++) {
                    const double(&power)[4] = u[i][group];
                    const double a[4] = {power[0], power[2], power[1], power[3]};
                    mma_f64_m16n8k8(sums.product[i][tile], a, b0, b1, sums.product[i][tile]);
                }
            }
    }
}

// Write the sums of the queries, of which the first is row `first`.
__device__ inline void write(const Sums& sums, const Queries& y, const double* Y, double* reference, double* total,
                             double* moments, long long first, long long m, int first_column, int k, double unit) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const double whole = sum_over_lanes<4>(sums.total[i][r]);
            double corrected = 0;
            if constexpr (output == LAPLACE) corrected = sum_over_lanes<4>(sums.corrected[i][r]);
            const long long query = first + i * 16 + g + 8 * r, row = blockIdx.z * m + query;
            if (query >= m) continue;
            // 2^-exponent brings the total to [1, 2). A total of zero stays zero, with a reference below all others.
            const int exponent = exponent_of(whole);
            const double factor = power_of_2(-exponent);
            if (t == 0 && blockIdx.y == 0) {
                const double rest = y.norm[i][r] - nearest_integer(y.norm[i][r]);
                reference[row] = (rest + (exponent - shift)) * ln_2;
                total[row] = whole * factor;
                if constexpr (output == LAPLACE) moments[row] = corrected * factor;
            }
            if constexpr (has_moments) {
#pragma unroll
                for (int c = 0; c < column_tiles * 2; c++) {
                    const int column = first_column + c / 2 * 8 + 2 * t + c % 2;
                    double moment = sums.product[i][c / 2][2 * r + c % 2];
                    if (column >= k) continue;
                    // Relative to the query, not to the centre.
                    if constexpr (output == MOMENTS) moment = fma(-whole, Y[query * DEPTH + column], moment);
                    moments[row * k + column] = moment * factor * unit;
                }
            }
        }
}

extern "C" __global__ void __launch_bounds__(threads, BLOCKS)
KERNEL(const double* __restrict__ X, const double* __restrict__ X_norms, const double* __restrict__ X_weights,
       const double* __restrict__ Y, const double* __restrict__ V,
       double* __restrict__ reference, double* __restrict__ total, double* __restrict__ moments, long long n,
       long long m, int k, long long rows, double at_zero, double unit, int own_out) {
    __shared__ Tile tiles[2];

    const long long first_query = (long long)blockIdx.x * block_queries + threadIdx.x / 32 * row_tiles * 16;
    const int first_column = blockIdx.y * columns;
    const long long begin = blockIdx.z * rows, end = begin + rows < n ? begin + rows : n;
    const int tile_count = (end - begin + TILE - 1) / TILE;

    fetch(tiles[0], X, X_norms, X_weights, V, begin, n, first_column, k);
    Queries y;
    load(y, Y, first_query, m);
    Sums sums = {};
#pragma unroll 1
    for (int at = 0; at < tile_count; at++) {
        copy_async_wait<0>();
        __syncthreads();
        const long long next = begin + (at + 1) * (long long)TILE;
        if (next < end) fetch(tiles[(at + 1) % 2], X, X_norms, X_weights, V, next, n, first_column, k);
#pragma unroll 1
        for (int row = 0; row < TILE; row += 8 * groups) {
            const long long below = first_query - (begin + at * (long long)TILE + row);
            const bool own_pairs = own_out && below > -16 * row_tiles && below < 8 * groups;
            add_pairs(sums, y, tiles[at % 2], row, at_zero, own_pairs ? int(below) : 8 * groups);
        }
    }
    write(sums, y, Y, reference, total, moments, first_query, m, first_column, k, unit);
}
