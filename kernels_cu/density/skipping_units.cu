// Sums over the pairs that can matter, found in three steps: boxes of blocks, one product in float16 a pair, and the sums
// themselves by differences.
//
//   e_ij = log2 w_j - |z_i - z_j|^2, relative to the query's reference b_i
//   S_i = sum_j 2^(e_ij - b_i) (constant - slope |z_i - z_j|^2)
//   T_i = sum_j 2^(e_ij - b_i) (z_j - z_i)       output MOMENTS; with REAL double in the units of the data
//
//   Y_..., X_...   queries and data as skipping_points.cu orders them
//   limits, always, reference, threshold          of skipping_bounds.cu
//   S, T           (rows,), (rows, DIM)  REAL     zero before
//   next           (1,)    unsigned long long     zero before: items that warps have taken
//   kept           (1,)    unsigned long long     zero before: units that were summed
//   row_items, groups, spans, span                items are 16 ROW_TILES queries by `spans` times `span` blocks of data
//
// A warp takes an item at a time and waits for no other. It lists the blocks of data whose boxes are near enough to the
// box of its queries; multiplies, for each of them, 16 x 8 tiles in float16 and keeps one bit for each unit of 16 queries
// by 32 data, whether any pair reaches its limit; and sums the units that are left, a query to two lanes, each with half
// of the data. Near pairs are summed from differences of coordinates about the blocks' centres, in float; where a block
// is so wide that these are rounded too much, and with REAL double, from differences of the points themselves in double.
//
// Per pair: 2 GROUPS instructions in 16 x 8 tiles of 128 pairs; for each pair of a unit 3 DIM and about 10.
//
// No barriers but of a warp. Macros: KERNEL, OUTPUT, REAL, DIM, GROUPS, ROW_TILES (4 or 8).
#include "skipping.cuh"

constexpr int threads = 128;
constexpr int row_tiles = ROW_TILES;
constexpr int blocks_of_item = row_tiles / 4;
constexpr int most_listed = 128;  // blocks of data: a span is at most so long

// Moments of so many columns at a time; the pairs are taken again for others.
constexpr int moment_columns = output != MOMENTS ? 1 : in_double ? (DIM < 16 ? DIM : 16) : (DIM < 64 ? DIM : 32);
constexpr int sweeps = output != MOMENTS ? 1 : DIM / moment_columns;
constexpr bool keeps_differences = DIM <= 32 && !in_double;
constexpr int columns_at_once = DIM <= 16 ? 2 : 1;
constexpr int blocks_at_once = DIM <= 16 ? 3 : 2;

struct Listed {
    unsigned blocks[most_listed];
    unsigned masks[most_listed];
};

__device__ inline unsigned any_bit(unsigned bits) {
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(~0u, bits);
#else
#pragma unroll
    for (int step = 16; step > 0; step /= 2) bits |= __shfl_xor_sync(~0u, bits, step);
    return bits;
#endif
}

// Blocks of data that can matter to the item's queries; returns their number.
__device__ inline int list_blocks(Listed& listed, const Points& X, const Points& Y, const float* most,
                                  float least_threshold, int first_row_block, int begin, int end, int box_axes) {
    const int lane = threadIdx.x % 32;
    int count = 0;
    for (int base = begin; base < end; base += 32) {
        const int b = base + lane;
        bool near = false;
        if (b < end) near = most[b] - box_distance(X, b, Y, first_row_block, blocks_of_item, box_axes) >= least_threshold;
        const unsigned votes = __ballot_sync(~0u, near);
        if (near) listed.blocks[count + __popc(votes & ((1u << lane) - 1))] = b;
        count += __popc(votes);
    }
    __syncwarp();
    return count;
}

