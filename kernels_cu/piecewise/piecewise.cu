// Piecewise polynomial with k coefficients a piece at many points:
//
//   y = sum_j c[j, i] t^(k - 1 - j),   t = x - knots[i], or x if the origin is global,   knots[i] <= x < knots[i + 1]
//
// or exp or log of x by one, see reduction.cuh.
//
//   x, y     (n,)                  STORAGE bits; vectors if both are aligned to 16 bytes
//   rows     (rows, pieces)        Row     coefficients, rows = ceil(k / row_width), see pieces.cuh
//   search   (search_rows,)        Row     guide or tree, see pieces.cuh; not read for uniform knots
//
// Memory limits the time: 16 bytes for each load and store past the caches, IN_FLIGHT of them for each thread, and nothing
// else from memory. With SHARED a block has the tables in shared memory, rows and guide 2^copies times side by side. The
// eight threads of a load of 128 bytes read different copies, and with eight copies there are no bank conflicts. Without
// SHARED the tables are too large for that and come through the read-only cache.
//
// A block owns tiles of IN_FLIGHT vectors for each thread, in a grid-stride loop. Barriers: one, after the tables are
// loaded.
//
// Macros: STORAGE (core/storage.cuh), SEARCH (pieces.cuh), REDUCTION (reduction.cuh), COEFFICIENTS (k, or 0: any number), SHARED,
// THREADS, IN_FLIGHT, BLOCKS (of a multiprocessor).
//
// The piece by comparisons, and coefficients in shared memory: Piecewise polynomial activations, the source of cukde's
// pwpa. Copies against bank conflicts, the exact index in constant time, and vectors are not from the source.
#include "pieces.cuh"
#include "reduction.cuh"

// Elements that a thread computes at a time: for float16 with a guide, registers suffice for two.
constexpr int together = vector < 4 ? vector : STORAGE == 16 && SEARCH == GUIDE ? 2 : 4;
constexpr int rows_at_a_time = COEFFICIENTS ? 4 : 1;  // of rows whose number is not known, more take registers
constexpr int tile = THREADS * IN_FLIGHT * vector;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
piecewise(const Stored* __restrict__ x, const Row* __restrict__ rows, const Row* __restrict__ search,
          Stored* __restrict__ y, long long n, int pieces, int coefficients, int search_rows, int levels, int copies,
          int beyond, int local, Real first, Real last, Real scale, Real offset, Real cells, Real step) {
    const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(y)) % 16 == 0;
    const Knots knots = {first, last, scale, offset, cells, step, levels, pieces,
                         reinterpret_cast<const Real*>(search + search_rows)};
    const int k = COEFFICIENTS ? COEFFICIENTS : coefficients;
    const int rows_of_piece = (k + row_width - 1) / row_width;
    const int first_terms = k - (rows_of_piece - 1) * row_width;

    // A thread's next loads are in flight while it computes, the first ones while the tables are filled.
    constexpr bool runs_ahead = STORAGE == 64 || (COEFFICIENTS && (STORAGE == 32 || (SEARCH != GUIDE && !REDUCTION)));  // by registers
    const auto is_whole = [&](long long begin) { return aligned && begin + tile <= n; };
    uint4 ahead[IN_FLIGHT];
    const auto fetch = [&](long long begin) {
#pragma unroll
        for (int v = 0; v < IN_FLIGHT; v++)
            ahead[v] = load_streaming(x + begin + (v * THREADS + threadIdx.x) * vector);
    };
    if (runs_ahead && is_whole((long long)blockIdx.x * tile)) fetch((long long)blockIdx.x * tile);

#if SHARED
    extern __shared__ Row shared_rows[];
    const int all_rows = rows_of_piece * pieces << copies, own_copy = threadIdx.x & (1 << copies) - 1;
    const int search_copies = SEARCH == GUIDE ? copies : 0;
    for (int i = threadIdx.x; i < all_rows; i += THREADS) shared_rows[i] = rows[i >> copies];
    for (int i = threadIdx.x; i < search_rows << search_copies; i += THREADS)
        shared_rows[all_rows + i] = search[i >> search_copies];
    __syncthreads();
    // Offsets in bytes, so that one product and one sum make an address.
    const unsigned stride = unsigned(sizeof(Row)) << copies, plane = stride * pieces;
    const unsigned own_rows = unsigned(sizeof(Row)) * own_copy - piece_excess * stride;
    const auto row_of = [&](unsigned piece, int row) {
        const unsigned begin = piece * stride + own_rows + row * plane;
        return *reinterpret_cast<const Row*>(reinterpret_cast<const char*>(shared_rows) + begin);
    };
    const Row* const own_search = shared_rows + all_rows + (SEARCH == GUIDE ? own_copy : 0);
