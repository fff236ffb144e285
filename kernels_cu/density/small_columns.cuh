// Sums of a block of small.cu for points of more than 32 columns: a warp has as many rows as make 32 pairs with the queries,
// and its lanes go over the columns together. Each lane then has one of these pairs.
//
// A lane keeps its own reference. For MOMENTS references are those of the block: all warps raise them before the powers of a
// tile of rows are added up. A thread then sums columns over a slice of the tile's rows; where columns are fewer than
// threads there are several slices.
//
// Dynamic shared memory: `queries` rows of sums, as double; the queries; and for MOMENTS the sums of `slices`, (slices,
// queries, d).
#pragma once

constexpr int queries = OUTPUT == MOMENTS ? 2 : 4;
constexpr int warp_rows = 32 / queries, tile_rows = warps * warp_rows;

__device__ inline int others_of(int d) { return OUTPUT == MOMENTS ? d : OUTPUT == LAPLACE; }

__device__ inline double* memory_of_sums() {
    extern __shared__ double dynamic_shared[];
    return dynamic_shared;
}

// Sum or take the largest over the lanes that have the same query.
__device__ inline Real sum_of_query(Real value) {
#pragma unroll
    for (int step = queries; step < 32; step *= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

__device__ inline Real largest_of_query(Real value) {
#pragma unroll
    for (int step = queries; step < 32; step *= 2) value = larger(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// Sum a part of the data; true where a squared distance or a weight is odd. Barriers: three, and for MOMENTS two more for
// each tile.
__device__ inline bool sum_part(const Part& of, double* block_sums, double (&block_references)[queries], double& block_mass) {
    __shared__ Real squares[warps][32], powers[tile_rows][queries], factors[queries];
    __shared__ Real warp_references[warps][queries], warp_totals[warps][queries], warp_others[warps][queries];
    __shared__ double warp_masses[warps];
    const int d = of.d, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Coordinate* const y = reinterpret_cast<Coordinate*>(block_sums + queries * (1 + others_of(d)));
    Real* const moments = reinterpret_cast<Real*>(y + queries * d);
    const int across = d < threads ? (d + 31) / 32 * 32 : threads, slices = threads / across;

    for (int i = threadIdx.x; i < queries * d; i += threads) put(of.query(i / d, i % d), y[i]);
    if (OUTPUT == MOMENTS)
        for (int i = threadIdx.x; i < slices * queries * d; i += threads) moments[i] = 0;
    __syncthreads();

    Real reference = Exponent<Real>::least, total = 0, other = 0;
    const Real at_zero = Real(1 + 0.5 * d), of_square = Real(ln_2) * of.scale;  // of the factor of LAPLACE
    double mass = 0;
    bool broken = false;
#pragma unroll 1
    for (long long start = of.begin; start < of.end; start += tile_rows) {
        // 1. squared distances
        const long long first = start + warp * warp_rows;
        Real sums[32] = {};
#pragma unroll 2
        for (int k = lane; k < d; k += 32) {
            Coordinate x[warp_rows];
#pragma unroll
            for (int r = 0; r < warp_rows; r++) {
                const long long j = first + r < of.end ? first + r : of.end - 1;
                put(of.X[j * d + k], x[r]);
            }
#pragma unroll
            for (int q = 0; q < queries; q++) {
                const Coordinate at = y[q * d + k];
#pragma unroll
                for (int r = 0; r < warp_rows; r++) {
                    const Real apart = difference(x[r], at);
                    sums[r * queries + q] = multiply_add(apart, apart, sums[r * queries + q]);
                }
            }
        }
        sum_over_lanes(sums, squares[warp]);
        __syncwarp();

        // 2. the pair of the lane
        const Real r2 = squares[warp][lane];
        const long long j = first + lane / queries;
        broken |= !(r2 <= of.limit);
        Real exponent = Exponent<Real>::none;
        if (j < of.end) {
            double weight = 0;
            exponent = multiply_add(-of.scale, r2, of.log_weight(j, weight, broken));
            if (lane % queries == 0) mass += weight;
        }
        Real risen = larger(reference, exponent);
        if (OUTPUT == MOMENTS) {
            const Real largest = largest_of_query(exponent);
            if (lane < queries) warp_references[warp][lane] = largest;
            __syncthreads();
            for (int w = 0; w < warps; w++) risen = larger(risen, warp_references[w][lane % queries]);
        }
        const Real factor = exp2_of(reference - risen), power = exp2_of(exponent - risen);
        reference = risen;
        total = multiply_add(total, factor, power);
        if (OUTPUT == LAPLACE) other = multiply_add(other, factor, power * (at_zero - of_square * r2));
        if (OUTPUT != MOMENTS) continue;

        // 3. moments
        powers[warp * warp_rows + lane / queries][lane % queries] = power;
        if (threadIdx.x < queries) factors[threadIdx.x] = factor;
        __syncthreads();
        const int slice = threadIdx.x / across, there = of.end - start < tile_rows ? int(of.end - start) : tile_rows;
        if (slice >= slices) continue;
        for (int k = threadIdx.x % across; k < d; k += across) {
            Real of_tile[queries] = {};
#pragma unroll 8
            for (int r = slice; r < there; r += slices) {
                Coordinate x;
                put(of.X[(start + r) * d + k], x);
#pragma unroll
                for (int q = 0; q < queries; q++)
                    of_tile[q] = multiply_add(powers[r][q], difference(x, y[q * d + k]), of_tile[q]);
            }
#pragma unroll
            for (int q = 0; q < queries; q++) {
                Real& sum = moments[(slice * queries + q) * d + k];
                sum = multiply_add(sum, factors[q], of_tile[q]);
            }
        }
    }

    const Real largest = largest_of_query(reference), factor = exp2_of(reference - largest);
    total = sum_of_query(total * factor), other = sum_of_query(other * factor);
    mass = sum_over_lanes<32>(mass);
    if (lane < queries) {
        warp_references[warp][lane] = largest;
        warp_totals[warp][lane] = total, warp_others[warp][lane] = other;
    }
    if (lane == 0) warp_masses[warp] = mass;
    __syncthreads();
    if (threadIdx.x < queries) {
        const int q = threadIdx.x;
        double* const of_query = block_sums + q * (1 + others_of(d));
        Real reference = warp_references[0][q];
        for (int w = 1; w < warps; w++) reference = larger(reference, warp_references[w][q]);
        double sum = 0, of_other = 0;
        for (int w = 0; w < warps; w++) {
            const double factor = exp2_of(warp_references[w][q] - reference);
            sum += factor * warp_totals[w][q], of_other += factor * warp_others[w][q];
        }
        of_query[0] = sum;
        if (OUTPUT == LAPLACE) of_query[1] = of_other;
        block_references[q] = reference;
    }
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int w = 0; w < warps; w++) sum += warp_masses[w];
        block_mass = sum;
    }
    if (OUTPUT == MOMENTS) {
        for (int i = threadIdx.x; i < queries * d; i += threads) {
            double sum = 0;
            for (int s = 0; s < slices; s++) sum += moments[s * queries * d + i];
            block_sums[i / d * (1 + d) + 1 + i % d] = sum;
        }
    }
    __syncthreads();
    return broken;
}
