// Epilogue of the float16 engine: the sums of each query from those of the splits of the data, in double:
//
//   a_i = max_s a_si,  S_i = sum_s 2^(a_si - a_i) S_si,  M_i likewise
//
//   references      (splits, m)            float   a_si; null: all zero
//   fast_total      (splits, m)            float   S_si
//   fast_moments    (blocks, splits, m, COLUMNS)   float   for outputs MOMENTS, LAPLACE and VALUES, see f16.cuh; only
//                                                  VALUES has more than one block
//   Y_hi, Y_lo      (rows, COLUMNS)        float16 queries in the order of column_order.cuh, for MOMENTS; lo may be null
//   exact_reference, exact_total           (exact_splits, m)     double  sums by differences, for the queries that the
//   exact_moments                          (exact_splits, m, k)  double  engine could not serve; see below
//
//   reference, total  (m,)                 double  natural logarithm of the reference, and the total about it
//   moments           (m, k)               double  about the query, in the units of the data; k: dimensions or values
//   density           (m,)                 DENSITY, if that is a type: in place of these, the density of the sums times
//                                                  exp(log_constant + reference), as `wanted` of density_forms.cuh says
//
// Outputs SUM and LAPLACE do not serve queries whose totals are below `least` in every split, because these may have
// underflowed. The difference kernel runs between the engine and this epilogue and finds these queries by the same rule.
// With one split (exact_splits = 1) it has already written the results.
//
// `self_interaction` (Y = X) says that the queries are the data, without weights, and that moments were summed from hi
// alone. A query's own term, 2^shift times the query, may be nearly all of the sum. Its lo is added here, so that the
// term adds exactly 0 to the moments about the query. The lo of the other points differ in sign, and only their mean
// remains as an error, as in the symmetric pass.
//
// One warp for each query, 4 warps a block; no barriers.
//
// Macros: OUTPUT; COLUMNS of the moments of a query: DEPTH of the operands for MOMENTS, 0 for SUM, 1 for LAPLACE; for
// outputs SUM and LAPLACE perhaps DENSITY, float or double.
#include "ptx.cuh"
#include "column_order.cuh"
#include "density_forms.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE, VALUES };
constexpr Output output = OUTPUT;

constexpr int threads = 128;
constexpr int blocks_at_least = 4;  // of a multiprocessor: 128 registers, without which some compilers spill
constexpr bool has_moments = output != SUM;
constexpr bool of_densities = output == SUM || output == LAPLACE;  // whose totals may have underflowed

constexpr int columns = COLUMNS > 0 ? COLUMNS : 1;  // of a block

constexpr float nothing = -1e30f;

#ifdef DENSITY
// The result from a query's sums; no result is -0.
__device__ inline DENSITY density_of(double log_factor, double total, double moment, int wanted) {
    if constexpr (output == LAPLACE) return DENSITY(density_of_both(log_factor, total, moment, wanted)) + DENSITY(0);
    else return density_of_total(log_factor, total, wanted);
}
#endif

__device__ inline float float16_at(const unsigned short* place) {
    float value, nothing;
    unpack_f16(*place, value, nothing);
    return value;
}

