// Depthwise convolution along contiguous rows, stride 1, dilation 1:
//
//   y[b, c, i] = activation(bias[c] + sum_k v[c, k] x[b, c, i + k - before]),   v[c, k] = w[c, k], or w[c, taps - 1 - k]
//
// where x is zero before its first and after its last element. The gradient by x is such a convolution of dy, with the
// taps in reverse order and before = taps - 1 - before, which may be negative.
//
//   x        (rows, length)      Stored     rows = batch * channels
//   w        (channels, taps)    Stored
//   bias     (channels,)         Real       or null
//   y        (rows, outputs)     Stored
//
// Memory limits the time up to about 40 taps (float32, H200: 58 issue slots an output at the speed of a copy). x is read in
// aligned vectors of 16 bytes, wherever a row begins; y is written in vectors if its rows are aligned.
//
// A block owns `tile` outputs of a row, a thread `own` of them. x lies in shared memory as Real: elements 4 r to 4 r + 3
// (for double 2 r, 2 r + 1) from an aligned address on are Row r, in plane r % 4. There are no bank conflicts, neither for
// eight threads that write neighbouring rows nor for eight that read every fourth one. A thread goes over the taps with a
// window in registers (window.cuh). More than most_blocks blocks of taps are staged one part after the other.
//
// Barriers: after x and taps are staged, before the next are, and around the exchange of outputs into vectors.
//
// Macros: STORAGE (core/storage.cuh), THREADS (at least 64), BLOCKS (of a multiprocessor).
//
// Staging with a halo: the cache-blocked variant of the source. Planes and the ring are not from the source.
#include "conv1d.cuh"
#include "window.cuh"

constexpr int tile = THREADS * own;  // of a block
constexpr int most_blocks = 56;      // of taps at a time, a multiple of the ring: their rows are at most a vector a thread
constexpr int columns = THREADS + 64 / 4;
constexpr int plane = (columns + 5) / 8 * 8 + 2;  // rows of a plane: 2 modulo 8
constexpr int own_vectors = own / vector;

// Also for rows before the first one.
__device__ inline int place(int row) { return (row & 3) * plane + (row >> 2); }

// A vector without its first element, and with another one behind its last.
__device__ inline uint4 followed_by(uint4 v, Stored element) {
#if STORAGE == 64
    return make_uint4(v.z, v.w, unsigned(__double2loint(element)), unsigned(__double2hiint(element)));
#elif STORAGE == 32
    return make_uint4(v.y, v.z, v.w, __float_as_uint(element));
#else
    return make_uint4(v.x >> 16 | v.y << 16, v.y >> 16 | v.z << 16, v.z >> 16 | v.w << 16,
                      v.w >> 16 | unsigned(element.bits) << 16);
#endif
}

// A part of a row: element p of it, from `start` on and below `end`, is at x[p]; vectors from p = 0 on are aligned.
struct Part {
    const Stored* x;
    int start, end;
    int shift;  // of what is wanted: it begins at p = shift, below `vector`
};

__device__ inline Part part_of(const Stored* row, int first, int length) {
    const int shift = int(reinterpret_cast<size_t>(row + first) / sizeof(Stored)) & vector - 1;
    const int from = first - shift;
    return {row + from, -from, length - from, shift};
}

// The vector of a part from p on, zeros beyond the ends of the row.
__device__ inline uint4 fetch(const Part& part, int p) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (p >= part.start && p + vector <= part.end) {
        v = *reinterpret_cast<const uint4*>(part.x + p);
    } else if (p > part.start - vector && p < part.end) {
        // Rows that do not begin or end with a vector: elements come in from behind, one by one.
#pragma unroll 1
        for (int e = p; e < p + vector; e++)
            v = followed_by(v, e >= part.start && e < part.end ? part.x[e] : Stored());
    }
    return v;
}

// Vector `group + i` of all threads, of this one.
__device__ inline int vector_of(int group, int i) { return (group + i) * THREADS + threadIdx.x; }

// Vectors of a thread: all but the last one of a whole tile are there for every thread.
template <int n>
__device__ inline void fetch(uint4 (&got)[n], const Part& part, int group, int vectors) {
#pragma unroll
    for (int i = 0; i < n; i++) {
        const int j = vector_of(group, i);
        got[i] = make_uint4(0, 0, 0, 0);
        if (i + 1 < n || j < vectors) got[i] = fetch(part, j * vector);
    }
}

// Of vectors that are THREADS apart, the places of their rows.
constexpr int places_apart = THREADS * rows_of_vector / 4;

// Into shared memory, without the rows before the one that something is wanted of.
template <int n>
__device__ inline void put(const uint4 (&got)[n], int group, int vectors, int shift, Row* staged) {
    const int before = rows_of_vector == 1 ? 0 : shift / row_width;
    Row* to[rows_of_vector];
#pragma unroll
    for (int r = 0; r < rows_of_vector; r++)
        to[r] = staged + place(int(threadIdx.x) * rows_of_vector + r - before) + group * places_apart;
#pragma unroll
    for (int i = 0; i < n; i++) {
        if (i + 1 == n && vector_of(group, i) >= vectors) break;
        Real elements[vector];
        unpack(got[i], elements);
#pragma unroll
        for (int r = 0; r < rows_of_vector; r++)
            if (vector_of(group, i) * rows_of_vector + r >= before) to_row(elements + r * row_width, to[r][i * places_apart]);
    }
}

