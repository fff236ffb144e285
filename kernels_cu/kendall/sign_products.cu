// Products of signs of pairs of samples on the tensor cores, summed over pairs: Kendall's C - D and C + D.
//
//   difference_ab = sum over pairs of s_a s_b    untied_ab = sum over pairs of |s_a| |s_b|,  s = g - l of signs.cu
//
//   BITS 1, TIED 0   4 g_a g_b                   the rest of the difference, without ties, is sign_products_finish.cu's
//   BITS 1, TIED 1   u = g + l:  untied = u_a u_b,  difference = 2 (g_a g_b + l_a l_b) - u_a u_b
//   BITS 0           bytes: difference = s_a s_b and, with TIED, untied = (s_a & 1) (s_b & 1)
//
//   signs       (slabs, planes, rows, 128 bytes)   of signs.cu; with BITS and TIED two planes are read, else the first
//   tiles       (tile_count,)    int2     row and column block, of TILE rows each, of the tiles to compute
//   difference  (.., width)      int64    added to
//   untied      (.., width)      int64    added to, with TIED; else null
//
// Columns of the result are the rows of signs from first_column on. Blocks take one tile after the other. All blocks read
// the same slabs at the same time, so that these come from memory once. When fewer tiles than blocks remain, their slabs,
// all of one tile after all of another, are cut into equal parts, one for each block. Grid: x over blocks, as many as the
// device holds. int32 sums do not overflow: a launch has less than 2^30 pairs of samples.
//
// Rows are copied to shared memory asynchronously, in `stages` stages of half a slab, 64 bytes for each row; the rows of a
// tile on the diagonal are copied once. Piece c of 16 bytes of row r lies at c ^ (r / 2 % 4), so that the eight rows of a
// matrix lie in different banks. Barriers: one a stage, after which the stage to be filled next is free, and one a tile.
//
// Source: the PTX manual, "Matrix fragments for mma.m16n8k256" and "m16n8k32": bits and bytes have the same layout.
//
// Macros: BITS; TIED; TILE; WARP_ROWS, WARP_COLUMNS, a warp's part of a tile; STAGES; BLOCKS, of a multiprocessor.
#include "ptx.cuh"

constexpr int tile = TILE;
constexpr int warps_down = tile / WARP_ROWS, warps_across = tile / WARP_COLUMNS;
constexpr int threads = 32 * warps_down * warps_across;
constexpr int stages = STAGES;
constexpr int planes_read = BITS && TIED ? 2 : 1;
constexpr int results = TIED ? 2 : 1;
constexpr int row_tiles = WARP_ROWS / 16, column_tiles = WARP_COLUMNS / 8;
constexpr int row_pieces = 4;  // of 16 bytes, a stage
constexpr int plane_pieces = 2 * tile * row_pieces;
constexpr int stage_pieces = planes_read * plane_pieces;
constexpr int fetched_rows = threads / row_pieces;  // at a time
static_assert(fetched_rows % 8 == 0 && tile % fetched_rows == 0, "see place");

using Sums = int[row_tiles][column_tiles][4];
using Left = unsigned[row_tiles][4];
using Right = unsigned[column_tiles][2];

// The work of a block: a tile, and a range of slabs, in half slabs.
struct Part {
    int top, left, begin, end;
    bool diagonal;  // its columns are its rows
};

// Rows 8 apart have their pieces in the same order: multiples of 8 rows are added to an offset.
__device__ __forceinline__ int place(int row, int piece) { return row * row_pieces + (piece ^ row / 2 % row_pieces); }

// Begin to copy one stage, the rows of the tile and then those of its columns; nothing after the end of the part.
__device__ __forceinline__ void fetch(uint4* staged, const uint4* signs, const Part& part, int step, int rows,
                                      int planes, int first_column) {
    if (step < part.end) {
        const int row = threadIdx.x / row_pieces, piece = threadIdx.x % row_pieces;
        const long long plane_size = (long long)rows * 8;
        const uint4* const from = signs + step / 2 * plane_size * planes + step % 2 * row_pieces + piece;
        const uint4* const left = from + (long long)(part.top + row) * 8;
        const uint4* const right = from + (long long)(first_column + part.left + row) * 8;
        uint4* const to = staged + step % stages * stage_pieces + place(row, piece);
#pragma unroll
        for (int plane = 0; plane < planes_read; plane++)
#pragma unroll
            for (int r = 0; r < tile; r += fetched_rows) {
                uint4* const at = to + plane * plane_pieces + r * row_pieces;
                copy_async_16(at, left + plane * plane_size + r * 8);
                if (!part.diagonal) copy_async_16(at + tile * row_pieces, right + plane * plane_size + r * 8);
            }
    }
    copy_async_commit();
}

__device__ __forceinline__ void multiply(Sums& sums, const Left& a, const Right& b) {
#pragma unroll
    for (int m = 0; m < row_tiles; m++)
#pragma unroll
        for (int c = 0; c < column_tiles; c++) {
#if BITS
            mma_b1_m16n8k256(sums[m][c], a[m], b[c][0], b[c][1]);
#else
            mma_s8_m16n8k32(sums[m][c], a[m], b[c][0], b[c][1]);
#endif
        }
}

