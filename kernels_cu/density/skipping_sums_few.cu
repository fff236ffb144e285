// Sums of queries over the pairs of few dimensions that can matter: boxes of blocks and of parts of 32 points decide alone,
// and near parts are summed whole, by products of matrices.
//
//   S_i = sum_j 2^(e_ij - b_i)
//   T_i = sum_j 2^(e_ij - b_i) (at_zero - ln 2 |z_i - z_j|^2)    output LAPLACE, without weights; at_zero = 1 + d/2
//
// The sums of 2^e_ij are in float's range, b_i being at least `poor`, and 2^-b_i comes in the end.
//
// Only of items that products serve, and over blocks that are not wide (skipping_points.cu); other pairs are left to
// skipping_boxes.cu, where the sums and the arrays are described.
//
//   row_items, groups, span   items are 128 queries by `span` blocks of data
//
// A warp takes an item and waits for no other. Exponents are those of skipping_few.cuh; sums stay in registers until the
// end of the item.
//
// Per unit of 16 by 32 pairs: 4 products of 16 x 8 x 16 and 4 or 8 of 16 x 8 x 8; 512 exponentials.
//
// Dynamic shared memory: a Warp for each warp. No barriers but of a warp. Macros: KERNEL, OUTPUT (SUM or LAPLACE),
// DIMENSIONS (3 to 5), DIM (the pitch of `local`).
#include "skipping_few.cuh"
#include "skipping_output.cuh"

constexpr int threads = 128;
constexpr int blocks_of_item = 2;
constexpr int item_rows = blocks_of_item * block;
constexpr int row_parts = item_rows / 32;
#if __CUDA_ARCH__ < 1000
constexpr int blocks_at_once = 4;
#else  // compilers for others need more registers
constexpr int blocks_at_once = 3;
#endif

struct alignas(16) Warp {
    Staged staged[2];  // columns, and the next
    Left rows[item_rows];
    unsigned listed[most_listed];  // parts of the data, and which of the queries they matter to
};

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
    KERNEL(const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
           const unsigned char* __restrict__ Y_kinds, const float* __restrict__ Y_low, const float* __restrict__ Y_high,
           const float* __restrict__ Y_parts, const float* __restrict__ reference, const float* __restrict__ extent,
           const float2* __restrict__ threshold, const float* __restrict__ X_local, const float* __restrict__ X_centres,
           const float* __restrict__ X_weights, const unsigned char* __restrict__ X_kinds,
           const float* __restrict__ X_low, const float* __restrict__ X_high, const float* __restrict__ X_parts,
           const float* __restrict__ most, float* __restrict__ S, float* __restrict__ T,
           unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int query_blocks,
           int data_blocks, int row_items, int groups, int span, int box_axes, int weighted, float at_zero) {
    extern __shared__ uint4 memory[];
    Warp& warp = reinterpret_cast<Warp*>(memory)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const Boxes Y = {Y_low, Y_high, query_blocks}, X = {X_low, X_high, data_blocks};
    const Boxes parts_of_Y = boxes_of_parts(Y_parts, query_blocks, box_axes),
                parts_of_X = boxes_of_parts(X_parts, data_blocks, box_axes);
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int row_item = int(item % row_items), first = row_item * blocks_of_item;
        const int begin = int(item / row_items) * span, end = min(begin + span, data_blocks);
        const int blocks_there = min(blocks_of_item, query_blocks - first);
        if (!products_serve(Y_kinds, extent, first, query_blocks)) continue;
        const float2 least = threshold[row_item];
        __syncwarp();
        const int count = list_near(warp.listed, 2 * begin, 2 * end, [&](int& part) {
            const int b = part / 2;
            if (!X_kinds[b] || most[b] - box_distance(X, b, Y, first, blocks_of_item, box_axes) < least.x) return false;
            const unsigned bits =
                near_parts<row_parts>(parts_of_X, part, parts_of_Y, first, box_axes, most[b], least.y);
            part = with_bits(part, bits);
            return bits != 0;
        });
        if (!count) continue;

        const float* const centre = Y_centres + first * DIM;
        put_rows(warp.rows, nullptr, Y_local, nullptr, first, blocks_there, 0);
        float totals[2 * row_parts][2] = {};  // of rows g and g + 8 of a tile
        // Registers are few: lanes of even t have 2^e |z_i - z_j|^2 of row g, those of odd t of row g + 8.
        float squares[output == LAPLACE ? 2 * row_parts : 1] = {};
        for_each_part(warp.staged, warp.listed, count, X_local, X_centres, X_weights, centre,
                      [&](const Staged& staged, int, unsigned bits) {
                          units += 2 * __popc(bits);
                          Columns columns;
                          columns.load(staged);
#pragma unroll
                          for (int part = 0; part < row_parts; part++) {
                              if (!(bits >> part & 1)) continue;
#pragma unroll
                              for (int m = 2 * part; m < 2 * part + 2; m++) {
                                  float e[4][4];
                                  exponents(e, warp.rows, m * 16, columns);
                                  if (output == SUM && weighted) {
#pragma unroll
                                      for (int j = 0; j < 4; j++) {
                                          const float2 two =
                                              *reinterpret_cast<const float2*>(&staged.weights[j * 8 + 2 * t]);
                                          e[j][0] += two.x, e[j][1] += two.y, e[j][2] += two.x, e[j][3] += two.y;
                                      }
                                  }
                                  float square[2] = {};
#pragma unroll
                                  for (int j = 0; j < 4; j++)
#pragma unroll
                                      for (int i = 0; i < 4; i++) {
                                          const float power = exp2_approx(e[j][i]);
                                          if constexpr (output == LAPLACE)
                                              square[i / 2] = fmaf(power, -e[j][i], square[i / 2]);
                                          totals[m][i / 2] += power;
                                      }
                                  if constexpr (output == LAPLACE)
                                      squares[m] += (t % 2 ? square[1] : square[0]) +
                                                    __shfl_xor_sync(~0u, t % 2 ? square[0] : square[1], 1);
                              }
                          }
                      });
#pragma unroll
        for (int m = 0; m < 2 * row_parts; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float total = sum_over_lanes<4>(totals[m][r]);
                const long long row = (long long)first * block + m * 16 + g + 8 * r;
                const bool some = m * 16 < blocks_there * block && total != 0;
                if (t == 0 && some) add_global(S + row, total * exp2_approx(-reference[row]));
                if constexpr (output == LAPLACE) {
                    const float both = corrected(total, squares[m] + __shfl_xor_sync(~0u, squares[m], 2), at_zero);
                    if (t == r && some) add_global(T + row, both * exp2_approx(-reference[row]));
                }
            }
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
