// Depthwise convolution on the tensor cores for any number of taps: see toeplitz.cuh.
//
//   y[n, o] = act(bias[c] + sum_k v[c, k] x[n, o + k - before]),   c = n % channels, v[c, k] = w[c, k], or
//   w[c, taps - 1 - k] with flip
//
//   x     (rows, length)     float16 or float  rows = batch channels
//   w     (channels, taps)   the same
//   bias  (channels,)        float             or null
//   y     (rows, outputs)    the same as x     aligned to 16 bytes
//
// Float is split into two float16 terms. The powers of two p and q bring the largest x and the largest tap between 2^14
// and 2^15:
//
//   p x = hi + lo / 2^11,   q v = hi' + lo' / 2^11,   p q x v ~ hi hi' + (hi lo' + lo hi') / 2^11
//
// p belongs to a chunk's window of x, q to a chunk's taps. A number within a factor of 2^27 of the largest has an error of
// 2^-23 of itself. Smaller numbers, which are denormal in float16, have an error of 2^-36 in units of 1 / p. If a window
// or its taps have such numbers, an output is accurate to 2^-24 of itself if it is at least `least`, 2^24 times what the
// errors may add up to. Other outputs, and outputs that are not finite, are summed again from the definition.
//
// Tensor cores truncate sums. A chain of float products has 64 taps, four steps of hi hi' and eight with lo; it is then
// added to a sum in float32, rounded to nearest. Chains of float16 last a chunk. The sums of chunks are added in shared
// memory, so that the error hardly grows with the number of taps.
//
// A block owns warps 256 GROUPS outputs of a row, and goes through the taps in chunks of CHUNK blocks of 32. Shared memory
// has the taps of a chunk, as the registers of quarters of the T_b, and the window of x that they meet. A warp multiplies
// GROUPS groups with two blocks of taps at a time, eight blocks apart: the rows of x that a group meets with one are those
// that the group before meets with the other. Every access is 16 bytes for each lane, without bank conflicts. x is read
// once: it stays in registers until its largest number is known.
// Barriers: two a chunk.
//
// Macros: STORAGE (16 or 32), THREADS (at most, of a block), GROUPS, CHUNK, BLOCKS (of a multiprocessor).
#include "toeplitz.cuh"

constexpr bool split = STORAGE == 32;
constexpr int terms = split ? 2 : 1;
constexpr int most_warps = THREADS / 32;
constexpr int most_window_rows = most_warps * group_of_rows * GROUPS + CHUNK - 1;
constexpr int most_held = GROUPS + (4 * (CHUNK - 1) + 31) / 32;  // pieces of eight numbers of the window, of a thread
constexpr int quarters_before = 7;

struct Shared {
    uint4 window[terms][most_window_rows * 4];
    // [i][n] are the registers of a quarter (i, s) whose k is first_tap + 4 (n - quarters_before) - 2 i
    uint4 taps[terms][2][8 * CHUNK + quarters_before];
    unsigned extremes[4][most_warps];
    float4 parked[GROUPS][2][THREADS];  // sums of the chunks before, each thread's own
};

// The largest magnitude and the smallest that is not zero, as bits. Denormal numbers count as zeros, and of those that
// are not finite only infinity counts, as the largest.
struct Range {
    float largest = 0;
    unsigned above_smallest_normal = ~0u;

    __device__ void include(float value) {
        largest = fmaxf(largest, fabsf(value));
        above_smallest_normal = min(above_smallest_normal, (__float_as_uint(value) << 1) - 0x01000000u);
    }

    __device__ int exponent() const { return int(__float_as_uint(largest) >> 23); }

    // The biased exponent of the power of two that brings the largest between 2^14 and 2^15, as near as floats can.
    __device__ int scale() const { return min(268 - exponent(), 253); }

    // Whether a number is below 2^-13 with it.
    __device__ bool is_wide() const { return above_smallest_normal < unsigned(max(exponent() - 28, 0)) << 24; }
};

__device__ inline float power_of_2(int biased_exponent) { return __uint_as_float(unsigned(biased_exponent) << 23); }

// value 2^exponent, by two factors: the power may be no float.
__device__ inline float scaled(float value, int exponent) {
    const int half = exponent >> 1;
    return value * power_of_2(127 + half) * power_of_2(127 + exponent - half);
}

