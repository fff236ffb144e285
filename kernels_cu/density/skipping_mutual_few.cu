// Sums over the pairs of one data set of few dimensions that can matter, without weights, each pair once: boxes of blocks
// decide alone, and near blocks are summed whole, by products of matrices for both points of a pair.
//
//   S_i = sum_j 2^e_ij,   T_i = sum_j 2^e_ij (z_j - z_i),   e_ij = -|z_i - z_j|^2
//
// Only pairs of blocks that are not wide (skipping_points.cu); others are left to skipping_boxes.cu.
//
//   local, centres, weights, kinds, low, high   of skipping_points.cu
//   threshold   (row_items,)          float     of skipping_thresholds.cu
//   S, T        (rows,), (rows, DIM)  float     zero before
//   next, kept                                  as in skipping_units.cu; a unit counts for both its sides
//   row_items, groups, span                     items are 128 rows by `span` blocks, from the rows' own on
//
// A pair of blocks counts if it is near enough for either of its items. Coordinates are taken about the centre of the
// item's rows, u = p + q in two terms of float16; pairs that matter are so near that |u| is small. One product gives 16 x 8
// exponents: its 16 terms are p p', p q' and q p'.
//
// A warp takes an item and waits for no other. Sums of rows stay in registers until the end of the item, those of columns
// are added to memory after each 32.
//
// Per unit of 16 by 32 pairs: 4 products of 16 x 8 x 16 for exponents, 4 or 8 for the sums; 512 exponentials, for 1,024
// terms.
//
// Dynamic shared memory: a Warp for each warp. No barriers but of a warp. Macros: DIMENSIONS (3 to 5), DIM (the pitch of
// `local`).
#include "skipping_chunks.cuh"
#include "skipping_mutual.cuh"

constexpr int threads = 128;
constexpr int blocks_of_item = 2;
constexpr int item_rows = blocks_of_item * block;
constexpr int row_tiles = item_rows / 16;
constexpr int most_listed = 128;                       // blocks: a span is at most so long
constexpr int factor_tiles = DIMENSIONS <= 3 ? 1 : 2;  // of 8 factors
constexpr int slots = factor_tiles * 8;
#if __CUDA_ARCH__ < 1000
constexpr int blocks_at_once = DIMENSIONS <= 3 ? 3 : 2;
#else  // compilers for others need more registers
constexpr int blocks_at_once = 2;
#endif
constexpr float furthest = 1000;  // of a coordinate: far from all that matters

// Where the terms of a right operand stand: p, q and one among the factors, p again beyond or, of more dimensions, between.
constexpr int at_q = DIMENSIONS <= 3 ? 4 : DIMENSIONS, at_p_again = 2 * at_q, at_one = DIMENSIONS <= 3 ? 3 : 15;

typedef unsigned Operand[8];  // 16 float16 numbers of a point, in two pieces

struct alignas(16) Warp {
    Operand left[item_rows];     // rows in products for exponents
    Operand factors[item_rows];  // and as right operands
    Operand columns[block];      // of a block
    float of_rows[item_rows];    // minus squares, and phi_shift
    float of_columns[block];
    float given[chunk_points][slots + 1];  // sums on their way to memory
    unsigned listed[most_listed];
};

__device__ inline void put(Operand* to, int row, const float (&terms)[16]) {
#pragma unroll
    for (int piece = 0; piece < 2; piece++) {
        uint4 words;
        words.x = pack_f16(terms[piece * 8], terms[piece * 8 + 1]);
        words.y = pack_f16(terms[piece * 8 + 2], terms[piece * 8 + 3]);
        words.z = pack_f16(terms[piece * 8 + 4], terms[piece * 8 + 5]);
        words.w = pack_f16(terms[piece * 8 + 6], terms[piece * 8 + 7]);
        *reinterpret_cast<uint4*>(to[row] + place_of_piece<2>(row, piece) * 4) = words;
    }
}

// The coordinates of a point about a centre, from those about the centre of its block.
struct Point {
    float at[DIMENSIONS];

    __device__ void load(const float* local, long long row) {
#pragma unroll
        for (int k = 0; k < DIM; k += 4) {
            const float4 four = *reinterpret_cast<const float4*>(local + row * DIM + k);
            const float some[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (k + e < DIMENSIONS) at[k + e] = some[e];
        }
    }

    __device__ void move(const float* from, const float* to) {
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++) at[k] = fminf(fmaxf(at[k] + (from[k] - to[k]), -furthest), furthest);
    }