// The operand of the second result: u from the two planes, |s| from s.
__device__ __forceinline__ unsigned magnitude(unsigned first, unsigned second) {
    return BITS ? first | second : first & 0x01010101u;
}

// Add the products of one stage; left and right are the offsets of the first rows whose addresses the lane provides.
__device__ __forceinline__ void add_stage(Sums (&sums)[results], const uint4* stage, int left, int right) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        Left a[planes_read];
        Right b[planes_read];
#pragma unroll
        for (int plane = 0; plane < planes_read; plane++) {
            const uint4* const from = stage + plane * plane_pieces;
#pragma unroll
            for (int m = 0; m < row_tiles; m++)
                load_matrices(a[plane][m], from + (left ^ 2 * half) + 16 * m * row_pieces);
#pragma unroll
            for (int c = 0; c < column_tiles; c += 2) {
                unsigned both[4];
                load_matrices(both, from + (right ^ 2 * half) + 8 * c * row_pieces);
                b[plane][c][0] = both[0], b[plane][c][1] = both[1];
                b[plane][c + 1][0] = both[2], b[plane][c + 1][1] = both[3];
            }
        }
#pragma unroll
        for (int plane = 0; plane < planes_read; plane++) multiply(sums[0], a[plane], b[plane]);
        if constexpr (TIED) {
            constexpr int last = planes_read - 1;
#pragma unroll
            for (int m = 0; m < row_tiles; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) a[0][m][i] = magnitude(a[0][m][i], a[last][m][i]);
#pragma unroll
            for (int c = 0; c < column_tiles; c++)
#pragma unroll
                for (int i = 0; i < 2; i++) b[0][c][i] = magnitude(b[0][c][i], b[last][c][i]);
            multiply(sums[results - 1], a[0], b[0]);
        }
    }
}

// Add a result, made of both sums, to the warp's part of a tile; `to` is the lane's first element.
template <class Result>
__device__ __forceinline__ void add_to(unsigned long long* to, long long width, const Sums (&sums)[results],
                                       Result result) {
#pragma unroll
    for (int m = 0; m < row_tiles; m++)
#pragma unroll
        for (int lower = 0; lower < 2; lower++, to += 8 * width)
#pragma unroll
            for (int c = 0; c < column_tiles; c++)
#pragma unroll
                for (int i = 2 * lower; i < 2 * lower + 2; i++) {
                    const long long sum = result(sums[0][m][c][i], sums[results - 1][m][c][i]);
                    atomicAdd(to + 8 * c + i % 2, (unsigned long long)sum);
                }
}

extern "C" __global__ void __launch_bounds__(threads, BLOCKS)
sign_products(const uint4* __restrict__ signs, const int2* __restrict__ tiles,
              unsigned long long* __restrict__ difference, unsigned long long* __restrict__ untied, int tile_count,
              int rows, int slabs, int planes, int first_column, long long width) {
    extern __shared__ uint4 staged[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp % warps_down * WARP_ROWS, warp_column = warp / warps_down * WARP_COLUMNS;

    const int whole = tile_count - tile_count % gridDim.x;  // tiles that are not cut
    const long long rest = (long long)(tile_count - whole) * slabs;
    const long long end_of_rest = rest * (blockIdx.x + 1) / gridDim.x;
    long long of_rest = rest * blockIdx.x / gridDim.x;
    for (int index = blockIdx.x; index < whole || of_rest < end_of_rest; index += gridDim.x) {
        int first = 0, end = slabs;
        int2 own;
        if (index < whole) {
            own = tiles[index];
        } else {
            own = tiles[whole + of_rest / slabs];
            first = int(of_rest % slabs);
            end = int(min((long long)slabs, first + end_of_rest - of_rest));
            of_rest += end - first;
        }
        const Part part = {own.x * tile, own.y * tile, 2 * first, 2 * end, own.x * tile == first_column + own.y * tile};

        Sums sums[results] = {};
        const int of_left = place(warp_row + lane % 16, lane / 16);
        const int of_right = place((part.diagonal ? 0 : tile) + warp_column + lane % 8 + lane / 16 * 8, lane / 8 % 2);
        __syncthreads();  // the stages of the tile before are free
#pragma unroll
        for (int ahead = 0; ahead < stages - 1; ahead++)
            fetch(staged, signs, part, part.begin + ahead, rows, planes, first_column);
        int step = part.begin;
        do {  // with a loop that may be skipped, the compiler would widen all sums at once after it, and spill
            copy_async_wait<stages - 2>();
            __syncthreads();
            fetch(staged, signs, part, step + stages - 1, rows, planes, first_column);
            add_stage(sums, staged + step % stages * stage_pieces, of_left, of_right);
        } while (++step < part.end);

        const long long at = (part.top + warp_row + lane / 4) * width + part.left + warp_column + lane % 4 * 2;
        add_to(difference + at, width, sums, [](long long one, long long two) {
            return !BITS ? one : TIED ? 2 * one - two : 4 * one;
        });
        if (TIED) add_to(untied + at, width, sums, [](long long, long long two) { return two; });
    }
}