// Merge the splits of the difference kernel for query i; with one split the results are already there.
__device__ inline void merge_exact(const double* exact_reference, const double* exact_total, const double* exact_moments,
                                   double* reference, double* total, double* moments, long long m, int k, int splits,
                                   long long i) {
    const int lane = threadIdx.x % 32;
    double top = Exponent<double>::least, sum = 0;
    for (int s = lane; s < splits; s += 32) top = larger(top, exact_reference[s * m + i]);
    top = largest_over_lanes<32>(top);
    for (int s = lane; s < splits; s += 32) sum += exp(exact_reference[s * m + i] - top) * exact_total[s * m + i];
    sum = sum_over_lanes<32>(sum);
    if (lane == 0) {
        reference[i] = top;
        total[i] = sum;
    }
    if constexpr (has_moments) {
        for (int first = 0; first < k; first += 32) {
            const int column = first + lane;
            double moment = 0;
            for (int begin = 0; begin < splits; begin += 32) {  // a lane takes the factor of one split for all
                const int own = begin + lane;
                const double factor = own < splits ? exp(exact_reference[own * m + i] - top) : 0;
                const int end = splits - begin < 32 ? splits - begin : 32;
                for (int s = 0; s < end; s++) {
                    const double factor_of_split = __shfl_sync(~0u, factor, s);
                    if (column < k) moment += factor_of_split * exact_moments[((begin + s) * m + i) * k + column];
                }
            }
            if (column < k) moments[i * k + column] = moment;
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
finish_f16(const float* __restrict__ references, const float* __restrict__ fast_total,
           const float* __restrict__ fast_moments, const unsigned short* __restrict__ Y_hi,
           const unsigned short* __restrict__ Y_lo, const double* __restrict__ exact_reference,
           const double* __restrict__ exact_total, const double* __restrict__ exact_moments,
           double* __restrict__ reference, double* __restrict__ total, double* __restrict__ moments,
#ifdef DENSITY
           DENSITY* __restrict__ density, double log_constant, int wanted,
#endif
           long long m, int k, int splits, int exact_splits, int self_interaction, float least, float shift,
           double unit) {
    const int lane = threadIdx.x % 32;
    const long long i = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (i >= m) return;

    if constexpr (of_densities) {
        bool enough = false;
        for (int s = lane; s < splits; s += 32) enough |= fast_total[s * m + i] >= least;
        if (!__any_sync(~0u, enough)) {
            if (exact_splits > 1)
                merge_exact(exact_reference, exact_total, exact_moments, reference, total, moments, m, k, exact_splits,
                            i);
#ifdef DENSITY
            if (lane == 0)
                density[i] = density_of(log_constant + reference[i], total[i], has_moments ? moments[i * k] : 0, wanted);
#endif
            return;
        }
    }

    float top = 0;
    if (references) {
        top = Exponent<float>::least;
        for (int s = lane; s < splits; s += 32) top = fmaxf(top, references[s * m + i]);
        top = largest_over_lanes<32>(top);
    }
    double sum = 0, corrected = 0;
    for (int s = lane; s < splits; s += 32) {
        const float factor = references ? exp2_approx(references[s * m + i] - top) : 1;
        sum += double(factor) * fast_total[s * m + i];
        if constexpr (output == LAPLACE) corrected += fast_moments[s * m + i];
    }
    sum = sum_over_lanes<32>(sum);
    if constexpr (output == LAPLACE) corrected = sum_over_lanes<32>(corrected) * ln_2;  // the factors were in bits
#ifdef DENSITY
    if (lane == 0) density[i] = density_of(log_constant - shift * ln_2, sum, corrected, wanted);
    return;
#endif
    if (lane == 0) {
        // If nothing counted for a query, its reference lies below any other.
        reference[i] = (!of_densities && sum == 0 ? double(nothing) : double(top) - shift) * ln_2;
        total[i] = sum;
        if constexpr (output == LAPLACE) moments[i] = corrected;
    }
    if constexpr (!of_densities) {
        const double own = self_interaction ? exp2_approx(shift) : 0.0f;
        for (int column = lane; column < k; column += 32) {
            double moment = 0;
            for (int s = 0; s < splits; s++) {
                const float factor = references ? exp2_approx(references[s * m + i] - top) : 1;
                const long long row = ((long long)(column / columns) * splits + s) * m + i;
                moment += double(factor) * fast_moments[row * columns + column % columns];
            }
            if constexpr (output == MOMENTS) {
                const long long place = i * COLUMNS + position_of(column);
                const double hi = float16_at(Y_hi + place), lo = Y_lo ? float16_at(Y_lo + place) : 0.0f;
                moment = (moment + own * lo - sum * (hi + lo)) * unit;
            }
            moments[i * k + column] = moment;
        }
    }
}

// The splits of the difference kernel alone, see above; grid and block are those of finish_f16.
extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
merge_splits(const double* __restrict__ exact_reference, const double* __restrict__ exact_total,
             const double* __restrict__ exact_moments, double* __restrict__ reference, double* __restrict__ total,
             double* __restrict__ moments, long long m, int k, int splits) {
    const long long i = (long long)blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (i < m) merge_exact(exact_reference, exact_total, exact_moments, reference, total, moments, m, k, splits, i);
}
