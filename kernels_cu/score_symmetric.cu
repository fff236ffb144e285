// Score pass of the data against themselves, each exponential used for both of its rows, without weights:
//
//   S_i  = sum_j phi_ij,  T_ik = sum_j phi_ij z_jk,  phi_ij = exp(-|x_i - x_j|^2 / (2 h^2))
//
// in two launches, of which each compilation makes one kernel: the pass over all pairs adds to S and T, which the
// caller has zeroed, in no fixed order (two runs differ in the last bits); the other turns them into results.
// pairs_f16_symmetric.cuh and finish_symmetric.cuh describe arrays, blocks and barriers.
//
// Macros: KERNEL the name; DEPTH columns of the operands: 16, 32, 48 or 64; TERMS float16 products in an exponent:
// 3 (z = hi + lo) or 1 (z = hi); and FINISH for the other kernel, or for the pass
//   SUMS         PRODUCT or EXACT
//   ROW_TILES    of 16 rows, a warp
//   BLOCKS       that a multiprocessor runs at a time, up to sm_90
//   SHARED_BYTES of dynamic shared memory, where phi is shared; 0 where sums are handed on
//   OVERLAP      1: sums of columns are made during the next tile; only where phi is shared
#include "ptx.cuh"

#ifdef FINISH
#include "finish_symmetric.cuh"
#else
#include "pairs_f16_symmetric.cuh"
#endif
