// The fast Gauss transform in two or three dimensions: cells, P2M (moments of cells of data), bounds, the choice of cells,
// M2L (translations) and L2P (polynomials at queries). cukde/density/plane/plan.py has the formulas and the bound: order P
// (a multiple of 4), window W, width of a cell 2 rho h.
//
// Cells lie in a grid. The last coordinate runs first: of two coordinates cell (x, y) has
// the number x * size_y + y, and of three (x, y, z) has (x * size_y + y) * size_z + z. Kernels take three sizes and lows;
// of two dimensions the last ones are 1 and 0. The grid holds numbers, masses and bounds of all cells. Expansions are of
// some cells only: a cell's place among them is in an array of the grid, -1 where it has none.
//
// Macros: DIMS, 2 or 3; STORAGE, what X and Y hold; MOMENTS, whether queries get first moments, too.
constexpr int threads = 256;
constexpr int most_powers = 20;
constexpr int strip = 32;
constexpr int tile = 4;  // by as many sums of a thread in a translation

// Coordinate of a point relative to the centre of a cell. The number of the cell, and so its centre, is exact in double.
__device__ inline double coordinate(double x, double cell, double width) {
    return (x - (cell + 0.5) * width) / (0.5 * width);
}

// Place by one coordinate of the cell that a point lies in, counted from the first of a grid.
__device__ inline double place(double x, double low, double width) { return floor(x / width) - low; }

// Number of the cell that a point lies in, -1 outside of the grid.
__device__ inline long long cell_of(const STORAGE* __restrict__ point, int size_x, int size_y, int size_z, double low_x,
                                    double low_y, double low_z, double width) {
    const double x = place(point[0], low_x, width), y = place(point[1], low_y, width);
    const double z = DIMS == 3 ? place(point[DIMS - 1], low_z, width) : 0.0;
    if (!(x >= 0 && x < size_x && y >= 0 && y < size_y && z >= 0 && z < size_z)) return -1;
    return ((long long)x * size_y + (long long)y) * size_z + (long long)z;
}

// The bits of a double as a number that grows with it; 0 is below all of them, NaN is above or is 0.
__device__ inline unsigned long long in_order(double x) {
    const unsigned long long bits = __double_as_longlong(x);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// Extremes of the coordinates:
//
//   X         (n, DIMS)    STORAGE
//   extremes  (2 DIMS,)    uint64, zero before: become in_order of the largest coordinates, then of their negatives
//
// A thread takes every so many-th point; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    extremes(const STORAGE* __restrict__ X, unsigned long long* __restrict__ extremes, long long n) {
    unsigned long long most[2 * DIMS] = {};
    for (long long i = (long long)blockIdx.x * threads + threadIdx.x; i < n; i += (long long)gridDim.x * threads) {
#pragma unroll
        for (int k = 0; k < 2 * DIMS; k++) {
            const double x = X[DIMS * i + k % DIMS];
            const unsigned long long value = in_order(k < DIMS ? x : -x);
            most[k] = value > most[k] ? value : most[k];
        }
    }
#pragma unroll
    for (int k = 0; k < 2 * DIMS; k++)
        if (most[k] > *static_cast<volatile unsigned long long*>(&extremes[k])) atomicMax(&extremes[k], most[k]);
}

// Numbers of the cells that points lie in:
//
//   X      (n, DIMS)      STORAGE
//   cells  (n,)           int32          the number of cells: outside of the grid
//   held   (all cells,)   unsigned char  or null; becomes 1 of cells that hold points
//
// One thread a point; no barriers. Several may write the same 1.
extern "C" __global__ void __launch_bounds__(threads)
    cells_of_points(const STORAGE* __restrict__ X, int* __restrict__ cells, unsigned char* __restrict__ held, long long n,
                    int size_x, int size_y, int size_z, double low_x, double low_y, double low_z, double width) {
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
    const long long cell = cell_of(X + DIMS * i, size_x, size_y, size_z, low_x, low_y, low_z, width);
    cells[i] = cell < 0 ? size_x * size_y * size_z : int(cell);
    if (held && cell >= 0) held[cell] = 1;
}

// Flags within W cells along one coordinate:
//
//   in, out  (all cells,)  unsigned char  out: whether any flag of `in` is within W
//
// Cells along the coordinate are `step` apart, `size` of them. One thread a cell; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    spread_flags(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int cells, int size, int step,
                 int reach) {
    const int cell = blockIdx.x * threads + threadIdx.x;
    if (cell >= cells) return;
    const int at = cell / step % size;
    unsigned char found = 0;
    for (int o = at < reach ? -at : -reach; o <= reach && at + o < size; o++) found |= in[cell + o * step];
    out[cell] = found;
}

