// Sums of a block of small.cu for points of at most 32 columns: a thread has its queries in registers, takes every 256th
// row of the split, and keeps its own references. Sums of all threads are then brought to the largest of these.
#pragma once

constexpr int D = DIMENSIONS;
constexpr int bytes = D * sizeof(Real);  // of a point's differences
constexpr bool split = sizeof(Storage) > sizeof(Real);
constexpr int most_of_two = split || OUTPUT == MOMENTS ? 96 : 128;  // beyond, two queries do not fit in registers
constexpr int queries = bytes <= 64 ? 4 : bytes <= most_of_two ? 2 : 1;
constexpr int moments = OUTPUT == MOMENTS ? D : 0;
constexpr int others = OUTPUT == LAPLACE ? 1 : moments;  // sums beside the total
constexpr int sums_of_query = 1 + others;
constexpr int all_sums = queries * sums_of_query;
constexpr int together = 8;  // squares that are added up before they join the others: it bounds the rounding in float

constexpr int numbers_of_vector = 16 / sizeof(Storage);
struct alignas(16) Vector {
    Storage of[numbers_of_vector];
};

__device__ inline int others_of(int) { return others; }

__device__ inline double* memory_of_sums() {
    __shared__ double memory[all_sums];
    return memory;
}

__device__ inline void load(Coordinate (&x)[D], const Storage* row, int d, bool by_vectors) {
    if (by_vectors) {
#pragma unroll
        for (int v = 0; v < D / numbers_of_vector; v++) {
            Vector vector = {};
            if (v * numbers_of_vector < d) vector = reinterpret_cast<const Vector*>(row)[v];
#pragma unroll
            for (int k = 0; k < numbers_of_vector; k++) put(vector.of[k], x[v * numbers_of_vector + k]);
        }
    } else {
#pragma unroll
        for (int k = 0; k < D; k++) put(k < d ? row[k] : Storage(0), x[k]);
    }
}

// Sum a part of the data; true where a squared distance or a weight is odd.
__device__ inline bool sum_part(const Part& of, double* block_sums, double (&block_references)[queries], double& block_mass) {
    __shared__ Real warp_sums[warps][all_sums], warp_references[warps][queries];
    __shared__ double warp_masses[warps];
    const int warp = threadIdx.x / 32;
    Coordinate y[queries][D];
#pragma unroll
    for (int q = 0; q < queries; q++) {
#pragma unroll
        for (int k = 0; k < D; k++) put(k < of.d ? of.query(q, k) : Storage(0), y[q][k]);
    }

    // 1. sums of the thread
    Real reference[queries], values[all_sums] = {};  // of each query its total, then its other sums
#pragma unroll
    for (int q = 0; q < queries; q++) reference[q] = Exponent<Real>::least;
    const Real at_zero = Real(1 + 0.5 * of.d), of_square = Real(ln_2) * of.scale;  // of the factor of LAPLACE
    double mass = 0;
    bool broken = false;
#pragma unroll 1
    for (long long j = of.begin + threadIdx.x; j < of.end; j += threads) {
        Coordinate x[D];
        load(x, of.X + j * of.d, of.d, of.by_vectors);
        const Real log_weight = of.log_weight(j, mass, broken);
#pragma unroll
        for (int q = 0; q < queries; q++) {
            Real r2 = 0, part = 0;
#pragma unroll
            for (int k = 0; k < D; k++) {
                const Real apart = difference(x[k], y[q][k]);
                part = multiply_add(apart, apart, part);
                if (k % together == together - 1 || k == D - 1) r2 += part, part = 0;
            }
            broken |= !(r2 <= of.limit);
            const Real exponent = multiply_add(-of.scale, r2, log_weight);
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
            for (int k = 0; k < moments; k++) of_query[1 + k] = multiply_add(power, difference(x[k], y[q][k]), of_query[1 + k]);
        }
    }

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
    return broken;
}
