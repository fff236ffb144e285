// Operands of the float16 engine: centred and scaled points, split into two float16 terms, and their norms.
//
//   z      = (point - centre) scale, with scale = sqrt(log2 e) / h, so that |z_i - z_j|^2 / 2 is an exponent in bits
//   hi     = float16(z),  lo = float16(z - hi)
//   z'     = hi + lo, or hi alone if there is no lo
//   norms  = -|z'|^2 / 2 + log2 w
//
// For data and, in the same launch, for queries:
//
//   X, Y               (n, d), (m, d)            STORAGE
//   centre             (d,)                      double
//   log_weights        (n,)                      double   natural logarithms, or null: all weights 1
//   X_hi, X_lo, ...    (rows, DEPTH)             float16  rows: n, m rounded up to whole blocks; lo may be null
//   X_norms            (rows,)                   float    or null: not needed
//   X_terms, Y_terms   (rows, 8)                 float16  the norm in terms, see norms_f16.cuh; or null
//   X_weights          (rows,)                   float    log2 w apart from the norms, or null: in the norms
//   radius2            (1,)                      float    scaled squared radius: becomes max(radius2, |z|^2); or null
//   sums               (rows (DEPTH + 1),)       float    set to zero, for a symmetric pass to add to; or null
//
// With MOVED the data are first moved by `step` times the mean shift from a symmetric pass over them. Their operands
// are replaced by the new ones:
//
//   S, T               (rows,), (rows, DEPTH)    float    sums of that pass, see f16_symmetric.cuh
//   unit                                         double   unit of the z of that pass, in the units of the data
//   X_moved, Y_wide    (n, d), (m, d)            double   the data moved, and the queries beside them in the same dtype
//
// The terms of an exponent z_i . z_j + norm_i + norm_j cancel, and the rounding of the norms remains as its error. So,
// with two terms and a free column (d < DEPTH), norms are multiples of 2^-14, two of which add up exactly up to 1024. The
// rest of the norm becomes the last coordinate of the point, 1 + rest. The product of two such coordinates is
// 1 + rest_i + rest_j, and the norms allow for the 1. Other norms are rounded to 23 bits, one less than a float has: two
// of similar size then add up exactly, where the tensor core would truncate the sum.
//
// With `exact_hi` hi are multiples of 2^-7: then the products hi . hi, too, add up exactly with these norms up to 1024.
//
// Rows past the end are zero, and their norm is -60000, so low that 2^norm is zero; rows of zero weight have that norm,
// too. Other columns past d are zero. The order of dimensions in a row is that of column_order.cuh.
//
// One thread for each row. Grid: x over blocks of 128 rows, y = 0 the data, y = 1 the queries. No shared memory, no
// barriers.
//
// Macros: STORAGE; DEPTH, a multiple of 16 and at least d; MOVED 0 or 1.
#include "ptx.cuh"
#include "column_order.cuh"
#include "norms_f16.cuh"

constexpr int threads = 128;
constexpr int blocks_at_least = 4;  // of a multiprocessor: 128 registers, without which some compilers spill
constexpr double log2_e = 1.4426950408889634;

constexpr double step_of_exact_hi = 1.0 / 128;

// Norms are multiples of this if the rest has a column.
constexpr double step_beside_rest = 1.0 / 16384;

#if MOVED
// Factor for the sums of a symmetric pass, see f16_symmetric.cuh.
constexpr double shift = 1.0 / 8192;

// Word w of the 8 of a group.
__device__ inline unsigned word_of(const uint4* group, int w) {
    const uint4 piece = group[w / 4];
    return w % 4 == 0 ? piece.x : w % 4 == 1 ? piece.y : w % 4 == 2 ? piece.z : piece.w;
}
#endif

// The unit whose multiples have 23 bits if they are as large as x; 2^-22 for x below 1.
__device__ inline double step_of_23_bits(double x) {
    const unsigned exponent = __float_as_uint(fmaxf(fabsf(float(x)), 1)) >> 23;
    return __uint_as_float((exponent - 22) << 23);
}

