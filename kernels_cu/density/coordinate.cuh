// A coordinate of a point as differences are taken. REAL is the arithmetic, STORAGE what the points hold. STORAGE double with
// REAL float splits each number into hi + lo floats, and a difference is (x_hi - y_hi) + (x_lo - y_lo): in double it would
// take as long as a dozen operations in float, most of it for the conversion.
#pragma once

typedef REAL Real;
typedef STORAGE Storage;

struct alignas(8) Split {
    float hi, lo;
};
template <typename Arithmetic, typename Stored> struct Staged { typedef Arithmetic Type; };
template <> struct Staged<float, double> { typedef Split Type; };
typedef Staged<Real, Storage>::Type Coordinate;

__device__ inline void put(float value, float& to) { to = value; }
__device__ inline void put(double value, double& to) { to = value; }
__device__ inline void put(double value, Split& to) {
    to.hi = float(value);
    to.lo = float(value - to.hi);
}
__device__ inline void clear(float& to) { to = 0; }
__device__ inline void clear(double& to) { to = 0; }
__device__ inline void clear(Split& to) { to.hi = to.lo = 0; }

__device__ inline float difference(float a, float b) { return a - b; }
__device__ inline double difference(double a, double b) { return a - b; }
__device__ inline float difference(Split a, Split b) { return (a.hi - b.hi) + (a.lo - b.lo); }
