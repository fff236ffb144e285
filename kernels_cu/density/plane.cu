// The fast Gauss transform in two dimensions: cells, P2M (moments of cells of data), the choice of cells, M2L (translations)
// and L2P (polynomials at queries). cukde/density/plane/plan.py has the formulas and the bound: order P (a multiple of 4),
// window W, width of a cell 2 rho h.
//
// Cells lie in a grid, those of data (rows, columns), those of queries with W more on each side. A cell of a grid has the
// number row * columns + column.
//
// Macros: STORAGE, what X and Y hold; MOMENTS, whether queries get first moments, too.
constexpr int threads = 256;
constexpr int most_powers = 24;
constexpr int strip = 32;
constexpr int threads_of_translation = 128;
constexpr int tile = 4;  // by as many sums of a thread in a translation

// Coordinate of a point relative to the centre of a cell. The number of the cell, and so its centre, is exact in double.
__device__ inline double coordinate(double x, double cell, double width) {
    return (x - (cell + 0.5) * width) / (0.5 * width);
}

// Row or column of the cell that a point lies in, counted from the first of a grid.
__device__ inline double place(double x, double low, double width) { return floor(x / width) - low; }

// The bits of a double as a number that grows with it; 0 is below all of them, NaN is above or is 0.
__device__ inline unsigned long long in_order(double x) {
    const unsigned long long bits = __double_as_longlong(x);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// Extremes of the coordinates:
//
//   X         (n, 2)  STORAGE
//   extremes  (4,)    uint64, zero before: become in_order of the largest x, y, -x and -y
//
// A thread takes every so many-th point; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    extremes(const STORAGE* __restrict__ X, unsigned long long* __restrict__ extremes, long long n) {
    unsigned long long most[4] = {0, 0, 0, 0};
    for (long long i = (long long)blockIdx.x * threads + threadIdx.x; i < n; i += (long long)gridDim.x * threads) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const double x = X[2 * i + k % 2];
            const unsigned long long value = in_order(k < 2 ? x : -x);
            most[k] = value > most[k] ? value : most[k];
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (most[k] > *static_cast<volatile unsigned long long*>(&extremes[k])) atomicMax(&extremes[k], most[k]);
}

// Numbers of the cells that points lie in:
//
//   X      (n, 2)  STORAGE
//   cells  (n,)    int32    rows * columns: outside of the grid
//
// One thread a point; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    cells_of_points(const STORAGE* __restrict__ X, int* __restrict__ cells, long long n, int rows, int columns,
                    double low_x, double low_y, double width) {
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
    const double x = place(X[2 * i], low_x, width), y = place(X[2 * i + 1], low_y, width);
    const bool inside = x >= 0 && x < rows && y >= 0 && y < columns;
    cells[i] = inside ? int(x) * columns + int(y) : rows * columns;
}

