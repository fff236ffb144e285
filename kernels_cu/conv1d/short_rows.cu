// Depthwise convolution along short contiguous rows, stride 1, dilation 1:
//
//   y[b, c, i] = activation(bias[c] + sum_k v[c, k] x[b, c, i + k - before]),   v[c, k] = w[c, k], or w[c, taps - 1 - k]
//
// where x is zero before its first and after its last element, and k goes from first_tap to first_tap + own_taps - 1,
// because other taps meet no input. The gradient by x is such a convolution of dy.
//
//   x        (batch, channels, length)     Stored
//   w        (channels, taps)              Stored
//   bias     (channels,)                   Real       or null
//   y        (batch, channels, outputs)    Stored
//
// A block owns blockDim.x rows of one channel, which share its taps; a thread owns four Rows of outputs of one row, and
// blockDim.y threads cover a row. Rows lie in shared memory with the zeros around them (short_rows.cuh). Neighbouring
// threads have the same outputs of neighbouring rows. So all threads of a warp of 32 rows meet the same zeros before and
// after a row, and skip the taps that meet only zeros: three eighths of the products of a causal convolution of 64 inputs
// and as many taps. Rows of a channel are `channels` rows apart in memory, each of them whole sectors or nearly so; blocks
// of neighbouring channels are launched next to each other. (Several channels of an item would be contiguous, but each has
// its own taps: a thread would read as many Rows of taps, and the threads of a warp would not share zeros.)
//
// With 31 taps and 64 outputs a row, an output takes about 75 instructions (sm_90, float32; 67 in float16), about 40 of
// them outside of the window. For 8.4 million outputs that is 17 us at an H200's rate of issue; a copy takes 19.
//
// Barriers: after x and taps are staged, and around the exchange of outputs into vectors.
//
// Macros: STORAGE (core/storage.cuh), THREADS (at most, of a block), BLOCKS (of a multiprocessor).
//
// Staging with a halo: the cache-blocked variant of the source. Rows side by side and taps passed over are not from the source.
#include "conv1d.cuh"
#include "short_rows.cuh"
#include "window.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv1d_short_rows(const Stored* __restrict__ x, const Stored* __restrict__ w, const Real* __restrict__ bias,
                  Stored* __restrict__ y, int batch, int channels, int length, int outputs, int before, int taps,
                  int first_tap, int own_taps, int pitch, int vectors, int flip, int activation) {
    extern __shared__ Row shared_rows[];
    const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    const int channel = int(blockIdx.x % unsigned(channels)), item = int(blockIdx.x / unsigned(channels)) * blockDim.x;
    const int rows = min(int(blockDim.x), batch - item);
    const long long row = (long long)item * channels + channel;
    const int blocks = (own_taps + row_width - 1) / row_width;  // of taps
    const int absent = blocks * row_width - own_taps;           // of the first of them
    Row* const slots = shared_rows;
    Row* const tap_rows = slots + int(blockDim.x) * pitch;

    // What the first tap that is there or absent meets for output 0, in the slot `shift` behind its beginning.
    const int first = first_tap - before - absent;
    const int shift = first & vector - 1;
    const ShortRows inputs = {x + row * length, (long long)channels * length, rows, length};
    const auto tap = [&](int j) {
        return j >= absent && j < blocks * row_width ? weight(w, channel, taps, first_tap + j - absent, flip) : Real(0);
    };
    const Real own_tap = tap(thread);  // asked for before the inputs are waited for
    if (reinterpret_cast<size_t>(x) % 16 == 0 && length % vector == 0)
        stage_vectors(inputs, first - shift, slots, pitch, Walk(thread, threads, vectors));
    else
        stage_elements(inputs, first - shift, slots, pitch, Walk(thread, threads, vectors * vector));
    if (thread < blocks * row_width) reinterpret_cast<Real*>(tap_rows)[thread] = own_tap;
#pragma unroll 1
    for (int j = thread + threads; j < blocks * row_width; j += threads) reinterpret_cast<Real*>(tap_rows)[j] = tap(j);
    const Real start = bias ? bias[channel] : Real(0);
    Real sums[own];
#pragma unroll
    for (int i = 0; i < own; i++) sums[i] = start;
    __syncthreads();

    Row* const slot = slots + int(threadIdx.x) * pitch;
    const int own_rows = 4 * int(threadIdx.y);  // Rows of outputs before the thread's
    if (threadIdx.x < rows) {
        // Blocks of taps that meet an input: for the first one the last output does, for the last one the first.
        const int meets = first + own_rows * row_width;
        const int from = max(0, (2 - own - row_width - meets + row_width - 1) / row_width);
        const int end = min(blocks, (length - meets + row_width - 1) / row_width);
        const Row* const met = slot + own_rows + shift / row_width + from;
        const auto under = [&](int r, int m) { return met[r + m]; };
        if (from < end)
            accumulate(sums, under, tap_rows + from, end - from, from == 0 ? absent : 0, shift % row_width);
    }
    __syncthreads();

    // Neighbouring threads write neighbouring vectors, or elements of rows that vectors do not fit.
#pragma unroll
    for (int r = 0; r < 4; r++) to_row(sums + r * row_width, slot[own_rows + r]);
    __syncthreads();
    Stored* const own_y = y + row * outputs;
    const long long apart = (long long)channels * outputs;
    if (reinterpret_cast<size_t>(y) % 16 == 0 && outputs % vector == 0) {
#pragma unroll 1
        for (Walk walk(thread, threads, outputs / vector); walk.row < rows; walk.go_on()) {
            Real values[vector];
#pragma unroll
            for (int r = 0; r < rows_of_vector; r++) {
                Real part[row_width];
                from_row(slots[walk.row * pitch + walk.at * rows_of_vector + r], part);
#pragma unroll
                for (int e = 0; e < row_width; e++) values[r * row_width + e] = part[e];
            }
            activate(values, activation);
            store_streaming(own_y + walk.row * apart + walk.at * vector, pack(values));
        }
    } else {
#pragma unroll 1
        for (Walk walk(thread, threads, outputs); walk.row < rows; walk.go_on()) {
            const Real value = reinterpret_cast<const Real*>(slots + walk.row * pitch)[walk.at];
            own_y[walk.row * apart + walk.at] = to_stored(activated(value, activation));
        }
    }
}
