// Where each query's nearest datum is likely to be: the blocks of data that hold the largest product in float16
// (skipping_screen.cuh). skipping_found.cu looks at their points.
//
//   halves, norms                     of queries and data, as skipping_points.cu leaves them
//   extent      (query blocks, 2)  float      least and largest of what is known of the queries' sums: blocks of data whose
//                                             boxes are further away than the least are not looked at
//   nearest     (query rows,)  unsigned long long     zero before: becomes the largest of it and of the product's key, in the
//                                             order of the products, above the number of the TOGETHER blocks that have it
//   next        (2,)    unsigned long long    as in skipping_units.cu
//   row_items, groups, span                   items are 16 ROW_TILES queries by `span` blocks of data
//
// A warp takes an item at a time. No barriers but of a warp. Macros: GROUPS, ROW_TILES, TOGETHER.
#include "skipping_screen.cuh"

extern "C" __global__ void __launch_bounds__(threads, GROUPS == 1 ? 3 : 2)
    nearest_data(const float* __restrict__ Y_low, const float* __restrict__ Y_high,
                 const unsigned* __restrict__ Y_halves, const float* __restrict__ extent,
                 const float* __restrict__ X_low, const float* __restrict__ X_high, const float* __restrict__ most,
                 const unsigned* __restrict__ X_halves, const unsigned short* __restrict__ norms,
                 unsigned long long* __restrict__ nearest, unsigned long long* __restrict__ next, int query_blocks,
                 int data_blocks, int row_items, int groups, int span, int box_axes) {
    __shared__ Listed listed_of_warp[threads / 32];
    Listed& listed = listed_of_warp[threadIdx.x / 32];
#if GROUPS == 1
    __shared__ Screened ring[threads / 32][stages];
    InRing data = {X_halves, norms, ring[threadIdx.x / 32]};
#else  // blocks are large
    InMemory data = {X_halves, norms};
#endif
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
        const int count =
            list_blocks(listed, X, Y, most, nullptr, first_row_block, begin, end, box_axes, [&](int) { return least; });
        if (!count) continue;
        Rows rows;
        rows.load(Y_halves, first_row_block, 4 * blocks_there);
        // A product in the upper half, as an integer of the same order; below it whose it is, from the item's first on.
        int best[row_tiles][2];
#pragma unroll
        for (int m = 0; m < row_tiles; m++) best[m][0] = best[m][1] = 0x80000000;
        data.begin(listed, count);
#pragma unroll 1
        for (int p = 0; p < count;) {
            const unsigned number = (listed.blocks[p] - begin) / TOGETHER;
            unsigned largest[row_tiles][2];
#pragma unroll
            for (int m = 0; m < row_tiles; m++) largest[m][0] = largest[m][1] = 0xfc00fc00u;
#pragma unroll 1
            do {
                const unsigned* of_halves;
                const unsigned short* of_norms;
                data.next(listed, p, of_halves, of_norms);
#pragma unroll 1
                for (int half = 0; half < 2; half++)
                    largest_products<true>(largest, rows, of_halves + half * (2 * GROUPS * 128), of_norms + half * 64);
                p++;
            } while (p < count && (listed.blocks[p] - begin) / TOGETHER == number);
#pragma unroll
            for (int m = 0; m < row_tiles; m++) {
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const unsigned either = largest[m][r];
                    const int product = larger_f16x2(either, either << 16 | either >> 16);
                    best[m][r] = max(best[m][r], int(((product ^ (product >> 31 & 0x7fff0000)) & 0xffff0000) | number));
                }
            }
        }
        data.end();
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            if (m >= 4 * blocks_there) continue;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int key = best[m][r];
                key = max(key, __shfl_xor_sync(~0u, key, 1));
                key = max(key, __shfl_xor_sync(~0u, key, 2));
                const unsigned long long product = (unsigned(key) ^ 0x80000000u) >> 16;
                if (t == 0)
                    atomicMax(nearest + first_row_block * 64LL + m * 16 + g + 8 * r,
                              product << 32 | unsigned(begin / TOGETHER + (key & 0xffff)));
            }
        }
    }
}
