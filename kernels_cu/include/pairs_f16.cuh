// All pairs of queries and data on the tensor cores, from points in one or two float16 terms (prepare.cu):
//
//   TERMS 4: z_i . z_j = hi_i . hi_j + lo_i . hi_j + hi_i . lo_j + lo_i . lo_j;  TERMS 3: but for the last;
//   TERMS 1: hi_i . hi_j
//   e_ij = z_i . z_j - |z_i|^2/2 - |z_j|^2/2 + log2 w_j
//
//   X_hi, X_lo   (rows, DEPTH)  float16  data; lo is not there with TERMS 1, here and below
//   X_norms      (rows, 8)      float16  -|z_j|^2/2 + log2 w_j in terms, see norms_f16.cuh; -60000 past the data
//   X_weights    (rows,)        float    log2 w_j where WEIGHTS_APART is 1: then X_norms is without it
//   Y_hi, Y_lo   (rows, DEPTH)  float16  queries
//   Y_norms      (rows, 8)      float16  -|z_i|^2/2 likewise
//   V            (n, k)         float    values, for output VALUES; k is at most COLUMNS
//   spread       (1,)           float    largest |z|^2, or null; beyond `limit` the kernel does nothing
//   split_rows                  data rows of a split, a multiple of TILE
//   shift                       bits that 2^e is scaled up by, of two float16 terms
//
// For every split of the data, in a row of its own:
//
//   reference  (splits, m)           float  a_i; outputs MOMENTS and VALUES
//   total      (splits, m)           float  S_i = sum_j 2^(e_ij - a_i + shift)
//                                           sum_j 2^(e_ij + shift) (e_ij - log2 w_j + shift); output LAPLACE
//   moments    (splits, m, DEPTH)    float  sum_j 2^(e_ij - a_i + shift) z_jk; output MOMENTS, dimensions in order
//              (splits, m, COLUMNS)  float  sum_j 2^(e_ij - a_i + shift) V_jk; output VALUES
//
// Outputs SUM and LAPLACE know no reference, a_i = 0: that saves looking for the largest exponent, and a shift keeps e
// from underflow. Sums that come out too small all the same are taken anew by differences (finish.cu tells which).
// LAPLACE has ln 2 (e - log2 w + shift) for its factor, with shift = (1 + d/2) / ln 2: one multiply-add a pair.
//
// Outputs MOMENTS and VALUES need a reference, for they round 2^e to 11 bits, or to 22 with TERMS 3 and 4. It follows
// the largest exponent from above, in whole steps: only an exponent that would not fit makes its warp raise the
// references of its rows and take the 16 columns again, which is rare.
//
// WARPS warps; each has ROW_TILES x 16 queries in registers and takes them through all data rows of a split,
// which pass through shared memory in tiles of TILE rows, fetched while the tile before is worked on. To an
// accumulator of z_i . z_j comes norm_i + norm_j - a_i + shift, by a product (norms_f16.cuh), and then the large
// products hi . hi: what is left is as small as the exponent. The tensor cores truncate all that they add to the place
// of the largest, so the products with lo should not come between: they are the first. With three products of one group
// of dimensions they are the last, where truncation is by the place of the exponent: that costs twice the error, and
// 2% less time.
//
// A fragment of 2^e is the left operand of the second product as it stands. That product is in float16 terms for
// MOMENTS (whose right operands are the data in shared memory) and in TF32 for VALUES (whose range is that of float).
// Tensor cores truncate their sums, so these last for one tile and are then added in float.
//
// With SOFT_EXP n of 16 exponentials are polynomials on the FMA pipe.
//
// Barriers: one a tile; all threads of a block pass all of them.
#pragma once
#include "norms_f16.cuh"

constexpr int threads = 32 * WARPS;
constexpr int row_tiles = ROW_TILES;
constexpr int block_queries = WARPS * ROW_TILES * 16;
constexpr int groups = DEPTH / 16;   // of 16 dimensions
constexpr bool split = TERMS > 1;
constexpr bool small_terms_first = TERMS == 4 || (TERMS == 3 && DEPTH > 16);
constexpr bool weights_apart = WEIGHTS_APART;
constexpr bool has_reference = output == MOMENTS || output == VALUES;

constexpr int columns = output == MOMENTS ? DEPTH : output == VALUES ? COLUMNS : 1;
constexpr int column_tiles = columns / 8;

// Where moments of rounded powers are divided by the total, that sums the same rounded powers: by a column of ones.
constexpr bool total_by_product = output == MOMENTS && !split;
constexpr int product_tiles = column_tiles + total_by_product;

