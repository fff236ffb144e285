// Epilogue of wide.cu: the sums of each query in double, from its totals and the matrix products with its 2^e.
//
// Outputs SUM and LAPLACE:
//
//   references, totals  (parts, m)     float  a_pi in bits, and S_pi:  S_i = sum_p 2^(a_pi - a_i) S_pi, a_i = max_p a_pi
//   products            (parts, m)     float  M_pi likewise, for LAPLACE
//
// Outputs MOMENTS and VALUES:
//
//   references  (m,)                   float  a_i in bits; null: all zero
//   totals      (parts, pitch)         float  2^shift parts of S_i
//   products    (blocks, rows, width)  float  2^shift sum_j 2^(e_ij - a_i) times z_jk, in one block; or times V_jk, whose
//                                             columns lie in the order of column_order.cuh
//   hi, lo      (rows, width)          float16 queries in units of their quanta, for MOMENTS; lo may be null
//   quanta      (rows,)                float
//   own                                1: add the query's own term, 1 in the total and 0 in the moments
//
// Results:
//
//   reference, total  (m,)             double natural logarithm of the reference, and the total about it
//   moments           (m, k)           double about the query, in the units of the data; or of values, or of LAPLACE
//
// Of MOMENTS total and moments hold those of pairs by differences, in the units of wide_fixed.cuh, and others are added.
//
// One warp for each query, 4 a block. No barriers.
//
// Macros: OUTPUT one of the four.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "column_order.cuh"
#include "wide_fixed.cuh"

enum Output { SUM, MOMENTS, LAPLACE, VALUES };
constexpr Output output = OUTPUT;
constexpr int threads = 128;

extern "C" __global__ void __launch_bounds__(threads)
finish_wide(const float* __restrict__ references, const float* __restrict__ totals, const float* __restrict__ products,
            const unsigned short* __restrict__ hi, const unsigned short* __restrict__ lo,
            const float* __restrict__ quanta, double* __restrict__ reference, double* __restrict__ total,
            double* __restrict__ moments, long long m, long long pitch, long long rows, int k, int width, int parts,
            int own, float shift, double unit) {
    const int lane = threadIdx.x % 32;
    const long long i = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (i >= m) return;

    if constexpr (output == SUM || output == LAPLACE) {
        float top = Exponent<float>::least;
        for (int p = lane; p < parts; p += 32) top = fmaxf(top, references[p * pitch + i]);
        top = largest_over_lanes<32>(top);
        double sum = 0, corrected = 0;
        for (int p = lane; p < parts; p += 32) {
            const double factor = exp2_approx(references[p * pitch + i] - top);
            sum += factor * totals[p * pitch + i];
            if constexpr (output == LAPLACE) corrected += factor * products[p * pitch + i];
        }
        sum = sum_over_lanes<32>(sum);
        if constexpr (output == LAPLACE) corrected = sum_over_lanes<32>(corrected);
        if (lane > 0) return;
        reference[i] = top * ln_2;
        total[i] = sum;
        if constexpr (output == LAPLACE) moments[i] = corrected * ln_2;  // the factors were in bits
    } else {
        const double scale = exp2(-double(shift));
        double sum = 0;
        for (int p = lane; p < parts; p += 32) sum += totals[p * pitch + i];
        sum = sum_over_lanes<32>(sum) * scale;
        if (lane == 0) {
            reference[i] = references ? references[i] * ln_2 : 0.0;
            total[i] = sum + own + (output == MOMENTS ? whole(total + i) * unit_of_totals : 0.0);
        }
        const double far_unit = output == MOMENTS ? two_to_the(exponent_of_moments(references ? references[i] : 0.0f)) : 0.0;
        for (int column = lane; column < k; column += 32) {
            double moment;
            if constexpr (output == MOMENTS) {
                const long long place = i * width + column;
                float high, low = 0, nothing;
                unpack_f16(hi[place], high, nothing);
                if (lo) unpack_f16(lo[place], low, nothing);
                moment = products[place] * scale - sum * (double(high) + low) * quanta[i];
                moment = (moment + whole(moments + i * k + column) * far_unit) * unit;
            } else {
                moment = products[(column / width * rows + i) * width + position_of(column % width)] * scale;
            }
            moments[i * k + column] = moment;
        }
    }
}
