// Study, not for use: a piecewise polynomial by a linear scan for the piece and Horner's rule, in the variants of the
// PwPA kernels of the source, rewritten. cukde.PiecewisePolynomial is measured against them; no public function reaches
// them.
//
//   y_i = sum_j c(s, j) x_i^(D - j),  s the first piece with x_i < knots[s + 1], else the last;  NaN gives NaN
//
//   x, y          (n,)          float, or the bits of float16 numbers; so are the others
//   coefficients  (P, D + 1)    array of structures, or (D + 1, P) with SOA: structure of arrays
//   knots         (P + 1,)      increasing
//
// Macros
//   VARIANT     BASE         the scan breaks off at the piece, coefficients come from global memory one by one
//               UNROLLED     the same, the scan by UNROLL knots at once
//               BRANCH_FREE  the scan passes all knots and adds up the piece's index
//               REGISTERS    UNROLLED with CHUNK coefficients loaded into registers before they are used
//               SHARED       REGISTERS with all pieces' CHUNK coefficients in shared memory; for SOA
//   SOA         0, 1         layout of the coefficients
//   ARITHMETIC  FLOAT        float32, results rounded to float16 where the data are (F16)
//               HALF         float16, as the source's templates of half do
//               PACKED       float16, two points in a register: one instruction for both
//   F16         0, 1         whether x, y, coefficients and knots are float16
//   ELEMENTS                 points of a thread, independent of each other; the source has 1
//   UNROLL, CHUNK            of the variants above
//
// A block of 256 threads owns 256 ELEMENTS consecutive points; of these thread t takes t, t + 256, ..., or with PACKED
// the pairs 2t and 2t + 1, 2t + 512 and 2t + 513, ... Barriers: in SHARED two for each CHUNK coefficients; all threads
// of a block pass all of them, those beyond n too.
//
// Defects of the source that are corrected here, each marked below:
//   (1) BASE, UNROLLED, REGISTERS, SHARED: the index starts at 0 and stays there for x at or beyond the last knot and
//       for NaN: they get piece 0, silently. Here: the last piece.
//   (2) BRANCH_FREE: the index starts at -1 and stays there for such x: coefficients before the array. Here: the last.
//   (3) SHARED: the barrier is within `if (idx < N)`, where the threads beyond the points never come to it.
//   (4) SHARED: thread t brings coefficient t, so that a block must have P CHUNK threads with points; the caller leaves
//       such n out, and P > 128. Here every thread brings coefficients t, t + 256, ...
//   (5) All: a polynomial of degree 0 gives its coefficient for NaN, too. Here: NaN.
//   (6) REGISTERS, SHARED: the sum starts at 0, and 0 times an infinite x is NaN. Here: at the leading coefficient.
#include "ptx.cuh"

#define BASE 0
#define UNROLLED 1
#define BRANCH_FREE 2
#define REGISTERS 3
#define SHARED 4
#define FLOAT 0
#define HALF 1
#define PACKED 2

constexpr int threads = 256;

#if F16
using Number = unsigned short;
__device__ inline float value(Number bits) {
    float low, high;
    unpack_f16(bits, low, high);
    return low;
}
#else
using Number = float;
__device__ inline float value(Number number) { return number; }
#endif

// The piece of each x. float32 compares float16 numbers as float16 does.
__device__ inline void locate(const float (&x)[ELEMENTS], const Number* knots, int P, int (&piece)[ELEMENTS]) {
#if VARIANT == BRANCH_FREE
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) piece[e] = -1;
#pragma unroll UNROLL
    for (int i = 0; i < P; i++) {
        const float end = value(knots[i + 1]);
#pragma unroll
        for (int e = 0; e < ELEMENTS; e++) piece[e] += (piece[e] == -1) * ((i + 1) * (x[e] < end));
    }
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) piece[e] = piece[e] == -1 ? P - 1 : piece[e];  // (2)
#else
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) {
        piece[e] = P - 1;  // (1)
#if VARIANT != BASE
#pragma unroll UNROLL
#endif
        for (int i = 0; i < P; i++) {
            if (x[e] < value(knots[i + 1])) {
                piece[e] = i;
                break;
            }
        }
    }
#endif
}

// Horner's rule for all points of a thread, which bring a coefficient each.
struct Horner {
#if ARITHMETIC == FLOAT
    float x[ELEMENTS], sum[ELEMENTS];

    __device__ void start(const float (&points)[ELEMENTS]) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e++) x[e] = points[e];
    }
    __device__ void leading(const Number (&c)[ELEMENTS]) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e++) sum[e] = value(c[e]);
    }
    __device__ void next(const Number (&c)[ELEMENTS]) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e++) sum[e] = fmaf(sum[e], x[e], value(c[e]));
    }
    __device__ float result(int e) const { return sum[e]; }
