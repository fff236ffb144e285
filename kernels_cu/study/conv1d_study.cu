// Study, not for use: depthwise convolution of sequences and its two gradients, in the four stages of the source,
// rewritten, the first of them in two readings. cukde.depthwise_conv1d and its gradients are measured against them; no
// public function reaches them.
//
//   conv1d_forward      y_i  = sum_k w_k x_(i + k - (K - 1))
//   conv1d_input_grad   dx_j = sum_k w_k dy_(j - k + (K - 1))
//   conv1d_weight_grad  dw_k = sum_b sum_i dy_i x_(i + k - (K - 1))
//
// for each channel and the sequences b = 0, ..., B - 1; beyond its ends a sequence is zero. So the convolution is causal,
// like that of a state space model.
//
//   x, y, dx, dy  (B, C, L)  float
//   w, dw         (C, K)     float
//
// Macro VARIANT; blocks have 256 threads.
//   NAIVE       A thread owns an output, and the next thread one of the next channel: a warp loads from 32 sequences at
//               once. Grids (C / 32, L / 8, B), and (C / 32, K / 8) for the weights.
//   NAIVE_BY_ROW  A thread owns an output, and the next thread the next one in memory, of the same row as long as it
//               lasts: a warp loads numbers side by side. Grids (B C L / 256), and (C K / 256) for the weights.
//   COALESCED   Blocks of 32 outputs of 8 sequences: a warp loads contiguous numbers of one. Grid (L / 32, C / 8, B).
//               For the weights, block (k, c) owns dw_k of a channel: its threads share the sum.
//   BLOCKED     A block owns as many outputs of a sequence as it has threads and stages the inputs that they meet, and the
//               taps, in shared memory. Grid (L / threads, C, B). Of the weights, block (g, c) owns `taps` of a channel.
//   WARP_TILED  A warp owns 128 outputs of a sequence and stages what they meet for itself, without a block's barrier; a
//               lane keeps 4 outputs and their window in registers, so that a number from shared memory is used 4 times.
//               Grid (warps / 8). Of the weights, block (g, c) owns 8 taps: a lane keeps 8 sums, which a warp adds up by
//               shuffles. K is rounded up to quads by taps of zero, whose products must be finite: so must the input.
//
// Barriers: one of the block after staging (BLOCKED; of its weights two a tile), one a step of the sums of a block's
// threads; of the warp around staging (WARP_TILED). All threads of a block, and of a warp, pass all of theirs. Sums are
// in one order: the bits are the same on every run.
//
// The source (arXiv 2604.25422) names the stages and prints no kernel in the text at hand. It does not say how its naive
// kernel maps threads: NAIVE and COALESCED differ by which index is the fastest, as in the matrix product of S. Boehm
// that it cites; NAIVE_BY_ROW is the plain reading of "naive", by which the stages that follow gain from reuse alone.
#define NAIVE 0
#define NAIVE_BY_ROW 1
#define COALESCED 2
#define BLOCKED 3
#define WARP_TILED 4

constexpr int threads = 256;
constexpr int warps = threads / 32;

// Element i of a sequence, or zero beyond it.
__device__ inline float at(const float* sequence, int i, int L) { return i >= 0 && i < L ? sequence[i] : 0.0f; }

__device__ inline long long sequence_of(int b, int c, int C, int L) { return ((long long)b * C + c) * L; }

// Output i meets in_(i - before), ..., in_(i - before + K - 1); the p-th of them is multiplied by tap p. The input
// gradient is the convolution by the reversed taps, of what comes after.
template <bool reversed>
__device__ inline int before(int K) { return reversed ? 0 : K - 1; }

template <bool reversed>
__device__ inline float tap(const float* w, int p, int K) { return reversed ? w[K - 1 - p] : w[p]; }

#if VARIANT == NAIVE || VARIANT == NAIVE_BY_ROW || VARIANT == COALESCED

template <bool reversed>
__device__ inline void convolve(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out,
                                int B, int C, int L, int K) {
#if VARIANT == NAIVE_BY_ROW
    const long long output = (long long)blockIdx.x * threads + threadIdx.x, row = output / L, sequence = row * L;
    if (row >= (long long)B * C) return;
    const int c = int(row % C), i = int(output - sequence);
#else
    const int fast = blockIdx.x * blockDim.x + threadIdx.x, slow = blockIdx.y * blockDim.y + threadIdx.y;
    const int c = VARIANT == NAIVE ? fast : slow, i = VARIANT == NAIVE ? slow : fast;
    if (c >= C || i >= L) return;
    const long long sequence = sequence_of(blockIdx.z, c, C, L);
#endif
    float sum = 0.0f;
    for (int p = 0; p < K; p++)
        sum = fmaf(tap<reversed>(w + c * K, p, K), at(in + sequence, i - before<reversed>(K) + p, L), sum);
    out[sequence + i] = sum;
}

