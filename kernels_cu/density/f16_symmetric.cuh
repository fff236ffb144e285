// Sums over all pairs of the data (self-interaction, Y = X), or over the pairs of two blocks of the data, on the tensor
// cores in float16. Each exponential serves both of its rows.
//
//   hi, lo      (rows, DEPTH)    float16   z = (x - centre) sqrt(log2 e) / h = hi + lo, columns in the order of
//                                          column_order.cuh; rows: a multiple of 128, zero past the data
//   norms       (rows,)          float     -|z|^2/2 of the z that is used; -60000 past the data, where 2^norm is 0
//   V_hi, V_lo  (rows, COLUMNS)  bfloat16  values V = V_hi + V_lo of values.cu, if COLUMNS is not 0; same rows, order
//                                          and padding
//   S           (rows,)          float     S_i  += 2^shift sum_{j != i} phi_ij
//   T           (rows, DEPTH)    float     T_ik += 2^shift sum_{j != i} phi_ij hi_jk, or
//               (rows, COLUMNS)            T_ik += 2^shift sum_{j != i} phi_ij V_jk, columns in their own order
//   radius2                      float     scaled squared radius, the largest |z|^2, or null; beyond `limit` the kernel
//                                          does nothing
//   own_rows                     row_count: all pairs of different rows. Less, a multiple of 128: two blocks of data lie
//                                one after the other, and pairs are those of a row below own_rows with a later row
//   chunk                        columns that a block goes through, a multiple of 64
//
//   phi_ij = 2^(z_i . z_j - |z_i|^2/2 - |z_j|^2/2); for j < i it is phi_ji
//   TERMS 3: z_i . z_j = hi_i . hi_j + lo_i . hi_j + hi_i . lo_j;  TERMS 1: hi_i . hi_j
//   SUMS PRODUCT: S sums the same float16 of phi as T, by a matrix product with ones; EXACT: phi itself, lane by lane
//
// A sum is over those j != i that form a pair with i. A point's own term is left out: it is exactly 1 for S and exactly
// hi_i or V_i for T. The epilogues add it (f16_symmetric_finish.cuh, f16_symmetric_finish_values.cuh).
//
// phi is multiplied by the factors hi or V:
//
//   hi  phi is one float16 term; the shift of 13 keeps it a normal number down to 2^-27. With PRODUCT, rounding phi
//       changes T_i - S_i z_i by its share of phi (z_j - z_i); with EXACT, by its share of phi z_j, but then S has only
//       the errors of the exponents.
//   V   phi and V are two bfloat16 terms each, accurate to 2^-17, in four products. They have the range of float, and
//       the shift is 0: T overflows only if the sum does. Below 2^-117 phi loses its lower term, below 2^-126 all of
//       it: that error is at most 2^-125 V_j.
//
// Only pairs with i < j are visited. One block owns `block_rows` rows i and one chunk of columns j. Each of its
// 4 warps keeps `row_tiles` x 16 rows in registers: fragments of hi and lo, and the sums of the rows, which are added to
// S and T once, at the end. Columns pass through shared memory in tiles of 64, four groups of 16; in a step each warp
// works on one group. The 16 x 16 fragment of phi, packed to 16 bits, lies in registers as the left operand of phi times
// factors. Tensor cores truncate: a chunk should have at most 8,192 columns, with values 2,048.
//
// The sums of the columns are added to S and T once for all rows of the block. They are computed in one of two ways:
// passed between warps (f16_symmetric_columns_shuffled.cuh) or from phi in shared memory
// (f16_symmetric_columns_shared.cuh).
//
// Grid: y over pairs of chunks (c, chunks - 1 - c), x over their row blocks, first those of c, then those of the other:
// this folds the upper triangle into a rectangle. For two blocks of data, y over chunks of the second and x over row
// blocks of the first; the last row block may treat some tiles as if they were on the diagonal, which loses nothing,
// because rows from `own_rows` on are not its own. Neighbours in x share their columns, so each begins with another
// tile, and they do not add to the same rows at the same time.
//
// Shared memory: `Shared`, static with SHARED_BYTES 0, else dynamic, up to 99 KiB.
//
// Barriers: one a tile, after the tile has arrived and the work on the one before has ended. If sums are passed between
// warps, one between steps. If phi is shared without OVERLAP, one when phi is complete; with OVERLAP, one more at the
// end. All threads of a block pass all of them.
#pragma once
#if SHARE_PHI
#include "f16_symmetric_columns_shared.cuh"
#else
#include "f16_symmetric_columns_shuffled.cuh"
#endif

extern "C" __global__ void __launch_bounds__(threads, blocks_a_multiprocessor)
KERNEL(const uint4* __restrict__ hi, const uint4* __restrict__ lo, const float* __restrict__ norms,
#if COLUMNS
       const uint4* __restrict__ V_hi, const uint4* __restrict__ V_lo,
#endif
       const float* __restrict__ radius2, float* __restrict__ S, float* __restrict__ T, int row_count, int own_rows,
       int chunk, int share, int shares, float limit) {
#if !SHARED_BYTES
    __shared__ Shared shared;
#else
    extern __shared__ uint4 dynamic_shared[];
    static_assert(sizeof(Shared) <= SHARED_BYTES, "the launcher asks for too little");
    auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
#endif

    if (radius2 && !(*radius2 <= limit)) return;
    const Part own_part = part_of_block(int(blockIdx.x) * shares + share, row_count, own_rows, chunk);
    if (own_part.begin >= own_part.end) return;
    if (threadIdx.x == 0) shared.part = own_part;

#if COLUMNS
    const Operands from = {hi, lo, norms, {V_hi, V_lo}};
#else
    const Operands from = {hi, lo, norms, {hi}};
#endif
    const int warp = threadIdx.x / 32;
    Rows rows;
    load_rows(rows, shared.own, from, own_part.first_row, own_rows);

    const unsigned left = (own_part.end - own_part.begin) / tile;
    walk(rows, shared, from, S, T, left, own_part.begin + int(blockIdx.x * 11 % left) * tile);

    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        const int first = shared.part.first_row + (warp * row_tiles + m) * 16;
        float sum[2] = {rows.sum[m][0], rows.sum[m][sum_by_product ? 2 : 1]};
        if constexpr (!sum_by_product) {
#pragma unroll
            for (float& value : sum) {
                value += __shfl_xor_sync(~0u, value, 1);
                value += __shfl_xor_sync(~0u, value, 2);
            }
        }
        if (first >= own_rows) continue;
        add_products(T, first, rows.product[m]);
        if (t == 0) {
            add_global(S + first + g, sum[0]);
            add_global(S + first + g + 8, sum[1]);
        }
    }
}
