// Screening in float16 (skipping_units.cu): which blocks of data a warp looks at, the largest product of its queries with
// 32 data, and which units have a product that reaches its limit.
//
// Macros: GROUPS; ROW_TILES (4 or 8), of 16 queries.
#pragma once
#include "skipping_blocks.cuh"

constexpr int threads = 128;
constexpr int row_tiles = ROW_TILES;
constexpr int blocks_of_item = row_tiles / 4;
constexpr int most_listed = 128;  // blocks of data: a span is at most so long
constexpr float never = 3e38f;    // a threshold of blocks that do not count

struct Listed {
    unsigned blocks[most_listed];
    unsigned masks[most_listed];
    int begin, end;  // blocks of the item that are left to look at: registers are few
};

// List blocks of data that can matter to the item's queries; returns their number. Those from `begin` to `end` are looked
// at, or of `among` if it is not null. `threshold(b)` is what exponents of block b must reach. `most` null: no weights.
template <class Threshold>
__device__ inline int list_blocks(Listed& listed, const Boxes& X, const Boxes& Y, const float* most, const int* among,
                                  int first_row_block, int begin, int end, int box_axes, const Threshold& threshold) {
    return list_near(listed.blocks, begin, end, [&](int& b) {
        if (among) b = among[b];
        const float least = threshold(b);
        return least < never &&
               (most ? most[b] : 0.0f) - box_distance(X, b, Y, first_row_block, blocks_of_item, box_axes) >= least;
    });
}

// The lane's part of a fragment of 16 points by 16 dimensions.
__device__ inline void fragment(unsigned (&to)[4], const unsigned* from, long long number) {
    const uint4 f = *reinterpret_cast<const uint4*>(from + (number * 32 + threadIdx.x % 32) * 4);
    to[0] = f.x, to[1] = f.y, to[2] = f.z, to[3] = f.w;
}

// The queries of an item as left operands, from right ones. Two registers change places, so they are loaded one by one: from
// a load of all four they would be moved before each product.
struct Rows {
    unsigned of[row_tiles][GROUPS][4];

    __device__ void load(const unsigned* halves, int first_row_block, int tiles) {
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            const int tile = first_row_block * 4 + (m < tiles ? m : 0);
#pragma unroll
            for (int q = 0; q < GROUPS; q++) {
                const unsigned* const from = halves + (((long long)tile * GROUPS + q) * 32 + threadIdx.x % 32) * 4;
                of[m][q][0] = from[0], of[m][q][1] = from[2], of[m][q][2] = from[1], of[m][q][3] = from[3];
            }
        }
    }
};

// What screening needs of blocks of data, one after the other: right operands and norms.
struct InMemory {
    const unsigned* halves;       // (blocks, 4, GROUPS, 32, 4)
    const unsigned short* norms;  // (blocks, 32, 4)

    __device__ void begin(const Listed&, int) {}
    __device__ void next(const Listed& listed, int p, const unsigned*& of_halves, const unsigned short*& of_norms) {
        const long long block = listed.blocks[p];
        of_halves = halves + block * (4 * GROUPS * 128);
        of_norms = norms + block * 128;
    }
    __device__ void end() {}
};

constexpr int stages = 3;  // of a ring: two pieces are under way while a warp works on one

// A block of data in the ring.
struct alignas(16) Screened {
    unsigned halves[4 * GROUPS * 128];
    unsigned short norms[128];
};

// Begin to copy bytes to shared memory, a multiple of 16.
__device__ __forceinline__ void copy_to_ring(void* to, const void* from, int bytes) {
#pragma unroll
    for (int i = threadIdx.x % 32; i < bytes / 16; i += 32)
        copy_async_16(reinterpret_cast<uint4*>(to) + i, reinterpret_cast<const uint4*>(from) + i);
}

// The same by a ring in shared memory, of `stages`.
struct InRing {
    const unsigned* halves;
    const unsigned short* norms;
    Screened* ring;
    int count, slot;

    __device__ __forceinline__ void fetch(const Listed& listed, int p) {
        if (p < count) {
            const long long block = listed.blocks[p];
            copy_to_ring(ring[slot].halves, halves + block * (4 * GROUPS * 128), sizeof ring->halves);
            copy_to_ring(ring[slot].norms, norms + block * 128, sizeof ring->norms);
        }
        copy_async_commit();
        slot = slot + 1 == stages ? 0 : slot + 1;
    }

    __device__ __forceinline__ void begin(const Listed& listed, int of_list) {
        count = of_list;
        slot = 0;
#pragma unroll
        for (int p = 0; p < stages - 1; p++) fetch(listed, p);
    }

    __device__ __forceinline__ void next(const Listed& listed, int p, const unsigned*& of_halves,
                                         const unsigned short*& of_norms) {
        copy_async_wait<stages - 2>();
        __syncwarp();
        fetch(listed, p + stages - 1);
        of_halves = ring[slot].halves;  // the next to be filled is the oldest
        of_norms = ring[slot].norms;
    }

