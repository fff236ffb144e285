// Queries of a centred pass, in order: points in two floats, tiles of 32, and for each query a reference (centred.cuh).
//
//   Y           (m, d)       STORAGE     null: the queries are the data, in `X_placed`
//   order       (m,)         long long   rows of Y, plus `first`
//   origin, axes, scales                 of centred_frame.cuh
//   X_placed    (n, d)       float2      data in order
//   blocks, boxes                        of centred_data.cuh, `count` blocks
//   Z           (m, d)       float2      written where there is Y
//   tiles       (14, tiles)  float       box, least reference, squared radius about the centre
//   centres     (tiles, 16 steps)  float
//   references  (32 tiles,)  float       exponent of the largest term of the nearest block of those that are tried, or NaN
//
// A reference is at most the logarithm of the query's sum, whichever block it is of; a near one lets the pass leave out
// more. Blocks are tried by their boxes: some 512 of all, then the neighbours of the nearest of them. With `own_out`
// queries are in the order of the data, and a row does not count to the query of its number.
//
// A block of 128 threads makes a tile, four threads a query. Dynamic shared memory: 32 (d | 1) floats.
// Barriers: all threads pass all of them.
#pragma once
#include "centred.cuh"

constexpr int parts = 4;  // of a query's work
constexpr int threads = parts * tile_rows;
constexpr int tried = 512;

