// Points in the order of their codes, in blocks of 64, with what tells which pairs of blocks can matter:
//
//   z = (x - centre) scale, scale = sqrt(log2 e / 2) / h, so that -|z_i - z_j|^2 is an exponent in bits
//
//   X            (n, d)            STORAGE     points
//   order        (n,)              long long   which of them comes first, second, ...
//   log_weights  (n,)              double      natural logarithms, at most 0, or null: all weights 1
//   centre       (d,)              double
//   axes         (box_axes, d)     float       orthonormal directions of the boxes
//
// With rows = 64 blocks, the last of them repeated without weight:
//
//   source       (rows,)           int         where the point stands in X
//   local        (rows, DIM)       float       z about the centre of the block, zeros past d
//   weights      (rows,)           float       log2 w
//   centres      (blocks, DIM)     float       a centre of two blocks, b and b ^ 1: zero, which many blocks have in common,
//                                              or the mean of their z, a multiple of 1/64
//   low, high    (box_axes, blocks) float      boxes along the axes
//   parts        (2, box_axes, 2 blocks) float the same of 32 points each, low and high; or null
//   most         (blocks,)         float       largest log2 w
//   reach        (blocks,)         float       largest absolute coordinate of `local`
//   kinds        (blocks,)         unsigned char  of `local`, by the largest |local|^2; without GROUPS of both blocks:
//     0 wide     beyond `most_square`: differences are rounded too much for sums of many pairs
//     1 own      up to `most_square`
//     2 common   the same, about the centre zero; only with GROUPS
//     3 fine     common, of both blocks up to `fine_square`; only with GROUPS
//
// and, unless GROUPS is 0, operands of matrix products in float16, GROUPS = DIM / 16 rounded up (skipping_units.cu). 16 points
// by 16 dimensions are a fragment, 32 lanes of 4 registers. Lane 4 g + t has of points g and g + 8 the dimensions 2 t and
// 2 t + 1, say a and b, and 2 t + 8 and 2 t + 9, say c and d; a left operand has them in this order, of right operands the
// dimensions of one point come first:
//
//   halves, left_..., right_...  (blocks, 4, GROUPS, 32, 4)  unsigned; `halves` are right operands
//     halves                                   for screening: sqrt(2) z about `centre`, times `shrink`, a power of two
//     first, rest                              `local` in two terms: a multiple of 1/64, and what that leaves
//   norms        (blocks, 32, 4)   float16     shrink^2 (-|v|^2/2 + log2 w) of two neighbours, twice; v: sqrt(2) z as the
//                                              halves have it
//   squares      (rows,)           float       |v|^2
//   across       (blocks, 4, DIM / 8, 2, 32, 2)  unsigned  `local` rounded to float16, and what that leaves, for products
//                                              over points: lane 4 g + t has of dimension g the points 2 t, 2 t + 1 and
//                                              2 t + 8, 2 t + 9
//   exponents    (rows, 2)         float       log2 w - |local|^2 in two terms: half of minus the square of the first term of
//                                              the coordinates, and what the whole of it leaves
//   chunks       (blocks, 2)       Chunk       of common blocks alone (skipping_chunks.cuh)
//
// In blocks that are not wide, products and squares of first terms add up exactly in float, and `local` is what the two
// terms hold. Any array of operands may be null.
//
// One block of 64 threads for 64 points, a thread a point. Of up to 16 dimensions a thread holds its point in registers:
// the axes of the boxes need each coordinate 16 times, and a warp whose lanes load from 32 rows takes 32 transactions.
// Barriers: three, passed by all threads.
//
// Macros: STORAGE; DIM, at least d; GROUPS.
#include "ptx.cuh"
#include "log_sum_exp.cuh"
#include "skipping_chunks.cuh"

constexpr int block = 64;
constexpr float no_weight = -1e30f;
constexpr float most_half = 60000;  // coordinates beyond are far from everything that float16 is good for
constexpr int most_box_axes = 16;
constexpr float grid = 64;        // first terms of coordinates are multiples of 1 / grid
constexpr float most_local = 31;  // so that these have 11 bits
constexpr bool held = DIM <= 16;
constexpr int unrolled = held ? DIM : 1, unrolled_pairs = held ? 8 : 1, blocks_together = held ? 8 : 12;

