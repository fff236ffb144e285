// Minimum ranks of the values of columns, and the sums over their ties, from their sorted keys (order_keys.cu):
//
//   keys     (columns, n)        unsigned long long  in order, a column a row
//   order    (columns, n)        uint32   original position of each; null: the key's low word is the position
//   ranks    (columns, n)        uint32   number of smaller values in the column; all ones for NaN
//   figures  (columns, FIGURES)  unsigned long long  zero before: TieSums of the values without NaN, and their number
//
// `nan_key`: the key of NaN, if the values are floating point (`floating`).
//
// rank_runs: a block owns 2,048 positions of a column, a warp 32 of them at a time; grid: x over these parts of all
// columns. The ranks of a run are the position of its first key. Barriers: those of add_sums.
#include "runs.cuh"

constexpr int threads = 256;
constexpr int part = 2048;  // positions of a block

enum Figure { SAMPLES = TieSums::WORDS, FIGURES };

extern "C" __global__ void __launch_bounds__(threads)
rank_runs(const unsigned long long* __restrict__ keys, const unsigned* __restrict__ order, unsigned* __restrict__ ranks,
          unsigned long long* __restrict__ figures, long long n, int parts, int floating, unsigned long long nan_key) {
    const int column = blockIdx.x / parts;
    const long long begin = (long long)(blockIdx.x % parts) * part, end = begin + part < n ? begin + part : n;
    const long long first = column * n;
    const int shift = order ? 0 : 32;
    const auto value = [=](long long i) { return keys[first + i] >> shift; };
    figures += (long long)column * FIGURES;

    TieSums sums;
    for (long long base = begin + threadIdx.x / 32 * 32; base < end; base += threads) {
        const unsigned heads = heads_of_runs(value, base, n);
        const long long i = base + threadIdx.x % 32, head = begin_of_own_run(value, heads, base);
        if (i >= n) continue;
        const bool missing = floating && value(i) == nan_key;
        const unsigned came_from = order ? order[first + i] : unsigned(keys[first + i]);
        ranks[first + came_from] = missing ? ~0u : unsigned(head);
        if (head == i && missing) figures[SAMPLES] = i;
        if (head == i && !missing) sums.add(length_of_own_run(value, heads, base, n));
        if (i == n - 1 && !missing) figures[SAMPLES] = n;
    }
    add_sums<threads>(sums, figures, TieSums::WORDS);
}

// The results from the figures, one thread for each column:
//
//   integers  (3, columns)  int64   values that are no NaN, tied pairs, distinct values
//   reals     (2, columns)  double  sums of t (t - 1) (t - 2) and of t (t - 1) (2 t + 5) over runs of t values
extern "C" __global__ void __launch_bounds__(threads)
column_ties(const unsigned long long* __restrict__ figures, long long* __restrict__ integers,
            double* __restrict__ reals, long long columns) {
    const long long column = (long long)blockIdx.x * threads + threadIdx.x;
    if (column >= columns) return;
    figures += column * FIGURES;
    integers[column] = figures[SAMPLES];
    integers[columns + column] = figures[TieSums::PAIRS];
    integers[2 * columns + column] = figures[TieSums::CLASSES];
    reals[column] = triples(figures);
    reals[columns + column] = variance(figures);
}
