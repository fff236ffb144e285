// Kendall's tau and p-values of pairs of variables of few samples in one launch, from the samples themselves: each is
// compared with every other. Of the samples that have a value in both variables of a pair,
//
//   discordant pairs   D = sum_i #{j : x_i < x_j and y_i > y_j}, which meets every such pair once
//   ties               with c_i values equal to the i-th, itself among them, sums over groups of t are sums over samples:
//                      t (t - 1) = sum (c_i - 1), t (t - 1) (t - 2) = sum (c_i - 1) (c_i - 2), groups = sum 1 / c_i
//   concordant pairs   C = N - T_x - T_y + T_xy - D, of N = n (n - 1) / 2
//
// and statistics.cuh ends. All sums are of integers, the same in any order; that of 1 / c_i in units of 2^-40, rounded
// down: for fewer than 2^20 samples what is lost is less than half a group.
//
//   x, y      values of variables: sample i of variable k is value i * step + k * across, of `size` bytes and a kind
//   table     (table_size,)   double  of the exact distribution; null without p-values
//   sums      (pairs, WORDS)  unsigned long long  zero before; null where a pair has one block
//   tau       (entries,)      double
//   p_value   (entries,)      double  null: not needed
//
// `pairing`: variable i of x with each j of y, entry (i, j) of (p, q); those with i <= j alone, of one matrix, entries
// (i, j) and (j, i); or variable i of x with i of y, entry i, q = 1. NaN for fewer than `complete` samples with values.
//
// Grid: x over the `parts` blocks of every pair. A block stages a tile of the samples that have both values in shared
// memory, and takes 32 samples at a time, one for each lane; its eight warps share the tile. The block that finishes
// last in a pair ends it. Barriers: three a tile, two for each 32 samples; all threads pass them.
//
// Macros: KEY, unsigned int or, for values of 8 bytes, unsigned long long; those of statistics.cuh.
#include "order_key.cuh"
#include "statistics.cuh"

using Key = KEY;

constexpr int threads = 256;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;
constexpr int tile = 2048;

enum Pairing { ALL, UPPER, ALIKE };
enum Sum { PAIRS, GROUPS, TRIPLES, OF_VARIABLE, DISCORDANT = 2 * OF_VARIABLE, TIED_IN_BOTH, SUMMED };
enum { FINISHED = SUMMED, WORDS };  // blocks that have added theirs

struct __align__(2 * sizeof(Key)) Sample {
    Key x, y;
};

// Key of the value at a place; whether it is one. `infinity`: its bits.
template <typename Word>
__device__ inline bool load(const void* values, long long place, int kind, Word infinity, Key& key) {
    const Word own = order_key(static_cast<const Word*>(values)[place], kind, infinity);
    key = own;
    return kind != FLOATING || own != Word(~Word(0));
}

__device__ inline bool load(const void* values, long long place, int size, int kind, Key& key) {
    if (sizeof(Key) == 8 && size == 8)
        return load<unsigned long long>(values, place, kind, 0x7ff0000000000000ull, key);
    if (size == 4) return load<unsigned>(values, place, kind, 0x7f800000u, key);
    if (size == 2) return load<unsigned short>(values, place, kind, (unsigned short)0x7c00, key);
    return load<unsigned char>(values, place, kind, (unsigned char)0, key);
}

__device__ inline Ties ties_of(const unsigned long long* sums) {
    const unsigned long long ordered = sums[PAIRS], triples = sums[TRIPLES];
    const long long groups = (long long)((sums[GROUPS] + (1ull << 39)) >> 40);
    return {(long long)(ordered / 2), groups, double(triples), double(2 * triples + 9 * ordered)};
}

// What a sample adds for a variable in which so many values, itself among them, are equal.
__device__ inline void add(unsigned long long* sums, unsigned equal) {
    sums[PAIRS] += equal - 1;
    sums[GROUPS] += (1ull << 40) / equal;
    sums[TRIPLES] += (unsigned long long)(equal - 1) * (equal > 1 ? equal - 2 : 0);
}