// z of a point, zeros past d.
struct Point {
    const STORAGE* from;
    const double* centre;
    double scale;
    int d;
    double z[held ? DIM : 1];

    __device__ Point(const STORAGE* from, const double* centre, double scale, int d)
        : from(from), centre(centre), scale(scale), d(d) {
        if constexpr (held) {
#pragma unroll
            for (int k = 0; k < DIM; k++) z[k] = loaded(k);
        }
    }
    __device__ double loaded(int k) const { return k < d ? (from[k] - centre[k]) * scale : 0.0; }
    __device__ double operator[](int k) const {
        if constexpr (held) return z[k];
        else return loaded(k);
    }
};

// Coordinates of the thread's row of `local`, which are there once they are kept.
struct Row {
    float* memory;
    float values[held ? DIM : 1];

    __device__ void set(int k, float value) {
        if constexpr (held) values[k] = value;
        else memory[k] = value;
    }
    __device__ void keep() const {
        if constexpr (held) {
#pragma unroll
            for (int k = 0; k < DIM; k += 4)
                *reinterpret_cast<float4*>(memory + k) = make_float4(values[k], values[k + 1], values[k + 2], values[k + 3]);
        }
    }
    __device__ float operator[](int k) const {
        if constexpr (held) return values[k];
        else return memory[k];
    }
};

#if GROUPS > 0
// Dimensions 16 q + 2 w and the next of point j of block b, in both orders.
__device__ inline void put(unsigned* left, unsigned* right, unsigned pair, int b, int j, int q, int w) {
    const long long lane = ((((long long)b * 4 + j / 16) * GROUPS + q) * 32 + j % 8 * 4 + w % 4) * 4;
    if (left) left[lane + w / 4 * 2 + j / 8 % 2] = pair;
    if (right) right[lane + j / 8 % 2 * 2 + w / 4] = pair;
}

// Point j of block b, as skipping_chunks.cuh describes it. Of fine blocks the first term is the nearest float16 number: then
// the product of second terms is too small to matter. Of others it is a multiple of 1/64, whose products add up exactly.
__device__ inline void put_chunk(unsigned* chunks, const Row& local, float weight, bool fine_block, int b, int j) {
    unsigned* const chunk = chunks + (b * 2LL + j / chunk_points) * (sizeof(Chunk) / 4);
    const int row = j % chunk_points;
    float coarse = 0, fine = 0;
#pragma unroll unrolled_pairs
    for (int w = 0; w < GROUPS * 8; w++) {
        const float x = 2 * w < DIM ? local[2 * w] : 0, y = 2 * w < DIM ? local[2 * w + 1] : 0;
        float x_hi, y_hi, x_lo, y_lo;
        const unsigned hi = fine_block ? pack_f16(x, y) : pack_f16(rintf(x * grid) / grid, rintf(y * grid) / grid);
        unpack_f16(hi, x_hi, y_hi);
        const unsigned lo = pack_f16(x - x_hi, y - y_hi);
        unpack_f16(lo, x_lo, y_lo);
        const int place = word_of_chunk(row, w);
        chunk[place] = hi;
        chunk[words_of_term + place] = lo;
        coarse -= x_hi * x_hi + y_hi * y_hi;
        fine -= (2 * x_hi + x_lo) * x_lo + (2 * y_hi + y_lo) * y_lo;
    }
    float* const norms = reinterpret_cast<float*>(chunk + 2 * words_of_term);
    norms[2 * row] = coarse;
    norms[2 * row + 1] = weight + fine;
}
#endif

