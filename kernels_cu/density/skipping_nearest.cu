// The exponent of each query's nearest datum, from below: the largest product in float16 (skipping_screen.cuh).
//
//   halves, norms, squares            of queries and data, as skipping_points.cu leaves them
//   extent      (query blocks, 2)  float      least and largest of what is known of the queries' sums: blocks of data whose
//                                             boxes are further away than the least are not looked at
//   nearest     (query rows,)      unsigned   zero before: becomes the largest of it and the key of the exponent
//   next        (1,)    unsigned long long    zero before
//   row_items, groups, span                   items are 16 ROW_TILES queries by `span` blocks of data
//
// The key has the order of the numbers: their bits, all of a negative number turned over, else the sign.
//
// What rounding may have added is taken away. With v = sqrt(2) z rounded, L = |v_i|, the exponent -E of these points, e what
// products say of it, and c = (GROUPS + 1) 2^-10: s = sqrt(2 E) is at least the distance of the points, so that, as in
// skipping_limits.cu, the products are off by at most c (L^2 / 2 + 3 L s + s^2 / 2), and
//     s^2 / 2 <= -e + c (L^2 / 2 + 3 L s + s^2 / 2),
// of which `apart` is the larger root. The distance before rounding is larger by 2^-11 (2 L + s) at most.
//
// A warp takes an item at a time. No barriers but of a warp. Macros: GROUPS, ROW_TILES.
#include "skipping_screen.cuh"

extern "C" __global__ void __launch_bounds__(threads, GROUPS == 1 ? 3 : 2)
    nearest_data(const float* __restrict__ Y_low, const float* __restrict__ Y_high,
                 const unsigned* __restrict__ Y_halves, const float* __restrict__ squares,
                 const float* __restrict__ extent, const float* __restrict__ X_low, const float* __restrict__ X_high,
                 const float* __restrict__ most, const unsigned* __restrict__ X_halves,
                 const unsigned short* __restrict__ norms, unsigned* __restrict__ nearest,
                 unsigned long long* __restrict__ next, int query_blocks, int data_blocks, int row_items, int groups,
                 int span, int box_axes, float shrink) {
    __shared__ Listed listed_of_warp[threads / 32];
    Listed& listed = listed_of_warp[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const Boxes Y = {Y_low, Y_high, query_blocks}, X = {X_low, X_high, data_blocks};
    const unsigned long long items = (unsigned long long)row_items * groups;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int first_row_block = int(item % row_items) * blocks_of_item;
        const int begin = int(item / row_items) * span;
        const int end = begin + span < data_blocks ? begin + span : data_blocks;
        const int blocks_there = min(blocks_of_item, query_blocks - first_row_block);
        float least = extent[2 * first_row_block];
        if (blocks_there > 1) least = fminf(least, extent[2 * first_row_block + 2]);
        __syncwarp();
        const int count = list_blocks(listed, X, Y, most, first_row_block, begin, end, box_axes,
                                      [&](int) { return least; });
        if (!count) continue;
        Rows rows;
        rows.load(Y_halves, first_row_block, 4 * blocks_there);
        unsigned largest[row_tiles][2];
#pragma unroll
        for (int m = 0; m < row_tiles; m++) largest[m][0] = largest[m][1] = 0xfc00fc00u;
#pragma unroll 1
        for (int p = 0; p < 2 * count; p++)
            largest_products<true>(largest, rows, X_halves, norms, listed.blocks[p / 2] * 4LL + p % 2 * 2);
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            if (m >= 4 * blocks_there) continue;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float low, high;
                unpack_f16(largest[m][r], low, high);
                float product = fmaxf(low, high);
                product = fmaxf(product, __shfl_xor_sync(~0u, product, 1));
                product = fmaxf(product, __shfl_xor_sync(~0u, product, 2));
                const long long row = first_row_block * 64LL + m * 16 + g + 8 * r;
                const float square = squares[row], L = sqrtf(square) * 1.0001f;
                // Below 2^-14 float16 rounds by up to 2^-24, whatever the number.
                const float e =
                    fminf(product / (shrink * shrink) - 0.5f * square, 0.0f) - (GROUPS + 2) * 6e-8f / (shrink * shrink);
                constexpr float c = (GROUPS + 1) * (1.01f / 1024);
                const float apart =
                    (3 * c * L + sqrtf(9 * c * c * square + (1 - c) * (c * square - 2 * e))) / (1 - c) * 1.001f + 1e-3f;
                const float rounded = (2 * L + apart) * (1.01f / 2048) + 1e-4f + 1e-6f / shrink,
                            M = L + apart + rounded;
                const float bound = -0.5f * apart * apart - 1.01f * (apart + rounded) * rounded - 0.01f;
                if (t == 0 && M * M * shrink * shrink < 60000 && product > -60000) {
                    const unsigned bits = __float_as_uint(bound);
                    atomicMax(nearest + row, bits >> 31 ? ~bits : bits | 0x80000000u);
                }
            }
        }
    }
}
