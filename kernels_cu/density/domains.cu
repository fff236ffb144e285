// Sums of the KDE kernel of a domain with bounds and periods. The kernel is a product over columns of sums over images
// (cukde/density/domains/columns.py):
//
//   S_i = sum_j 2^(e_ij - a_i) prod_k s_k,   a_i = max_j e_ij,   e_ij = log2 w_j - sum_k scale_k r_k^2
//
//   s_k = sum_z 2^(-scale_k ((u - z)^2 - r^2))      over the cells of a column: u and v of query and point, z the
//                                                   images of v, r the distance of u to the nearest of them
//   s_k = 1 + sum_w U_iw V_jw, and no r             for a column in waves (a Fourier series)
//
//   SUM      total_i = S_i
//   MOMENTS  the same, and moments_ik = sum_j 2^(e_ij - a_i) prod s  D_k,  D_k = sum_z 2^(..) (z - u) / s_k
//                                                                              = sum_w G_iw V_jw / s_k  for waves
//   LAPLACE  the same, and moments_i0 = sum_j 2^(e_ij - a_i) prod s (1 - sum_k D_k),
//                                      D_k = half_k sum_z 2^(..) (z - u)^2 / s_k - 1/2
//                                          = sum_w G_iw V_jw / s_k  for waves
//
//   X            (n, d)          double  data, from the origin of the domain
//   Y            (d, m)          double  queries, likewise
//   columns      (d, 4)          double  scale = log2(e) / (2 h^2), half = 1 / (2 h^2), period or 0, width or 0
//   cells        (d, 2)          int     number on either side, or -1 for a single bound; number of waves
//   U, G         (waves, m)      double  waves of queries for s and for its derivative, column after column
//   V            (n, waves)      double  waves of data
//   log_weights  (n,)            double  or null: all weights 1
//   reference    (splits, m)     double  a_i ln 2
//   total        (splits, m)     double
//   moments      (splits, m, d)  double  of MOMENTS, (splits, m, 1) of LAPLACE
//   rows         data rows of a split
//
// One thread owns a query and `group` columns of its moments; a block owns 64 queries and one split. Grid: x over
// queries, y over groups of columns, z over splits. All threads of a block read the same data row, so its loads are
// broadcast. Each group goes through all columns for the exponents. No shared memory, no barriers and no atomic
// operations: every run gives the same bits. A term with an exponential takes about 35 double-precision operations, which
// limit the time: 2.8 ps on an H200. Bytes of a pair, from L1 and L2: 8 d for the point, 8 d for the query, and for each
// wave 8 (with a derivative 16) and 8.
//
// Macros: KERNEL the name; OUTPUT.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE };
constexpr Output output = OUTPUT;

constexpr int threads = 64;
constexpr int group = output == LAPLACE ? 1 : 8;
constexpr int blocks_at_least = 6;  // of a multiprocessor: 170 registers

// A sum over the images of a point, about the nearest.
struct Images {
    double size, moment;

    __device__ void begin(double difference) {
        size = 1;
        moment = output == MOMENTS ? -difference : difference * difference;
    }

    // Add an image `step` from the nearest, which is at -`difference` from the query.
    __device__ void add(double step, double place, double difference, double scale) {
        const double term = exp2(fmin(-scale * step * (place - difference), 0.0));
        size += term;
        if (output != SUM) moment = fma(term, output == MOMENTS ? place : place * place, moment);
    }
};

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const double* __restrict__ X, const double* __restrict__ Y, const double* __restrict__ columns,
       const int* __restrict__ cells, const double* __restrict__ U, const double* __restrict__ G,
       const double* __restrict__ V, const double* __restrict__ log_weights, double* __restrict__ reference,
       double* __restrict__ total, double* __restrict__ moments, long long n, long long m, int d, int waves,
       long long rows) {
    const long long query = (long long)blockIdx.x * threads + threadIdx.x;
    if (query >= m) return;
    const int first_column = blockIdx.y * group;
    const long long begin = blockIdx.z * rows;
    const long long end = begin + rows < n ? begin + rows : n;

    double largest = Exponent<double>::least, sum = 0;
    double sums[group] = {};
#pragma unroll 1
    for (long long j = begin; j < end; j++) {
        double exponent = exponent_of_weight<double>(log_weights, j, end), product = 1, factor = 1;
        double derivatives[group] = {};
        int wave = 0;
#pragma unroll 1
        for (int k = 0; k < d; k++) {
            const double scale = columns[4 * k], half = columns[4 * k + 1];
            const int most = cells[2 * k], waves_of_column = cells[2 * k + 1];
            double size, derivative;
            if (waves_of_column) {
                size = 1, derivative = 0;
#pragma unroll 4
                for (int w = wave; w < wave + waves_of_column; w++) {
                    const double of_data = V[j * waves + w];
                    size = fma(U[w * m + query], of_data, size);
                    if (output != SUM) derivative = fma(G[w * m + query], of_data, derivative);
                }
                wave += waves_of_column;
                if (output != SUM) derivative /= size;
            } else {
                const double period = columns[4 * k + 2], width = columns[4 * k + 3];
                const double u = Y[k * m + query], v = X[j * d + k];
                double difference = u - v;
                if (period > 0) difference -= period * rint(difference / period);
                exponent = fma(-scale * difference, difference, exponent);
                Images images;
                images.begin(difference);
                if (most < 0) images.add(-2 * v, -v - u, difference, scale);
#pragma unroll 1
                for (int c = 1; c <= most; c++) {
#pragma unroll
                    for (int side = 0; side < 2; side++) {
                        const int cell = side ? -c : c;
                        double step, place;
                        if (period > 0) {
                            step = cell * period;
                            place = step - difference;
                        } else {
                            const double z = c % 2 ? (cell + 1) * width - v : cell * width + v;
                            step = z - v;
                            place = z - u;
                        }
                        images.add(step, place, difference, scale);
                    }
                }
                size = images.size;
                if (output != SUM) derivative = images.moment / size;
                if (output == LAPLACE) derivative = half * derivative - 0.5;
            }
            product *= size;
            if (output == LAPLACE) factor -= derivative;
            if (output == MOMENTS) {
#pragma unroll
                for (int g = 0; g < group; g++)
                    if (k == first_column + g) derivatives[g] = derivative;
            }
        }
        if (exponent > largest) {
            const double rescale = exp2(largest - exponent);
            sum *= rescale;
#pragma unroll
            for (int g = 0; g < group; g++) sums[g] *= rescale;
            largest = exponent;
        }
        const double term = exp2(exponent - largest) * product;
        sum += term;
        if (output == LAPLACE) sums[0] = fma(term, factor, sums[0]);
        if (output == MOMENTS) {
#pragma unroll
            for (int g = 0; g < group; g++) sums[g] = fma(term, derivatives[g], sums[g]);
        }
    }
    const long long place = blockIdx.z * m + query;
    if (blockIdx.y == 0) {
        reference[place] = largest * ln_2;
        total[place] = sum;
    }
    if (output == LAPLACE) moments[place] = sums[0];
    if (output == MOMENTS) {
#pragma unroll
        for (int g = 0; g < group; g++)
            if (first_column + g < d) moments[place * d + first_column + g] = sums[g];
    }
}
