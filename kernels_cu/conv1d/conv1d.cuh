// Shared by the kernels of the depthwise convolution: its activations, and the weight of a tap.
//
// Macro: STORAGE (core/storage.cuh).
#pragma once
#include "storage.cuh"

enum Activation { NO_ACTIVATION, SILU, GELU };

__device__ inline float complementary_error_function(float z) { return erfcf(z); }
__device__ inline double complementary_error_function(double z) { return erfc(z); }

// To 2 units in the last place, without the branch that exact division takes; 0 for denominators beyond 2^126.
__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }

// z / (1 + e^-z), or z times the normal distribution function of z, which keeps its digits where it is small.
__device__ inline Real activated(Real z, int activation) {
    if (activation == SILU) return quotient(z, 1 + exp(-z));
    if (activation == GELU) return Real(0.5) * z * complementary_error_function(z * Real(-0.70710678118654752));
    return z;
}

// The activations of several numbers; a loop, since the code of one is long.
template <int count>
__device__ inline void activate(Real (&z)[count], int activation) {
    if (activation == NO_ACTIVATION) return;
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        const Real first = activated(z[0], activation);
#pragma unroll
        for (int e = 0; e < count - 1; e++) z[e] = z[e + 1];
        z[count - 1] = first;
    }
}

// Tap k of a channel; `w` is (channels, taps).
__device__ inline Real weight(const Stored* w, long long channel, int taps, int k, int flip) {
    return to_real(w[channel * taps + (flip ? taps - 1 - k : k)]);
}