    // Put it into shared memory as a right operand and, for rows, as a left one; returns minus its square.
    __device__ float put_operands(Operand* right, Operand* left, int row) const {
        float of_right[16] = {}, of_left[16] = {}, square = 0;
        of_right[at_one] = 1;
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++) {
            float p, q, unused;
            unpack_f16(pack_f16(at[k], 0), p, unused);
            unpack_f16(pack_f16(at[k] - p, 0), q, unused);
            of_right[k] = of_right[at_p_again + k] = p;
            of_right[at_q + k] = q;
            of_left[k] = of_left[at_q + k] = 2 * p;
            of_left[at_p_again + k] = 2 * q;
            square = fmaf(p + q, p + q, square);
        }
        put(right, row, of_right);
        if (left) put(left, row, of_left);
        return -square;
    }
};

// Right operands for sums, of 16 points; `first` is a multiple of 16.
__device__ __forceinline__ void factors_of(unsigned (&to)[factor_tiles][2], const Operand* from, int first) {
    const int lane = threadIdx.x % 32, row = lane % 16;
    unsigned matrices[4];
    load_matrices_transposed(matrices, from[first + row] + place_of_piece<2>(row, lane / 16) * 4);
#pragma unroll
    for (int k = 0; k < factor_tiles; k++) to[k][0] = matrices[2 * k], to[k][1] = matrices[2 * k + 1];
}

// Add the sums of 32 points, 16 and 16, from `first` on to memory, moments about the points; `own` to each total.
__device__ inline void give(Warp& warp, const float (&upper)[factor_tiles][4], const float (&lower)[factor_tiles][4],
                            const Operand* points, float own, float* S, float* T, long long first, int d) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < factor_tiles; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            warp.given[g + i / 2 * 8][k * 8 + 2 * t + i % 2] = upper[k][i];
            warp.given[16 + g + i / 2 * 8][k * 8 + 2 * t + i % 2] = lower[k][i];
        }
    __syncwarp();
    constexpr float unit = 1.0f / (1 << int(phi_shift));
    const float* const of = warp.given[lane];
    const float total = of[at_one] * unit;
    add_global(S + first + lane, total + own);
    const unsigned short* const terms = reinterpret_cast<const unsigned short*>(points[lane]);
#pragma unroll
    for (int k = 0; k < DIMENSIONS; k++) {
        const auto term = [&](int slot) {
            float value, unused;
            unpack_f16(terms[place_of_piece<2>(lane, slot / 8) * 8 + slot % 8], value, unused);
            return value;
        };
        if (k < d)
            add_global(T + (first + lane) * DIM + k,
                       (of[k] + of[at_q + k]) * unit - (term(k) + term(at_q + k)) * total);
    }
}

typedef float RowSums[row_tiles][factor_tiles][4];

// All pairs of the item's rows with 32 columns of the staged block; `at` is where these stand from the first row on.
__device__ __forceinline__ void add_chunk(RowSums& row_sums, float (&column_sums)[2][factor_tiles][4], const Warp& warp,
                                          int half, bool inside, int at) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    unsigned right[2][4], factors[2][factor_tiles][2];
    float norms[4][2];
