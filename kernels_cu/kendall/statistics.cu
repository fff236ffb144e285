// Kendall's tau and its p-value from counts of pairs of samples in memory, by the formulas of statistics.cuh; NaN for
// fewer samples than `complete` too.
//
//   samples                       int64          entry (i, j) at strides.samples
//   concordant, discordant        int64          (entries,), entry (i, j) is i columns + j
//   pairs, classes                int64          ties of x and of y, entry (i, j) at strides.x, strides.y
//   triples, variance             float64        likewise
//   table                         float64        cukde/kendall/null.py: table()
//   tau, p_value                  float64        (entries,); p_value null: not needed
//
// A thread owns an entry. Grid: x over entries. No barriers.
#include "statistics.cuh"

constexpr int threads = 256;

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
    const Counts counts = {samples[i * samples_down + j * samples_across],
                           concordant[entry],
                           discordant[entry],
                           {x_pairs[x], x_classes[x], x_triples[x], x_variance[x]},
                           {y_pairs[y], y_classes[y], y_triples[y], y_variance[y]}};
    const bool defined = counts.samples >= complete && counts.differ();
    tau[entry] = defined ? tau_of(counts, variant) : nan("");
    if (p_value) p_value[entry] = defined ? p_value_of(counts, table, table_size, exact, alternative) : nan("");
}
