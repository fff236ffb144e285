// Leave-one-out self-interaction sums of the data (Y = X) for many bandwidths. The exponential of each unordered pair is
// computed once and added to the sums of both of its rows:
//
//   S_bj = sum_{i != j} w_i 2^(SHIFT - c_b r_ij^2),   r_ij = unit |x_i - x_j|
//
//   X          (n, d)  REAL    data
//   factors    (B,)    REAL    c_b, positive
//   weights    (n,)    REAL    w_i, at most 1; or null: all 1
//   bits       (tiles, B)  REAL  of each tile's points the exponent c_b r^2 from which on pairs may be left out of their
//                              sums; tiles of 4 SIDE points, those of all row blocks; or null: all pairs are taken
//   total      (B, n)  double  S_bj, added to what is there
//   a_pass     bandwidths of a block, at most MOST_BANDWIDTHS
//   strip      tiles of columns of a block
//   from, until  tiles of a row block that are taken, which count from its own first row
//   unit       a power of two that brings the distances that matter to about 1
//
// A row block has the rows of 4 warps, 8 SIDE rows each. It goes through tiles of 4 SIDE columns j from its own first row
// on; in tiles on the diagonal only pairs j > i count. For every k, row block k and the k-th from the last together have
// the same number of tiles. One after the other they are the walk blockIdx.x. A block takes the strip blockIdx.y of the
// walk for the bandwidths blockIdx.z, so all blocks have the same work.
//
// A warp takes the least of its r^2 in each part of a tile. A part takes no exponentials of bandwidths for which this is
// beyond the bits of all its rows and columns: where points are in an order of neighbours, those are most of the small
// ones in most of the tiles.
//
// In a tile a thread has SIDE x SIDE pairs. Their r^2, from differences, stay in registers for all bandwidths. An
// exponential costs a multiply-add, ex2 and a multiply-add for each of its rows. Slot r of the rows of lane 4 p + q holds
// row p SIDE + (r ^ turn of q) of its warp; slot s of its columns holds column q SIDE + (s ^ turn of p). With these turns
// the sums that a lane keeps, and those that it passes on when lanes add their sums, lie in the same slots of every lane.
// So nothing has to be selected, and the sums of a tile take less than half an instruction for each exponential.
//
// Where a tile has parts, each is of neighbours in their order, and the same slots of every lane: of rows by the first and
// the last bit of a slot, of columns by the first. No turn changes the last bit of rows. It leaves the first bits alone,
// too: in that step of their exchange lanes select. The parts of a warp's rows lie apart, so that the warps of a block,
// which wait for each other in every tile, have about the same work. Rows and columns lie in shared memory in the order of
// lanes and slots.
//
// Sums of a tile, and of the rows of a strip, are of type REAL. Both are added to memory atomically in double, in no
// fixed order. REAL holds them: they are at most 2^SHIFT times the number of rows in the sum.
//
// Barriers: two for each tile, two more for each chunk of dimensions but the first, one for each row block; all threads
// of a block pass all of them.
//
// Macros: KERNEL the name; REAL the arithmetic; SIDE 4 or 8; ROW_PARTS and COLUMN_PARTS 1, or of SIDE 8 4 and 2; SHIFT;
// CHUNK the dimensions staged at a time; MOST_BANDWIDTHS; BLOCKS of a multiprocessor at a time.
#include "ptx.cuh"
#include "exp2_f64.cuh"

typedef REAL Real;

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int row_lanes = 8, column_lanes = 4;
constexpr int warp_rows = row_lanes * SIDE;
constexpr int block_rows = warps * warp_rows;
constexpr int column_tile = column_lanes * SIDE;
constexpr int rows_kept = SIDE / column_lanes;  // of a lane, once sums over lanes are made
constexpr int part_rows = warp_rows / ROW_PARTS;
constexpr int parts = ROW_PARTS * COLUMN_PARTS;
static_assert(ROW_PARTS == 1 || (ROW_PARTS == 4 && SIDE == 8), "the first and the last bit of three");
static_assert(COLUMN_PARTS == 1 || (COLUMN_PARTS == 2 && SIDE == row_lanes), "the first step is that of the first bit");
constexpr int part_columns = 2;                 // of a thread that one of many chunks is added up for at a time
constexpr int few_dimensions = 2 * CHUNK;       // that are added up one after the other

