// Sums over units of pairs by matrix products (skipping_units.cu), in float32.
//
// With the coordinates u of queries about their blocks' centre c (two blocks have one), those of data about c', and o =
// c - c', e_ij = 2 u_i . u_j - |u_i + o|^2 + (log2 w_j - |u_j|^2 + 2 o . u_j). Of u = p + q, in two float16 terms, all
// that is made of p and o alone, halved, is a multiple of 2^-13 below 2^11, so float32 accumulators add it up exactly,
// however large it is beside e; the rest is small. A tile of 2^e is rounded to float16, scaled by 2^13, and multiplied
// by the data about c.
#pragma once
#include "skipping_differences.cuh"
#include "skipping_chunks.cuh"
#include "skipping_screen.cuh"

struct Operands {
    const unsigned *Y_first, *Y_rest, *X_first, *X_rest;
    const uint2* across;
    const float2 *Y_exponents, *X_exponents;
    const float* Y_weights;  // that exponents of queries have: they are data; or null
};

constexpr int tiles_at_once = DIM <= (output == MOMENTS ? 16 : 32) ? 2 : 1;  // of 16 queries
constexpr int step = tiles_at_once == 2 ? 32 : 16;                           // data at once
constexpr int column_tiles = step / 8;
constexpr int moment_tiles = DIM < 64 ? DIM / 8 : 8;  // of 8 dimensions, at once; products are taken again for others
constexpr int product_sweeps = output == MOMENTS ? DIM / 8 / moment_tiles : 1;
constexpr unsigned own_mask = 1u << 30, common_mask = 3u << 30;  // in masks of listed blocks that are not wide
constexpr float moment_shift = 13;
constexpr unsigned ones = 0x3c003c00;

struct Products {
    float total[tiles_at_once][2];                         // of outputs SUM and LAPLACE: of the lane's columns
    float bits[output == LAPLACE ? tiles_at_once : 1][2];  // likewise, 2^e e of LAPLACE
    float moments[output == MOMENTS ? tiles_at_once : 1][output == MOMENTS ? moment_tiles + 1 : 1]
                 [4];  // last: the total

    __device__ void clear() {
#pragma unroll
        for (int m = 0; m < tiles_at_once; m++) {
            total[m][0] = total[m][1] = 0;
            if constexpr (output == LAPLACE) bits[m][0] = bits[m][1] = 0;
            if constexpr (output == MOMENTS) {
#pragma unroll
                for (int k = 0; k <= moment_tiles; k++)
#pragma unroll
                    for (int i = 0; i < 4; i++) moments[m][k][i] = 0;
            }
        }
    }
};

// The part of the exponents that depends on the query alone, of rows g and g + 8 of a row tile, in two terms.
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
    constexpr int unrolled = GROUPS > 2 ? 1 : GROUPS;  // registers are few
#pragma unroll unrolled
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
        of[r] = make_float2(-0.5f * (coarse[r] + __shfl_xor_sync(~0u, coarse[r], 2)),
                            -(fine[r] + __shfl_xor_sync(~0u, fine[r], 2)));
    }
}

