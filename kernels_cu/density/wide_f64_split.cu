// Operands of exponents of points far from the centre, for products that lose no digits of near pairs.
//
// A point z is z1 + z2, z1 its multiple of a unit, a power of 2 so large that all sums of products of z1 are exact in
// double. Of a query y and a data row x
//
//   -|y1 - x1|^2/2                               = y1 . x1 + ny1 + nx1             exact: near pairs cancel, digits do not
//   -|y - x|^2/2, less that of the line above    = y . x2 + y2 . x1 + ny2 + nx2    2^-25 as large as squares of lengths
//
//   points   (rows, depth)               double  z, from f64_operands.cu
//   out      (rows, 3 depth + 16)        double  of queries   y1, 1, ny1, 0... (to depth + 8)   y, 1, ny2, 0...    y2
//                                                of data      x1, nx1, 1, 0...                  x2, nx2, 1, 0...   x1
//   n1 = -|z1|^2/2, n2 = -(|z|^2 - |z1|^2)/2
//   rounding                                     1.5 2^52 units: what is added to it is rounded to the unit
//   of_queries                                   0 or 1
//
// Eight neighbouring lanes for each row, 16 rows a block. No shared memory, no barriers.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

constexpr int threads = 128;
constexpr int lanes = 8;  // of a row
constexpr int norms = 8;  // columns of norms

extern "C" __global__ void __launch_bounds__(threads)
split_f64(const double* __restrict__ points, double* __restrict__ out, long long rows, int depth, int of_queries,
          double rounding) {
    const long long row = ((long long)blockIdx.x * threads + threadIdx.x) / lanes;
    const int lane = threadIdx.x % lanes;
    const double* const z = points + row * depth;
    double* const first = out + row * (3 * depth + 2 * norms);
    double* const second = first + depth + norms;
    double* const third = second + depth + norms;

    double square = 0, rest = 0;
    if (row < rows) {
        for (int k = lane; k < depth; k += lanes) {
            const double whole = z[k] + rounding - rounding, left = z[k] - whole;
            first[k] = whole;
            second[k] = of_queries ? z[k] : left;
            third[k] = of_queries ? left : whole;
            square = fma(whole, whole, square);
            rest = fma(left, fma(0.5, left, whole), rest);
        }
    }
    square = -0.5 * sum_over_lanes<lanes>(square);
    rest = -sum_over_lanes<lanes>(rest);
    if (row >= rows) return;
    // The lanes of a row write the columns of its norms.
    first[depth + lane] = lane == of_queries ? square : lane < 2 ? 1.0 : 0.0;
    second[depth + lane] = lane == of_queries ? rest : lane < 2 ? 1.0 : 0.0;
}
