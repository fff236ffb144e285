// Study, not for use: Gaussian sums, and sums of the points weighted by them, in the straightforward way on the tensor
// cores, by nvcuda::wmma in TF32. The kernels of density/pairs.cu are measured against it; no public function reaches it.
//
//   z    = (point - centre) sqrt(log2 e) / h
//   e_ij = z_i . z_j - |z_i|^2/2 - |z_j|^2/2,  z rounded to TF32 in the product and in the norms
//   S_i  = sum_j p_ij                          p = 2^e; for output MOMENTS rounded to TF32
//   M_ik = sum_j p_ij z_jk                     output MOMENTS: the score is (M/S - z_i) / (sqrt(log2 e) h)
//
//   X, Y     (n, DEPTH), (m, DEPTH)  float  z of the data and of the queries, columns past the dimensions zero
//   X_norms  (n,)                    float  -|z|^2/2 of the rounded z
//   Y_norms  (m,)                    float
//   total    (m,)                    float  S_i
//   moments  (m, DEPTH)              float  M_ik, not yet about the query; null for output SUM
//
// One block owns 64 queries, 16 for each warp, and goes through all data in tiles of 64. For each tile a warp computes four
// 16 x 16 accumulators from fragments of 16 x 16 x 8, and stores them to shared memory. wmma does not define which lane
// holds which element of a fragment, so norms and exponentials are applied there: a lane takes two columns of each of the
// 16 rows, and sums in registers, in float. For the moments it writes p back, and fragments of the second matrix product,
// P X, are loaded from there; its right operand is the tile that the first product read, by rows.
//
// There is no reference exponent: numbers below 2^-126 are lost, and a query far from all data has no score. Barriers:
// two a tile and two before the first; all threads of a block pass all of them.
//
// Source: Flash-SD-KDE, section 3 (both products) and 4.1 (tiles of 16 x 16, streaming accumulation). There several blocks
// add atomically what one block sums here.
//
// Macros: KERNEL the name; OUTPUT one of SUM, MOMENTS; DEPTH the dimensions rounded up to a multiple of 8, at most 64.
#include <mma.h>

#include "ptx.cuh"

namespace wmma = nvcuda::wmma;

enum Output { SUM, MOMENTS };
constexpr bool has_moments = OUTPUT == MOMENTS;

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int rows = 16, depth_of_fragment = 8;  // of the fragments: 16 x 16 x 8
constexpr int tile = 64;                         // data rows, and queries of a block
constexpr int steps = DEPTH / depth_of_fragment;

// Of staged rows: those of the moments fill fragments 16 wide.
constexpr int column_groups = (DEPTH + rows - 1) / rows;
constexpr int columns = has_moments ? column_groups * rows : DEPTH;

// Of rows in shared memory: multiples of 16 bytes, as wmma wants, that do not all begin at one bank.
constexpr int pitch = columns + 4;
constexpr int pair_pitch = tile + 4;

// The norm of a row that does not exist: 2^norm is zero.
constexpr float none = -1e30f;

template <typename Use, typename Layout>
using Operand = wmma::fragment<Use, rows, rows, depth_of_fragment, wmma::precision::tf32, Layout>;
using Accumulator = wmma::fragment<wmma::accumulator, rows, rows, depth_of_fragment, float>;

template <typename Fragment>
__device__ inline void load_rounded(Fragment& fragment, const float* from) {
    wmma::load_matrix_sync(fragment, from, pitch);
#pragma unroll
    for (int i = 0; i < fragment.num_elements; i++) fragment.x[i] = wmma::__float_to_tf32(fragment.x[i]);
}