extern "C" __global__ void __launch_bounds__(threads, 4)
    centred_queries(const STORAGE* __restrict__ Y, const long long* __restrict__ order,
                    const double* __restrict__ origin, const float* __restrict__ axes,
                    const float* __restrict__ scales,
                    const float2* __restrict__ X_placed, const unsigned char* __restrict__ blocks,
                    const float* __restrict__ boxes, float2* __restrict__ Z, float* __restrict__ tiles,
                    float* __restrict__ centres, float* __restrict__ references, long long m, long long n,
                    long long first, int count, int d, int steps, int moments, int own_out, double scale) {
    extern __shared__ float points[];
    __shared__ float of_warps[threads / 32], centre[64];
    const int query = threadIdx.x / parts, part = threadIdx.x % parts, pitch = d | 1;
    const long long tile = blockIdx.x, all = gridDim.x, own = tile * tile_rows + query, at = own < m ? own : m - 1;
    const float2* const placed = (Y ? Z : X_placed) + at * d;

    // The point and its place along the axes.
    double place[box_axes] = {};
    float spoiled = scales[box_axes + 1];
    for (int k = part; k < d; k += parts) {
        double coordinate;
        if (Y) {
            coordinate = held_within((double(Y[(order[at] - first) * d + k]) - origin[k]) * scale, largest_coordinate);
            if (coordinate != coordinate) spoiled = nanf("");
            coordinate = number_or_0(coordinate);
            if (own < m) Z[at * d + k] = two_floats(coordinate);
        } else {
            const float2 both = placed[k];
            coordinate = double(both.x) + both.y;
        }
        points[query * pitch + k] = float(coordinate);
#pragma unroll
        for (int a = 0; a < box_axes; a++) place[a] += axes[a * d + k] * coordinate;
    }
    float q[box_axes];
#pragma unroll
    for (int a = 0; a < box_axes; a++) q[a] = float(sum_over_lanes<parts>(place[a]));
    __syncthreads();
    for (int k = threadIdx.x; k < 16 * steps; k += threads) {
        float low = 3e38f, high = -3e38f;
        if (k < d)
            for (int i = 0; i < tile_rows; i++) {
                low = fminf(low, points[i * pitch + k]);
                high = fmaxf(high, points[i * pitch + k]);
            }
        centre[k] = k < d ? 0.5f * low + 0.5f * high : 0;
        centres[tile * 16 * steps + k] = centre[k];
    }
    __syncthreads();

    // The nearest block of those that are tried, by the four threads together.
    float best = 3e38f;
    int which = 0;
    const auto try_blocks = [&](int from, int to, int step) {
        for (int b = from + part * step; b < to; b += parts * step) {
            const float log_mass = boxes[(long long)(2 * box_axes) * count + b];
            float distance2 = 0;
#pragma unroll
            for (int a = 0; a < box_axes; a++) {
                const float low = boxes[(long long)a * count + b], high = boxes[(long long)(box_axes + a) * count + b];
                const float gap = fmaxf(0.0f, fmaxf(low - q[a], q[a] - high)), middle = 0.5f * low + 0.5f * high - q[a];
                distance2 += gap * gap + 1e-3f * middle * middle;
            }
            const float loss = log_mass > hardly ? 0.5f * distance2 - log_mass : 2e38f;
            if (loss < best) {
                best = loss;
                which = b;
            }
        }
#pragma unroll
        for (int flip = 1; flip < parts; flip *= 2) {
            const float other = __shfl_xor_sync(~0u, best, flip);
            const int of_other = __shfl_xor_sync(~0u, which, flip);
            if (other < best || (other == best && of_other < which)) {
                best = other;
                which = of_other;
            }
        }
    };
    const int step = (count + tried - 1) / tried;
    try_blocks(0, count, step);
    if (step > 1) {
        const int nearest = which;
        try_blocks(max(0, nearest - step + 1), min(count, nearest + step), 1);
    }

    // A row with itself has the largest exponent but for weights. Else that of the block, where a weight of it may make it
    // larger; where nothing in it counts, of the next one, until all queries have one.
    const auto block_at = [&](int b, int byte) {
        return reinterpret_cast<const float*>(blocks + (long long)b * block_bytes(steps, moments) + byte);
    };
    float most = never;
    if (!Y && !own_out) most = block_at(int(at / block_rows), weights_at(steps, moments))[at % block_rows];
    const float possible = fmaxf(hardly, block_at(which, radius_at(steps, moments))[2]);
    for (int attempt = 0; attempt < count && __any_sync(~0u, most < (attempt == 0 ? possible : hardly)); attempt++) {
        const int b = (which + attempt) % count;
        const float* const weights = block_at(b, weights_at(steps, moments));
        float of_block = never;
        for (int j = part; j < block_rows; j += parts) {
            const long long row = (long long)b * block_rows + j;
            const float weight = weights[j];
            if (weight < hardly || (own_out && row == at)) continue;
            of_block = fmaxf(of_block, weight - 0.5f * distance2_of(placed, X_placed + row * d, d));
        }
        of_block = largest_over_lanes<parts>(of_block);
        if (attempt == 0 || most < hardly) most = fmaxf(most, of_block);
    }
    if (most < hardly) most = 0;  // nothing counts
    spoiled = sum_over_lanes<parts>(spoiled);
    if (part == 0) references[own] = most + spoiled;

    float square = 0;
    for (int k = part; k < d; k += parts) {
        const float2 both = placed[k];
        const float offset = (both.x - centre[k]) + both.y;
        square += offset * offset;
    }
    square = largest_of_block<threads / 32>(sum_over_lanes<parts>(square), of_warps);
    const float least = -largest_of_block<threads / 32>(-most, of_warps);
    if (threadIdx.x == 0) {
        tiles[(long long)(2 * box_axes) * all + tile] = least;
        tiles[(long long)(2 * box_axes + 1) * all + tile] = square;
        tiles[(long long)(2 * box_axes + 2) * all + tile] = float(which);
    }
#pragma unroll
    for (int a = 0; a < box_axes; a++) {
        const float slack = fabsf(q[a]) * 0x1p-22f;
        const float low = -largest_of_block<threads / 32>(slack - q[a], of_warps), high = largest_of_block<threads / 32>(q[a] + slack, of_warps);
        if (threadIdx.x == 0) {
            tiles[(long long)a * all + tile] = low;
            tiles[(long long)(box_axes + a) * all + tile] = high;
        }
    }
}