__device__ inline unsigned largest_of_block(const unsigned (&of_warp)[most_warps]) {
    unsigned largest = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < most_warps; warp++)
        if (32 * warp < int(blockDim.x)) largest = max(largest, of_warp[warp]);
    return largest;
}

// The ranges of all threads' numbers together. Barriers: one.
__device__ inline void over_block(Range& x, Range& w, unsigned (&extremes)[4][most_warps]) {
    unsigned values[4] = {__float_as_uint(x.largest), ~x.above_smallest_normal, __float_as_uint(w.largest),
                          ~w.above_smallest_normal};
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) values[i] = max(values[i], __shfl_xor_sync(~0u, values[i], step));
        if (threadIdx.x % 32 == 0) extremes[i][threadIdx.x / 32] = values[i];
    }
    __syncthreads();
    x.largest = __uint_as_float(largest_of_block(extremes[0]));
    x.above_smallest_normal = ~largest_of_block(extremes[1]);
    w.largest = __uint_as_float(largest_of_block(extremes[2]));
    w.above_smallest_normal = ~largest_of_block(extremes[3]);
}

// Two numbers in two terms each, the lower one 2^11 times.
__device__ inline void split_pair(float a, float b, unsigned& hi, unsigned& lo) {
    float hi_a, hi_b;
    hi = pack_f16(a, b);
    unpack_f16(hi, hi_a, hi_b);
    lo = pack_f16((a - hi_a) * 2048, (b - hi_b) * 2048);
}

// The numbers of a chunk as a thread has them from memory: pieces of eight, of the window.
struct Held {
    uint4 piece[most_held][terms];
};

// `pieces` of eight inputs from x[begin] on, `begin` at a multiple of 16 bytes.
__device__ inline void load_window(Held& to, const Sequence& of, int begin, int pieces) {
    const int thread = computed_here(threadIdx.x);
    const Stored* const address = of.x + begin + 8 * thread;
#pragma unroll
    for (int j = 0; j < most_held; j++) {
        const int piece = thread + j * blockDim.x;
#pragma unroll
        for (int i = 0; i < terms; i++)
            to.piece[j][i] = of.whole_vector(address + 8 * j * int(blockDim.x) + vector * i,
                                             piece < pieces ? begin + 8 * piece + vector * i : -vector);
    }
    if (!of.is_ragged(begin)) return;
#pragma unroll
    for (int j = 0; j < most_held; j++) {
        const int piece = thread + j * blockDim.x;
#pragma unroll
        for (int i = 0; i < terms; i++)
            of.mend(to.piece[j][i], piece < pieces ? begin + 8 * piece + vector * i : -vector);
    }
}

// The range of the window and of the taps from first_tap - 31 on that `count` blocks have.
__device__ inline void look_through(const Held& window, const Sequence& of, int first_tap, int count, Range& x, Range& w) {
#pragma unroll
    for (int j = 0; j < most_held; j++)
#pragma unroll
        for (int i = 0; i < terms; i++) {
            x.include(__uint_as_float(window.piece[j][i].x));
            x.include(__uint_as_float(window.piece[j][i].y));
            x.include(__uint_as_float(window.piece[j][i].z));
            x.include(__uint_as_float(window.piece[j][i].w));
        }
    const int end = min(first_tap + 32 * count, of.taps);
    for (int k = max(first_tap - 31, 0) + computed_here(threadIdx.x); k < end; k += blockDim.x) w.include(of.tap(k));
}

__device__ inline void stage_window(Shared& to, const Held& window, int pieces, float scale) {
    const int thread = computed_here(threadIdx.x);
#pragma unroll
    for (int j = 0; j < most_held; j++) {
        const int piece = thread + j * blockDim.x;
        if (piece >= pieces) break;
        uint4 hi = window.piece[j][0];
        if constexpr (split) {
            const uint4 first = hi, second = window.piece[j][terms - 1];
            uint4 lo;
            const auto times_scale = [scale](unsigned bits) { return __uint_as_float(bits) * scale; };
            split_pair(times_scale(first.x), times_scale(first.y), hi.x, lo.x);
            split_pair(times_scale(first.z), times_scale(first.w), hi.y, lo.y);
            split_pair(times_scale(second.x), times_scale(second.y), hi.z, lo.z);
            split_pair(times_scale(second.z), times_scale(second.w), hi.w, lo.w);
            to.window[terms - 1][piece] = lo;
        }
        to.window[0][piece] = hi;
    }
}

