// Sums over the pairs of few dimensions that can matter: boxes of blocks and of parts of 32 points decide alone, and near
// parts are summed whole. The sums and arrays are those of skipping_units.cu, but for T of MOMENTS, (DIMENSIONS, rows). With
// `rest` the pairs that products serve are left to skipping_mutual_few.cu or skipping_sums_few.cu.
//
// A warp takes an item at a time, 128 queries by `span` blocks of data, and waits for no other. A lane has four queries in
// registers. It looks at the boxes of 32 blocks of data at once; the points of one that is near come to shared memory,
// about the centre of the queries' block, and every lane takes all of them.
//
// References of the queries of an item are mostly alike; then exponents are relative to their largest, which costs no
// instruction. Where a block is so wide that coordinates are rounded too much, squared distances are summed in double, from
// the points themselves; with REAL double all are.
//
// Per pair: 3 DIMENSIONS + 3 instructions of output MOMENTS, one of them an exponential.
//
// No barriers but of a warp. Macros: KERNEL, OUTPUT, REAL (double of SUM alone), DIMENSIONS, DIM (the pitch
// of `local`, at least DIMENSIONS).
#include "skipping.cuh"

constexpr int threads = 128;
constexpr int rows_of_lane = 4;
constexpr int blocks_of_item = 2;
constexpr int row_parts = rows_of_lane;  // of 32 queries
constexpr unsigned all_parts = (1u << row_parts) - 1;
constexpr int pitch = (DIMENSIONS + 4) / 4 * 4;  // of a point and its weight in shared memory
constexpr int moments = output == MOMENTS ? DIMENSIONS : 1;
constexpr int blocks_of_sum = 128;  // of data, until sums in registers are added to those in memory
constexpr int blocks_at_once = in_double ? 2 : DIMENSIONS <= 3 ? 4 : 3;

// The points of a block of data and their weights; of a wide block points in double, and weights apart.
struct alignas(16) Staged {
    Real of[block][pitch];
    double wide[in_double ? 1 : block][DIMENSIONS];
    float weights[in_double ? 1 : block];
};

// The sums of a lane's queries.
struct Sums {
    Real total[rows_of_lane];
    Real moment[rows_of_lane][moments];  // of LAPLACE 2^e |z_i - z_j|^2

    __device__ void clear() {
#pragma unroll
        for (int r = 0; r < rows_of_lane; r++) {
            total[r] = 0;
#pragma unroll
            for (int k = 0; k < moments; k++) moment[r][k] = 0;
        }
    }
};

struct Queries {
    Real at[rows_of_lane]
           [DIMENSIONS];            // in double the points themselves, otherwise about the centre of the first block
    float reference[rows_of_lane];  // that sums are relative to
    bool alike, narrow;             // all references are the same; coordinates are good
};

// Put a block of data into shared memory, as the queries are given, and its weights relative to their reference.
__device__ inline void stage(Staged& staged, const Points& X, const Points& Y, const float* weights, int from,
                             int first_row_block, const Queries& queries) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = lane; j < block; j += 32) {
        const long long column = (long long)from * block + j;
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++) {
            if constexpr (in_double) staged.of[j][k] = coordinate(X, (long long)X.source[column] * DIMENSIONS, k);
            else
                staged.of[j][k] =
                    X.local[column * DIM + k] + (X.centres[from * DIM + k] - Y.centres[first_row_block * DIM + k]);
        }
        staged.of[j][DIMENSIONS] = weight_of(X, weights, column) - Real(queries.alike ? queries.reference[0] : 0.0f);
    }
    __syncwarp();
}

// Pairs of the lane's queries with half of the staged data, from `first` on; all, or those of `bits`.
template <bool alike, bool all>
__device__ inline void add_staged(Sums& sums, const Staged& staged, const Queries& queries, Real scale2, int first,
                                  unsigned bits) {
#pragma unroll 2
    for (int j = first; j < first + 32; j++) {
        Real x[pitch];
        if constexpr (in_double) {
#pragma unroll
            for (int k = 0; k <= DIMENSIONS; k++) x[k] = staged.of[j][k];
        } else {
#pragma unroll
            for (int k = 0; k < pitch; k += 4) {
                const float4 part = *reinterpret_cast<const float4*>(&staged.of[j][k]);
                x[k] = part.x, x[k + 1] = part.y, x[k + 2] = part.z, x[k + 3] = part.w;
            }
        }
#pragma unroll
        for (int r = 0; r < rows_of_lane; r++) {
            if (!all && !(bits >> r & 1)) continue;
            Real apart[DIMENSIONS], square = 0;
#pragma unroll
            for (int k = 0; k < DIMENSIONS; k++) {
                apart[k] = x[k] - queries.at[r][k];
                square = multiply_add(apart[k], apart[k], square);
            }
            if constexpr (in_double) square *= scale2;
            const Real power =
                power_of_2((alike ? x[DIMENSIONS] : x[DIMENSIONS] - Real(queries.reference[r])) - square);
            sums.total[r] += power;
            if constexpr (output == LAPLACE) sums.moment[r][0] = multiply_add(power, square, sums.moment[r][0]);
            if constexpr (output == MOMENTS) {
#pragma unroll
                for (int k = 0; k < DIMENSIONS; k++) sums.moment[r][k] += power * apart[k];
            }
        }
    }
}

