// Gradient of the weights of a depthwise convolution of stride 1 and dilation 1 along short rows:
//
//   dw[c, k] = sum_b sum_i dy[b, c, i] x[b, c, i + k - before],   db[c] = sum_b sum_i dy[b, c, i]
//
//   x        (batch, channels, length)        Stored
//   dy       (batch, channels, outputs)       Stored
//   partial  (splits, channels, taps + 1)     Real    sums of the items of a split, the last column those of db
//
// A block owns a channel, TAPS taps and `each` items of the batch. A warp takes `rows` of them at a time, as many as its
// lanes cover with four Rows of outputs for each lane: `chunks` lanes for each row. Both arrays lie in shared memory with
// the zeros around them (short_rows.cuh), and each x is read once for all outputs of a lane that meet it. The inputs of an
// output begin `shift` elements after the beginning of a Row. So there are row_width - 1 more sums than taps, and the
// extra sums are dropped. Several warps of a scheduler hide the latency of memory.
//
// For a tile of 512 outputs a lane takes about 1,080 instructions with TAPS = 32, 560 of them FMAs, and 610 with TAPS = 4
// (sm_90, float32, 64 outputs a row). The code before and after all tiles takes about 500 and 300.
//
// Barriers: one, before the warps' sums are added. A chain of sums in Real has four Rows of outputs for each item and is
// bounded by `each`; sums of warps and splits are added in float64. No order depends on timing.
//
// Macros: STORAGE (core/storage.cuh), TAPS.
//
// The reduction of the weight gradient in two stages: CUDA Kernel Optimization and Counter-Free Performance Analysis
// for Depthwise Convolution (2026). Rows side by side and sums of all taps in registers are not from the source.
#include "short_rows.cuh"
#include "weight_grad_rows.cuh"

constexpr int sums = TAPS + row_width - 1;

extern "C" __global__ void __launch_bounds__(32 * warps)
conv1d_weight_grad_short_rows(const Stored* __restrict__ x, const Stored* __restrict__ dy, Real* __restrict__ partial,
                              int batch, int each, int channels, int length, int outputs, int taps, int before, int rows,
                              int chunks, int pitch_of_x, int vectors_of_x, int pitch_of_dy, int vectors_of_dy) {
    extern __shared__ Row shared_rows[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int groups = (taps + TAPS - 1) / TAPS, first_tap = int(blockIdx.x % groups) * TAPS;
    const int channel = int(blockIdx.x / groups % channels), split = int(blockIdx.x / groups / channels);
    Row* const x_rows = shared_rows + warp * rows * (pitch_of_x + pitch_of_dy);
    Row* const dy_rows = x_rows + rows * pitch_of_x;
    const int own_row = lane % rows, chunk = lane / rows;
    const Row* const own_x = x_rows + own_row * pitch_of_x + 4 * chunk;
    const Row* const own_dy = dy_rows + own_row * pitch_of_dy + 4 * chunk;

    const int begin = first_tap - before, shift = begin & vector - 1;
    const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(dy)) % 16 == 0 &&
                         length % vector == 0 && outputs % vector == 0;
    const int places = aligned ? 1 : vector;  // of a vector
    const Walk over_x(lane, 32, vectors_of_x * places), over_dy(lane, 32, vectors_of_dy * places);

    Real sum[sums + 1];  // the last of dy
#pragma unroll
    for (int k = 0; k <= sums; k++) sum[k] = 0;
    const int end = min(batch, (split + 1) * each);
#pragma unroll 1
    for (int item = split * each + warp * rows; item < end; item += warps * rows) {
        const long long row = (long long)item * channels + channel;
        const int there = min(rows, end - item);
        const ShortRows of_x = {x + row * length, (long long)channels * length, there, length};
        const ShortRows of_dy = {dy + row * outputs, (long long)channels * outputs, there, outputs};
        if (aligned) {
            stage_vectors(of_x, begin - shift, x_rows, pitch_of_x, over_x);
            stage_vectors(of_dy, 0, dy_rows, pitch_of_dy, over_dy);
        } else {
            stage_elements(of_x, begin - shift, x_rows, pitch_of_x, over_x);
            stage_elements(of_dy, 0, dy_rows, pitch_of_dy, over_dy);
        }
        __syncwarp();
        if (own_row < there && chunk < chunks) {
            add_products<sums>(
                sum, [&](int r) { return own_dy[r]; }, [&](int r) { return own_x[r + shift / row_width]; });
        }
        __syncwarp();  // all lanes have read
    }

    write_partial<warps>(sum, partial + ((long long)split * channels + channel) * (taps + 1), first_tap,
                         shift % row_width, min(TAPS, taps - first_tap), taps);
}