#else
    static constexpr int together = ARITHMETIC == PACKED ? 2 : 1;  // points of a register
    unsigned x[ELEMENTS / together], sum[ELEMENTS / together];

    __device__ void start(const float (&points)[ELEMENTS]) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e += together)
            x[e / together] = pack_f16(points[e], together == 2 ? points[e + together - 1] : 0.0f);
    }
    __device__ static unsigned both(const Number (&c)[ELEMENTS], int e) {
        return c[e] | (together == 2 ? unsigned(c[e + together - 1]) << 16 : 0u);
    }
    __device__ void leading(const Number (&c)[ELEMENTS]) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e += together) sum[e / together] = both(c, e);
    }
    __device__ void next(const Number (&c)[ELEMENTS]) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e += together)
            sum[e / together] = fma_f16x2(sum[e / together], x[e / together], both(c, e));
    }
    __device__ float result(int e) const {
        float pair[2];
        unpack_f16(sum[e / together], pair[0], pair[1]);
        return pair[e % together];
    }
#endif
};

__device__ inline void evaluate(Horner& horner, const int (&piece)[ELEMENTS], const Number* coefficients, int P,
                                int D) {
    const int across = SOA ? 1 : D + 1, along = SOA ? P : 1;  // steps from piece to piece, from power to power
#if VARIANT == SHARED
    extern __shared__ Number staged[];  // (CHUNK, P)
    for (int first = 0; first <= D; first += CHUNK) {
        __syncthreads();  // (3)
        const int rows = min(CHUNK, D + 1 - first);
        for (int i = threadIdx.x; i < rows * P; i += threads) staged[i] = coefficients[first * P + i];  // (4)
        __syncthreads();
        Number chunk[CHUNK][ELEMENTS];
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
#pragma unroll
            for (int e = 0; e < ELEMENTS; e++)
                if (j < rows) chunk[j][e] = staged[j * P + piece[e]];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (first + j == 0) horner.leading(chunk[j]);  // (6)
            else if (j < rows) horner.next(chunk[j]);
        }
    }
#elif VARIANT == REGISTERS
    for (int first = 0; first <= D; first += CHUNK) {
        Number chunk[CHUNK][ELEMENTS];
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
#pragma unroll
            for (int e = 0; e < ELEMENTS; e++)
                if (first + j <= D) chunk[j][e] = coefficients[piece[e] * across + (first + j) * along];
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            if (first + j == 0) horner.leading(chunk[j]);  // (6)
            else if (first + j <= D) horner.next(chunk[j]);
        }
    }
#else
    Number c[ELEMENTS];
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) c[e] = coefficients[piece[e] * across];
    horner.leading(c);
    for (int j = 1; j <= D; j++) {
#pragma unroll
        for (int e = 0; e < ELEMENTS; e++) c[e] = coefficients[piece[e] * across + j * along];
        horner.next(c);
    }
#endif
}

#if ARITHMETIC == PACKED
// Word w of the block holds the points 2w and 2w + 1; of an odd n, the last word holds one.
__device__ inline void load(const Number* x, long long first, long long n, float (&points)[ELEMENTS]) {
#pragma unroll
    for (int e = 0; e < ELEMENTS; e += 2) {
        const long long i = first + 2 * threadIdx.x + e * threads;
        unsigned word = 0;
        if (i + 1 < n) word = *reinterpret_cast<const unsigned*>(x + i);
        else if (i < n) word = x[i];
        unpack_f16(word, points[e], points[e + 1]);
    }
}

__device__ inline void store(Number* y, long long first, long long n, const float (&results)[ELEMENTS]) {
#pragma unroll
    for (int e = 0; e < ELEMENTS; e += 2) {
        const long long i = first + 2 * threadIdx.x + e * threads;
        const unsigned word = pack_f16(results[e], results[e + 1]);
        if (i + 1 < n) *reinterpret_cast<unsigned*>(y + i) = word;
        else if (i < n) y[i] = Number(word & 0xffffu);
    }
}
#else
__device__ inline void load(const Number* x, long long first, long long n, float (&points)[ELEMENTS]) {
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) {
        const long long i = first + threadIdx.x + e * threads;
        points[e] = i < n ? value(x[i]) : 0.0f;
    }
}

__device__ inline void store(Number* y, long long first, long long n, const float (&results)[ELEMENTS]) {
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) {
        const long long i = first + threadIdx.x + e * threads;
#if F16
        if (i < n) y[i] = Number(pack_f16(results[e], 0.0f) & 0xffffu);
#else
        if (i < n) y[i] = results[e];
#endif
    }
}
#endif

extern "C" __global__ void __launch_bounds__(threads)
piecewise_variant(const Number* __restrict__ x, const Number* __restrict__ coefficients,
                  const Number* __restrict__ knots, Number* __restrict__ y, long long n, int P, int D) {
    const long long first = (long long)blockIdx.x * threads * ELEMENTS;
    float points[ELEMENTS], results[ELEMENTS];
    int piece[ELEMENTS];
    load(x, first, n, points);
    locate(points, knots, P, piece);

    Horner horner;
    horner.start(points);
    evaluate(horner, piece, coefficients, P, D);
#pragma unroll
    for (int e = 0; e < ELEMENTS; e++) results[e] = points[e] == points[e] ? horner.result(e) : points[e];  // (5)
    store(y, first, n, results);
}
