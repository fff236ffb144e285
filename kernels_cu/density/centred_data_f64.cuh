// Data of a centred pass in float64, in order: points, blocks with their operands, boxes (centred_f64.cuh).
//
//   X            (n, d)           double
//   order        (n,)             long long  rows of X
//   log_weights  (n,)             double     natural logarithms, of the rows of X; null: all weights 1
//   origin, axes, scales                     of centred_frame.cuh
//   placed       (n, d)           double     in order
//   blocks       (count,)         Block
//   boxes        (13, count)      float      lower ends, upper ends, log2 of the mass; in the units of z, wider by the
//                                            rounding
//
// A block of 64 threads makes a block of data, a thread a row. Dynamic shared memory: d * 65 doubles.
// Barriers: all threads pass all of them. Macros: F64; DEPTH, d rounded up to what operands have.
#pragma once
#include "centred.cuh"

constexpr int warps = block_rows / 32;
constexpr int pitch = block_rows + 1;
constexpr int depth = DEPTH;

extern "C" __global__ void __launch_bounds__(block_rows, 8)
    centred_f64_data(const double* __restrict__ X, const long long* __restrict__ order,
                     const double* __restrict__ log_weights, const double* __restrict__ origin,
                     const float* __restrict__ axes, float* __restrict__ scales, double* __restrict__ placed,
                     Block<depth>* __restrict__ blocks, float* __restrict__ boxes, long long n, int d,
                     double scale) {
    extern __shared__ double columns[];
    __shared__ float parts[warps];
    __shared__ double centre[depth];
    const int j = threadIdx.x, warp = j / 32, lane = j % 32;
    const long long at = (long long)blockIdx.x * block_rows + j;
    const bool there = at < n;
    const long long row = order[there ? at : n - 1];
    Screen<depth>& screen = blocks[blockIdx.x].screen;
    Exact<depth>& exact = blocks[blockIdx.x].exact;

    double places[box_axes] = {};
    double weight = exponent_of_weight<double>(log_weights, row, n);
    bool spoiled = weight != weight;
    for (int k = 0; k < d; k++) {
        const double raw = X[row * d + k], z = held_within((raw - origin[k]) * scale, largest_coordinate);
        spoiled |= z != z;
        const double kept = point_of(raw, z, origin[k], scale);
        if (there) placed[at * d + k] = kept;
        columns[k * pitch + j] = kept;
#pragma unroll
        for (int a = 0; a < box_axes; a++) places[a] += axes[a * d + k] * number_or_0(z);
    }
    if (there && spoiled) scales[box_axes + 1] = nanf("");
    const bool counts = there && weight > Exponent<double>::none / 2;
    if (!counts) weight = nothing;

    const float rounded = counts ? float(weight) : never, most = largest_of_block<warps>(rounded, parts);
    const float mass = sum_of_block<warps>(counts ? exp2_approx(rounded - most) : 0, parts);
    const float log_mass = most > hardly ? most + log2f(mass) + fabsf(most) * 0x1p-22f + 1e-4f : never;
    float along[box_axes];
#pragma unroll
    for (int a = 0; a < box_axes; a++) along[a] = float(places[a]);
    write_box<warps>(boxes, gridDim.x, blockIdx.x, along, there, parts);
    if (j == 0) boxes[(long long)(2 * box_axes) * gridDim.x + blockIdx.x] = log_mass;

    for (int k = warp; k < 16 * Screen<depth>::steps; k += warps) {
        double low = Exponent<double>::none, high = low;  // the least negated
        for (int i = lane; k < d && i < block_rows; i += 32) {
            low = larger(low, -columns[k * pitch + i]);
            high = larger(high, columns[k * pitch + i]);
        }
        const double middle = k < d ? 0.5 * largest_over_lanes<32>(high) - 0.5 * largest_over_lanes<32>(low) : 0;
        if (lane == 0) {
            if (k < depth) centre[k] = exact.centre[k] = middle;
            screen.centre[k] = k < d ? float(coordinate_of(middle, origin[k], scale)) : 0;
        }
    }
    __syncthreads();

    double norm = 0;
    for (int k = 0; k < depth; k++) {
        double u = 0;
        if (k < d) u = columns[k * pitch + j] = (columns[k * pitch + j] - centre[k]) * scale;
        exact.points[j][k] = u;
        norm = fma(u, u, norm);
    }
    const bool serves = norm <= largest_operand * largest_operand && (!counts || weight >= least_weight);
    const float radius2 = largest_of_block<warps>(serves ? float(norm) * (1 + 0x1p-22f) : unbounded, parts);
    exact.norms[j] = counts ? weight - 0.5 * norm : nothing;
    exact.weights[j] = weight;
    screen.norms[j] = counts ? float(larger(weight - 0.5 * (1 - error_of_screen) * norm, -1e30)) : float(nothing);
    for (int s = 0; s < Screen<depth>::steps; s++)
        for (int t = 0; t < 4; t++) {
            unsigned packed[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int k = 16 * s + 8 * half + 2 * t;
                const float first = k < d && serves ? float(columns[k * pitch + j]) : 0;
                const float second = k + 1 < d && serves ? float(columns[(k + 1) * pitch + j]) : 0;
                packed[half] = pack_f16(first, second);
            }
            screen.right[j / 8][s][j % 8 * 4 + t] = make_uint2(packed[0], packed[1]);
        }
    if (j == 0) {
        screen.radius2 = radius2;
        screen.log_mass = log_mass;
        exact.radius2 = radius2;
        exact.most_weight = most > hardly ? double(most) : nothing;
    }
}
