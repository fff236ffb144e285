// Sums over all pairs on the CUDA cores. r^2 = sum_k (y_ik - x_jk)^2 is computed from the differences, so nothing cancels,
// wherever the data lie.
//
//   X            (n, d)  STORAGE   data
//   Y            (m, d)  STORAGE   queries
//   V            (n, k)  REAL      values, for output VALUES
//   log_weights  (n,)    double    or null: all weights 1
//   fast_total   (fast_splits, m)  float   sums of another engine, or null: queries whose sums are below `least` in every
//                                          split are summed here
//   reference, total, moments      see pairs.cu
//   rows         data rows of a split, a multiple of 64; for a stack, those of a member
//   given_unit   a power of two that X and Y are multiplied by, so that r^2 stays in range for large h
//   given_scale  log2(e) / (2 (unit h)^2)
//   scales       (b,)    REAL      for a stack of b members, a split each, in place of given_scale; or null
//   units        (b,)    STORAGE   likewise
//   query_stride from the queries of a member to those of the next, in numbers; 0 if members share them
//   row_scales   (n,)    REAL      given_scale / lambda_j^2 for local factors lambda of the bandwidth, log w_j then being
//                                  those of w_j / lambda_j^d; or null
//   of_gradient  whether terms of moments of differences, not those of totals, are divided by lambda_j^2
//   own_out      leave out the pair of query i and data row i
//
// 16 x 16 threads, each with 4 x 4 pairs of the tile of 64 x 64. STORAGE double with REAL float splits each
// number into hi + lo floats, and a difference is (x_hi - y_hi) + (x_lo - y_lo).
//
// Up to 8 columns of moments stay with the thread that owns the pairs; each thread then has its own references. More
// columns go through a tile of 2^(e - a) in shared memory, as a second matrix product in which a thread owns 4 queries x
// COLUMNS / 16 columns. Barriers: two for each chunk of dimensions and each group of staged rows; all threads of a block
// pass all of them.
#pragma once

#include "squared_distances.cuh"

constexpr bool has_moments = output != SUM;
constexpr bool of_differences = output == MOMENTS || output == LAPLACE_MOMENTS;  // moments are sums of x - y
constexpr bool corrects = output == LAPLACE || output == LAPLACE_MOMENTS;
constexpr bool staged = COLUMNS > 8;  // moments through a tile of 2^(e - a), with LAPLACE_MOMENTS times its factor
constexpr int columns = COLUMNS ? COLUMNS : 1;
constexpr int columns_of_thread = staged ? COLUMNS / lanes : columns;

// Blocks of a multiprocessor at a time: it decides how many registers a thread may have.
#if __CUDA_ARCH__ >= 1000  // 64 columns need a few registers more there than two blocks leave
constexpr bool many = columns == 64;
#else
constexpr bool many = columns == 64 && sizeof(Real) == 8;
#endif
constexpr bool crowded = many || (sizeof(Real) == 8 && output == LAPLACE_MOMENTS && !staged);
constexpr int blocks_at_once = crowded ? 1 : sizeof(Real) == 4 && CHUNK <= 4 && columns == 1 ? 3 : 2;

// Coordinates of queries and data rows of a chunk lie as [CHUNK][pitch], staged columns as [row][COLUMNS], in
// the same buffer at different times.
constexpr int buffer_size = staged && 2 * chunk_size < 1024 ? 1024 : 2 * chunk_size;
constexpr int staged_rows = !staged ? 1 : buffer_size / columns >= tile ? tile : buffer_size / columns >= 32 ? 32 : 16;

constexpr int rows_at_once = columns_of_thread == 4 || sizeof(Real) == 8 ? 2 : 4;  // of the second product

// What an exponent takes of a data row: in one load, as registers are few.
struct alignas(2 * sizeof(Real)) DataRow {
    Real log2_weight, scale;
};

// The sums of a thread, for each of its queries.
struct Sums {
    Real reference[side];
    Real total[side];
    Real moments[side][columns_of_thread];

    __device__ void begin() {
#pragma unroll
        for (int r = 0; r < side; r++) {
            reference[r] = Exponent<Real>::least;
            empty(r);
        }
    }

