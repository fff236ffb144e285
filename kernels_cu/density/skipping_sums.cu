// Sums of queries over the pairs that can matter, of common blocks (skipping_points.cu): screening in float16, and products
// of matrices. Other pairs are left to skipping_units.cu, where the sums and the arrays are described.
//
//   S_i = sum_j 2^(e_ij - b_i)
//   T_i = sum_j 2^(e_ij - b_i) (at_zero - ln 2 |z_i - z_j|^2)    output LAPLACE, without weights; at_zero = 1 + d/2
//
//   Y_chunks, X_chunks   of skipping_points.cu, as are the other arrays of queries and data
//   Y_weights            those that norms of the queries have, where they are the data; or null
//   row_items, groups, spans, span   items are 128 queries by `spans` times `span` blocks of data
//
// A warp takes an item and waits for no other; skipping_ring.cuh says how chunks of data come to it.
//
// Per unit of 16 by 32 pairs: 4 GROUPS products of 16 x 8 x 16 to screen, 12 GROUPS for exponents; 512 exponentials.
//
// Dynamic shared memory: a Warp for each warp. No barriers but of a warp. Macros: KERNEL, OUTPUT (SUM or LAPLACE),
// GROUPS (1 or 2), ROW_TILES (8).
constexpr int rows_at_once = GROUPS == 1 ? 128 : 64;  // are in shared memory

#include "skipping_output.cuh"
#include "skipping_ring.cuh"

#if __CUDA_ARCH__ < 1000
constexpr int blocks_at_once = GROUPS == 1 ? 3 : 2;
#else  // compilers for others need more registers
constexpr int blocks_at_once = 2;
#endif

// Sums of the lane's rows, g and g + 8 of each tile: of 2^e, and of LAPLACE those times e.
struct Sums {
    float total[sum_tiles][2], bits[output == LAPLACE ? sum_tiles : 1][2];
};

// Units of a chunk.
template <bool coarse>
__device__ __forceinline__ void add_chunk(Sums& sums, const RowPoints& rows, const Chunk& chunk, unsigned bits) {
    Columns<coarse> columns;
    columns.load(chunk);
    for_each_tile<2>(bits, [&](int m) {
        float e[4][4];
        exponents<coarse>(e, rows, m, columns, {0, 0});
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float power = exp2_approx(e[j][i]);
                sums.total[m][i / 2] += power;
                if constexpr (output == LAPLACE) sums.bits[m][i / 2] = fmaf(power, e[j][i], sums.bits[m][i / 2]);
            }
    });
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
    KERNEL(const float* __restrict__ Y_low, const float* __restrict__ Y_high, const unsigned char* __restrict__ Y_kinds,
           const unsigned* __restrict__ Y_halves, const Chunk* __restrict__ Y_chunks,
           const float* __restrict__ Y_weights, const unsigned short* __restrict__ limits,
           const unsigned char* __restrict__ always, const float* __restrict__ reference,
           const float* __restrict__ threshold, const float* __restrict__ X_low, const float* __restrict__ X_high,
           const unsigned char* __restrict__ X_kinds, const float* __restrict__ most,
           const unsigned* __restrict__ X_halves, const unsigned short* __restrict__ norms,
           const Chunk* __restrict__ X_chunks, float* __restrict__ S, float* __restrict__ T,
           unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int query_blocks,
           int data_blocks, int row_items, int groups, int spans, int span, int box_axes, float at_zero) {
    extern __shared__ uint4 memory[];
    Warp& warp = reinterpret_cast<Warp*>(memory)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const Boxes Y = {Y_low, Y_high, query_blocks}, X = {X_low, X_high, data_blocks};
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int first = int(item % row_items) * blocks_of_item;
        if (Y_kinds[first] < common_kind) continue;
        const int blocks_there = min(blocks_of_item, query_blocks - first);
        float least = threshold[first];
        if (blocks_there > 1) least = fminf(least, threshold[first + 1]);
#pragma unroll 1
        for (int part = 0; part < spans; part++) {
            const int begin = (int(item / row_items) * spans + part) * span, end = min(begin + span, data_blocks);
            __syncwarp();
            const int count = list_blocks(warp.listed, X, Y, most, nullptr, first, begin, end, box_axes,
                                          [&](int b) { return X_kinds[b] < common_kind ? never : least; });
            if (!count) continue;
            const unsigned found = screen<false>(warp.listed, count, Y_halves, limits, always,
                                                 InRing{X_halves, norms, reinterpret_cast<Screened*>(warp.ring)}, first,
                                                 4 * blocks_there, 0);
            if (!found) continue;
            units += found;
            const int queued = make_queue(warp.queue, warp.listed, count);
            for_each_sweep(warp, Y_chunks, first, blocks_there, [&](int sweep, int first_chunk, int there) {
                const long long first_row = (long long)first_chunk * chunk_points;
                // Exponents are relative to the reference, and without the query's own weight.
                for (int r = lane; r < there * chunk_points; r += 32)
                    warp.rows.norms[r].y -= reference[first_row + r] + (Y_weights ? Y_weights[first_row + r] : 0.0f);
                Sums sums = {};
                for_each_chunk(warp, X_chunks, queued, sweep, [&](const Chunk& chunk, int number, unsigned bits) {
                    if (Y_kinds[first] == fine_kind && X_kinds[number / 2] == fine_kind)
                        add_chunk<false>(sums, warp.rows, chunk, bits);
                    else add_chunk<true>(sums, warp.rows, chunk, bits);
                });
#pragma unroll
                for (int m = 0; m < sum_tiles; m++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const float total = sum_over_lanes<4>(sums.total[m][r]);
                        const bool some = m * 16 < there * chunk_points && total != 0;
                        const long long row = first_row + m * 16 + g + 8 * r;
                        if (t == 0 && some) add_global(S + row, total);
                        if constexpr (output == LAPLACE) {
                            const float bits = sum_over_lanes<4>(sums.bits[m][r]);
                            if (t == 1 && some)
                                add_global(T + row, corrected_by_bits(total, bits, reference[row], at_zero));
                        }
                    }
            });
        }
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
