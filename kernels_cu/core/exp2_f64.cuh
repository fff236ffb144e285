// 2^x in float64: 12 instructions of the float64 pipe, no table.
#pragma once

// 1.5 2^52: a number added to it is rounded to the nearest integer, which the low word then holds.
constexpr double magic = 6755399441055744.0;

// 2^(x + s) for from = magic + s, s an integer. Relative error 1.4e-14, that of the polynomial, which is the best of
// its degree for 2^r, |r| <= 1/2 (Remez). x + s lies between -2^31 and 1023; below -1021.5 the result is exactly zero.
__device__ inline double exp2_from(double from, double x) {
    const double whole = x + from;
    const double fraction = x - (whole - from);
    double power = fma(fraction, 1.0150336776460464e-07, 1.3259405605880419e-06);
    power = fma(fraction, power, 1.5252984838271556e-05);
    power = fma(fraction, power, 0.00015403434948090314);
    power = fma(fraction, power, 0.0013333557617605189);
    power = fma(fraction, power, 0.009618129192067212);
    power = fma(fraction, power, 0.0555041086686856);
    power = fma(fraction, power, 0.24022650695649653);
    power = fma(fraction, power, 0.693147180559871);
    power = fma(fraction, power, 1.0000000000000127);
    const int exponent = __double2loint(whole);
    const bool counts = exponent >= -1021;  // or the exponent field would pass below zero
    const int high = int(unsigned(__double2hiint(power)) + (unsigned(exponent) << 20)), low = __double2loint(power);
    return __hiloint2double(counts ? high : 0, counts ? low : 0);
}

// The exponent of a normal number of any sign, which is 2^exponent times 1 to 2; -1023 for zero.
__device__ inline int exponent_of(double x) { return (__double2hiint(x) >> 20 & 2047) - 1023; }

// Exact; the exponent lies between -1022 and 1023.
__device__ inline double power_of_2(int exponent) { return __hiloint2double((1023 + exponent) << 20, 0); }
