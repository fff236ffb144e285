// Codes of points that put neighbours together: Morton codes of up to five axes of the frame (centred_frame.cuh).
//
//   X               (n, d)  STORAGE
//   origin, axes, scales    of centred_frame.cuh
//   codes           (n,)    unsigned   `mark` is added: codes of queries are above those of data
//
// A coordinate p along an axis becomes p / (1 + |p|) of its typical size, so that no point far out widens the cells of
// the others. Points at more than three times the typical distance come behind all others: blocks and tiles of the others
// are not widened by coordinates that the axes do not show. One thread a point; no barriers.
#pragma once
#include "centred.cuh"

constexpr int code_threads = 128;
constexpr int most_code_axes = 5, bits_of_code = 30;
constexpr unsigned far_mark = 1u << bits_of_code;
constexpr float far = 3;  // typical distances

extern "C" __global__ void __launch_bounds__(code_threads)
    centred_codes(const STORAGE* __restrict__ X, const double* __restrict__ origin, const float* __restrict__ axes,
                  const float* __restrict__ scales, unsigned* __restrict__ codes, long long n, int d, unsigned mark,
                  double scale) {
    const long long i = (long long)blockIdx.x * code_threads + threadIdx.x;
    if (i >= n) return;
    float places[most_code_axes] = {}, square = 0;
    for (int k = 0; k < d; k++) {
        const float z = float(held_within((double(X[i * d + k]) - origin[k]) * scale, largest_coordinate));
        square += z * z;
#pragma unroll
        for (int a = 0; a < most_code_axes; a++) places[a] += axes[a * d + k] * z;
    }
    const int code_axes = d < most_code_axes ? d : most_code_axes, bits = bits_of_code / code_axes;
    unsigned cells[most_code_axes];
#pragma unroll
    for (int a = 0; a < most_code_axes; a++) {
        const float place = places[a] / scales[a], squashed = place / (1 + fabsf(place));
        cells[a] = unsigned(fminf(fmaxf((0.5f + 0.5f * squashed) * float(1 << bits), 0.0f), float((1 << bits) - 1)));
    }
    unsigned code = 0;
    for (int bit = bits - 1; bit >= 0; bit--)
#pragma unroll
        for (int a = 0; a < most_code_axes; a++)
            if (a < code_axes) code = code << 1 | (cells[a] >> bit & 1);
    const float limit = far * scales[box_axes];
    codes[i] = code + (square > limit * limit ? far_mark : 0) + mark;
}
