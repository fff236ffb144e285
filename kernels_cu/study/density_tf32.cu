// Study, not for use: the sums of density/pairs.cu on the tensor cores in TF32, from inner products of centred and scaled
// points. The library takes one float16 term in its place, which has the same significand; it is measured against this.
//
//   z = (point - centre) sqrt(log2 e) / h, rounded to TF32
//   e_ij = min(z_i . z_j - |z_i|^2/2 - |z_j|^2/2, 0) + log2 w_j
//
//   X            (n, depth)  float   z of the data, columns padded with zeros to a multiple of 8
//   Y            (m, depth)  float   z of the queries, likewise
//   X_norms      (n,)        float   -|z|^2/2 of the rounded z
//   Y_norms      (m,)        float
//   V            (n, k)      float   rounded to TF32; for output MOMENTS it is X itself, and the moments are
//                                    sum_j 2^(e - a) z_j, not yet about the query
//   log_weights  (n,)        double  or null: all weights 1
//   reference, total, moments        see density/pairs.cu
//   rows         data rows of a split, a multiple of 64
//   at_zero      1 + d/2, for output LAPLACE, of which k = 1
//
// 4 warps, each with 16 queries and all 64 data rows of a tile, as eight 16 x 8 fragments. A fragment of 2^(e - a) lies
// in registers as the left operand of the second matrix product: its columns 2t and 2t + 1 become t and t + 4 of the
// inner index, and so do the rows of V. Four neighbouring lanes share a query. Barriers: two for each chunk of
// dimensions; all threads of a block pass all of them.
//
// Macros: KERNEL the name; OUTPUT one of SUM, MOMENTS, LAPLACE, VALUES; COLUMNS the columns of the moments a block owns;
// CHUNK the dimensions staged at a time.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE, VALUES };
constexpr Output output = OUTPUT;

constexpr int threads = 128;
constexpr int groups = tile / 8;      // fragments of 8 data rows
constexpr int lanes = 4;              // that share a query
constexpr int chunk_pitch = CHUNK + 4;  // of shared rows: no bank conflicts between the lanes of a fragment

constexpr bool has_moments = output == MOMENTS || output == VALUES;
constexpr int columns = has_moments ? COLUMNS : 8;
constexpr int column_groups = columns / 8;
constexpr int value_pitch = columns + 4;

