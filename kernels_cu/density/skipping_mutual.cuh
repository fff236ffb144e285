// Sums of both points of a pair, each pair once: what the passes of self-interaction (Y = X) share. Blocks and boxes are
// those of skipping_points.cu.
//
// A warp holds 16-row tiles of an item of rows in registers, and goes over chunks of 32 columns. A unit is a row tile by a
// chunk: its exponents are products of matrices, phi = 2^(e + phi_shift) is rounded to float16, and multiplied by factors
// of the columns for the sums of the rows and, transposed, by factors of the rows for those of the columns. A factor is a
// coordinate, or one. So the rounding of phi is in sums and moments alike.
#pragma once
#include "skipping_blocks.cuh"

constexpr float phi_shift = 13;  // so that float16 holds phi of exponents down to -27 in full
constexpr unsigned ones = 0x3c003c00;

typedef unsigned Phi[2][4];  // left operands of a unit: its first and its last 16 columns

// Phi from exponents.
__device__ __forceinline__ void phi_of(Phi& phi, float (&e)[4][4]) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int i = 0; i < 4; i++) e[j][i] = exp2_approx(e[j][i]);
        phi[j / 2][j % 2 * 2] = pack_f16(e[j][0], e[j][1]);
        phi[j / 2][j % 2 * 2 + 1] = pack_f16(e[j][2], e[j][3]);
    }
}

// Add phi of 16 columns times factors to the sums of the rows and of these columns. Factors are right operands, `count`
// tiles of 8, of the columns and of the rows.
template <int count, int tiles>
__device__ __forceinline__ void add_phi(float (&rows)[tiles][4], float (&columns)[tiles][4], const unsigned (&phi)[4],
                                        const unsigned (&of_columns)[count][2], const unsigned (&of_rows)[count][2]) {
#pragma unroll
    for (int k = 0; k < count; k++) mma_f16_m16n8k16(rows[k], phi, of_columns[k][0], of_columns[k][1]);
    const unsigned across[4] = {transpose_8x8(phi[0]), transpose_8x8(phi[2]), transpose_8x8(phi[1]),
                                transpose_8x8(phi[3])};
#pragma unroll
    for (int k = 0; k < count; k++) mma_f16_m16n8k16(columns[k], across, of_rows[k][0], of_rows[k][1]);
}

// No pair of a row with itself: exponents of a unit whose rows begin at `row` among its columns. A point's own term is
// exact, and added last.
__device__ __forceinline__ void leave_out_own(float (&e)[4][4], int row) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (j * 8 + 2 * t + i % 2 == row + g + i / 2 * 8) e[j][i] = -1e30f;
}

template <int n, int m>
__device__ __forceinline__ void clear(float (&sums)[n][m][4]) {
#pragma unroll
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int k = 0; k < m; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) sums[i][k][e] = 0;
}
