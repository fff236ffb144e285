// Signs of the differences of all pairs of samples i < j of each row, for sign_products.cu to multiply.
//
// Pairs are cut into items of 32 x 32 samples, blocks (I, J) with I <= J; item J (J + 1) / 2 + I. An item fills SLABS
// slabs, 128 bytes for each row and plane. With r the row's codes, the bits or byte of a pair are zero unless i < j < n:
//
//   BITS 1   1 slab    plane 0: g = [r_j > r_i]; with PLANES 2 plane 1: l = [r_j < r_i], one bit a pair
//   BITS 0   8 slabs   sign(r_j - r_i), one byte a pair; slab k has the i of the item from 4 k to 4 k + 3
//
//   codes    (blocks, rows, 32)               uint16   of sign_codes.cu; rows: a multiple of 32
//   signs    (slabs, PLANES, rows, 128 bytes)          of the items from first_item on
//   ascents  (rows,)                          uint64   the number of pairs with g is added; null: not needed
//
// A bit or byte stands for the same pair in all rows. A thread computes 16 bytes of a row: with BITS four i and all 32 j of
// an item, 0.5 subtractions, 0.25 permutations and 0.25 logical instructions for each sign; else one i and 16 j.
// A block has 32 rows of `block_slabs` slabs. Grid: x over blocks of slabs, y over blocks of rows. No barriers.
//
// Macros: BITS; PLANES.
#include "ptx.cuh"

constexpr int threads = 256;
constexpr int row_threads = 8;
constexpr int block_rows = threads / row_threads;
constexpr int item_slabs = BITS ? 1 : 8;
constexpr int block_slabs = 8;

// The code in one half of a register in both.
__device__ __forceinline__ unsigned twice(unsigned pair, int half) { return (pair >> 16 * half & 0xffffu) * 0x10001u; }

// Of four codes b a byte each: ones where a < b.
__device__ __forceinline__ unsigned less(unsigned a, unsigned b0, unsigned b1) {
    return sign_bytes(subtract_f16x2(a, b0), subtract_f16x2(a, b1));
}

// Of four codes b a byte each: ones where a > b.
__device__ __forceinline__ unsigned greater(unsigned a, unsigned b0, unsigned b1) {
    return sign_bytes(subtract_f16x2(b0, a), subtract_f16x2(b1, a));
}

__device__ __forceinline__ int bounded(int x, int most) { return min(max(x, 0), most); }

#if BITS
// Bit 8 b + m of a word stands for sample 4 m + b. The bits of samples from `first` on, 0 to 32.
__device__ inline unsigned bits_from(int first) {
    unsigned bits = 0;
#pragma unroll
    for (int b = 0; b < 4; b++) bits |= (0xffu << (first + 3 - b) / 4 & 0xffu) << 8 * b;
    return bits;
}
#else
// Byte b of a word stands for sample b. The bytes of samples from `first` on, 0 to 4.
__device__ inline unsigned bytes_from(int first) { return first < 4 ? ~0u << 8 * first : 0; }
#endif

extern "C" __global__ void __launch_bounds__(threads)
signs(const uint4* __restrict__ codes, uint4* __restrict__ signs, unsigned long long* __restrict__ ascents, int rows,
      int n, int first_item, int slabs) {
    const int row = blockIdx.y * block_rows + threadIdx.x / row_threads, piece = threadIdx.x % row_threads;
    const int first = blockIdx.x * block_slabs, end = min(first + block_slabs, slabs);

    const int item = first_item + first / item_slabs;
    int J = int((sqrtf(8.0f * item + 1) - 1) / 2);  // to rounding
    while (J * (J + 1) / 2 > item) J--;
    while ((J + 1) * (J + 2) / 2 <= item) J++;
    int I = item - J * (J + 1) / 2;

#if BITS
    int count = 0;  // of pairs with g
#endif
    for (int slab = first; slab < end; slab++) {
        const uint4* const own = codes + ((long long)I * rows + row) * 4;
        const uint4* const other = codes + ((long long)J * rows + row) * 4;
        const bool edge = I == J || 32 * (J + 1) > n;  // some pairs are not i < j < n
        uint4* const out = signs + ((long long)slab * PLANES * rows + row) * row_threads + piece;
#if BITS
        unsigned j[16], g[4], l[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const uint4 eight = other[w];
            j[4 * w] = eight.x, j[4 * w + 1] = eight.y, j[4 * w + 2] = eight.z, j[4 * w + 3] = eight.w;
        }
        const uint2 four = reinterpret_cast<const uint2*>(own)[piece];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const unsigned a = twice(i < 2 ? four.x : four.y, i % 2);
            g[i] = l[i] = 0;
#pragma unroll
            for (int m = 0; m < 8; m++) {
                g[i] |= less(a, j[2 * m], j[2 * m + 1]) & 0x01010101u << m;
                if (PLANES == 2) l[i] |= greater(a, j[2 * m], j[2 * m + 1]) & 0x01010101u << m;
            }
        }
        if (edge) {
            const unsigned samples = ~bits_from(bounded(n - 32 * J, 32));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const unsigned pairs = samples & bits_from(bounded(32 * (I - J) + 4 * piece + i + 1, 32));
                g[i] &= pairs;
                l[i] &= pairs;
            }
        }
        out[0] = make_uint4(g[0], g[1], g[2], g[3]);
        if (PLANES == 2) out[(long long)rows * row_threads] = make_uint4(l[0], l[1], l[2], l[3]);
        if (ascents) count += __popc(g[0]) + __popc(g[1]) + __popc(g[2]) + __popc(g[3]);
        const bool item_ends = true;
#else
        const int group = slab % item_slabs, i = 4 * group + piece / 2, first_j = piece % 2 * 16;
        const unsigned a = twice(reinterpret_cast<const unsigned*>(own)[i / 2], i % 2);
        unsigned s[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const uint2 four = reinterpret_cast<const uint2*>(other)[first_j / 4 + w];
            s[w] = (less(a, four.x, four.y) & 0x01010101u) | greater(a, four.x, four.y);
            if (edge) {
                const int begin = 32 * J + first_j + 4 * w;
                s[w] &= bytes_from(bounded(32 * I + i + 1 - begin, 4)) & ~bytes_from(bounded(n - begin, 4));
            }
        }
        out[0] = make_uint4(s[0], s[1], s[2], s[3]);
        const bool item_ends = group == item_slabs - 1;
#endif
        if (item_ends && ++I > J) {
            I = 0;
            J++;
        }
    }
#if BITS
    if (!ascents) return;
#pragma unroll
    for (int step = row_threads / 2; step > 0; step /= 2) count += __shfl_xor_sync(~0u, count, step);
    if (piece == 0) atomicAdd(&ascents[row], (unsigned long long)count);
#endif
}
