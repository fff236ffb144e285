// Kendall's tau and its p-value from counts of pairs of samples. With C concordant and D discordant pairs of n samples,
// N = n (n - 1) / 2 in all, of which T are tied in a variable, and m = min(m_x, m_y) classes of equal values:
//
//   VARIANT  A   tau = (C - D) / N
//            B   tau = (C - D) / sqrt((N - T_x) (N - T_y))
//            C   tau = 2 (C - D) / (n^2 (m - 1) / m)
//
// NaN for a constant variable, for fewer than two samples, and for fewer samples than `complete`. The p-value is that of
// cukde/kendall/statistics.py, where the formulas have their sources; `exact` allows the tabulated distribution.
//
//   samples                       int64          entry (i, j) at strides.samples
//   concordant, discordant        int64          (entries,), entry (i, j) is i columns + j
//   pairs, classes                int64          ties of x and of y, entry (i, j) at strides.x, strides.y
//   triples, variance             float64        likewise
//   table                         float64        cukde/kendall/null.py: table()
//   tau, p_value                  float64        (entries,); p_value null: not needed
//
// A thread owns an entry. Grid: x over entries. No barriers.
//
// Macros: LARGEST, samples up to which the distribution is tabulated; LARGEST_FACTORIAL, of the reciprocals that are.
constexpr int threads = 256;

enum Variant { A, B, C };
enum Alternative { two_sided, less, greater };

// P(at most k pairs are discordant) without ties, for n <= LARGEST or k within 1 of either end.
__device__ inline double null_cdf(const double* table, int size, long long n, long long k) {
    const int one = size - 1, factorials = one - (LARGEST_FACTORIAL + 2);
    if (n <= LARGEST) return table[n * (n - 1) * (n - 2) / 6 + n + k];
    return k <= 1 ? table[factorials + min(n - k, (long long)(LARGEST_FACTORIAL + 1))] : table[one];
}

// Of the standard normal distribution.
__device__ inline double normal_cdf(double z) { return 0.5 * erfc(-z * 0.70710678118654752440); }

extern "C" __global__ void __launch_bounds__(threads)
kendall_statistics(const long long* __restrict__ samples, const long long* __restrict__ concordant,
                   const long long* __restrict__ discordant, const long long* __restrict__ x_pairs,
                   const double* __restrict__ x_triples, const double* __restrict__ x_variance,
                   const long long* __restrict__ x_classes, const long long* __restrict__ y_pairs,
                   const double* __restrict__ y_triples, const double* __restrict__ y_variance,
                   const long long* __restrict__ y_classes, const double* __restrict__ table, double* __restrict__ tau,
                   double* __restrict__ p_value, long long entries, long long columns, long long samples_down,
                   long long samples_across, long long x_down, long long x_across, long long y_down, long long y_across,
                   long long complete, int table_size, int variant, int exact, int alternative) {
    const long long entry = (long long)blockIdx.x * threads + threadIdx.x;
    if (entry >= entries) return;
    const long long i = entry / columns, j = entry % columns;
    const long long x = i * x_down + j * x_across, y = i * y_down + j * y_across;
    const long long n = samples[i * samples_down + j * samples_across], all = n * (n - 1) / 2;
    const long long differ_x = all - x_pairs[x], differ_y = all - y_pairs[y];
    const bool defined = differ_x > 0 && differ_y > 0 && n >= complete;
    const long long c = concordant[entry], d = discordant[entry];
    const double difference = double(c - d), size = double(n);

    double denominator = size * (size - 1) / 2;
    if (variant == B) {
        denominator = sqrt(double(differ_x) * double(differ_y));
    } else if (variant == C) {
        const double classes = double(min(x_classes[x], y_classes[y]));
        denominator = size / classes * (size * (classes - 1)) / 2;  // exact where tau can be 1: n / m is whole
    }
    tau[entry] = defined ? min(max(difference / denominator, -1.0), 1.0) : nan("");
    if (!p_value) return;

    double p = nan("");
    const bool tied = differ_x < all || differ_y < all;
    const long long fewest = min(c, d);
    if (defined && exact && !tied && (n <= LARGEST || fewest <= 1)) {
        const double tail = null_cdf(table, table_size, n, alternative == two_sided ? fewest : alternative == less ? c : d);
        p = alternative == two_sided ? min(2 * tail, 1.0) : tail;
    } else if (defined) {
        const double m = size * (size - 1);
        double variance = (m * (2 * size + 5) - x_variance[x] - y_variance[y]) / 18;
        variance += 2 / m * x_pairs[x] * y_pairs[y];
        if (n > 2) variance += x_triples[x] / (9 * m * (size - 2)) * y_triples[y];
        const double z = difference / sqrt(variance);
        p = alternative == two_sided ? 2 * normal_cdf(-fabs(z)) : normal_cdf(alternative == less ? z : -z);
    }
    p_value[entry] = p;
}
