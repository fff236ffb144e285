// Gradient of the weights of a depthwise convolution of stride 1 and dilation 1, arrays of (batch, channels, length):
//
//   dw[c, k] = sum_b sum_i dy[b, c, i] x[b, c, i + k - before],   db[c] = sum_b sum_i dy[b, c, i]
//
//   x        (batch, channels, length)        Stored
//   dy       (batch, channels, outputs)       Stored
//   partial  (splits, channels, taps + 1)     Real    sums of the tiles of a split, the last column those of db
//
// A block owns a channel, TAPS taps and `each` of the channel's tiles. A tile is 128 rows of 16 bytes of outputs of a
// sequence. A warp takes every fourth tile. It loads the next tile into registers, 16 bytes a load if arrays are aligned,
// while it computes with the one before. That one lies in shared memory in four planes, row r in plane r % 4, so that a
// lane's four rows of outputs, and the rows of x that they meet, are read without bank conflicts. Each x is used for all
// of the lane's outputs that meet it. Loads of x begin at a multiple of 16 bytes: the first `shift` elements lie before
// the inputs of the first output. So there are `vector` - 1 more sums than taps, and the extra sums are dropped.
//
// A lane takes TAPS + vector - 1 FMAs an output, and about 150 other instructions a tile (sm_90, float32; 240 with the
// conversions of float16). With TAPS = 4 that is a quarter of the time of memory on an H200 in float32, and two thirds in
// float16. With TAPS = 32 it is two thirds, and more than the time of memory in float16 or if taps are in several
// blocks, which find x and dy in the L2 cache.
//
// Barriers: one, before the warps' sums are added. A chain of sums in Real has four rows of outputs for each tile and is
// bounded by `each`; sums of warps and splits are added in float64. No order depends on timing.
//
// Macros: STORAGE (core/storage.cuh), TAPS.
//
// The reduction of the weight gradient in two stages: CUDA Kernel Optimization and Counter-Free Performance Analysis
// for Depthwise Convolution (2026). Planes, sums of all taps in registers and tiles ahead are not from the source.
#include "weight_grad_rows.cuh"

constexpr int planes = 4;
constexpr int tile = 32 * own;
constexpr int halo = (TAPS + vector + vector - 1) / vector * vector;  // x beyond a tile that its outputs may meet
constexpr int sums = TAPS + vector - 1;
constexpr int loads = tile / (32 * vector);

// Rows of a plane, two more than a multiple of eight: eight lanes that write rows next to each other meet all banks.
constexpr int plane_of_x = ((tile + halo) / row_width / planes + 8) / 8 * 8 + 2;
constexpr int plane_of_dy = tile / row_width / planes + 2;
static_assert(halo / vector <= 32, "a lane loads one vector of the halo");

struct Tile {
    uint4 x[loads], x_beyond, dy[loads];
};

__device__ inline void put(Row* rows, int plane, int index, uint4 loaded) {
    Real values[vector];
    unpack(loaded, values);
#pragma unroll
    for (int e = 0; e < vector; e += row_width) {
        const int row = (index * vector + e) / row_width;
        to_row(values + e, rows[row % planes * plane + row / planes]);
    }
}

extern "C" __global__ void __launch_bounds__(32 * warps)
conv1d_weight_grad(const Stored* __restrict__ x, const Stored* __restrict__ dy, Real* __restrict__ partial, int tiles,
                   int each, int channels, int length, int outputs, int taps, int before) {
    __shared__ Row x_rows[warps][planes * plane_of_x], dy_rows[warps][planes * plane_of_dy];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int groups = (taps + TAPS - 1) / TAPS, first_tap = int(blockIdx.x % groups) * TAPS;
    const int channel = int(blockIdx.x / groups % channels), split = int(blockIdx.x / groups / channels);
    const int tiles_of_sequence = (outputs + tile - 1) / tile;
    const int shift = (first_tap - before) & (vector - 1);
    const int x_begin = first_tap - before - shift;  // of the first tile

    const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(dy)) % 16 == 0 &&
                         length % vector == 0 && outputs % vector == 0;
    const auto fetch = [&](int index, Tile& to) {
        const int sequence = index / tiles_of_sequence, begin = (index - sequence * tiles_of_sequence) * tile;
        const Stored* const own_x = x + ((long long)sequence * channels + channel) * length;
        const Stored* const own_dy = dy + ((long long)sequence * channels + channel) * outputs;
        const int own_at = begin + lane * vector, x_at = x_begin + own_at;
        constexpr int step = 32 * vector;
        if (aligned) {
            // Then a vector is in the array or outside of it as a whole.
            const Stored *const at_x = own_x + x_at, *const at_dy = own_dy + own_at;
            const auto load = [&](const Stored* at, int index, int end) {
                return load_streaming_if(unsigned(index) < unsigned(end), at);
            };
#pragma unroll
            for (int v = 0; v < loads; v++) to.x[v] = load(at_x + v * step, x_at + v * step, length);
#pragma unroll
            for (int v = 0; v < loads; v++) to.dy[v] = load(at_dy + v * step, own_at + v * step, outputs);
            to.x_beyond = load(at_x + tile, lane < halo / vector ? x_at + tile : -1, length);
        } else {
#pragma unroll
            for (int v = 0; v < loads; v++) to.x[v] = load_within(own_x, x_at + v * step, length);
#pragma unroll
            for (int v = 0; v < loads; v++) to.dy[v] = load_within(own_dy, own_at + v * step, outputs);
            if (lane < halo / vector) to.x_beyond = load_within(own_x, x_at + tile, length);
        }
    };

    Real sum[sums + 1];  // the last of dy
#pragma unroll
    for (int k = 0; k <= sums; k++) sum[k] = 0;
    const int end = min(tiles, (split + 1) * each);
    int index = split * each + warp;
    Tile ahead;
    if (index < end) fetch(index, ahead);
#pragma unroll 1
    for (; index < end; index += warps) {
#pragma unroll
        for (int v = 0; v < loads; v++) {
            put(x_rows[warp], plane_of_x, v * 32 + lane, ahead.x[v]);
            put(dy_rows[warp], plane_of_dy, v * 32 + lane, ahead.dy[v]);
        }
        if (lane < halo / vector) put(x_rows[warp], plane_of_x, loads * 32 + lane, ahead.x_beyond);
        __syncwarp();
        if (index + warps < end) fetch(index + warps, ahead);

        add_products<sums>(
            sum, [&](int r) { return dy_rows[warp][r * plane_of_dy + lane]; },
            [&](int r) { return x_rows[warp][r % planes * plane_of_x + lane + r / planes]; });
        __syncwarp();  // all lanes have read
    }

    write_partial<warps>(sum, partial + ((long long)split * channels + channel) * (taps + 1), first_tap, shift,
                         min(TAPS, taps - first_tap), taps);
}