// Cells that have expansions:
//
//   flags, others  (all cells,)  unsigned char  a cell has one if it has both flags; `others` may be null
//   places         (all cells,)  int32          its place among them, or -1
//   list           (as many,)    int32          their numbers, in no fixed order
//   count          (1,)          int32          zero before; becomes their number
//
// One thread a cell, and one addition to the number a warp; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    list_cells(const unsigned char* __restrict__ flags, const unsigned char* __restrict__ others, int* __restrict__ places,
               int* __restrict__ list, int* __restrict__ count, int cells) {
    const int cell = blockIdx.x * threads + threadIdx.x, lane = threadIdx.x % 32;
    const bool has = cell < cells && flags[cell] && (!others || others[cell]);
    const unsigned which = __ballot_sync(~0u, has);
    int first = 0;
    if (lane == 0 && which) first = atomicAdd(count, __popc(which));
    const int at = __shfl_sync(~0u, first, 0) + __popc(which & ((1u << lane) - 1));
    if (cell < cells) places[cell] = has ? at : -1;
    if (has) list[at] = cell;
}

// P2M: moments of the cells that hold data.
//
//   X        (n, DIMS)          STORAGE  cell by cell
//   starts   (all cells + 1,)   int64    where each cell begins
//   list     (cells,)           int32    numbers of the cells that hold data
//   weights  (n,)               double   of X, or null: all are 1
//   M        (cells, P^DIMS)    double   M[m, l, k] = sum_j w_j alpha_j^k beta_j^l gamma_j^m, of two dimensions M[l, k]
//   parts    (n / Q, P^DIMS)    double   the same of parts of cells beyond the first
//
// A block owns Q = `points_of_part` points of a cell: block b the first ones of cell b, and blocks after the last cell what
// is further. Part p beyond the first of a cell that begins at s has place s / Q + p, so that no two have the same. A block
// stages the powers of `strip` points in shared memory. A thread has units of `of_unit` moments next to each other: for as
// many multiply-adds of a point it reads as many numbers that are its warp's, and two of its own.
// Barriers: two a strip, and all threads of a block have the same strips.
extern "C" __global__ void __launch_bounds__(threads, 2)
    cell_moments(const STORAGE* __restrict__ X, const long long* __restrict__ starts, const int* __restrict__ list,
                 const double* __restrict__ weights, double* __restrict__ M, double* __restrict__ parts, int cells,
                 int all_cells, int powers, int points_of_part, int size_y, int size_z, double low_x, double low_y,
                 double low_z, double width) {
    constexpr int of_unit = DIMS == 3 ? 4 : 1;
    constexpr int most_moments = most_powers * most_powers * (DIMS == 3 ? most_powers : 1);
    constexpr int units_of_thread = (most_moments / of_unit + threads - 1) / threads;
    // A row is one number longer than needed, or neighbours of a warp would all read the same bank.
    __shared__ double of_x[strip][most_powers + 1], of_y[most_powers][strip + 1], of_z[DIMS == 3 ? most_powers : 1][strip + 1];
    double sum[units_of_thread][of_unit];
#pragma unroll
    for (int s = 0; s < units_of_thread; s++)
#pragma unroll
        for (int i = 0; i < of_unit; i++) sum[s][i] = 0;
    const int powers_of_z = DIMS == 3 ? powers : 1;
    const int count = powers * powers * powers_of_z;
    const bool is_first = int(blockIdx.x) < cells;
    int cell = is_first ? list[blockIdx.x] : 0, part = 0;
    double* out = M + (long long)blockIdx.x * count;
    if (!is_first) {
        const long long at = int(blockIdx.x) - cells;
        int last = all_cells - 1;  // the last cell whose parts have no later place
        while (cell < last) {
            const int middle = (cell + last + 1) / 2;
            if (starts[middle] / points_of_part <= at) cell = middle;
            else last = middle - 1;
        }
        part = 1 + int(at - starts[cell] / points_of_part);
        out = parts + at * count;
    }
    const double cell_x = low_x + double(cell / (size_y * size_z)), cell_y = low_y + double(cell / size_z % size_y);
    const double cell_z = low_z + double(cell % size_z);
    const long long first = starts[cell] + (long long)part * points_of_part;
    if (part > 0 && first >= starts[cell + 1]) return;  // a place that is no part's
    const long long end = first + points_of_part < starts[cell + 1] ? first + points_of_part : starts[cell + 1];
    for (long long begin = first; begin < end; begin += strip) {
        const int points = int(end - begin < strip ? end - begin : strip);
        __syncthreads();
        if (threadIdx.x < strip) {
            double a = 0, b = 0, c = 0, power_of_a = 0, power_of_b = 0, power_of_c = 0;
            if (int(threadIdx.x) < points) {
                const long long row = begin + threadIdx.x;
                a = coordinate(X[DIMS * row], cell_x, width);
                b = coordinate(X[DIMS * row + 1], cell_y, width);
                if (DIMS == 3) c = coordinate(X[DIMS * row + DIMS - 1], cell_z, width);
                power_of_a = weights ? weights[row] : 1.0;
                power_of_b = power_of_c = 1;
            }
            for (int k = 0; k < powers; k++) {
                of_x[threadIdx.x][k] = power_of_a;
                of_y[k][threadIdx.x] = power_of_b;
                if (DIMS == 3) of_z[k][threadIdx.x] = power_of_c;
                power_of_a *= a;
                power_of_b *= b;
                power_of_c *= c;
            }
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < units_of_thread; s++) {
            const int at = of_unit * (threadIdx.x + s * threads);
            if (at >= count) continue;
            const int k = at % powers;
            const double* const y = of_y[at / powers % powers];
            const double* const z = of_z[DIMS == 3 ? at / (powers * powers) : 0];
#pragma unroll 4
            for (int j = 0; j < strip; j++) {
                const double others = DIMS == 3 ? y[j] * z[j] : y[j];
#pragma unroll
                for (int i = 0; i < of_unit; i++) sum[s][i] += of_x[j][k + i] * others;
            }
        }
    }
#pragma unroll
    for (int s = 0; s < units_of_thread; s++) {
        const int at = of_unit * (threadIdx.x + s * threads);
        if (at >= count) continue;
#pragma unroll
        for (int i = 0; i < of_unit; i++) out[at + i] = sum[s][i];
    }
}

