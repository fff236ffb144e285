// Pre-pass reductions: the mean of the data, the scaled squared radius about a centre, and whether all entries are finite.
//
// Macros: STORAGE, what X and Y hold.
constexpr int threads_of_means = 1024;
constexpr int threads_of_survey = 128;

// Sums of the columns of each part of the rows, times a factor, in an order that does not depend on the machine:
//
//   X      (n, d)      STORAGE
//   means  (parts, d)  double   factor times the sum of the part's rows; with one part and factor 1/n, their mean
//
// Grid: x over parts of `part_rows` rows. A thread sums one column over every so many-th row. The sums of the threads
// of a column are added through shared memory. Barriers: two for each 1,024 columns, all threads pass them.
extern "C" __global__ void __launch_bounds__(threads_of_means)
column_means(const STORAGE* __restrict__ X, double* __restrict__ means, long long n, int d, long long part_rows,
             double factor) {
    __shared__ double sums[threads_of_means];
    const long long begin = blockIdx.x * part_rows, end = begin + part_rows < n ? begin + part_rows : n;
    for (int first = 0; first < d; first += threads_of_means) {
        const int columns = d - first < threads_of_means ? d - first : threads_of_means;
        const int rows = threads_of_means / columns;  // at a time
        const int column = threadIdx.x % columns, offset = threadIdx.x / columns;
        double sum = 0;
        if (offset < rows) {
#pragma unroll 8
            for (long long row = begin + offset; row < end; row += rows) sum += X[row * d + first + column];
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (offset == 0) {
            for (int r = 1; r < rows; r++) sum += sums[r * columns + column];
            means[blockIdx.x * (long long)d + first + column] = sum * factor;
        }
        __syncthreads();
    }
}

// Reductions over all points. `lanes` threads, a power of two, own a row, so that neighbouring threads read neighbouring
// numbers of long rows. Grid: x over blocks of 128 / lanes rows, each of which takes every gridDim.x-th of them; y = 0 for X,
// y = 1 for Y:
//
//   X, Y      (n, d), (m, d)  STORAGE
//   centre    (d,)            double, or null: distances are not needed
//   figures   (2,)            uint64, zero before
//             [0]  becomes the bits of the largest squared distance to the centre, a double. The bits of non-negative
//                  numbers have the order of the numbers, with infinity and NaN on top
//             [1]  gets bit `bit` if an entry of X is NaN or infinite, bit + 1 for Y
//   near      (n,)            unsigned char, or null: becomes whether that distance of a row of X is at most `within`
//
// No barriers.
extern "C" __global__ void __launch_bounds__(threads_of_survey)
survey(const STORAGE* __restrict__ X, const STORAGE* __restrict__ Y, const double* __restrict__ centre,
       unsigned long long* __restrict__ figures, unsigned char* __restrict__ near, long long n, long long m, int d,
       int lanes, int bit, double within) {
    const STORAGE* const points = blockIdx.y == 0 ? X : Y;
    const long long rows = blockIdx.y == 0 ? n : m;
    const int of_block = threads_of_survey / lanes;
    unsigned long long largest = 0;
    bool finite = true;
    for (long long first = (long long)blockIdx.x * of_block; first < rows; first += (long long)gridDim.x * of_block) {
        const long long row = first + threadIdx.x / lanes;
        double square = 0;
        if (row < rows) {
#pragma unroll 8
            for (int k = threadIdx.x % lanes; k < d; k += lanes) {
                const STORAGE entry = points[row * d + k];
                finite &= isfinite(entry);
                const double step = centre ? double(entry) - centre[k] : 0.0;
                square += step * step;
            }
        }
        for (int step = lanes / 2; step > 0; step /= 2) square += __shfl_xor_sync(~0u, square, step);
        if (near && blockIdx.y == 0 && row < rows && threadIdx.x % lanes == 0) near[row] = square <= within;
        const unsigned long long bits = __double_as_longlong(square);
        largest = largest > bits ? largest : bits;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const unsigned long long other = __shfl_xor_sync(~0u, largest, step);
        largest = largest > other ? largest : other;
    }
    const bool broken = __any_sync(~0u, !finite);
    if (threadIdx.x % 32) return;
    // Most warps skip the atomic operation, so that few wait for this one address.
    if (largest > *static_cast<volatile unsigned long long*>(&figures[0])) atomicMax(&figures[0], largest);
    if (broken) atomicOr(&figures[1], 1ull << (bit + blockIdx.y));
}

// The place of a number in the order of doubles, NaN above all.
__device__ inline unsigned long long place_of(double number) {
    const unsigned long long bits = __double_as_longlong(number), sign = 1ull << 63;
    return isnan(number) ? ~0ull : bits & sign ? ~bits : bits | sign;
}

// Least and largest of many numbers:
//
//   entries  (n,)  STORAGE
//   figures  (2,)  uint64, zero before: become the places of the largest and of the negative of the least
//
// Grid: x over parts of the entries. No barriers.
extern "C" __global__ void __launch_bounds__(threads_of_survey)
range(const STORAGE* __restrict__ entries, unsigned long long* __restrict__ figures, long long n) {
    unsigned long long places[2] = {0, 0};
    const long long step = (long long)gridDim.x * threads_of_survey;
    for (long long i = (long long)blockIdx.x * threads_of_survey + threadIdx.x; i < n; i += step) {
        const double entry = entries[i];
        const unsigned long long place = place_of(entry), negative = place_of(-entry);
        if (place > places[0]) places[0] = place;
        if (negative > places[1]) places[1] = negative;
    }
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int other = 16; other > 0; other /= 2) {
            const unsigned long long place = __shfl_xor_sync(~0u, places[which], other);
            if (place > places[which]) places[which] = place;
        }
        if (threadIdx.x % 32 == 0) atomicMax(&figures[which], places[which]);
    }
}

// Where points of a line lie, of data in ascending order and of queries in any:
//
//   ascending, points  (n,), (m,)  STORAGE, NaN at the end
//   figures            (3,)        uint64, zero before: the bits of doubles, the first and the last of the data, and the
//                                  largest absolute value of the points, with infinity and NaN on top
//
// Grid: x over parts of the points. No barriers.
extern "C" __global__ void __launch_bounds__(threads_of_survey)
ends(const STORAGE* __restrict__ ascending, const STORAGE* __restrict__ points, unsigned long long* __restrict__ figures,
     long long n, long long m) {
    double most = 0;
    bool finite = true;
    const long long step = (long long)gridDim.x * threads_of_survey;
    for (long long i = (long long)blockIdx.x * threads_of_survey + threadIdx.x; i < m; i += step) {
        const double size = fabs(double(points[i]));
        finite &= isfinite(size);
        most = size > most ? size : most;
    }
    constexpr unsigned long long infinity = 0x7ff0000000000000;
    unsigned long long largest = finite ? __double_as_longlong(most) : infinity;
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        const unsigned long long bits = __shfl_xor_sync(~0u, largest, other);
        largest = largest > bits ? largest : bits;
    }
    if (threadIdx.x % 32 == 0) atomicMax(&figures[2], largest);
    if (blockIdx.x == 0 && threadIdx.x < 2) {
        figures[threadIdx.x] = __double_as_longlong(double(ascending[threadIdx.x ? n - 1 : 0]));
    }
}