// For each listed block a bit for each unit: bit row_tiles * half + row tile. Returns the number of bits.
__device__ inline unsigned screen(Listed& listed, int count, const unsigned* Y_halves, const unsigned short* limits,
                                  const unsigned char* always, const unsigned* X_halves, const unsigned short* norms,
                                  int first_row_block, int tiles) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    unsigned a[row_tiles][GROUPS][4], limit[row_tiles][2], sure = 0;
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        const int tile = first_row_block * 4 + (m < tiles ? m : 0);
#pragma unroll
        for (int q = 0; q < GROUPS; q++) {
            const uint4 f = *reinterpret_cast<const uint4*>(Y_halves + (((long long)tile * GROUPS + q) * 32 + lane) * 4);
            a[m][q][0] = f.x;
            a[m][q][1] = f.z;
            a[m][q][2] = f.y;
            a[m][q][3] = f.w;
        }
        limit[m][0] = limits[tile * 16LL + g] * 0x10001u;
        limit[m][1] = limits[tile * 16LL + g + 8] * 0x10001u;
        if (m < tiles && always[tile]) sure |= ((1u << row_tiles) + 1) << m;
    }
    const unsigned there = ((1u << tiles) - 1) * ((1u << row_tiles) + 1);
    unsigned kept = 0;
#pragma unroll 1
    for (int p = 0; p < count; p++) {
        const long long from = listed.blocks[p];
        unsigned bits = 0;
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            unsigned largest[row_tiles][2];
#pragma unroll
            for (int n16 = 0; n16 < 2; n16++) {
                const long long columns = from * 4 + half * 2 + n16;
                uint4 b[GROUPS];
#pragma unroll
                for (int q = 0; q < GROUPS; q++)
                    b[q] = *reinterpret_cast<const uint4*>(X_halves + ((columns * GROUPS + q) * 32 + lane) * 4);
                const uint2 n0 = *reinterpret_cast<const uint2*>(norms + (columns * 8 + t) * 4);
                const uint2 n1 = *reinterpret_cast<const uint2*>(norms + (columns * 8 + 4 + t) * 4);
#pragma unroll
                for (int m = 0; m < row_tiles; m++) {
                    unsigned left[2], right[2];
                    mma_f16_in_f16(left, a[m][0], b[0].x, b[0].y, n0.x, n0.y);
                    mma_f16_in_f16(right, a[m][0], b[0].z, b[0].w, n1.x, n1.y);
#pragma unroll
                    for (int q = 1; q < GROUPS; q++) {
                        mma_f16_in_f16(left, a[m][q], b[q].x, b[q].y, left[0], left[1]);
                        mma_f16_in_f16(right, a[m][q], b[q].z, b[q].w, right[0], right[1]);
                    }
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const unsigned both = larger_f16x2(left[r], right[r]);
                        largest[m][r] = n16 ? larger_f16x2(largest[m][r], both) : both;
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < row_tiles; m++) {
                const unsigned over = larger_f16x2(subtract_f16x2(largest[m][0], limit[m][0]),
                                                   subtract_f16x2(largest[m][1], limit[m][1]));
                if ((over & 0x80008000u) != 0x80008000u) bits |= 1u << (half * row_tiles + m);
            }
        }
        if (__any_sync(~0u, bits)) bits = any_bit(bits);
        bits = (bits | sure) & there;
        if (lane == 0) listed.masks[p] = bits;
        kept += __popc(bits);
    }
    __syncwarp();
    return kept;
}

// Sums of a query, which two lanes share.
struct Sums {
    Real total;
    Real moments[moment_columns];

    __device__ void clear() {
        total = 0;
#pragma unroll
        for (int k = 0; k < moment_columns; k++) moments[k] = 0;
    }
};

__device__ inline void four(float (&to)[4], const float* from) {
    const float4 f = *reinterpret_cast<const float4*>(from);
    to[0] = f.x, to[1] = f.y, to[2] = f.z, to[3] = f.w;
}

