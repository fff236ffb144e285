// Gradient of the weights of a depthwise convolution of few taps, stride 1 and dilation 1, arrays of (batch, channels,
// length):
//
//   dw[c, k] = sum_b sum_i dy[b, c, i] x[b, c, i + k - before],   db[c] = sum_b sum_i dy[b, c, i]
//
// for 1 <= taps <= 4 and 0 <= before < taps.
//
//   x        (batch, channels, length)        Stored
//   dy       (batch, channels, outputs)       Stored
//   partial  (splits, channels, taps + 1)     Real    sums of the tiles of a split, the last column those of db
//
// x and dy are aligned to 16 bytes; `length` and `outputs` are multiples of `vector`.
//
// A block owns a channel and `each` of its tiles, `slabs` slabs of outputs of a sequence (neighbours.cuh); a warp takes
// every fourth tile. An output takes 11 instructions (sm_90, float16, 4 taps), and 26 in weight_grad.cu, which computes
// more sums than taps and has x and dy in shared memory.
//
// Barriers: one, before the warps' sums are added. A chain of sums in Real has 32 outputs for each tile and is bounded by
// `each`; sums of warps and splits are added in float64. No order depends on timing.
//
// Macro: STORAGE (core/storage.cuh), 16 or 32.
//
// The reduction of the weight gradient in two stages: CUDA Kernel Optimization and Counter-Free Performance Analysis
// for Depthwise Convolution (2026). Windows from neighbouring lanes are its warp-tiled variant, here of packed words.
#include "neighbours.cuh"
#include "weight_grad_partial.cuh"

constexpr int warps = 4;
constexpr int tile = slabs * slab;
constexpr int most_taps = 4;

struct Operands {
    const Stored *x, *dy;  // of the channel, of the first sequence
    long long x_step, dy_step;  // from one sequence to the next
    int tiles_of_sequence, length, outputs;
};

template <int taps, int before>
__device__ inline void accumulate(Real (&sum)[most_taps + 1], const Operands& of, int begin, int end) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int index = begin; index < end; index += warps) {
        const int sequence = index / of.tiles_of_sequence;
        const int position = (index - sequence * of.tiles_of_sequence) * tile + lane * vector;
        const Stored* const x = of.x + sequence * of.x_step + position;
        const Stored* const dy = of.dy + sequence * of.dy_step + position;
        const int x_left = of.length - position, dy_left = of.outputs - position;
        Window window;
        uint4 g_of[slabs];
#pragma unroll
        for (int v = 0; v < slabs; v++) window.x[v] = load_streaming_if(v * slab < x_left, x + v * slab);
#pragma unroll
        for (int v = 0; v < slabs; v++) g_of[v] = load_streaming_if(v * slab < dy_left, dy + v * slab);
        const int further = lane == 0 ? -vector : (slabs - 1) * slab + vector;
        const bool met_beyond = lane == 0 ? before > 0 && position > 0 : lane == 31 && before < taps - 1;
        window.beyond = load_streaming_if(met_beyond && further < x_left, x + further);
        window.first = lane == 0;
        window.last = lane == 31;

        const Neighbours<slabs, before, taps - 1 - before> neighbours(window);
#pragma unroll
        for (int v = 0; v < slabs; v++) {
            Real met[3][vector], g[vector];
            neighbours.meet(window, v, met);
            unpack(g_of[v], g);
#pragma unroll
            for (int i = 0; i < vector; i++) {
                sum[most_taps] += g[i];
#pragma unroll
                for (int k = 0; k < taps; k++) {
                    const int at = vector + i + k - before;
                    sum[k] = fma(g[i], met[at / vector][at % vector], sum[k]);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * warps, 6)
conv1d_weight_grad_few_taps(const Stored* __restrict__ x, const Stored* __restrict__ dy, Real* __restrict__ partial,
                            int tiles, int each, int channels, int length, int outputs, int taps, int before) {
    const int split = int(blockIdx.x) / channels, channel = int(blockIdx.x) - split * channels;
    const Operands of = {x + (long long)channel * length, dy + (long long)channel * outputs,
                         (long long)channels * length,    (long long)channels * outputs,
                         (outputs + tile - 1) / tile,     length,
                         outputs};
    const int begin = split * each + int(threadIdx.x) / 32, end = min(tiles, (split + 1) * each);
    Real sum[most_taps + 1];  // the last of dy
#pragma unroll
    for (int k = 0; k <= most_taps; k++) sum[k] = 0;
    of_taps(taps, before,
            [&](auto known) { accumulate<decltype(known)::taps, decltype(known)::before>(sum, of, begin, end); });
    write_partial<warps>(sum, partial + ((long long)split * channels + channel) * (taps + 1), 0, 0, taps, taps);
}