    __device__ __forceinline__ void end() { copy_async_wait<0>(); }
};

// Largest v_i . v_j - |v_j|^2 / 2 + log2 w_j over the lane's columns of 32 data, of rows g and g + 8 of each row tile, two
// columns to a register. `halves` and `norms` are those of the data. With `more`, of these and of what is there.
template <bool more>
__device__ inline void largest_products(unsigned (&largest)[row_tiles][2], const Rows& rows, const unsigned* halves,
                                        const unsigned short* norms) {
    const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        uint2 b[GROUPS][2];  // right operands: points 0..7 and 8..15
#pragma unroll
        for (int q = 0; q < GROUPS; q++) {
            const uint4 f = *reinterpret_cast<const uint4*>(halves + ((part * GROUPS + q) * 32 + lane) * 4);
            b[q][0] = {f.x, f.y};
            b[q][1] = {f.z, f.w};
        }
        const uint2 n0 = *reinterpret_cast<const uint2*>(norms + (part * 8 + t) * 4);
        const uint2 n1 = *reinterpret_cast<const uint2*>(norms + (part * 8 + 4 + t) * 4);
#pragma unroll
        for (int m = 0; m < row_tiles; m++) {
            unsigned left[2], right[2];
            mma_f16_in_f16(left, rows.of[m][0], b[0][0].x, b[0][0].y, n0.x, n0.y);
            mma_f16_in_f16(right, rows.of[m][0], b[0][1].x, b[0][1].y, n1.x, n1.y);
#pragma unroll
            for (int q = 1; q < GROUPS; q++) {
                mma_f16_in_f16(left, rows.of[m][q], b[q][0].x, b[q][0].y, left[0], left[1]);
                mma_f16_in_f16(right, rows.of[m][q], b[q][1].x, b[q][1].y, right[0], right[1]);
            }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const unsigned both = larger_f16x2(left[r], right[r]);
                largest[m][r] = more || part ? larger_f16x2(largest[m][r], both) : both;
            }
        }
    }
}

struct NoneFar {
    __device__ bool operator()(int, int) const { return false; }
};

// For each listed block a bit for each unit: bit row_tiles * half + row tile. Returns the number of bits. With `loose`,
// `loosened(b, slack)` gives what is added to limits for block b, at most 0 and twice in float16, and whether all its units
// count. All units of tiles for which float16 tells nothing count, but for those of a block b that `far(b, tile)`.
template <bool loose, class Data, class Loosened, class Far = NoneFar>
__device__ inline unsigned screen(Listed& listed, int count, const unsigned* Y_halves, const unsigned short* limits,
                                  const unsigned char* always, Data data, int first_row_block, int tiles,
                                  const Loosened& loosened, const Far& far = {}) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    Rows rows;
    rows.load(Y_halves, first_row_block, tiles);
    unsigned limit[row_tiles][2], sure = 0;
#pragma unroll
    for (int m = 0; m < row_tiles; m++) {
        const int tile = first_row_block * 4 + (m < tiles ? m : 0);
        limit[m][0] = limits[tile * 16LL + g] * 0x10001u;
        limit[m][1] = limits[tile * 16LL + g + 8] * 0x10001u;
        if (m < tiles && always[tile]) sure |= ((1u << row_tiles) + 1) << m;
    }
    const unsigned there = ((1u << tiles) - 1) * ((1u << row_tiles) + 1);
    unsigned kept = 0;
    data.begin(listed, count);
#pragma unroll 1
    for (int p = 0; p < count; p++) {
        const unsigned* halves;
        const unsigned short* norms;
        data.next(listed, p, halves, norms);
        unsigned bits = 0, slack = 0;
        bool all = false;
        if constexpr (loose) all = loosened(int(listed.blocks[p]), slack);
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            unsigned largest[row_tiles][2];
            largest_products<false>(largest, rows, halves + half * (2 * GROUPS * 128), norms + half * 64);
#pragma unroll
            for (int m = 0; m < row_tiles; m++) {
                unsigned over = larger_f16x2(subtract_f16x2(largest[m][0], limit[m][0]),
                                             subtract_f16x2(largest[m][1], limit[m][1]));
                if constexpr (loose) over = subtract_f16x2(over, slack);
                if ((over & 0x80008000u) != 0x80008000u) bits |= 1u << (half * row_tiles + m);
            }
        }
        if (__any_sync(~0u, bits)) bits = __reduce_or_sync(~0u, bits);
        unsigned certain = all ? there : sure;
#pragma unroll 1
        for (unsigned unsure = all ? 0 : sure & ((1u << row_tiles) - 1); unsure; unsure &= unsure - 1) {
            const int m = __ffs(unsure) - 1;
            if (far(int(listed.blocks[p]), m)) certain &= ~(((1u << row_tiles) + 1) << m);
        }
        bits = (bits | certain) & there;
        if (lane == 0) listed.masks[p] = bits;
        kept += __popc(bits);
    }
    data.end();
    __syncwarp();
    return kept;
}