__device__ inline unsigned larger_bits(unsigned a, unsigned b) { return a > b ? a : b; }

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
prepare_f16(const STORAGE* __restrict__ X, const STORAGE* __restrict__ Y, const double* __restrict__ centre,
            const double* __restrict__ log_weights, uint4* __restrict__ X_hi, uint4* __restrict__ X_lo,
            float* __restrict__ X_norms, uint4* __restrict__ X_terms, float* __restrict__ X_weights,
            uint4* __restrict__ Y_hi, uint4* __restrict__ Y_lo, uint4* __restrict__ Y_terms, float* __restrict__ radius2,
#if MOVED
            const float* __restrict__ S, const float* __restrict__ T, double* __restrict__ X_moved,
            double* __restrict__ Y_wide, double unit, double step,
#else
            float* __restrict__ sums,
#endif
            long long n, long long m, int d, int exact_hi, double scale) {
    const bool of_data = blockIdx.y == 0;
    const STORAGE* const points = of_data ? X : Y;
    const long long rows = of_data ? n : m;
    if ((long long)blockIdx.x * threads >= rows) return;

    const long long row = (long long)blockIdx.x * threads + threadIdx.x;
    const bool exists = row < rows;
    uint4* const hi_of_row = (of_data ? X_hi : Y_hi) + row * (DEPTH / 8);
    uint4* const lo_of_row = (of_data ? X_lo : Y_lo) + row * (DEPTH / 8);
    const bool split = of_data ? X_lo != nullptr : Y_lo != nullptr;

#if MOVED
    const double others = exists && of_data ? S[row] * shift : 0.0;  // beside the point's own 1
    // The position of dimension k of this row, which lies in half e of word w of its group.
    const auto coordinate = [&](int k, int w, int e) {
        const double given = points[row * d + k];
        if (!of_data) return Y_wide[row * d + k] = given;
        float high[2], low[2] = {0, 0};
        unpack_f16(word_of(hi_of_row + k / 16 * 2, w), high[0], high[1]);
        if (split) unpack_f16(word_of(lo_of_row + k / 16 * 2, w), low[0], low[1]);
        const double z = double(high[e]) + low[e];
        const double mean_shift = (T[row * DEPTH + k] * shift - others * z) / (1 + others) * unit;
        return X_moved[row * d + k] = given + step * mean_shift;
    };
#else
    const auto coordinate = [&](int k, int, int) { return double(points[row * d + k]); };
    if (sums && of_data) {
        const long long padded = (n + threads - 1) / threads * threads;
        sums[row] = 0;
        float4* const of_row = reinterpret_cast<float4*>(sums + padded + row * DEPTH);
#pragma unroll
        for (int piece = 0; piece < DEPTH / 4; piece++) of_row[piece] = make_float4(0, 0, 0, 0);
    }
#endif

    double square = 0, square_of_rounded = 0;
#pragma unroll 1
    for (int group = 0; group < DEPTH / 16; group++) {
        unsigned hi[8], lo[8];
#pragma unroll
        for (int pair = 0; pair < 8; pair++) {
            const int dimension = column_of_word(group * 8 + pair);
            double z[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int k = dimension + e;
                z[e] = exists && k < d ? (coordinate(k, pair, e) - centre[k]) * scale : 0.0;
            }
            float of_hi[2], of_lo[2] = {0, 0};
            const auto in_hi = [&](double x) { return float(exact_hi ? rint(x / step_of_exact_hi) * step_of_exact_hi : x); };
            hi[pair] = pack_f16(in_hi(z[0]), in_hi(z[1]));
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

    double norm = exists ? -0.5 * square_of_rounded : double(no_norm);
    if (of_data) {
        const double weight = !exists ? double(no_norm) : log_weights ? log_weights[row] * log2_e : 0.0;
        if (X_weights) X_weights[row] = fmaxf(float(weight), no_norm);
        else norm += weight;
    }
    if (!(norm > no_norm)) {
        norm = no_norm;
    } else if (split && d < DEPTH) {
        norm -= 0.5;
        const double stored = rint(norm / step_beside_rest) * step_beside_rest;
        const int place = position_of(d);
        reinterpret_cast<unsigned short*>(hi_of_row)[place] = pack_f16(1, 0);
        reinterpret_cast<unsigned short*>(lo_of_row)[place] = pack_f16(float(norm - stored), 0);
        norm = stored;
    } else {
        const double step = step_of_23_bits(norm);
        norm = rint(norm / step) * step;
    }
    uint4* const terms = of_data ? X_terms : Y_terms;
    if (terms) terms[row] = norm_terms(norm);
    if (of_data && X_norms) X_norms[row] = norm;

    if (radius2) {
        // The bits of non-negative floats have the order of the numbers, with infinity and NaN on top.
        unsigned largest = __float_as_uint(float(square));
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            largest = larger_bits(largest, __shfl_xor_sync(~0u, largest, step));
        if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(radius2), largest);
    }
}
