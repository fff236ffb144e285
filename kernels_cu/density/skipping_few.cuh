// Exponents of a few dimensions by products of matrices, of points about the centre of a block of rows: u = p + q, where p
// is a multiple of 1/64 as float16 and q what it leaves. Blocks that matter to each other and are not wide
// (skipping_points.cu) are so near that float16 holds p.
//
//   -|u - u'|^2 = (2 p p' - |p|^2 - |p'|^2) + 2 p q' + 2 q p' + 2 q q' + f + f',   f = -2 p q - |q|^2
//
// The first term comes first, and adds up exactly in float; the others are small. Of a left operand (a row, doubled) and a
// right one (a column) these are in pieces of 8 float16 numbers, with -|p|^2 = n + m, an integer and what it leaves, and f
// in two terms, a and b; a column's -|p'|^2 is what the sum begins with:
//
//   up to 3 dimensions   L0 = 2 p n 0 m,  L1 = 2 q a 2 p b,  L2 = 2 q 1 1;   R0 = p 1 q 1,  R1 = q a b
//                        L0 R0, then L1 R0 + L2 R1
//   4 and 5              L0 = 2 p n m 0,  L1 = 2 q a b 1;                    R0 = p 1 1 a,  R1 = q 0 0 b
//                        L0 R0, then L0 R1 + L1 R0 and L1 R1
//
// Macros: DIMENSIONS (3 to 5), DIM (the pitch of `local`).
#pragma once
#include "skipping_blocks.cuh"
#include "skipping_chunks.cuh"

constexpr bool one_tile = DIMENSIONS <= 3;  // R0 has all factors of sums: p, one and q
constexpr int at_one = one_tile ? 3 : 5, at_q = one_tile ? 4 : 8;
constexpr int left_pieces = one_tile ? 3 : 2;
constexpr int most_listed = 256;  // parts: a span is at most so long
constexpr float grid = 64;
constexpr float to_grid = 1.5f * 8388608 / grid;  // of its size floats are multiples of 1 / grid
constexpr float nothing = -1e30f;                 // of a weight
constexpr float furthest = 1000;                  // of a coordinate: far from all that matters

typedef unsigned Left[4 * left_pieces];
typedef unsigned Right[8];

__device__ inline void put(unsigned* to, int place, const float* terms) {
    uint4 words;
    words.x = pack_f16(terms[0], terms[1]);
    words.y = pack_f16(terms[2], terms[3]);
    words.z = pack_f16(terms[4], terms[5]);
    words.w = pack_f16(terms[6], terms[7]);
    *reinterpret_cast<uint4*>(to + 4 * place) = words;
}

// Where a piece of a left operand stands: rows of a matrix of 8 x 8 then lie in different banks.
__device__ inline int place_in_left(int row, int piece) { return one_tile ? piece : place_of_piece<2>(row, piece); }

// The coordinates of a point about a centre, from those about the centre of its block.
struct Point {
    float at[DIMENSIONS];

    __device__ void load(const float* local, long long row) {
#pragma unroll
        for (int k = 0; k < DIM; k += 4) {
            const float4 four = *reinterpret_cast<const float4*>(local + row * DIM + k);
            const float some[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (k + e < DIMENSIONS) at[k + e] = some[e];
        }
    }

    __device__ void move(const float* from, const float* to) {
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++) at[k] = fminf(fmaxf(at[k] + (from[k] - to[k]), -furthest), furthest);
    }

    // Put it into shared memory as a right operand and as a left one, where they are wanted, and let it be what they hold;
    // returns -|p|^2. A left operand has `added`, an integer, beside it.
    __device__ float put_operands(Right* rights, Left* lefts, int row, float added) {
        constexpr int D = DIMENSIONS;
        float p[D], q[D], square = 0, rest = 0, unused;
#pragma unroll
        for (int k = 0; k < D; k++) {
            unpack_f16(pack_f16((at[k] + to_grid) - to_grid, 0), p[k], unused);
            unpack_f16(pack_f16(at[k] - p[k], 0), q[k], unused);
            at[k] = p[k] + q[k];
            square = fmaf(p[k], p[k], square);
            rest = fmaf(-(2 * p[k] + q[k]), q[k], rest);
        }
        float a;
        unpack_f16(pack_f16(rest, 0), a, unused);
        const float b = rest - a;
        if (rights) {
            float pieces[2][8] = {};
#pragma unroll
            for (int k = 0; k < D; k++) {
                pieces[0][k] = p[k];
                pieces[1][k] = q[k];
                if (one_tile) pieces[0][at_q + k] = q[k];
            }
            pieces[0][at_one] = pieces[0][one_tile ? 7 : 6] = 1;
            if (one_tile) pieces[1][3] = a, pieces[1][4] = b;
            else pieces[0][7] = a, pieces[1][7] = b;
#pragma unroll
            for (int i = 0; i < 2; i++) put(rights[row], place_of_piece<2>(row, i), pieces[i]);
        }
        if (lefts) {
            const float whole = fmaxf(added - square, -60000.0f), n = rintf(whole);
            float pieces[3][8] = {};
#pragma unroll
            for (int k = 0; k < D; k++) {
                pieces[0][k] = 2 * p[k];
                pieces[1][k] = pieces[2][k] = 2 * q[k];
                if (one_tile) pieces[1][at_q + k] = 2 * p[k];
            }
            pieces[0][at_one] = n;
            pieces[0][one_tile ? 7 : 6] = whole - n;
            pieces[1][at_one] = a;
            if (one_tile) pieces[1][7] = b, pieces[2][3] = pieces[2][4] = 1;
            else pieces[1][6] = b, pieces[1][7] = 1;
#pragma unroll
            for (int i = 0; i < left_pieces; i++) put(lefts[row], place_in_left(row, i), pieces[i]);
        }
        return -square;
    }
};

