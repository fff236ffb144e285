// Operands of wide.cu: centred and scaled points, split into float16 terms by a quantum of each row, with their norms.
//
//   z       = (point - centre) scale, with scale = sqrt(log2 e) / h, so that |z_i - z_j|^2 / 2 is an exponent in bits
//   quantum   a power of two q with |z| <= 4096 q
//   hi, lo  = float16(z / q), float16(z / q - hi): with `lo`, hi are whole numbers, so that products of hi add up exactly
//   norms   = -|z'|^2 / 2 + log2 w, of the z' = q (hi + lo) that is kept; with `lo` rounded to a whole number
//
//   X            (n, d)         STORAGE  points
//   centre       (d,)           double
//   log_weights  (n,)           double   natural logarithms, or null: all weights 1
//   hi, lo       (rows, depth)  float16  dimensions in their order; lo may be null
//   third        (rows, depth)  float16  4096 times what hi and lo leave of z / q, or null
//   factor       (rows, depth)  float16  z to nearest, for products with 2^e, or null: at most 65504 in size
//   factor_rest  (rows, depth)  float16  what that leaves of z, or null
//   norms        (rows,)        float
//   rests        (rows,)        float    what whole norms leave, or null where lo is
//   quanta       (rows,)        float
//   corrections  (rows,)        float    what `third` adds to the norms, or null
//   weights      (rows,)        float    log2 w, or null: all weights 1
//   apart                       leave the weights out of the norms
//
// rows and depth are n and d rounded up. Rows past the data are zero, with a norm of Exponent::none, so that 2^norm is
// zero. Rows of zero weight have that norm, or weight, too. A row further than 2^62 from the centre is put half as far
// or more, where its norm is still in the range of float.
//
// One warp for each row, 4 a block. No shared memory, no barriers.
//
// Macros: STORAGE float or double.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "wide_fixed.cuh"

constexpr int threads = 128;
constexpr int longest = 62;
constexpr int least_exponent = -20;  // of a quantum: rows at the centre have none of their own
constexpr double third_scale = 4096;
constexpr double largest_factor = 65504;

__device__ inline double within(double z) {  // a NaN stays one
    return z > largest_factor ? largest_factor : z < -largest_factor ? -largest_factor : z;
}

extern "C" __global__ void __launch_bounds__(threads, 4)
prepare_wide(const STORAGE* __restrict__ X, const double* __restrict__ centre, const double* __restrict__ log_weights,
             unsigned short* __restrict__ hi, unsigned short* __restrict__ lo, unsigned short* __restrict__ third,
             unsigned short* __restrict__ factor, unsigned short* __restrict__ factor_rest, float* __restrict__ norms,
             float* __restrict__ rests, float* __restrict__ quanta, float* __restrict__ corrections,
             float* __restrict__ weights, long long n, int d, int depth, int apart, double scale) {
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    const bool exists = row < n;
    double square = 0;
#pragma unroll 1
    for (int k = lane; exists && k < d; k += 32) {
        const double z = (double(X[row * d + k]) - centre[k]) * scale;
        square += z * z;
    }
    square = sum_over_lanes<32>(square);
    // |z| is below 2^length. That of NaN and infinity is as good as any.
    const int length = ((__double2hiint(square) >> 20) - 1023 + 2) >> 1;
    const double shrink = length > longest ? two_to_the(longest - length) : 1.0;
    const int held = length < longest ? length : longest;
    const int exponent = held - 12 > least_exponent ? held - 12 : least_exponent;
    const double quantum = two_to_the(exponent), inverse = two_to_the(-exponent);

    double square_of_kept = 0, correction = 0;
#pragma unroll 1
    for (int pair = lane; pair < depth / 2; pair += 32) {
        double z[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int k = 2 * pair + e;
            z[e] = exists && k < d ? (double(X[row * d + k]) - centre[k]) * scale * shrink : 0.0;
        }
        const long long place = row * depth + 2 * pair;
        float high[2], low[2] = {0, 0};
        const double a = z[0] * inverse, b = z[1] * inverse;
        const unsigned of_hi = pack_f16(float(lo ? rint(a) : a), float(lo ? rint(b) : b));
        unpack_f16(of_hi, high[0], high[1]);
        *reinterpret_cast<unsigned*>(hi + place) = of_hi;
        if (lo) {
            const unsigned of_lo = pack_f16(float(a - high[0]), float(b - high[1]));
            unpack_f16(of_lo, low[0], low[1]);
            *reinterpret_cast<unsigned*>(lo + place) = of_lo;
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const double kept = double(high[e]) + low[e];
            square_of_kept += kept * kept;
        }
        if (third) {
            float left[2];
            const unsigned of_third =
                pack_f16(float((a - high[0] - low[0]) * third_scale), float((b - high[1] - low[1]) * third_scale));
            unpack_f16(of_third, left[0], left[1]);
            *reinterpret_cast<unsigned*>(third + place) = of_third;
            correction += double(high[0]) * left[0] + double(high[1]) * left[1];
        }
        if (factor) {
            const double y[2] = {within(z[0]), within(z[1])};
            const unsigned of_factor = pack_f16(float(y[0]), float(y[1]));
            *reinterpret_cast<unsigned*>(factor + place) = of_factor;
            unpack_f16(of_factor, high[0], high[1]);
            if (factor_rest)
                *reinterpret_cast<unsigned*>(factor_rest + place) =
                    pack_f16(float(y[0] - high[0]), float(y[1] - high[1]));
        }
    }
    square_of_kept = sum_over_lanes<32>(square_of_kept) * quantum * quantum;
    correction = sum_over_lanes<32>(correction) * quantum * quantum * (1 / third_scale);
    if (lane > 0) return;
    constexpr float none = Exponent<float>::none;
    double weight = exists ? 0.0 : none;
    if (exists && log_weights) weight = log_weights[row] < log_zero ? none : log_weights[row] * log2_e;
    const double norm = weight == none && !apart ? none : exists ? -0.5 * square_of_kept + (apart ? 0.0 : weight) : none;
    const float kept = lo ? rint(norm) : norm;
    norms[row] = kept;
    if (rests) rests[row] = norm - kept;
    quanta[row] = quantum;
    if (corrections) corrections[row] = -correction;
    if (weights) weights[row] = weight;
}