// P2M: moments of the cells of data.
//
//   X        (n, 2)         STORAGE  cell by cell
//   starts   (cells + 1,)   int64    where each cell begins
//   weights  (n,)           double   of X, or null: all are 1
//   M        (cells, P, P)  double   M[l, k] = sum_j w_j alpha_j^k beta_j^l
//   parts    (n / Q, P, P)  double   the same of parts of cells beyond the first
//
// A block owns Q = `points_of_part` points of a cell: block b the first ones of cell b, and blocks after the last cell what
// is further. Part p beyond the first of a cell that begins at s has place s / Q + p, so that no two have the same. A block
// stages the powers of `strip` points in shared memory, and a thread sums some of the P^2 moments.
// Barriers: two a strip, and all threads of a block have the same strips. For each point 2 P shared numbers are written,
// and 2 P^2 are read for P^2 multiply-adds.
extern "C" __global__ void __launch_bounds__(threads, 4)
    cell_moments(const STORAGE* __restrict__ X, const long long* __restrict__ starts,
                 const double* __restrict__ weights, double* __restrict__ M, double* __restrict__ parts, int cells,
                 int columns, int powers, int points_of_part, double low_x, double low_y, double width) {
    // A row is one number longer than needed, or neighbours of a warp would all read the same bank.
    __shared__ double of_x[most_powers][strip + 1], of_y[most_powers][strip + 1];
    constexpr int sums_of_thread = (most_powers * most_powers + threads - 1) / threads;
    double sum[sums_of_thread];
#pragma unroll
    for (int s = 0; s < sums_of_thread; s++) sum[s] = 0;
    const int count = powers * powers;
    int cell = blockIdx.x, part = 0;
    double* out = M + (long long)cell * count;
    if (cell >= cells) {
        const long long at = cell - cells;
        int first = 0, last = cells - 1;  // the last cell whose parts have no later place
        while (first < last) {
            const int middle = (first + last + 1) / 2;
            if (starts[middle] / points_of_part <= at) first = middle;
            else last = middle - 1;
        }
        cell = first;
        part = 1 + int(at - starts[cell] / points_of_part);
        out = parts + at * count;
    }
    const double cell_x = low_x + double(cell / columns), cell_y = low_y + double(cell % columns);
    const long long first = starts[cell] + (long long)part * points_of_part;
    if (part > 0 && first >= starts[cell + 1]) return;  // a place that is no part's
    const long long end = first + points_of_part < starts[cell + 1] ? first + points_of_part : starts[cell + 1];
    for (long long begin = first; begin < end; begin += strip) {
        const int points = int(end - begin < strip ? end - begin : strip);
        __syncthreads();
        if (threadIdx.x < strip) {
            double a = 0, b = 0, power_of_a = 0, power_of_b = 0;
            if (int(threadIdx.x) < points) {
                const long long row = begin + threadIdx.x;
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
            const double* const x = of_x[at % powers];
            const double* const y = of_y[at / powers];
#pragma unroll 8
            for (int j = 0; j < strip; j++) sum[s] += x[j] * y[j];
        }
    }
#pragma unroll
    for (int s = 0; s < sums_of_thread; s++) {
        const int at = threadIdx.x + s * threads;
        if (at < count) out[at] = sum[s];
    }
}

// Adds the parts of a cell to its moments, one after the other, and takes its mass from them:
//
//   starts  (cells + 1,)   int64
//   parts   (n / Q, P, P)  double
//   M       (cells, P, P)  double  changed where a cell has parts
//   mass    (cells,)       double  M[0, 0]
//
// A block owns a cell, a thread some of its moments; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    add_parts(const long long* __restrict__ starts, const double* __restrict__ parts, double* __restrict__ M,
              double* __restrict__ mass, int powers, int points_of_part) {
    const long long cell = blockIdx.x, points = starts[cell + 1] - starts[cell];
    const long long first = starts[cell] / points_of_part;
    const int count = powers * powers, further = points > 0 ? int((points - 1) / points_of_part) : 0;
    for (int at = threadIdx.x; at < count; at += threads) {
        double sum = M[cell * count + at];
#pragma unroll 8
        for (int part = 0; part < further; part++) sum += parts[(first + part) * count + at];
        if (further) M[cell * count + at] = sum;
        if (at == 0) mass[cell] = sum;
    }
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
                 const double* __restrict__ most, const double* __restrict__ least,
                 unsigned char* __restrict__ accepted, int rows, int columns, int reach, double beyond, double rtol) {
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

// M2L along one coordinate, from the cells of lines to those with W more on each side:
//
//   in      (sources, P, P)  double
//   table   (2 W + 1, P, P)  double         T[o, k, l], of powers k of data and l of queries
//   masses  (sources,)       double         or null: sources without mass are skipped
//   wanted  (targets,)       unsigned char  or null: all are
//   out     (targets, P, P)  double         out[t][b, l] = sum_{o, k} T[o, k, l] in[t - o][k, b]
//
// The two powers change their places, so that a second launch takes the other coordinate. Cell i of line j is at
// j * line + i * step in its array. Targets that are not wanted keep what they are.
//
// Grid: x over groups of targets of a line, y over lines. (P / 4)^2 threads own a target, as many targets as there is room
// for share a block, and a thread has 4 by 4 of the sums: for 16 multiply-adds it reads 4 times two numbers through the
// cache, and a warp one or two lines of it each time. No barriers.
extern "C" __global__ void __launch_bounds__(threads_of_translation)
    translate(const double2* __restrict__ in, const double2* __restrict__ table, const double* __restrict__ masses,
              const unsigned char* __restrict__ wanted, double2* __restrict__ out, int count, int reach, int powers,
              long long in_line, long long in_step, long long out_line, long long out_step) {
    const int tiles = powers / tile, threads_of_target = tiles * tiles;
    const int of_block = threads_of_translation / threads_of_target, slot = threadIdx.x / threads_of_target;
    const int t = blockIdx.x * of_block + slot;
    if (slot >= of_block || t >= count + 2 * reach) return;
    const long long target = blockIdx.y * out_line + t * out_step;
    if (wanted && !wanted[target]) return;
    const int l = tile * (threadIdx.x % threads_of_target / tiles), b = tile * (threadIdx.x % tiles);
    double sum[tile][tile] = {};  // [b][l]
    for (int o = t - count + 1 > 0 ? t - count + 1 : 0; o <= 2 * reach && o <= t; o++) {
        const long long source = blockIdx.y * in_line + (t - o) * in_step;
        if (masses && masses[source] == 0) continue;
        const double2* factors = table + ((long long)o * powers * powers + l) / 2;
        const double2* moments = in + (source * powers * powers + b) / 2;
#pragma unroll 2
        for (int k = 0; k < powers; k++) {
            const double2 f01 = factors[0], f23 = factors[1], m01 = moments[0], m23 = moments[1];
            const double f[tile] = {f01.x, f01.y, f23.x, f23.y}, m[tile] = {m01.x, m01.y, m23.x, m23.y};
#pragma unroll
            for (int i = 0; i < tile; i++)
#pragma unroll
                for (int j = 0; j < tile; j++) sum[i][j] += m[i] * f[j];
            factors += powers / 2;
            moments += powers / 2;
        }
    }
#pragma unroll
    for (int i = 0; i < tile; i++) {
        double2* const row = out + ((target * powers + b + i) * powers + l) / 2;
        row[0] = make_double2(sum[i][0], sum[i][1]);
        row[1] = make_double2(sum[i][2], sum[i][3]);
    }
}

// L2P: sums at the queries of accepted cells, and a list of those that are left:
//
//   Y         (m, 2)               STORAGE
//   order     (m,)                 int64          rows of the queries, near ones together, or null: as they are
//   B         (query cells, P, P)  double         B[l, k], of alpha^k beta^l
//   accepted  (query cells,)       unsigned char
//   total     (m,)                 double         1 if a query is left
//   moments   (m, 2)               double         `slope` times the derivatives; 0 if it is left; null without MOMENTS
//   rest      (m,)                 int64          rows of the queries that are left, in no fixed order
//   counts    (2,)                 int64          zero before; [0] becomes their number
//
// One thread a query: P^2 multiply-adds, with MOMENTS three times as many. No barriers.
extern "C" __global__ void __launch_bounds__(threads, 4)
    cell_values(const STORAGE* __restrict__ Y, const long long* __restrict__ order, const double2* __restrict__ B,
                const unsigned char* __restrict__ accepted, double* __restrict__ total, double* __restrict__ moments,
                long long* __restrict__ rest, unsigned long long* __restrict__ counts, long long m, int rows,
                int columns, int powers, double low_x, double low_y, double width, double slope) {
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= m) return;
    const long long row = order ? order[i] : i;
    const double x = Y[2 * row], y = Y[2 * row + 1];
    const double cell_x = place(x, low_x, width), cell_y = place(y, low_y, width);
    const bool inside = cell_x >= 0 && cell_x < rows && cell_y >= 0 && cell_y < columns;
    const long long cell = inside ? (long long)cell_x * columns + (long long)cell_y : 0;
    if (!inside || !accepted[cell]) {
        total[row] = 1;
        if (MOMENTS) moments[2 * row] = moments[2 * row + 1] = 0;
        rest[atomicAdd(&counts[0], 1ull)] = row;
        return;
    }
    const double a = coordinate(x, low_x + cell_x, width), b = coordinate(y, low_y + cell_y, width);
    const int pairs = powers / 2;
    const double2* const polynomial = B + cell * powers * pairs;
    double value = 0, by_a = 0, by_b = 0;
    for (int l = powers - 1; l >= 0; l--) {
        double of_row = 0, slope_of_row = 0;
#pragma unroll 4
        for (int k = pairs - 1; k >= 0; k--) {
            const double2 two = polynomial[l * pairs + k];
            if (MOMENTS) slope_of_row = slope_of_row * a + of_row;
            of_row = of_row * a + two.y;
            if (MOMENTS) slope_of_row = slope_of_row * a + of_row;
            of_row = of_row * a + two.x;
        }
        if (MOMENTS) {
            by_b = by_b * b + value;
            by_a = by_a * b + slope_of_row;
        }
        value = value * b + of_row;
    }
    total[row] = value;
    if (MOMENTS) {
        moments[2 * row] = slope * by_a;
        moments[2 * row + 1] = slope * by_b;
    }
}