__device__ inline void stage_taps(Shared& to, const Sequence& of, int first_tap, int count, float scale) {
    for (int n = computed_here(threadIdx.x); n < 8 * count + quarters_before; n += blockDim.x) {
        const int k = first_tap + 4 * (n - quarters_before);
        float tap[7];
#pragma unroll
        for (int e = 0; e < 7; e++) tap[e] = of.tap(k - 3 + e);
        unsigned pair[2][6];  // that begin with k - 3, ..
#pragma unroll
        for (int e = 0; e < 6; e++) {
            if constexpr (split) split_pair(tap[e] * scale, tap[e + 1] * scale, pair[0][e], pair[1][e]);
            else pair[0][e] = pack_f16(tap[e], tap[e + 1]);
        }
#pragma unroll
        for (int term = 0; term < terms; term++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const unsigned* const of_k = pair[term] + 3 - 2 * i;
                to.taps[term][i][n] = make_uint4(of_k[0], of_k[-1], of_k[2], of_k[1]);
            }
    }
}

// The lane's registers of block `b` of taps.
__device__ inline void load_taps(Taps& to, const uint4 (&from)[2][8 * CHUNK + quarters_before], int b) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const uint4 quarter = from[i][8 * b + 2 * t - g + s + quarters_before];
            to[i][s][0] = quarter.x, to[i][s][1] = quarter.y, to[i][s][2] = quarter.z, to[i][s][3] = quarter.w;
        }
}

// Add the products of the warp's groups, which begin with row `first_row` of the window, and block `b` of taps, and with
// `two` block b + 8.
template <bool two>
__device__ inline void add_blocks(Group (&sums)[GROUPS], const Shared& of, int first_row, int b) {
    constexpr int blocks = two ? 2 : 1;
    const int at = 4 * (first_row + b) + int(threadIdx.x % 32);
    Taps taps[terms][blocks];
#pragma unroll
    for (int term = 0; term < terms; term++)
#pragma unroll
        for (int n = 0; n < blocks; n++) load_taps(taps[term][n], of.taps[term], b + 8 * n);
    uint4 x[terms][2];  // of a group and of the next
#pragma unroll
    for (int term = 0; term < terms; term++) x[term][0] = of.window[term][at];
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        if (two || j + 1 < GROUPS) {
#pragma unroll
            for (int term = 0; term < terms; term++) x[term][(j + 1) % 2] = of.window[term][at + 32 * (j + 1)];
        }
        if constexpr (split) {
            Group main, cross;
#pragma unroll
            for (int n = 0; n < blocks; n++) {
                const uint4 hi = x[0][(j + n) % 2], lo = x[terms - 1][(j + n) % 2];
                add_product(main, taps[0][n], hi, n == 0);
                add_product(cross, taps[terms - 1][n], hi, n == 0);
                add_product(cross, taps[0][n], lo);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int c = 0; c < 4; c++) sums[j][i][c] += fmaf(cross[i][c], 1.0f / 2048, main[i][c]);
        } else {
#pragma unroll
            for (int n = 0; n < blocks; n++) add_product(sums[j], taps[0][n], x[0][(j + n) % 2]);
        }
    }
}

// Park the sums of a group.
__device__ inline void park(float4 (&parked)[2][THREADS], const Group& sums) {
#pragma unroll
    for (int i = 0; i < 2; i++)
        parked[i][threadIdx.x] = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

// Add to a group what is parked.
__device__ inline void add_parked(Group& sums, const float4 (&parked)[2][THREADS]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float4 before = parked[i][threadIdx.x];
        sums[i][0] += before.x;
        sums[i][1] += before.y;
        sums[i][2] += before.z;
        sums[i][3] += before.w;
    }
}

__device__ inline bool is_right(float sum, float least) {
    return bool((fabsf(sum) >= least) & (fabsf(sum) <= largest_float));
}

// Write the outputs of a group whose first row begins with output `begin`; sum inaccurate ones again.
__device__ inline void finish(const Group& sums, const Sequence& of, int begin, float bias, int activation, float least) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float z[8];
    bool right = true;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const float sum = element(sums, e / 4, e % 4);
        right &= is_right(sum, least);
        z[e] = sum + bias;
    }
    activate(z, activation);
    const int own = computed_here(begin + row_of_outputs * 2 * t + 4 * g);