#pragma unroll
    for (int f = 0; f < 2; f++) {
        const int row = lane / 16 * 8 + lane % 8;
        load_matrices(right[f], warp.columns[half * 32 + f * 16 + row] + place_of_piece<2>(row, lane / 8 % 2) * 4);
        factors_of(factors[f], warp.columns, half * 32 + f * 16);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 two = *reinterpret_cast<const float2*>(&warp.of_columns[half * 32 + j * 8 + 2 * t]);
        norms[j][0] = two.x, norms[j][1] = two.y;
    }
    const auto add = [&](int m) {
        unsigned left[4], factors_of_rows[factor_tiles][2];
        load_matrices(left, warp.left[m * 16 + lane % 16] + place_of_piece<2>(lane % 16, lane / 16) * 4);
        factors_of(factors_of_rows, warp.factors, m * 16);
        const float of_rows[2] = {warp.of_rows[m * 16 + g], warp.of_rows[m * 16 + g + 8]};
        float e[4][4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) e[j][i] = norms[j][i % 2] + of_rows[i / 2];
            mma_f16_m16n8k16(e[j], left, right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
        if (inside) leave_out_own(e, m * 16 - at);
        Phi phi;
        phi_of(phi, e);
#pragma unroll
        for (int f = 0; f < 2; f++) add_phi(row_sums[m], column_sums[f], phi[f], factors[f], factors_of_rows);
    };
#pragma unroll
    for (int m = 0; m < row_tiles; m += 4) {
        if (!computed_here(1))
            break;  // never: without a branch operands of all tiles are loaded first, and registers spill
#pragma unroll
        for (int i = 0; i < 4; i++) add(m + i);
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
    near_boxes_once(const float* __restrict__ local, const float* __restrict__ centres,
                    const float* __restrict__ weights, const unsigned char* __restrict__ kinds,
                    const float* __restrict__ low, const float* __restrict__ high, const float* __restrict__ threshold,
                    float* __restrict__ S, float* __restrict__ T, unsigned long long* __restrict__ next,
                    unsigned long long* __restrict__ kept, int blocks, int row_items, int groups, int span,
                    int box_axes, int d) {
    extern __shared__ uint4 memory[];
    Warp& warp = reinterpret_cast<Warp*>(memory)[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Boxes boxes = {low, high, blocks};
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        const unsigned long long item = take_item(next);
        if (item >= items) break;
        const int first = int(item % row_items) * blocks_of_item;
        const int begin = max(int(item / row_items) * span, first), end = min(int(item / row_items + 1) * span, blocks);
        const int blocks_there = min(blocks_of_item, blocks - first);
        if (begin >= end || !kinds[first] || !kinds[first + blocks_there - 1]) continue;
        // As skipping_thresholds.cu counts: items as queries, blocks as data.
        const auto reaches = [&](int item, int b) {
            return -box_distance(boxes, b, boxes, item, blocks_of_item, box_axes) >= threshold[item / blocks_of_item];
        };
        __syncwarp();
        const int count = list_near(warp.listed, begin, end, [&](int& b) {
            return kinds[b] && (reaches(first, b) || reaches(b & -blocks_of_item, first) ||
                                (blocks_there > 1 && reaches(b & -blocks_of_item, first + 1)));
        });
        if (!count) continue;

        const float* const centre = centres + first * DIM;
#pragma unroll 1
        for (int r = lane; r < item_rows; r += 32) {
            const long long row = (long long)first * block + min(r, blocks_there * block - 1);
            Point point;
            point.load(local, row);
            const float square = point.put_operands(warp.factors, warp.left, r);
            warp.of_rows[r] = r < blocks_there * block ? square + weights[row] + phi_shift : -1e30f;
        }
        RowSums sums;
        clear(sums);
        Point coming[2];
        float weight[2];
        const auto fetch = [&](int b) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                coming[i].load(local, (long long)b * block + i * 32 + lane);
                weight[i] = weights[(long long)b * block + i * 32 + lane];
            }
        };
        fetch(warp.listed[0]);
#pragma unroll 1
        for (int c = 0; c < count; c++) {
            const int b = warp.listed[c];
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 2; i++) {
                coming[i].move(centres + b * DIM, centre);
                const int row = i * 32 + lane;
                warp.of_columns[row] = coming[i].put_operands(warp.columns, nullptr, row) + weight[i];
            }
            __syncwarp();
            if (c + 1 < count) fetch(warp.listed[c + 1]);
            const bool inside = b < first + blocks_of_item;
            units += row_tiles * 2 * (inside ? 1 : 2);
#pragma unroll 1
            for (int half = 0; half < 2; half++) {
                float column_sums[2][factor_tiles][4];
                clear(column_sums);
                add_chunk(sums, column_sums, warp, half, inside, (b - first) * block + half * 32);
                if (inside) continue;
                give(warp, column_sums[0], column_sums[1], warp.columns + half * 32, 0, S, T,
                     (long long)b * block + half * 32, d);
            }
        }
#pragma unroll
        for (int m = 0; m < row_tiles; m += 2) {
            if (m >= blocks_there * 4) continue;
            give(warp, sums[m], sums[m + 1], warp.factors + m * 16, begin == first ? 1.0f : 0.0f, S, T,
                 (long long)first * block + m * 16, d);
        }
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
