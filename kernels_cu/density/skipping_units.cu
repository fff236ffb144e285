// Sums over the pairs that can matter, found in three steps: boxes of blocks, one product in float16 a pair, and the sums
// themselves by differences.
//
//   e_ij = log2 w_j - |z_i - z_j|^2, relative to the query's reference b_i
//   S_i = sum_j 2^(e_ij - b_i) (constant - slope |z_i - z_j|^2)
//   T_i = sum_j 2^(e_ij - b_i) (z_j - z_i)       output MOMENTS; with REAL double in the units of the data
//
//   Y_..., X_...   queries and data as skipping_points.cu orders them
//   limits, always, reference, threshold          of skipping_bounds.cu
//   S, T           (rows,), (rows, DIM)  REAL     zero before
//   next           (1,)    unsigned long long     zero before: items that warps have taken
//   kept           (1,)    unsigned long long     zero before: units that were summed
//   row_items, groups, spans, span                items are 16 ROW_TILES queries by `spans` times `span` blocks of data
//
// A warp takes an item at a time and waits for no other. It lists the blocks of data whose boxes are near enough to the
// box of its queries; multiplies, for each of them, 16 x 8 tiles in float16 and keeps one bit for each unit of 16 queries
// by 32 data, whether any pair reaches its limit; and sums the units that are left:
//
//   tight blocks   by products of two float16 terms of the coordinates about the blocks' centres, see `Products`
//   others         from differences of coordinates about the blocks' centres, in float, a query to two lanes
//   blocks so wide that such coordinates are rounded too much, and REAL double: from the points themselves, in double
//
// Products are for REAL float: of output SUM, and of MOMENTS where no reference is needed (`products`).
//
// Per pair: GROUPS / 64 products of 16 x 8 x 16 to screen, 4 GROUPS / 128 and an exponential where it is summed.
//
// No barriers but of a warp. Macros: KERNEL, OUTPUT, REAL, REAL_BITS, DIM, GROUPS, ROW_TILES (4 or 8).
#include "skipping_screen.cuh"

// Moments of so many columns at a time; the pairs are taken again for others.
constexpr int moment_columns = output != MOMENTS ? 1 : in_double ? (DIM <= 16 ? DIM : 8) : (DIM < 64 ? DIM : 16);
constexpr int sweeps = output != MOMENTS ? 1 : DIM / moment_columns;
constexpr bool keeps_differences = DIM <= 32 && !in_double;
constexpr int columns_at_once = DIM <= 16 ? 2 : 1;
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
constexpr int blocks_at_once = DIM <= 16 && !(in_double && output == MOMENTS) ? 3 : 2;
#else  // compilers for others need more registers
constexpr int blocks_at_once = 2;
#endif

// For each listed block a bit for each unit: bit row_tiles * half + row tile. Returns the number of bits.
__device__ inline unsigned screen(Listed& listed, int count, const unsigned* Y_halves, const unsigned short* limits,
                                  const unsigned char* always, const unsigned* X_halves, const unsigned short* norms,
                                  int first_row_block, int tiles) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    Rows rows;
    rows.load(Y_halves, first_row_block, tiles);
    unsigned limit[row_tiles][2], sure = 0;
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        const int tile = first_row_block * 4 + (m < tiles ? m : 0);
        limit[m][0] = limits[tile * 16LL + g] * 0x10001u;
        limit[m][1] = limits[tile * 16LL + g + 8] * 0x10001u;
        if (m < tiles && always[tile]) sure |= ((1u << row_tiles) + 1) << m;
    }
    const unsigned there = ((1u << tiles) - 1) * ((1u << row_tiles) + 1);
    unsigned kept = 0;
#pragma unroll 1
    for (int p = 0; p < count; p++) {
        const long long from = listed.blocks[p];
        unsigned bits = 0;
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            unsigned largest[row_tiles][2];
            largest_products<false>(largest, rows, X_halves, norms, from * 4 + half * 2);
#pragma unroll
            for (int m = 0; m < row_tiles; m++) {
                const unsigned over = larger_f16x2(subtract_f16x2(largest[m][0], limit[m][0]),
                                                   subtract_f16x2(largest[m][1], limit[m][1]));
                if ((over & 0x80008000u) != 0x80008000u) bits |= 1u << (half * row_tiles + m);
            }
        }
        if (__any_sync(~0u, bits)) bits = any_bit(bits);
        bits = (bits | sure) & there;
        if (lane == 0) listed.masks[p] = bits;
        kept += __popc(bits);
    }
    __syncwarp();
    return kept;
}

