// Gradient of the weights of a depthwise convolution, arrays of (batch, length, channels):
//
//   dw[c, k] = sum_b sum_i dy[b, i, c] x[b, i stride + k dilation - before, c],   db[c] = sum_b sum_i dy[b, i, c]
//
//   x        (batch, length, channels)        Stored
//   dy       (batch, outputs, channels)       Stored
//   partial  (splits, channels, taps + 1)     Real    sums of a split, the last column those of db
//
// Taps tap_step = stride / gcd(stride, dilation) apart, and outputs output_step = dilation / gcd apart, are a
// convolution of stride 1 and dilation 1 of the inputs x_step = stride output_step apart. A block owns TAPS such
// taps, `width` neighbouring channels, one for each thread, and `each` of the pieces of `chunk` such outputs. A thread
// keeps inputs in registers for the next output, so that it loads each input of a piece once. Neighbouring threads load
// neighbouring channels.
//
// A thread takes TAPS + 1 FMAs an output and 12 to 20 other instructions (sm_90), including the TAPS - 1 moves of a batch.
// With TAPS = 4 memory limits the time: instructions take a quarter of it on an H200 in float32, and half in float16. With
// TAPS = 32 they take about as long as memory in float32.
//
// Barriers: one, before threads' sums are added. A chain of sums has each / (threads / width) pieces. No order depends on
// timing.
//
// Macros: STORAGE (core/storage.cuh), TAPS.
#include "storage.cuh"

constexpr int threads = 256, chunk = 128;
constexpr int batch = TAPS * sizeof(Real) <= 64 ? 8 : 4;  // loads in flight, of each array, as registers allow
constexpr int fill = (TAPS - 1 + batch - 1) / batch * batch;  // inputs of a piece before those that a batch adds
constexpr int blocks = TAPS <= 4 ? 3 : 2;  // of a multiprocessor

// In elements; unsigned, so that what is before the first is beyond the end.
typedef unsigned long long Offset;

// A batch of elements of an array from `at` on, which goes on behind them; zeros outside of the array.
__device__ inline void load(const Stored* array, Offset& at, Offset stride, Offset end, Stored (&to)[batch]) {
    const Offset last = at + (batch - 1) * stride;
    if (at < end && last < end) {
        const Stored* element = array + at;
#pragma unroll
        for (int e = 0; e < batch; e++, element += stride) to[e] = *element;
        at = last + stride;
    } else {
#pragma unroll
        for (int e = 0; e < batch; e++, at += stride) to[e] = at < end ? array[at] : Stored{};
    }
}

extern "C" __global__ void __launch_bounds__(threads, blocks)
conv1d_weight_grad_channels_last(const Stored* __restrict__ x, const Stored* __restrict__ dy,
                                 Real* __restrict__ partial, int pieces, int each, int channels, int width, int length,
                                 int outputs, int taps, int tap_step, int output_step, int x_step, int stride,
                                 int dilation, int before) {
    __shared__ Real of_thread[TAPS + 1][threads];

    // The block's taps are residue + tap_step (first_tap + k).
    const int residues = min(tap_step, taps), taps_of_residue = (taps + tap_step - 1) / tap_step;
    const int groups = residues * ((taps_of_residue + TAPS - 1) / TAPS), group = int(blockIdx.x % groups);
    const int first_tap = group % residues + group / residues * TAPS * tap_step;
    const int bands = (channels + width - 1) / width;
    const int first_channel = int(blockIdx.x / groups % bands) * width, split = int(blockIdx.x / groups / bands);
    const int channel = first_channel + int(threadIdx.x) % width, slots = threads / width;

    Real sum[TAPS + 1];  // the last of dy
#pragma unroll
    for (int k = 0; k <= TAPS; k++) sum[k] = 0;

    // Pieces begin at each of the first output_step outputs; where chains differ in length, the last may have none.
    const int starts = min(output_step, outputs), longest_chain = (outputs + output_step - 1) / output_step;
    const int pieces_of_sequence = starts * ((longest_chain + chunk - 1) / chunk);
    const int end = channel < channels ? min(pieces, (split + 1) * each) : 0;
    for (int piece = split * each + int(threadIdx.x) / width; piece < end; piece += slots) {
        const int sequence = piece / pieces_of_sequence, rest = piece % pieces_of_sequence;
        const long long i = rest % starts + (long long)(rest / starts) * chunk * output_step;
        const int count = i < outputs ? int(min((long long)chunk, (outputs - i + output_step - 1) / output_step)) : 0;
        const Stored* const own_x = x + (long long)sequence * length * channels + channel;
        const Stored* const own_dy = dy + ((long long)sequence * outputs + i) * channels + channel;

        const Offset x_stride = Offset(x_step) * channels, x_end = Offset(length) * channels;
        const Offset dy_stride = Offset(output_step) * channels, dy_end = count * dy_stride;
        Offset next_x = (i * stride + (long long)first_tap * dilation - before) * channels, next_dy = 0;
        next_x -= (fill - (TAPS - 1)) * x_stride;

        Real met[TAPS - 1 + batch] = {};  // by the outputs of a batch
        const auto add_to_met = [&](const Stored(&loaded)[batch]) {
#pragma unroll
            for (int k = 0; k < TAPS - 1; k++) met[k] = met[k + batch];
#pragma unroll
            for (int e = 0; e < batch; e++) met[TAPS - 1 + e] = to_real(loaded[e]);
        };
#pragma unroll 1
        for (int filled = 0; filled < fill; filled += batch) {
            Stored loaded[batch];
            load(own_x, next_x, x_stride, x_end, loaded);
            add_to_met(loaded);
        }
#pragma unroll 1
        while (next_dy < dy_end) {
            Stored loaded_x[batch], loaded_dy[batch];  // converted when all are in flight
            load(own_x, next_x, x_stride, x_end, loaded_x);
            load(own_dy, next_dy, dy_stride, dy_end, loaded_dy);
            add_to_met(loaded_x);
            Real g[batch];
#pragma unroll
            for (int e = 0; e < batch; e++) g[e] = to_real(loaded_dy[e]);
#pragma unroll
            for (int e = 0; e < batch; e++) {
#pragma unroll
                for (int k = 0; k < TAPS; k++) sum[k] += g[e] * met[e + k];
                sum[TAPS] += g[e];
            }
        }
    }

#pragma unroll
    for (int k = 0; k <= TAPS; k++) of_thread[k][threadIdx.x] = sum[k];
    __syncthreads();
    for (int at = threadIdx.x; at < (TAPS + 1) * width; at += threads) {
        const int k = at / width, own_channel = first_channel + at % width, tap = first_tap + k * tap_step;
        if (own_channel >= channels || (k < TAPS ? tap >= taps : group > 0)) continue;
        double total = 0;
        for (int slot = 0; slot < slots; slot++) total += double(of_thread[k][slot * width + at % width]);
        partial[((long long)split * channels + own_channel) * (taps + 1) + (k < TAPS ? tap : taps)] = Real(total);
    }
}
