// Gradient of the weights of a depthwise convolution of any stride and dilation, arrays of (batch, channels, length):
//
//   dw[c, k] = sum_b sum_i dy[b, c, i] x[b, c, i stride + k dilation - before],   db[c] = sum_b sum_i dy[b, c, i]
//
//   x        (batch, channels, length)        Stored
//   dy       (batch, channels, outputs)       Stored
//   partial  (splits, channels, taps + 1)     Real    sums of a split, the last column those of db
//
// A block owns a channel, TAPS taps and `each` of the channel's outputs, one sequence after the other, so that short
// sequences also fill a block. A lane takes an output and loads all of its inputs. Neighbouring lanes load inputs `stride`
// apart; inputs that other taps have loaded come from the L1 cache.
//
// An output takes about 25 instructions and 8 for each tap (sm_90). 32 outputs take taps + 1 requests to the L1 cache, each
// of as many lines as the stride. With four taps in float32 that is about the time of memory on an H200, with more taps
// more.
//
// Barriers: one, before the warps' sums are added. No order depends on timing; a chain of sums has each / 128 terms.
//
// Macros: STORAGE (core/storage.cuh), TAPS.
#include "storage.cuh"
#include "weight_grad_partial.cuh"

constexpr int warps = 4, threads = 32 * warps;
constexpr int outputs_at_a_time = TAPS <= 4 ? 3 : 1;  // of a lane: few taps leave registers for more loads in flight

extern "C" __global__ void __launch_bounds__(threads)
conv1d_weight_grad_strided(const Stored* __restrict__ x, const Stored* __restrict__ dy, Real* __restrict__ partial,
                           long long all_outputs, int each, int channels, int length, int outputs, int taps, int stride,
                           int dilation, int before) {
    const int groups = (taps + TAPS - 1) / TAPS, first_tap = int(blockIdx.x % groups) * TAPS;
    const int channel = int(blockIdx.x / groups % channels), split = int(blockIdx.x / groups / channels);
    const int own_taps = min(TAPS, taps - first_tap);

    Real sum[TAPS + 1];  // the last of dy
#pragma unroll
    for (int k = 0; k <= TAPS; k++) sum[k] = 0;

    const long long begin = (long long)split * each + threadIdx.x;
    const long long end = min(all_outputs, (long long)(split + 1) * each);
    // To the next output of a lane, which is often in the next sequence.
    const int more_sequences = threads / outputs, more_outputs = threads % outputs;
    const long long x_of_sequence = (long long)channels * length, dy_of_sequence = (long long)channels * outputs;
    const long long more_x = more_sequences * x_of_sequence, more_dy = more_sequences * dy_of_sequence;
    int i = int(begin % outputs);
    const Stored* own_x = x + (begin / outputs * channels + channel) * length;
    const Stored* own_dy = dy + (begin / outputs * channels + channel) * outputs;
#pragma unroll outputs_at_a_time
    for (long long at = begin; at < end; at += threads) {
        const Real g = to_real(own_dy[i]);
        // Unsigned, so that an input before the first is beyond the last.
        const unsigned first = unsigned(i) * stride + unsigned(first_tap) * dilation - unsigned(before);
        Real met[TAPS];
#pragma unroll
        for (int k = 0; k < TAPS; k++) {
            const unsigned input = first + unsigned(k) * dilation;
            met[k] = k < own_taps && input < unsigned(length) ? to_real(own_x[input]) : Real(0);
        }
#pragma unroll
        for (int k = 0; k < TAPS; k++) sum[k] += g * met[k];
        sum[TAPS] += g;
        i += more_outputs;
        const bool wraps = i >= outputs;
        i -= wraps ? outputs : 0;
        own_x += more_x + (wraps ? x_of_sequence : 0);
        own_dy += more_dy + (wraps ? dy_of_sequence : 0);
    }
    write_partial<warps>(sum, partial + ((long long)split * channels + channel) * (taps + 1), first_tap, 0, own_taps,
                         taps);
}
