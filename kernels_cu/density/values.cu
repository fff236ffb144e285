// Values as operands of the tensor cores: in two bfloat16 terms, which have the range of float.
//
//   v = hi + lo to 2^-17 of v:  hi = bfloat16(v), lo = bfloat16(v - hi)
//
//   V           (n, k)                  STORAGE   rounded to float
//   V_hi, V_lo  (blocks, rows, COLUMNS) bfloat16  block b holds columns b COLUMNS .. of V in the order of
//                                                 column_order.cuh; rows: n rounded up to whole blocks of operands.cu
//
// Rows past n and columns past k are zero. hi is always finite: for values beyond the range of bfloat16, and for
// infinity and NaN, lo has the rest. For values below 2^-117 lo may lose bits, because it is below 2^-126.
//
// One thread for each eight positions of a row, 16 bytes. Grid: x over blocks of `threads` of these, y over column blocks.
// No shared memory, no barriers.
//
// Macros: STORAGE; COLUMNS, a multiple of 16.
#include "ptx.cuh"
#include "column_order.cuh"

constexpr int threads = 256;
constexpr int pieces = COLUMNS / 8;  // of a row

constexpr float largest = 3.38953139e38f;  // bfloat16

extern "C" __global__ void __launch_bounds__(threads)
prepare_values(const STORAGE* __restrict__ V, uint4* __restrict__ V_hi, uint4* __restrict__ V_lo, long long n, int k,
               long long rows) {
    const long long place = (long long)blockIdx.x * threads + threadIdx.x;
    const long long row = place / pieces;
    const int piece = place % pieces;
    if (row >= rows) return;

    unsigned hi[4], lo[4];
#pragma unroll
    for (int w = 0; w < 4; w++) {
        const int column = blockIdx.y * COLUMNS + column_of_word(4 * piece + w);
        float v[2], of_hi[2];
#pragma unroll
        for (int e = 0; e < 2; e++) v[e] = row < n && column + e < k ? float(V[row * k + column + e]) : 0.0f;
        const auto bounded = [](float x) { return fminf(fmaxf(x, -largest), largest); };
        hi[w] = pack_bf16(bounded(v[0]), bounded(v[1]));
        unpack_bf16(hi[w], of_hi[0], of_hi[1]);
        lo[w] = pack_bf16(v[0] - of_hi[0], v[1] - of_hi[1]);
    }
    const long long at = (blockIdx.y * rows + row) * pieces + piece;
    V_hi[at] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    V_lo[at] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}
