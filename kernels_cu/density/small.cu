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
// A block owns `queries` queries and a split of the data; a thread takes every 256th row of it. Sums are relative to the
// largest exponent so far. The last block of a group merges the splits, in their order, so that runs are equal to the
// bit. Barriers: four, or six with splits; all threads of a block pass them.
//
// Macros: KERNEL; OUTPUT: SUM, MOMENTS or LAPLACE; STORAGE; REAL: float or double, the arithmetic; DIMENSIONS: d rounded
// up.
#define SUM 0
#define MOMENTS 1
#define LAPLACE 2
#include "density_forms.cuh"
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "lane_sums.cuh"

typedef REAL Real;
typedef STORAGE Storage;

constexpr int threads = 256, warps = threads / 32;
constexpr int D = DIMENSIONS;
constexpr int words = D * (sizeof(Storage) + sizeof(Real)) / 8;  // of a point, as it is stored and as it is used
constexpr int most_of_two = OUTPUT == MOMENTS ? 24 : 32;  // beyond, moments of two queries do not fit in registers
constexpr int queries = words <= 16 ? 4 : words <= most_of_two ? 2 : 1;
constexpr int moments = OUTPUT == MOMENTS ? D : 0;
constexpr int others = OUTPUT == LAPLACE ? 1 : moments;  // sums beside the total
constexpr int sums_of_query = 1 + others;
constexpr int all_sums = queries * sums_of_query;
constexpr int together = 8;  // squares that are added up before they join the others: it bounds the rounding in float

constexpr int numbers_of_vector = 16 / sizeof(Storage);
struct alignas(16) Vector {
    Storage of[numbers_of_vector];
};

__device__ inline void load(Storage (&x)[D], const Storage* row, int d, bool by_vectors) {
    if (by_vectors) {
#pragma unroll
        for (int v = 0; v < D / numbers_of_vector; v++) {
            Vector vector = {};
            if (v * numbers_of_vector < d) vector = reinterpret_cast<const Vector*>(row)[v];
#pragma unroll
            for (int k = 0; k < numbers_of_vector; k++) x[v * numbers_of_vector + k] = vector.of[k];
        }
    } else {
#pragma unroll
        for (int k = 0; k < D; k++) x[k] = k < d ? row[k] : Storage(0);
    }
}

__device__ inline void put(void* out, long long place, double value, int bytes) {
    if (bytes == 4) static_cast<float*>(out)[place] = float(value);
    else static_cast<double*>(out)[place] = value;
}

__device__ inline double get(const void* from, long long place, int bytes) {
    return bytes == 4 ? double(static_cast<const float*>(from)[place]) : static_cast<const double*>(from)[place];
}

// Weights whose sum lies in between have logarithms that float holds to 1e-6.
constexpr double least_mass = 0x1p-20, most_mass = 0x1p32;

