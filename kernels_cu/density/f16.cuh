// Sums over all pairs of queries and data on the tensor cores, from points in one or two float16 terms (operands.cu):
//
//   TERMS 4: z_i . z_j = hi_i . hi_j + lo_i . hi_j + hi_i . lo_j + lo_i . lo_j;  TERMS 3: without the last;
//   TERMS 1: hi_i . hi_j
//   e_ij = z_i . z_j - |z_i|^2/2 - |z_j|^2/2 + log2 w_j
//
//   X_hi, X_lo   (rows, DEPTH)  float16  data; with TERMS 1 there is no lo, here and below
//   X_norms      (rows, 8)      float16  -|z_j|^2/2 + log2 w_j in terms, see norms_f16.cuh; -60000 past the data
//   X_weights    (rows,)        float    log2 w_j if WEIGHTS_APART is 1: then X_norms does not include it
//   Y_hi, Y_lo   (rows, DEPTH)  float16  queries
//   Y_norms      (rows, 8)      float16  -|z_i|^2/2 likewise
//   V_hi, V_lo   (blocks, rows, COLUMNS)  bfloat16  blocks of columns of the values, for output VALUES: see values.cu
//   radius2      (1,)           float    scaled squared radius, the largest |z|^2, or null; beyond `limit` the sums are
//                                        void, and none is so small that another kernel would take it again
//   split_rows                  data rows of a split, a multiple of TILE
//   shift                       2^e is scaled up by so many bits, of two float16 terms
//   rows                        of V_hi and V_lo
//
// Results, one row for each split of the data:
//
//   reference  (splits, m)           float  a_i; with HAS_REFERENCE, else a_i = 0
//   total      (splits, m)           float  S_i = sum_j 2^(e_ij - a_i + shift)
//   moments    (splits, m, DEPTH)    float  sum_j 2^(e_ij - a_i + shift) z_jk; output MOMENTS, dimensions in order
//              (splits, m)           float  sum_j 2^(e_ij + shift) (e_ij - log2 w_j + shift); output LAPLACE
//              (blocks, splits, m, COLUMNS)  float  sum_j 2^(e_ij - a_i + shift) V_jk; output VALUES
//
// Outputs SUM and LAPLACE have no reference, a_i = 0. So no largest exponent is needed, and the shift keeps 2^e from
// underflow. Sums that come out too small all the same are summed again from differences (finish.cu says which).
// The factor of LAPLACE is ln 2 (e - log2 w + shift), with shift = (1 + d/2) / ln 2: one multiply-add a pair, beside
// the addition to the total.
//
// Grid: x over queries, y over splits of the data, z over blocks of columns of the values.
//
// Outputs MOMENTS and VALUES need a reference, because they round 2^e to 16-bit terms. The reference follows the
// largest exponent from above, in whole steps. Only if an exponent does not fit, which is rare, a warp raises the
// references of its rows and computes the 16 columns again. Self-interaction (Y = X) without weights needs no reference:
// the largest exponent is that of a point with itself.
//
// WARPS warps; each keeps ROW_TILES x 16 queries in registers and goes through all data rows of a split. The data pass
// through shared memory in tiles of TILE rows, the next one fetched during the work on this one. The accumulator of
// z_i . z_j also sums norm_i + norm_j - a_i + shift, by a matrix product (norms_f16.cuh). Together with the large
// products hi . hi the sum is then as small as the exponent. Tensor cores truncate every term to the last bit of the
// largest one. So the products with lo come last; but if hi . hi itself takes several steps, they come first and
// truncate nothing. With TERMS 4 hi is such that all sums of hi . hi and norms are exact (operands.cu).
//
// A fragment of 2^e lies in registers as the left operand of the second matrix product. MOMENT_TERMS is the number of
// terms of its operands:
//
//   MOMENTS  in float16; the right operands are the data in shared memory. With one term the total sums the same
//            rounded 2^e, which makes moments / total more accurate; the total itself is then accurate to 2^-12.
//   VALUES   in bfloat16, which has the range of float. Two terms keep 17 bits of both factors. With the lowest of
//            their four products the worst error of a term is 2^-16; TERMS 1 needs less and leaves this product out.
//
// Tensor cores truncate their sums, so a sum covers one tile and is then added in float.
//
// With SOFT_EXP n, n of 16 exponentials are polynomials on the FMA pipe of the CUDA cores.
//
// Barriers: one a tile; all threads of a block pass all of them.
#pragma once
#include "norms_f16.cuh"

