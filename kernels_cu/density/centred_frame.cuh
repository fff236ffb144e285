// The frame of the data of a centred pass (centred.cuh): an origin, axes along which neighbours are found, and scales.
//
//   X       (n, d)  STORAGE
//   origin  (d,)    double  about the geometric median
//   axes    (6, d)  float   orthonormal rows, then zeros: unit vectors up to 6 dimensions, beyond principal axes
//   scales  (8,)    float   typical distance to the origin along each axis, and in all dimensions, in the units of z;
//                           0, of which later kernels make NaN where a datum is NaN
//
// A few rows far out must change neither: the origin is the median of a sample by Weiszfeld's iteration, the axes are those
// of the covariance of its directions (spatial signs), and a scale is the square of a mean of roots. None of this changes
// what a sum is, only how well points of a block lie together.
//
// One block of 512 threads, a thread a row of the sample. Barriers: all threads pass all of them.
// Dynamic shared memory: samples * pitch + 2 * d * d floats.
#pragma once
#include "centred.cuh"

constexpr int frame_threads = 512;
constexpr int frame_warps = frame_threads / 32;
constexpr int most_dimensions = 64;
constexpr int rounds = 2, steps_of_round = 3;  // of Weiszfeld's iteration; a round takes offsets anew
constexpr int squarings = 3, turns = 2;        // of the matrix, and of its product with the axes

struct Work {
    double origin[most_dimensions];
    float centre[most_dimensions], axes[most_dimensions][box_axes], product[most_dimensions][box_axes];
    float weights[frame_threads], parts[frame_warps];
};

// Make the columns of `axes` orthonormal, by the first warp; those that have no direction become unit vectors. Its loops are
// short, and unrolled take longest of all to compile.
__device__ inline void make_orthonormal(float (*axes)[box_axes], int d) {
    const int lane = threadIdx.x;
#pragma unroll 1
    for (int a = 0; a < box_axes; a++) {
        for (int attempt = 0; attempt <= d; attempt++) {
            float before = 0, after = 0;
#pragma unroll 1
            for (int k = lane; k < d; k += 32) before += axes[k][a] * axes[k][a];
            before = sum_over_lanes<32>(before);
#pragma unroll 1
            for (int turn = 0; turn < 2; turn++)  // twice, so that rounding leaves nothing of the others
#pragma unroll 1
                for (int b = 0; b < a; b++) {
                    float along = 0;
#pragma unroll 1
                    for (int k = lane; k < d; k += 32) along += axes[k][a] * axes[k][b];
                    along = sum_over_lanes<32>(along);
#pragma unroll 1
                    for (int k = lane; k < d; k += 32) axes[k][a] -= along * axes[k][b];
                }
#pragma unroll 1
            for (int k = lane; k < d; k += 32) after += axes[k][a] * axes[k][a];
            after = sum_over_lanes<32>(after);
            const bool enough = after > 1e-4f * before && after > 1e-30f;
#pragma unroll 1
            for (int k = lane; k < d; k += 32)
                axes[k][a] = enough ? axes[k][a] * (1 / sqrtf(after)) : float(k == (a + attempt) % d);
            __syncwarp();
            if (enough) break;
        }
    }
}

