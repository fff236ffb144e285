// Sums over the pairs that can matter, found in three steps: boxes of blocks, one product in float16 a pair, and the sums
// themselves by differences.
//
//   e_ij = log2 w_j - |z_i - z_j|^2, relative to the query's reference b_i
//   S_i = sum_j 2^(e_ij - b_i)
//   T_i = sum_j 2^(e_ij - b_i) (z_j - z_i)       output MOMENTS
//   T_i = sum_j 2^(e_ij - b_i) (at_zero - ln 2 |z_i - z_j|^2)    output LAPLACE, at_zero = 1 + d/2
//
//   Y_..., X_...   queries and data as skipping_points.cu orders them
//   limits, always, reference, threshold          of skipping_limits.cu
//   Y_weights      (rows,)         float          those of the queries, where they are the data; or null
//   row_list       (row_items,)    int            items that there are; null: all
//   columns        (columns_there,) int           blocks of data that there are, for common queries alone; null: all, for
//                                                 any. With these lists other kernels take pairs of two common blocks
//   S, T           (rows,), (rows, DIM)  REAL     zero before; T of LAPLACE (rows,), of SUM null
//   next           (2,)    unsigned long long     the first item, and the step from an item to the next (take_item)
//   kept           (1,)    unsigned long long     zero before: units that were summed
//   row_items, groups, spans, span                items are 16 ROW_TILES queries by `spans` times `span` blocks of data
//
// A warp takes an item at a time and waits for no other. It lists the blocks of data whose boxes are near enough to the
// box of its queries; multiplies, for each of them, 16 x 8 tiles in float16 and keeps one bit for each unit of 16 queries
// by 32 data, whether any pair reaches its limit; takes distances to the blocks' centres for queries of which float16 tells
// nothing; and sums the units that are left:
//
//   of blocks that are not wide, by products of two float16 terms of the coordinates about the blocks' centres
//   (skipping_products.cuh);
//   of others from differences of coordinates about the blocks' centres, in float, a query to two lanes;
//   of blocks so wide that such coordinates are rounded too much, and with REAL double, from the points themselves, in double
//
// Products are for REAL float (`products`): of output SUM, of LAPLACE without weights, and of MOMENTS where no reference is
// needed.
//
// Per pair: GROUPS / 64 products of 16 x 8 x 16 to screen, 4 GROUPS / 128 and an exponential where it is summed.
//
// No barriers but of a warp. Macros: KERNEL, OUTPUT, REAL (double of SUM alone), REAL_BITS, DIM, GROUPS,
// ROW_TILES (4 or 8), MOST_SQUARE.
#include "skipping_chunks.cuh"
#include "skipping_differences.cuh"
#include "skipping_far.cuh"
#include "skipping_screen.cuh"
#if REAL_BITS == 32
#include "skipping_products.cuh"
#endif

constexpr bool has_lists = DIM <= 32;  // of more dimensions all pairs are taken here

#if REAL_BITS == 32
// Bits: the exponents of queries with lower bounds are larger than what products add up exactly.
constexpr float far = -2048;

__device__ inline float lowest_of(const float* reference, int first_block, int blocks_there) {
    float lowest = 0;
    for (int r = threadIdx.x % 32; r < blocks_there * block; r += 32)
        lowest = fminf(lowest, reference[(long long)first_block * block + r]);
    return least_over_lanes<32>(lowest);
}
#endif