extern "C" __global__ void __launch_bounds__(block, blocks_together)
    order_points(const STORAGE* __restrict__ X, const long long* __restrict__ order,
                 const double* __restrict__ log_weights, const double* __restrict__ centre,
                 const float* __restrict__ axes, int* __restrict__ source, float* __restrict__ local,
                 float* __restrict__ weights, float* __restrict__ centres, float* __restrict__ low,
                 float* __restrict__ high, float* __restrict__ parts, float* __restrict__ most,
                 float* __restrict__ reach, unsigned* __restrict__ halves, unsigned* __restrict__ left_first,
                 unsigned* __restrict__ left_rest, unsigned* __restrict__ right_first,
                 unsigned* __restrict__ right_rest, unsigned* __restrict__ across, unsigned short* __restrict__ norms,
                 float* __restrict__ squares, float* __restrict__ exponents, unsigned char* __restrict__ kinds,
                 unsigned* __restrict__ chunks, float most_square, float fine_square, float shrink, long long n,
                 int blocks, int d, int box_axes, double scale) {
    __shared__ float sums[2][DIM], lows[2][most_box_axes], highs[2][most_box_axes], mosts[2], reaches[2], lengths[2];
    __shared__ float furthest_of[2], squares_of[2];
    const int b = blockIdx.x, j = threadIdx.x, warp = j / 32, lane = j % 32;
    const long long row = (long long)b * block + j;
    const bool exists = row < n;
    const long long place = order[exists ? row : n - 1], from = place * d;
    source[row] = int(place);

    const long long beside = row ^ block;  // a point of the block that has the same centre
    const Point point(X + from, centre, scale, d);
    const Point other(X + order[beside < n ? beside : n - 1] * d, centre, scale, d);
    const int columns = held ? DIM : d;  // zeros of points that are held cost less than a loop of unknown length
    float largest = 0, own_square = 0, other_square = 0;
#pragma unroll unrolled
    for (int k = 0; k < columns; k++) {
        const float z = float(point[k]), z_other = float(other[k]);
        const float sum = sum_over_lanes<32>(z + z_other);
        if (lane == 0) sums[warp][k] = sum;
        largest = fmaxf(largest, fmaxf(fabsf(z), fabsf(z_other)));
        own_square += z * z;
        other_square += z_other * z_other;
    }
    const float square_of_pair = largest_over_lanes<32>(fmaxf(own_square, other_square));
    largest = largest_over_lanes<32>(largest);
    if (lane == 0) {
        furthest_of[warp] = largest;
        squares_of[warp] = square_of_pair;
    }
    __syncthreads();
    const float largest_square = fmaxf(squares_of[0], squares_of[1]);
    const bool common =
        GROUPS > 0 && largest_square <= most_square && fmaxf(furthest_of[0], furthest_of[1]) <= most_local;
    float furthest = 0, length2 = 0, other_length2 = 0;
    Row own{local + row * DIM};
#pragma unroll unrolled
    for (int k = 0; k < DIM; k++) {
        const float middle = common || k >= d ? 0.0f : rintf((sums[0][k] + sums[1][k]) * (grid / (2 * block))) / grid;
        const float about = float(point[k] - middle), of_other = float(other[k] - middle);
        if (j == 0) centres[b * DIM + k] = middle;
        own.set(k, about);
        furthest = fmaxf(furthest, fabsf(about));
        length2 += about * about;
        other_length2 += of_other * of_other;
    }
    float weight = exists ? 0 : no_weight;
    if (exists && log_weights) weight = fmaxf(float(log_weights[place] * log2_e), no_weight);
    weights[row] = weight;

    for (int a = 0; a < box_axes; a++) {
        double along = 0;
#pragma unroll unrolled
        for (int k = 0; k < columns; k++)
            if (k < d) along += point[k] * axes[a * d + k];
        const float p = float(along), slack = fabsf(p) * 2e-7f;
        const float least = least_over_lanes<32>(p - slack), largest = largest_over_lanes<32>(p + slack);
        if (lane == 0) {
            lows[warp][a] = least;
            highs[warp][a] = largest;
            if (parts) {
                parts[a * 2LL * blocks + 2 * b + warp] = least;
                parts[(box_axes + a) * 2LL * blocks + 2 * b + warp] = largest;
            }
        }
    }
    const float largest_weight = largest_over_lanes<32>(weight), largest_reach = largest_over_lanes<32>(furthest);
    const float largest_length = largest_over_lanes<32>(GROUPS > 0 ? length2 : fmaxf(length2, other_length2));
    if (lane == 0) {
        mosts[warp] = largest_weight;
        reaches[warp] = largest_reach;
        lengths[warp] = largest_length;
    }
    __syncthreads();
    if (j < box_axes) {
        low[(long long)j * blocks + b] = fminf(lows[0][j], lows[1][j]);
        high[(long long)j * blocks + b] = fmaxf(highs[0][j], highs[1][j]);
    }
    const bool narrow =
        fmaxf(lengths[0], lengths[1]) <= most_square && (GROUPS == 0 || fmaxf(reaches[0], reaches[1]) <= most_local);
    const int kind = !narrow ? 0 : !common ? 1 : largest_square <= fine_square ? fine_kind : common_kind;
    if (j == 0) {
        most[b] = fmaxf(mosts[0], mosts[1]);
        reach[b] = fmaxf(reaches[0], reaches[1]);
        kinds[b] = kind;
    }

#if GROUPS > 0
    float square = 0;
#pragma unroll 1
    for (int q = 0; q < GROUPS; q++) {
#pragma unroll
        for (int w = 0; w < 8; w++) {
            float z[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int k = q * 16 + 2 * w + e;
                const double given = k < DIM ? point[k] * (1.4142135623730951 * shrink) : 0.0;
                z[e] = fminf(fmaxf(float(given), -most_half), most_half);
            }
            const unsigned pair = pack_f16(z[0], z[1]);
            unpack_f16(pair, z[0], z[1]);
            square += z[0] * z[0] + z[1] * z[1];
            put(nullptr, halves, pair, b, j, q, w);
        }
    }
    const unsigned short norm = pack_f16(-0.5f * square + weight * shrink * shrink, 0) & 0xffffu;
    unsigned short* const of_pair = norms + (long long)b * 128 + j / 2 * 4 + j % 2;
    of_pair[0] = of_pair[2] = norm;
    squares[row] = square / (shrink * shrink);

    float coarse = 0, fine = 0;
#pragma unroll 1
    for (int q = 0; q < GROUPS; q++) {
#pragma unroll
        for (int w = 0; w < 8; w++) {
            const int k = q * 16 + 2 * w;
            if (k >= DIM) {  // DIM 8 has half a group
                put(left_first, right_first, 0, b, j, q, w);
                put(left_rest, right_rest, 0, b, j, q, w);
                continue;
            }
            const float x = own[k], y = own[k + 1];
            const float x_near = fminf(fmaxf(x, -most_local), most_local),
                        y_near = fminf(fmaxf(y, -most_local), most_local);
            float x_hi, y_hi, x_lo, y_lo;
            const unsigned hi = pack_f16(rintf(x_near * grid) / grid, rintf(y_near * grid) / grid);
            unpack_f16(hi, x_hi, y_hi);
            const unsigned lo = pack_f16(x_near - x_hi, y_near - y_hi), rounded = pack_f16(x_near, y_near);
            unpack_f16(lo, x_lo, y_lo);
            put(left_first, right_first, hi, b, j, q, w);
            put(left_rest, right_rest, lo, b, j, q, w);
            if (narrow) {
                own.set(k, x_hi + x_lo);
                own.set(k + 1, y_hi + y_lo);
            }
            coarse -= x_hi * x_hi + y_hi * y_hi;
            fine -= (2 * x_hi + x_lo) * x_lo + (2 * y_hi + y_lo) * y_lo;
            float x_rounded, y_rounded;
            unpack_f16(rounded, x_rounded, y_rounded);
            const unsigned left = pack_f16(x_near - x_rounded, y_near - y_rounded);
            // Point j is 2 t + e of the first or the second 8 of its 16.
            const long long tile = (((long long)b * 4 + j / 16) * (DIM / 8) + k / 8) * 128;
            for (int e = 0; e < 2 && across; e++) {
                unsigned short* const place = reinterpret_cast<unsigned short*>(across) +
                                              (tile + ((k + e) % 8 * 4 + j % 8 / 2) * 2 + j / 8 % 2) * 2 + j % 2;
                place[0] = rounded >> (16 * e) & 0xffffu;
                place[128] = left >> (16 * e) & 0xffffu;
            }
        }
    }
    exponents[2 * row] = 0.5f * coarse;
    exponents[2 * row + 1] = weight + fine;
    if (chunks && kind >= common_kind) put_chunk(chunks, own, weight, kind == fine_kind, b, j);
#endif
    own.keep();
}