// Bytes of a row of points in shared memory: no bank conflicts. In that of hi the row's norm follows.
constexpr int pitch = DEPTH * 2 + 16;
constexpr int place_of_norm = DEPTH * 2;
constexpr int value_pitch = COLUMNS + 4;  // floats of a row of values: likewise

// Exponents (shift included) that make a warp raise references, and how far below that it brings the largest.
constexpr float most = output == MOMENTS ? 15 : 0;
constexpr float margin = 6;

// Below every exponent of two points that the limit of the spread lets pass, whatever their weights.
constexpr float first_reference = -4096;

constexpr unsigned ones = 0x3c003c00;  // 1, 1

// From sm_100 on the compiler needs more registers for two terms.
#if __CUDA_ARCH__ >= 1000
constexpr int blocks_at_once = split && BLOCKS > 1 ? BLOCKS - 1 : BLOCKS;
#else
constexpr int blocks_at_once = BLOCKS;
#endif

// Groups of 16 data rows in a pass of the loop over them: two where registers are left.
constexpr int rows_unrolled = row_tiles == 1 && !has_reference ? 2 : 1;

struct Tile {
    alignas(16) unsigned char hi[TILE][pitch];
    alignas(16) unsigned char lo[split ? TILE : 1][pitch];
    alignas(16) float weights[weights_apart ? TILE : 4];
    alignas(16) float values[output == VALUES ? TILE : 1][value_pitch];
};

// A warp's queries and their norms as left operands.
struct Queries {
    unsigned hi[row_tiles][groups][4];
    unsigned lo[split ? row_tiles : 1][groups][4];
    unsigned norms[row_tiles][2];
};

// Call f(i) for all i < count, each by one thread; the number of calls a thread is known to the compiler.
template <int count, class F>
__device__ inline void for_each_thread(F f) {
#pragma unroll
    for (int begin = 0; begin < count; begin += threads) {
        const int i = begin + threadIdx.x;
        if (begin + threads <= count || i < count) f(i);
    }
}

// Begin to fetch data rows [first, first + TILE).
__device__ inline void fetch(Tile& to, const unsigned short* X_hi, const unsigned short* X_lo, const uint4* X_norms,
                             const float* X_weights, const float* V, long long first, long long n, int k) {
    constexpr int pieces = DEPTH / 8;  // of 16 bytes, a row
    for_each_thread<TILE * pieces>([&](int piece) {
        const int row = piece / pieces, at = piece % pieces * 16;
        copy_async_16(&to.hi[row][at], X_hi + first * DEPTH + piece * 8);
        if constexpr (split) copy_async_16(&to.lo[row][at], X_lo + first * DEPTH + piece * 8);
    });
    for_each_thread<TILE>([&](int row) { copy_async_16(&to.hi[row][place_of_norm], X_norms + first + row); });
    if constexpr (weights_apart) {
        for_each_thread<TILE / 4>(
            [&](int piece) { copy_async_16(&to.weights[piece * 4], X_weights + first + piece * 4); });
    }
    if constexpr (output == VALUES) {
        for (int i = threadIdx.x; i < TILE * columns; i += threads) {
            const int row = i / columns, column = i % columns;
            const bool exists = first + row < n && column < k;
            copy_async_4(&to.values[row][column], exists ? V + (first + row) * k + column : V, exists);
        }
    }
    copy_async_commit();
}

// Two neighbouring floats of shared memory.
__device__ inline float2 pair_at(const float* place) { return *reinterpret_cast<const float2*>(place); }