// Adds the parts of a cell to its moments, one after the other, and takes its mass from them:
//
//   starts  (all cells + 1,)  int64
//   list    (cells,)          int32
//   parts   (n / Q, count)    double
//   M       (cells, count)    double  changed where a cell has parts
//   mass    (all cells,)      double  zero before; becomes the first moment
//
// A block owns a cell, a thread some of its moments; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    add_parts(const long long* __restrict__ starts, const int* __restrict__ list, const double* __restrict__ parts,
              double* __restrict__ M, double* __restrict__ mass, int count, int points_of_part) {
    const long long place = blockIdx.x, cell = list[place], points = starts[cell + 1] - starts[cell];
    const long long first = starts[cell] / points_of_part;
    const int further = points > 0 ? int((points - 1) / points_of_part) : 0;
    for (int at = threadIdx.x; at < count; at += threads) {
        double sum = M[place * count + at];
#pragma unroll 8
        for (int part = 0; part < further; part++) sum += parts[(first + part) * count + at];
        if (further) M[place * count + at] = sum;
        if (at == 0) mass[cell] = sum;
    }
}

// Masses within W cells along one coordinate, for the bound of cells of queries:
//
//   in, out            (4, all cells)  double  the bound E of the error, most A, mean, and mass; `in` (1, all cells), the
//                                              mass alone, where `is_first`
//   error, most, mean  (2 W + 1,)      double
//
//   out: E' = E (a + e) + A e, A' = A a, and mean' and mass' of the window
//
// Cells along the coordinate are `step` apart, `size` of them. One thread a cell; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    spread_masses(const double* __restrict__ in, const double* __restrict__ error, const double* __restrict__ most,
                  const double* __restrict__ mean, double* __restrict__ out, int cells, int size, int step, int reach,
                  int is_first) {
    const long long cell = (long long)blockIdx.x * threads + threadIdx.x, count = cells;
    if (cell >= cells) return;
    const int at = int(cell) / step % size;
    double off = 0, largest = 0, middle = 0, inside = 0;
    for (int o = at < reach ? -at : -reach; o <= reach && at + o < size; o++) {
        const long long source = cell + (long long)o * step;
        const double m = in[is_first ? source : 3 * count + source];
        if (m == 0) continue;
        const double a = is_first ? m : in[count + source], e = error[reach - o], factor = most[reach - o];
        off += a * e + (is_first ? 0.0 : in[source] * (factor + e));
        largest += a * factor;
        middle += (is_first ? m : in[2 * count + source]) * mean[reach - o];
        inside += m;
    }
    out[cell] = off;
    out[count + cell] = largest;
    out[2 * count + cell] = middle;
    out[3 * count + cell] = inside;
}

