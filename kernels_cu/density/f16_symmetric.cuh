// All pairs of the data with themselves, or of one block of them with another, on the tensor cores in float16: each
// exponential serves both of its rows.
//
//   hi, lo      (rows, DEPTH)    float16   z = (x - centre) sqrt(log2 e) / h = hi + lo, columns in the order of
//                                          column_order.cuh; rows: a multiple of 128, zero past the data
//   norms       (rows,)          float     -|z|^2/2 of the z that is used; -60000 past the data, so that 2^ of it is 0
//   V_hi, V_lo  (rows, COLUMNS)  bfloat16  values V = V_hi + V_lo of values.cu, where COLUMNS is not 0; rows, order and
//                                          padding likewise
//   S           (rows,)          float     S_i  += 2^shift sum_{j != i} phi_ij
//   T           (rows, DEPTH)    float     T_ik += 2^shift sum_{j != i} phi_ij hi_jk, or
//               (rows, COLUMNS)            T_ik += 2^shift sum_{j != i} phi_ij V_jk, columns in their own order
//   spread                       float     largest |z|^2, or null: the kernel does nothing where it exceeds `limit`
//   own_rows                     row_count: all pairs of different rows; or less, a multiple of 128: pairs of a row
//                                below it with one from there on, two blocks of data one after the other
//   chunk                        columns that a block walks through, a multiple of 64
//
//   phi_ij = 2^(z_i . z_j - |z_i|^2/2 - |z_j|^2/2), j < i taken from phi_ji
//   TERMS 3: z_i . z_j = hi_i . hi_j + lo_i . hi_j + hi_i . lo_j;  TERMS 1: hi_i . hi_j
//   SUMS PRODUCT: S sums the float16 of phi that T sums, by a product with ones; EXACT: phi itself, lane by lane
//
// Sums are over those j != i that i makes a pair with. A point's own term is left out: it is exactly 1 for S and
// exactly hi_i or V_i for T, which the kernels that finish know (f16_symmetric_finish.cuh, f16_symmetric_finish_values.cuh).
//
// What phi is multiplied by are its factors:
//
//   hi  phi in one float16 term; the shift of 13 keeps it down to 2^-27 a normal one. With PRODUCT, rounding phi
//       changes T_i - S_i z_i by its part of phi (z_j - z_i), with EXACT by its part of phi z_j; but then S has the
//       errors of the exponents alone.
//   V   phi and V in two bfloat16 terms, each right to 2^-17, in four products. They have the range of float, and the shift is 0: T overflows where the sum does. Of phi
//       below 2^-117 the lower term is lost, below 2^-126 all: that is off by no more than 2^-125 V_j.
//
// Only pairs with i < j are visited. One block owns `block_rows` rows i and one chunk of columns j. Each of its
// 4 warps keeps `row_tiles` x 16 rows in registers: fragments of hi and lo, and the rows' own sums, which leave
// for S and T once, at the end. Columns come through shared memory in tiles of 64, four groups of 16, each warp at
// one group in a step. The 16 x 16 fragment of phi, packed to 16 bits, is the left operand of phi times factors as it
// stands. Tensor cores truncate: a chunk should have at most 8,192 columns, with values 2,048.
//
// The columns' sums go to S and T once for all rows of the block. They come about in one of two ways, handed on from
// warp to warp (f16_symmetric_columns_shuffled.cuh) or from phi in shared memory (f16_symmetric_columns_shared.cuh).
//
// Grid: y over pairs of chunks (c, chunks - 1 - c), x over their row blocks, first those of the one, then those of
// the other: the upper triangle folded into a rectangle. Of two blocks of data, y over chunks of the second
// and x over row blocks of the first: the tiles that the last of these takes for the diagonal's lose nothing, as rows
// from `own_rows` on are none of its own. Neighbours in x share their columns, so each begins with another tile and
// they do not add to the same rows at the same time.
//
// Shared memory: `Shared`, static with SHARED_BYTES 0, else dynamic, up to 99 KiB.
//
// Barriers: one a tile, which says that the tile has come and that the one before is done with; and where sums are
// handed on, one between steps; where phi is shared without OVERLAP, one when phi is complete, with OVERLAP one more
// at the end. All threads of a block pass all of them.
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
       const float* __restrict__ spread, float* __restrict__ S, float* __restrict__ T, int row_count, int own_rows,
       int chunk, float limit) {
#if !SHARED_BYTES
    __shared__ Shared shared;
#else
    extern __shared__ uint4 dynamic_shared[];
    static_assert(sizeof(Shared) <= SHARED_BYTES, "the launcher asks for too little");
    auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);
#endif

    if (spread && !(*spread <= limit)) return;
    const Part own_part = part_of_block(row_count, own_rows, chunk);
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
