// Numbers as arrays hold them (Stored) and as they are computed with (Real), and both in 16 bytes.
//
// A vector is 16 bytes of memory, of `vector` numbers; a Row is 16 bytes of `row_width` Reals.
//
// Macro: STORAGE, bits of a number in memory; 16 bits are float16, computed with in float32.
#pragma once
#include "ptx.cuh"

#if STORAGE == 64
typedef double Real;
typedef double2 Row;
typedef double Stored;
#elif STORAGE == 32
typedef float Real;
typedef float4 Row;
typedef float Stored;
#else
typedef float Real;
typedef float4 Row;
struct Stored {
    unsigned short bits;
};
#endif

constexpr int row_width = 16 / sizeof(Real);
constexpr int vector = 16 / sizeof(Stored);
constexpr int rows_of_vector = vector / row_width;

#if STORAGE == 16
__device__ inline Real to_real(Stored stored) {
    Real value, above;
    unpack_f16(stored.bits, value, above);
    return value;
}
__device__ inline Stored to_stored(Real value) { return {(unsigned short)pack_f16(value, 0)}; }
#else
__device__ inline Real to_real(Stored value) { return value; }
__device__ inline Stored to_stored(Real value) { return value; }
#endif

__device__ inline void unpack(uint4 v, Real (&x)[vector]) {
#if STORAGE == 64
    x[0] = __hiloint2double(int(v.y), int(v.x));
    x[1] = __hiloint2double(int(v.w), int(v.z));
#else
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
#if STORAGE == 32
        x[i] = __uint_as_float(words[i]);
#else
        unpack_f16(words[i], x[2 * i], x[2 * i + 1]);
#endif
    }
#endif
}

__device__ inline uint4 pack(const Real (&y)[vector]) {
#if STORAGE == 64
    return make_uint4(unsigned(__double2loint(y[0])), unsigned(__double2hiint(y[0])), unsigned(__double2loint(y[1])),
                      unsigned(__double2hiint(y[1])));
#elif STORAGE == 32
    return make_uint4(__float_as_uint(y[0]), __float_as_uint(y[1]), __float_as_uint(y[2]), __float_as_uint(y[3]));
#else
    return make_uint4(pack_f16(y[0], y[1]), pack_f16(y[2], y[3]), pack_f16(y[4], y[5]), pack_f16(y[6], y[7]));
#endif
}

// Numbers at, at + 1, .. of an array of `length` as a vector, whatever its alignment; zeros outside of the array.
__device__ inline uint4 load_within(const Stored* array, int at, int length) {
    unsigned words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < vector; e++) {
        if (at + e < 0 || at + e >= length) continue;
#if STORAGE == 64
        words[2 * e] = unsigned(__double2loint(array[at + e]));
        words[2 * e + 1] = unsigned(__double2hiint(array[at + e]));
#elif STORAGE == 32
        words[e] = __float_as_uint(array[at + e]);
#else
        words[e / 2] |= unsigned(array[at + e].bits) << (e % 2 * 16);
#endif
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline void from_row(float4 row, float (&x)[4]) { x[0] = row.x, x[1] = row.y, x[2] = row.z, x[3] = row.w; }
__device__ inline void from_row(double2 row, double (&x)[2]) { x[0] = row.x, x[1] = row.y; }
__device__ inline void to_row(const float* x, float4& row) { row = make_float4(x[0], x[1], x[2], x[3]); }
__device__ inline void to_row(const double* x, double2& row) { row = make_double2(x[0], x[1]); }
