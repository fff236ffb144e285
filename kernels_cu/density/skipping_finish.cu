// The sums of a pass that leaves out pairs, in the order of the queries and in double; see skipping_units.cu.
//
//   order      (m,)                 long long  where the query of a row stands
//   reference  (rows,)              float      b_i, in bits
//   S, T       (rows,), (rows, .)   REAL       moments k of a row at row * of_row + k * of_column
//   out_reference, out_total        (m,)       double   natural logarithm
//   out_moments                     (m, d)     double   in the units of the data; or null
//   complete   (m,)                 float      1 where the sums are finite and not zero, else 0: sum these again
//
// One thread a query. No barriers. Macro: REAL.
constexpr int threads = 128;

extern "C" __global__ void __launch_bounds__(threads)
    finish_skipping(const long long* __restrict__ order, const float* __restrict__ reference,
                    const REAL* __restrict__ S, const REAL* __restrict__ T, double* __restrict__ out_reference,
                    double* __restrict__ out_total, double* __restrict__ out_moments, float* __restrict__ complete,
                    long long m, long long of_row, long long of_column, int d, double unit) {
    const long long row = (long long)blockIdx.x * threads + threadIdx.x;
    if (row >= m) return;
    const long long i = order[row];
    const double total = S[row];
    out_reference[i] = double(reference[row]) * 0.6931471805599453;
    out_total[i] = total;
    bool finite = total - total == 0 && total != 0;
    if (out_moments)
        for (int k = 0; k < d; k++) {
            const double moment = double(T[row * of_row + k * of_column]) * unit;
            out_moments[i * d + k] = moment;
            finite &= moment - moment == 0;
        }
    complete[i] = finite;
}
