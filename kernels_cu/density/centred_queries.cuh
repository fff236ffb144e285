// Queries of a centred pass, in order: points, tiles of 32, and for each query a reference (centred.cuh).
//
//   Y           (m, d)       STORAGE     null: the queries are the data, in `X_placed`
//   order       (m,)         long long   rows of Y, plus `first`
//   origin, axes, scales                 of centred_frame.cuh
//   X_placed    (n, d)       Point       data in order
//   blocks, boxes                        of centred_data.cuh, `count` blocks
//   Y_placed    (m, d)       Point       written where there is Y
//   tiles       (15, tiles)  float       box, least reference, squared radius about the centre (F64: about the origin), and
//                                        the nearest block of those that are tried
//   centres     (tiles, 16 steps)  float of F64: (tiles, 2, steps, 2, 32) float4, coordinates z of 16 queries and 16
//                                        dimensions as the lanes of a product have them
//   references  (32 tiles,)  Real        exponent of the largest term of the nearest block of those that are tried, or NaN
//
// A reference is at most the logarithm of the query's sum, whichever block it is of; a near one lets the pass leave out
// more. Blocks are tried by their boxes: some 512 of all, then the neighbours of the nearest of them. With `own_out`
// queries are in the order of the data, and a row does not count to the query of its number.
//
// A block of 128 threads makes a tile, four threads a query. Dynamic shared memory: 32 (d | 1) floats.
// Barriers: all threads pass all of them. In float64 macros F64, and DEPTH of centred_f64.cuh.
#pragma once
#include "centred.cuh"

constexpr int parts = 4;  // of a query's work
constexpr int threads = parts * tile_rows;
constexpr int tried = 512;

extern "C" __global__ void __launch_bounds__(threads, 4)
    centred_queries(const STORAGE* __restrict__ Y, const long long* __restrict__ order,
                    const double* __restrict__ origin, const float* __restrict__ axes,
                    const float* __restrict__ scales,
                    const Point* __restrict__ X_placed, const unsigned char* __restrict__ blocks,
                    const float* __restrict__ boxes, Point* __restrict__ Y_placed, float* __restrict__ tiles,
                    float* __restrict__ centres, Real* __restrict__ references, long long m, long long n,
                    long long first, int count, int d, int steps, int moments, int own_out, double scale) {
    extern __shared__ float points[];
    __shared__ float of_warps[threads / 32], centre[64];
    const int query = threadIdx.x / parts, part = threadIdx.x % parts, pitch = d | 1;
    const long long tile = blockIdx.x, all = gridDim.x, own = tile * tile_rows + query, at = own < m ? own : m - 1;
    const Point* const placed = (Y ? Y_placed : X_placed) + at * d;

    // The point and its place along the axes.
    double place[box_axes] = {};
    float spoiled = scales[box_axes + 1];
    for (int k = part; k < d; k += parts) {
        double coordinate;
        if (Y) {
            const double raw = Y[(order[at] - first) * d + k];
            coordinate = held_within((raw - origin[k]) * scale, largest_coordinate);
            if (coordinate != coordinate) spoiled = nanf("");
            coordinate = number_or_0(coordinate);
            if (own < m) Y_placed[at * d + k] = point_of(raw, coordinate, origin[k], scale);
        } else {
            coordinate = coordinate_of(placed[k], origin[k], scale);
        }
        points[query * pitch + k] = float(coordinate);
#pragma unroll
        for (int a = 0; a < box_axes; a++) place[a] += axes[a * d + k] * coordinate;
    }
    float q[box_axes];
#pragma unroll
    for (int a = 0; a < box_axes; a++) q[a] = float(sum_over_lanes<parts>(place[a]));
    __syncthreads();
#ifdef F64
    for (int i = threadIdx.x; i < tile_rows * 16 * steps; i += threads) {
        const int of_four = i % 4, of_lane = i / 4 % 32, half = i / 128 % 2, s = i / 256 % steps, sixteen = i / 256 / steps;
        const int k = 16 * s + 2 * (of_lane % 4) + of_four / 2 * 8 + of_four % 2;
        const int of_tile = 16 * sixteen + 8 * half + of_lane / 4;
        centres[tile * tile_rows * 16 * steps + i] = k < d ? points[of_tile * pitch + k] : 0;
    }
#else
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
#endif
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
#ifdef F64
    const auto weight_of = [&](int b, int j) { return reinterpret_cast<const Block<DEPTH>*>(blocks)[b].exact.weights[j]; };
    const auto most_weight_of = [&](int b) { return reinterpret_cast<const Block<DEPTH>*>(blocks)[b].exact.most_weight; };
    constexpr double no_term = Exponent<double>::none, no_weight = nothing;
#else
    const auto block_at = [&](int b, int byte) {
        return reinterpret_cast<const float*>(blocks + (long long)b * block_bytes(steps, moments) + byte);
    };
    const auto most_weight_of = [&](int b) { return block_at(b, radius_at(steps, moments))[2]; };
    const auto weight_of = [&](int b, int j) { return block_at(b, weights_at(steps, moments))[j] + most_weight_of(b); };
    constexpr float no_term = never, no_weight = hardly;
#endif
    Real most = no_term;
    if (!Y && !own_out) {
        const Real own_weight = weight_of(int(at / block_rows), int(at % block_rows));
        if (own_weight > no_weight) most = own_weight;
    }
    const Real possible = larger(no_term / 2, most_weight_of(which));
    for (int attempt = 0; attempt < count && __any_sync(~0u, most < (attempt == 0 ? possible : no_term / 2)); attempt++) {
        const int b = (which + attempt) % count;
        Real of_block = no_term;
        for (int j = part; j < block_rows; j += parts) {
            const long long row = (long long)b * block_rows + j;
            const Real weight = weight_of(b, j);
            if (weight <= no_weight || (own_out && row == at)) continue;
            of_block = larger(of_block, weight - Real(0.5) * distance2_of(placed, X_placed + row * d, d, scale));
        }
        of_block = largest_over_lanes<parts>(of_block);
        if (attempt == 0 || most < no_term / 2) most = larger(most, of_block);
    }
    if (most < no_term / 2) most = 0;  // nothing counts
    spoiled = sum_over_lanes<parts>(spoiled);
    if (part == 0) references[own] = most + spoiled;

    float square = 0;
    for (int k = part; k < d; k += parts) {
#ifdef F64
        const float offset = points[query * pitch + k];
#else
        const float2 both = placed[k];
        const float offset = (both.x - centre[k]) + both.y;
#endif
        square += offset * offset;
    }
    square = largest_of_block<threads / 32>(sum_over_lanes<parts>(square), of_warps);
    const float of_query = larger(float(most), -3e38f);
    const float least = -largest_of_block<threads / 32>(fabsf(of_query) * (sizeof(Real) > 4 ? 0x1p-22f : 0) - of_query, of_warps);
    if (threadIdx.x == 0) {
        tiles[(long long)(2 * box_axes) * all + tile] = least;
        tiles[(long long)(2 * box_axes + 1) * all + tile] = square;
        tiles[(long long)(2 * box_axes + 2) * all + tile] = float(which);
    }
    write_box<threads / 32>(tiles, all, tile, q, true, of_warps);
}