// Stage 64 rows of A from `first` on, zeros past their end and past the last row.
__device__ inline void stage(float (&to)[tile][pitch], const float* A, long long first, long long rows_of_A) {
    for (int i = threadIdx.x; i < tile * columns; i += threads) {
        const long long row = first + i / columns;
        const int k = i % columns;
        to[i / columns][k] = row < rows_of_A && k < DEPTH ? A[row * DEPTH + k] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const float* __restrict__ X, const float* __restrict__ Y, const float* __restrict__ X_norms,
       const float* __restrict__ Y_norms, float* __restrict__ total, float* __restrict__ moments, long long n,
       long long m) {
    __shared__ __align__(32) float points[tile][pitch];  // queries at first, then data
    __shared__ __align__(32) float pairs[warps][rows][pair_pitch];
    __shared__ float data_norms[tile], query_norms[warps][rows];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long first_query = (long long)blockIdx.x * tile;
    if (threadIdx.x < tile) {
        const long long i = first_query + threadIdx.x;
        query_norms[threadIdx.x / rows][threadIdx.x % rows] = i < m ? Y_norms[i] : none;
    }
    stage(points, Y, first_query, m);
    __syncthreads();
    Operand<wmma::matrix_a, wmma::row_major> queries[steps];
#pragma unroll
    for (int k = 0; k < steps; k++) load_rounded(queries[k], &points[warp * rows][k * depth_of_fragment]);
    __syncthreads();

    float sum[rows] = {};  // the lane's part of each query of the warp
    Accumulator moment[column_groups];
    if constexpr (has_moments) {
#pragma unroll
        for (Accumulator& of_columns : moment) wmma::fill_fragment(of_columns, 0.0f);
    }
    for (long long first = 0; first < n; first += tile) {
        stage(points, X, first, n);
        if (threadIdx.x < tile) data_norms[threadIdx.x] = first + threadIdx.x < n ? X_norms[first + threadIdx.x] : none;
        __syncthreads();

#pragma unroll
        for (int j = 0; j < tile; j += rows) {
            Accumulator product;
            wmma::fill_fragment(product, 0.0f);
#pragma unroll
            for (int k = 0; k < steps; k++) {
                Operand<wmma::matrix_b, wmma::col_major> data;
                load_rounded(data, &points[j][k * depth_of_fragment]);
                wmma::mma_sync(product, queries[k], data, product);
            }
            wmma::store_matrix_sync(&pairs[warp][0][j], product, pair_pitch, wmma::mem_row_major);
        }
        __syncwarp();
#pragma unroll
        for (int row = 0; row < rows; row++) {
            const float of_query = query_norms[warp][row];
            float powers[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int j = lane + 32 * half;
                powers[half] = exp2_approx(pairs[warp][row][j] + of_query + data_norms[j]);
                // Moments are divided by the total, so both must sum the same numbers.
                if constexpr (has_moments) pairs[warp][row][j] = powers[half] = wmma::__float_to_tf32(powers[half]);
            }
            sum[row] += powers[0] + powers[1];
        }
        if constexpr (has_moments) {
            __syncwarp();
            // Tensor cores truncate sums towards zero, so their sums cover only one tile.
            Accumulator of_tile[column_groups];
#pragma unroll
            for (Accumulator& of_columns : of_tile) wmma::fill_fragment(of_columns, 0.0f);
#pragma unroll 2  // all of them at once take registers for loads that are not yet wanted: spills
            for (int j = 0; j < tile; j += depth_of_fragment) {
                Operand<wmma::matrix_a, wmma::row_major> powers;
                wmma::load_matrix_sync(powers, &pairs[warp][0][j], pair_pitch);
#pragma unroll
                for (int group = 0; group < column_groups; group++) {
                    Operand<wmma::matrix_b, wmma::row_major> data;
                    load_rounded(data, &points[j][group * rows]);
                    wmma::mma_sync(of_tile[group], powers, data, of_tile[group]);
                }
            }
#pragma unroll
            for (int group = 0; group < column_groups; group++)
#pragma unroll
                for (int i = 0; i < moment[group].num_elements; i++) moment[group].x[i] += of_tile[group].x[i];
        }
        __syncthreads();
    }

#pragma unroll
    for (int row = 0; row < rows; row++) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum[row] += __shfl_xor_sync(~0u, sum[row], step);
        const long long i = first_query + warp * rows + row;
        if (lane == 0 && i < m) total[i] = sum[row];
    }
    if constexpr (has_moments) {
#pragma unroll
        for (int group = 0; group < column_groups; group++)
            wmma::store_matrix_sync(&pairs[warp][0][group * rows], moment[group], pair_pitch, wmma::mem_row_major);
        __syncwarp();
        for (int k = lane; k < rows * DEPTH; k += 32) {
            const long long i = first_query + warp * rows + k / DEPTH;
            if (i < m) moments[i * DEPTH + k % DEPTH] = pairs[warp][k / DEPTH][k % DEPTH];
        }
    }
}