extern "C" __global__ void __launch_bounds__(threads, 1)
KERNEL(const Storage* __restrict__ X, const void* __restrict__ Y, const void* __restrict__ weights, void* density,
       void* points, double* sums, double* references, double* masses, unsigned* tickets, int* odd, long long n,
       long long m, long long rows, int d, int splits, int by_vectors, int single_queries, int weight_bytes,
       int out_bytes, int wanted, Real scale, Real limit, double log_constant, double keep, double step) {
    __shared__ Real warp_sums[warps][all_sums], warp_references[warps][queries];
    __shared__ double warp_masses[warps];
    __shared__ double block_sums[all_sums], block_references[queries], block_mass;
    __shared__ bool last;
    const int warp = threadIdx.x / 32;
    const long long group = blockIdx.x, first_query = group * queries;
    const long long begin = blockIdx.y * rows, end = begin + rows < n ? begin + rows : n;

    Storage y[queries][D];
#pragma unroll
    for (int q = 0; q < queries; q++) {
        const long long i = first_query + q < m ? first_query + q : m - 1;
#pragma unroll
        for (int k = 0; k < D; k++)
            y[q][k] = k < d ? Storage(get(Y, i * d + k, single_queries ? 4 : sizeof(Storage))) : Storage(0);
    }

    // 1. sums of the thread
    Real reference[queries], values[all_sums] = {};  // of each query its total, then its other sums
#pragma unroll
    for (int q = 0; q < queries; q++) reference[q] = Exponent<Real>::least;
    const Real at_zero = Real(1 + 0.5 * d), of_square = Real(ln_2) * scale;  // of the factor of LAPLACE
    double mass = 0;
    bool broken = false;
#pragma unroll 1
    for (long long j = begin + threadIdx.x; j < end; j += threads) {
        Storage x[D];
        load(x, X + j * d, d, by_vectors);
        Real log_weight = 0;
        if (weights) {
            const double weight = get(weights, j, weight_bytes);
            mass += weight;
            broken |= !(weight >= 0);
            log_weight = weight > 0 ? Real(log2(weight)) : Exponent<Real>::none;
        }
#pragma unroll
        for (int q = 0; q < queries; q++) {
            Real r2 = 0, part = 0;
#pragma unroll
            for (int k = 0; k < D; k++) {
                const Real difference = Real(x[k] - y[q][k]);
                part = multiply_add(difference, difference, part);
                if (k % together == together - 1 || k == D - 1) r2 += part, part = 0;
            }
            broken |= !(r2 <= limit);
            const Real exponent = multiply_add(-scale, r2, log_weight);
            Real* const of_query = values + q * sums_of_query;
            if (exponent > reference[q]) {
                const Real factor = exp2_of(reference[q] - exponent);
                reference[q] = exponent;
#pragma unroll
                for (int s = 0; s < sums_of_query; s++) of_query[s] *= factor;
            }
            const Real power = exp2_of(exponent - reference[q]);
            of_query[0] += power;
            if (OUTPUT == LAPLACE) of_query[others] = multiply_add(power, at_zero - of_square * r2, of_query[others]);
#pragma unroll
            for (int k = 0; k < moments; k++) of_query[1 + k] = multiply_add(power, Real(x[k] - y[q][k]), of_query[1 + k]);
        }
    }
    if (odd && broken) *odd = 1;

    // 2. of the block
#pragma unroll
    for (int q = 0; q < queries; q++) {
        const Real largest = largest_over_lanes<32>(reference[q]);
        const Real factor = exp2_of(reference[q] - largest);
#pragma unroll
        for (int s = 0; s < sums_of_query; s++) values[q * sums_of_query + s] *= factor;
        if (threadIdx.x % 32 == 0) warp_references[warp][q] = largest;
    }
    sum_over_lanes(values, warp_sums[warp]);
    mass = sum_over_lanes<32>(mass);
    if (threadIdx.x % 32 == 0) warp_masses[warp] = mass;
    __syncthreads();
    for (int s = threadIdx.x; s < all_sums; s += threads) {
        const int q = s / sums_of_query;
        Real largest = warp_references[0][q];
        for (int w = 1; w < warps; w++) largest = larger(largest, warp_references[w][q]);
        double sum = 0;
        for (int w = 0; w < warps; w++) sum += double(warp_sums[w][s]) * exp2_of(warp_references[w][q] - largest);
        block_sums[s] = sum;
        if (s % sums_of_query == 0) block_references[q] = largest;
    }
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int w = 0; w < warps; w++) sum += warp_masses[w];
        block_mass = sum;
    }
    __syncthreads();

    // 3. of all splits
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

    // 4. results
    const bool usable = !weights || (block_mass >= least_mass && block_mass <= most_mass);
    if (odd && !usable) *odd = 1;
    if (density && threadIdx.x < queries && first_query + threadIdx.x < m) {
        const double total = block_sums[threadIdx.x * sums_of_query];
        const double log_mass = weights ? log(block_mass) : 0.0;
        const double log_factor = block_references[threadIdx.x] * ln_2 + log_constant - log_mass;
        double value;
        if constexpr (OUTPUT == LAPLACE)
            value = density_of_both(log_factor, total, block_sums[threadIdx.x * sums_of_query + others], wanted);
        else value = density_of_total(log_factor, total, wanted);
        put(density, first_query + threadIdx.x, value, out_bytes);
    }
    if (moments) {
        for (int i = threadIdx.x; i < queries * D; i += threads) {
            const int q = i / D, k = i % D;
            if (k >= d || first_query + q >= m) continue;
            const long long place = (first_query + q) * d + k;
            const double* const of_query = block_sums + q * sums_of_query;
            const double mean = of_query[1 + k] / of_query[0];
            const double start = keep ? keep * get(Y, place, single_queries ? 4 : sizeof(Storage)) : 0.0;
            put(points, place, start + step * mean, out_bytes);
        }
    }
}