// P2P: sums at queries that are left over the data of the cells around, W in each direction, pair by pair:
//
//   X        (n, 2)        STORAGE  cell by cell
//   starts   (cells + 1,)  int64    where each cell begins
//   weights  (n,)          double   of X, or null: all are 1
//   whole    (1,)          double   sum of all masses
//   Y        (m, 2)        STORAGE
//   rest     (m,)          int64    rows of the queries that cell_values left
//   total    (m,)          double   changed where data further away can be left out
//   moments  (m, 2)        double   likewise; null without MOMENTS
//   beyond   (m,)          int64    rows of the queries where they cannot, in no fixed order
//   counts   (2,)          int64    [0]: number of `rest`; [1], zero before, becomes that of `beyond`
//
// A block owns every so many-th query of `rest`. Cells next to each other in a row of the grid are one stretch of the data:
// 2 W + 1 stretches, of which each thread takes every 256th point. Barriers: two a query, and all threads of a block have
// the same queries.
extern "C" __global__ void __launch_bounds__(threads, 2)
    sum_window(const STORAGE* __restrict__ X, const long long* __restrict__ starts, const double* __restrict__ weights,
               const double* __restrict__ whole, const STORAGE* __restrict__ Y, const long long* __restrict__ rest,
               double* __restrict__ total, double* __restrict__ moments, long long* __restrict__ beyond,
               unsigned long long* __restrict__ counts, int rows, int columns, int reach, double low_x, double low_y,
               double width, double scale, double most_beyond, double rtol) {
    constexpr int kinds = MOMENTS ? 4 : 2;
    __shared__ double of_warps[kinds][threads / 32];
    const long long count = counts[0];
    for (long long at = blockIdx.x; at < count; at += gridDim.x) {
        const long long query = rest[at];
        const double x = Y[2 * query], y = Y[2 * query + 1];
        const double cell_x = place(x, low_x, width), cell_y = place(y, low_y, width);
        double sums[kinds] = {};  // of kernels, of masses, and of moments
        const bool near = cell_x >= -reach && cell_x < rows + reach && cell_y >= -reach && cell_y < columns + reach;
        const int place_x = near ? int(cell_x) : 0, place_y = near ? int(cell_y) : 0;
        const int first_y = place_y > reach ? place_y - reach : 0;
        const int last_y = place_y + reach < columns ? place_y + reach : columns - 1;
        const int last_x = place_x + reach < rows ? place_x + reach : rows - 1;
        for (int row = place_x > reach ? place_x - reach : 0; near && row <= last_x; row++) {
            const long long end = starts[(long long)row * columns + last_y + 1];
#pragma unroll 2
            for (long long j = starts[(long long)row * columns + first_y] + threadIdx.x; j < end; j += threads) {
                const double along_x = X[2 * j] - x, along_y = X[2 * j + 1] - y;
                const double mass = weights ? weights[j] : 1.0;
                const double kernel = mass * exp(scale * (along_x * along_x + along_y * along_y));
                sums[0] += kernel;
                sums[1] += mass;
                if (MOMENTS) {
                    sums[2] += kernel * along_x;
                    sums[3] += kernel * along_y;
                }
            }
        }
        __syncthreads();  // the last query's sums have been read
#pragma unroll
        for (int k = 0; k < kinds; k++) {
#pragma unroll
            for (int step = 16; step > 0; step /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], step);
            if (threadIdx.x % 32 == 0) of_warps[k][threadIdx.x / 32] = sums[k];
        }
        __syncthreads();
        if (threadIdx.x) continue;
#pragma unroll
        for (int k = 0; k < kinds; k++)
            for (int warp = 1; warp < threads / 32; warp++) sums[k] += of_warps[k][warp];
        const double outside = whole[0] - sums[1] * (1 - 1e-14);
        if (!(sums[0] > 1e-280 && (outside > 0 ? outside : 0.0) * most_beyond <= rtol * sums[0])) {
            beyond[atomicAdd(&counts[1], 1ull)] = query;
            continue;
        }
        total[query] = sums[0];
        if (MOMENTS) {
            moments[2 * query] = sums[2];
            moments[2 * query + 1] = sums[3];
        }
    }
}
