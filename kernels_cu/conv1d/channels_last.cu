// Depthwise convolution with the channels last (neighbours in memory), stride 1:
//
//   y[b, i, c] = activation(bias[c] + sum_k v[c, k] x[b, i + k dilation - before, c]),
//   v[c, k] = w[c, k], or w[c, taps - 1 - k]
//
// where x is zero before its first and after its last element. The gradient by x is such a convolution of dy, with the
// taps in reverse order and before = (taps - 1) dilation - before, which may be negative.
//
//   x        (batch, length, channels)      Stored
//   w        (channels, taps)               Stored
//   bias     (channels,)                    Real       or null
//   y        (batch, outputs, channels)     Stored
//
// A thread owns CHANNELS neighbouring channels (16 bytes or, if vectors do not fit the arrays, one channel) and `own`
// outputs `dilation` apart. A window of `own` elements in registers slides over x, one element for each tap, and `far`
// more elements are in flight. The common elements of neighbouring windows come from the caches.
//
// A block has blockDim.x threads, at most 32, along the channels and blockDim.y of these windows. The taps of its channels
// are staged in shared memory, staged_taps at a time. Barriers: around each staging.
//
// Macros: STORAGE (core/storage.cuh), CHANNELS (1, or those of 16 bytes), OWN, THREADS (all of a block), BLOCKS (of a
// multiprocessor).
//
// The sliding window along the axis that is not contiguous, and the prefetch, are not from the source, which has one
// memory layout.
#include "conv1d.cuh"

constexpr int own = OWN;
constexpr int far = 4;           // elements of a channel in flight
constexpr int staged_taps = 16;  // a multiple of own and of far
constexpr int turn = own > far ? own : far;
static_assert(staged_taps % turn == 0 && turn % own == 0 && turn % far == 0, "registers have fixed places");

constexpr int most_lanes = 32;
constexpr int tap_stride = most_lanes * CHANNELS + row_width;  // taps of a channel in different banks, rows aligned

#if CHANNELS == 1
typedef Stored Group;
__device__ inline Group none() { return Stored(); }
__device__ inline void open(Group group, Real (&a)[1]) { a[0] = to_real(group); }
__device__ inline void store(Stored* to, const Real (&a)[1]) { *to = to_stored(a[0]); }
#else
typedef uint4 Group;
__device__ inline Group none() { return make_uint4(0, 0, 0, 0); }
__device__ inline void open(Group group, Real (&a)[vector]) { unpack(group, a); }
__device__ inline void store(Stored* to, const Real (&a)[vector]) { store_streaming(to, pack(a)); }
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv1d_channels_last(const Stored* __restrict__ x, const Stored* __restrict__ w, const Real* __restrict__ bias,
                     Stored* __restrict__ y, long long batch, long long channels, long long windows, int tiles,
                     int length, int outputs, int before, int dilation, int taps, int flip, int activation) {
    __shared__ Row tap_rows[staged_taps * tap_stride / row_width];
    Real* const staged = reinterpret_cast<Real*>(tap_rows);

    // Blocks lie along `tiles` of the channels first, then along the windows of all items of the batch. Those of an item
    // are counted along the outputs between dilations first, then by `own` dilations.
    const unsigned tile = blockIdx.x % unsigned(tiles), other = blockIdx.x / unsigned(tiles);
    const int width = blockDim.x * CHANNELS;
    const long long first_channel = (long long)tile * width, channel = first_channel + threadIdx.x * CHANNELS;
    const long long window_of_all = (long long)other * blockDim.y + threadIdx.y, item = window_of_all / windows;
    const unsigned within = unsigned(window_of_all - item * windows);
    const int begin = dilation == 1 ? within * own : within / dilation * own * dilation + within % dilation;
    const bool works = channel < channels && item < batch;

    // The next element of the window, or of what follows it, up to the last that a tap meets.
    int at = begin - before;
    const int end = works ? max(min(length, at + (own + taps - 1) * dilation), 0) : 0;
    const Stored* next = x + (item * length + at) * channels + channel;
    const long long apart = dilation * channels;
    const auto take = [&] {
        const Group group = unsigned(at) < unsigned(end) ? *reinterpret_cast<const Group*>(next) : none();
        at += dilation;
        next += apart;
        return group;
    };

    Group near[own], ahead[far];
#pragma unroll
    for (int j = 0; j < own; j++) near[j] = take();
#pragma unroll
    for (int j = 0; j < far; j++) ahead[j] = take();

    Real sums[own][CHANNELS];
#pragma unroll
    for (int e = 0; e < CHANNELS; e++) {
        const Real start = bias && works ? bias[channel + e] : Real(0);
#pragma unroll
        for (int i = 0; i < own; i++) sums[i][e] = start;
    }
    Real window[own][CHANNELS];
#pragma unroll
    for (int j = 0; j < own; j++) open(near[j], window[j]);

    const int those = int(min((long long)width, channels - first_channel));
#pragma unroll 1
    for (int from = 0; from < taps; from += staged_taps) {
        const int many = min(taps - from, staged_taps);
        if (from) __syncthreads();
#pragma unroll 1
        for (int c = threadIdx.y * blockDim.x + threadIdx.x; c < those; c += blockDim.x * blockDim.y)
#pragma unroll 1
            for (int k = 0; k < many; k++)
                staged[k * tap_stride + c] = weight(w, first_channel + c, taps, from + k, flip);
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < many; k += turn) {
#pragma unroll
            for (int s = 0; s < turn; s++) {
                if (k + s >= many) break;
                Real tap[CHANNELS];
#pragma unroll
                for (int e = 0; e < CHANNELS; e++) tap[e] = staged[(k + s) * tap_stride + threadIdx.x * CHANNELS + e];
#pragma unroll
                for (int i = 0; i < own; i++)
#pragma unroll
                    for (int e = 0; e < CHANNELS; e++)
                        sums[i][e] = fma(tap[e], window[(s + i) % own][e], sums[i][e]);
                open(ahead[s % far], window[s % own]);
                ahead[s % far] = take();
            }
        }
    }

    if (!works) return;
    if (activation != NO_ACTIVATION) {
#pragma unroll
        for (int i = 0; i < own; i++) activate(sums[i], activation);
    }
    Stored* to = y + (item * outputs + begin) * channels + channel;
#pragma unroll
    for (int i = 0; i < own; i++, to += apart)
        if (begin + i * dilation < outputs) store(to, sums[i]);
}