// The bound of cells about which expansions are worth their while:
//
//   masses  (4, all cells)  double         of all coordinates
//   whole   (1,)            double         sum of all masses
//   held    (all cells,)    unsigned char  whether a cell holds queries, or null: any may
//   bound   (all cells,)    double         of the error of sums
//   wanted  (all cells,)    unsigned char  whether there is to be an expansion
//
// One thread a cell; no barriers.
extern "C" __global__ void __launch_bounds__(threads)
    choose_cells(const double* __restrict__ masses, const double* __restrict__ whole,
                 const unsigned char* __restrict__ held, double* __restrict__ bound, unsigned char* __restrict__ wanted,
                 int cells, double beyond, double rtol) {
    const long long cell = (long long)blockIdx.x * threads + threadIdx.x, count = cells;
    if (cell >= cells) return;
    const double outside = whole[0] - masses[3 * count + cell] * (1 - 1e-14);
    const double off = masses[cell] + (outside > 0 ? outside : 0.0) * beyond;
    const bool worth = (!held || held[cell]) && off <= rtol * masses[2 * count + cell];
    bound[cell] = off;
    wanted[cell] = worth;
}

// M2L along one coordinate:
//
//   in       (sources, P, R)  double  R = P^(DIMS - 1)
//   places   (all cells,)     int32   of sources in `in`, or -1
//   list     (targets,)       int32   numbers of cells
//   table    (2 W + 1, P, P)  double  T[o, k, l], of powers k of data and l of queries
//   out      (targets, R, P)  double  out[t][b, l] = sum_{o, k} T[o, k, l] in[t - o][k, b]
//
// The powers change their places, so that the next launch takes the next coordinate, the last one first. Cells along the
// coordinate are `step` apart, `size` of them.
//
// P R / 16 threads next to each other own a target, and a thread has 4 by 4 of its sums: for 16 multiply-adds it reads
// 4 times two numbers through the cache, and a warp one or two lines of it each time. No barriers.
extern "C" __global__ void __launch_bounds__(threads)
    translate(const double2* __restrict__ in, const int* __restrict__ places, const int* __restrict__ list,
              const double2* __restrict__ table, double2* __restrict__ out, int targets, int size, int step, int reach,
              int powers) {
    const int others = DIMS == 3 ? powers * powers : powers, tiles = powers / tile, threads_of_target = tiles * others / tile;
    const long long at = (long long)blockIdx.x * threads + threadIdx.x;
    const int target = int(at / threads_of_target), slot = int(at % threads_of_target);
    if (target >= targets) return;
    const int cell = list[target], along = cell / step % size;
    const int l = tile * (slot % tiles), b = tile * (slot / tiles);
    double sum[tile][tile] = {};  // [b][l]
    for (int o = along < reach ? -along : -reach; o <= reach && along + o < size; o++) {
        const long long source = places[cell + o * step];
        if (source < 0) continue;
        const double2* factors = table + ((long long)(reach - o) * powers * powers + l) / 2;
        const double2* moments = in + (source * powers * others + b) / 2;
#pragma unroll 2
        for (int k = 0; k < powers; k++) {
            const double2 f01 = factors[0], f23 = factors[1], m01 = moments[0], m23 = moments[1];
            const double f[tile] = {f01.x, f01.y, f23.x, f23.y}, m[tile] = {m01.x, m01.y, m23.x, m23.y};
#pragma unroll
            for (int i = 0; i < tile; i++)
#pragma unroll
                for (int j = 0; j < tile; j++) sum[i][j] += m[i] * f[j];
            factors += powers / 2;
            moments += others / 2;
        }
    }
#pragma unroll
    for (int i = 0; i < tile; i++) {
        double2* const row = out + (((long long)target * others + b + i) * powers + l) / 2;
        row[0] = make_double2(sum[i][0], sum[i][1]);
        row[1] = make_double2(sum[i][2], sum[i][3]);
    }
}

