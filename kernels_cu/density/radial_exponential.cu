// Sums of radial.cu for the exponential kernel, over the blocks of 64 data that add something to 64 neighbouring queries:
// for 8 of them at a time radial_limits.cu says from where on what a block adds may be left out.
//
//   X, Y, log_weights     as in radial.cu, but in order (radial_blocks.cu)
//   mass                  (data blocks,)    REAL       log2 of the blocks' masses, rounded up
//   X_low, X_high         (d, data blocks)  REAL       boxes of data
//   Y_low, Y_high         (d, m / 8)        REAL       boxes of 8 queries
//   limits                (m / 8,)          REAL       of these
//   order                 (m,)              long long  where each query stands in the results
//   reference, total      (splits, m)       double     as in radial.cu
//   counts                (1,)              unsigned long long  or null; 8 is added for each block of data that a block of
//                                                      queries takes, and 1 for each eighth of the queries that does
//   unit, scale           as in radial.cu
//   lowered               the scale, with the rounding of distances taken off
//
// One block owns 64 queries and in turns four of the blocks of data, so that those which lie near are shared by all
// splits: grid x over queries, z over splits. A warp has eight queries, and asks of 256 blocks of data which of them these
// take; then all threads go through the blocks that any of the warps takes, tile by tile. Others add nothing. Sums have
// one order: every run gives the same bits.
//
// Barriers: two for 256 blocks of data, and those of the tiles; all threads of a block pass all of them.
//
// Macros: KERNEL, KIND, REAL, STORAGE and CHUNK as in radial.cu.
#include "radial.cuh"

constexpr int warps = threads / 32;
constexpr int in_turns = 4;

__device__ inline long long block_of(int own) {
    return ((long long)(own / in_turns) * gridDim.z + blockIdx.z) * in_turns + own % in_turns;
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const Storage* __restrict__ X, const Storage* __restrict__ Y, const double* __restrict__ log_weights,
       const Real* __restrict__ mass, const Real* __restrict__ X_low, const Real* __restrict__ X_high,
       const Real* __restrict__ Y_low, const Real* __restrict__ Y_high, const Real* __restrict__ limits,
       const long long* __restrict__ order, double* __restrict__ reference, double* __restrict__ total,
       unsigned long long* __restrict__ counts, long long n, long long m, int d, Storage unit, Real scale, Real lowered) {
    __shared__ TileMemory staged;
    __shared__ unsigned takes[warps][warps];  // of each warp, the votes on 32 blocks each
    const Pass pass = {X, Y, log_weights, n, m, d, unit, scale, 0, 0, 0};
    const Boxes data = {X_low, X_high, int((n + tile - 1) / tile)};
    const Boxes queries = {Y_low, Y_high, int((m + warps - 1) / warps)};
    const long long first_query = (long long)blockIdx.x * tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own = blockIdx.x * warps + warp;
    const Real limit = own < queries.count ? limits[own] : Real(0);

    Sums sums;
    sums.begin(Exponent<Real>::least);
    unsigned long long taken = 0;
    bool first = true;
    for (int base = 0; block_of(base) < data.count; base += threads) {
        __syncthreads();  // all have read the last votes
        for (int w = 0; w < warps; w++) {
            const long long b = block_of(base + w * 32 + lane);
            const bool take = own < queries.count && b < data.count &&
                              !(most_bits(data, int(b), mass, queries, own, d, lowered) < limit);
            const unsigned votes = __ballot_sync(~0u, take);
            if (lane == 0) takes[warp][w] = votes;
            taken += __popc(votes);
        }
        __syncthreads();
        for (int w = 0; w < warps; w++) {
            unsigned left = 0;
            for (int other = 0; other < warps; other++) left |= takes[other][w];
            if (threadIdx.x == 0) taken += warps * __popc(left);
            for (; left; left &= left - 1) {
                const int bit = __ffs(left) - 1;
                const long long at = block_of(base + w * 32 + bit) * tile;
                add_tile(sums, staged, pass, at, n, first_query, first, takes[warp][w] >> bit & 1);
                first = false;
            }
        }
    }
    if (counts && lane == 0) atomicAdd(counts, taken);
    sums.share();
    sums.write(reference, total, first_query, m, order);
}