// Sums of a query, which two lanes share.
struct Sums {
    Real total;
    Real moments[moment_columns];

    __device__ void clear() {
        total = 0;
#pragma unroll
        for (int k = 0; k < moment_columns; k++) moments[k] = 0;
    }
};

__device__ inline void four(float (&to)[4], const float* from) {
    const float4 f = *reinterpret_cast<const float4*>(from);
    to[0] = f.x, to[1] = f.y, to[2] = f.z, to[3] = f.w;
}

// Coordinates k to k + 3 of a query about the centre of a block of data.
__device__ inline void shifted(float (&y)[4], const Points& Y, const Points& X, long long row, long long column, int k) {
    float own[4], here[4], there[4];
    four(own, Y.local + row * DIM + k);
    four(here, Y.centres + row / block * DIM + k);
    four(there, X.centres + column / block * DIM + k);
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = own[e] + (here[e] - there[e]);
}

// Add 16 data of a block from `column` on, from coordinates about the centre of their block. Up to 32 dimensions the query and
// differences stay in registers; of more, squares of several data do, and coordinates are read again for the moments.
__device__ inline void add_local(Sums& sums, const Points& Y, const Points& X, const float* weights, long long row,
                                 long long column, float reference, Factor factor, int first_moment) {
    const auto add = [&](float weight, float square) {
        const float power = exp2_approx((weight - reference) - square);
        sums.total = fmaf(power, output == SUM ? fmaf(-factor.slope, square, factor.constant) : 1.0f, sums.total);
        return power;
    };
    if constexpr (keeps_differences) {
        float y[DIM];
#pragma unroll
        for (int k = 0; k < DIM; k += 4) {
            float some[4];
            shifted(some, Y, X, row, column, k);
#pragma unroll
            for (int e = 0; e < 4; e++) y[k + e] = some[e];
        }
#pragma unroll 1
        for (int c = 0; c < 16; c += columns_at_once) {
            float difference[columns_at_once][DIM], square[columns_at_once][2] = {};
#pragma unroll
            for (int u = 0; u < columns_at_once; u++)
#pragma unroll
                for (int k = 0; k < DIM; k += 4) {
                    float x[4];
                    if (DIM > 16 && k % 16 == 0) keep_order();  // or loads of all coordinates come first, and registers spill
                    four(x, X.local + (column + c + u) * DIM + k);
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        difference[u][k + e] = x[e] - y[k + e];
                        square[u][e % 2] = fmaf(difference[u][k + e], difference[u][k + e], square[u][e % 2]);
                    }
                }
#pragma unroll
            for (int u = 0; u < columns_at_once; u++) {
                const float power = add(weights[column + c + u], square[u][0] + square[u][1]);
                if constexpr (output == MOMENTS) {
#pragma unroll
                    for (int k = 0; k < moment_columns; k++)
                        sums.moments[k] = fmaf(power, difference[u][k], sums.moments[k]);
                }
            }
        }
    } else {
        constexpr int columns = 8, chunk = 8;  // data at once, and dimensions
#pragma unroll 1
        for (int first = 0; first < 16; first += columns) {
            float square[columns] = {}, power[columns];
#pragma unroll 1
            for (int k0 = 0; k0 < DIM; k0 += chunk) {
#pragma unroll
                for (int k = k0; k < k0 + chunk; k += 4) {
                    float y[4];
                    shifted(y, Y, X, row, column, k);
#pragma unroll
                    for (int c = 0; c < columns; c++) {
                        float x[4];
                        four(x, X.local + (column + first + c) * DIM + k);
#pragma unroll
                        for (int e = 0; e < 4; e++) square[c] = fmaf(x[e] - y[e], x[e] - y[e], square[c]);
                    }
                }
            }
#pragma unroll
            for (int c = 0; c < columns; c++) power[c] = add(weights[column + first + c], square[c]);
            if constexpr (output == MOMENTS) {
#pragma unroll
                for (int k = 0; k < moment_columns; k += 4) {
                    float y[4];
                    keep_order();
                    shifted(y, Y, X, row, column, first_moment + k);
#pragma unroll
                    for (int c = 0; c < columns; c++) {
                        float x[4];
                        four(x, X.local + (column + first + c) * DIM + first_moment + k);
#pragma unroll
                        for (int e = 0; e < 4; e++) sums.moments[k + e] = fmaf(power[c], x[e] - y[e], sums.moments[k + e]);
                    }
                }
            }
        }
    }
}

