// Depthwise convolution with few taps along contiguous rows, stride 1, dilation 1:
//
//   y[b, c, i] = activation(bias[c] + sum_k v[c, k] x[b, c, i + k - before]),   v[c, k] = w[c, k], or w[c, taps - 1 - k]
//
// where x is zero before its first and after its last element, 1 <= taps <= 4 and 0 <= before < taps.
//
//   x        (batch, channels, length)     Stored
//   w        (channels, taps)              Stored
//   bias     (channels,)                   Real       or null
//   y        (batch, channels, outputs)    Stored
//
// x and y are aligned to 16 bytes; `length` and `outputs` are multiples of `vector`.
//
// The kernel is meant to be limited by memory: about 11 instructions an output (sm_90, float16, 4 taps), and no shared
// memory. A warp owns `slabs` slabs (neighbours.cuh), one after the other in one row or, if rows are no longer than
// `along` slabs, those of slabs / along items of the batch. Rows shorter than a slab lie side by side in it: neighbouring
// channels, 2^lane_bits lanes each. Inputs outside of a lane's vector come from the next lane by shuffles, and those beyond
// the warp's part of a row from one more vector.
//
// A block is (32, warps along a row, warps over channels), the grid (along a row, over channels, over the batch).
//
// Barriers: none. Every lane takes part in the shuffles, with outputs or without.
//
// Macro: STORAGE (core/storage.cuh), 16 or 32.
//
// Windows from neighbouring lanes: the warp-tiled variant of the source. Packed words and several rows are not.
#include "conv1d.cuh"
#include "neighbours.cuh"

struct Operands {
    const Stored *x, *w;
    const Real* bias;
    Stored* y;
    int batch, channels, length, outputs, before, taps, lane_bits, flip, activation;
};

template <int along, int taps, int before>
__device__ inline void convolve(Real (&sums)[slabs][vector], const Window& window, const Stored* w, bool flip,
                                Real start) {
    Real tap[taps];
#pragma unroll
    for (int k = 0; k < taps; k++) tap[k] = to_real(flip ? w[taps - 1 - k] : w[k]);
    const Neighbours<along, before, taps - 1 - before> neighbours(window);
#pragma unroll
    for (int v = 0; v < slabs; v++) {
        Real met[3][vector];
        neighbours.meet(window, v, met);
#pragma unroll
        for (int i = 0; i < vector; i++) {
            Real sum = start;
#pragma unroll
            for (int k = 0; k < taps; k++) {
                const int at = vector + i + k - before;
                sum = fma(tap[k], met[at / vector][at % vector], sum);
            }
            sums[v][i] = sum;
        }
    }
}

template <int along>
__device__ inline void of_warp(const Operands& of) {
    const int lane = threadIdx.x;
    int channel = blockIdx.y * blockDim.z + threadIdx.z, in_row = lane;
    if (along == 1) {
        channel = (channel << 5 - of.lane_bits) + (lane >> of.lane_bits);
        in_row = lane & (1 << of.lane_bits) - 1;
    }
    const int position = int(blockIdx.x * blockDim.y + threadIdx.y) * (along * slab) + in_row * vector;
    const int item = blockIdx.z * (slabs / along);
    int x_left = of.length - position, y_left = of.outputs - position;
    if (along == 1) {
        if (channel >= of.channels) channel = x_left = y_left = 0;  // a row without elements, so that no lane leaves the warp
    } else if (channel >= of.channels) {
        return;
    }

    // Slab v is part v % along of the row of item + v / along.
    const auto part = [](int v) { return v % along * slab; };
    const int row = item * of.channels + channel;
    const long long x_step = (long long)of.channels * of.length, y_step = (long long)of.channels * of.outputs;
    const auto has_item = [&](int v) { return along == slabs || item + v / along < of.batch; };
    const Stored* const x = of.x + (long long)row * of.length + position;
    Stored* const y = of.y + (long long)row * of.outputs + position;

    Window window;
#pragma unroll
    for (int v = 0; v < slabs; v++)
        window.x[v] = load_streaming_if(has_item(v) && part(v) < x_left, x + part(v) + v / along * x_step);
    if (along == slabs) {
        const int further = lane == 0 ? -vector : (slabs - 1) * slab + vector;
        const bool met = lane == 0 ? of.before > 0 && position > 0 : lane == 31 && of.before < of.taps - 1;
        window.beyond = load_streaming_if(met && further < x_left, x + further);
    }
    window.first = in_row == 0;
    window.last = in_row == (along == 1 ? (1 << of.lane_bits) - 1 : 31);

    const Stored* const w = of.w + channel * of.taps;
    const Real start = of.bias ? of.bias[channel] : Real(0);
    Real sums[slabs][vector];
    of_taps(of.taps, of.before, [&](auto known) {
        convolve<along, decltype(known)::taps, decltype(known)::before>(sums, window, w, of.flip, start);
    });

    if (of.activation != NO_ACTIVATION) {
        // One slab at a time, the sums of the others moving on: the code of all at once is long.
#pragma unroll 1
        for (int n = 0; n < slabs; n++) {
            activate(sums[0], of.activation);
#pragma unroll
            for (int i = 0; i < vector; i++) {
                const Real y = sums[0][i];
#pragma unroll
                for (int v = 0; v + 1 < slabs; v++) sums[v][i] = sums[v + 1][i];
                sums[slabs - 1][i] = y;
            }
        }
    }
#pragma unroll
    for (int v = 0; v < slabs; v++)
        store_streaming_if(has_item(v) && part(v) < y_left, y + part(v) + v / along * y_step, pack(sums[v]));
}

extern "C" __global__ void __launch_bounds__(256, 4)
conv1d_few_taps(const Stored* __restrict__ x, const Stored* __restrict__ w, const Real* __restrict__ bias,
                Stored* __restrict__ y, int batch, int channels, int length, int outputs, int before, int taps,
                int along, int lane_bits, int flip, int activation) {
    const Operands of = {x, w, bias, y, batch, channels, length, outputs, before, taps, lane_bits, flip, activation};
    if (along == slabs) of_warp<slabs>(of);
    if (along == 2) of_warp<2>(of);
    if (along == 1) of_warp<1>(of);
}