#elif VARIANT == BLOCKED

template <bool reversed>
__device__ inline void convolve(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out,
                                int, int C, int L, int K) {
    extern __shared__ float staged[];
    const int tile = blockDim.x, start = blockIdx.x * tile, c = blockIdx.y;
    float* const taps = staged + tile + K - 1;
    const long long sequence = sequence_of(blockIdx.z, c, C, L);
    for (int t = threadIdx.x; t < tile + K - 1; t += tile)
        staged[t] = at(in + sequence, start - before<reversed>(K) + t, L);
    for (int p = threadIdx.x; p < K; p += tile) taps[p] = tap<reversed>(w + c * K, p, K);
    __syncthreads();

    float sum = 0.0f;
    for (int p = 0; p < K; p++) sum = fmaf(taps[p], staged[threadIdx.x + p], sum);
    const int i = start + threadIdx.x;
    if (i < L) out[sequence + i] = sum;
}

#else

constexpr int segment = 128;  // outputs of a warp, 4 a lane

template <bool reversed>
__device__ inline void convolve(const float* __restrict__ in, const float* __restrict__ w, float* __restrict__ out,
                                int B, int C, int L, int K) {
    extern __shared__ float4 staged[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int quads = (K + 3) / 4, segments = (L + segment - 1) / segment;
    const long long tile = (long long)blockIdx.x * warps + warp;
    if (tile >= (long long)B * C * segments) return;
    const long long row = tile / segments;
    const int c = int(row % C), start = int(tile % segments) * segment;

    float4* const inputs = staged + warp * (segment / 4 + 2 * quads);  // segment / 4 + quads of them
    float4* const taps = inputs + segment / 4 + quads;
    float* const numbers = reinterpret_cast<float*>(inputs);
    for (int t = lane; t < segment + 4 * quads; t += 32)
        numbers[t] = at(in + row * L, start - before<reversed>(K) + t, L);
    for (int p = lane; p < 4 * quads; p += 32)
        reinterpret_cast<float*>(taps)[p] = p < K ? tap<reversed>(w + c * K, p, K) : 0.0f;
    __syncwarp();

    float sums[4] = {};
    float4 low = inputs[lane];
    for (int q = 0; q < quads; q++) {
        const float4 high = inputs[lane + q + 1], by = taps[q];
        const float window[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        const float factors[4] = {by.x, by.y, by.z, by.w};
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int e = 0; e < 4; e++) sums[e] = fmaf(factors[p], window[e + p], sums[e]);
        low = high;
    }

    __syncwarp();  // outputs take the place of inputs, so that they are stored side by side
    inputs[lane] = make_float4(sums[0], sums[1], sums[2], sums[3]);
    __syncwarp();
    for (int t = lane; t < segment && start + t < L; t += 32) out[row * L + start + t] = numbers[t];
}

#endif

extern "C" __global__ void __launch_bounds__(threads)
conv1d_forward(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int B, int C, int L,
               int K) {
    convolve<false>(x, w, y, B, C, L, K);
}

extern "C" __global__ void __launch_bounds__(threads)
conv1d_input_grad(const float* __restrict__ dy, const float* __restrict__ w, float* __restrict__ dx, int B, int C, int L,
                  int K) {
    convolve<true>(dy, w, dx, B, C, L, K);
}

#if VARIANT > NAIVE_BY_ROW
// Of the sums of a block's threads, those of threads as far apart as a multiple of `apart`, a power of two: threads
// 0, ..., apart - 1 get them.
__device__ inline float added(float sum, int apart) {
    __shared__ float sums[threads];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    sums[thread] = sum;
    for (int half = threads / 2; half >= apart; half /= 2) {
        __syncthreads();
        if (thread < half) sums[thread] += sums[thread + half];
    }
    return sums[thread];
}
#endif

extern "C" __global__ void __launch_bounds__(threads)
conv1d_weight_grad(const float* __restrict__ x, const float* __restrict__ dy, float* __restrict__ dw, int B, int C,
                   int L, int K) {
#if VARIANT == NAIVE || VARIANT == NAIVE_BY_ROW
#if VARIANT == NAIVE
    const int c = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y * blockDim.y + threadIdx.y;
#else
    const int c = (blockIdx.x * threads + threadIdx.x) / K, k = (blockIdx.x * threads + threadIdx.x) % K;
#endif
    if (c >= C || k >= K) return;
    float sum = 0.0f;
    for (int b = 0; b < B; b++) {
        const long long sequence = sequence_of(b, c, C, L);
        for (int i = 0; i < L; i++) sum = fmaf(dy[sequence + i], at(x + sequence, i + k - (K - 1), L), sum);
    }
    dw[c * K + k] = sum;

#elif VARIANT == COALESCED
    const int k = blockIdx.x, c = blockIdx.y;
    float sum = 0.0f;
    for (int b = threadIdx.y; b < B; b += blockDim.y) {
        const long long sequence = sequence_of(b, c, C, L);
        for (int i = threadIdx.x; i < L; i += blockDim.x)
            sum = fmaf(dy[sequence + i], at(x + sequence, i + k - (K - 1), L), sum);
    }
    sum = added(sum, 1);
    if (threadIdx.x == 0 && threadIdx.y == 0) dw[c * K + k] = sum;

#elif VARIANT == BLOCKED
    constexpr int tile = threads, most = 32;  // points of a tile, taps of a block
    __shared__ float inputs[tile + most], gradients[tile];
    int taps = most;
    while (taps >= 2 * K) taps /= 2;
    const int c = blockIdx.y, first = blockIdx.x * taps;
    const int own = threadIdx.x % taps, slice = threadIdx.x / taps, slices = threads / taps;
    float sum = 0.0f;
    for (int b = 0; b < B; b++) {
        const long long sequence = sequence_of(b, c, C, L);
        for (int start = 0; start < L; start += tile) {
            const int points = min(tile, L - start);
            __syncthreads();  // the tile before has been read
            for (int t = threadIdx.x; t < points; t += threads) gradients[t] = dy[sequence + start + t];
            for (int t = threadIdx.x; t < points + taps; t += threads)
                inputs[t] = at(x + sequence, start + t + first - (K - 1), L);
            __syncthreads();
            for (int i = slice; i < points; i += slices) sum = fmaf(gradients[i], inputs[i + own], sum);
        }
    }
    sum = added(sum, taps);
    if (slice == 0 && first + own < K) dw[c * K + first + own] = sum;

#else
    constexpr int taps = 8;  // of a block
    __shared__ float4 inputs[warps][(segment + taps) / 4], gradients[warps][segment / 4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int c = blockIdx.y, first = blockIdx.x * taps, segments = (L + segment - 1) / segment;
    float sums[taps] = {};
    for (int tile = warp; tile < B * segments; tile += warps) {
        const int start = tile % segments * segment;
        const long long sequence = sequence_of(tile / segments, c, C, L);
        __syncwarp();  // the tile before has been read
        for (int t = lane; t < segment; t += 32)
            reinterpret_cast<float*>(gradients[warp])[t] = at(dy + sequence, start + t, L);
        for (int t = lane; t < segment + taps; t += 32)
            reinterpret_cast<float*>(inputs[warp])[t] = at(x + sequence, start + t + first - (K - 1), L);
        __syncwarp();

        const float4 of = gradients[warp][lane];
        const float4 low = inputs[warp][lane], middle = inputs[warp][lane + 1], high = inputs[warp][lane + 2];
        const float factors[4] = {of.x, of.y, of.z, of.w};
        const float window[12] = {low.x,    low.y,    low.z,  low.w,  middle.x, middle.y,
                                  middle.z, middle.w, high.x, high.y, high.z,   high.w};
#pragma unroll
        for (int k = 0; k < taps; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) sums[k] = fmaf(factors[e], window[e + k], sums[k]);
    }

    float own = 0.0f;  // lane k keeps the warp's sum of tap k
#pragma unroll
    for (int k = 0; k < taps; k++) {
        for (int half = 16; half > 0; half /= 2) sums[k] += __shfl_xor_sync(0xffffffffu, sums[k], half);
        if (lane == k) own = sums[k];
    }
    own = added(own, 32);
    if (warp == 0 && lane < taps && first + lane < K) dw[c * K + first + lane] = own;
#endif
}