// The same from the points themselves, in double.
__device__ inline void add_exact(Sums& sums, const Points& Y, const Points& X, const float* weights, long long row,
                                 long long column, float reference, Factor factor, int first_moment, int d,
                                 double scale) {
    constexpr int columns = 8, chunk = 4;  // data at once, and dimensions
    const long long own = (long long)Y.source[row] * d;
#pragma unroll 1
    for (int first = 0; first < 16; first += columns) {
        double square[columns];
#pragma unroll
        for (int c = 0; c < columns; c++) square[c] = 0;
#pragma unroll 1
        for (int k = 0; k < d; k += chunk) {
            double y[chunk];
#pragma unroll
            for (int e = 0; e < chunk; e++) y[e] = k + e < d ? coordinate(Y, own, k + e) : 0.0;
#pragma unroll
            for (int c = 0; c < columns; c++) {
                const long long x = (long long)X.source[column + first + c] * d;
#pragma unroll
                for (int e = 0; e < chunk; e++) {
                    const double apart = k + e < d ? coordinate(X, x, k + e) - y[e] : 0.0;
                    square[c] = fma(apart, apart, square[c]);
                }
            }
        }
        Real power[columns];
#pragma unroll
        for (int c = 0; c < columns; c++) {
            square[c] *= scale * scale;
            power[c] = power_of_2(Real(double(weight_of(X, weights, column + first + c)) - double(reference) - square[c]));
            sums.total += power[c] * (output == SUM ? Real(factor.constant - factor.slope * square[c]) : Real(1));
        }
        if constexpr (output == MOMENTS) {
            const double unit = in_double ? 1.0 : scale;
#pragma unroll
            for (int k = 0; k < moment_columns; k++) {
                const int at = first_moment + k;
                if (at >= d) continue;
                const double y = coordinate(Y, own, at);
#pragma unroll
                for (int c = 0; c < columns; c++) {
                    const long long x = (long long)X.source[column + first + c] * d;
                    sums.moments[k] += power[c] * Real((coordinate(X, x, at) - y) * unit);
                }
            }
        }
    }
}

#if REAL_BITS == 32
// Sums by matrix products. With the coordinates u of queries about their blocks' centre c (two blocks have one), those of data about c', and
// o = c - c', e_ij = 2 u_i . u_j - |u_i + o|^2 + (log2 w_j - |u_j|^2 + 2 o . u_j). Of u = p + q, in two float16 terms, all
// that is made of p and o alone, halved, is a multiple of 2^-13 below 2^11, so float32 accumulators add it up exactly,
// however large it is beside e; the rest is small. A tile of 2^e is rounded to float16, scaled by 2^13, and multiplied by the data about c.
struct Operands {
    const unsigned *Y_first, *Y_rest, *X_first, *X_rest;
    const uint2* across;
    const float2 *Y_exponents, *X_exponents;
    const unsigned char *Y_tight, *X_tight;
};

constexpr int tiles_at_once = DIM <= 32 ? 2 : 1;  // of 16 queries
constexpr int step = DIM <= 32 ? 32 : 16;                          // data at once
constexpr int column_tiles = step / 8;
constexpr int moment_tiles = DIM < 64 ? DIM / 8 : 8;               // of 8 dimensions, at once; products are taken again for others
constexpr int product_sweeps = output == MOMENTS ? DIM / 8 / moment_tiles : 1;
constexpr float moment_shift = 13;
constexpr unsigned ones = 0x3c003c00;

template <bool chosen>
struct Choice {
    static constexpr bool value = chosen;
};

struct Products {
    float total[tiles_at_once][2];  // of output SUM: of the lane's columns
    float moments[output == MOMENTS ? tiles_at_once : 1][output == MOMENTS ? moment_tiles + 1 : 1][4];  // last: the total

    __device__ void clear() {
#pragma unroll
        for (int m = 0; m < tiles_at_once; m++) {
            total[m][0] = total[m][1] = 0;
            if constexpr (output == MOMENTS) {
#pragma unroll
                for (int k = 0; k <= moment_tiles; k++)
#pragma unroll
                    for (int i = 0; i < 4; i++) moments[m][k][i] = 0;
            }
        }
    }
};