// L2P: sums at queries, and a list of those that the bound does not hold of:
//
//   Y        (m, DIMS)         STORAGE
//   order    (m,)              int64   rows of the queries, near ones together, or null: as they are
//   B        (cells, P^DIMS)   double  B[m, l, k], of alpha^k beta^l gamma^m, or B[l, k]
//   places   (all cells,)      int32   of cells in B, or -1
//   bound    (all cells,)      double
//   total    (m,)              double  1 if a query is left
//   moments  (m, DIMS)         double  `slope` times the derivatives; 0 if it is left; null without MOMENTS
//   rest     (m,)              int64   rows of the queries that are left, in no fixed order
//   counts   (2,)              int64   zero before; [0] becomes their number
//
// One thread a query: P^DIMS multiply-adds, with MOMENTS twice as many. No barriers.
extern "C" __global__ void __launch_bounds__(threads, 4)
    cell_values(const STORAGE* __restrict__ Y, const long long* __restrict__ order, const double2* __restrict__ B,
                const int* __restrict__ places, const double* __restrict__ bound, double* __restrict__ total,
                double* __restrict__ moments, long long* __restrict__ rest, unsigned long long* __restrict__ counts,
                long long m, int size_x, int size_y, int size_z, int powers, double low_x, double low_y, double low_z,
                double width, double slope, double rtol) {
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= m) return;
    const long long row = order ? order[i] : i;
    const long long cell = cell_of(Y + DIMS * row, size_x, size_y, size_z, low_x, low_y, low_z, width);
    const long long at = cell < 0 ? -1 : places[cell];
    double value = 0, by_a = 0, by_b = 0, by_c = 0;
    if (at >= 0) {
        const double a = coordinate(Y[DIMS * row], low_x + double(cell / ((long long)size_y * size_z)), width);
        const double b = coordinate(Y[DIMS * row + 1], low_y + double(cell / size_z % size_y), width);
        const double c = DIMS == 3 ? coordinate(Y[DIMS * row + DIMS - 1], low_z + double(cell % size_z), width) : 0.0;
        const int pairs = powers / 2, powers_of_z = DIMS == 3 ? powers : 1;
        const double2* const polynomial = B + at * powers_of_z * powers * pairs;
        for (int n = powers_of_z - 1; n >= 0; n--) {
            double of_plane = 0, plane_by_a = 0, plane_by_b = 0;
            for (int l = powers - 1; l >= 0; l--) {
                const double2* const coefficients = polynomial + (n * powers + l) * pairs;
                double of_row = 0, row_by_a = 0;
#pragma unroll 4
                for (int k = pairs - 1; k >= 0; k--) {
                    const double2 two = coefficients[k];
                    if (MOMENTS) row_by_a = row_by_a * a + of_row;
                    of_row = of_row * a + two.y;
                    if (MOMENTS) row_by_a = row_by_a * a + of_row;
                    of_row = of_row * a + two.x;
                }
                if (MOMENTS) {
                    plane_by_b = plane_by_b * b + of_plane;
                    plane_by_a = plane_by_a * b + row_by_a;
                }
                of_plane = of_plane * b + of_row;
            }
            if (MOMENTS) {
                by_c = by_c * c + value;
                by_b = by_b * c + plane_by_b;
                by_a = by_a * c + plane_by_a;
            }
            value = value * c + of_plane;
        }
    }
    const bool left = at < 0 || !(bound[cell] * (1 + rtol) <= rtol * value);
    if (left) rest[atomicAdd(&counts[0], 1ull)] = row;
    total[row] = left ? 1.0 : value;
    if (MOMENTS) {
        moments[DIMS * row] = left ? 0.0 : slope * by_a;
        moments[DIMS * row + 1] = left ? 0.0 : slope * by_b;
        if (DIMS == 3) moments[DIMS * row + DIMS - 1] = left ? 0.0 : slope * by_c;
    }
}

