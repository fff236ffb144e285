// Gradient by x of a depthwise convolution with any stride and dilation, in any memory layout:
//
//   dx[b, c, j] = sum of v[c, k] dy[b, c, i] over k and i with i stride + k dilation - before = j,
//   v[c, k] = w[c, k], or w[c, taps - 1 - k]
//
//   dy       (batch, channels, outputs)     Stored     or (batch, outputs, channels) where channels are last
//   w        (channels, taps)               Stored
//   dx       as dy, of length positions     Stored
//
// Taps that meet an input are period = stride / gcd(stride, dilation) apart, and from one to the next the output goes back
// by `back` = dilation / gcd; `inverse` is the inverse of `back` modulo the period. A thread goes over these taps only. An
// input that no tap meets has gradient 0.
//
// A thread owns an input. Neighbouring threads have neighbours in memory, see places.cuh. No barriers.
//
// Macros: STORAGE (core/storage.cuh), THREADS (all of a block).
//
// The gradient is the source's for stride 1; strides are not from the source.
#include "conv1d.cuh"
#include "places.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
conv1d_strided_input_grad(const Stored* __restrict__ dy, const Stored* __restrict__ w, Stored* __restrict__ dx,
                          long long batch, long long channels, long long outputs, long long length, long long before,
                          long long stride, long long dilation, long long period, long long back, long long inverse,
                          int taps, int channels_last, int flip) {
    const Place place = place_of<1>(batch, channels, length, channels_last);
    if (!place.exists || place.first >= length) return;
    const long long along = channels_last ? channels : 1, common = stride / period;
    const Stored* const own_dy = dy + origin(place, channels, outputs, channels_last);

    // k dilation = j + before modulo the stride: for the remainder, k = remainder / common * inverse modulo the period.
    const long long from = place.first + before, whole = from / stride, remainder = from % stride;
    Real sum = 0;
    if (remainder % common == 0) {
        long long k = remainder / common * inverse % period;
        long long i = whole - (k * dilation - remainder) / stride;
        for (; k < taps && i >= 0; k += period, i -= back)
            if (i < outputs) sum = fma(weight(w, place.channel, taps, int(k), flip), to_real(own_dy[i * along]), sum);
    }
    dx[origin(place, channels, length, channels_last) + place.first * along] = to_stored(sum);
}
