// Sums over the pairs of one data set that can matter, without weights, each pair once: screening in float16, and products
// of matrices for both points of a pair.
//
//   S_i = 2^13 sum_j 2^e_ij,   T_i = 2^14 sum_j 2^e_ij z_j   over j != i, e_ij = -|z_i - z_j|^2
//
// Only pairs of common blocks (skipping_points.cu), z about their centre; others are left to skipping_units.cu.
//
//   halves, norms, kinds, chunks, low, high   of skipping_points.cu
//   limits, always, threshold, extent         of skipping_limits.cu; `below` as there
//   S, T        (rows,), (rows, DIM)  float   zero before; skipping_own.cu makes of them what skipping_units.cu adds to
//   next, kept                                as in skipping_units.cu; a unit counts for both its sides
//   row_items, groups, span                   items are 128 rows by `span` blocks, from the rows' own on
//
// A pair counts if its exponent reaches the threshold of either of its points. Limits are those of the rows; blocks of
// columns whose least threshold is lower have a slack, the difference to the largest of the item.
//
// A warp takes an item and waits for no other. Chunks of columns come into a ring of its own in shared memory, so that
// the next two are under way while it works on one. Sums of rows stay in registers until the end of the item, those of
// columns are added to memory chunk by chunk.
//
// Per unit of 16 by 32 pairs: 8 GROUPS / 2 products of 16 x 8 x 16 to screen, 12 GROUPS for exponents and 8 GROUPS + 4 for
// the sums; 512 exponentials, for 1,024 terms.
//
// Dynamic shared memory: a Warp for each warp. No barriers but of a warp. Macros: DIM (8 to 32), GROUPS, ROW_TILES (8).
#if GROUPS == 1
constexpr int rows_at_once = 128;  // sums of so many are in registers
#elif __CUDA_ARCH__ >= 900
constexpr int rows_at_once = 64;
#else  // sums of four neighbours are added to memory one by one, and take more registers
constexpr int rows_at_once = 32;
#endif

#include "skipping_mutual.cuh"
#include "skipping_ring.cuh"

constexpr int factor_tiles = 2 * GROUPS + 1;  // the last of ones

typedef float RowSums[sum_tiles][factor_tiles][4];

// Coordinates as factors: right operands of 16 points. A tile beyond the coordinates is of ones.
template <int count>
__device__ __forceinline__ void factors_of(unsigned (&to)[count][2], const unsigned (*term)[depth / 2], int first) {
#pragma unroll
    for (int q = 0; q < GROUPS; q++) {
        unsigned matrices[4];
        load_matrices_transposed(matrices, by_rows(term, first, q));
        to[2 * q][0] = matrices[0], to[2 * q][1] = matrices[1];
        to[2 * q + 1][0] = matrices[2], to[2 * q + 1][1] = matrices[3];
    }
    if constexpr (count > 2 * GROUPS) to[count - 1][0] = to[count - 1][1] = ones;
}

// Units of a chunk. `at` is where it stands from the sweep's first row on. Inside the item every pair is taken from both
// sides, and the chunk's columns get no sums.
template <bool coarse, bool inside>
__device__ __forceinline__ void add_chunk(RowSums& row_sums, const RowPoints& rows, const Chunk& chunk, unsigned bits,
                                          int at, float* S, float* T, long long first_column) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    Columns<coarse> columns;
    columns.load(chunk);
    unsigned factors[2][factor_tiles][2];
#pragma unroll
    for (int f = 0; f < 2; f++) factors_of(factors[f], chunk.hi, f * 16);
    float column_sums[2][factor_tiles][4];
    clear(column_sums);
    for_each_tile<(GROUPS > 1 ? 1 : 2)>(bits, [&](int m) {
        float e[4][4];
        exponents<coarse>(e, rows, m, columns, {phi_shift, phi_shift});
        if constexpr (inside) leave_out_own(e, m * 16 - at);
        Phi phi;
        phi_of(phi, e);
        unsigned factors_of_rows[factor_tiles][2];
        factors_of(factors_of_rows, rows.hi, m * 16);
#pragma unroll
        for (int f = 0; f < 2; f++) add_phi(row_sums[m], column_sums[f], phi[f], factors[f], factors_of_rows);
        if constexpr (coarse) {  // what second terms add to the moments
            unsigned second_of_rows[2 * GROUPS][2];
            factors_of(second_of_rows, rows.lo, m * 16);
#pragma unroll
            for (int f = 0; f < 2; f++) {
                unsigned second[2 * GROUPS][2];
                factors_of(second, chunk.lo, f * 16);
                add_phi(row_sums[m], column_sums[f], phi[f], second, second_of_rows);
            }
        }
    });
    if constexpr (inside) return;