    __device__ void empty(int r) {
        total[r] = 0;
#pragma unroll
        for (int c = 0; c < columns_of_thread; c++) moments[r][c] = 0;
    }

    // Give each lane the sums over the lanes that share its query, and their common reference.
    __device__ void share() {
#pragma unroll
        for (int r = 0; r < side; r++) raise(r, largest_over_lanes<lanes>(reference[r]));
#pragma unroll 1
        for (int step = lanes / 2; step > 0; step /= 2) {
#pragma unroll
            for (int r = 0; r < side; r++) {
                total[r] += __shfl_xor_sync(~0u, total[r], step);
                if (has_moments && !staged) {
#pragma unroll
                    for (int c = 0; c < columns_of_thread; c++)
                        moments[r][c] += __shfl_xor_sync(~0u, moments[r][c], step);
                }
            }
        }
    }

    // Make sums relative to `larger_reference`.
    __device__ void raise(int r, Real larger_reference) {
        const Real factor = exp2_of(reference[r] - larger_reference);
        reference[r] = larger_reference;
        total[r] *= factor;
#pragma unroll
        for (int c = 0; c < columns_of_thread; c++) moments[r][c] *= factor;
    }
};

// Add the tile's moments, sum_j 2^(e - a) times differences or values: the second matrix product, for a group of staged
// rows of X or V at a time.
__device__ inline void add_staged_moments(Sums& sums, const Real* powers, Coordinate* buffer, const Storage* X,
                                          const Storage* Y, const Real* V, long long first_query, long long m,
                                          long long first_row, long long end, int first_column, int d, int k,
                                          Storage unit, int tx, int ty) {
    Real* const value_buffer = reinterpret_cast<Real*>(buffer);
    Coordinate y[side][columns_of_thread];
    if (of_differences) {
#pragma unroll
        for (int r = 0; r < side; r++) {
            const long long i = first_query + ty * side + r < m ? first_query + ty * side + r : m - 1;
#pragma unroll
            for (int c = 0; c < columns_of_thread; c++) {
                const int column = first_column + tx * columns_of_thread + c;
                if (column < d) put(Y[i * d + column] * unit, y[r][c]);
                else clear(y[r][c]);
            }
        }
    }
    for (int j0 = 0; j0 < tile; j0 += staged_rows) {
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x; i < staged_rows * columns; i += threads) {
            const int column = first_column + i % columns;
            const long long from = first_row + j0 + i / columns;
            const long long j = from < end ? from : end - 1;
            if (output == VALUES) value_buffer[i] = column < k ? V[j * k + column] : Real(0);
            else if (column < d) put(X[j * d + column] * unit, buffer[i]);
            else clear(buffer[i]);
        }
        __syncthreads();
#pragma unroll 1
        for (int j = 0; j < staged_rows; j += rows_at_once) {
            Real power[side][rows_at_once];
#pragma unroll
            for (int r = 0; r < side; r++)
#pragma unroll
                for (int s = 0; s < rows_at_once; s++) power[r][s] = powers[(ty * side + r) * pitch + j0 + j + s];
#pragma unroll
            for (int s = 0; s < rows_at_once; s++)
#pragma unroll
                for (int c = 0; c < columns_of_thread; c++) {
                    const int place = (j + s) * columns + tx * columns_of_thread + c;
#pragma unroll
                    for (int r = 0; r < side; r++) {
                        const Real factor = output == VALUES ? value_buffer[place] : difference(buffer[place], y[r][c]);
                        sums.moments[r][c] = multiply_add(power[r][s], factor, sums.moments[r][c]);
                    }
                }
        }
    }
}