// Vectors that the outputs of a block meet by so many blocks of taps, wherever these begin in the first vector.
__device__ inline int vectors_under(int blocks) {
    return int(unsigned(4 * THREADS + blocks + 2 * rows_of_vector - 1) / rows_of_vector);
}
static_assert((most_blocks + 2 * rows_of_vector - 1) / rows_of_vector <= THREADS, "a vector a thread, beside its own");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv1d(const Stored* __restrict__ x, const Stored* __restrict__ w, const Real* __restrict__ bias,
       Stored* __restrict__ y, int length, int outputs, int before, int taps, int flip, int activation) {
    __shared__ Row staged[4 * plane];
    __shared__ Row tap_rows[most_blocks];
    const int channel = blockIdx.y;
    const long long row = (long long)blockIdx.z * gridDim.y + channel;
    const int begin = blockIdx.x * tile;
    const int all_blocks = int((unsigned(taps) + row_width - 1) / row_width);
    const int absent = all_blocks * row_width - taps;  // taps of the first block
    const Stored* const own_x = x + row * length;
    const int first = begin - before - absent;

    const auto put_taps = [&](int from, int blocks) {
#pragma unroll 1
        for (int j = threadIdx.x; j < blocks * row_width; j += THREADS) {
            const int k = from * row_width + j - absent;
            reinterpret_cast<Real*>(tap_rows)[j] = k < 0 ? Real(0) : weight(w, channel, taps, k, flip);
        }
    };

    int blocks = min(all_blocks, most_blocks), shift;
    {
        const Part part = part_of(own_x, first, length);
        uint4 got[own_vectors + 1];
        fetch(got, part, 0, vectors_under(blocks));
        put_taps(0, blocks);
        shift = part.shift;  // of every part: blocks of taps that are staged at once are whole vectors
        put(got, 0, vectors_under(blocks), shift, staged);
    }
    const Real start = bias ? bias[channel] : Real(0);
    Real sums[own];
#pragma unroll
    for (int i = 0; i < own; i++) sums[i] = start;

    for (int from = 0;;) {
        __syncthreads();
        const auto under = [&](int r, int m) { return staged[threadIdx.x + place(r) + (m >> 2)]; };
        accumulate(sums, under, tap_rows, blocks, from == 0 ? absent : 0, shift % row_width);
        __syncthreads();
        from += blocks;
        if (from == all_blocks) break;
        blocks = min(all_blocks - from, most_blocks);
        put_taps(from, blocks);
        const Part part = part_of(own_x, first + from * row_width, length);
#pragma unroll 1
        for (int group = 0; group <= own_vectors; group++) {
            uint4 got[1];
            fetch(got, part, group, vectors_under(blocks));
            put(got, group, vectors_under(blocks), shift, staged);
        }
    }

    // Neighbouring threads write neighbouring vectors, or elements of rows that vectors do not fit.
#pragma unroll
    for (int r = 0; r < 4; r++) to_row(sums + r * row_width, staged[place(r) + threadIdx.x]);
    __syncthreads();
    Stored* const own_y = y + row * outputs + begin;
    const int left = min(outputs - begin, tile);
    const int whole = reinterpret_cast<size_t>(own_y) % 16 == 0 ? left / vector : 0;
    const auto values_of = [&](int v, int further, Real(&values)[vector]) {
#pragma unroll
        for (int r = 0; r < rows_of_vector; r++) {
            Real part[row_width];
            from_row(staged[place(v * rows_of_vector + r) + further * places_apart], part);
#pragma unroll
            for (int e = 0; e < row_width; e++) values[r * row_width + e] = part[e];
        }
    };
    if (activation == NO_ACTIVATION) {
#pragma unroll
        for (int i = 0; i < own_vectors; i++) {
            Real values[vector];
            values_of(threadIdx.x, i, values);
            if (vector_of(0, i) < whole) store_streaming(own_y + vector_of(0, i) * vector, pack(values));
        }
    } else {
#pragma unroll 1
        for (int v = threadIdx.x; v < whole; v += THREADS) {
            Real values[vector];
            values_of(v, 0, values);
#pragma unroll
            for (int e = 0; e < vector; e++) values[e] = activated(values[e], activation);
            store_streaming(own_y + v * vector, pack(values));
        }
    }
#pragma unroll 1
    for (int i = whole * vector + threadIdx.x; i < left; i += THREADS) {
        const Real* const of_row = reinterpret_cast<const Real*>(staged + place(i / row_width));
        own_y[i] = to_stored(activated(of_row[i % row_width], activation));
    }
}