#pragma unroll
    for (int n = 0; n < 2; n++) of.write(of.y + own + row_of_outputs * n, own + row_of_outputs * n, z + 4 * n);
    if (right) return;
    unsigned wrong = 0;
#pragma unroll
    for (int e = 0; e < 8; e++) wrong |= unsigned(!is_right(element(sums, e / 4, e % 4), least)) << e;
    while (wrong) {
        const int e = __ffs(wrong) - 1, output = own + row_of_outputs * (e / 4) + e % 4;
        wrong &= wrong - 1;
        if (output >= 0 && output < of.outputs)
            of.y[output] = to_stored(activated(of.sum(output) + bias, activation));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv1d_toeplitz(const Stored* __restrict__ x, const Stored* __restrict__ w, const float* __restrict__ bias,
                Stored* __restrict__ y, unsigned channels, unsigned segments, int length, int outputs, int taps, int before,
                int flip, int activation) {
    __shared__ Shared shared;
    const int rows_of_block = int(blockDim.x) / 32 * group_of_rows * GROUPS;
    const long long at_row = blockIdx.x / segments, channel = unsigned(at_row) % channels;
    const Sequence of = {x + at_row * length, w + channel * taps, y + at_row * outputs, length, outputs, taps, before, flip};
    const auto [early, slip] = alignment(x, at_row, length, outputs, before);
    const int first = int(blockIdx.x % segments) * rows_of_block * row_of_outputs - early, start = first - before - slip;
    const int blocks = (taps + 30 + slip) / 32 + 1;

    const auto first_row = [] { return computed_here(threadIdx.x) / 32 * group_of_rows * GROUPS; };  // of the warp
    float least = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < blocks; chunk += CHUNK) {
        const int count = min(CHUNK, blocks - chunk), pieces = 4 * (rows_of_block + count - 1);
        const int first_tap = 32 * chunk - slip;
        float x_scale = 1, w_scale = 1;
        int exponent = 0;  // of 1 / (x_scale w_scale)
        Held window;
        load_window(window, of, start + 32 * chunk, pieces);
        // After the barrier here, no thread needs the chunk before.
        if constexpr (split) {
            Range of_x, of_w;
            look_through(window, of, first_tap, count, of_x, of_w);
            over_block(of_x, of_w, shared.extremes);
            x_scale = power_of_2(of_x.scale());
            w_scale = power_of_2(of_w.scale());
            exponent = 254 - of_x.scale() - of_w.scale();
            // 2^-19 a product, of 32 count taps; 2^24 times that
            if (of_x.is_wide() || of_w.is_wide()) least += scaled(1024.0f * count, exponent);
        } else {
            __syncthreads();
        }
        stage_taps(shared, of, first_tap, count, w_scale);
        stage_window(shared, window, pieces, x_scale);
        __syncthreads();
        if (first + row_of_outputs * first_row() >= outputs) continue;  // the warp
        Group sums[GROUPS];
#pragma unroll
        for (int j = 0; j < GROUPS; j++) clear(sums[j]);
        const int row = first_row();
        // Of 16 blocks the first eight, each with the one that is eight further, and of what is left each alone.
        int b = 0;
#pragma unroll 1
        for (; b + 8 < count; b += b % 16 == 7 ? 9 : 1) add_blocks<true>(sums, shared, row, b);
#pragma unroll 1
        for (; b < count; b += b % 16 == 7 ? 9 : 1) add_blocks<false>(sums, shared, row, b);
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            if constexpr (split) {
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++) sums[j][i][c] = scaled(sums[j][i][c], exponent);
            }
            if (chunk > 0) add_parked(sums[j], shared.parked[j]);
            if (chunk + count < blocks) park(shared.parked[j], sums[j]);
        }
        if (chunk + count < blocks) continue;
        const int own_first = first + row_of_outputs * first_row();
        const float own_bias = bias ? bias[channel] : 0;
#pragma unroll
        for (int j = 0; j < GROUPS; j++)
            finish(sums[j], of, own_first + group_of_outputs * j, own_bias, activation, least);
    }
}