// Add 16 data of a block from `column` on, from coordinates about the centre of their block.
__device__ inline void add_local(Sums& sums, const Points& Y, const Points& X, const float* weights, long long row,
                                 long long column, float reference, Factor factor, int first_moment) {
    float y[DIM];
#pragma unroll
    for (int k = 0; k < DIM; k += 4) {
        float own[4], here[4], there[4];
        four(own, Y.local + row * DIM + k);
        four(here, Y.centres + row / block * DIM + k);
        four(there, X.centres + column / block * DIM + k);
#pragma unroll
        for (int e = 0; e < 4; e++) y[k + e] = own[e] + (here[e] - there[e]);
    }
    float total_here = 0;
#pragma unroll 1
    for (int c = 0; c < 16; c += columns_at_once) {
        float difference[keeps_differences ? columns_at_once : 1][keeps_differences ? DIM : 1];
        float square[columns_at_once][2] = {};
#pragma unroll
        for (int u = 0; u < columns_at_once; u++)
#pragma unroll
            for (int k = 0; k < DIM; k += 4) {
                float x[4];
                if (DIM > 16 && k % 16 == 0) keep_order();  // or loads of all coordinates come first, and registers spill
                four(x, X.local + (column + c + u) * DIM + k);
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float apart = x[e] - y[k + e];
                    square[u][e % 2] = fmaf(apart, apart, square[u][e % 2]);
                    if constexpr (keeps_differences) difference[u][k + e] = apart;
                }
            }
#pragma unroll
        for (int u = 0; u < columns_at_once; u++) {
            const float r2 = square[u][0] + square[u][1];
            const float power = exp2_approx((weights[column + c + u] - reference) - r2);
            sums.total = fmaf(power, output == SUM ? fmaf(-factor.slope, r2, factor.constant) : 1.0f, sums.total);
            if constexpr (output == MOMENTS && keeps_differences) {
#pragma unroll
                for (int k = 0; k < moment_columns; k++)
                    sums.moments[k] = fmaf(power, difference[u][k], sums.moments[k]);
            } else if constexpr (output == MOMENTS) {
                // About the centre of the block of data; what that makes is taken away below.
                total_here += power;
                const float* const from = X.local + (column + c + u) * DIM + first_moment;
#pragma unroll
                for (int k = 0; k < moment_columns; k += 4) {
                    float x[4];
                    if (k % 16 == 0) keep_order();
                    four(x, from + k);
#pragma unroll
                    for (int e = 0; e < 4; e++) sums.moments[k + e] = fmaf(power, x[e], sums.moments[k + e]);
                }
            }
        }
    }
    if constexpr (output == MOMENTS && !keeps_differences) {
#pragma unroll
        for (int k = 0; k < moment_columns; k += 4) {
            float own[4], here[4], there[4];
            four(own, Y.local + row * DIM + first_moment + k);
            four(here, Y.centres + row / block * DIM + first_moment + k);
            four(there, X.centres + column / block * DIM + first_moment + k);
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums.moments[k + e] = fmaf(-total_here, own[e] + (here[e] - there[e]), sums.moments[k + e]);
        }
    }
}