// The same from the points themselves.
__device__ inline void add_wide(Sums& sums, Staged& staged, const Points& Y, const Points& X, const float* weights,
                                long long first_row, int from, unsigned near, const Queries& queries, double scale) {
    if constexpr (!in_double) {
#pragma unroll
        for (int j = threadIdx.x % 32; j < block; j += 32) {
            const long long column = (long long)from * block + j, x = (long long)X.source[column] * DIMENSIONS;
#pragma unroll
            for (int k = 0; k < DIMENSIONS; k++) staged.wide[j][k] = coordinate(X, x, k);
            staged.weights[j] = weights[column];
        }
        __syncwarp();
        // One query after the other: registers are few.
#pragma unroll 1
        for (int r = 0; r < rows_of_lane; r++) {
            const bool halves[2] = {bool(near >> r & 1), bool(near >> (row_parts + r) & 1)};
            if (!halves[0] && !halves[1]) continue;
            const long long at = (long long)Y.source[first_row + r * 32] * DIMENSIONS;
            double y[DIMENSIONS];
            Real total = 0, moment[moments] = {};
#pragma unroll
            for (int k = 0; k < DIMENSIONS; k++) y[k] = coordinate(Y, at, k);
            float reference = queries.reference[0];
#pragma unroll
            for (int i = 1; i < rows_of_lane; i++) reference = i == r ? queries.reference[i] : reference;
#pragma unroll 4
            for (int j = halves[0] ? 0 : 32; j < (halves[1] ? block : 32); j++) {
                double square = 0, apart[DIMENSIONS];
#pragma unroll
                for (int k = 0; k < DIMENSIONS; k++) {
                    apart[k] = (staged.wide[j][k] - y[k]) * scale;
                    square = fma(apart[k], apart[k], square);
                }
                const float power = exp2_approx(float(double(staged.weights[j]) - double(reference) - square));
                total += power;
                if constexpr (output == LAPLACE) moment[0] = fmaf(power, float(square), moment[0]);
                if constexpr (output == MOMENTS) {
#pragma unroll
                    for (int k = 0; k < DIMENSIONS; k++) moment[k] += power * float(apart[k]);
                }
            }
#pragma unroll
            for (int i = 0; i < rows_of_lane; i++) {
                if (i != r) continue;
                sums.total[i] += total;
#pragma unroll
                for (int k = 0; k < moments; k++) sums.moment[i][k] += moment[k];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
    KERNEL(const void* __restrict__ Y_given, const int* __restrict__ Y_source, const float* __restrict__ Y_local,
           const float* __restrict__ Y_centres, const float* __restrict__ Y_reach, const float* __restrict__ Y_low,
           const float* __restrict__ Y_high, const float* __restrict__ Y_parts,
           const unsigned char* __restrict__ Y_kinds, const float* __restrict__ reference,
           const float* __restrict__ extent, const float2* __restrict__ threshold, const void* __restrict__ X_given,
           const int* __restrict__ X_source, const float* __restrict__ X_local, const float* __restrict__ X_centres,
           const float* __restrict__ X_reach, const float* __restrict__ X_low, const float* __restrict__ X_high,
           const float* __restrict__ X_weights, const float* __restrict__ X_parts,
           const unsigned char* __restrict__ X_kinds, const float* __restrict__ most,
           const double* __restrict__ log_weights, Real* __restrict__ S, Real* __restrict__ T,
           unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int query_blocks,
           int data_blocks, int row_items, int groups, int span, int box_axes, int in_doubles, int rest, double at_zero,
           double scale) {
    __shared__ Staged staged_of_warp[threads / 32];
    Staged& staged = staged_of_warp[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Points Y = {Y_given, bool(in_doubles), Y_source, Y_local, Y_centres, Y_reach, {Y_low, Y_high, query_blocks}};
    const Points X = {X_given,    bool(in_doubles), X_source, X_local, X_centres, X_reach, {X_low, X_high, data_blocks},
                      log_weights};
    const Boxes parts_of_Y = boxes_of_parts(Y_parts, query_blocks, box_axes),
                parts_of_X = boxes_of_parts(X_parts, data_blocks, box_axes);
    const unsigned long long items = (unsigned long long)row_items * groups;
    const long long T_rows = (long long)query_blocks * block;
    unsigned long long units = 0;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int row_item = int(item % row_items);
        const int first = row_item * blocks_of_item;
        const int begin = int(item / row_items) * span, end = begin + span < data_blocks ? begin + span : data_blocks;
        const int second = first + 1 < query_blocks ? first + 1 : first;
        const float2 least = threshold[row_item];
        const bool served = rest && products_serve(Y_kinds, extent, first, query_blocks);
        const float lowest = fminf(extent[2 * first], extent[2 * second]);
        const float largest = fmaxf(extent[2 * first + 1], extent[2 * second + 1]);
        const long long first_row = (long long)first * block + lane;

        Queries queries;
        float offset = 0;
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++)
            offset = fmaxf(offset, fabsf(Y_centres[second * DIM + k] - Y_centres[first * DIM + k]));
        queries.narrow = fmaxf(Y_reach[first], Y_reach[second] + offset) <= float_reach;
        queries.alike = largest - lowest <= most_extent;
        int rows = 0;  // of the lane that there are
#pragma unroll
        for (int r = 0; r < rows_of_lane; r++) {
            const int own_block = r < 2 ? first : second;
            const bool exists = r < 2 || second > first;
            const long long row = exists ? first_row + r * 32 : first_row;
            rows += exists;
#pragma unroll
            for (int k = 0; k < DIMENSIONS; k++) {
                if constexpr (in_double) queries.at[r][k] = coordinate(Y, (long long)Y_source[row] * DIMENSIONS, k);
                else
                    queries.at[r][k] =
                        Y_local[row * DIM + k] + (Y_centres[own_block * DIM + k] - Y_centres[first * DIM + k]);
            }
            queries.reference[r] = queries.alike ? largest : reference[row];
        }
        Sums sums;
        sums.clear();
        const auto flush = [&] {
#pragma unroll
            for (int r = 0; r < rows_of_lane; r++) {
                if (r >= rows) continue;
                const long long row = first_row + r * 32;
                const Real excess = Real(queries.reference[r]) - Real(reference[row]);
                const Real factor = excess > -1000 ? power_of_2(excess) : Real(0);
                add_to(S + row, sums.total[r] * factor);
                if constexpr (output == LAPLACE)
                    add_to(T + row, corrected(sums.total[r], sums.moment[r][0], Real(at_zero)) * factor);
                if constexpr (output == MOMENTS) {
#pragma unroll
                    for (int k = 0; k < DIMENSIONS; k++) add_to(T + k * T_rows + row, sums.moment[r][k] * factor);
                }
            }
            sums.clear();
        };

        int taken = 0;
#pragma unroll 1
        for (int base = begin; base < end; base += 32) {
            const int b = base + lane;
            unsigned near_lane = 0;
            if (b < end && !(served && X_kinds[b]) &&
                most[b] - box_distance(X.boxes, b, Y.boxes, first, blocks_of_item, box_axes) >= least.x)
#pragma unroll 1
                for (int half = 0; half < 2; half++)
                    near_lane |=
                        near_parts<row_parts>(parts_of_X, 2 * b + half, parts_of_Y, first, box_axes, most[b], least.y)
                        << (half * row_parts);
            unsigned votes = __ballot_sync(~0u, near_lane != 0);
#pragma unroll 1
            while (votes) {
                const int taken_lane = __ffs(votes) - 1, from = base + taken_lane;
                const unsigned near = __shfl_sync(~0u, near_lane, taken_lane);
                votes &= votes - 1;
                units += 2 * __popc(near);
                if (in_double || (queries.narrow && X_reach[from] <= float_reach)) {
                    stage(staged, X, Y, X_weights, from, first, queries);
                    const Real scale2 = Real(scale * scale);
#pragma unroll 1
                    for (int half = 0; half < 2; half++) {
                        const unsigned bits = near >> (half * row_parts) & all_parts;
                        if (!bits) continue;
                        if (!queries.alike) add_staged<false, false>(sums, staged, queries, scale2, half * 32, bits);
                        else if (bits != all_parts)
                            add_staged<true, false>(sums, staged, queries, scale2, half * 32, bits);
                        else add_staged<true, true>(sums, staged, queries, scale2, half * 32, bits);
                    }
                } else {
                    add_wide(sums, staged, Y, X, X_weights, first_row, from, near, queries, scale);
                }
                __syncwarp();
                if (++taken % blocks_of_sum == 0) flush();
            }
        }
        if (taken % blocks_of_sum) flush();
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