// Of shared rows: aligned, and without bank conflicts in staging.
constexpr int row_pitch = block_rows + 12, column_pitch = column_tile + 4;

// Numbers of neighbouring rows, read and written at once.
struct alignas(rows_kept * sizeof(Real)) Neighbours {
    Real of[rows_kept];
};

struct Shared {
    alignas(16) Real rows[CHUNK][row_pitch];                    // coordinates
    Real columns[CHUNK][column_pitch];
    Real row_weights[block_rows], column_weights[column_tile];
    Real factors[MOST_BANDWIDTHS];
    alignas(16) Real row_sums[MOST_BANDWIDTHS][block_rows];     // of the strip
    Real column_sums[MOST_BANDWIDTHS][warps][column_tile];      // of the tile
    unsigned counted[warps];                                    // bandwidths of which a warp has them
    unsigned parts_counted[warps][32];                          // of each of them the parts of the tile
};

struct Data {
    const Real *X, *weights, *bits;  // bits of the first bandwidth of the block
    long long n;
    int B;  // of a row of bits
    int d;
    Real unit;
};

__device__ inline float power(float factor, float r2) { return exp2_approx(fmaf(-factor, r2, SHIFT)); }

__device__ inline double power(double factor, double r2) {
    // The exponent is held above -4097, where the result is zero, because exp2_from does not take numbers of any size.
    // The high words of non-positive numbers, as unsigned, grow with their magnitude.
    const double x = factor * -r2;
    const int high = int(min(unsigned(__double2hiint(x)), 0xc0b00000u));
    return exp2_from(magic + SHIFT, __hiloint2double(high, __double2loint(x)));
}

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

__device__ inline float least(float a, float b) { return fminf(a, b); }
__device__ inline double least(double a, double b) { return fmin(a, b); }
__device__ inline float most(float a, float b) { return fmaxf(a, b); }
__device__ inline double most(double a, double b) { return fmax(a, b); }

// A squared distance at which every power is zero.
__device__ inline Real beyond_all() {
    if constexpr (sizeof(Real) == 4) return __uint_as_float(0x7f800000u);
    else return __hiloint2double(0x7ff00000, 0);
}

// The turn of a lane's slots: it makes the slots that the lanes of a step exchange hold the same rows or columns.
template <int lanes>
__device__ inline int turn(int lane) {
    if constexpr (SIDE >= lanes) return lane * (SIDE / lanes);
    else return lane / (lanes / SIDE);
}

// Sums over `lanes` lanes that are `apart`: the first SIDE / lanes slots, at least one, hold those that stay here. Where
// the slots are in parts, the second half of the lanes has those that stay in the second half of its slots.
template <int lanes, int apart, bool in_parts>
__device__ inline void sum_over_lanes(Real (&sums)[SIDE]) {
    if (in_parts) {
        const bool second = threadIdx.x & lanes / 2 * apart;
#pragma unroll
        for (int s = 0; s < SIDE / 2; s++) {
            const Real passed = second ? sums[s] : sums[s + SIDE / 2];
            sums[s] = second ? sums[s + SIDE / 2] : sums[s];
            sums[s] += __shfl_xor_sync(~0u, passed, lanes / 2 * apart);
        }
    }
#pragma unroll
    for (int step = in_parts ? lanes / 4 : lanes / 2; step > 0; step /= 2) {
        const int half = SIDE * step / lanes;
        if (half == 0) sums[0] += __shfl_xor_sync(~0u, sums[0], step * apart);
#pragma unroll
        for (int s = 0; s < SIDE / 2; s++)
            if (s < half) sums[s] += __shfl_xor_sync(~0u, sums[s + half], step * apart);
    }
}

