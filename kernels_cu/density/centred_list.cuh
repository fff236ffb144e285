// The blocks that the warps of a thread block may need, by boxes: what kernels of sums of a centred pass begin with.
#pragma once
#include "centred.cuh"

template <int warps>
struct Found {
    int start, all, of_warp[warps];  // the block where the queries lie, how many are listed
};

// The block at a place of a span: of every gridDim.y-th place, by turns after and before the one where the queries lie, so that
// near blocks come first and each span has some.
__device__ inline int block_at(int start, int place, int count) {
    const long long along = (long long)place * gridDim.y + blockIdx.y;
    const int away = int((along + 1) / 2), b = start + (along % 2 ? away : -away);
    return b < 0 ? b + count : b < count ? b : b - count;
}

// Line of the box of a warp without queries: its reference is so large that no block matters.
__device__ inline float nowhere(int line) { return line == 2 * box_axes ? 3e38f : 0; }

// List the places [from, to) of a span whose blocks add more than 2^limit of its least sum to a warp's queries, in their order;
// return how many there are. An entry is the place after `from`, and in its low half a bit for each warp that needs the block;
// `factored` sums have factors up to half a squared distance. All is shared but `boxes` (13, count). Barriers: three for each
// block's worth of threads; all threads call.
template <int warps, bool factored>
__device__ inline int list_blocks(Found<warps>& found, unsigned* list, const float (&box)[warps][tile_lines],
                                  const float* __restrict__ boxes, int count, int from, int to, int d, float limit) {
    constexpr int threads = 32 * warps;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) found.all = 0;
    __syncthreads();
    for (int base = from; base < to; base += threads) {
        const int place = base + threadIdx.x;
        unsigned mask = 0;
        if (place < to && (long long)place * gridDim.y + blockIdx.y < count) {
            const int b = block_at(found.start, place, count);
            float low[box_axes], high[box_axes];
#pragma unroll
            for (int a = 0; a < box_axes; a++) {
                low[a] = boxes[(long long)a * count + b];
                high[a] = boxes[(long long)(box_axes + a) * count + b];
            }
            const float log_mass = boxes[(long long)(2 * box_axes) * count + b];
#pragma unroll
            for (int w = 0; w < warps; w++) {
                float distance2 = 0;
#pragma unroll
                for (int a = 0; a < box_axes; a++) {
                    const float gap = fmaxf(0.0f, fmaxf(low[a] - box[w][box_axes + a], box[w][a] - high[a]));
                    distance2 += gap * gap;
                }
                const float largest = -0.4999f * distance2, bits = factored ? log2f(1 + 0.5f * d - largest) : 0;
                if (!(log_mass + largest + bits <= box[w][2 * box_axes] + limit) && log_mass > hardly) mask |= 1u << w;
            }
        }
        const unsigned voted = __ballot_sync(~0u, mask != 0);
        if (lane == 0) found.of_warp[warp] = __popc(voted);
        __syncthreads();
        int at = found.all;
        for (int w = 0; w < warp; w++) at += found.of_warp[w];
        if (mask) {
            at += __popc(voted & ((1u << lane) - 1));
            list[at] = unsigned(place - from) << 16 | mask;
        }
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 0; w < warps; w++) found.all += found.of_warp[w];
        __syncthreads();
    }
    return found.all;
}
