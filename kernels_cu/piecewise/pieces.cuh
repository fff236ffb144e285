// The search for the piece of an x, and Horner's rule there. Included by the kernels of piecewise polynomials.
//
// Piece i holds for knots[i] <= x < knots[i + 1]; the first and the last piece continue outwards. Three searches find it.
// Each compares x with the knots themselves, so that an x next to a knot is never on the wrong side of it.
//
//   UNIFORM  knots[i] is first + i step in Real, rounded once. The range is cut into cells of equal width, one for each
//            piece, and x belongs to the piece of its own cell or of the next one
//   GUIDE    the range is cut into cells of equal width. A cell has the first two knots A <= B in it (NaN: fewer), the
//            last knot before it and that knot's piece, whose highest bit says that there are more knots. These are
//            searched one by one among all knots, which follow the cells
//   TREE     knots[1] to knots[pieces - 1] as a complete binary search tree, node i above 2 i and 2 i + 1, from node 1
//            on; NaN if there is no knot, because no x is beyond NaN
//
// The coefficients of a piece are rows of 16 bytes, leading coefficient first; unused zeros fill the front of the first
// row.
//
// Macros: STORAGE (core/storage.cuh), of x and y; SEARCH.
#pragma once
#include "storage.cuh"

#define UNIFORM 0
#define GUIDE 1
#define TREE 2

enum Beyond { EXTRAPOLATE, MISSING, CLAMP, PERIODIC };

// The last bits of magic + i are those of i, for i from 0 to 2^22.
constexpr Real magic = sizeof(Real) == 4 ? 12582912.0 : 6755399441055744.0;
constexpr unsigned magic_bits = sizeof(Real) == 4 ? 0x4b400000u : 0u;

__device__ inline unsigned last_bits(float a) { return __float_as_uint(a); }
__device__ inline unsigned last_bits(double a) { return unsigned(__double2loint(a)); }

// Doubles are never flushed to zero, and have no instruction that saturates.
__device__ inline bool at_least(double a, double b) { return a >= b; }
__device__ inline double fma_saturate(double a, double b, double c) { return fmin(fmax(fma(a, b, c), 0.0), 1.0); }

struct Knots {
    Real first, last;
    Real scale, offset;  // scale x + offset goes from 0 to 1 between first and last
    Real cells;          // the number below the number of cells
    Real step;           // of UNIFORM
    int levels;          // of TREE
    int pieces;
    const Real* all;     // of GUIDE, (pieces + 1,)
};

// magic + the cell that x is in, of NaN the first one: never decreasing with x.
__device__ inline Real cell(Real x, const Knots& knots) {
    return fma_down(fma_saturate(x, knots.scale, knots.offset), knots.cells, magic);
}

__device__ inline Real uniform_knot(Real i, const Knots& knots) { return fma(i, knots.step, knots.first); }

// The replacement of an x beyond the knots. NaN stays NaN.
__device__ inline Real brought_within(Real x, int beyond, const Knots& knots) {
    if (beyond == MISSING) return at_least(x, knots.first) && at_least(knots.last, x) ? x : __uint_as_float(0x7fffffffu);
    if (beyond == CLAMP) {
        x = at_least(knots.first, x) ? knots.first : x;
        x = at_least(x, knots.last) ? knots.last : x;
    }
    return x;
}

// locate adds this to the number of a piece.
constexpr unsigned piece_excess = SEARCH == UNIFORM ? magic_bits : 0u;