// 32 columns in shared memory: as right operands, what their exponents begin with, weights, and coordinates.
struct alignas(16) Staged {
    Right points[32];
    float begin[32];
    float weights[32];
    float at[DIMENSIONS][32];
};

// Columns on their way to shared memory, a point a lane.
struct Coming {
    Point point;
    float centre[DIMENSIONS];  // of its block
    float weight;

    __device__ void fetch(const float* local, const float* centres, const float* weights, int part) {
        const long long row = part * 32LL + threadIdx.x % 32;
        point.load(local, row);
        weight = weights[row];
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++) centre[k] = centres[part / 2 * DIM + k];
    }

    // Put them there, about another centre. Weights are not added, but where they are nothing.
    __device__ void put(Staged& staged, const float* to) {
        const int lane = threadIdx.x % 32;
        point.move(centre, to);
        const float square = point.put_operands(staged.points, nullptr, lane, 0);
        staged.begin[lane] = weight > nothing ? square : nothing;
        staged.weights[lane] = weight > nothing ? weight : 0.0f;
#pragma unroll
        for (int k = 0; k < DIMENSIONS; k++) staged.at[k][lane] = point.at[k];
    }
};

// Put the rows of two blocks, of which so many are there, into shared memory about a centre that is theirs: as left operands
// with `added`, an integer, and as right ones where they are wanted. Rows without weight have no pairs.
__device__ inline void put_rows(Left* lefts, Right* rights, const float* local, const float* weights, int first_block,
                                int blocks_there, float added) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int r = lane; r < 2 * block; r += 32) {
        const bool exists = r < blocks_there * block;
        const long long row = (long long)first_block * block + (exists ? r : lane);
        Point point;
        point.load(local, row);
        point.put_operands(rights, lefts, r, exists && (!weights || weights[row] > nothing) ? added : nothing);
    }
}

// Call use(staged, part, bits) for each listed part of columns, with the parts of the rows that it may matter to. The next
// part is put in place before, and the one after it is under way.
template <class Use>
__device__ __forceinline__ void for_each_part(Staged (&staged)[2], const unsigned* listed, int count,
                                              const float* local, const float* centres, const float* weights,
                                              const float* centre, const Use& use) {
    Coming coming;
    coming.fetch(local, centres, weights, part_of(listed[0]));
    coming.put(staged[0], centre);
    if (count > 1) coming.fetch(local, centres, weights, part_of(listed[1]));
#pragma unroll 1
    for (int c = 0; c < count; c++) {
        __syncwarp();
        if (c + 1 < count) coming.put(staged[(c + 1) % 2], centre);
        if (c + 2 < count) coming.fetch(local, centres, weights, part_of(listed[c + 2]));
        use(staged[c % 2], part_of(listed[c]), bits_of(listed[c]));
    }
}

// 32 columns as right operands, and what their exponents begin with.
struct Columns {
    unsigned right[2][4];
    float begin[4][2];

    __device__ __forceinline__ void load(const Staged& staged) {
        const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
        for (int f = 0; f < 2; f++) {
            const int row = lane / 16 * 8 + lane % 8;
            load_matrices(right[f], staged.points[f * 16 + row] + place_of_piece<2>(row, lane / 8 % 2) * 4);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 two = *reinterpret_cast<const float2*>(&staged.begin[j * 8 + 2 * t]);
            begin[j][0] = two.x, begin[j][1] = two.y;
        }
    }
};

// Exponents of 16 rows from row `first` on and 32 columns.
__device__ __forceinline__ void exponents(float (&e)[4][4], const Left* rows, int first, const Columns& columns) {
    const int lane = threadIdx.x % 32, row = lane % 16;
    const auto load = [&](unsigned (&to)[4], int piece) {
        load_matrices(to, rows[first + row] + place_in_left(row, piece) * 4);
    };
    unsigned left[4], others[4];
    if constexpr (one_tile) {
        load(left, 0);
        load(others, 1 + lane / 16);
    } else {
        load(left, lane / 16);
    }
    const unsigned first_piece[2] = {left[0], left[1]}, second_piece[2] = {left[2], left[3]};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float begin[4] = {columns.begin[j][0], columns.begin[j][1], columns.begin[j][0], columns.begin[j][1]};
        mma_f16_m16n8k8(e[j], first_piece, columns.right[j / 2][j % 2 * 2], begin);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const unsigned R0 = columns.right[j / 2][j % 2 * 2], R1 = columns.right[j / 2][j % 2 * 2 + 1];
        if constexpr (one_tile) {
            mma_f16_m16n8k16(e[j], others, R0, R1);
        } else {
            mma_f16_m16n8k16(e[j], left, R1, R0);
            mma_f16_m16n8k8(e[j], second_piece, R1, e[j]);
        }
    }
}
