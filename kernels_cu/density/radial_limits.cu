// From where on blocks of data may be left out of sums of the exponential kernel (radial.cu), for 8 neighbouring queries:
//
//   e_b = M_b - scale r_b   the most that block b adds to any of them, in bits: r_b is the least distance of its box and theirs
//   limit = A - k / 8       with the least k for which the blocks below it add at most 2^A:  sum_{e_b <= limit} 2^e_b <= 2^A
//   2^A = least_i S_i rtol / (1 + rtol) + atol,  S_i <= sum_j w_j 2^(-scale |y_i - x_j|)
//
// S_i is the sum over eight blocks that add much, so that what is left out of sum i is at most rtol times what is kept, and
// atol. The first of the eight is not left out.
//
//   X, Y, log_weights  as in radial.cu, but in order (radial_blocks.cu)
//   mass               (blocks,)   REAL  M_b, log2 of the block's mass, rounded up
//   X_low, X_high      (d, blocks) REAL  boxes of data
//   Y_low, Y_high      (d, m / 8)  REAL  boxes of the queries; they are written here
//   limits             (m / 8,)    REAL
//   unit, scale        as in radial.cu
//   rounding           relative, of distances and of sums' logarithms; d <= 128
//   log2_rtol          of rtol / (1 + rtol)
//   log2_atol
//
// One block of 256 threads for 8 queries. It goes through all boxes twice: first each thread keeps the best of its own, of
// which eight are chosen; then blocks are counted by e_b in 256 bins of 1/8, the last of which is from there on.
// Counts are integers and sums have one order: every run gives the same bits. Barriers are passed by all threads.
//
// Macros: KERNEL the name; REAL.
#include "ptx.cuh"
#include "radial_boxes.cuh"

constexpr int threads = 256;  // and bins
constexpr int warps = threads / 32;
constexpr int queries = 8;  // of a block: a warp each
constexpr int chosen = 8;
constexpr int per_bit = 8;  // bins

// The largest over a block of threads, of equal ones that of the first thread: the value and which thread has it.
__device__ inline int thread_of_largest(Real value, Real* values, int* owners) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Real largest = largest_over_lanes<32>(value);
    const unsigned votes = __ballot_sync(~0u, value == largest);
    if (lane == 0) {
        values[warp] = largest;
        owners[warp] = warp * 32 + __ffs(votes) - 1;
    }
    __syncthreads();
    int first = 0;
    for (int w = 1; w < warps; w++)
        if (values[w] > values[first]) first = w;
    const int owner = owners[first];
    __syncthreads();  // all have seen it
    return owner;
}

// log2 of the sum of a query over the chosen blocks; a warp.
__device__ inline double log2_sum(const Real* X, const Real* y, const double* log_weights, const int* blocks,
                                  long long n, int d, Real unit, Real scale) {
    Real reference = Exponent<Real>::least;
    double sum = 0;
    for (int place = threadIdx.x % 32; place < chosen * tile; place += 32) {
        const int b = blocks[place / tile];
        if (b < 0) break;
        const long long j = (long long)b * tile + place % tile;
        if (j >= n) continue;
        Real r2 = 0;
        for (int k = 0; k < d; k++) {
            const Real step = X[j * d + k] * unit - y[k] * unit;
            r2 = multiply_add(step, step, r2);
        }
        const Real exponent = multiply_add(-scale, root(r2), exponent_of_weight<Real>(log_weights, j, n));
        if (exponent > reference) {
            sum *= exp2_of(reference - exponent);
            reference = exponent;
        }
        sum += exp2_of(exponent - reference);
    }
    const Real largest = largest_over_lanes<32>(reference);
    return double(largest) + log2(sum_over_lanes<32>(sum * exp2_of(reference - largest)));
}