__device__ inline void fragment(unsigned (&to)[4], const unsigned* from, long long number) {
    const uint4 f = *reinterpret_cast<const uint4*>(from + (number * 32 + threadIdx.x % 32) * 4);
    to[0] = f.x, to[1] = f.y, to[2] = f.z, to[3] = f.w;
}

// Exponents that the queries of a row tile have of themselves: rows g and g + 8, in two terms.
template <bool together>
__device__ inline void exponents_of_rows(float2 (&of)[2], const Points& Y, const Points& X, const Operands& operands,
                                         long long first_row, long long from) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if constexpr (together) {
        of[0] = operands.Y_exponents[first_row + g];
        of[1] = operands.Y_exponents[first_row + g + 8];
        return;
    }
    float coarse[2] = {}, fine[2] = {};
    const float* const here = Y.centres + first_row / block * DIM;
    const float* const there = X.centres + from * DIM;
#pragma unroll
    for (int q = 0; q < GROUPS; q++) {
        unsigned p[4], rest[4];
        if constexpr (GROUPS > 2) keep_order();
        fragment(p, operands.Y_first, first_row / 16 * GROUPS + q);
        fragment(rest, operands.Y_rest, first_row / 16 * GROUPS + q);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int k = q * 16 + i / 2 * 8 + 2 * t, r = i % 2;
            if (q * 16 + i / 2 * 8 >= DIM) continue;
            const float2 own = *reinterpret_cast<const float2*>(here + k);
            const float2 other = *reinterpret_cast<const float2*>(there + k);
            float high[2], low[2];
            unpack_f16(p[i], high[0], high[1]);
            unpack_f16(rest[i], low[0], low[1]);
            const float x = high[0] + (own.x - other.x), y = high[1] + (own.y - other.y);
            coarse[r] = fmaf(x, x, fmaf(y, y, coarse[r]));
            fine[r] = fmaf(fmaf(2.0f, x, low[0]), low[0], fmaf(fmaf(2.0f, y, low[1]), low[1], fine[r]));
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        coarse[r] += __shfl_xor_sync(~0u, coarse[r], 1);
        fine[r] += __shfl_xor_sync(~0u, fine[r], 1);
        of[r] = make_float2(-0.5f * (coarse[r] + __shfl_xor_sync(~0u, coarse[r], 2)), -(fine[r] + __shfl_xor_sync(~0u, fine[r], 2)));
    }
}

// The same of a datum: the lane's of 32.
__device__ inline float2 exponent_of_column(const Points& Y, const Points& X, const Operands& operands, int row_block,
                                            long long from, long long column) {
    const float2 own = operands.X_exponents[column];
    float coarse = 0, fine = 0;
#pragma unroll 4
    for (int k = 0; k < DIM; k += 4) {
        float here[4], there[4], u[4];
        four(here, Y.centres + (long long)row_block * DIM + k);
        four(there, X.centres + from * DIM + k);
        four(u, X.local + column * DIM + k);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float offset = here[e] - there[e], p = rintf(u[e] * 64.0f) * (1.0f / 64);
            coarse = fmaf(offset, p, coarse);
            fine = fmaf(offset, u[e] - p, fine);
        }
    }
    return make_float2(own.x + coarse, fmaf(2.0f, fine, own.y));
}

// Points 16 n16 and on in dimensions 8 k to 8 k + 7, about the centre of the queries' block, as right operands: rounded to
// float16, and what that leaves.
template <bool together>
__device__ inline void points_of(uint2 (&x)[2], const Operands& operands, const Points& Y, const Points& X, int row_block,
                                 long long from, long long n16, int k) {
    const uint2* const place = operands.across + (n16 * (DIM / 8) + k) * 64 + threadIdx.x % 32;
    x[0] = place[0];
    x[1] = place[32];
    if constexpr (together) return;
    // The offset is a multiple of 1/64; what its sum with a rounded point loses goes to the rest.
    const int dimension = k * 8 + threadIdx.x % 32 / 4;
    const float offset = X.centres[from * DIM + dimension] - Y.centres[(long long)row_block * DIM + dimension];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned& rounded = i ? x[0].y : x[0].x;
        unsigned& rest = i ? x[1].y : x[1].x;
        float high[2], low[2], sum[2];
        unpack_f16(rounded, high[0], high[1]);
        unpack_f16(rest, low[0], low[1]);
        const float moved[2] = {high[0] + offset, high[1] + offset};
        rounded = pack_f16(moved[0], moved[1]);
        unpack_f16(rounded, sum[0], sum[1]);
        rest = pack_f16(low[0] + (moved[0] - sum[0]), low[1] + (moved[1] - sum[1]));
    }
}