// P2P: sums at queries that are left over the data of the cells around, W in each direction, pair by pair:
//
//   X        (n, DIMS)         STORAGE  cell by cell
//   starts   (all cells + 1,)  int64    where each cell begins
//   weights  (n,)              double   of X, or null: all are 1
//   whole    (1,)              double   sum of all masses
//   Y        (m, DIMS)         STORAGE
//   rest     (m,)              int64    rows of the queries that cell_values left
//   total    (m,)              double   changed where data further away can be left out
//   moments  (m, DIMS)         double   likewise; null without MOMENTS
//   beyond   (m,)              int64    rows of the queries where they cannot, in no fixed order
//   counts   (2,)              int64    [0]: number of `rest`; [1], zero before, becomes that of `beyond`
//
// A block owns every so many-th query of `rest`. Cells next to each other by the last coordinate are one stretch of the
// data. There are (2 W + 1)^(DIMS - 1) stretches, and a warp takes every eighth. Barriers: two a query, and all threads of a
// block have the same queries.
extern "C" __global__ void __launch_bounds__(threads, 2)
    sum_window(const STORAGE* __restrict__ X, const long long* __restrict__ starts, const double* __restrict__ weights,
               const double* __restrict__ whole, const STORAGE* __restrict__ Y, const long long* __restrict__ rest,
               double* __restrict__ total, double* __restrict__ moments, long long* __restrict__ beyond,
               unsigned long long* __restrict__ counts, int size_x, int size_y, int size_z, int reach, double low_x,
               double low_y, double low_z, double width, double scale, double most_beyond, double rtol) {
    constexpr int kinds = MOMENTS ? 2 + DIMS : 2, warps = threads / 32;
    __shared__ double of_warps[kinds][warps];
    const long long count = counts[0];
    // Sizes by the last coordinate, along which stretches are, and by those before.
    const int size_last = DIMS == 3 ? size_z : size_y, size_middle = DIMS == 3 ? size_y : 1;
    for (long long at = blockIdx.x; at < count; at += gridDim.x) {
        const long long query = rest[at];
        const double x = Y[DIMS * query], y = Y[DIMS * query + 1], z = DIMS == 3 ? Y[DIMS * query + DIMS - 1] : 0;
        const double cell_x = place(x, low_x, width), cell_y = place(y, low_y, width);
        const double cell_z = DIMS == 3 ? place(z, low_z, width) : 0.0;
        double sums[kinds] = {};  // of kernels, of masses, and of moments
        const bool near = cell_x >= -reach && cell_x < size_x + reach && cell_y >= -reach && cell_y < size_y + reach &&
                          cell_z >= -reach && cell_z < size_z + reach;
        const int place_x = near ? int(cell_x) : 0, place_y = near ? int(cell_y) : 0, place_z = near ? int(cell_z) : 0;
        const int middle = DIMS == 3 ? place_y : 0, last = DIMS == 3 ? place_z : place_y;
        const int across = DIMS == 3 ? 2 * reach + 1 : 1;
        const int first_z = last > reach ? last - reach : 0;
        const int last_z = last + reach < size_last ? last + reach : size_last - 1;
        for (int stretch = threadIdx.x / 32; near && stretch < (2 * reach + 1) * across; stretch += warps) {
            const int sx = place_x + stretch / across - reach, sy = DIMS == 3 ? middle + stretch % across - reach : 0;
            if (sx < 0 || sx >= size_x || sy < 0 || sy >= size_middle || first_z > last_z) continue;
            const long long row = ((long long)sx * size_middle + sy) * size_last, end = starts[row + last_z + 1];
#pragma unroll 2
            for (long long j = starts[row + first_z] + threadIdx.x % 32; j < end; j += 32) {
                const double along_x = X[DIMS * j] - x, along_y = X[DIMS * j + 1] - y;
                const double along_z = DIMS == 3 ? X[DIMS * j + DIMS - 1] - z : 0.0;
                const double mass = weights ? weights[j] : 1.0;
                const double kernel = mass * exp(scale * (along_x * along_x + along_y * along_y + along_z * along_z));
                sums[0] += kernel;
                sums[1] += mass;
                if (MOMENTS) {
                    sums[2] += kernel * along_x;
                    sums[3] += kernel * along_y;
                    if (DIMS == 3) sums[kinds - 1] += kernel * along_z;
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
            for (int warp = 1; warp < warps; warp++) sums[k] += of_warps[k][warp];
        const double outside = whole[0] - sums[1] * (1 - 1e-14);
        if (!(sums[0] > 1e-280 && (outside > 0 ? outside : 0.0) * most_beyond <= rtol * sums[0])) {
            beyond[atomicAdd(&counts[1], 1ull)] = query;
            continue;
        }
        total[query] = sums[0];
        if (MOMENTS) {
#pragma unroll
            for (int k = 0; k < DIMS; k++) moments[DIMS * query + k] = sums[2 + k];
        }
    }
}
