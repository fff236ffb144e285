// Depthwise convolution of float16 on the tensor cores, for at most 58 taps: see toeplitz.cuh.
//
//   y[n, c, o] = act(bias[c] + sum_k v[c, k] x[n, c, o + k - before]),   v[c, k] = w[c, k], or
//   w[c, taps - 1 - k] with flip
//
//   x     (batch, channels, length)   float16
//   w     (channels, taps)            float16
//   bias  (channels,)                 float    or null
//   y     (batch, channels, outputs)  float16  aligned to 16 bytes; no number before x and none after is read
//
// Sums are in float32, at most six products of 16 taps each; they are rounded once, after the activation.
//
// A block has a channel, and a segment of 256 GROUPS outputs of a row for each warp. A warp loads all of its inputs at once,
// 16 bytes for each lane and group, and loads the channel's taps into registers meanwhile. The rows that later blocks of
// taps meet, except the last, belong to another lane: they are shuffled, so that x is read once. Barriers: one, when the
// taps are in shared memory.
//
// If one of a warp's inputs is not finite, all of its outputs are summed from the definition.
//
// Macros: STORAGE (16), THREADS (at most, of a block), GROUPS, TAP_BLOCKS (2 or 3; taps + 30 + slip < 32 TAP_BLOCKS),
// BLOCKS (of a multiprocessor).
#include "toeplitz.cuh"

constexpr int segment = GROUPS * group_of_outputs;
// Of taps in shared memory, pairs that begin with an even one and with an odd one: no pair is put together from two
// registers. Copy p has v[h - zeros - p] at half h.
constexpr int zeros = 40;
constexpr int copy_words = 16 * TAP_BLOCKS + zeros / 2;

// Words that are -0 or 0, or NaN once one of the numbers was not finite.
__device__ inline void trace_not_finite(unsigned& trace, unsigned pair) { trace = fma_f16x2(pair, 0, trace); }

// What the lane brings for block b of taps: X of row g + b, which is the lane's own of `rows` or of the rows after.
__device__ inline uint4 shifted(uint4 rows, uint4 after, int b) {
    const int lane = threadIdx.x % 32, source = lane + 4 * b & 31;
    const bool wraps = lane < 4 * b;
    return make_uint4(__shfl_sync(~0u, wraps ? after.x : rows.x, source),
                      __shfl_sync(~0u, wraps ? after.y : rows.y, source),
                      __shfl_sync(~0u, wraps ? after.z : rows.z, source),
                      __shfl_sync(~0u, wraps ? after.w : rows.w, source));
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv1d_toeplitz_short(const Stored* __restrict__ x, const Stored* __restrict__ w, const float* __restrict__ bias,
                      Stored* __restrict__ y, unsigned batch, unsigned channels, unsigned segments, int length, int outputs,
                      int taps, int before, int flip, int activation) {
    __shared__ unsigned shared_taps[2][copy_words];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned channel = blockIdx.x % channels;
    const unsigned task = blockIdx.x / channels * (blockDim.x / 32) + threadIdx.x / 32, sequence = task / segments;
    const bool works = sequence < batch;  // the warp
    const long long at_row = (long long)sequence * channels + channel;
    const Sequence of = {x + at_row * length, w + (long long)channel * taps, y + at_row * outputs, works ? length : 0,
                         outputs,             taps,                          before,               flip};
    const auto [early, slip] = alignment(x, at_row, length, outputs, before);
    const int first = int(task % segments) * segment - early, start = first - before - slip;

    const int at = start + row_of_outputs * g + 8 * t;
    const Stored* const address = of.x + at;
    uint4 rows[GROUPS + 1];
#pragma unroll
    for (int j = 0; j < GROUPS; j++)
        rows[j] = of.whole_vector(address + group_of_outputs * j, at + group_of_outputs * j);
    const int at_beyond = g < TAP_BLOCKS - 1 ? at + group_of_outputs * GROUPS : -vector;
    rows[GROUPS] = of.whole_vector(address + group_of_outputs * GROUPS, at_beyond);
    if (of.is_ragged(start)) {
#pragma unroll
        for (int j = 0; j < GROUPS; j++) of.mend(rows[j], at + group_of_outputs * j);
        of.mend(rows[GROUPS], at_beyond);
    }

    unsigned short *const even = reinterpret_cast<unsigned short*>(shared_taps[0]),
                          *const odd = reinterpret_cast<unsigned short*>(shared_taps[1]);
    for (int h = threadIdx.x; h < 2 * copy_words; h += blockDim.x) {
        const unsigned short bits = to_stored(of.tap(h - zeros)).bits;
        even[h] = bits;
        if (h + 1 < 2 * copy_words) odd[h + 1] = bits;
    }
    __syncthreads();
    if (!works) return;

    unsigned trace = 0;
    Taps own_taps[TAP_BLOCKS];
    const unsigned* const of_outputs[2] = {shared_taps[slip % 2] + zeros / 2 - slip / 2,
                                           shared_taps[(slip + 1) % 2] + zeros / 2 - (slip + 1) / 2};
#pragma unroll
    for (int b = 0; b < TAP_BLOCKS; b++)
#pragma unroll
        for (int m = -1; m < 4; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const unsigned pair = of_outputs[h][16 * b + 2 * (2 * t - g) + m];
                trace_not_finite(trace, pair);
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int s = 0; s < 2; s++) {
                        const int c = m - 2 * s + i;
                        if (c == 0 || c == 1) own_taps[b][i][s][2 * c + h] = pair;
                    }
            }

    const float own_bias = bias ? bias[channel] : 0;
    const int own_first = first + row_of_outputs * 2 * t + 4 * g;
    Stored* const to = of.y + own_first;
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        if (first + group_of_outputs * j >= outputs) break;
        Group sums;
#pragma unroll
        for (int b = 0; b < TAP_BLOCKS; b++)
            add_product(sums, own_taps[b], b ? shifted(rows[j], rows[j + 1], b) : rows[j], b == 0);
        float z[8];
#pragma unroll
        for (int e = 0; e < 8; e++) z[e] = element(sums, e / 4, e % 4) + own_bias;
        activate(z, activation);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const int further = group_of_outputs * j + row_of_outputs * n;
            of.write(to + further, own_first + further, z + 4 * n);
        }
    }

#pragma unroll
    for (int j = 0; j <= GROUPS; j++) {
        trace_not_finite(trace, rows[j].x);
        trace_not_finite(trace, rows[j].y);
        trace_not_finite(trace, rows[j].z);
        trace_not_finite(trace, rows[j].w);
    }
    if (!__any_sync(~0u, (trace & 0x7fff7fffu) != 0)) return;
    __syncwarp();  // what other lanes have written is written
    const int end = min(first + segment, outputs);
#pragma unroll 1
    for (int o = max(first, 0) + lane; o < end; o += 32)
        of.y[o] = to_stored(activated(of.sum(o) + own_bias, activation));
}