// Sum the marked units of row tiles [first_tile, first_tile + tiles_at_once) of the item, in tight blocks. With `together` all
// centres are the same.
template <bool together>
__device__ inline void add_products(Products& sums, const Listed& listed, int count, float2* of_columns, const Points& Y,
                                    const Points& X, const Operands& operands, const float* reference,
                                    int first_row_block, int first_tile, int first_k, unsigned allowed,
                                    Factor factor) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const long long first_row = (first_row_block * 4LL + first_tile) * 16;
    constexpr unsigned all = (1u << tiles_at_once) - 1;
#pragma unroll 1
    for (int p = 0; p < count; p++) {
        const unsigned mask = listed.masks[p];
        const long long from = listed.blocks[p];
        const unsigned wanted[2] = {mask >> first_tile & allowed, mask >> (row_tiles + first_tile) & allowed};
        if (!(wanted[0] | wanted[1]) || !operands.X_tight[from]) continue;
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            const unsigned bits = half ? wanted[1] : wanted[0];
            if (!bits) continue;
            if constexpr (!together) {
                __syncwarp();
                of_columns[lane] = exponent_of_column(Y, X, operands, first_row_block, from, from * block + half * 32 + lane);
                __syncwarp();
            }
#pragma unroll 1
            for (int part = 0; part < 32; part += step) {
                constexpr int fragments = step / 16;
                const long long n16 = from * 4 + half * 2 + part / 16;
                constexpr int held = GROUPS <= 2 ? GROUPS : 1;  // groups in registers for all row tiles
                unsigned hi[held][fragments][4], lo[held][fragments][4];
#pragma unroll
                for (int q = 0; q < (GROUPS <= 2 ? GROUPS : 0); q++)
#pragma unroll
                    for (int f = 0; f < fragments; f++) {
                        fragment(hi[q][f], operands.X_first, (n16 + f) * GROUPS + q);
                        fragment(lo[q][f], operands.X_rest, (n16 + f) * GROUPS + q);
                    }
                float4 of_column[column_tiles];  // of columns 2 t and 2 t + 1
#pragma unroll
                for (int j = 0; j < column_tiles; j++)
                    of_column[j] = *reinterpret_cast<const float4*>(
                        together ? operands.X_exponents + n16 * 16 + j * 8 + 2 * t
                                          : of_columns + part + j * 8 + 2 * t);
                constexpr bool keeps_points = output == MOMENTS && DIM <= 16;  // in registers for all row tiles
                uint2 points[keeps_points ? fragments : 1][keeps_points ? moment_tiles : 1][2];
                if constexpr (keeps_points) {
#pragma unroll
                    for (int f = 0; f < fragments; f++)
#pragma unroll
                        for (int k = 0; k < moment_tiles; k++)
                            points_of<together>(points[f][k], operands, Y, X, first_row_block, from, n16 + f, first_k + k);
                }
                const auto add_tile = [&](int m) {
                    float2 of_rows[2];
                    exponents_of_rows<together>(of_rows, Y, X, operands, first_row + m * 16, from);
                    float base[2] = {moment_shift, moment_shift};
                    if constexpr (output == SUM) {
                        base[0] = -reference[first_row + m * 16 + g];
                        base[1] = -reference[first_row + m * 16 + g + 8];
                    }
                    of_rows[0].y += base[0];
                    of_rows[1].y += base[1];
                    float e[column_tiles][4];
#pragma unroll
                    for (int j = 0; j < column_tiles; j++) {
                        e[j][0] = of_column[j].x + of_rows[0].x;
                        e[j][1] = of_column[j].z + of_rows[0].x;
                        e[j][2] = of_column[j].x + of_rows[1].x;
                        e[j][3] = of_column[j].z + of_rows[1].x;
                    }
                    const long long tile = (first_row_block * 4LL + first_tile + m) * GROUPS;
                    // Products of first terms come first, and are exact; the sum is then as small as the exponent.
                    const auto multiply = [&](bool firsts, int q) {
                        unsigned a_hi[4], a_lo[4];
                        const int h = GROUPS <= 2 ? q : 0;
                        if constexpr (GROUPS > 2) keep_order();  // or operands of all groups are loaded first, and spill
                        if constexpr (GROUPS > 2) {
                            fragment(hi[0][0], operands.X_first, n16 * GROUPS + q);
                            if (!firsts) fragment(lo[0][0], operands.X_rest, n16 * GROUPS + q);
                        }
                        fragment(a_hi, operands.Y_first, tile + q);
                        if (firsts) {
#pragma unroll
                            for (int j = 0; j < column_tiles; j++)
                                mma_f16_m16n8k16(e[j], a_hi, hi[h][j / 2][j % 2 * 2], hi[h][j / 2][j % 2 * 2 + 1]);
                            return;
                        }
                        fragment(a_lo, operands.Y_rest, tile + q);
#pragma unroll
                        for (int j = 0; j < column_tiles; j++)
                            mma_f16_m16n8k16(e[j], a_lo, hi[h][j / 2][j % 2 * 2], hi[h][j / 2][j % 2 * 2 + 1]);
#pragma unroll
                        for (int j = 0; j < column_tiles; j++)
                            mma_f16_m16n8k16(e[j], a_hi, lo[h][j / 2][j % 2 * 2], lo[h][j / 2][j % 2 * 2 + 1]);
#pragma unroll
                        for (int j = 0; j < column_tiles; j++)
                            mma_f16_m16n8k16(e[j], a_lo, lo[h][j / 2][j % 2 * 2], lo[h][j / 2][j % 2 * 2 + 1]);
                    };
#pragma unroll
                    for (int q = 0; q < GROUPS; q++) multiply(true, q);
#pragma unroll
                    for (int q = 0; q < GROUPS; q++) multiply(false, q);
#pragma unroll
                    for (int j = 0; j < column_tiles; j++) {
                        e[j][0] = fmaf(2.0f, e[j][0], of_column[j].y + of_rows[0].y);
                        e[j][1] = fmaf(2.0f, e[j][1], of_column[j].w + of_rows[0].y);
                        e[j][2] = fmaf(2.0f, e[j][2], of_column[j].y + of_rows[1].y);
                        e[j][3] = fmaf(2.0f, e[j][3], of_column[j].w + of_rows[1].y);
                    }
                    if constexpr (output == SUM) {
                        // Without weights -|z_i - z_j|^2 is e less the reference; with weights the slope is 0.
                        const float constant[2] = {fmaf(-factor.slope, base[0], factor.constant),
                                                   fmaf(-factor.slope, base[1], factor.constant)};
#pragma unroll
                        for (int j = 0; j < column_tiles; j++)
#pragma unroll
                            for (int i = 0; i < 4; i++) {
                                const float times = fmaf(factor.slope, e[j][i], constant[i / 2]);
                                sums.total[m][i / 2] = fmaf(exp2_approx(e[j][i]), times, sums.total[m][i / 2]);
                            }
                    } else {
                        unsigned powers[fragments][4];
#pragma unroll
                        for (int j = 0; j < column_tiles; j++) {
#pragma unroll
                            for (int i = 0; i < 4; i++) e[j][i] = exp2_approx(e[j][i]);
                            powers[j / 2][j % 2 * 2] = pack_f16(e[j][0], e[j][1]);
                            powers[j / 2][j % 2 * 2 + 1] = pack_f16(e[j][2], e[j][3]);
                        }
#pragma unroll
                        for (int f = 0; f < fragments; f++) {
#pragma unroll
                            for (int k = 0; k < moment_tiles; k++) {
                                if constexpr (keeps_points) {
                                    mma_f16_m16n8k16(sums.moments[m][k], powers[f], points[f][k][0].x, points[f][k][0].y);
                                    mma_f16_m16n8k16(sums.moments[m][k], powers[f], points[f][k][1].x, points[f][k][1].y);
                                } else {
                                    keep_order();
                                    uint2 x[2];
                                    points_of<together>(x, operands, Y, X, first_row_block, from, n16 + f, first_k + k);
                                    mma_f16_m16n8k16(sums.moments[m][k], powers[f], x[0].x, x[0].y);
                                    mma_f16_m16n8k16(sums.moments[m][k], powers[f], x[1].x, x[1].y);
                                }
                            }
                            mma_f16_m16n8k16(sums.moments[m][moment_tiles], powers[f], ones, ones);
                        }
                    }
                };
                if (output == SUM && bits == all) {  // without a branch between tiles, which then overlap
#pragma unroll
                    for (int m = 0; m < tiles_at_once; m++) add_tile(m);
                } else {
#pragma unroll
                    for (int m = 0; m < tiles_at_once; m++)
                        if (bits >> m & 1) add_tile(m);
                }
            }
        }
    }
}