constexpr int threads = 32 * WARPS;
constexpr int row_tiles = ROW_TILES;
constexpr int block_queries = WARPS * ROW_TILES * 16;
constexpr int groups = DEPTH / 16;   // of 16 dimensions
constexpr bool split = TERMS > 1;
constexpr bool small_terms_first = TERMS == 3 && DEPTH > 16;
constexpr bool weights_apart = WEIGHTS_APART;
constexpr bool has_reference = HAS_REFERENCE;

constexpr int columns = output == MOMENTS ? DEPTH : output == VALUES ? COLUMNS : 0;
constexpr int column_tiles = columns / 8;
constexpr bool moments_split = MOMENT_TERMS > 1;
constexpr bool lowest_product = output == VALUES && split;

// If moments of rounded 2^e are divided by the total, the total sums the same rounded numbers, by a column of ones.
constexpr bool total_by_product = output == MOMENTS && !moments_split;
constexpr int product_tiles = column_tiles + total_by_product;

// Bytes of a row of so many 16-bit numbers in shared memory: no bank conflicts. In a row of hi the norm follows.
__device__ constexpr int pitch_of(int width) { return width * 2 + 16; }
constexpr int pitch = pitch_of(DEPTH);
constexpr int place_of_norm = DEPTH * 2;

// A warp raises references for a larger exponent (shift included); the largest is then so far below this.
constexpr float most = output == MOMENTS ? 15 : 0;
constexpr float margin = 6;

// Below every exponent of two points within the limit of the scaled squared radius, whatever their weights.
constexpr float first_reference = -4096;

constexpr unsigned ones = 0x3c003c00;  // 1, 1

// From sm_100 on the compiler needs more registers for two terms.
#if __CUDA_ARCH__ >= 1000
constexpr int blocks_at_once = split && BLOCKS > 1 ? BLOCKS - 1 : BLOCKS;
#else
constexpr int blocks_at_once = BLOCKS;
#endif

// Groups of 16 data rows in a pass of the loop over them: two where registers are left.
constexpr int rows_unrolled = row_tiles == 1 && columns == 0 ? 2 : 1;

struct Tile {
    alignas(16) unsigned char hi[TILE][pitch];
    alignas(16) unsigned char lo[split ? TILE : 1][pitch];
    alignas(16) float weights[weights_apart ? TILE : 4];
    alignas(16) unsigned char values_hi[output == VALUES ? TILE : 1][pitch_of(COLUMNS)];
    alignas(16) unsigned char values_lo[output == VALUES ? TILE : 1][pitch_of(COLUMNS)];
};

// A warp's queries and their norms as left operands.
struct Queries {
    unsigned hi[row_tiles][groups][4];
    unsigned lo[split ? row_tiles : 1][groups][4];
    unsigned norms[row_tiles][2];
};

// Call f(i) for all i < count, each by one thread; the compiler knows the number of calls of a thread.
template <int count, class F>
__device__ inline void for_each_thread(F f) {
#pragma unroll
    for (int begin = 0; begin < count; begin += threads) {
        const int i = begin + threadIdx.x;
        if (begin + threads <= count || i < count) f(i);
    }
}

// The data in memory, as a block reads them.
struct Data {
    const unsigned short *X_hi, *X_lo;
    const uint4* X_norms;
    const float* X_weights;
    const unsigned short *V_hi, *V_lo;
};