// Where a row of a block, and a column of a tile, lie in shared memory.
__device__ inline int place_of_row(int row) {
    if (ROW_PARTS == 1) return row;
    const int part = row / (warps * part_rows), warp = row / part_rows % warps, in_part = row % part_rows;
    return warp * warp_rows + in_part / 2 * SIDE + part / 2 * 4 + in_part % 2 * 2 + part % 2;
}
__device__ inline int place_of_column(int column) {
    constexpr int run = SIDE / COLUMN_PARTS, of_part = column_tile / COLUMN_PARTS;
    const int in_part = column % of_part;
    return in_part / run * SIDE + column / of_part * run + in_part % run;
}

// The part that slots of rows, and of columns, belong to.
__device__ constexpr int part_of_row(int r) { return ROW_PARTS == 1 ? 0 : r / 4 * 2 + r % 2; }
__device__ constexpr int part_of_column(int s) { return s / (SIDE / COLUMN_PARTS); }
__device__ constexpr int part_of(int r, int s) { return part_of_row(r) * COLUMN_PARTS + part_of_column(s); }

// The row, and the column, of a place.
__device__ inline int row_at(int place) {
    if (ROW_PARTS == 1) return place;
    const int in_warp = place % warp_rows, slot = in_warp % SIDE;
    return (part_of_row(slot) * warps + place / warp_rows) * part_rows + in_warp / SIDE * 2 + slot / 2 % 2;
}
__device__ inline int column_at(int place) {
    constexpr int run = SIDE / COLUMN_PARTS;
    const int slot = place % SIDE;
    return part_of_column(slot) * (column_tile / COLUMN_PARTS) + place / SIDE * run + slot % run;
}

// Stage dimensions [k0, k0 + CHUNK) of `count` rows from `first` on. Rows past the end repeat the last one.
template <int count, int pitch, int (&place)(int)>
__device__ inline void stage(Real (&to)[CHUNK][pitch], const Data& data, long long first, int k0) {
    const int k = threadIdx.x % CHUNK;
    if (k0 + k >= data.d) return;
#pragma unroll 2
    for (int row = threadIdx.x / CHUNK; row < count; row += threads / CHUNK)
        to[k][place(row)] = data.X[min(first + row, data.n - 1) * data.d + k0 + k] * data.unit;
}

// Stage weights, 0 past the end: such a row counts for nothing, whatever its coordinates.
template <int count, int (&place)(int)>
__device__ inline void stage_weights(Real (&to)[count], const Data& data, long long first) {
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += threads) {
        const long long row = first + i;
        to[place(i)] = row >= data.n ? Real(0) : data.weights ? data.weights[row] : Real(1);
    }
}

// The positions of a thread's slots in its row block and its tile, computed where they are used, to save registers.
struct Slots {
    int first_row, row_turn, first_column, column_turn;

    __device__ Slots() {
        const int thread = computed_here(threadIdx.x), p = thread % 32 / column_lanes, q = thread % column_lanes;
        first_row = thread / 32 * warp_rows + p * SIDE;
        row_turn = turn<column_lanes>(q) % (ROW_PARTS == 1 ? SIDE : SIDE / 2);
        first_column = q * SIDE;
        column_turn = turn<row_lanes>(p) % (SIDE / COLUMN_PARTS);
    }
    // Places in shared memory.
    __device__ int row(int r) const { return first_row + (r ^ row_turn); }
    __device__ int column(int s) const { return first_column + (s ^ column_turn); }
};

// The first of the slots whose sums over lanes stay in a lane.
template <int lanes, int apart, bool in_parts>
__device__ inline int kept() {
    return in_parts && computed_here(threadIdx.x) & lanes / 2 * apart ? SIDE / 2 : 0;
}