extern "C" __global__ void __launch_bounds__(threads, 3)
kendall_comparisons(const void* __restrict__ x, const void* __restrict__ y, const double* __restrict__ table,
                    unsigned long long* __restrict__ sums, double* __restrict__ tau, double* __restrict__ p_value,
                    long long x_step, long long x_across, long long y_step, long long y_across, int x_size, int x_kind,
                    int y_size, int y_kind, int n, int p, int q, int pairing, int parts, int complete, int table_size,
                    int variant, int exact, int alternative) {
    __shared__ Sample samples[tile];
    __shared__ int staged;
    __shared__ uint4 counted[warps][lanes];
    const int pair = blockIdx.x / parts, part = blockIdx.x % parts;
    const int i = pair / q, j = pairing == ALIKE ? i : pair % q;
    if (pairing == UPPER && i > j) return;
    const int lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    const auto sample_at = [&](int sample, Sample& values) {
        const bool has_x = load(x, sample * x_step + i * x_across, x_size, x_kind, values.x);
        return load(y, sample * y_step + j * y_across, y_size, y_kind, values.y) && has_x;
    };

    unsigned long long own_sums[SUMMED] = {};  // of the first warp
    int present = 0;                           // samples with both values
    for (int first = part * lanes; first < n; first += parts * lanes) {
        Sample own = {};
        const bool there = first + lane < n && sample_at(first + lane, own);
        unsigned equal_x = 0, equal_y = 0, equal = 0, discordant = 0;
        for (int begin = 0; begin < n; begin += tile) {
            if (n > tile || first == part * lanes) {  // otherwise the tile is there
                __syncthreads();
                if (threadIdx.x == 0) staged = 0;
                __syncthreads();
                const int end = min(n, begin + tile);
                for (int base = begin + warp * lanes; base < end; base += threads) {
                    Sample read = {};
                    const bool whole = base + lane < end && sample_at(base + lane, read);
                    const unsigned of_warp = __ballot_sync(~0u, whole);
                    int place = 0;
                    if (lane == 0) place = atomicAdd(&staged, __popc(of_warp));
                    place = __shfl_sync(~0u, place, 0) + __popc(of_warp & ((1u << lane) - 1));
                    if (whole) samples[place] = read;
                }
                __syncthreads();
                if (first == part * lanes) present += staged;
            }
            const int count = staged;
#pragma unroll 8
            for (int k = warp; k < count; k += warps) {
                const Sample other = samples[k];
                const bool same_x = other.x == own.x, same_y = other.y == own.y;
                equal_x += same_x;
                equal_y += same_y;
                equal += same_x && same_y;
                discordant += own.x < other.x && own.y > other.y;
            }
        }
        __syncthreads();  // what the samples before counted has been read
        counted[warp][lane] = make_uint4(equal_x, equal_y, equal, discordant);
        __syncthreads();
        if (warp == 0 && there) {
            for (int other = 1; other < warps; other++) {
                const uint4 more = counted[other][lane];
                equal_x += more.x;
                equal_y += more.y;
                equal += more.z;
                discordant += more.w;
            }
            add(own_sums, equal_x);
            add(own_sums + OF_VARIABLE, equal_y);
            own_sums[DISCORDANT] += discordant;
            own_sums[TIED_IN_BOTH] += equal - 1;
        }
    }
    if (warp > 0) return;

#pragma unroll
    for (int word = 0; word < SUMMED; word++) {
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2) own_sums[word] += __shfl_xor_sync(~0u, own_sums[word], step);
    }
    if (lane > 0) return;
    if (parts > 1) {
        sums += (long long)pair * WORDS;
#pragma unroll
        for (int word = 0; word < SUMMED; word++) atomicAdd(sums + word, own_sums[word]);
        __threadfence();
        if (atomicAdd(sums + FINISHED, 1ull) + 1 < (unsigned long long)parts) return;
        __threadfence();
#pragma unroll
        for (int word = 0; word < SUMMED; word++) own_sums[word] = atomicAdd(sums + word, 0ull);
    }
    Counts counts = {present, 0, (long long)own_sums[DISCORDANT], ties_of(own_sums), ties_of(own_sums + OF_VARIABLE)};
    const long long tied_in_both = own_sums[TIED_IN_BOTH] / 2;
    counts.concordant = counts.all() - counts.x.pairs - counts.y.pairs + tied_in_both - counts.discordant;
    const bool defined = present >= complete && counts.differ();
    const long long entry = (long long)i * (pairing == ALIKE ? 1 : q) + (pairing == ALIKE ? 0 : j);
    const long long mirrored = pairing == UPPER ? (long long)j * q + i : entry;
    tau[entry] = tau[mirrored] = defined ? tau_of(counts, variant) : nan("");
    if (p_value)
        p_value[entry] = p_value[mirrored] =
            defined ? p_value_of(counts, table, table_size, exact, alternative) : nan("");
}
