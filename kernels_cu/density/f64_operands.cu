// Operands of the float64 engine: centred and scaled points, and their norms.
//
//   z      = (point - centre) scale, with scale = sqrt(log2 e) / h, so that |z_i - z_j|^2 / 2 is an exponent in bits
//   norms  = -|z|^2 / 2 + log2 w
//
// For data and, in the same launch, for queries:
//
//   X, Y               (n, d), (m, d)  double
//   centre             (d,)            double
//   log_weights        (n,)            double   natural logarithms, or null: all weights 1
//   X_points           (rows, depth)   double   z; rows: n rounded up to a multiple of 128, for whole tiles
//   Y_points           (m, depth)      double
//   X_norms            (rows,)         double
//   X_weights          (rows,)         double   log2 w apart from the norms, or null: in the norms
//   depth                                       d rounded up to a multiple of 8
//
// Rows and columns past the end are zero. Such rows, and rows of zero weight, have the weight 2^nothing.
//
// Eight neighbouring lanes for each row, 16 rows a block. Grid: x over blocks of rows, y = 0 the data, y = 1 the queries.
// No shared memory, no barriers.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int threads = 128;
constexpr int lanes = 8;  // of a row
constexpr int block_rows = 128;

// log2 of a weight of zero: 2^nothing is zero in double, and an int holds `nothing`.
constexpr double nothing = -0x1p28;

extern "C" __global__ void __launch_bounds__(threads)
prepare_f64(const double* __restrict__ X, const double* __restrict__ Y, const double* __restrict__ centre,
            const double* __restrict__ log_weights, double* __restrict__ X_points, double* __restrict__ X_norms,
            double* __restrict__ X_weights, double* __restrict__ Y_points, long long n,
            long long m, int d, int depth, double scale) {
    const bool of_data = blockIdx.y == 0;
    const double* const points = of_data ? X : Y;
    double* const out = of_data ? X_points : Y_points;
    const long long rows = of_data ? n : m;
    const long long rows_wanted = of_data ? (n + block_rows - 1) / block_rows * block_rows : m;
    const long long row = ((long long)blockIdx.x * threads + threadIdx.x) / lanes;
    const int lane = threadIdx.x % lanes;

    double square = 0;
    if (row < rows_wanted) {
        for (int k = lane; k < depth; k += lanes) {
            const double z = row < rows && k < d ? (points[row * d + k] - centre[k]) * scale : 0.0;
            out[row * depth + k] = z;
            square = fma(z, z, square);
        }
    }
    square = sum_over_lanes<lanes>(square);

    if (of_data && lane == 0 && row < rows_wanted) {
        const double weight = row >= n ? nothing : log_weights ? fmax(log_weights[row] * log2_e, nothing) : 0.0;
        X_norms[row] = -0.5 * square + (X_weights ? 0.0 : weight);
        if (X_weights) X_weights[row] = weight;
    }
}
