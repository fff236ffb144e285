// 2^e in float64 for a block of exponents, from inner products of a library, and their sums:
//
//   e_ij = z_i . z_j + norm_i + norm_j,   p_ij = 2^(e_ij + log2 w_j + shift)
//
//   P          (rows, P_pitch)  double  z_i . z_j of the queries from `top` on with data rows [left, right); with KEPT
//                                       p_ij takes its place
//   Y_norms    (queries,)       double  -|z_i|^2/2
//   X_norms    (data,)          double  -|z_j|^2/2, perhaps with log2 w_j, and past the data with `nothing` of
//                                       f64_operands.cu, so that p_ij is zero there
//   X_weights  (data,)          double  log2 w_j, or null: in the norms, or all weights 1, as with COLUMN_TOTALS
//   totals     (parts, pitch)   double  += sum_j p_ij of query i in a row for each part of the data; with COLUMN_TOTALS
//                                       also the same over i, of data row j, in a row for each block of queries: for
//                                       Y = X a block off the diagonal serves both of its sides
//   moments    (parts, pitch)   double  likewise of p_ij (at_zero + e_ij ln 2), with LAPLACE; else null
//   shift      an integer that keeps p_ij in the range of double: see f64.cuh
//
// 8 warps own 128 queries, 16 for each warp, and go through a part of the data. A part, the numbers of rows, `left` and
// `right` are multiples of 128. A lane has four data rows of 128: 2 lane, 2 lane + 1, and those 64 further.
//
// Grid: x over blocks of 128 queries, y over parts of the data. No two blocks of a launch add to the same memory, so every
// run gives the same bits. Barriers: with COLUMN_TOTALS one every 128 data rows; all threads of a block pass all of them.
//
// Macros: KEPT, LAPLACE and COLUMN_TOTALS, each 0 or 1.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "exp2_f64.cuh"

constexpr int warps = 8;
constexpr int threads = 32 * warps;
constexpr int warp_rows = 16;
constexpr int block_rows = warps * warp_rows;
constexpr int tile_columns = 128;
constexpr int rows_at_once = 2;    // whose loads are in flight together

// Of a multiprocessor: four leave a thread 64 registers, of which compilers want a few more from sm_100 on.
#if __CUDA_ARCH__ >= 1000
constexpr int blocks_at_once = 3;
#else
constexpr int blocks_at_once = 4;
#endif

// A lane's numbers of a row of 128.
__device__ inline void load(double (&to)[4], const double* row) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const double2 pair = *reinterpret_cast<const double2*>(row + half * 64 + 2 * lane);
        to[2 * half] = pair.x;
        to[2 * half + 1] = pair.y;
    }
}

__device__ inline void store(double* row, const double (&from)[4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++)
        *reinterpret_cast<double2*>(row + half * 64 + 2 * lane) = make_double2(from[2 * half], from[2 * half + 1]);
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
powers_f64(double* __restrict__ P, const double* __restrict__ Y_norms, const double* __restrict__ X_norms,
           const double* __restrict__ X_weights, double* __restrict__ totals, double* __restrict__ moments,
           long long top, long long left, long long right, long long part_columns, long long P_pitch, long long pitch,
           double shift, double at_zero) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long first_row = (long long)blockIdx.x * block_rows + warp * warp_rows;
    const long long begin = left + blockIdx.y * part_columns;
    const long long end = begin + part_columns < right ? begin + part_columns : right;
    const double from = magic + shift;
    const double* const own_norms = Y_norms + top + first_row;
    double* row = P + first_row * P_pitch + begin - left;

    double total = 0, corrected = 0;  // of the warp's row of the lane's number
#pragma unroll 1
    for (long long column = begin; column < end; column += tile_columns) {
        double norm[4], weight[4] = {}, column_total[4] = {}, column_corrected[4] = {};
        load(norm, X_norms + column);
        if (!COLUMN_TOTALS && X_weights) {
            load(weight, X_weights + column);
            if constexpr (!LAPLACE) {
#pragma unroll
                for (int c = 0; c < 4; c++) norm[c] += weight[c];
            }
        }
#pragma unroll 1
        for (int group = 0; group < warp_rows; group += rows_at_once) {
            double place[rows_at_once][4];
#pragma unroll
            for (int r = 0; r < rows_at_once; r++) load(place[r], row + r * P_pitch);
#pragma unroll
            for (int r = 0; r < rows_at_once; r++) {
                const double own_norm = own_norms[group + r];
                double row_total = 0, row_corrected = 0;
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const double exponent = place[r][c] + own_norm + norm[c];
                    const double power = exp2_from(from, LAPLACE ? exponent + weight[c] : exponent);
                    row_total += power;
                    column_total[c] += power;
                    if constexpr (LAPLACE) {
                        const double term = power * fma(ln_2, exponent, at_zero);
                        row_corrected += term;
                        column_corrected[c] += term;
                    }
                    place[r][c] = power;
                }
                if constexpr (KEPT) store(row + r * P_pitch, place[r]);
                row_total = sum_over_lanes<32>(row_total);
                total += lane == group + r ? row_total : 0.0;  // a branch would take registers that some compilers lack
                if constexpr (LAPLACE) {
                    row_corrected = sum_over_lanes<32>(row_corrected);
                    if (lane == group + r) corrected += row_corrected;
                }
            }
            row += rows_at_once * P_pitch;
        }
        row += tile_columns - warp_rows * P_pitch;
        if constexpr (COLUMN_TOTALS) {
            constexpr int sums = 1 + LAPLACE;
            __shared__ double of_warps[2][sums][warps][tile_columns];
            auto& of_tile = of_warps[(column - begin) / tile_columns % 2];
            store(of_tile[0][warp], column_total);
            if constexpr (LAPLACE) store(of_tile[sums - 1][warp], column_corrected);
            __syncthreads();
            const int of_sum = threadIdx.x / tile_columns, of_column = threadIdx.x % tile_columns;
            if (of_sum < sums) {
                double sum = 0;
#pragma unroll
                for (int w = 0; w < warps; w++) sum += of_tile[of_sum][w][of_column];
                (of_sum ? moments : totals)[blockIdx.x * pitch + column + of_column] += sum;
            }
        }
    }
    if (lane < warp_rows) {
        const long long place = blockIdx.y * pitch + top + first_row + lane;
        totals[place] += total;
        if constexpr (LAPLACE) moments[place] += corrected;
    }
}