#pragma unroll
    for (int f = 0; f < 2; f++)
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int q = 0; q < GROUPS; q++)
                if (q * 16 + 4 * t < DIM)
                    add_global_4(T + (first_column + f * 16 + g + 8 * r) * DIM + q * 16 + 4 * t,
                                 column_sums[f][2 * q][2 * r], column_sums[f][2 * q][2 * r + 1],
                                 column_sums[f][2 * q + 1][2 * r], column_sums[f][2 * q + 1][2 * r + 1]);
    const float of_first = t % 2 ? column_sums[0][2 * GROUPS][2] : column_sums[0][2 * GROUPS][0];
    const float of_second = t % 2 ? column_sums[1][2 * GROUPS][2] : column_sums[1][2 * GROUPS][0];
    add_global(S + first_column + t * 8 + g, t / 2 ? of_second : of_first);
}

// Add the sums of a sweep's rows; T is of twice the coordinates, as for columns.
__device__ inline void give_rows(const RowSums& sums, int tiles, float* S, float* T, long long first_row) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int m = 0; m < sum_tiles; m++) {
        if (m >= tiles) continue;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const long long row = first_row + m * 16 + g + 8 * r;
#pragma unroll
            for (int q = 0; q < GROUPS; q++)
                if (q * 16 + 4 * t < DIM)
                    add_global_4(T + row * DIM + q * 16 + 4 * t, 2 * sums[m][2 * q][2 * r],
                                 2 * sums[m][2 * q][2 * r + 1], 2 * sums[m][2 * q + 1][2 * r],
                                 2 * sums[m][2 * q + 1][2 * r + 1]);
            if (t == 0) add_global(S + row, sums[m][2 * GROUPS][2 * r]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads, 2)
    near_pairs_once(const float* __restrict__ low, const float* __restrict__ high, const float* __restrict__ threshold,
                    const float* __restrict__ extent, const unsigned char* __restrict__ kinds,
                    const unsigned* __restrict__ halves, const unsigned short* __restrict__ norms,
                    const unsigned short* __restrict__ limits, const unsigned char* __restrict__ always,
                    const Chunk* __restrict__ chunks, float* __restrict__ S, float* __restrict__ T,
                    unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int blocks,
                    int row_items, int groups, int span, int box_axes, float below, float shrink) {
    extern __shared__ uint4 memory[];
    Warp& warp = reinterpret_cast<Warp*>(memory)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Boxes boxes = {low, high, blocks};
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int first = int(item % row_items) * blocks_of_item;
        const int begin = max(int(item / row_items) * span, first), end = min(int(item / row_items + 1) * span, blocks);
        if (begin >= end || kinds[first] < common_kind) continue;
        const int blocks_there = min(blocks_of_item, blocks - first);
        float least = threshold[first], largest = extent[2 * first + 1];
        if (blocks_there > 1) {
            least = fminf(least, threshold[first + 1]);
            largest = fmaxf(largest, extent[2 * first + 3]);
        }
        __syncwarp();
        const int count =
            list_blocks(warp.listed, boxes, boxes, nullptr, nullptr, first, begin, end, box_axes,
                        [&](int b) { return kinds[b] < common_kind ? never : fminf(least, threshold[b]); });
        if (!count) continue;
        const unsigned found = screen<true>(warp.listed, count, halves, limits, always,
                                            InRing{halves, norms, reinterpret_cast<Screened*>(warp.ring)}, first,
                                            4 * blocks_there, [&](int b, unsigned& slack) {
                                                // More than the difference, for it and its sums are rounded.
                                                const float bits = fmaxf(0.0f, largest + below - threshold[b]);
                                                const float of_half = -fminf(bits * shrink * shrink * 1.01f, 60000.0f);
                                                slack = pack_f16(of_half, of_half);
                                                return reinterpret_cast<const unsigned*>(always)[b] != 0;
                                            });
        if (!found) continue;
        const int queued = make_queue(warp.queue, warp.listed, count);
        for_each_sweep(warp, chunks, first, blocks_there, [&](int sweep, int first_chunk, int there) {
            RowSums sums;
            clear(sums);
            for_each_chunk(warp, chunks, queued, sweep, [&](const Chunk& chunk, int number, unsigned bits) {
                const bool inside = number / 2 < first + blocks_of_item;
                const int at = (number - first_chunk) * chunk_points;
                const long long column = (long long)number * chunk_points;
                units += __popc(bits) * (inside ? 1 : 2);
                if (inside) add_chunk<true, true>(sums, warp.rows, chunk, bits, at, S, T, column);
                else if (kinds[first] == fine_kind && kinds[number / 2] == fine_kind)
                    add_chunk<false, false>(sums, warp.rows, chunk, bits, at, S, T, column);
                else add_chunk<true, false>(sums, warp.rows, chunk, bits, at, S, T, column);
            });
            give_rows(sums, there * (chunk_points / 16), S, T, (long long)first_chunk * chunk_points);
        });
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