// Pieces of several x, by their numbers plus piece_excess, and the knots that they begin with; of NaN any piece there
// is. `search` is the guide, `stride` bytes from cell to cell, or the tree.
template <int n>
__device__ inline void locate(const Real (&x)[n], const Row* search, unsigned stride, const Knots& knots,
                              unsigned (&piece)[n], Real (&origin)[n]) {
#if SEARCH == UNIFORM
#pragma unroll
    for (int e = 0; e < n; e++) {
        const Real guess = cell(x[e], knots) - magic;
        const Real i = at_least(x[e], uniform_knot(guess, knots)) ? guess : max(guess - 1, Real(0));
        origin[e] = uniform_knot(i, knots);
        piece[e] = last_bits(i + magic);
    }
#elif SEARCH == GUIDE
    Row of_cell[n];
#pragma unroll
    for (int e = 0; e < n; e++) {
        const unsigned begin = last_bits(cell(x[e], knots)) * stride - magic_bits * stride;
        of_cell[e] = *reinterpret_cast<const Row*>(reinterpret_cast<const char*>(search) + begin);
    }
    bool crowded = false;
#pragma unroll
    for (int e = 0; e < n; e++) {
        const bool past_a = at_least(x[e], of_cell[e].x), past_b = at_least(x[e], of_cell[e].y);
        origin[e] = past_b ? of_cell[e].y : past_a ? of_cell[e].x : of_cell[e].z;
        piece[e] = __float_as_uint(of_cell[e].w) + past_a + past_b;
        crowded |= int(piece[e]) < 0;
    }
    if (crowded) {
#pragma unroll
        for (int e = 0; e < n; e++) {
            if (int(piece[e]) >= 0) continue;
            piece[e] &= 0x7fffffffu;
            while (int(piece[e]) < knots.pieces - 1 && at_least(x[e], knots.all[piece[e] + 1]))
                origin[e] = knots.all[++piece[e]];
        }
    }
#else
    const Real* const tree = reinterpret_cast<const Real*>(search);
#pragma unroll
    for (int e = 0; e < n; e++) {
        piece[e] = 1;
        origin[e] = knots.first;
    }
    for (int level = 0; level < knots.levels; level++) {
#pragma unroll
        for (int e = 0; e < n; e++) {
            const Real knot = tree[piece[e]];
            const bool past = at_least(x[e], knot);
            origin[e] = past ? knot : origin[e];
            piece[e] = 2 * piece[e] + past;
        }
    }
#pragma unroll
    for (int e = 0; e < n; e++) piece[e] -= 1u << knots.levels;
#endif
}

// Horner's rule over the first row of coefficients, of which the last `terms` exist. Other coefficients are left out,
// because zero times infinity is NaN.
__device__ inline float begin_horner(float4 c, float t, int terms) {
    float y = terms == 4 ? c.x : terms == 3 ? c.y : terms == 2 ? c.z : c.w;
    if (terms >= 4) y = fma(y, t, c.y);
    if (terms >= 3) y = fma(y, t, c.z);
    if (terms >= 2) y = fma(y, t, c.w);
    return y;
}

__device__ inline double begin_horner(double2 c, double t, int terms) {
    return terms == 2 ? fma(c.x, t, c.y) : c.y;
}

// Over a further row.
__device__ inline float go_on_horner(float y, float4 c, float t) {
    return fma(fma(fma(fma(y, t, c.x), t, c.y), t, c.z), t, c.w);
}

__device__ inline double go_on_horner(double y, double2 c, double t) { return fma(fma(y, t, c.x), t, c.y); }

__device__ inline bool is_infinite(Real t) { return (t < 0 ? -t : t) == Real(__uint_as_float(0x7f800000u)); }

// The limit at an infinite t, by the first coefficient that is not zero; Horner's rule may compute zero times infinity.
// `row_of` gives the rows of the piece.
template <class RowOf>
__device__ inline Real limit(const RowOf& row_of, int rows, Real t) {
    Real value = 0;
    int degree = rows * row_width - 1;
#pragma unroll 1
    for (int row = 0; row < rows; row++) {
        const Row c = row_of(row);
#if STORAGE == 64
        const Real terms[] = {c.x, c.y};
#else
        const Real terms[] = {c.x, c.y, c.z, c.w};
#endif
#pragma unroll
        for (int i = 0; i < row_width; i++, degree--) {
            const Real power = t < 0 && degree % 2 == 0 ? -t : t;
            if (value == 0 && terms[i] != 0) value = degree ? terms[i] * power : terms[i];
        }
    }
    return value;
}