// Add what products left of a row tile to the results; moments become those about the query.
__device__ inline void finish_products(const Products& sums, int m, const Operands& operands, const float* reference,
                                       float* S, float* T, long long first_row, int first_k, int d) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if constexpr (output == SUM) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float total = sums.total[m][r];
            total += __shfl_xor_sync(~0u, total, 1);
            total += __shfl_xor_sync(~0u, total, 2);
            if (t == 0) add_to(S + first_row + g + 8 * r, total);
        }
    } else {
        float scale[2], total[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const long long row = first_row + g + 8 * r;
            scale[r] = exp2_approx(-moment_shift - reference[row]);
            total[r] = sums.moments[m][moment_tiles][2 * r];
            if (t == 0 && first_k == 0) add_to(S + row, total[r] * scale[r]);
        }
#pragma unroll
        for (int q = 0; q < (moment_tiles + 1) / 2; q++) {
            unsigned hi[4], lo[4];
            if constexpr (GROUPS > 2) keep_order();
            fragment(hi, operands.Y_first, first_row / 16 * GROUPS + first_k / 2 + q);
            fragment(lo, operands.Y_rest, first_row / 16 * GROUPS + first_k / 2 + q);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int k = q * 2 + i / 2, r = i % 2;
                if (k >= moment_tiles) continue;
                float u[2], v[2];
                unpack_f16(hi[i], u[0], u[1]);
                unpack_f16(lo[i], v[0], v[1]);

#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float moment = sums.moments[m][k][2 * r + e] - total[r] * (u[e] + v[e]);
                    const int column = (first_k + k) * 8 + 2 * t + e;
                    if (column < d) add_to(T + (first_row + g + 8 * r) * DIM + column, moment * scale[r]);
                }
            }
        }
    }
}
#endif

