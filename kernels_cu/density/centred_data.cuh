// Data of a centred pass, in order: points in two floats, blocks with their operands, boxes (centred.cuh).
//
//   X            (n, d)           STORAGE
//   order        (n,)             long long  rows of X
//   log_weights  (n,)             double     natural logarithms, of the rows of X; null: all weights 1
//   origin, axes, scales                     of centred_frame.cuh
//   Z            (n, d)           float2     in order
//   blocks       (count, bytes)              centred.cuh
//   boxes        (13, count)      float      lower ends, upper ends, log2 of the mass; in the units of z, wider by the rounding
//
// A block of 128 threads makes a block of data, a thread a row. Dynamic shared memory: d * 129 floats.
// Barriers: all threads pass all of them.
#pragma once
#include "centred.cuh"

constexpr int warps = block_rows / 32;
constexpr int pitch = block_rows + 1;
constexpr double largest_operand = 3e4;  // of float16

extern "C" __global__ void __launch_bounds__(block_rows, 4)
    centred_data(const STORAGE* __restrict__ X, const long long* __restrict__ order,
                 const double* __restrict__ log_weights, const double* __restrict__ origin,
                 const float* __restrict__ axes, float* __restrict__ scales, float2* __restrict__ Z, unsigned char* __restrict__ blocks,
                 float* __restrict__ boxes, long long n, int d, int steps, int moments, double scale) {
    extern __shared__ float columns[];
    __shared__ float parts[warps], centre[64];
    const int j = threadIdx.x, warp = j / 32, lane = j % 32;
    const long long at = (long long)blockIdx.x * block_rows + j;
    const bool there = at < n;
    const long long row = order[there ? at : n - 1];

    double places[box_axes] = {};
    const double given_weight = exponent_of_weight<double>(log_weights, row, n);
    bool spoiled = given_weight != given_weight;
    for (int k = 0; k < d; k++) {
        double z = held_within((double(X[row * d + k]) - origin[k]) * scale, largest_coordinate);
        spoiled |= z != z;
        z = number_or_0(z);
        const float2 kept = two_floats(z);
        if (there) Z[at * d + k] = kept;
        columns[k * pitch + j] = kept.x;
#pragma unroll
        for (int a = 0; a < box_axes; a++) places[a] += axes[a * d + k] * z;
    }
    if (there && spoiled) scales[box_axes + 1] = nanf("");
    const bool counts = there && given_weight >= hardly;
    const float most = largest_of_block<warps>(counts ? float(given_weight) : never, parts);
    const float weight = counts ? float(given_weight - most) : never;
    const float mass = sum_of_block<warps>(counts ? exp2_approx(weight) : 0, parts);
    const float log_mass = most > hardly ? most + log2f(mass) + 1e-4f : never;
    float along[box_axes];
#pragma unroll
    for (int a = 0; a < box_axes; a++) along[a] = float(places[a]);
    write_box<warps>(boxes, gridDim.x, blockIdx.x, along, there, parts);
    if (j == 0) boxes[(long long)(2 * box_axes) * gridDim.x + blockIdx.x] = log_mass;

    unsigned char* const block = blocks + (long long)blockIdx.x * block_bytes(steps, moments);
    for (int k = warp; k < 16 * steps; k += warps) {
        float low = 3e38f, high = -3e38f;
        if (k < d)
            for (int i = lane; i < block_rows; i += 32) {
                low = fminf(low, columns[k * pitch + i]);
                high = fmaxf(high, columns[k * pitch + i]);
            }
        low = least_over_lanes<32>(low);
        high = largest_over_lanes<32>(high);
        if (lane == 0) {
            centre[k] = k < d ? 0.5f * low + 0.5f * high : 0;
            reinterpret_cast<float*>(block + centre_at(steps, moments))[k] = centre[k];
        }
    }
    __syncthreads();

    uint4* const right = reinterpret_cast<uint4*>(block);
    unsigned short* const across = reinterpret_cast<unsigned short*>(block + right_bytes(steps));
    float square = 0;
    double norm = 0;
    for (int s = 0; s < steps; s++)
        for (int t = 0; t < 4; t++) {
            unsigned hi[2], lo[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float u[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int k = 16 * s + 8 * half + 2 * t + e;
                    u[e] = 0;
                    if (k < d && there) {
                        const double z =
                            number_or_0(held_within((double(X[row * d + k]) - origin[k]) * scale, largest_coordinate));
                        u[e] = float(z - centre[k]);
                        square += u[e] * u[e];
                        u[e] = float(held_within(u[e], largest_operand));
                    }
                }
                float first[2], second[2];
                hi[half] = pack_f16(u[0], u[1]);
                unpack_f16(hi[half], first[0], first[1]);
                lo[half] = pack_f16(u[0] - first[0], u[1] - first[1]);
                unpack_f16(lo[half], second[0], second[1]);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const double kept = double(first[e]) + second[e];
                    norm += kept * kept;
                    if (moments) {
                        const int octet = 2 * s + half, of_lane = (2 * t + e) * 4 + j % 8 / 2, word = j % 16 / 8;
                        unsigned short* const to = across + 8 * ((j / 16 * 2 * steps + octet) * 32 + of_lane) + j % 2;
                        to[2 * word] = (unsigned short)(hi[half] >> 16 * e);
                        to[4 + 2 * word] = (unsigned short)(lo[half] >> 16 * e);
                    }
                }
            }
            right[(j / 8 * steps + s) * 32 + j % 8 * 4 + t] = make_uint4(hi[0], hi[1], lo[0], lo[1]);
        }
    reinterpret_cast<float*>(block + norms_at(steps, moments))[j] = counts ? float(weight - 0.5 * norm) : never;
    reinterpret_cast<float*>(block + weights_at(steps, moments))[j] = weight;
    const float radius2 = largest_of_block<warps>(square, parts);
    const float least = -largest_of_block<warps>(counts ? -float(given_weight) : never, parts);
    if (j == 0) *reinterpret_cast<float4*>(block + radius_at(steps, moments)) = make_float4(radius2, log_mass, most, least);
}
