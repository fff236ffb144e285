// exp and log by a polynomial of a reduced argument:
//
//   EXP  exp(x) = 2^n p(r),        x = r + n log 2,  |r| <= log(2) / 2
//   LOG  log(x) = p(m) + n log 2,  x = 2^n m,  3/4 <= m < 3/2
//
// Macros: REDUCTION. Real is float or double.
#pragma once

#define NONE 0
#define EXP 1
#define LOG 2

#if REDUCTION == EXP

// Beyond these the exponential is 0 or infinite, and within them |n| is less than twice the largest exponent.
constexpr Real lowest = sizeof(Real) == 4 ? -105 : -747, highest = sizeof(Real) == 4 ? 90 : 711;
constexpr Real per_log_2 = Real(1.4426950408889634074);
constexpr Real log_2_high = Real(355.0 / 512);  // nine bits, so that its products with n are exact
constexpr Real log_2_low = Real(-2.1219444005469058277e-4);

__device__ inline float power_of_2(float, int n) { return __uint_as_float(unsigned(127 + n) << 23); }
__device__ inline double power_of_2(double, int n) { return __hiloint2double(int(unsigned(1023 + n) << 20), 0); }

// r and n of x; NaN stays.
__device__ inline Real reduced(Real x, int& n) {
    x = x > highest ? highest : x;
    x = x < lowest ? lowest : x;
    const Real near = fma(x, per_log_2, magic);  // the last bits are those of n, rounded to nearest
    n = int(last_bits(near) - magic_bits);
    const Real whole = near - magic;
    return fma(-whole, log_2_low, fma(-whole, log_2_high, x));
}

// In two steps, for 2^n may be infinite, or denormal, where its product is not.
__device__ inline Real restored(Real p, int n, Real) {
    const int half = n >> 1;
    return p * power_of_2(p, half) * power_of_2(p, n - half);
}

#elif REDUCTION == LOG

constexpr Real log_2 = Real(0.69314718055994530942);

// m and n of x; if x has no logarithm, some m in range. By integer operations, which do not flush denormal numbers to
// zero.
__device__ inline float reduced(float x, int& n) {
    unsigned bits = __float_as_uint(x);
    const bool denormal = bits < 1u << 23;
    if (denormal) bits = __float_as_uint(float(bits));  // 2^149 x
    const int exponent = int(bits - 0x3f400000u) >> 23;
    n = exponent - (denormal ? 149 : 0);
    return __uint_as_float(bits - (unsigned(exponent) << 23));
}

__device__ inline double reduced(double x, int& n) {
    const bool small = x < 2.2250738585072014e-308;  // or negative
    if (small) x *= 18014398509481984.0;             // 2^54
    const unsigned high = unsigned(__double2hiint(x));
    const int exponent = int(high - 0x3fe80000u) >> 20;
    n = exponent - (small ? 54 : 0);
    return __hiloint2double(int(high - (unsigned(exponent) << 20)), __double2loint(x));
}

// Log of 0 is minus infinity, of infinity infinity, and NaN of negative numbers and NaN.
__device__ inline Real restored(Real p, int n, Real x) {
    const unsigned high = sizeof(Real) == 4 ? __float_as_uint(float(x)) : unsigned(__double2hiint(x));
    const unsigned low = sizeof(Real) == 4 ? 0u : unsigned(__double2loint(x));
    constexpr unsigned infinite = sizeof(Real) == 4 ? 0x7f800000u : 0x7ff00000u;
    const Real y = fma(Real(n), log_2, p);
    if (high - 1 < infinite - 1) return y;
    if ((high << 1 | low) == 0) return -__uint_as_float(0x7f800000u);
    return high == 0 ? y : high == infinite && low == 0 ? x : Real(__uint_as_float(0x7fffffffu));
}

#endif
