// Sums of terms that come in any order, the same on every run: whole numbers of a unit, in 64 bits.
#pragma once

constexpr int bits_of_unit = 31;

// Exponent of the unit of moments: of terms 2^(e - a) (z_j - z_i) with exponents down to 32 bits below the largest one, a.
// That says how far apart points are, and what is less than 2^-31 of it does not count.
__device__ inline int exponent_of_moments(float reference) {
    const float reach = sqrtf(2 * (fabsf(reference) + 64));
    return int(__float_as_uint(reach) >> 23) - 126 - bits_of_unit;
}

__device__ inline double two_to_the(int exponent) { return __hiloint2double((exponent + 1023) << 20, 0); }

constexpr double unit_of_totals = 1.0 / (1ll << bits_of_unit);

// Add a term, in units.
__device__ inline void add_whole(double* sum, double units) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), (unsigned long long)llrint(units));
}

__device__ inline double whole(const double* sum) { return double(*reinterpret_cast<const long long*>(sum)); }
