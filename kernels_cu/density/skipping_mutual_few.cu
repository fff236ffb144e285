// Sums over the pairs of one data set of few dimensions that can matter, without weights, each pair once: boxes of blocks and
// of parts of 32 points decide alone, and near parts are summed whole, by products of matrices for both points of a pair.
//
//   S_i = sum_j 2^e_ij,   T_i = sum_j 2^e_ij (z_j - z_i),   e_ij = -|z_i - z_j|^2
//
// Only pairs of blocks that are not wide (skipping_points.cu); others are left to skipping_boxes.cu.
//
//   local, centres, weights, kinds, low, high, parts   of skipping_points.cu
//   threshold   (row_items, 2)       float    of skipping_thresholds.cu
//   S, T        (rows,), (d, rows)   float    zero before
//   next, kept                                as in skipping_units.cu; a unit counts for both its sides
//   row_items, groups, span                   items are 128 rows by `span` blocks, from the rows' own on
//
// A pair of blocks counts if it is near enough for either of their items, and so does a pair of parts. Exponents are those
// of skipping_few.cuh.
//
// A warp takes an item and waits for no other. Sums of rows stay in registers until the end of the item, those of columns
// are added to memory after each 32.
//
// Per unit of 16 by 32 pairs: 4 products of 16 x 8 x 16 and 4 or 8 of 16 x 8 x 8 for exponents, 4 or 8 of 16 x 8 x 16 for
// the sums; 512 exponentials, for 1,024 terms.
//
// Dynamic shared memory: a Warp for each warp. No barriers but of a warp. Macros: DIMENSIONS (3 to 5), DIM (the pitch of
// `local`).
#include "skipping_few.cuh"
#include "skipping_mutual.cuh"

constexpr int threads = 128;
constexpr int blocks_of_item = 2;
constexpr int item_rows = blocks_of_item * block;
constexpr int row_tiles = item_rows / 16, row_parts = item_rows / 32;
constexpr int factor_tiles = one_tile ? 1 : 2;  // of 8 factors
constexpr int slots = factor_tiles * 8;
#if __CUDA_ARCH__ < 1000
constexpr int blocks_at_once = one_tile ? 3 : 2;
#else  // compilers for others need more registers
constexpr int blocks_at_once = 2;
#endif

struct alignas(16) Warp {
    Staged staged[2];              // columns, and the next
    Left left[item_rows];          // rows in products for exponents
    Right factors[item_rows];      // and as right operands
    float given[slots][36];        // sums of 32 points on their way to memory
    unsigned listed[most_listed];  // parts of columns, and which of the rows they matter to
};

// Right operands for sums, of 16 points; `first` is a multiple of 16.
__device__ __forceinline__ void factors_of(unsigned (&to)[factor_tiles][2], const Right* from, int first) {
    const int lane = threadIdx.x % 32, row = lane % 16;
    unsigned matrices[4];
    load_matrices_transposed(matrices, from[first + row] + place_of_piece<2>(row, lane / 16) * 4);
#pragma unroll
    for (int k = 0; k < factor_tiles; k++) to[k][0] = matrices[2 * k], to[k][1] = matrices[2 * k + 1];
}

// Add the sums of 32 points, 16 and 16, from `first` on to memory, moments about the points, which are `at`; `own` to each
// total.
__device__ inline void give(Warp& warp, const float (&upper)[factor_tiles][4], const float (&lower)[factor_tiles][4],
                            const float (&at)[DIMENSIONS], float own, float* S, float* T, long long first,
                            long long rows, int d) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < factor_tiles; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            warp.given[k * 8 + 2 * t + i % 2][g + i / 2 * 8] = upper[k][i];
            warp.given[k * 8 + 2 * t + i % 2][16 + g + i / 2 * 8] = lower[k][i];
        }
    __syncwarp();
    constexpr float unit = 1.0f / (1 << int(phi_shift));
    const float total = warp.given[at_one][lane] * unit;
    add_global(S + first + lane, total + own);
#pragma unroll
    for (int k = 0; k < DIMENSIONS; k++)
        if (k < d)
            add_global(T + k * rows + first + lane,
                       (warp.given[k][lane] + warp.given[at_q + k][lane]) * unit - at[k] * total);
}

typedef float RowSums[row_tiles][factor_tiles][4];

