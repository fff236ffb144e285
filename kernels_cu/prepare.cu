// Operands of the float16 engine: points centred, scaled and split in two float16 terms, and their norms.
//
//   z      = (point - centre) scale, with scale = sqrt(log2 e) / h, so that |z_i - z_j|^2 / 2 is an exponent in bits
//   hi     = float16(z),  lo = float16(z - hi)
//   z'     = hi + lo, or hi alone where there is no lo
//   norms  = -|z'|^2 / 2 + log2 w
//
// For data and, in the same launch, for queries:
//
//   X, Y               (n, d), (m, d)            STORAGE
//   centre             (d,)                      double
//   log_weights        (n,)                      double   natural logarithms, or null: all weights 1
//   X_hi, X_lo, ...    (rows, DEPTH)             float16  rows: n, m rounded up to whole blocks; lo may be null
//   X_norms, Y_norms   (rows,)                   float
//   X_weights          (rows,)                   float    log2 w apart from the norms, or null: in the norms
//   spread             (1,)                      float    becomes max(spread, |z|^2); or null
//
// Exponents z_i . z_j + norm_i + norm_j cancel, and the rounding of the norms is what they are left with. So, with
// two terms and where a column is free (d < DEPTH), norms are multiples of 2^-14, of which two add up exactly as far
// as 1024, and what that rounds off becomes the point's last coordinate: 1 + rest, whose products with those
// of other points are 1 + rest_i + rest_j, the 1 being allowed for in the norms.
//
// Rows past the end are zero, with a norm so low that 2^ of it is zero; so are other columns past d. Of each group
// of 16 dimensions position 8 u + 2 t + e holds dimension 4 t + 2 u + e: a lane with the fragments' columns 2t and 2t+1
// of both halves then has four neighbouring dimensions.
//
// One thread a row. Grid: x over blocks of 128 rows, y = 0 the data, y = 1 the queries. Nothing is shared, and no
// barrier passed.
//
// Macros: STORAGE; DEPTH, a multiple of 16 and at least d.
#include "ptx.cuh"

constexpr int threads = 128;
constexpr double log2_e = 1.4426950408889634;

// log2 of a weight that counts for nothing, and the norm of a row that does not exist.
constexpr float none = -1e30f;

// Norms below this are those of points that count for nothing.
constexpr float lowest = -1e6f;

// Norms are multiples of 1 / grid where the rest has a place.
constexpr double grid = 16384;

// Where dimension k lies in its row.
__device__ inline int position_of(int k) { return k / 16 * 16 + k % 4 / 2 * 8 + k % 16 / 4 * 2 + k % 2; }

__device__ inline unsigned larger_bits(unsigned a, unsigned b) { return a > b ? a : b; }

extern "C" __global__ void __launch_bounds__(threads)
prepare_f16(const STORAGE* __restrict__ X, const STORAGE* __restrict__ Y, const double* __restrict__ centre,
            const double* __restrict__ log_weights, uint4* __restrict__ X_hi, uint4* __restrict__ X_lo,
            float* __restrict__ X_norms, float* __restrict__ X_weights, uint4* __restrict__ Y_hi,
            uint4* __restrict__ Y_lo, float* __restrict__ Y_norms, float* __restrict__ spread, long long n, long long m,
            int d, double scale) {
    const bool of_data = blockIdx.y == 0;
    const STORAGE* const points = of_data ? X : Y;
    const long long rows = of_data ? n : m;
    if ((long long)blockIdx.x * threads >= rows) return;

    const long long row = (long long)blockIdx.x * threads + threadIdx.x;
    const bool exists = row < rows;
    uint4* const hi_of_row = (of_data ? X_hi : Y_hi) + row * (DEPTH / 8);
    uint4* const lo_of_row = (of_data ? X_lo : Y_lo) + row * (DEPTH / 8);
    const bool split = of_data ? X_lo != nullptr : Y_lo != nullptr;

    double square = 0, square_of_rounded = 0;
#pragma unroll 1
    for (int group = 0; group < DEPTH / 16; group++) {
        unsigned hi[8], lo[8];
#pragma unroll
        for (int pair = 0; pair < 8; pair++) {
            const int dimension = group * 16 + 4 * (pair % 4) + 2 * (pair / 4);
            double z[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                z[e] = exists && dimension + e < d
                           ? (double(points[row * d + dimension + e]) - centre[dimension + e]) * scale
                           : 0.0;
            }
            float of_hi[2], of_lo[2] = {0, 0};
            hi[pair] = pack_f16(float(z[0]), float(z[1]));
            unpack_f16(hi[pair], of_hi[0], of_hi[1]);
            lo[pair] = 0;
            if (split) {
                lo[pair] = pack_f16(float(z[0] - of_hi[0]), float(z[1] - of_hi[1]));
                unpack_f16(lo[pair], of_lo[0], of_lo[1]);
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const double rounded = double(of_hi[e]) + of_lo[e];
                square += z[e] * z[e];
                square_of_rounded += rounded * rounded;
            }
        }
        hi_of_row[2 * group] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
        hi_of_row[2 * group + 1] = make_uint4(hi[4], hi[5], hi[6], hi[7]);
        if (split) {
            lo_of_row[2 * group] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
            lo_of_row[2 * group + 1] = make_uint4(lo[4], lo[5], lo[6], lo[7]);
        }
    }

    double norm = exists ? -0.5 * square_of_rounded : double(none);
    if (of_data) {
        const double weight = !exists ? double(none) : log_weights ? log_weights[row] * log2_e : 0.0;
        if (X_weights) X_weights[row] = fmaxf(float(weight), none);
        else norm += weight;
    }
    float stored = fmaxf(float(norm), none);
    if (split && d < DEPTH && stored > lowest) {
        norm -= 0.5;
        stored = float(rint(norm * grid) / grid);
        const int place = position_of(d);
        reinterpret_cast<unsigned short*>(hi_of_row)[place] = pack_f16(1, 0);
        reinterpret_cast<unsigned short*>(lo_of_row)[place] = pack_f16(float(norm - stored), 0);
    }
    (of_data ? X_norms : Y_norms)[row] = stored;

    if (spread) {
        // Of floats that are not negative the bits have the order of the numbers, with infinity and NaN on top.
        unsigned largest = __float_as_uint(float(square));
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            largest = larger_bits(largest, __shfl_xor_sync(~0u, largest, step));
        if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(spread), largest);
    }
}
