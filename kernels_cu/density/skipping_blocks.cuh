// Blocks of 64 points, their boxes (skipping_points.cu), and how warps share the work on them.
#pragma once
#include "ptx.cuh"

constexpr int block = 64;
constexpr unsigned short no_limit = 0x7b53;  // 60000 in float16: of queries of which it tells nothing

struct Boxes {
    const float *low, *high;  // (box_axes, blocks)
    int blocks;
};

// Laplace-corrected densities need two sums of a query: T of 2^e, and L of 2^e f with the factor f = top - ln 2 r^2 of a
// pair at the distance r in bits, top = 1 + d/2. What is left out counts with 1 + |f|, and is together at most tolerance T.
// So T is off by at most tolerance T; L by as much, which is no more than tolerance times the sum of its absolute terms,
// of 2^e (top + ln 2 r^2); and t = L / T - 1 by the sum of 2^e |f - L / T| over T, at most tolerance (1 + |t|). Bounds from
// below are those of T: f may have either sign, so that of |L| nothing is certain.
//
// As log2 w <= 0, r^2 <= -e, and 2^e (1 + |f|) <= 2^e (1 + max(top, -e ln 2)), which grows with e. So no pair below
// t - log2 F adds more than 2^t, if t <= 0 and F is at least 1 + max(top, -e ln 2) there, as what this returns is. Without
// the sum L, top = 0 and F = 1.
__device__ inline float most_factor(float t, float top) {
    return top > 0 ? 1 + fmaxf(top, 0.7f * (fabsf(t) + 8)) : 1.0f;
}

// A lower bound of the squared distance of two boxes: of `a` in x and of `b`, or of b and b + 1 if `count` is 2, in y.
__device__ inline float box_distance(const Boxes& x, int a, const Boxes& y, int b, int count, int box_axes) {
    float distance = 0;
    for (int k = 0; k < box_axes; k++) {
        const float* const low = y.low + (long long)k * y.blocks;
        const float* const high = y.high + (long long)k * y.blocks;
        float from = low[b], to = high[b];
        if (count > 1 && b + 1 < y.blocks) {
            from = fminf(from, low[b + 1]);
            to = fmaxf(to, high[b + 1]);
        }
        const float gap =
            fmaxf(0.0f, fmaxf(x.low[(long long)k * x.blocks + a] - to, from - x.high[(long long)k * x.blocks + a]));
        distance = fmaf(gap, gap, distance);
    }
    return distance * 0.99999f;
}

// Boxes of parts of 32 points (skipping_points.cu).
__device__ inline Boxes boxes_of_parts(const float* parts, int blocks, int box_axes) {
    return {parts, parts + 2LL * blocks * box_axes, 2 * blocks};
}

// Which parts of some blocks of queries, from the first on, a part of the data may matter to, a bit each. Boxes are those of
// parts.
template <int row_parts>
__device__ inline unsigned near_parts(const Boxes& x, int part, const Boxes& y, int first_block, int box_axes,
                                      float most, float least) {
    unsigned near = 0;
#pragma unroll 1
    for (int r = 0; r < row_parts; r++) {
        const int row = 2 * first_block + r;
        if (row < y.blocks && most - box_distance(x, part, y, row, 1, box_axes) >= least) near |= 1u << r;
    }
    return near;
}

// Whether products serve two blocks of queries, of these kinds and extents (skipping_limits.cu), with data that are not wide:
// data that matter to queries with lower bounds than `poor` may be too far.
constexpr float poor = -64;  // bits
__device__ inline bool products_serve(const unsigned char* kinds, const float* extent, int first, int blocks) {
    const int second = min(first + 1, blocks - 1);
    return kinds[first] && fminf(extent[2 * first], extent[2 * second]) >= poor;
}

// A part of the data and four parts of queries that it may matter to, in one number.
constexpr int part_bits = 28;
__device__ inline int with_bits(int part, unsigned bits) { return int(unsigned(part) | bits << part_bits); }
__device__ inline int part_of(unsigned listed) { return int(listed & ((1u << part_bits) - 1)); }
__device__ inline unsigned bits_of(unsigned listed) { return listed >> part_bits; }

// List the numbers from `begin` to `end` that are near; returns how many. `near(b)` says it of number b, which it may
// replace by another.
template <class Near>
__device__ inline int list_near(unsigned* listed, int begin, int end, const Near& near) {
    const int lane = threadIdx.x % 32;
    int count = 0;
    for (int base = begin; base < end; base += 32) {
        int b = base + lane;
        const bool is_near = b < end && near(b);
        const unsigned votes = __ballot_sync(~0u, is_near);
        if (is_near) listed[count + __popc(votes & ((1u << lane) - 1))] = b;
        count += __popc(votes);
    }
    __syncwarp();
    return count;
}

// The next item for the warp: next[0], which grows by next[1]. Several devices that share the items of a pass begin with
// different items, and step over those of the others.
__device__ inline unsigned long long take_item(unsigned long long* next) {
    unsigned long long item = 0;
    if (threadIdx.x % 32 == 0) item = atomicAdd(next, next[1]);
    return __shfl_sync(~0u, item, 0);
}
