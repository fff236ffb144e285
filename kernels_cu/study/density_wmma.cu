// Study, not for use: the density sums on the tensor cores as one writes them first, with nvcuda::wmma in TF32. It
// is what the kernels of density.cu are measured against; no public function reaches it.
//
//   z    = (point - centre) sqrt(log2 e) / h
//   e_ij = z_i . z_j - |z_i|^2/2 - |z_j|^2/2,  z rounded to TF32 in the product and in the norms
//   S_i  = sum_j 2^e_ij
//
//   X, Y     (n, DEPTH), (m, DEPTH)  float  z of the data and of the queries, columns past the dimensions zero
//   X_norms  (n,)                    float  -|z|^2/2 of the rounded z
//   Y_norms  (m,)                    float
//   total    (m,)                    float  S_i
//
// One block owns 64 queries, 16 a warp, and walks through all data in tiles of 64. A warp makes four 16 x 16
// accumulators a tile, from fragments of 16 x 16 x 8, and stores them to shared memory: which lane holds which
// element of a fragment is not wmma's to say, so norms and exponentials wait until the elements have places. There
// a lane takes two columns of each of the 16 rows, and adds up in registers, in float.
//
// There is no reference exponent: what lies below 2^-126 is lost. Barriers: two a tile and two before the first; all
// threads of a block pass all of them.
//
// Macros: DEPTH, the dimensions rounded up to a multiple of 8, at most 64.
#include <mma.h>

#include "ptx.cuh"

namespace wmma = nvcuda::wmma;

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int rows = 16, depth_of_fragment = 8;  // of the fragments: 16 x 16 x 8
constexpr int tile = 64;                         // data rows, and queries of a block
constexpr int steps = DEPTH / depth_of_fragment;

// Of rows in shared memory: multiples of 16 bytes, as wmma wants, that do not all begin at one bank.
constexpr int pitch = DEPTH + 4;
constexpr int pair_pitch = tile + 4;

// The norm of a row that does not exist: 2^ of it is zero.
constexpr float none = -1e30f;

template <typename Use, typename Layout>
using Operand = wmma::fragment<Use, rows, rows, depth_of_fragment, wmma::precision::tf32, Layout>;

template <typename Fragment>
__device__ inline void load_rounded(Fragment& fragment, const float* from) {
    wmma::load_matrix_sync(fragment, from, pitch);
#pragma unroll
    for (int i = 0; i < fragment.num_elements; i++) fragment.x[i] = wmma::__float_to_tf32(fragment.x[i]);
}

// Stage 64 rows of A from `first` on, zeros past the end.
__device__ inline void stage(float (&to)[tile][pitch], const float* A, long long first, long long rows_of_A) {
    for (int i = threadIdx.x; i < tile * DEPTH; i += threads) {
        const long long row = first + i / DEPTH;
        to[i / DEPTH][i % DEPTH] = row < rows_of_A ? A[row * DEPTH + i % DEPTH] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(threads)
kde_wmma(const float* __restrict__ X, const float* __restrict__ Y, const float* __restrict__ X_norms,
         const float* __restrict__ Y_norms, float* __restrict__ total, long long n, long long m) {
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
    for (long long first = 0; first < n; first += tile) {
        stage(points, X, first, n);
        if (threadIdx.x < tile) data_norms[threadIdx.x] = first + threadIdx.x < n ? X_norms[first + threadIdx.x] : none;
        __syncthreads();

#pragma unroll
        for (int j = 0; j < tile; j += rows) {
            wmma::fragment<wmma::accumulator, rows, rows, depth_of_fragment, float> product;
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
            sum[row] += exp2_approx(pairs[warp][row][lane] + of_query + data_norms[lane]) +
                        exp2_approx(pairs[warp][row][lane + 32] + of_query + data_norms[lane + 32]);
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
}
