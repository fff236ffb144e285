// Concordant and discordant pairs of samples of pairs of variables from their ranks, in O(n log n): Knight, A computer
// method for calculating Kendall's tau with ungrouped data, JASA 61 (1966).
//
// pair_keys    the key of a sample: its rank in x in the high word, its rank in y in the low word; all ones for a sample
//              that is missing in either variable, so that it comes last
// (sort)       core/merge_sort.cu
// pair_runs    runs of x and of the pairs; the low words are y in the order of x and then of y
// (inversions) core/merge_sort.cu sorts y: the inversions are the discordant pairs
// value_runs   runs of y
// pair_counts  C = N - T_x - T_y + T_xy - D
//
// Arrays of b pairs of variables, n samples each, and ranks as ranks.cu has them:
//
//   x, y            (p, n), (q, n)  uint32
//   rows_x, rows_y  (b,)            int64   rows of x and y that are a pair; null: pair k has row k
//   keys            (b, n)          unsigned long long
//   y_by_x          (b, n)          uint32  low words of the sorted keys
//   y_sorted        (b, n)          uint32
//   figures         (b, FIGURES)    unsigned long long  zero before: TieSums of x and of y, tied pairs of both, samples
//   inversions      (b,)            unsigned long long
//   integers        (7, b)          int64   samples, concordant, discordant; tied pairs and classes of x and of y
//   reals           (4, b)          double  sums of t (t - 1) (t - 2) and t (t - 1) (2 t + 5) of x and of y
//
// A block of pair_keys, pair_runs and value_runs owns 2,048 positions of a pair of variables; a warp of the latter two
// takes 32 at a time. Grid: x over these parts of all pairs. pair_counts: one thread for each pair. Barriers: those of
// add_sums.
#include "runs.cuh"

constexpr int threads = 256;
constexpr int part = 2048;  // positions of a block
constexpr unsigned missing = ~0u;

enum Figure { OF_X, OF_Y = TieSums::WORDS, TIED_IN_BOTH = 2 * TieSums::WORDS, SAMPLES, FIGURES };

extern "C" __global__ void __launch_bounds__(threads)
pair_keys(const unsigned* __restrict__ x, const unsigned* __restrict__ y, const long long* __restrict__ rows_x,
          const long long* __restrict__ rows_y, unsigned long long* __restrict__ keys, long long n, int parts) {
    const int pair = blockIdx.x / parts;
    const long long begin = (long long)(blockIdx.x % parts) * part, end = begin + part < n ? begin + part : n;
    x += (rows_x ? rows_x[pair] : pair) * n;
    y += (rows_y ? rows_y[pair] : pair) * n;
    keys += pair * n;
    for (long long i = begin + threadIdx.x; i < end; i += threads) {
        const unsigned rank_x = x[i], rank_y = y[i];
        keys[i] = rank_x == missing || rank_y == missing ? ~0ull : (unsigned long long)rank_x << 32 | rank_y;
    }
}

extern "C" __global__ void __launch_bounds__(threads)
pair_runs(const unsigned long long* __restrict__ keys, unsigned* __restrict__ y_by_x,
          unsigned long long* __restrict__ figures, long long n, int parts) {
    const int pair = blockIdx.x / parts;
    const long long begin = (long long)(blockIdx.x % parts) * part, end = begin + part < n ? begin + part : n;
    keys += pair * n;
    y_by_x += pair * n;
    figures += (long long)pair * FIGURES;
    const auto of_both = [=](long long i) { return keys[i]; };
    const auto of_x = [=](long long i) { return unsigned(keys[i] >> 32); };

    TieSums in_x, in_both;
    for (long long base = begin + threadIdx.x / 32 * 32; base < end; base += threads) {
        const unsigned heads = heads_of_runs(of_both, base, n), heads_x = heads_of_runs(of_x, base, n);
        const long long i = base + threadIdx.x % 32;
        if (i >= n) continue;
        const unsigned long long key = keys[i];
        y_by_x[i] = unsigned(key);
        if (key != ~0ull) {
            if (heads >> threadIdx.x % 32 & 1) in_both.add(length_of_own_run(of_both, heads, base, n));
            if (heads_x >> threadIdx.x % 32 & 1) in_x.add(length_of_own_run(of_x, heads_x, base, n));
            if (i == n - 1) figures[SAMPLES] = n;
        } else if (heads >> threadIdx.x % 32 & 1) {
            figures[SAMPLES] = i;
        }
    }
    add_sums<threads>(in_x, figures + OF_X, TieSums::WORDS);
    add_sums<threads>(in_both, figures + TIED_IN_BOTH, 1);
}

extern "C" __global__ void __launch_bounds__(threads)
value_runs(const unsigned* __restrict__ y_sorted, unsigned long long* __restrict__ figures, long long n, int parts) {
    const int pair = blockIdx.x / parts;
    const long long begin = (long long)(blockIdx.x % parts) * part, end = begin + part < n ? begin + part : n;
    y_sorted += pair * n;
    const auto value = [=](long long i) { return y_sorted[i]; };

    TieSums sums;
    for (long long base = begin + threadIdx.x / 32 * 32; base < end; base += threads) {
        const unsigned heads = heads_of_runs(value, base, n);
        const bool head = heads >> threadIdx.x % 32 & 1;
        if (head && value(base + threadIdx.x % 32) != missing) sums.add(length_of_own_run(value, heads, base, n));
    }
    add_sums<threads>(sums, figures + (long long)pair * FIGURES + OF_Y, TieSums::WORDS);
}

extern "C" __global__ void __launch_bounds__(threads)
pair_counts(const unsigned long long* __restrict__ figures, const unsigned long long* __restrict__ inversions,
            long long* __restrict__ integers, double* __restrict__ reals, long long b) {
    const long long pair = (long long)blockIdx.x * threads + threadIdx.x;
    if (pair >= b) return;
    figures += pair * FIGURES;
    const unsigned long long *const x = figures + OF_X, *const y = figures + OF_Y;
    const long long samples = figures[SAMPLES], discordant = inversions[pair], tied = figures[TIED_IN_BOTH];
    const long long tied_x = x[TieSums::PAIRS], tied_y = y[TieSums::PAIRS];
    integers[pair] = samples;
    integers[b + pair] = samples * (samples - 1) / 2 - tied_x - tied_y + tied - discordant;
    integers[2 * b + pair] = discordant;
    integers[3 * b + pair] = tied_x;
    integers[4 * b + pair] = x[TieSums::CLASSES];
    integers[5 * b + pair] = tied_y;
    integers[6 * b + pair] = y[TieSums::CLASSES];
    reals[pair] = triples(x);
    reals[b + pair] = variance(x);
    reals[2 * b + pair] = triples(y);
    reals[3 * b + pair] = variance(y);
}
