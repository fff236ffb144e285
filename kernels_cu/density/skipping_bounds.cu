// A lower bound of each query's sum, from the data that are likely to be near. Points are those of skipping_points.cu, sums
// those of skipping_below.cuh.
//
//   Y_local, Y_centres, Y_reach               queries
//   X_local, X_weights, X_centres, X_reach    data
//   Y_codes, X_codes  (m,), (n,)   unsigned   ascending: blocks of data from the first query's code to the last one's are
//                                             looked at; null: the query block's own
//   reference   (query rows,)      float      b_i <= log2 sum_j 2^e_ij
//   extent      (query blocks, 2)  float      least b_i, twice
//   around                                    blocks to look at beside these, on either side
//   most_blocks                               of these are looked at, at equal distances
//
// One block of 64 threads for 64 queries, a thread a query. Barriers: one, passed by all threads.
//
// Macro: DIM as in skipping_points.cu.
#include "skipping_below.cuh"

constexpr float never = 3e38f;

// The block of data in which a code would have its place.
__device__ inline int block_of(const unsigned* codes, long long n, unsigned code) {
    long long low = 0, high = n;  // as many codes are smaller, at least and at most
    while (low < high) {
        const long long middle = (low + high) / 2;
        if (codes[middle] < code) low = middle + 1;
        else high = middle;
    }
    return int(low / block);
}

extern "C" __global__ void __launch_bounds__(block, 8)
    bound_sums(const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
               const float* __restrict__ Y_reach, const float* __restrict__ X_local,
               const float* __restrict__ X_weights, const float* __restrict__ X_centres,
               const float* __restrict__ X_reach, const unsigned* __restrict__ Y_codes,
               const unsigned* __restrict__ X_codes, float* __restrict__ reference, float* __restrict__ extent,
               long long m, long long n, int data_blocks, int around, int most_blocks) {
    __shared__ float y[DIM][block];
    __shared__ float least[2];
    const int b = blockIdx.x, i = threadIdx.x;
    const long long row = (long long)b * block + i;
    SumFromBelow sum;

    int first = b, last = b;
    if (Y_codes) {
        const long long end = (b + 1LL) * block - 1;
        first = min(block_of(X_codes, n, Y_codes[(long long)b * block]), data_blocks - 1);
        last = block_of(X_codes, n, Y_codes[end < m ? end : m - 1]);
    }
    first = max(first - around, 0);
    last = min(last + around, data_blocks - 1);
    const int step = (last - first) / most_blocks + 1;
    for (int from = first; from <= last; from += step) {
        float offset = 0;
        for (int k = 0; k < DIM; k++) {
            const float shift = Y_centres[b * DIM + k] - X_centres[from * DIM + k];
            offset = fmaxf(offset, fabsf(shift));
            y[k][i] = Y_local[row * DIM + k] + shift;
        }
        const float slack = slack_of(Y_reach[b], X_reach[from], offset);
#pragma unroll 2
        for (long long j = (long long)from * block; j < (from + 1LL) * block; j++) {
            const float4* const x = reinterpret_cast<const float4*>(X_local + j * DIM);
            float r2 = 0;
#pragma unroll 4
            for (int k = 0; k < DIM; k += 4) {
                const float4 four = x[k / 4];
                const float p = four.x - y[k][i], q = four.y - y[k + 1][i];
                const float r = four.z - y[k + 2][i], s = four.w - y[k + 3][i];
                r2 += p * p + q * q + r * r + s * s;
            }
            sum.add(X_weights[j], r2, slack);
        }
    }
    const bool exists = row < m;
    float bound = sum.bits();
    // A query that is a datum has at least itself, however wide its block.
    if (!Y_codes) bound = fmaxf(bound, X_weights[row] * 1.000001f - 0.001f);
    reference[row] = exists ? bound : never;
    const float low = least_over_lanes<32>(exists ? bound : never);
    if (i % 32 == 0) least[i / 32] = low;
    __syncthreads();
    if (i == 0) extent[2 * b] = extent[2 * b + 1] = fminf(least[0], least[1]);
}
