// Operands of wide.cu: centred and scaled points, split into two float16 terms, with their norms.
//
//   z      = (point - centre) scale, with scale = sqrt(log2 e) / h, so that |z_i - z_j|^2 / 2 is an exponent in bits
//   hi     = float16(z),  lo = float16(z - hi)
//   norms  = -|z'|^2 / 2 + log2 w, of the z' that is kept: hi + lo, or hi alone if there is no lo
//
// With `rests`, products of hi add up exactly while |z|^2 < 1024: hi is a multiple of 2^-7, and norms are multiples of
// 2^-14. `rests` have the remainders of the norms.
//
//   X            (n, d)         STORAGE  points
//   centre       (d,)           double
//   log_weights  (n,)           double   natural logarithms, or null: all weights 1
//   hi, lo       (rows, depth)  float16  dimensions in their order; lo may be null
//   rounded      (rows, depth)  float16  z to nearest, or null
//   norms        (rows,)        float
//   rests        (rows,)        float    or null
//   weights      (rows,)        float    log2 w apart from the norms, or null: in the norms
//   radius2      (1,)           float    scaled squared radius: becomes max(radius2, |z|^2); or null
//
// rows and depth are n and d rounded up. Rows past the data are zero, with a norm of -1e30, so that 2^norm is zero.
// Rows of zero weight have that norm, or weight, too.
//
// One warp for each row, 4 a block. No shared memory, no barriers.
//
// Macros: STORAGE float or double.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int threads = 128;
constexpr float no_norm = -1e30f;
constexpr double hi_step = 1.0 / 128, norm_step = hi_step * hi_step;

extern "C" __global__ void __launch_bounds__(threads)
prepare_wide(const STORAGE* __restrict__ X, const double* __restrict__ centre, const double* __restrict__ log_weights,
             unsigned short* __restrict__ hi, unsigned short* __restrict__ lo, unsigned short* __restrict__ rounded,
             float* __restrict__ norms,             float* __restrict__ rests, float* __restrict__ weights, float* __restrict__ radius2, long long n, int d, int depth, double scale) {
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    const bool exists = row < n;
    double square = 0, square_of_kept = 0;
    for (int pair = lane; pair < depth / 2; pair += 32) {
        double z[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int k = 2 * pair + e;
            z[e] = exists && k < d ? (double(X[row * d + k]) - centre[k]) * scale : 0.0;
        }
        float high[2], low[2] = {0, 0};
        const auto kept_in_hi = [&](double x) { return float(rests ? rint(x / hi_step) * hi_step : x); };
        const unsigned of_hi = pack_f16(kept_in_hi(z[0]), kept_in_hi(z[1]));
        unpack_f16(of_hi, high[0], high[1]);
        *reinterpret_cast<unsigned*>(hi + row * depth + 2 * pair) = of_hi;
        if (rounded) *reinterpret_cast<unsigned*>(rounded + row * depth + 2 * pair) = pack_f16(float(z[0]), float(z[1]));
        if (lo) {
            const unsigned of_lo = pack_f16(float(z[0] - high[0]), float(z[1] - high[1]));
            unpack_f16(of_lo, low[0], low[1]);
            *reinterpret_cast<unsigned*>(lo + row * depth + 2 * pair) = of_lo;
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const double kept = double(high[e]) + low[e];
            square += z[e] * z[e];
            square_of_kept += kept * kept;
        }
    }
    square = sum_over_lanes<32>(square);
    square_of_kept = sum_over_lanes<32>(square_of_kept);
    if (lane > 0) return;
    const float weight = !exists ? no_norm : log_weights ? fmaxf(float(log_weights[row] * log2_e), no_norm) : 0.0f;
    const double norm = exists ? -0.5 * square_of_kept + (weights ? 0.0f : weight) : double(no_norm);
    const float kept = rests ? rint(norm / norm_step) * norm_step : norm;
    norms[row] = fmaxf(kept, no_norm);
    if (rests) rests[row] = kept > no_norm ? norm - kept : 0.0;
    if (weights) weights[row] = weight;
    // The bits of non-negative floats have the order of the numbers, with infinity and NaN on top.
    if (radius2 && exists) atomicMax(reinterpret_cast<unsigned*>(radius2), __float_as_uint(float(square)));
}