// Add a chunk's squared differences to `sums` of pairs with the columns from slot s0 on.
template <int count>
__device__ inline void add_squares(Real (&sums)[SIDE][count], const Shared& shared, const Slots& slots, int s0,
                                   int used) {
#pragma unroll 1
    for (int k = 0; k < used; k++) {
        Real x[SIDE], y[count];
#pragma unroll
        for (int r = 0; r < SIDE; r += rows_kept) {
            const Neighbours read = *reinterpret_cast<const Neighbours*>(&shared.rows[k][slots.row(r)]);
#pragma unroll
            for (int i = 0; i < rows_kept; i++) x[r + i] = read.of[i];
        }
#pragma unroll
        for (int s = 0; s < count; s++) y[s] = shared.columns[k][slots.column(s0 + s)];
#pragma unroll
        for (int r = 0; r < SIDE; r++)
#pragma unroll
            for (int s = 0; s < count; s++) {
                const Real step = x[r] - y[s];
                sums[r][s] = multiply_add(step, step, sums[r][s]);
            }
    }
}

// The same for all pairs, for dimensions [k0, k0 + CHUNK) of d. Each of many chunks is summed by itself: rounding grows
// with their number, not with that of dimensions.
__device__ inline void add_chunk(Real (&r2)[SIDE][SIDE], const Shared& shared, const Slots& slots, int k0, int d) {
    const int used = min(d - k0, CHUNK);
    if (d <= few_dimensions) {
        add_squares(r2, shared, slots, 0, used);
        return;
    }
#pragma unroll
    for (int s0 = 0; s0 < SIDE; s0 += part_columns) {
        Real part[SIDE][part_columns] = {};
        add_squares(part, shared, slots, s0, used);
#pragma unroll
        for (int r = 0; r < SIDE; r++)
#pragma unroll
            for (int s = 0; s < part_columns; s++) r2[r][s0 + s] += part[r][s];
    }
}

