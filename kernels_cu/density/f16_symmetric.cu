// Self-interaction sums (Y = X) of the data, or sums of each of two blocks of the data at the points of the other. Each
// exponential is used for both of its rows; there are no weights:
//
//   S_i  = sum_j phi_ij,  T_ik = sum_j phi_ij z_jk or sum_j phi_ij V_jk,  phi_ij = exp(-|x_i - x_j|^2 / (2 h^2))
//
// There are two launches, and each compilation makes one kernel. The pass over all pairs adds to S and T, which the
// caller has zeroed, in no fixed order (two runs differ in the last bits). The epilogue turns S and T into results.
// f16_symmetric.cuh, f16_symmetric_finish.cuh and f16_symmetric_finish_values.cuh describe arrays, blocks and barriers.
//
// Macros: KERNEL the name; COLUMNS of the values: 16 or 32, or 0 if points are summed. For the pass, and for the
// epilogue if points are summed,
//   DEPTH        columns of the operands: 16, 32, 48 or 64
//   TERMS        float16 products in an exponent: 3 (z = hi + lo) or 1 (z = hi)
// For the pass
//   SUMS         PRODUCT or EXACT; EXACT with values
//   ROW_TILES    of 16 rows, a warp
//   BLOCKS       that a multiprocessor runs at a time, up to sm_90
//   SHARE_PHI    1: sums of columns come from phi in shared memory; 0: they are passed between warps
//   OVERLAP      1: sums of columns are computed during the next tile; only with SHARE_PHI
//   SHARED_BYTES of dynamic shared memory; 0: it is static
// For the epilogue FINISH and, with values, STORAGE: their type.
#include "ptx.cuh"

#ifndef FINISH
#include "f16_symmetric.cuh"
#elif COLUMNS
#include "f16_symmetric_finish_values.cuh"
#else
#include "f16_symmetric_finish.cuh"
#endif
