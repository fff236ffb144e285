// The fast Gauss transform in two dimensions: P2M (moments of cells of data), the choice of cells, and L2P (polynomials at
// queries). The translations M2L are matrix products elsewhere. cukde/density/truncated/plan.py has the formulas and the
// bound: order P, window W, width of a cell 2 rho h.
//
//   X, Y           (n, 2), (m, 2)  double     points, in the data's units
//   order, starts  (n,), (cells + 1,)  int64  rows of the points cell by cell, and where each cell begins
//   weights        (n,)            double     or null: all are 1
//
// Cells lie in a grid, those of data (rows, columns), those of queries with W more on each side.
//
// Macros: none; one kernel a compilation is launched by its name.
constexpr int threads = 256;
constexpr int most_powers = 24;
constexpr int strip = 32;

// Coordinate of a point relative to the centre of a cell. The number of the cell, and so its centre, is exact in double.
__device__ inline double coordinate(double x, double cell, double width) {
    return (x - (cell + 0.5) * width) / (0.5 * width);
}

// P2M: moments of the cells of data, and their masses:
//
//   M     (rows, columns, P, P)  double  M[k, l] = sum_j w_j alpha_j^k beta_j^l
//   mass  (rows, columns)        double
//
// A block owns a cell. It stages the powers of `strip` points in shared memory, and a thread sums some of the P^2 moments.
// Barriers: two a strip, and all threads of a block have the same strips. For each point 2 P shared numbers are written,
// and 2 P^2 are read for P^2 multiply-adds.
extern "C" __global__ void __launch_bounds__(threads, 4)
cell_moments(const double* __restrict__ X, const long long* __restrict__ order, const long long* __restrict__ starts,
             const double* __restrict__ weights, double* __restrict__ M, double* __restrict__ mass, int columns,
             int powers, double low_x, double low_y, double width) {
    // A row is one number longer than needed, or neighbours of a warp would all read the same bank.
    __shared__ double of_x[most_powers][strip + 1], of_y[most_powers][strip + 1];
    constexpr int sums_of_thread = (most_powers * most_powers + threads - 1) / threads;
    double sum[sums_of_thread];
#pragma unroll
    for (int s = 0; s < sums_of_thread; s++) sum[s] = 0;
    const long long cell = blockIdx.x;
    const double cell_x = low_x + double(cell / columns), cell_y = low_y + double(cell % columns);
    const int count = powers * powers;
    for (long long begin = starts[cell]; begin < starts[cell + 1]; begin += strip) {
        const int points = int(starts[cell + 1] - begin < strip ? starts[cell + 1] - begin : strip);
        __syncthreads();
        if (threadIdx.x < strip) {
            double a = 0, b = 0, power_of_a = 0, power_of_b = 0;
            if (int(threadIdx.x) < points) {
                const long long row = order[begin + threadIdx.x];
                a = coordinate(X[2 * row], cell_x, width);
                b = coordinate(X[2 * row + 1], cell_y, width);
                power_of_a = weights ? weights[row] : 1.0;
                power_of_b = 1;
            }
            for (int k = 0; k < powers; k++) {
                of_x[k][threadIdx.x] = power_of_a;
                of_y[k][threadIdx.x] = power_of_b;
                power_of_a *= a;
                power_of_b *= b;
            }
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < sums_of_thread; s++) {
            const int at = threadIdx.x + s * threads;
            if (at >= count) continue;
            const double* const x = of_x[at / powers];
            const double* const y = of_y[at % powers];
#pragma unroll 8
            for (int j = 0; j < strip; j++) sum[s] += x[j] * y[j];
        }
    }
#pragma unroll
    for (int s = 0; s < sums_of_thread; s++) {
        const int at = threadIdx.x + s * threads;
        if (at < count) M[cell * count + at] = sum[s];
    }
    if (threadIdx.x == 0) mass[cell] = sum[0];
}

// Which cells of queries pass the bound:
//
//   mass                (rows, columns)                  double
//   whole               (1,)                             double  sum of all masses
//   error, most, least  (2 W + 1,)                       double
//   accepted            (rows + 2 W, columns + 2 W)      unsigned char
//
// One thread a cell; its window is read through the cache. No barriers.
extern "C" __global__ void __launch_bounds__(threads, 4)
accept_cells(const double* __restrict__ mass, const double* __restrict__ whole, const double* __restrict__ error,
             const double* __restrict__ most, const double* __restrict__ least, unsigned char* __restrict__ accepted,
             int rows, int columns, int reach, double beyond, double rtol) {
    const long long wide = columns + 2 * reach, cells = (rows + 2 * reach) * wide;
    const long long cell = (long long)blockIdx.x * threads + threadIdx.x;
    if (cell >= cells) return;
    const int tx = int(cell / wide), ty = int(cell % wide);  // data in window: from t - 2 W to t in their own grid
    double off = 0, near = 0, inside = 0;
    for (int sx = tx - 2 * reach < 0 ? 0 : tx - 2 * reach; sx <= tx && sx < rows; sx++) {
        const int p = tx - sx;
#pragma unroll 2
        for (int sy = ty - 2 * reach < 0 ? 0 : ty - 2 * reach; sy <= ty && sy < columns; sy++) {
            const int q = ty - sy;
            const double m = mass[(long long)sx * columns + sy];
            off += m * (error[p] * most[q] + (most[p] + error[p]) * error[q]);
            near += m * (least[p] * least[q]);
            inside += m;
        }
    }
    const double outside = whole[0] - inside * (1 - 1e-14);
    off += (outside > 0 ? outside : 0.0) * beyond;
    accepted[cell] = near > 1e-280 && off <= rtol * near;
}

// L2P: sums at the queries of accepted cells, and which queries are left to the sum over all pairs:
//
//   B         (query cells, P, P)  double         B[l, k], of beta^l alpha^k
//   accepted  (query cells,)       unsigned char
//   cell      (m,)                 int64          of each query of `order`; one past the last cell means no cell
//   total     (m,)                 double         1 if a query is left
//   left      (m,)                 unsigned char
//
// One thread for each query, in the order of cells, so that a warp mostly reads one polynomial: P^2 multiply-adds.
// No barriers.
extern "C" __global__ void __launch_bounds__(threads, 4)
cell_values(const double* __restrict__ Y, const long long* __restrict__ order, const long long* __restrict__ cells,
            const double* __restrict__ B, const unsigned char* __restrict__ accepted, double* __restrict__ total,
            unsigned char* __restrict__ left, long long m, long long nowhere, int columns, int powers, double low_x,
            double low_y, double width) {
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= m) return;
    const long long row = order[i], cell = cells[i];
    if (cell >= nowhere || !accepted[cell]) {
        total[row] = 1;
        left[row] = 1;
        return;
    }
    const double a = coordinate(Y[2 * row], low_x + double(cell / columns), width);
    const double b = coordinate(Y[2 * row + 1], low_y + double(cell % columns), width);
    const double* const polynomial = B + cell * powers * powers;
    double value = 0;
    for (int l = powers - 1; l >= 0; l--) {
        double of_row = 0;
#pragma unroll 4
        for (int k = powers - 1; k >= 0; k--) of_row = of_row * a + polynomial[l * powers + k];
        value = value * b + of_row;
    }
    total[row] = value;
    left[row] = 0;
}