// The same from the points themselves, in double.
__device__ inline void add_exact(Sums& sums, const Points& Y, const Points& X, const float* weights, long long row,
                                 long long column, float reference, Factor factor, int first_moment, int d, double scale) {
    const long long own = (long long)Y.source[row] * d;
    double y[in_double ? DIM : 1];
    if constexpr (in_double) {
#pragma unroll
        for (int k = 0; k < DIM; k++) y[k] = k < d ? coordinate(Y, own, k) : 0.0;
    }
#pragma unroll 1
    for (int c = 0; c < 16; c++) {
        const long long x = (long long)X.source[column + c] * d;
        double square = 0;
        if constexpr (in_double) {
#pragma unroll
            for (int k = 0; k < DIM; k++) {
                const double apart = k < d ? coordinate(X, x, k) - y[k] : 0.0;
                square = fma(apart, apart, square);
            }
            square *= scale * scale;
        } else {
            square = exact_square(X, x, Y, own, d, scale);
        }
        const double e = double(weights[column + c]) - double(reference) - square;
        const Real power = power_of_2(Real(e));
        sums.total += power * (output == SUM ? Real(factor.constant - factor.slope * square) : Real(1));
        if constexpr (output == MOMENTS) {
#pragma unroll
            for (int k = 0; k < moment_columns; k++) {
                const int at = first_moment + k;
                if (at >= d) continue;
                const double apart = coordinate(X, x, at) - coordinate(Y, own, at);
                sums.moments[k] += power * Real(in_double ? apart : apart * scale);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
KERNEL(const void* __restrict__ Y_given, const int* __restrict__ Y_source, const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
       const float* __restrict__ Y_reach, const float* __restrict__ Y_low, const float* __restrict__ Y_high,
       const unsigned* __restrict__ Y_halves, const unsigned short* __restrict__ limits,
       const unsigned char* __restrict__ always, const float* __restrict__ reference, const float* __restrict__ threshold,
       const void* __restrict__ X_given, const int* __restrict__ X_source, const float* __restrict__ X_local, const float* __restrict__ X_centres,
       const float* __restrict__ X_reach, const float* __restrict__ X_low, const float* __restrict__ X_high,
       const float* __restrict__ X_weights, const float* __restrict__ most, const unsigned* __restrict__ X_halves,
       const unsigned short* __restrict__ norms, Real* __restrict__ S, Real* __restrict__ T,
       unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int query_blocks, int data_blocks,
       int row_items, int groups, int spans, int span, int d, int box_axes, int in_doubles, double constant, double slope,
       double scale) {
    __shared__ Listed listed_of_warp[threads / 32];
    Listed& listed = listed_of_warp[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Points Y = {Y_given, bool(in_doubles), Y_source, Y_local, Y_centres, Y_reach, Y_low, Y_high, query_blocks};
    const Points X = {X_given, bool(in_doubles), X_source, X_local, X_centres, X_reach, X_low, X_high, data_blocks};
    const Factor factor = {Real(constant), Real(slope)};
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        unsigned long long item = 0;
        if (lane == 0) item = atomicAdd(next, 1ULL);
        item = __shfl_sync(~0u, item, 0);
        if (item >= items) break;
        const int first_row_block = int(item % row_items) * blocks_of_item;
        const int blocks_there = min(blocks_of_item, query_blocks - first_row_block);
        float least = threshold[first_row_block];
        if (blocks_there > 1) least = fminf(least, threshold[first_row_block + 1]);
#pragma unroll 1
        for (int part = 0; part < spans; part++) {
        const int begin = (int(item / row_items) * spans + part) * span;
        const int end = begin + span < data_blocks ? begin + span : data_blocks;
        __syncwarp();
        const int count = list_blocks(listed, X, Y, most, least, first_row_block, begin, end, box_axes);
        if (!count) continue;
        const unsigned found =
            screen(listed, count, Y_halves, limits, always, X_halves, norms, first_row_block, 4 * blocks_there);
        if (!found) continue;
        units += found;

#pragma unroll 1
        for (int m = 0; m < 4 * blocks_there; m++) {
            const long long row = first_row_block * 64LL + m * 16 + lane % 16;
            const bool wide_row = Y_reach[row / block] > float_reach;
            const float own_reference = reference[row];
#pragma unroll 1
            for (int sweep = 0; sweep < sweeps; sweep++) {
                const int first_moment = sweep * moment_columns;
                Sums sums;
                sums.clear();
                bool some = false;
#pragma unroll 1
                for (int base = 0; base < count; base += 32) {
                    const unsigned mask = base + lane < count ? listed.masks[base + lane] >> m : 0;
#pragma unroll 1
                    for (int half = 0; half < 2; half++) {
                        unsigned votes = __ballot_sync(~0u, mask >> (half * row_tiles) & 1);
                        some |= votes != 0;
                        while (votes) {
                            const int p = base + __ffs(votes) - 1;
                            votes &= votes - 1;
                            const long long from = listed.blocks[p];
                            const long long column = from * block + half * 32 + lane / 16 * 16;
                            if (in_double || wide_row || X_reach[from] > float_reach)
                                add_exact(sums, Y, X, X_weights, row, column, own_reference, factor, first_moment, d, scale);
                            else if constexpr (!in_double)
                                add_local(sums, Y, X, X_weights, row, column, own_reference, factor, first_moment);
                        }
                    }
                }
                if (!some) continue;
                sums.total += __shfl_xor_sync(~0u, sums.total, 16);
                if (lane < 16 && sweep == 0) add_to(S + row, sums.total);
                if constexpr (output == MOMENTS) {
#pragma unroll
                    for (int k = 0; k < moment_columns; k++) {
                        const Real both = sums.moments[k] + __shfl_xor_sync(~0u, sums.moments[k], 16);
                        if (k % 2 == lane / 16 && first_moment + k < d) add_to(T + row * DIM + first_moment + k, both);
                    }
                }
            }
        }
        }
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