extern "C" __global__ void __launch_bounds__(frame_threads)
    centred_frame(const STORAGE* __restrict__ X, double* __restrict__ origin, float* __restrict__ axes,
                  float* __restrict__ scales, long long n, int d, int samples, double scale) {
    extern __shared__ float shared[];
    __shared__ Work work;
    const int own = threadIdx.x, warp = own / 32, lane = own % 32, pitch = d | 1;
    float* const offsets = shared;
    const bool there = own < samples;
    const STORAGE* const row = X + (there ? (long long)own * n / samples : 0) * d;

    if (own < d) work.origin[own] = X[own];
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        if (there)
            for (int k = 0; k < d; k++)
                offsets[own * pitch + k] =
                    float(held_within((double(row[k]) - work.origin[k]) * scale, largest_coordinate));
        if (own < d) work.centre[own] = 0;
        __syncthreads();
        for (int step = 0; step < steps_of_round; step++) {
            float square = 0;
            if (there)
                for (int k = 0; k < d; k++) {
                    const float offset = offsets[own * pitch + k] - work.centre[k];
                    square += offset * offset;
                }
            const float distance = sqrtf(square);
            const float root = sum_of_block<frame_warps>(there ? sqrtf(distance) : 0, work.parts) / samples;
            const float weight = there ? 1 / (distance + 0.01f * root * root + 1e-30f) : 0;
            const float all = sum_of_block<frame_warps>(weight, work.parts);
            work.weights[own] = weight / all;
            __syncthreads();
            for (int k = warp; k < d; k += frame_warps) {
                float mean = 0;
                for (int i = lane; i < samples; i += 32) mean += work.weights[i] * offsets[i * pitch + k];
                mean = sum_over_lanes<32>(mean);
                if (lane == 0) work.centre[k] = mean;
            }
            __syncthreads();
        }
        if (own < d) work.origin[own] += double(work.centre[own]) / scale;
        __syncthreads();
    }

    // Directions from the origin, and distances.
    float distance = 0;
    if (there) {
        float square = 0;
        for (int k = 0; k < d; k++) {
            const float offset = offsets[own * pitch + k] - work.centre[k];
            square += offset * offset;
        }
        distance = sqrtf(square);
        const float factor = 1 / (distance + 1e-30f);
        for (int k = 0; k < d; k++) offsets[own * pitch + k] = (offsets[own * pitch + k] - work.centre[k]) * factor;
    }
    if (d <= box_axes) {
        for (int i = own; i < d * box_axes; i += frame_threads) work.axes[i / box_axes][i % box_axes] = i / box_axes == i % box_axes;
    } else {
        // The sum of the products of directions, and its largest eigenvectors.
        __syncthreads();
        float *from = shared + samples * pitch, *to = from + d * d;
        for (int i = own; i < d * d; i += frame_threads) {
            float sum = 0;
            for (int s = 0; s < samples; s++) sum += offsets[s * pitch + i / d] * offsets[s * pitch + i % d];
            from[i] = sum;
        }
        __syncthreads();
        for (int turn = 0; turn < squarings; turn++) {
            float diagonal = 0;
            for (int k = 0; k < d; k++) diagonal += from[k * d + k];
            const float factor = 1 / (diagonal * diagonal + 1e-30f);
            for (int i = own; i < d * d; i += frame_threads) {
                float sum = 0;
                for (int k = 0; k < d; k++) sum += from[i / d * d + k] * from[k * d + i % d];
                to[i] = sum * factor;
            }
            __syncthreads();
            float* const other = from;
            from = to;
            to = other;
        }
        for (int i = own; i < d * box_axes; i += frame_threads)
            work.axes[i / box_axes][i % box_axes] = float((i * 2654435761u >> 16) % 1000u) - 499.5f;
        __syncthreads();
        if (warp == 0) make_orthonormal(work.axes, d);
        __syncthreads();
        for (int turn = 0; turn < turns; turn++) {
            for (int i = own; i < d * box_axes; i += frame_threads) {
                float sum = 0;
                for (int k = 0; k < d; k++) sum += from[i / box_axes * d + k] * work.axes[k][i % box_axes];
                work.product[i / box_axes][i % box_axes] = sum;
            }
            __syncthreads();
            for (int i = own; i < d * box_axes; i += frame_threads)
                work.axes[i / box_axes][i % box_axes] = work.product[i / box_axes][i % box_axes];
            __syncthreads();
            if (warp == 0) make_orthonormal(work.axes, d);
            __syncthreads();
        }
    }
    __syncthreads();

    const float mean_root = sum_of_block<frame_warps>(sqrtf(distance), work.parts) / samples;
    if (own == 0) {
        scales[box_axes] = mean_root * mean_root;
        scales[box_axes + 1] = 0;
    }
#pragma unroll 1
    for (int a = 0; a < box_axes; a++) {
        float along = 0;
        if (there)
            for (int k = 0; k < d; k++) along += work.axes[k][a] * offsets[own * pitch + k];
        const float root = sum_of_block<frame_warps>(sqrtf(fabsf(along) * distance), work.parts) / samples;
        if (own == 0) scales[a] = root * root + 1e-30f;
    }
    for (int i = own; i < d * box_axes; i += frame_threads) axes[i] = work.axes[i % d][i / d];
    if (own < d) origin[own] = work.origin[own];
}
