// Gaussian kernel sums over all pairs of a query y_i and a data row x_j: density, score, Laplace correction, sums of
// values. One compilation makes one kernel. Macros, its specialisation key, choose it
// (the launchers of cukde/density/pairs/gpu list them).
//
//   e_ij  = log2 w_j - log2(e) |y_i - x_j|^2 / (2 h^2)       the exponent, in bits
//   a_i   = max_j e_ij                                       found in the same pass (log-sum-exp)
//   S_i   = sum_j 2^(e_ij - a_i)                                            total
//   M_ik  = sum_j 2^(e_ij - a_i) (x_jk - y_ik)                              moments, output MOMENTS
//   M_i   = sum_j 2^(e_ij - a_i) (1 + d/2 - r_ij^2/(2 h^2))                 moments, output LAPLACE: one column
//   M_ik  = sum_j 2^(e_ij - a_i) (2 + d/2 - r_ij^2/(2 h^2)) (x_jk - y_ik)   moments, output LAPLACE_MOMENTS
//   M_ik  = sum_j 2^(e_ij - a_i) V_jk                                       moments, output VALUES
//
// One block owns 64 queries (in the float64 engine WARPS ROW_TILES 16), at most COLUMNS columns of the moments and one
// split of the data rows, which it goes through in tiles. Grid: x over queries, y over columns, z over splits. Each
// split writes its own rows: there are no atomic operations, and every run gives the same bits. The caller merges the
// splits. (By differences a split may also be a member of a stack, with its own queries and bandwidth.)
//
//   reference  (splits, m)     double   a_i ln 2
//   total      (splits, m)     double   S_i
//   moments    (splits, m, k)  double   M_ik
//
// Macros: KERNEL the name; OUTPUT one of the five, LAPLACE_MOMENTS only by differences; COLUMNS the columns of the
// moments a block owns (0 for none; the one of LAPLACE needs none); and for the engines
//   by differences   REAL the arithmetic, STORAGE what X and Y hold, CHUNK the dimensions staged at a time
//   float64          F64 defined, DEPTH the columns of X and Y, a multiple of 8; WARPS of a block, ROW_TILES of 16
//                    queries a warp, TILE data rows in shared memory at a time, BLOCKS of a multiprocessor
#include "ptx.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE, LAPLACE_MOMENTS, VALUES };
constexpr Output output = OUTPUT;

#if defined(TERMS)
#include "f16.cuh"
#elif defined(F64)
#include "f64.cuh"
#else
#include "difference.cuh"
#endif
