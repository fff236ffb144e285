// Depthwise convolution with any stride and dilation, in any memory layout:
//
//   y[b, c, i] = activation(bias[c] + sum_k v[c, k] x[b, c, i stride + k dilation - before]),
//   v[c, k] = w[c, k], or w[c, taps - 1 - k]
//
// where x is zero before its first and after its last element.
//
//   x        (batch, channels, length)     Stored     or (batch, length, channels) where channels are last
//   w        (channels, taps)              Stored
//   bias     (channels,)                   Real       or null
//   y        as x, of so many outputs      Stored
//
// A thread owns `own` outputs of a channel. Neighbouring threads have neighbours in memory: blockDim.x threads lie along
// the outputs or, if these are last, along the channels; blockDim.y along all other axes. x and w are read through
// the L1 cache, which holds the common inputs of windows. No barriers.
//
// Macros: STORAGE (core/storage.cuh), THREADS (all of a block).
//
// One thread for each output, neighbours next to each other: the coalesced variant of the source.
#include "conv1d.cuh"
#include "places.cuh"

constexpr int own = 4;

extern "C" __global__ void __launch_bounds__(THREADS, 4)
conv1d_strided(const Stored* __restrict__ x, const Stored* __restrict__ w, const Real* __restrict__ bias,
               Stored* __restrict__ y, long long batch, long long channels, long long length, long long outputs,
               long long before, long long stride, long long dilation, int taps, int channels_last, int flip,
               int activation) {
    const Place place = place_of<own>(batch, channels, outputs, channels_last);
    if (!place.exists) return;
    const long long along = channels_last ? channels : 1;
    const Stored* const own_x = x + origin(place, channels, length, channels_last);
    Stored* const own_y = y + origin(place, channels, outputs, channels_last);

    const Real start = bias ? bias[place.channel] : Real(0);
    Real sums[own];
#pragma unroll
    for (int j = 0; j < own; j++) sums[j] = start;
    const long long apart = place.step * stride;
    long long at = place.first * stride - before;
#pragma unroll 1
    for (int k = 0; k < taps; k++, at += dilation) {
        const Real tap = weight(w, place.channel, taps, k, flip);
#pragma unroll
        for (int j = 0; j < own; j++) {
            const long long met = at + j * apart;
            if (met >= 0 && met < length) sums[j] = fma(tap, to_real(own_x[met * along]), sums[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < own; j++) {
        const long long i = place.first + j * place.step;
        if (i < outputs) own_y[i * along] = to_stored(activated(sums[j], activation));
    }
}