extern "C" __global__ void __launch_bounds__(threads, 2)
    KERNEL(const void* __restrict__ Y_given, const int* __restrict__ Y_source, const float* __restrict__ Y_local,
           const float* __restrict__ Y_centres, const float* __restrict__ Y_reach, const float* __restrict__ Y_low,
           const float* __restrict__ Y_high, const unsigned* __restrict__ Y_halves,
           const unsigned short* __restrict__ limits, const unsigned char* __restrict__ always,
           const float* __restrict__ reference, const float* __restrict__ threshold, const void* __restrict__ X_given,
           const int* __restrict__ X_source, const float* __restrict__ X_local, const float* __restrict__ X_centres,
           const float* __restrict__ X_reach, const float* __restrict__ X_low, const float* __restrict__ X_high,
           const float* __restrict__ X_weights, const float* __restrict__ most, const double* __restrict__ log_weights,
           const unsigned* __restrict__ X_halves, const unsigned short* __restrict__ norms,
           const unsigned* __restrict__ Y_first, const unsigned* __restrict__ Y_rest,
           const float* __restrict__ Y_exponents, const float* __restrict__ Y_weights,
           const unsigned char* __restrict__ Y_kinds, const unsigned* __restrict__ X_first,
           const unsigned* __restrict__ X_rest, const unsigned* __restrict__ across,
           const float* __restrict__ X_exponents, const unsigned char* __restrict__ X_kinds,
           const int* __restrict__ row_list, const int* __restrict__ columns, Real* __restrict__ S,
           Real* __restrict__ T, unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept,
           int query_blocks, int data_blocks, int row_items, int groups, int spans, int span, int d, int box_axes,
           int in_doubles, int products, int columns_there, double at_zero, double scale) {
    __shared__ Listed listed_of_warp[threads / 32];
    Listed& listed = listed_of_warp[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Points Y = {Y_given, bool(in_doubles), Y_source, Y_local, Y_centres, Y_reach, {Y_low, Y_high, query_blocks}};
    const Points X = {X_given,    bool(in_doubles), X_source, X_local, X_centres, X_reach, {X_low, X_high, data_blocks},
                      log_weights};
    for (;;) {
        const unsigned item = unsigned(take_item(next));
        if (item >= unsigned(row_items) * groups) break;
        const unsigned group = item / row_items;
        int first_row_block = row_items - 1 - int(item - group * row_items);  // far points come last, and take longest
        if (has_lists && row_list) first_row_block = row_list[first_row_block];
        first_row_block *= blocks_of_item;
        if (has_lists && columns && Y_kinds[first_row_block] < common_kind) continue;
        const int blocks_there = blocks_of_item == 1 ? 1 : min(blocks_of_item, query_blocks - first_row_block);
        float least = threshold[first_row_block];
        if (blocks_there > 1) least = fminf(least, threshold[first_row_block + 1]);
        listed.begin = int(group) * spans * span;
        listed.end = min(listed.begin + spans * span, columns_there);
        for (;;) {
            __syncwarp();
            const int begin = listed.begin, end = min(begin + span, listed.end);
            if (begin >= end) break;
            __syncwarp();
            if (lane == 0) listed.begin = end;
            const int count = list_blocks(listed, X.boxes, Y.boxes, most, has_lists ? columns : nullptr,
                                          first_row_block, begin, end, box_axes, [&](int) { return least; });
            if (!count) continue;
            const auto lies_far = [&](int b, int m) {
                return is_far(Y, X, limits, X_kinds, most, least, first_row_block * 64LL + m * 16, b);
            };
            const unsigned found = screen<false>(listed, count, Y_halves, limits, always, InMemory{X_halves, norms},
                                                 first_row_block, 4 * blocks_there, 0, lies_far);
            if (!found) continue;
            if (lane == 0) atomicAdd(kept, (unsigned long long)found);

#if REAL_BITS == 32
            if (products && lowest_of(reference, first_row_block, blocks_there) >= far) {
                __shared__ float2 of_columns[threads / 32][32];
                const Operands operands = {
                    Y_first,
                    Y_rest,
                    X_first,
                    X_rest,
                    reinterpret_cast<const uint2*>(across),
                    reinterpret_cast<const float2*>(Y_exponents),
                    reinterpret_cast<const float2*>(X_exponents),
                    Y_weights,
                };
#pragma unroll 1
                for (int p = lane; p < count; p += 32) {
                    const int kind = X_kinds[listed.blocks[p]];
                    if (kind)
                        listed.masks[p] |=
                            Y_kinds[first_row_block] >= common_kind && kind >= common_kind ? common_mask : own_mask;
                }
                __syncwarp();
                // Tiles of blocks that are not wide.
                unsigned tight = Y_kinds[first_row_block] ? 15 : 0;
                if (blocks_there > 1 && Y_kinds[first_row_block + 1]) tight |= 15 << 4;
#pragma unroll 1
                for (int m = 0; m < 4 * blocks_there; m += tiles_at_once) {
                    const unsigned allowed = tight >> m & ((1u << tiles_at_once) - 1);
                    if (!allowed) continue;
#pragma unroll 1
                    for (int first_k = 0; first_k < product_sweeps * moment_tiles; first_k += moment_tiles) {
                        Products sums;
                        sums.clear();
                        add_products<false>(sums, listed, count, of_columns[threadIdx.x / 32], Y, X, operands,
                                            reference, first_row_block, m, first_k, allowed);
                        if (Y_kinds[first_row_block] >= common_kind)
                            add_products<true>(sums, listed, count, of_columns[threadIdx.x / 32], Y, X, operands,
                                               reference, first_row_block, m, first_k, allowed);
#pragma unroll
                        for (int i = 0; i < tiles_at_once; i++)
                            if (allowed >> i & 1)
                                finish_products(sums, i, operands, reference, S, T,
                                                first_row_block * 64LL + (m + i) * 16, first_k, d, float(at_zero));
                    }
                }
            }
#endif

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
                        unsigned mask = base + lane < count ? listed.masks[base + lane] >> m : 0;
                        // Kinds are read again here, as a register for the bit would spill.
                        if (products && Y_kinds[row / block] && mask >> (30 - m) & 1) mask = 0;
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
                                    add_exact(sums, Y, X, X_weights, row, column, own_reference, first_moment, d,
                                              scale);
                                else if constexpr (!in_double)
                                    add_local(sums, Y, X, X_weights, row, column, own_reference, first_moment);
                            }
                        }
                    }
                    if (!some) continue;
                    sums.total += __shfl_xor_sync(~0u, sums.total, 16);
                    if (lane < 16 && sweep == 0) add_to(S + row, sums.total);
                    if constexpr (output == LAPLACE) {
                        const Real squares = sums.moments[0] + __shfl_xor_sync(~0u, sums.moments[0], 16);
                        if (lane >= 16) add_to(T + row, corrected(sums.total, squares, Real(at_zero)));
                    }
                    if constexpr (output == MOMENTS) {
#pragma unroll
                        for (int k = 0; k < moment_columns; k++) {
                            const Real both = sums.moments[k] + __shfl_xor_sync(~0u, sums.moments[k], 16);
                            if (k % 2 == lane / 16 && first_moment + k < d)
                                add_to(T + row * DIM + first_moment + k, both);
                        }
                    }
                }
            }
        }
    }
}
