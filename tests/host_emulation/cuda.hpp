// The CUDA C++ that the kernels use, for g++: a .cu file compiles as it is and runs on fibers (fibers.hpp).
//
// The kernel's source is included inside namespace `emulated` (see launch.hpp), so that the names below hide
// those of the C library where CUDA's meaning differs.
#pragma once

#include <fenv.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <type_traits>

#include "fibers.hpp"

#define __CUDA_ARCH__ 900

#define __global__
#define __device__
#define __host__
#define __noinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// Static storage is enough: blocks run one after another. Thread-local, because that puts every shared array of
// a library, those in templates too, into one piece of memory that can be found and poisoned. (A section of
// their own would be simpler, but GCC ignores section attributes in templates.)
#define __shared__ static thread_local

namespace emulation {

struct Memory {
    void* start;
    size_t size;
};

// `extern __shared__` arrays: as large as the launch says, between guard pages that Python sets up.
[[gnu::visibility("hidden")]] extern Memory dynamic_shared_memory;

}  // namespace emulation

namespace emulated {

constexpr int warpSize = 32;

// -------------------------------------------------------------------------------------------- vector types

struct alignas(8) float2 { float x, y; };
struct float3 { float x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ------------------------------------------------------------------------------------------------- numbers

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline int __double2loint(double value) { return int(__double_as_longlong(value)); }

inline int __double2hiint(double value) { return int(__double_as_longlong(value) >> 32); }

inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __ffs(unsigned bits) { return __builtin_ffs(int(bits)); }

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

inline double __hiloint2double(int high, int low) {
    const unsigned long long bits = (unsigned long long)(unsigned)high << 32 | unsigned(low);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline int __popc(unsigned value) { return __builtin_popcount(value); }

// CuPy compiles with -ftz=true: float32 functions give zero for a denormal result.
inline float flush_denormal(float value) { return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value; }

inline float exp2f(float x) { return flush_denormal(::exp2f(x)); }
inline float expf(float x) { return flush_denormal(::expf(x)); }
inline float exp2(float x) { return exp2f(x); }
inline double exp2(double x) { return ::exp2(x); }
inline float exp(float x) { return expf(x); }
inline double exp(double x) { return ::exp(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __fdividef(float a, float b) { return fabsf(b) > 0x1p126f ? copysignf(0.0f, a) : a / b; }

// CUDA's min and max take mixed arithmetic types, and like fmin and fmax ignore a NaN beside a number.
template <class A, class B>
inline std::common_type_t<A, B> min(A a, B b) {
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<C>) return fmin(C(a), C(b));
    else return C(b) < C(a) ? C(b) : C(a);
}

template <class A, class B>
inline std::common_type_t<A, B> max(A a, B b) {
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<C>) return fmax(C(a), C(b));
    else return C(a) < C(b) ? C(b) : C(a);
}

template <class T>
inline T atomicAdd(T* address, std::type_identity_t<T> value) {
    const T before = *address;
    *address = before + value;
    return before;
}

template <class T>
inline T atomicMax(T* address, std::type_identity_t<T> value) {
    const T before = *address;
    if (value > before) *address = value;
    return before;
}

template <class T>
inline T atomicOr(T* address, std::type_identity_t<T> value) {
    const T before = *address;
    *address = before | value;
    return before;
}

// Blocks run one after the other, and each sees what others before it have written.
inline void __threadfence() {}

template <class T>
inline T __ldcg(const T* address) {
    return *address;
}

// -------------------------------------------------------------------------------- barriers and warp shuffles

inline void __syncthreads(EMULATION_SITE) { ::emulation::block_barrier({file, line}); }

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATION_SITE) {
    char nothing;
    ::emulation::collective("__syncwarp", {file, line}, mask, nothing, [](unsigned, char* const*) {});
}

template <class T>
struct Shuffled {
    T value;
    int source;  // lane to read, in the warp
    T result;
};

// Read `value` of lane `source`. A source outside the caller's segment of `width` lanes is the caller itself.
template <class T>
T shuffle(const char* what, ::emulation::Site site, unsigned mask, T value, int source) {
    Shuffled<T> own{value, source, value};
    ::emulation::collective(what, site, mask, own, [](unsigned lanes, Shuffled<T>* const* registers) {
        for (unsigned l = 0; l < 32; l++) {
            if (!(lanes >> l & 1)) continue;
            const int from = registers[l]->source;
            if (!(lanes >> from & 1)) ::emulation::fail("lane %u shuffles from lane %d, outside its mask", l, from);
            registers[l]->result = registers[from]->value;
        }
    });
    return own.result;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATION_SITE) {
    const int segment = int(::emulation::lane()) & ~(width - 1);
    return shuffle("__shfl_sync", {file, line}, mask, value, segment | (source & (width - 1)));
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flips, int width = 32, EMULATION_SITE) {
    const int own = int(::emulation::lane()), source = own ^ flips;
    const int segment = own & ~(width - 1);
    return shuffle("__shfl_xor_sync", {file, line}, mask, value, source < segment + width ? source : own);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, EMULATION_SITE) {
    const int own = int(::emulation::lane()), source = own + int(distance);
    const int segment = own & ~(width - 1);
    return shuffle("__shfl_down_sync", {file, line}, mask, value, source < segment + width ? source : own);
}

struct Vote {
    int own, result;
};

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATION_SITE) {
    Vote vote{predicate, 0};
    ::emulation::collective("__ballot_sync", {file, line}, mask, vote, [](unsigned lanes, Vote* const* votes) {
        unsigned ballot = 0;
        for (unsigned l = 0; l < 32; l++)
            if (lanes >> l & 1) ballot |= unsigned(votes[l]->own != 0) << l;
        for (unsigned l = 0; l < 32; l++)
            if (lanes >> l & 1) votes[l]->result = int(ballot);
    });
    return unsigned(vote.result);
}

inline unsigned __reduce_or_sync(unsigned mask, unsigned bits, EMULATION_SITE) {
    Vote vote{int(bits), 0};
    ::emulation::collective("__reduce_or_sync", {file, line}, mask, vote, [](unsigned lanes, Vote* const* votes) {
        int all = 0;
        for (unsigned l = 0; l < 32; l++)
            if (lanes >> l & 1) all |= votes[l]->own;
        for (unsigned l = 0; l < 32; l++)
            if (lanes >> l & 1) votes[l]->result = all;
    });
    return unsigned(vote.result);
}

inline int __any_sync(unsigned mask, int predicate, EMULATION_SITE) {
    Vote vote{predicate, 0};
    ::emulation::collective("__any_sync", {file, line}, mask, vote, [](unsigned lanes, Vote* const* votes) {
        int any = 0;
        for (unsigned l = 0; l < 32; l++)
            if (lanes >> l & 1) any |= votes[l]->own != 0;
        for (unsigned l = 0; l < 32; l++)
            if (lanes >> l & 1) votes[l]->result = any;
    });
    return vote.result;
}

}  // namespace emulated
