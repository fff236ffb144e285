// The inputs of few taps from contiguous rows in the registers of a warp, by shuffles of packed words.
//
// A slab is a vector of 16 bytes for every lane, in memory order; a warp has `slabs` of them. `along` of these, 1, 2 or
// all, lie one after the other in a row; if fewer than all, the row begins and ends there.
//
// Macro: STORAGE (core/storage.cuh), 16 or 32.
#pragma once
#include "storage.cuh"

constexpr int slabs = 4;
constexpr int slab = 32 * vector;
static_assert(vector >= 4, "what four taps meet is in the vector of a lane or in one next to it");

struct Window {
    uint4 x[slabs];
    uint4 beyond;      // where all slabs are along a row: of lane 0 before the first slab, of lane 31 behind the last
    bool first, last;  // whether the lane before, or behind, is not the neighbour in memory
};

// Words `from` to `to` - 1 of the vector of a lane; zero for others. All lanes call.
template <int from, int to>
__device__ inline uint4 words_of(uint4 v, int lane) {
    const auto word = [&](int i, unsigned own) {
        return i >= from && i < to ? __shfl_sync(0xffffffffu, own, lane) : 0;
    };
    return make_uint4(word(0, v.x), word(1, v.y), word(2, v.z), word(3, v.w));
}

__device__ inline uint4 chosen(bool condition, uint4 a, uint4 b) {
    return make_uint4(condition ? a.x : b.x, condition ? a.y : b.y, condition ? a.z : b.z, condition ? a.w : b.w);
}

// Taps and those before an output, as numbers that a compiler knows.
template <int taps_, int before_>
struct Taps {
    static constexpr int taps = taps_, before = before_;
};

// Call a function with the Taps of 1 <= taps <= 4 and 0 <= before < taps.
template <class Call>
__device__ inline void of_taps(int taps, int before, const Call& call) {
    switch (taps * (taps - 1) / 2 + before) {
        case 0: call(Taps<1, 0>()); break;
        case 1: call(Taps<2, 0>()); break;
        case 2: call(Taps<2, 1>()); break;
        case 3: call(Taps<3, 0>()); break;
        case 4: call(Taps<3, 1>()); break;
        case 5: call(Taps<3, 2>()); break;
        case 6: call(Taps<4, 0>()); break;
        case 7: call(Taps<4, 1>()); break;
        case 8: call(Taps<4, 2>()); break;
        case 9: call(Taps<4, 3>()); break;
    }
}

// Of vectors next to those of a lane, the words that hold `before` elements on the left and `after` on the right.
template <int along, int before, int after>
struct Neighbours {
    uint4 left[slabs], right[slabs];

    __device__ explicit Neighbours(const Window& window) {
        constexpr int bits = 8 * sizeof(Stored);
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int v = 0; v < slabs; v++) {
            left[v] = words_of<4 - (before * bits + 31) / 32, 4>(window.x[v], lane - 1 & 31);
            right[v] = words_of<0, (after * bits + 31) / 32>(window.x[v], lane + 1 & 31);
        }
    }

    // The vector of a lane in slab v is met[1].
    __device__ void meet(const Window& window, int v, Real (&met)[3][vector]) const {
        // What the first lane got in the slab before is of the last lane there. A row begins and ends with zeros.
        uint4 at_left = make_uint4(0, 0, 0, 0), at_right = at_left;
        if (along == slabs) at_left = at_right = window.beyond;
        if (v % along > 0) at_left = left[v - 1];
        if ((v + 1) % along > 0) at_right = right[v + 1];
        unpack(chosen(window.first, at_left, left[v]), met[0]);
        unpack(window.x[v], met[1]);
        unpack(chosen(window.last, at_right, right[v]), met[2]);
    }
};
