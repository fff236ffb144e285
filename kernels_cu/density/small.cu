// All of a small problem in one launch: sums over all pairs from differences, the merge of the data's splits, and the
// density, score or moved points that they make. With a_j = log2 w_j - scale |y - x_j|^2 and weights w_j, 1 by default:
//
//   X        (n, d)  STORAGE  data
//   Y        (m, d)  STORAGE queries, or float where `single_queries`
//   weights  (n,)    float or double, as many bytes each as `weight_bytes`; null: all are 1
//   density  (m,)    out_bytes a number; null where it is not an output
//            that of the sums times exp(log_constant) / sum_j w_j, as `wanted` of density_forms.cuh says. The sums are
//            T = sum_j 2^a_j and, for LAPLACE, L = sum_j 2^a_j (1 + d/2 - scale ln 2 |y - x_j|^2)
//   points   (m, d)  out_bytes a number, for MOMENTS:  keep y + step sum_j 2^a_j (x_j - y) / sum_j 2^a_j,
//            the score with keep = 0 and step = 1 / h^2, moved points with keep = 1
//   sums     (splits, groups, queries (1 + others))  double, and references (splits, groups, queries), masses (splits,
//            groups): of a split, where there are several
//   tickets  (groups,)  unsigned, zero before
//   odd      (1,)  int, in memory of the host; null: not wanted. It becomes 1 where a squared distance exceeds `limit` or is
//            no number, or the weights are none that this kernel takes: the results are then void
//
// A block owns `queries` queries and a split of the data, whose sums are relative to the largest exponent so far:
// small_rows.cuh makes them of at most 32 columns, small_columns.cuh of more. The last block of a group merges the splits,
// in their order, so that runs are equal to the bit. Barriers: those of the sums, and four with splits; all threads of a
// block pass them.
//
// Macros: KERNEL; OUTPUT: SUM, MOMENTS or LAPLACE; STORAGE; REAL: float or double, the arithmetic; DIMENSIONS: d rounded
// up, of at most 32 columns, or 0.
#define SUM 0
#define MOMENTS 1
#define LAPLACE 2
#include "density_forms.cuh"
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "lane_sums.cuh"
#include "coordinate.cuh"

constexpr int threads = 256, warps = threads / 32;

__device__ inline void put(void* out, long long place, double value, int bytes) {
    if (bytes == 4) static_cast<float*>(out)[place] = float(value);
    else static_cast<double*>(out)[place] = value;
}

__device__ inline double get(const void* from, long long place, int bytes) {
    return bytes == 4 ? double(static_cast<const float*>(from)[place]) : static_cast<const double*>(from)[place];
}

// What a block sums.
struct Part {
    const Storage* X;
    const void *Y, *weights;
    long long m, begin, end, first_query;  // rows from begin to end
    int d, query_bytes, weight_bytes;      // bytes of a number
    bool by_vectors;                       // rows of X are whole vectors of 16 bytes
    Real scale, limit;

    __device__ Storage query(int q, int k) const {
        const long long i = first_query + q < m ? first_query + q : m - 1;
        return Storage(get(Y, i * d + k, query_bytes));
    }

    // log2 of the weight of a row, which is added to the mass.
    __device__ Real log_weight(long long j, double& mass, bool& broken) const {
        if (!weights) return 0;
        const double weight = get(weights, j, weight_bytes);
        mass += weight;
        broken |= !(weight >= 0);
        return weight > 0 ? Real(log2(weight)) : Exponent<Real>::none;
    }
};

#if DIMENSIONS
#include "small_rows.cuh"
#else
#include "small_columns.cuh"
#endif

// Weights whose sum lies in between have logarithms that float holds to 1e-6.
constexpr double least_mass = 0x1p-20, most_mass = 0x1p32;

extern "C" __global__ void __launch_bounds__(threads, 1)
KERNEL(const Storage* __restrict__ X, const void* __restrict__ Y, const void* __restrict__ weights, void* density,
       void* points, double* sums, double* references, double* masses, unsigned* tickets, int* odd, long long n,
       long long m, long long rows, int d, int splits, int by_vectors, int single_queries, int weight_bytes,
       int out_bytes, int wanted, Real scale, Real limit, double log_constant, double keep, double step) {
    __shared__ double block_references[queries], block_mass;
    __shared__ bool last;
    double* const block_sums = memory_of_sums();  // of each query its total, then its other sums
    const int sums_of_query = 1 + others_of(d), all_sums = queries * sums_of_query;
    const int query_bytes = single_queries ? 4 : sizeof(Storage);
    const long long group = blockIdx.x, first_query = group * queries;
    const long long begin = blockIdx.y * rows, end = begin + rows < n ? begin + rows : n;

    // 1. sums of the block
    const Part part = {X, Y,           weights,      m,     begin, end, first_query,
                       d, query_bytes, weight_bytes, bool(by_vectors), scale, limit};
    if (sum_part(part, block_sums, block_references, block_mass) && odd) *odd = 1;

    // 2. of all splits
    if (splits > 1) {
        const long long stride = gridDim.x, place = blockIdx.y * stride + group;
        for (int s = threadIdx.x; s < all_sums; s += threads) sums[place * all_sums + s] = block_sums[s];
        if (threadIdx.x < queries) references[place * queries + threadIdx.x] = block_references[threadIdx.x];
        if (threadIdx.x == 0) masses[place] = block_mass;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicAdd(&tickets[group], 1u) == unsigned(splits) - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        for (int s = threadIdx.x; s < all_sums; s += threads) {
            const int q = s / sums_of_query;
            double largest = __ldcg(&references[group * queries + q]);
#pragma unroll 4
            for (int p = 1; p < splits; p++) largest = larger(largest, __ldcg(&references[(p * stride + group) * queries + q]));
            double sum = 0;
#pragma unroll 4
            for (int p = 0; p < splits; p++) {
                const long long from = p * stride + group;
                sum += __ldcg(&sums[from * all_sums + s]) * exp2(__ldcg(&references[from * queries + q]) - largest);
            }
            block_sums[s] = sum;
            if (s % sums_of_query == 0) block_references[q] = largest;
        }
        if (threadIdx.x == 0) {
            double sum = 0;
            for (int p = 0; p < splits; p++) sum += __ldcg(&masses[p * stride + group]);
            block_mass = sum;
        }
        __syncthreads();
    }

    // 3. results
    const bool usable = !weights || (block_mass >= least_mass && block_mass <= most_mass);
    if (odd && !usable) *odd = 1;
    if (density && threadIdx.x < queries && first_query + threadIdx.x < m) {
        const double total = block_sums[threadIdx.x * sums_of_query];
        const double log_mass = weights ? log(block_mass) : 0.0;
        const double log_factor = block_references[threadIdx.x] * ln_2 + log_constant - log_mass;
        double value;
        if constexpr (OUTPUT == LAPLACE)
            value = density_of_both(log_factor, total, block_sums[threadIdx.x * sums_of_query + 1], wanted);
        else value = density_of_total(log_factor, total, wanted);
        put(density, first_query + threadIdx.x, value, out_bytes);
    }
    if (OUTPUT == MOMENTS) {
        const int columns = others_of(d);
        for (int i = threadIdx.x; i < queries * columns; i += threads) {
            const int q = i / columns, k = i % columns;
            if (k >= d || first_query + q >= m) continue;
            const long long place = (first_query + q) * d + k;
            const double* const of_query = block_sums + q * sums_of_query;
            const double mean = of_query[1 + k] / of_query[0];
            const double start = keep ? keep * get(Y, place, query_bytes) : 0.0;
            put(points, place, start + step * mean, out_bytes);
        }
    }
}
