// Sums over units of pairs from differences of coordinates (skipping_units.cu), a query to two lanes: about the centres of
// blocks in float, and of the points themselves in double.
#pragma once
#include "skipping.cuh"

// Moments of so many columns at a time; the pairs are taken again for others.
constexpr int moment_columns = output != MOMENTS ? 1 : DIM < 32 ? DIM : 16;
constexpr int sweeps = output != MOMENTS ? 1 : DIM / moment_columns;
constexpr bool keeps_differences = DIM <= (output == MOMENTS ? 16 : 32) && !in_double;
constexpr int columns_at_once = DIM <= 16 ? 2 : 1;

// Sums of a query, which two lanes share.
struct Sums {
    Real total;
    Real moments[moment_columns];  // of LAPLACE 2^e |z_i - z_j|^2

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
__device__ inline void shifted(float (&y)[4], const Points& Y, const Points& X, long long row, long long column,
                               int k) {
    float own[4], here[4], there[4];
    four(own, Y.local + row * DIM + k);
    four(here, Y.centres + row / block * DIM + k);
    four(there, X.centres + column / block * DIM + k);
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = own[e] + (here[e] - there[e]);
}

// Add 16 data of a block from `column` on, from coordinates about the centre of their block. Of few dimensions the query and
// differences stay in registers; of more, squares of several data do, and coordinates are read again for the moments.
__device__ inline void add_local(Sums& sums, const Points& Y, const Points& X, const float* weights, long long row,
                                 long long column, float reference, int first_moment) {
    const auto add = [&](float weight, float square) {
        const float power = exp2_approx((weight - reference) - square);
        sums.total += power;
        if constexpr (output == LAPLACE) sums.moments[0] = fmaf(power, square, sums.moments[0]);
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
                    if (DIM > 16 && k % 16 == 0)
                        keep_order();  // or loads of all coordinates come first, and registers spill
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
        constexpr int columns = output == MOMENTS && DIM == 32 ? 4 : 8, chunk = 8;  // data at once, and dimensions
#pragma unroll 1
        for (int first = 0; first < 16; first += columns) {
            float square[columns] = {}, power[columns];
#pragma unroll 1
            for (int k0 = 0; k0 < DIM; k0 += chunk) {
                float part[columns] = {};  // so that few terms are rounded at the size of the whole sum
#pragma unroll
                for (int k = k0; k < k0 + chunk; k += 4) {
                    float y[4];
                    shifted(y, Y, X, row, column, k);
#pragma unroll
                    for (int c = 0; c < columns; c++) {
                        float x[4];
                        four(x, X.local + (column + first + c) * DIM + k);
#pragma unroll
                        for (int e = 0; e < 4; e++) part[c] = fmaf(x[e] - y[e], x[e] - y[e], part[c]);
                    }
                }
#pragma unroll
                for (int c = 0; c < columns; c++) square[c] += part[c];
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
                        for (int e = 0; e < 4; e++)
                            sums.moments[k + e] = fmaf(power[c], x[e] - y[e], sums.moments[k + e]);
                    }
                }
            }
        }
    }
}

// The same from the points themselves, in double.
__device__ inline void add_exact(Sums& sums, const Points& Y, const Points& X, const float* weights, long long row,
                                 long long column, float reference, int first_moment, int d, double scale) {
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
            power[c] =
                power_of_2(Real(double(weight_of(X, weights, column + first + c)) - double(reference) - square[c]));
            sums.total += power[c];
            if constexpr (output == LAPLACE) sums.moments[0] += power[c] * Real(square[c]);
        }
        if constexpr (output == MOMENTS) {
#pragma unroll
            for (int k = 0; k < moment_columns; k++) {
                const int at = first_moment + k;
                if (at >= d) continue;
                const double y = coordinate(Y, own, at);
#pragma unroll
                for (int c = 0; c < columns; c++) {
                    const long long x = (long long)X.source[column + first + c] * d;
                    sums.moments[k] += power[c] * Real((coordinate(X, x, at) - y) * scale);
                }
            }
        }
    }
}