__device__ inline Real least_of_warp(Real value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value = least(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

// The parts of a warp's tile in which some pair of the lane's bandwidth may count, a bit each, of the rows of a row block
// and the columns from `column` on. Distances that are NaN are of pairs that count for nothing.
__device__ inline unsigned that_count(const Shared& shared, const Data& data, const Real (&r2)[SIDE][SIDE],
                                     long long first_row, long long column, int bandwidths) {
    Real nearest[parts], nearest_of_all = beyond_all();
#pragma unroll
    for (int part = 0; part < parts; part++) nearest[part] = beyond_all();
#pragma unroll
    for (int r = 0; r < SIDE; r++)
#pragma unroll
        for (int s = 0; s < SIDE; s++) nearest[part_of(r, s)] = least(nearest[part_of(r, s)], r2[r][s]);
#pragma unroll
    for (int part = 0; part < parts; part++) nearest_of_all = least(nearest_of_all, nearest[part]);
    nearest_of_all = least_of_warp(nearest_of_all);

    const int b = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool one = b < bandwidths;
    const Real factor = one ? shared.factors[b] : Real(0);
    Real bits[ROW_PARTS], most_bits = 0;
#pragma unroll
    for (int i = 0; i < ROW_PARTS; i++) {
        const long long row = first_row + (i * warps + warp) * part_rows;
        bits[i] = one ? data.bits[column / column_tile * data.B + b] : Real(0);
#pragma unroll
        for (int k = 0; k < part_rows; k += column_tile)
            if (one) bits[i] = most(bits[i], data.bits[(row + k) / column_tile * data.B + b]);
        most_bits = most(most_bits, bits[i]);
    }
    unsigned counted = 0;
    if (!__any_sync(~0u, one && factor * nearest_of_all <= most_bits)) return counted;
#pragma unroll
    for (int part = 0; part < parts; part++) {
        const bool counts = factor * least_of_warp(nearest[part]) <= bits[part / COLUMN_PARTS];
        if (one && counts) counted |= 1u << part;
    }
    return counted;
}

// Add the powers of a part's pairs to the sums of its rows and columns.
__device__ inline void add_part(Real (&rows)[SIDE], Real (&columns)[SIDE], const Real (&r2)[SIDE][SIDE],
                                const Real (&row_weights)[SIDE], const Real (&column_weights)[SIDE], Real factor,
                                int part) {
#pragma unroll
    for (int r = 0; r < SIDE; r++)
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
            if (part_of(r, s) != part) continue;
            const Real e = power(factor, r2[r][s]);
            rows[r] = multiply_add(column_weights[s], e, rows[r]);
            columns[s] = multiply_add(row_weights[r], e, columns[s]);
        }
}

// The sums of a tile for each of the bandwidths of which a lane has some parts.
__device__ inline void add_powers(Shared& shared, const Real (&r2)[SIDE][SIDE], unsigned counted) {
    const Slots slots;
    const int warp = threadIdx.x / 32;
    unsigned left = __ballot_sync(~0u, counted != 0);
    if (threadIdx.x % 32 == 0) shared.counted[warp] = left;
    if (left == 0) return;
    if (parts > 1) {
        shared.parts_counted[warp][threadIdx.x % 32] = counted;
        __syncwarp();
    }
    Real row_weights[SIDE], column_weights[SIDE];
#pragma unroll
    for (int r = 0; r < SIDE; r++) row_weights[r] = shared.row_weights[slots.row(r)];
#pragma unroll
    for (int s = 0; s < SIDE; s++) column_weights[s] = shared.column_weights[slots.column(s)];
#pragma unroll 1
    for (; left; left &= left - 1) {
        const int b = __ffs(left) - 1;
        const Real factor = shared.factors[b];
        const unsigned of_parts = parts > 1 ? shared.parts_counted[warp][b] : 1;
        Real rows[SIDE] = {}, columns[SIDE] = {};
#pragma unroll
        for (int part = 0; part < parts; part++)
            if (of_parts >> part & 1)
                add_part(rows, columns, r2, row_weights, column_weights, factor, part);
        sum_over_lanes<row_lanes, column_lanes, COLUMN_PARTS != 1>(columns);
        sum_over_lanes<column_lanes, 1, ROW_PARTS != 1>(rows);
        const int kept_column = slots.column(kept<row_lanes, column_lanes, COLUMN_PARTS != 1>());
        const int kept_row = slots.row(kept<column_lanes, 1, ROW_PARTS != 1>());
        // Where a tile has fewer columns than lanes, some hold the same sum.
        if (SIDE >= row_lanes || threadIdx.x / column_lanes % (row_lanes / SIDE) == 0)
            shared.column_sums[b][warp][kept_column] = columns[0];
        Neighbours& of_strip = *reinterpret_cast<Neighbours*>(&shared.row_sums[b][kept_row]);
        Neighbours sums = of_strip;
#pragma unroll
        for (int r = 0; r < rows_kept; r++) sums.of[r] += rows[r];
        of_strip = sums;
    }
}

// Add the sums of a tile's columns, of all warps, to memory. Two points whose coordinates overflow have no distance: such a
// sum is NaN and is not added, and the total of such a point stays zero.
__device__ inline void add_columns(double* total, const Shared& shared, long long first, long long n, int bandwidths) {
    constexpr int at_a_time = threads / column_tile;
    const int column = threadIdx.x % column_tile;
    unsigned counted = 0;
#pragma unroll
    for (int warp = 0; warp < warps; warp++) counted |= shared.counted[warp];
    if (counted == 0 || first + column >= n) return;
    int b = threadIdx.x / column_tile;
    double* to = total + b * n + first + column;
#pragma unroll 2
    for (; b < bandwidths; b += at_a_time, to += at_a_time * n) {
        Real sum = 0;
#pragma unroll
        for (int warp = 0; warp < warps; warp++)
            if (shared.counted[warp] >> b & 1) sum += shared.column_sums[b][warp][place_of_column(column)];
        if (sum > 0) atomicAdd(to, double(sum));
    }
}

// The same of a strip's rows.
__device__ inline void add_rows(double* total, const Shared& shared, long long first, long long n, int bandwidths) {
#pragma unroll 1
    for (int row = threadIdx.x; row < block_rows && first + row < n; row += threads) {
        double* to = total + first + row;
#pragma unroll 2
        for (int b = 0; b < bandwidths; b++, to += n) {
            const Real sum = shared.row_sums[b][place_of_row(row)];
            if (sum > 0) atomicAdd(to, double(sum));
        }
    }
}

// Tiles [begin, end) of a row block, which count from its own first row.
__device__ inline void walk(Shared& shared, double* total, const Data& data, long long first_row, int begin, int end,
                            int bandwidths) {
#pragma unroll 1
    for (int i = threadIdx.x; i < bandwidths * block_rows; i += threads)
        shared.row_sums[i / block_rows][i % block_rows] = 0;
    stage_weights<block_rows, place_of_row>(shared.row_weights, data, first_row);
#pragma unroll 1
    for (int t = begin; t < end; t++) {
        Real r2[SIDE][SIDE] = {};
#pragma unroll 1
        for (int k0 = 0; k0 < data.d; k0 += CHUNK) {
            const long long at = first_row + (long long)t * column_tile;
            if (k0 > 0) __syncthreads();
            if (k0 == 0) stage_weights<column_tile, place_of_column>(shared.column_weights, data, at);
            stage<column_tile, column_pitch, place_of_column>(shared.columns, data, at, k0);
            if (data.d > CHUNK || t == begin)
                stage<block_rows, row_pitch, place_of_row>(shared.rows, data, first_row, k0);
            __syncthreads();
            const Slots slots;
            add_chunk(r2, shared, slots, k0, data.d);
        }
        if (t < block_rows / column_tile) {
            const Slots slots;
#pragma unroll
            for (int r = 0; r < SIDE; r++)
#pragma unroll
                for (int s = 0; s < SIDE; s++)
                    if (t * column_tile + column_at(slots.column(s)) <= row_at(slots.row(r))) r2[r][s] = beyond_all();
        }
        unsigned counted = threadIdx.x % 32 < bandwidths ? (1u << parts) - 1 : 0;
        if (data.bits)
            counted = that_count(shared, data, r2, first_row, first_row + (long long)t * column_tile, bandwidths);
        add_powers(shared, r2, counted);
        __syncthreads();
        add_columns(total, shared, first_row + (long long)t * column_tile, data.n, bandwidths);
    }
    add_rows(total, shared, first_row, data.n, bandwidths);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(threads, BLOCKS)
KERNEL(const Real* __restrict__ X, const Real* __restrict__ factors, const Real* __restrict__ weights,
       const Real* __restrict__ bits, double* __restrict__ total, long long n, int d, int B, int a_pass, int strip,
       int from, int until, Real unit) {
    __shared__ Shared shared;
    const int first_bandwidth = blockIdx.z * a_pass;
    const Data data = {X, weights, bits ? bits + first_bandwidth : nullptr, n, B, d, unit};
    const int bandwidths = min(a_pass, B - first_bandwidth);
    for (int b = threadIdx.x; b < bandwidths; b += threads) shared.factors[b] = factors[first_bandwidth + b];

    const long long first = blockIdx.x, last = (n - 1) / block_rows - first;
    const long long begin = (long long)blockIdx.y * strip;
    long long before = 0;  // tiles of the walk
#pragma unroll 1
    for (int part = 0; part < (first == last ? 1 : 2); part++) {
        const long long first_row = (part == 0 ? first : last) * block_rows;
        const long long tiles = max(min((n - first_row - 1) / column_tile + 1, (long long)until) - from, 0ll);
        const long long first_tile = max(begin - before, 0ll), last_tile = min(begin + strip - before, tiles);
        if (first_tile < last_tile)
            walk(shared, total + first_bandwidth * n, data, first_row, from + int(first_tile), from + int(last_tile),
                 bandwidths);
        before += tiles;
    }
}
