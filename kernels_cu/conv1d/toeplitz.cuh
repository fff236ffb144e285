// Depthwise convolution as matrix products on the tensor cores. Included by toeplitz.cu and toeplitz_short.cu.
//
//   y[o] = sum_k v[k] x[o + k - before],   v the taps of a channel, x zero outside of its row
//
// Outputs go in rows of 32, row r beginning at `first` + 32 r. With X[d, r] = x[start + 32 r + d] and
// start = first - before - slip,
//
//   Y[j, r] = sum_b sum_d T_b[j, d] X[d, r + b],   T_b[j, d] = v[32 b + d - j - slip],   0 <= d, j < 32
//
// for the blocks of taps b from 0 to (taps + 30 + slip) / 32. The T_b are Toeplitz matrices with 63 different numbers.
// `first` and `slip` are chosen for every row such that 16 bytes of x and of y are aligned, whatever `before`, the
// lengths and the address of x: the taps are shifted, not the data.
//
// Taps are the left operand. So neither operand has to be moved between registers: 16 bytes of x are two right operands of
// 16 x 8 as they are loaded. With g = lane / 4 and t = lane % 4 a lane loads X[8 t .. 8 t + 7, g] and gets
// Y[4 g .. 4 g + 3, 2 t] and the same of row 2 t + 1. The order of outputs and inputs in the tensor cores' matrices is such
// that quarter (i, s) of T_b, for i, s = 0, 1, is four registers of two taps each, those with
//
//   k, k - 1, k + 2 and k + 1 as the first of both,   k = 32 b + 8 t + 4 s - 4 g - 2 i - slip
//
// Zeros of the T_b are multiplied by inputs that the sum does not have. If such an input is not finite, neither is the
// product: outputs that this may affect are summed again from the definition.
#pragma once
#include "conv1d.cuh"

constexpr int row_of_outputs = 32, group_of_rows = 8;
constexpr int group_of_outputs = row_of_outputs * group_of_rows;

constexpr float largest_float = 3.402823466e38f;

// Of a group of eight rows of 32 outputs: elements 2 i and 2 i + 1 of the lane's four of row 2 t + n are sums[i][n] and
// sums[i][2 + n].
typedef float Group[2][4];

// Four registers of each quarter of a T_b.
typedef unsigned Taps[2][2][4];

__device__ inline void clear(Group& sums) {
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int c = 0; c < 4; c++) sums[i][c] = 0;
}

// Add T_b X, to zero with `fresh`; `x` is what the lane brings.
__device__ inline void add_product(Group& sums, const Taps& taps, uint4 x, bool fresh = false) {
    constexpr float zeros[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (fresh) mma_f16_m16n8k16(sums[i], taps[i][0], x.x, x.y, zeros);
        else mma_f16_m16n8k16(sums[i], taps[i][0], x.x, x.y);
        mma_f16_m16n8k16(sums[i], taps[i][1], x.z, x.w);
    }
}

// Element e of the lane's four of row 2 t + n.
__device__ inline float element(const Group& sums, int n, int e) { return sums[e / 2][2 * (e % 2) + n]; }

// A row of x, the taps of its channel, and a row of y. Places in a row fit in an int with what is added to them here.
struct Sequence {
    const Stored *x, *w;
    Stored* y;
    int length, outputs, taps, before, flip;

    // v[k], zero where there is no such tap.
    __device__ float tap(int k) const { return unsigned(k) < unsigned(taps) ? weight(w, 0, taps, k, flip) : 0; }

    // Whether some vector that begins at a multiple of 16 bytes after x[start] is in part outside of x.
    __device__ bool is_ragged(int start) const { return ((start | length) & vector - 1) != 0; }

    // The same vectors where they are in x as a whole; zeros elsewhere. `address` is x + at: callers have it at
    // a known distance from others', so that it is not computed anew in 64 bits.
    __device__ uint4 whole_vector(const Stored* address, int at) const {
        return load_streaming_if(unsigned(at) < unsigned(max(length - (vector - 1), 0)), address);
    }

    // Correct a vector for which is_ragged is true.
    __device__ void mend(uint4& loaded, int at) const {
        if (at > -vector && at < length && (at < 0 || at + vector > length)) loaded = load_within(x, at, length);
    }

    // The sum of an output by its definition, in double precision; taps beyond the row's ends meet zeros.
    __device__ float sum(int output) const {
        double total = 0;
#pragma unroll 1
        for (int k = 0; k < taps; k++) {
            const int at = output + k - before;
            const float input = unsigned(at) < unsigned(length) ? to_real(x[at]) : 0;
            total = fma(double(input), double(tap(k)), total);
        }
        return float(total);
    }

    // Write four neighbours from `begin` on, as far as they exist; `address` is y + begin, a multiple of four from an
    // aligned place on.
    __device__ void write(Stored* address, int begin, const float* z) const {
        if (unsigned(begin) < unsigned(max(outputs - 3, 0))) {
#if STORAGE == 16
            store_streaming(address, make_uint2(pack_f16(z[0], z[1]), pack_f16(z[2], z[3])));
#else
            store_streaming(address, pack({z[0], z[1], z[2], z[3]}));
#endif
        } else if (begin > -4 && begin < outputs) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (unsigned(begin + e) < unsigned(outputs)) address[e] = to_stored(z[e]);
        }
    }
};

// How far a row's first output and its taps are moved for alignment.
struct Alignment {
    int early;  // outputs before the row's first that a vector aligned in y begins with
    int slip;
};

// Of the row `row` of all; x is the first of all.
__device__ inline Alignment alignment(const Stored* x, long long row, int length, int outputs, int before) {
    const int early = int(row * outputs & vector - 1);
    const long long of_x = (long long)(reinterpret_cast<size_t>(x) / sizeof(Stored)) + row * length;
    return {early, int(of_x - early - before & vector - 1)};
}