// Begin to fetch TILE rows of `width` numbers from row `first` on.
template <int width>
__device__ inline void fetch_rows(unsigned char (*to)[pitch_of(width)], const unsigned short* from, long long first) {
    constexpr int pieces = width / 8;  // of 16 bytes, a row
    for_each_thread<TILE * pieces>([&](int piece) {
        copy_async_16(&to[piece / pieces][piece % pieces * 16], from + first * width + piece * 8);
    });
}

// Begin to fetch data rows [first, first + TILE).
__device__ inline void fetch(Tile& to, const Data& data, long long first) {
    fetch_rows<DEPTH>(to.hi, data.X_hi, first);
    if constexpr (split) fetch_rows<DEPTH>(to.lo, data.X_lo, first);
    for_each_thread<TILE>([&](int row) { copy_async_16(&to.hi[row][place_of_norm], data.X_norms + first + row); });
    if constexpr (weights_apart) {
        for_each_thread<TILE / 4>(
            [&](int piece) { copy_async_16(&to.weights[piece * 4], data.X_weights + first + piece * 4); });
    }
    if constexpr (output == VALUES) {
        fetch_rows<COLUMNS>(to.values_hi, data.V_hi, first);
        fetch_rows<COLUMNS>(to.values_lo, data.V_lo, first);
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
    float total[row_tiles][2];                              // of the lane's columns
    float corrected[output == LAPLACE ? row_tiles : 1][2];  // of the same powers times the factors of LAPLACE
    float product[row_tiles][product_tiles ? product_tiles : 1][4];

    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < row_tiles; i++) {
            total[i][0] = total[i][1] = 0;
            if constexpr (output == LAPLACE) corrected[i][0] = corrected[i][1] = 0;
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
            for (int r = 0; r < 2; r++) {
                total[i][r] += other.total[i][r];
                if constexpr (output == LAPLACE) corrected[i][r] += other.corrected[i][r];
            }
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

// Numbers of the second product, two to a register: bfloat16 for VALUES, float16 for MOMENTS.
__device__ inline unsigned pack(float low, float high) {
    if constexpr (output == VALUES) return pack_bf16(low, high);
    else return pack_f16(low, high);
}

__device__ inline void unpack(unsigned packed, float& low, float& high) {
    if constexpr (output == VALUES) unpack_bf16(packed, low, high);
    else unpack_f16(packed, low, high);
}

__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (output == VALUES) mma_bf16_m16n8k16(c, a, b0, b1);
    else mma_f16_m16n8k16(c, a, b0, b1);
}

// Add 2^e times the points, or times the values, of 16 data rows.
__device__ inline void add_products(Sums& sums, const float (&powers)[row_tiles][2][4], const Tile& x, int row) {
    const int lane = threadIdx.x % 32;
    // Of the four 8 x 8 matrices: columns 0..7 of data rows 0..7 and 8..15, then columns 8..15.
    const int place_of_lane = (row + lane % 16) * pitch_of(columns) + lane / 16 * 16;
    const unsigned char* const right_hi = (output == VALUES ? x.values_hi[0] : x.hi[0]) + place_of_lane;
    const unsigned char* const right_lo = (output == VALUES ? x.values_lo[0] : x.lo[0]) + place_of_lane;
    unsigned powers_hi[row_tiles][4], powers_lo[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const float first = powers[i][p / 2][p % 2 * 2], second = powers[i][p / 2][p % 2 * 2 + 1];
            powers_hi[i][p] = pack(first, second);
            if constexpr (moments_split) {
                float rounded_first, rounded_second;
                unpack(powers_hi[i][p], rounded_first, rounded_second);
                powers_lo[i][p] = pack(first - rounded_first, second - rounded_second);
            }
        }
    if constexpr (total_by_product) {
#pragma unroll
        for (int i = 0; i < row_tiles; i++) multiply(sums.product[i][column_tiles], powers_hi[i], ones, ones);
    }
#pragma unroll
    for (int q = 0; q < columns / 16; q++) {
        unsigned hi[4], lo[4];
        load_matrices_transposed(hi, right_hi + q * 32);
        if constexpr (moments_split) load_matrices_transposed(lo, right_lo + q * 32);
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float(&product)[4] = sums.product[i][2 * q + half];
                multiply(product, powers_hi[i], hi[2 * half], hi[2 * half + 1]);
                if constexpr (moments_split) {
                    multiply(product, powers_lo[i], hi[2 * half], hi[2 * half + 1]);
                    multiply(product, powers_hi[i], lo[2 * half], lo[2 * half + 1]);
                    if constexpr (lowest_product) multiply(product, powers_lo[i], lo[2 * half], lo[2 * half + 1]);
                }
            }
    }
}