// Exponents of the warp's queries with the 16 data rows of `x` from `row` on.
__device__ inline void exponents(float (&e)[row_tiles][2][4], const Queries& y, const Tile& x, int row) {
    const int lane = threadIdx.x % 32;
    // Where the lane's rows of matrices begin, after `row`: of norms data rows 0..7, then 8..15; of points data rows
    // 0..7 with dimensions 0..7 and 8..15, then data rows 8..15. Apart from `row`, they stay in registers.
    const int of_norms = lane % 16 * pitch + place_of_norm;
    const int of_points = (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16;
    const unsigned char* const high = x.hi[0] + of_points + row * pitch;
    const unsigned char* const low = x.lo[0] + of_points + row * pitch;
    unsigned norms[2];
    load_matrices(norms, x.hi[0] + of_norms + row * pitch);

    const float zeros[4] = {0, 0, 0, 0};
    unsigned hi[groups][4];
    const auto multiply_hi = [&] {
#pragma unroll
        for (int q = 0; q < groups; q++) {
            load_matrices(hi[q], high + q * 32);
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    mma_f16_m16n8k16(e[i][half], y.hi[i][q], hi[q][2 * half], hi[q][2 * half + 1]);
        }
    };
    const auto multiply_lo = [&] {
#pragma unroll
        for (int q = 0; q < groups; q++) {
            unsigned lo[4];
            load_matrices(lo, low + q * 32);
            // More than one group is loaded twice, and not kept: registers are scarce there.
            if constexpr (groups > 1 || small_terms_first) load_matrices(hi[q], high + q * 32);
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const unsigned b0 = hi[q][2 * half], b1 = hi[q][2 * half + 1];
                    if (small_terms_first && q == 0) mma_f16_m16n8k16(e[i][half], y.lo[i][q], b0, b1, zeros);
                    else mma_f16_m16n8k16(e[i][half], y.lo[i][q], b0, b1);
                }
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    mma_f16_m16n8k16(e[i][half], y.hi[i][q], lo[2 * half], lo[2 * half + 1]);
            if constexpr (TERMS == 4) {
#pragma unroll
                for (int i = 0; i < row_tiles; i++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        mma_f16_m16n8k16(e[i][half], y.lo[i][q], lo[2 * half], lo[2 * half + 1]);
            }
        }
    };
    if constexpr (small_terms_first) multiply_lo();
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if constexpr (small_terms_first) mma_f16_m16n8k8(e[i][half], y.norms[i], norms[half], e[i][half]);
            else mma_f16_m16n8k8(e[i][half], y.norms[i], norms[half], zeros);
        }
    multiply_hi();
    if constexpr (split && !small_terms_first) multiply_lo();
}

// 2^x without the special function unit: a polynomial of the fraction, relative error 3e-6; exactly 0 below -127.
__device__ inline float exp2_polynomial(float x) {
    constexpr float magic = 12582912;  // 1.5 2^23: adding it leaves the nearest integer in the low bits
    x = fmaxf(x, -127.0f);
    const float whole = x + magic;
    const float fraction = x - (whole - magic);
    float power = fmaf(fraction, 0.009582576341927052f, 0.05590682849287987f);
    power = fmaf(fraction, power, 0.24024106562137604f);
    power = fmaf(fraction, power, 0.6931241154670715f);
    power = fmaf(fraction, power, 1.0f);
    return __uint_as_float(__float_as_uint(power) + (__float_as_uint(whole) << 23));
}

// 2^x for the place-th of the exponentials that a thread takes at a time; SOFT_EXP of 16 are polynomials.
__device__ inline float power_of_2(float x, int place) {
    return place * SOFT_EXP % 16 < SOFT_EXP ? exp2_polynomial(x) : exp2_approx(x);
}

// Sums of the thread's queries, rows g and g + 8 of each row tile.
struct Sums {
    float total[row_tiles][2];  // of the lane's columns
    float product[row_tiles][product_tiles ? product_tiles : 1][4];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < row_tiles; i++) {
            total[i][0] = total[i][1] = 0;
#pragma unroll
            for (int u = 0; u < product_tiles; u++)
#pragma unroll
                for (int c = 0; c < 4; c++) product[i][u][c] = 0;
        }
    }

    __device__ void add(const Sums& other) {
#pragma unroll
        for (int i = 0; i < row_tiles; i++) {
#pragma unroll
            for (int r = 0; r < 2; r++) total[i][r] += other.total[i][r];
#pragma unroll
            for (int u = 0; u < product_tiles; u++)
#pragma unroll
                for (int c = 0; c < 4; c++) product[i][u][c] += other.product[i][u][c];
        }
    }

    __device__ void scale(int i, int r, float factor) {
        total[i][r] *= factor;
#pragma unroll
        for (int u = 0; u < product_tiles; u++) {
            product[i][u][2 * r] *= factor;
            product[i][u][2 * r + 1] *= factor;
        }
    }
};