// The pairs of the columns with the parts of the rows that have a bit; `at` is where the columns stand from the first row on.
template <bool inside>
__device__ __forceinline__ void add_chunk(RowSums& row_sums, float (&column_sums)[2][factor_tiles][4], const Warp& warp,
                                          const Staged& staged, int at, unsigned bits) {
    Columns columns;
    columns.load(staged);
    unsigned factors[2][factor_tiles][2];
#pragma unroll
    for (int f = 0; f < 2; f++) factors_of(factors[f], staged.points, f * 16);
#pragma unroll
    for (int part = 0; part < row_parts; part++) {
        if (!(bits >> part & 1)) continue;
#pragma unroll
        for (int m = 2 * part; m < 2 * part + 2; m++) {
            unsigned factors_of_rows[factor_tiles][2];
            factors_of(factors_of_rows, warp.factors, m * 16);
            float e[4][4];
            exponents(e, warp.left, m * 16, columns);
            if constexpr (inside) leave_out_own(e, m * 16 - at);
            Phi phi;
            phi_of(phi, e);
#pragma unroll
            for (int f = 0; f < 2; f++) add_phi(row_sums[m], column_sums[f], phi[f], factors[f], factors_of_rows);
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
    near_boxes_once(const float* __restrict__ local, const float* __restrict__ centres,
                    const float* __restrict__ weights, const unsigned char* __restrict__ kinds,
                    const float* __restrict__ low, const float* __restrict__ high, const float* __restrict__ parts,
                    const float2* __restrict__ threshold, float* __restrict__ S, float* __restrict__ T,
                    unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int blocks,
                    int row_items, int groups, int span, int box_axes, int d) {
    extern __shared__ uint4 memory[];
    Warp& warp = reinterpret_cast<Warp*>(memory)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Boxes boxes = {low, high, blocks}, parts_of = boxes_of_parts(parts, blocks, box_axes);
    const long long rows = (long long)blocks * block;
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int row_item = int(item % row_items), first = row_item * blocks_of_item;
        const int begin = max(int(item / row_items) * span, first), end = min(int(item / row_items + 1) * span, blocks);
        if (begin >= end || !kinds[first]) continue;
        const int blocks_there = min(blocks_of_item, blocks - first);
        // As skipping_thresholds.cu counts: items as queries, blocks as data.
        const auto reaches = [&](int item, int b) {
            return -box_distance(boxes, b, boxes, item * blocks_of_item, blocks_of_item, box_axes) >= threshold[item].x;
        };
        __syncwarp();
        const int count = list_near(warp.listed, 2 * begin, 2 * end, [&](int& part) {
            const int b = part / 2, of_b = b / blocks_of_item;
            if (!kinds[b] ||
                !(reaches(row_item, b) || reaches(of_b, first) || (blocks_there > 1 && reaches(of_b, first + 1))))
                return false;
            const float least = fminf(threshold[row_item].y, threshold[of_b].y);
            const unsigned bits = near_parts<row_parts>(parts_of, part, parts_of, first, box_axes, 0, least);
            part = with_bits(part, bits);
            return bits != 0;
        });
        if (!count) continue;

        const float* const centre = centres + first * DIM;
        put_rows(warp.left, warp.factors, local, weights, first, blocks_there, phi_shift);
        RowSums sums;
        clear(sums);
        for_each_part(warp.staged, warp.listed, count, local, centres, weights, centre,
                      [&](const Staged& staged, int part, unsigned bits) {
                          float column_sums[2][factor_tiles][4];
                          clear(column_sums);
                          const bool inside = part < 2 * (first + blocks_of_item);
                          units += 2 * __popc(bits) * (inside ? 1 : 2);
                          if (inside) {
                              add_chunk<true>(sums, column_sums, warp, staged, (part - 2 * first) * 32, bits);
                          } else {
                              add_chunk<false>(sums, column_sums, warp, staged, 0, bits);
                              float at[DIMENSIONS];
#pragma unroll
                              for (int k = 0; k < DIMENSIONS; k++) at[k] = staged.at[k][lane];
                              give(warp, column_sums[0], column_sums[1], at, 0, S, T, part * 32LL, rows, d);
                          }
                      });
#pragma unroll
        for (int m = 0; m < row_tiles; m += 2) {
            if (m >= blocks_there * 4) continue;
            const long long row = (long long)first * block + m * 16;
            Point point;
            point.load(local, row + lane);
            point.put_operands(nullptr, nullptr, 0, 0);
            give(warp, sums[m], sums[m + 1], point.at, begin == first ? 1.0f : 0.0f, S, T, row, rows, d);
        }
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