extern "C" __global__ void __launch_bounds__(threads)
KERNEL(const Real* __restrict__ X, const Real* __restrict__ Y, const double* __restrict__ log_weights,
       const Real* __restrict__ mass, const Real* __restrict__ X_low, const Real* __restrict__ X_high, Real* Y_low,
       Real* Y_high, Real* __restrict__ limits, long long n, long long m, int d, Real unit, Real scale, Real rounding,
       double log2_rtol, double log2_atol) {
    __shared__ Real values[warps];
    __shared__ int owners[warps], blocks[chosen], counts[threads];
    __shared__ double sums[queries], of_warps[warps];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, own = blockIdx.x;
    const long long first = (long long)own * queries, row = first + warp, last = m - 1;
    const Boxes data = {X_low, X_high, int((n + tile - 1) / tile)}, of_queries = {Y_low, Y_high, int(gridDim.x)};

    for (int k = t; k < d; k += threads) {
        Real low = Y[first * d + k] * unit, high = low;
        for (long long i = first + 1; i < first + queries && i < m; i++) {
            const Real y = Y[i * d + k] * unit;
            low = smaller(low, y);
            high = larger(high, y);
        }
        Y_low[of_queries.place(k, own)] = low;
        Y_high[of_queries.place(k, own)] = high;
    }
    counts[t] = 0;
    __syncthreads();

    // Blocks that add much: by the middle of the distances that their points may lie at.
    Real best = Exponent<Real>::none;
    int best_block = -1;
    for (int b = t; b < data.count; b += threads) {
        const Real reach = root(squared_gap(data, b, of_queries, own, d)) + root(squared_span(data, b, of_queries, own, d));
        const Real likely = multiply_add(Real(-0.5) * scale, reach, mass[b]);
        if (best_block < 0 || likely > best) {
            best = likely;
            best_block = b;
        }
    }
    for (int c = 0; c < chosen; c++) {
        const int owner = thread_of_largest(best, values, owners);
        if (t == owner) {
            blocks[c] = best_block;
            best = Exponent<Real>::none;
            best_block = -1;
        }
    }
    __syncthreads();
    const double sum = log2_sum(X, Y + (row < m ? row : last) * d, log_weights, blocks, n, d, unit, scale);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    double allowed = sums[0];
    for (int q = 1; q < queries; q++) allowed = smaller(allowed, sums[q]);
    const double inexact = rounding * (fabs(allowed) + 1);
    allowed += log2_rtol - inexact;
    const double most = larger(allowed, log2_atol), least = smaller(allowed, log2_atol);
    const Real top = Real(most + log2(1 + exp2(least - most)) - inexact);

    const Real lowered = scale * (1 - rounding);
    for (int b = t; b < data.count; b += threads) {
        const Real below = (top - most_bits(data, b, mass, of_queries, own, d, lowered)) * per_bit;
        if (below >= 0) atomicAdd(counts + int(smaller(below, Real(threads - 1))), 1);
    }
    __syncthreads();

    // What the blocks of a bin and all below it add, beside what may be left out. There are fewer than 2^31 blocks, so
    // that those of the last bin may be.
    double added = counts[t] * exp2(-double(t) / per_bit);
    for (int step = 1; step < 32; step *= 2) {
        const double other = __shfl_down_sync(~0u, added, step);
        if (lane + step < 32) added += other;
    }
    if (lane == 0) of_warps[warp] = added;
    __syncthreads();
    for (int w = warp + 1; w < warps; w++) added += of_warps[w];
    const int too_much = __popc(__ballot_sync(~0u, added > 1));
    if (lane == 0) owners[warp] = too_much;
    __syncthreads();
    if (t > 0) return;
    int stop = 0;
    for (int w = 0; w < warps; w++) stop += owners[w];
    const Real of_first = most_bits(data, blocks[0], mass, of_queries, own, d, lowered);
    const Real limit = smaller(top - Real(stop) / per_bit, of_first);
    limits[own] = limit - rounding * (larger(limit, -limit) + 1);
}