// The part that depends on the datum alone, of the lane's of 32.
__device__ inline float2 exponent_of_column(const Points& Y, const Points& X, const Operands& operands, int row_block,
                                            long long from, long long column) {
    if constexpr (GROUPS > 2) keep_order();
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
__device__ inline void points_of(uint2 (&x)[2], const Operands& operands, const Points& Y, const Points& X,
                                 int row_block, long long from, long long n16, int k) {
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

// Sum the marked units of row tiles [first_tile, first_tile + tiles_at_once) of the item, in blocks that are not wide. With
// `together` those of two common blocks, else all others.
template <bool together>
__device__ inline void add_products(Products& sums, const Listed& listed, int count, float2* of_columns,
                                    const Points& Y, const Points& X, const Operands& operands, const float* reference,
                                    int first_row_block, int first_tile, int first_k, unsigned allowed) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const long long first_row = (first_row_block * 4LL + first_tile) * 16;
    constexpr unsigned all = (1u << tiles_at_once) - 1;
#pragma unroll 1
    for (int p = 0; p < count; p++) {
        const unsigned mask = listed.masks[p];
        const long long from = listed.blocks[p];
        const unsigned wanted[2] = {mask >> first_tile & allowed, mask >> (row_tiles + first_tile) & allowed};
        if (!(wanted[0] | wanted[1]) || mask >> 30 != (together ? common_mask : own_mask) >> 30) continue;
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            const unsigned bits = half ? wanted[1] : wanted[0];
            if (!bits) continue;
            if constexpr (!together) {
                __syncwarp();
                of_columns[lane] =
                    exponent_of_column(Y, X, operands, first_row_block, from, from * block + half * 32 + lane);
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
                        together ? operands.X_exponents + n16 * 16 + j * 8 + 2 * t : of_columns + part + j * 8 + 2 * t);
                constexpr bool keeps_points = output == MOMENTS && DIM <= 16;  // in registers for all row tiles
                uint2 points[keeps_points ? fragments : 1][keeps_points ? moment_tiles : 1][2];
                if constexpr (keeps_points) {
#pragma unroll
                    for (int f = 0; f < fragments; f++)
#pragma unroll
                        for (int k = 0; k < moment_tiles; k++)
                            points_of<together>(points[f][k], operands, Y, X, first_row_block, from, n16 + f,
                                                first_k + k);
                }
                const auto add_tile = [&](int m) {
                    float2 of_rows[2];
                    exponents_of_rows<together>(of_rows, Y, X, operands, first_row + m * 16, from);
                    float base[2] = {moment_shift, moment_shift};
                    if constexpr (output != MOMENTS) {
                        // What is exact comes first: then small terms are not rounded at the size of the exponent.
#pragma unroll
                        for (int r = 0; r < 2; r++) {
                            const float all = -reference[first_row + m * 16 + g + 8 * r];
                            const float exact = rintf(fmaxf(all, -4096.0f) * 4096) / 8192;
                            of_rows[r].x += exact;
                            base[r] = fmaf(-2.0f, exact, all);
                        }
                    }
                    of_rows[0].y += base[0];
                    of_rows[1].y += base[1];
                    if constexpr (together && output == SUM) {
                        if (operands.Y_weights) {
                            of_rows[0].y -= operands.Y_weights[first_row + m * 16 + g];
                            of_rows[1].y -= operands.Y_weights[first_row + m * 16 + g + 8];
                        }
                    }
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
                        if constexpr (GROUPS > 2) {
                            keep_order();  // or operands of all groups are loaded first, and spill
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
                    if constexpr (output != MOMENTS) {
#pragma unroll
                        for (int j = 0; j < column_tiles; j++)
#pragma unroll
                            for (int i = 0; i < 4; i++) {
                                const float power = exp2_approx(e[j][i]);
                                sums.total[m][i / 2] += power;
                                if constexpr (output == LAPLACE)
                                    sums.bits[m][i / 2] = fmaf(power, e[j][i], sums.bits[m][i / 2]);
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
                                    mma_f16_m16n8k16(sums.moments[m][k], powers[f], points[f][k][0].x,
                                                     points[f][k][0].y);
                                    mma_f16_m16n8k16(sums.moments[m][k], powers[f], points[f][k][1].x,
                                                     points[f][k][1].y);
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
                if (output != MOMENTS && bits == all) {  // without a branch between tiles, which then overlap
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
                                       float* S, float* T, long long first_row, int first_k, int d, float at_zero) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if constexpr (output != MOMENTS) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const long long row = first_row + g + 8 * r;
            const float total = sum_over_lanes<4>(sums.total[m][r]);
            if (t == 0) add_to(S + row, total);
            if constexpr (output == LAPLACE) {
                const float bits = sum_over_lanes<4>(sums.bits[m][r]);
                if (t == 1) add_to(T + row, corrected_by_bits(total, bits, reference[row], at_zero));
            }
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