// Whether another engine has left any of the block's queries to this kernel: those whose totals are too small in every
// split. All threads of a block pass the barriers.
__device__ inline bool wanted(const float* fast_total, long long first_query, long long m, int fast_splits, float least) {
    if (!fast_total) return true;
    __shared__ int served[tile], any;
    if (threadIdx.x < tile) served[threadIdx.x] = first_query + threadIdx.x >= m;
    if (threadIdx.x == 0) any = 0;
    __syncthreads();
    const int query = threadIdx.x % tile;
    if (first_query + query < m) {
        for (int s = threadIdx.x / tile; s < fast_splits; s += threads / tile)
            if (fast_total[s * m + first_query + query] >= least) served[query] = 1;
    }
    __syncthreads();
    if (threadIdx.x < tile && !served[threadIdx.x]) any = 1;
    __syncthreads();
    return any;
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
KERNEL(const Storage* __restrict__ X, const Storage* __restrict__ Y, const Real* __restrict__ V,
       const double* __restrict__ log_weights, const float* __restrict__ fast_total,
       double* __restrict__ reference, double* __restrict__ total, double* __restrict__ moments, long long n, long long m,
       int d, int k, long long rows, int fast_splits, Storage given_unit, Real given_scale, float least,
       const Real* __restrict__ scales, const Storage* __restrict__ units, long long query_stride,
       const Real* __restrict__ row_scales, int of_gradient, int own_out) {
    alignas(16) __shared__ Coordinate buffer[buffer_size];
    alignas(16) __shared__ Real powers[staged ? tile * pitch : 1];  // 2^(e - a); at the end, moments
    alignas(16) __shared__ Real values[output == VALUES && !staged ? columns * pitch : 1];
    __shared__ DataRow data_rows[tile];
    __shared__ Real references[tile], rescales[tile], totals[tile], few_moments[staged ? 1 : tile * columns];
    Real* const tile_of_sums = staged ? powers : few_moments;
    constexpr int sums_pitch = staged ? pitch : columns;
    Coordinate* const ys = buffer;
    Coordinate* const xs = buffer + chunk_size;

    const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
    const long long first_query = (long long)blockIdx.x * tile;
    if (!wanted(fast_total, first_query, m, fast_splits, least)) return;
    const int first_column = blockIdx.y * columns;
    const long long begin = blockIdx.z * rows;
    const long long end = begin + rows < n ? begin + rows : n;
    // For a stack a split is a member: rows past its end belong to another member and are not even read. The member's
    // own numbers are kept in shared memory, as registers are few; the first barrier below comes before their first use.
    __shared__ Real at_zero;  // the factor of two points at one place
    __shared__ Storage unit;
    __shared__ int own_tile;  // whose data rows have the numbers of the queries, with own_out
    if (threadIdx.x < tile) data_rows[threadIdx.x].scale = scales ? scales[blockIdx.z] : given_scale;
    if (threadIdx.x == 0) {
        unit = units ? units[blockIdx.z] : given_unit;
        own_tile = own_out && first_query >= begin ? (first_query - begin) / tile : -1;
        if (corrects) at_zero = Real((output == LAPLACE ? 1 : 2) + 0.5 * d);
    }
    Y += blockIdx.z * query_stride;

    Sums sums;
    sums.begin();
    const int tiles = (end - begin + tile - 1) / tile;
    for (int t = 0; t < tiles; t++) {
        const long long at = begin + (long long)t * tile;
        // 1. r^2
        Real r2[side][side] = {};
        for (int k0 = 0; k0 < d; k0 += CHUNK) {
            __syncthreads();
            stage_chunk(xs, X, at, end, k0, d, unit);
            if (staged || d > CHUNK || t == 0) stage_chunk(ys, Y, first_query, m, k0, d, unit);
            if (k0 == 0) {
                if (threadIdx.x < tile) {
                    const long long j = at + threadIdx.x;
                    data_rows[threadIdx.x].log2_weight = exponent_of_weight<Real>(log_weights, j, end);
                    if (row_scales) data_rows[threadIdx.x].scale = j < end ? row_scales[j] : Real(0);
                }
                if (output == VALUES && !staged) {
                    for (int i = threadIdx.x; i < tile * columns; i += threads) {
                        const long long j = at + i / columns;
                        const int c = i % columns;
                        values[c * pitch + i / columns] = j < end && c < k ? V[j * k + c] : Real(0);
                    }
                }
            }
            __syncthreads();
            add_squares(r2, ys, xs, d - k0 < CHUNK ? d - k0 : CHUNK, tx, ty);
        }

        // 2. exponents, reference, powers
#pragma unroll
        for (int r = 0; r < side; r++) {
            Real exponents[side];
            Real largest = sums.reference[r];
#pragma unroll
            for (int c = 0; c < side; c++) {
                const DataRow& x = data_rows[tx * side + c];
                exponents[c] = multiply_add(-x.scale, r2[r][c], x.log2_weight);
                // (Staged ones have no register left for whether tx is ty.)
                if (output != VALUES && r == c && t == own_tile && (staged ? computed_here(tx) : tx) == ty)
                    exponents[c] = Exponent<Real>::none;
                largest = larger(largest, exponents[c]);
            }
            if (staged) largest = largest_over_lanes<lanes>(largest);
            if (largest > sums.reference[r]) sums.raise(r, largest);
#pragma unroll
            for (int c = 0; c < side; c++) {
                const Real power = exp2_of(exponents[c] - largest);
                const Real scale = data_rows[tx * side + c].scale;
                const Real correction = corrects ? at_zero - Real(ln_2) * scale * r2[r][c] : Real(1);
                sums.total[r] += power;
                if (output == LAPLACE) sums.moments[r][0] = multiply_add(power, correction, sums.moments[r][0]);
                r2[r][c] = output == LAPLACE_MOMENTS ? power * correction : power;
            }
        }

        // 3. moments
        if constexpr (has_moments && output != LAPLACE && !staged) {
            if (of_differences && of_gradient) {
#pragma unroll
                for (int c = 0; c < side; c++)
#pragma unroll
                    for (int r = 0; r < side; r++) r2[r][c] *= data_rows[tx * side + c].scale;
            }
#pragma unroll
            for (int column = 0; column < columns; column++) {
#pragma unroll
                for (int c = 0; c < side; c++)
#pragma unroll
                    for (int r = 0; r < side; r++) {
                        Real factor;
                        if constexpr (output == VALUES) factor = values[column * pitch + tx * side + c];
                        else factor = difference(xs[column * pitch + tx * side + c], ys[column * pitch + ty * side + r]);
                        sums.moments[r][column] = multiply_add(r2[r][c], factor, sums.moments[r][column]);
                    }
            }
        }
        if constexpr (staged) {
#pragma unroll
            for (int r = 0; r < side; r++)
#pragma unroll
                for (int c = 0; c < side; c++) powers[(ty * side + r) * pitch + tx * side + c] = r2[r][c];
            if (of_differences && of_gradient) {  // where they lie: registers are few
#pragma unroll 1
                for (int i = 0; i < side * side; i++)
                    powers[(ty * side + i / side) * pitch + tx * side + i % side] *= data_rows[tx * side + i % side].scale;
            }
            add_staged_moments(sums, powers, buffer, X, Y, V, first_query, m, at, end, first_column, d, k, unit, tx, ty);
        }

        // 4. results
        if ((t + 1) % tiles_per_accumulator && t + 1 < tiles) continue;
        const bool first_time = t < tiles_per_accumulator;
        sums.share();
        __syncthreads();
#pragma unroll
        for (int r = 0; r < side; r++) {
            const int query = ty * side + r;
            if (tx == 0) {
                rescales[query] = first_time ? Real(0) : exp2_of(references[query] - sums.reference[r]);
                references[query] = sums.reference[r];
                totals[query] = sums.total[r];
            }
            if (staged || tx == 0) {
#pragma unroll
                for (int c = 0; c < columns_of_thread; c++)
                    tile_of_sums[query * sums_pitch + (staged ? tx * columns_of_thread + c : c)] = sums.moments[r][c];
            }
            sums.empty(r);
        }
        __syncthreads();
        const long long row = blockIdx.z * m + first_query;
        for (int i = threadIdx.x; i < tile; i += threads) {
            if (first_query + i < m && blockIdx.y == 0) {
                reference[row + i] = references[i] * ln_2;
                accumulate(total[row + i], totals[i], rescales[i], first_time);
            }
        }
        if (has_moments) {
            double length = of_differences ? 1 / double(unit) : 1;
            if (of_differences && of_gradient) length /= given_scale;
            for (int i = threadIdx.x; i < tile * columns; i += threads) {
                const int query = i / columns, column = first_column + i % columns;
                if (first_query + query < m && column < k)
                    accumulate(moments[(row + query) * k + column],
                               length * tile_of_sums[query * sums_pitch + i % columns], rescales[query], first_time);
            }
        }
    }
}