// Add powers times the points of 16 data rows, in float16 terms.
__device__ inline void add_points(Sums& sums, const float (&powers)[row_tiles][2][4], const Tile& x, int row) {
    const int lane = threadIdx.x % 32;
    // Of the four 8 x 8 matrices: dimensions 0..7 of data rows 0..7 and 8..15, then dimensions 8..15.
    const int row_of_lane = row + lane % 16, place_of_lane = lane / 16 * 16;
    unsigned powers_hi[row_tiles][4], powers_lo[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const float first = powers[i][p / 2][p % 2 * 2], second = powers[i][p / 2][p % 2 * 2 + 1];
            powers_hi[i][p] = pack_f16(first, second);
            if constexpr (split) {
                float rounded_first, rounded_second;
                unpack_f16(powers_hi[i][p], rounded_first, rounded_second);
                powers_lo[i][p] = pack_f16(first - rounded_first, second - rounded_second);
            }
        }
    if constexpr (total_by_product) {
#pragma unroll
        for (int i = 0; i < row_tiles; i++) mma_f16_m16n8k16(sums.product[i][column_tiles], powers_hi[i], ones, ones);
    }
#pragma unroll
    for (int q = 0; q < groups; q++) {
        unsigned hi[4], lo[4];
        load_matrices_transposed(hi, &x.hi[row_of_lane][q * 32 + place_of_lane]);
        if constexpr (split) load_matrices_transposed(lo, &x.lo[row_of_lane][q * 32 + place_of_lane]);
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float(&product)[4] = sums.product[i][2 * q + half];
                mma_f16_m16n8k16(product, powers_hi[i], hi[2 * half], hi[2 * half + 1]);
                if constexpr (split) {
                    mma_f16_m16n8k16(product, powers_lo[i], hi[2 * half], hi[2 * half + 1]);
                    mma_f16_m16n8k16(product, powers_hi[i], lo[2 * half], lo[2 * half + 1]);
                }
            }
    }
}

// One TF32 term to nearest, or two that the tensor core truncates.
__device__ inline void in_tf32(float value, unsigned& hi, unsigned& lo) {
    if constexpr (split) {
        hi = __float_as_uint(value) & 0xffffe000u;
        lo = __float_as_uint(value - __uint_as_float(hi));
    } else {
        hi = to_tf32(value);
    }
}

// Add powers times the values of 16 data rows, in TF32 terms. Of each 8 data rows 2t and 2t + 1 take the places t
// and t + 4 of the inner index, in both operands: so a fragment of powers is a left operand.
__device__ inline void add_values(Sums& sums, const float (&powers)[row_tiles][2][4], const Tile& x, int row) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned powers_hi[row_tiles][4], powers_lo[row_tiles][4];
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int p = 0; p < 4; p++)
                in_tf32(powers[i][half][p % 2 * 2 + p / 2], powers_hi[i][p], powers_lo[i][p]);
#pragma unroll
        for (int u = 0; u < column_tiles; u++) {
            unsigned hi[2], lo[2];
#pragma unroll
            for (int s = 0; s < 2; s++) in_tf32(x.values[row + half * 8 + 2 * t + s][u * 8 + g], hi[s], lo[s]);
#pragma unroll
            for (int i = 0; i < row_tiles; i++) {
                mma_tf32_m16n8k8(sums.product[i][u], powers_hi[i], hi);
                if constexpr (split) {
                    mma_tf32_m16n8k8(sums.product[i][u], powers_lo[i], hi);
                    mma_tf32_m16n8k8(sums.product[i][u], powers_hi[i], lo);
                }
            }
        }
    }
}

// Where an exponent is larger than `most`, bring the references of its warp so far up that `margin` is left, in whole
// steps, and lower none; say whether any was raised.
__device__ inline bool raise_references(const float (&e)[row_tiles][2][4], Queries& y, float (&reference)[row_tiles][2],
                                        Sums& sums, Sums& of_tile, float shift) {
    const int t = threadIdx.x % 4;
    float largest[row_tiles][2], largest_of_all = most;
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int c = 2 * r;
            largest[i][r] = fmaxf(fmaxf(e[i][0][c], e[i][0][c + 1]), fmaxf(e[i][1][c], e[i][1][c + 1]));
            largest_of_all = fmaxf(largest_of_all, largest[i][r]);
        }
    if (!__any_sync(~0u, largest_of_all > most)) return false;
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float step = fmaxf(ceilf(largest_over_lanes<4>(largest[i][r]) - most + margin), 0);
            reference[i][r] += step;
            if (t % 2) y.norms[i][r] = with_constant(y.norms[i][r], shift - reference[i][r], t / 2 + 1);
            const float factor = exp2_approx(-step);
            sums.scale(i, r, factor);
            of_tile.scale(i, r, factor);
        }
    return true;
}

// Add the pairs of the warp's queries with the 16 data rows of `x` from `row` on.
__device__ inline void add_pairs(Queries& y, float (&reference)[row_tiles][2], Sums& sums, Sums& of_tile, const Tile& x,
                                 int row, float shift) {
    const int t = threadIdx.x % 4;
    float e[row_tiles][2][4];
    do exponents(e, y, x, row);
    while (has_reference && raise_references(e, y, reference, sums, of_tile, shift));
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float2 weight;
        if constexpr (weights_apart) weight = pair_at(&x.weights[row + half * 8 + 2 * t]);
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float exponent = e[i][half][c];
                float weighted = exponent;
                if constexpr (weights_apart) weighted += c % 2 ? weight.y : weight.x;
                const float power = power_of_2(weighted, (half * row_tiles + i) * 4 + c);
                float& total = of_tile.total[i][c / 2];
                if constexpr (output == LAPLACE) total = fmaf(power, exponent, total);
                else if constexpr (!total_by_product) total += power;
                e[i][half][c] = power;
            }
    }
    if constexpr (output == MOMENTS) add_points(of_tile, e, x, row);
    if constexpr (output == VALUES) add_values(of_tile, e, x, row);
}