// If an exponent is larger than `most`, raise the references of its warp in whole steps until `margin` is left; lower
// none. Return whether any was raised.
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
                if constexpr (!total_by_product) of_tile.total[i][c / 2] += power;
                if constexpr (output == LAPLACE) {
                    float& corrected = of_tile.corrected[i][c / 2];
                    corrected = fmaf(power, exponent, corrected);
                }
                e[i][half][c] = power;
            }
    }
    if constexpr (columns > 0) add_products(of_tile, e, x, row);
}

// Write the sums of rows g and g + 8 of row tile i, summed over the lanes that share them. Blocks of columns find the
// same references and totals.
__device__ inline void write(const Sums& sums, const float (&reference)[row_tiles][2], int i, int r, long long row,
                             bool exists, float* references, float* total, float* moments) {
    const int t = threadIdx.x % 4;
    float whole = sum_over_lanes<4>(sums.total[i][r]);
    if constexpr (total_by_product) whole = sums.product[i][column_tiles][2 * r];
    float corrected = 0;
    if constexpr (output == LAPLACE) corrected = sum_over_lanes<4>(sums.corrected[i][r]);
    if (!exists) return;
    if (t == 0 && (output != VALUES || blockIdx.z == 0)) {
        total[row] = whole;
        if constexpr (output == LAPLACE) moments[row] = corrected;
        if constexpr (has_reference) references[row] = reference[i][r];
    }
#pragma unroll
    for (int q = 0; q < columns / 16; q++) {
        // In the order of column_order.cuh the lane's positions of both halves are four neighbouring columns.
        const float(&low)[4] = sums.product[i][2 * q], (&high)[4] = sums.product[i][2 * q + 1];
        *reinterpret_cast<float4*>(&moments[row * columns + q * 16 + 4 * t]) =
            make_float4(low[2 * r], low[2 * r + 1], high[2 * r], high[2 * r + 1]);
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
KERNEL(const unsigned short* __restrict__ X_hi, const unsigned short* __restrict__ X_lo,
       const uint4* __restrict__ X_norms, const float* __restrict__ X_weights, const unsigned short* __restrict__ Y_hi,
       const unsigned short* __restrict__ Y_lo, const uint4* __restrict__ Y_norms,
       const unsigned short* __restrict__ V_hi, const unsigned short* __restrict__ V_lo,
       const float* __restrict__ radius2, float* __restrict__ references, float* __restrict__ total,
       float* __restrict__ moments, long long n, long long m, long long rows, long long split_rows, float limit,
       float shift) {
    __shared__ Tile tiles[2];
    if (radius2 && !(*radius2 <= limit)) {
        for (int q = threadIdx.x; q < block_queries; q += threads) {
            const long long query = (long long)blockIdx.x * block_queries + q;
            if (query < m) total[blockIdx.y * m + query] = 1;
        }
        return;
    }

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
    Data data{X_hi, X_lo, X_norms, X_weights, V_hi, V_lo};
    if constexpr (output == VALUES) {
        data.V_hi += blockIdx.z * rows * columns;
        data.V_lo += blockIdx.z * rows * columns;
        moments += blockIdx.z * m * gridDim.y * columns;
    }
    Sums sums, of_tile;
    sums.clear();
    fetch(tiles[0], data, begin);
#pragma unroll 1
    for (int at = 0; at < tile_count; at++) {
        copy_async_wait<0>();
        __syncthreads();
        if (at + 1 < tile_count) fetch(tiles[(at + 1) % 2], data, begin + (at + 1) * (long long)TILE);
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