// Stage dimensions [k0, k0 + CHUNK) of 64 rows of A from `first` on; rows past the end repeat the last one.
__device__ inline void stage_chunk(float (&to)[tile][chunk_pitch], const float* A, long long first,
                                   long long rows_of_A, int k0, int depth) {
    for (int i = threadIdx.x; i < tile * CHUNK; i += threads) {
        const int row = i / CHUNK, k = i % CHUNK;
        const long long from = first + row < rows_of_A ? first + row : rows_of_A - 1;
        to[row][k] = k0 + k < depth ? A[from * depth + k0 + k] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(threads, COLUMNS > 32 ? 2 : 3)
KERNEL(const float* __restrict__ X, const float* __restrict__ Y, const float* __restrict__ X_norms,
       const float* __restrict__ Y_norms, const float* __restrict__ V, const double* __restrict__ log_weights,
       double* __restrict__ reference, double* __restrict__ total, double* __restrict__ moments, long long n,
       long long m, int depth, int k, long long rows, float at_zero) {
    __shared__ float xs[tile][chunk_pitch], ys[tile][chunk_pitch];
    __shared__ float values[has_moments ? tile : 1][value_pitch];
    __shared__ float norms[tile], weights[tile];  // -|z_j|^2/2, log2 w_j

    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const long long first_query = (long long)blockIdx.x * tile;
    const int first_column = blockIdx.y * columns;
    const long long begin = blockIdx.z * rows, end = begin + rows < n ? begin + rows : n;

    // Of the thread's two queries, g and g + 8 of the warp's.
    float query_norm[2], top[2], top_in_memory[2], sum[2] = {0, 0}, corrected[2] = {0, 0};
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const long long i = first_query + warp * 16 + g + 8 * r;
        query_norm[r] = Y_norms[i < m ? i : m - 1];
        top[r] = top_in_memory[r] = Exponent<float>::least;
    }
    float product[column_groups][4] = {};

    const int tiles = (end - begin + tile - 1) / tile;
    for (int tile_of_split = 0; tile_of_split < tiles; tile_of_split++) {
        const long long at = begin + (long long)tile_of_split * tile;
        // 1. z_i . z_j
        float pairs[groups][4] = {};
        for (int k0 = 0; k0 < depth; k0 += CHUNK) {
            __syncthreads();
            stage_chunk(xs, X, at, n, k0, depth);
            if (depth > CHUNK || tile_of_split == 0) stage_chunk(ys, Y, first_query, m, k0, depth);
            if (k0 == 0) {
                if (threadIdx.x < tile) {
                    const long long j = at + threadIdx.x;
                    norms[threadIdx.x] = X_norms[j < n ? j : n - 1];
                    weights[threadIdx.x] = exponent_of_weight<float>(log_weights, j, end);
                }
                if (has_moments) {
                    for (int i = threadIdx.x; i < tile * columns; i += threads) {
                        const long long from = at + i / columns, j = from < n ? from : n - 1;
                        const int column = first_column + i % columns;
                        values[i / columns][i % columns] = column < k ? V[j * k + column] : 0.0f;
                    }
                }
            }
            __syncthreads();
#pragma unroll
            for (int k8 = 0; k8 < CHUNK; k8 += 8) {
                unsigned a[4];
#pragma unroll
                for (int q = 0; q < 4; q++)
                    a[q] = __float_as_uint(ys[warp * 16 + g + q % 2 * 8][k8 + t + q / 2 * 4]);
#pragma unroll
                for (int j8 = 0; j8 < groups; j8++) {
                    const unsigned b[2] = {__float_as_uint(xs[j8 * 8 + g][k8 + t]),
                                           __float_as_uint(xs[j8 * 8 + g][k8 + t + 4])};
                    mma_tf32_m16n8k8(pairs[j8], a, b);
                }
            }
        }

        // 2. exponents, reference, powers
        float largest[2] = {top[0], top[1]};
#pragma unroll
        for (int j8 = 0; j8 < groups; j8++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int j = j8 * 8 + 2 * t + q % 2;
                const float exponent = fminf(pairs[j8][q] + query_norm[q / 2] + norms[j], 0.0f);
                pairs[j8][q] = exponent;
                largest[q / 2] = fmaxf(largest[q / 2], exponent + weights[j]);
            }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            largest[r] = largest_over_lanes<lanes>(largest[r]);
            if (largest[r] > top[r]) {
                const float factor = exp2_approx(top[r] - largest[r]);
                top[r] = largest[r];
                sum[r] *= factor;
                corrected[r] *= factor;
#pragma unroll
                for (int c8 = 0; c8 < column_groups; c8++) {
                    product[c8][2 * r] *= factor;
                    product[c8][2 * r + 1] *= factor;
                }
            }
        }
#pragma unroll
        for (int j8 = 0; j8 < groups; j8++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const float power = exp2_approx(pairs[j8][q] + weights[j8 * 8 + 2 * t + q % 2] - top[q / 2]);
                if (output == LAPLACE)
                    corrected[q / 2] = fmaf(power, fmaf(float(ln_2), pairs[j8][q], at_zero), corrected[q / 2]);
                // If moments are divided by the total, both must sum the same numbers.
                pairs[j8][q] = has_moments ? __uint_as_float(to_tf32(power)) : power;
                sum[q / 2] += pairs[j8][q];
            }

        // 3. moments
        if constexpr (has_moments) {
#pragma unroll
            for (int j8 = 0; j8 < groups; j8++) {
                const unsigned a[4] = {__float_as_uint(pairs[j8][0]), __float_as_uint(pairs[j8][2]),
                                       __float_as_uint(pairs[j8][1]), __float_as_uint(pairs[j8][3])};
#pragma unroll
                for (int c8 = 0; c8 < column_groups; c8++) {
                    const unsigned b[2] = {__float_as_uint(values[j8 * 8 + 2 * t][c8 * 8 + g]),
                                           __float_as_uint(values[j8 * 8 + 2 * t + 1][c8 * 8 + g])};
                    mma_tf32_m16n8k8(product[c8], a, b);
                }
            }
        }

        // 4. results
        const int tiles_done = tile_of_split + 1;
        if (tiles_done % tiles_per_accumulator && tiles_done < tiles) continue;
        const bool first_time = tiles_done <= tiles_per_accumulator;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float rescale = exp2_approx(top_in_memory[r] - top[r]);
            const float whole = sum_over_lanes<lanes>(sum[r]);
            const float whole_corrected = output == LAPLACE ? sum_over_lanes<lanes>(corrected[r]) : 0;
            const long long i = first_query + warp * 16 + g + 8 * r;
            const long long row = blockIdx.z * m + i;
            if (i < m && t == 0 && blockIdx.y == 0) {
                reference[row] = top[r] * ln_2;
                accumulate(total[row], whole, rescale, first_time);
                if (output == LAPLACE) accumulate(moments[row], whole_corrected, rescale, first_time);
            }
            if (has_moments) {
#pragma unroll
                for (int c8 = 0; c8 < column_groups; c8++)
#pragma unroll
                    for (int q = 0; q < 2; q++) {
                        const int column = first_column + c8 * 8 + 2 * t + q;
                        if (i < m && column < k)
                            accumulate(moments[row * k + column], product[c8][2 * r + q], rescale, first_time);
                        product[c8][2 * r + q] = 0;
                    }
            }
            top_in_memory[r] = top[r];
            sum[r] = corrected[r] = 0;
        }
    }
}