#else
    constexpr unsigned stride = sizeof(Row);
    const Row* const own_search = search;
    const auto row_of = [&](unsigned piece, int row) { return rows[row * pieces + int(piece - piece_excess)]; };
#endif

    const auto evaluate = [&](const Real(&from)[vector], Real(&to)[vector]) {
#pragma unroll
        for (int begin = 0; begin < vector; begin += together) {
            if (COEFFICIENTS && begin) keep_order();  // or the loads of all would come first, for which there are no registers
            Real t[together], origin[together];
            unsigned piece[together];
#pragma unroll
            for (int e = 0; e < together; e++) t[e] = from[begin + e];
#if REDUCTION
            int power[together];
#pragma unroll
            for (int e = 0; e < together; e++) t[e] = reduced(t[e], power[e]);
#endif
            if (!REDUCTION && beyond != EXTRAPOLATE) {
#pragma unroll
                for (int e = 0; e < together; e++) t[e] = brought_within(t[e], beyond, knots);
            }
            locate(t, own_search, stride, knots, piece, origin);
#pragma unroll
            for (int e = 0; e < together; e++) t[e] = local ? t[e] - origin[e] : t[e];
#pragma unroll
            for (int e = 0; e < together; e++)
                to[begin + e] = begin_horner(row_of(piece[e], 0), t[e], first_terms);
#pragma unroll rows_at_a_time
            for (int row = 1; row < rows_of_piece; row++) {
#pragma unroll
                for (int e = 0; e < together; e++)
                    to[begin + e] = go_on_horner(to[begin + e], row_of(piece[e], row), t[e]);
            }
            if (k == 1) {
#pragma unroll
                for (int e = 0; e < together; e++) to[begin + e] = t[e] == t[e] ? to[begin + e] : t[e];
            }
#if REDUCTION
#pragma unroll
            for (int e = 0; e < together; e++) to[begin + e] = restored(to[begin + e], power[e], from[begin + e]);
#else
            if (beyond == EXTRAPOLATE) {
                bool missing = false;
#pragma unroll
                for (int e = 0; e < together; e++) missing |= to[begin + e] != to[begin + e];
                if (missing) {
#pragma unroll
                    for (int e = 0; e < together; e++)
                        if (to[begin + e] != to[begin + e] && is_infinite(t[e]))
                            to[begin + e] = limit([&](int row) { return row_of(piece[e], row); }, rows_of_piece, t[e]);
                }
            }
#endif
        }
    };

    const long long stride_of_grid = (long long)gridDim.x * tile;
    for (long long begin = (long long)blockIdx.x * tile; begin < n; begin += stride_of_grid) {
        if (is_whole(begin)) {
            if (!runs_ahead) fetch(begin);
            uint4 loaded[IN_FLIGHT];
#pragma unroll
            for (int v = 0; v < IN_FLIGHT; v++) loaded[v] = ahead[v];
            if (runs_ahead && is_whole(begin + stride_of_grid)) fetch(begin + stride_of_grid);
#pragma unroll
            for (int v = 0; v < IN_FLIGHT; v++) {
                Real from[vector], to[vector];
                unpack(loaded[v], from);
                evaluate(from, to);
                store_streaming(y + begin + (v * THREADS + threadIdx.x) * vector, pack(to));
            }
        } else {
            // The last tile, and arrays that vectors do not fit: neighbouring threads read neighbouring elements.
            const Stored* const own_x = x + begin;
            Stored* const own_y = y + begin;
            const int left = int(min(n - begin, (long long)tile));
#pragma unroll 1
            for (int at = threadIdx.x; at < left; at += THREADS * vector) {
                Real from[vector], to[vector];
#pragma unroll
                for (int e = 0; e < vector; e++) from[e] = at + e * THREADS < left ? to_real(own_x[at + e * THREADS]) : first;
                evaluate(from, to);
#pragma unroll
                for (int e = 0; e < vector; e++)
                    if (at + e * THREADS < left) own_y[at + e * THREADS] = to_stored(to[e]);
            }
        }
    }
}