// Write the sums of rows g and g + 8 of row tile i, summed over the lanes that share them.
__device__ inline void write(const Sums& sums, const float (&reference)[row_tiles][2], int i, int r, long long row,
                             bool exists, float* references, float* total, float* moments) {
    const int t = threadIdx.x % 4;
    float whole = sum_over_lanes<4>(sums.total[i][r]);
    if constexpr (total_by_product) whole = sums.product[i][column_tiles][2 * r];
    if (!exists) return;
    if (t == 0) {
        total[row] = whole;
        if constexpr (has_reference) references[row] = reference[i][r];
    }
    if constexpr (output == MOMENTS) {
#pragma unroll
        for (int q = 0; q < groups; q++) {
            // In the order of prepare.cu the lane's positions of both halves are four neighbouring dimensions.
            const float(&low)[4] = sums.product[i][2 * q], (&high)[4] = sums.product[i][2 * q + 1];
            *reinterpret_cast<float4*>(&moments[row * DEPTH + q * 16 + 4 * t]) =
                make_float4(low[2 * r], low[2 * r + 1], high[2 * r], high[2 * r + 1]);
        }
    }
    if constexpr (output == VALUES) {
#pragma unroll
        for (int u = 0; u < column_tiles; u++)
            *reinterpret_cast<float2*>(&moments[row * columns + u * 8 + 2 * t]) =
                make_float2(sums.product[i][u][2 * r], sums.product[i][u][2 * r + 1]);
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
KERNEL(const unsigned short* __restrict__ X_hi, const unsigned short* __restrict__ X_lo,
       const uint4* __restrict__ X_norms, const float* __restrict__ X_weights, const unsigned short* __restrict__ Y_hi,
       const unsigned short* __restrict__ Y_lo, const uint4* __restrict__ Y_norms, const float* __restrict__ V,
       const float* __restrict__ spread, float* __restrict__ references, float* __restrict__ total,
       float* __restrict__ moments, long long n, long long m, int k, long long split_rows, float limit, float shift) {
    __shared__ Tile tiles[2];
    if (spread && !(*spread <= limit)) return;

    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const long long first_query = (long long)blockIdx.x * block_queries + warp * row_tiles * 16;
    Queries y;
    float reference[row_tiles][2];
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const long long wanted = first_query + i * 16 + g + 8 * r, row = wanted < m ? wanted : m - 1;
#pragma unroll
            for (int q = 0; q < groups; q++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const long long place = row * DEPTH + q * 16 + half * 8 + 2 * t;
                    y.hi[i][q][half * 2 + r] = *reinterpret_cast<const unsigned*>(Y_hi + place);
                    if constexpr (split) y.lo[i][q][half * 2 + r] = *reinterpret_cast<const unsigned*>(Y_lo + place);
                }
            reference[i][r] = has_reference ? first_reference : 0;
            y.norms[i][r] = left_norm_pair(Y_norms + row, t, shift - reference[i][r]);
        }

    const long long begin = blockIdx.y * split_rows, end = begin + split_rows < n ? begin + split_rows : n;
    const int tile_count = (end - begin + TILE - 1) / TILE;
    Sums sums, of_tile;
    sums.clear();
    fetch(tiles[0], X_hi, X_lo, X_norms, X_weights, V, begin, n, k);
#pragma unroll 1
    for (int at = 0; at < tile_count; at++) {
        copy_async_wait<0>();
        __syncthreads();
        if (at + 1 < tile_count)
            fetch(tiles[(at + 1) % 2], X_hi, X_lo, X_norms, X_weights, V, begin + (at + 1) * (long long)TILE, n, k);
        of_tile.clear();
#pragma unroll rows_unrolled
        for (int row = 0; row < TILE; row += 16) add_pairs(y, reference, sums, of_tile, tiles[at % 2], row, shift);
        sums.add(of_tile);
    }
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const long long query = first_query + i * 16 + g + 8 * r;
            write(sums, reference, i, r, blockIdx.y * m + query, query < m, references, total, moments);
        }
}
