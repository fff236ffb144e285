// Runs of equal values in a sorted segment of n values, and sums over them.
//
// A warp reads 32 positions from `base` on, one for each lane; `value(i)` is the value at position i. The ends of a run
// outside of these positions are found by doubling steps and a bisection, so that long runs are not read through.
#pragma once

#include "block_sum.cuh"

// Bit l: a run begins at base + l. All lanes call.
template <typename Value>
__device__ inline unsigned heads_of_runs(const Value& value, long long base, long long n) {
    const long long i = base + threadIdx.x % 32;
    return __ballot_sync(~0u, i < n && (i == 0 || value(i) != value(i - 1)));
}

// Positions up to the lane's own, as bits.
__device__ inline unsigned up_to_own_lane() { return (2u << threadIdx.x % 32) - 1; }

// First position of the run that holds position i.
template <typename Value>
__device__ inline long long begin_of_run(const Value& value, long long i) {
    const auto own = value(i);
    long long step = 1;
    for (; i - step >= 0 && value(i - step) == own; step *= 2) i -= step;
    for (long long before = i - step > -1 ? i - step : -1; i - before > 1;) {
        const long long middle = i - (i - before) / 2;
        if (value(middle) == own) i = middle;
        else before = middle;
    }
    return i;
}

// First position after the run that holds position i.
template <typename Value>
__device__ inline long long end_of_run(const Value& value, long long i, long long n) {
    const auto own = value(i);
    long long step = 1;
    for (; i + step < n && value(i + step) == own; step *= 2) i += step;
    long long end = i + step < n ? i + step : n;
    while (end - i > 1) {
        const long long middle = i + (end - i) / 2;
        if (value(middle) == own) i = middle;
        else end = middle;
    }
    return end;
}

// First position of the run that holds the lane's position. The lanes of a run that began before `base` read the same
// addresses.
template <typename Value>
__device__ inline long long begin_of_own_run(const Value& value, unsigned heads, long long base) {
    const unsigned own = heads & up_to_own_lane();
    return own ? base + 31 - __clz(own) : begin_of_run(value, base);
}

// Length of the run that begins at the lane's position.
template <typename Value>
__device__ inline long long length_of_own_run(const Value& value, unsigned heads, long long base, long long n) {
    const unsigned later = heads & ~up_to_own_lane();
    const long long last = base + 31 < n ? base + 31 : n - 1;
    const long long end = later ? base + __ffs(later) - 1 : end_of_run(value, last, n);
    return end - (base + threadIdx.x % 32);
}

// Sums over runs of t values, in integers, which are the same in any order. That of t (t - 1) (t - 2) has two words,
// the terms' multiples of 2^40 and their rests. The rests of fewer than 2^32 values stay in theirs: where t^3 < 2^40
// they add up to less than 2^32 t^2 < 2^59, and of longer runs there are fewer than 2^19.
struct TieSums {
    enum Word { PAIRS, CLASSES, TRIPLES_LOW, TRIPLES_HIGH, WORDS };
    unsigned long long words[WORDS] = {};

    __device__ inline void add(unsigned long long t) {
        words[CLASSES]++;
        if (t == 1) return;
        const unsigned long long ordered_pairs = t * (t - 1);
        const unsigned long long low = ordered_pairs * (t - 2), high = __umul64hi(ordered_pairs, t - 2);
        words[PAIRS] += ordered_pairs / 2;
        words[TRIPLES_LOW] += low & ((1ull << 40) - 1);
        words[TRIPLES_HIGH] += high << 24 | low >> 40;
    }
};

// Add the first words of the block's sums to those in memory. Barriers: two a word.
template <int threads>
__device__ inline void add_sums(const TieSums& sums, unsigned long long* words, int count) {
    for (int word = 0; word < count; word++) {
        const unsigned long long sum = block_sum<threads>(sums.words[word]);
        if (threadIdx.x == 0 && sum > 0) atomicAdd(words + word, sum);
    }
}

__device__ inline double triples(const unsigned long long* words) {
    return fma(double(words[TieSums::TRIPLES_HIGH]), 0x1p40, double(words[TieSums::TRIPLES_LOW]));
}

// Sum of t (t - 1) (2 t + 5) = 2 t (t - 1) (t - 2) + 9 t (t - 1).
__device__ inline double variance(const unsigned long long* words) {
    return 2 * triples(words) + 18 * double(words[TieSums::PAIRS]);
}
