// Kendall's tau and its p-value from counts of pairs of samples. With C concordant and D discordant pairs of n samples,
// N = n (n - 1) / 2 in all, of which T are tied in a variable, and m = min(m_x, m_y) classes of equal values:
//
//   VARIANT  A   tau = (C - D) / N
//            B   tau = (C - D) / sqrt((N - T_x) (N - T_y))
//            C   tau = 2 (C - D) / (n^2 (m - 1) / m)
//
// There is neither for a constant variable and for fewer than two samples. The p-value is that of
// cukde/kendall/statistics.py, where the formulas have their sources; `exact` allows the tabulated distribution, which
// is table() of cukde/kendall/null.py.
//
// Macros: LARGEST, samples up to which the distribution is tabulated; LARGEST_FACTORIAL, of the reciprocals that are.
#pragma once

enum Variant { A, B, C };
enum Alternative { two_sided, less, greater };

// Sums over the groups of t equal values of a variable.
struct Ties {
    long long pairs, classes;  // t (t - 1) / 2; groups
    double triples, variance;  // t (t - 1) (t - 2); t (t - 1) (2 t + 5)
};

struct Counts {
    long long samples, concordant, discordant;
    Ties x, y;

    __device__ inline long long all() const { return samples * (samples - 1) / 2; }

    // Whether both variables have two values.
    __device__ inline bool differ() const { return all() > x.pairs && all() > y.pairs; }
};

// P(at most k pairs are discordant) without ties, for n <= LARGEST or k within 1 of either end.
__device__ inline double null_cdf(const double* table, int size, long long n, long long k) {
    const int one = size - 1, factorials = one - (LARGEST_FACTORIAL + 2);
    if (n <= LARGEST) return table[n * (n - 1) * (n - 2) / 6 + n + k];
    return k <= 1 ? table[factorials + min(n - k, (long long)(LARGEST_FACTORIAL + 1))] : table[one];
}

// Of the standard normal distribution.
__device__ inline double normal_cdf(double z) { return 0.5 * erfc(-z * 0.70710678118654752440); }

__device__ inline double tau_of(const Counts& counts, int variant) {
    const double size = double(counts.samples);
    double denominator = size * (size - 1) / 2;
    if (variant == B) {
        denominator = sqrt(double(counts.all() - counts.x.pairs) * double(counts.all() - counts.y.pairs));
    } else if (variant == C) {
        const double classes = double(min(counts.x.classes, counts.y.classes));
        denominator = size / classes * (size * (classes - 1)) / 2;  // exact where tau can be 1: n / m is whole
    }
    return min(max(double(counts.concordant - counts.discordant) / denominator, -1.0), 1.0);
}

__device__ inline double p_value_of(const Counts& counts, const double* table, int table_size, int exact,
                                    int alternative) {
    const Ties &x = counts.x, &y = counts.y;
    const long long n = counts.samples, c = counts.concordant, d = counts.discordant, fewest = min(c, d);
    if (exact && x.pairs == 0 && y.pairs == 0 && (n <= LARGEST || fewest <= 1)) {
        const double tail = null_cdf(table, table_size, n, alternative == two_sided ? fewest : alternative == less ? c : d);
        return alternative == two_sided ? min(2 * tail, 1.0) : tail;
    }
    const double size = double(n), m = size * (size - 1);
    double variance = (m * (2 * size + 5) - x.variance - y.variance) / 18;
    variance += 2 / m * x.pairs * y.pairs;
    if (n > 2) variance += x.triples / (9 * m * (size - 2)) * y.triples;
    const double z = double(c - d) / sqrt(variance);
    return alternative == two_sided ? 2 * normal_cdf(-fabs(z)) : normal_cdf(alternative == less ? z : -z);
}