extern "C" __global__ void __launch_bounds__(threads, blocks_at_once)
KERNEL(const void* __restrict__ Y_given, const int* __restrict__ Y_source, const float* __restrict__ Y_local, const float* __restrict__ Y_centres,
       const float* __restrict__ Y_reach, const float* __restrict__ Y_low, const float* __restrict__ Y_high,
       const unsigned* __restrict__ Y_halves, const unsigned short* __restrict__ limits,
       const unsigned char* __restrict__ always, const float* __restrict__ reference, const float* __restrict__ threshold,
       const void* __restrict__ X_given, const int* __restrict__ X_source, const float* __restrict__ X_local, const float* __restrict__ X_centres,
       const float* __restrict__ X_reach, const float* __restrict__ X_low, const float* __restrict__ X_high,
       const float* __restrict__ X_weights, const float* __restrict__ most, const double* __restrict__ log_weights,
       const unsigned* __restrict__ X_halves,
       const unsigned short* __restrict__ norms,
       const unsigned* __restrict__ Y_first, const unsigned* __restrict__ Y_rest, const float* __restrict__ Y_exponents,
       const unsigned char* __restrict__ Y_tight, const unsigned* __restrict__ X_first,
       const unsigned* __restrict__ X_rest, const unsigned* __restrict__ across, const float* __restrict__ X_exponents,
       const unsigned char* __restrict__ X_tight, Real* __restrict__ S, Real* __restrict__ T,
       unsigned long long* __restrict__ next, unsigned long long* __restrict__ kept, int query_blocks, int data_blocks,
       int row_items, int groups, int spans, int span, int d, int box_axes, int in_doubles, int together,
       int products, double constant, double slope,
       double scale) {
    __shared__ Listed listed_of_warp[threads / 32];
    Listed& listed = listed_of_warp[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const Points Y = {Y_given, bool(in_doubles), Y_source, Y_local, Y_centres, Y_reach, Y_low, Y_high, query_blocks};
    const Points X = {X_given, bool(in_doubles), X_source, X_local, X_centres, X_reach, X_low, X_high, data_blocks, log_weights};
    const Factor factor = {Real(constant), Real(slope)};
    const unsigned long long items = (unsigned long long)row_items * groups;
    unsigned long long units = 0;
    for (;;) {
        unsigned long long item = 0;
        if (lane == 0) item = atomicAdd(next, 1ULL);
        item = __shfl_sync(~0u, item, 0);
        if (item >= items) break;
        const int first_row_block = int(item % row_items) * blocks_of_item;
        const int blocks_there = min(blocks_of_item, query_blocks - first_row_block);
        float least = threshold[first_row_block];
        if (blocks_there > 1) least = fminf(least, threshold[first_row_block + 1]);
#pragma unroll 1
        for (int part = 0; part < spans; part++) {
        const int begin = (int(item / row_items) * spans + part) * span;
        const int end = begin + span < data_blocks ? begin + span : data_blocks;
        __syncwarp();
        const int count = list_blocks(listed, X, Y, most, least, first_row_block, begin, end, box_axes);
        if (!count) continue;
        const unsigned found =
            screen(listed, count, Y_halves, limits, always, X_halves, norms, first_row_block, 4 * blocks_there);
        if (!found) continue;
        units += found;

#if REAL_BITS == 32
        if (products) {
            __shared__ float2 of_columns[threads / 32][32];
            const Operands operands = {
                Y_first,
                Y_rest,
                X_first,
                X_rest,
                reinterpret_cast<const uint2*>(across),
                reinterpret_cast<const float2*>(Y_exponents),
                reinterpret_cast<const float2*>(X_exponents),
                Y_tight,
                X_tight,
            };
            // Tiles of tight blocks.
            unsigned tight = Y_tight[first_row_block] ? 15 : 0;
            if (blocks_there > 1 && Y_tight[first_row_block + 1]) tight |= 15 << 4;
#pragma unroll 1
            for (int m = 0; m < 4 * blocks_there; m += tiles_at_once) {
                const unsigned allowed = tight >> m & ((1u << tiles_at_once) - 1);
                if (!allowed) continue;
#pragma unroll 1
                for (int first_k = 0; first_k < product_sweeps * moment_tiles; first_k += moment_tiles) {
                Products sums;
                sums.clear();
                const auto add = [&](auto choice) {
                    add_products<decltype(choice)::value>(sums, listed, count, of_columns[threadIdx.x / 32], Y, X, operands,
                                                          reference, first_row_block, m, first_k, allowed, factor);
                };
                if (together) add(Choice<true>());
                else add(Choice<false>());
#pragma unroll
                for (int i = 0; i < tiles_at_once; i++)
                    if (allowed >> i & 1)
                        finish_products(sums, i, operands, reference, S, T, first_row_block * 64LL + (m + i) * 16, first_k, d);
                }
            }
        }
#endif

#pragma unroll 1
        for (int m = 0; m < 4 * blocks_there; m++) {
            const long long row = first_row_block * 64LL + m * 16 + lane % 16;
            const bool wide_row = Y_reach[row / block] > float_reach;
            const float own_reference = reference[row];
            const bool by_products = products && Y_tight[row / block];
#pragma unroll 1
            for (int sweep = 0; sweep < sweeps; sweep++) {
                const int first_moment = sweep * moment_columns;
                Sums sums;
                sums.clear();
                bool some = false;
#pragma unroll 1
                for (int base = 0; base < count; base += 32) {
                    unsigned mask = base + lane < count ? listed.masks[base + lane] >> m : 0;
                    if (by_products && mask && X_tight[listed.blocks[base + lane]]) mask = 0;
#pragma unroll 1
                    for (int half = 0; half < 2; half++) {
                        unsigned votes = __ballot_sync(~0u, mask >> (half * row_tiles) & 1);
                        some |= votes != 0;
                        while (votes) {
                            const int p = base + __ffs(votes) - 1;
                            votes &= votes - 1;
                            const long long from = listed.blocks[p];
                            const long long column = from * block + half * 32 + lane / 16 * 16;
                            if (in_double || wide_row || X_reach[from] > float_reach)
                                add_exact(sums, Y, X, X_weights, row, column, own_reference, factor, first_moment, d, scale);
                            else if constexpr (!in_double)
                                add_local(sums, Y, X, X_weights, row, column, own_reference, factor, first_moment);
                        }
                    }
                }
                if (!some) continue;
                sums.total += __shfl_xor_sync(~0u, sums.total, 16);
                if (lane < 16 && sweep == 0) add_to(S + row, sums.total);
                if constexpr (output == MOMENTS) {
#pragma unroll
                    for (int k = 0; k < moment_columns; k++) {
                        const Real both = sums.moments[k] + __shfl_xor_sync(~0u, sums.moments[k], 16);
                        if (k % 2 == lane / 16 && first_moment + k < d) add_to(T + row * DIM + first_moment + k, both);
                    }
                }
            }
        }
        }
    }
    if (lane == 0 && units) atomicAdd(kept, units);
}
