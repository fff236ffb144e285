// The sums of a centred pass (centred_sums.cu) over the spans of blocks, in the order of the queries and in double.
//
//   R, S       (spans, rows)         REAL    a_i and S_i
//   T          (spans, rows, width)  REAL    moments, LAPLACE: L_i with width 1; SUM: null
//   order      (m,)                  long long  where the query of a row stands, plus `first`
//   reference, total  (m,)           double  natural logarithm of the reference, and the total about it
//   moments    (m, k)                double  MOMENTS: about the query, in the units of the data; LAPLACE: k = 1
//   density    (m,)                  DENSITY, if that is a type: in place of these, as density_forms.cuh says
//
// A warp a query; no barriers. Macros: REAL, float or double; OUTPUT; perhaps DENSITY, float or double.
#include "density_forms.cuh"
#include "ptx.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE };
constexpr Output output = OUTPUT;
constexpr int threads = 128;

extern "C" __global__ void __launch_bounds__(threads)
    centred_finish(const REAL* __restrict__ R, const REAL* __restrict__ S, const REAL* __restrict__ T,
                   const long long* __restrict__ order, double* __restrict__ reference, double* __restrict__ total,
                   double* __restrict__ moments,
#ifdef DENSITY
                   DENSITY* __restrict__ density, double log_constant, int wanted,
#endif
                   long long m, long long rows, long long first, int spans, int width, int d, double shift, double unit) {
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (row >= m) return;
    const long long i = order[row] - first;

    REAL top = Exponent<REAL>::least;
    for (int s = lane; s < spans; s += 32)
        if (S[s * rows + row] > 0) top = larger(top, R[s * rows + row]);
    top = largest_over_lanes<32>(top);
    double sum = 0, corrected = 0;
    for (int s = lane; s < spans; s += 32) {
        if (S[s * rows + row] == 0) continue;
        const double factor = exp2(double(R[s * rows + row]) - top);
        sum += factor * S[s * rows + row];
        if (output == LAPLACE) corrected += factor * T[s * rows + row];
    }
    sum = sum_over_lanes<32>(sum);
    const double about = (double(top) - shift) * ln_2;
    if (output == LAPLACE) corrected = sum_over_lanes<32>(corrected) * ln_2 + (1 + 0.5 * d) * sum;
#ifdef DENSITY
    if (lane == 0) {
        if constexpr (output == LAPLACE)
            density[i] = DENSITY(density_of_both(log_constant + about, sum, corrected, wanted)) + DENSITY(0);
        else density[i] = DENSITY(density_of_total(log_constant + about, sum, wanted));
    }
    return;
#endif
    if (lane == 0) {
        reference[i] = about;
        total[i] = sum;
        if (output == LAPLACE) moments[i] = corrected;
    }
    if (output == MOMENTS)
        for (int k = lane; k < d; k += 32) {
            double moment = 0;
            for (int s = 0; s < spans; s++)
                if (S[s * rows + row] != 0)
                    moment += exp2(double(R[s * rows + row]) - top) * T[(s * rows + row) * width + k];
            moments[i * d + k] = moment * unit + 0 * sum;  // perhaps NaN
        }
}
