// Epilogue of the weight gradients of a depthwise convolution: partial sums of blocks are added in a fixed order in
// float64:
//
//   dw[c, k] = sum_s partial[s, c, k],   db[c] = sum_s partial[s, c, taps]
//
//   partial  (splits, channels, taps + 1)  Real
//   dw       (channels, taps)              Stored    tap k in column taps - 1 - k if the weights are flipped
//   db       (channels,)                   Stored    null: not needed
//
// A block owns 32 neighbouring columns of a split's sums, its warps every sixteenth split. Barriers: one, before the
// sums of warps are added.
//
// Macro: STORAGE (core/storage.cuh).
#include "storage.cuh"

constexpr int warps = 16;

extern "C" __global__ void __launch_bounds__(32 * warps)
finish_conv1d_weight_grad(const Real* __restrict__ partial, Stored* __restrict__ dw, Stored* __restrict__ db,
                          int splits, int channels, int taps, int flip) {
    __shared__ double of_warp[warps][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long columns = (long long)channels * (taps + 1), column = (long long)blockIdx.x * 32 + lane;
    double sum = 0;
    if (column < columns) {
#pragma unroll 4
        for (int split = warp; split < splits; split += warps) sum += double(partial[split * columns + column]);
    }
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= columns) return;
    sum = 0;
    for (int w = 0; w < warps; w++) sum += of_warp[w][lane];
    const long long channel = column / (taps + 1);
    const int k = int(column % (taps + 1));
    if (k < taps) dw[channel * taps + (flip ? taps - 1 - k : k)] = to_stored(Real(sum));
    else if (db) db[channel] = to_stored(Real(sum));
}
