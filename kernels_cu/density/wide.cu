// Sums over all pairs of queries and data of many dimensions on the tensor cores, from points in one or two float16
// terms (wide_operands.cu):
//
//   TERMS 2: v_i . v_j = hi_i . hi_j + lo_i . hi_j + hi_i . lo_j + lo_i . lo_j, the last not for mean shifts
//   TERMS 1: v_i . v_j = hi_i . hi_j
//   e_ij = q_i q_j v_i . v_j + norm_i + norm_j
//
//   Y_hi, Y_lo   (rows, depth)  float16  queries, z_i = q_i v_i; with TERMS 1 there is no lo
//   Y_norms      (rows,)        float    -|z_i|^2/2
//   Y_rests      (rows,)        float    the rounding of that norm; not there with TERMS 1
//   Y_quanta     (rows,)        float    q_i
//   X_hi, ...    (rows, ...)             data, likewise; with log2 w_j in the norms, except for LAPLACE; Exponent::none
//                                        past them
//   X_weights    (rows,)        float    log2 w_j, or null: all weights 1
//   Y_third, X_third                     4096 times what the terms leave of v, float16, and
//   Y_corrections, X_corrections         what that adds to norms; null where no quantum is above 1/128
//   Y, X         (m, d), (n, d)          the given points, float or with `in_double` double; `scale` makes z of them
//   far_from                             the least quantum of rows with pairs that are taken again
//
// own_out leaves out j = i. rows are multiples of 128, depth is a multiple of STEP_DEPTH. A launch takes the m queries from `top` on (rows of the
// results are those of the queries) and data rows [left, right) in parts of `part_rows`; `part_rows` and `left` are
// multiples of 128.
//
// Outputs SUM and LAPLACE keep their sums in registers, and write for every part of the data
//
//   references (parts, pitch)   float  a_i, the largest exponent
//   totals     (parts, pitch)   float  sum_j 2^(e_ij - a_i);  LAPLACE: sum_j 2^(e_ij + log2 w_j - a_i)
//   moments    (parts, pitch)   float  sum_j 2^(e_ij + log2 w_j - a_i) (shift + e_ij), for LAPLACE; else null
//
// Outputs MOMENTS and VALUES write 2^e to memory, for matrix products by a library with any number of columns:
//
//   references (rows,)          float  a_i, whole numbers from an earlier pass; null: all zero
//   P_hi, P_lo (m, P_pitch)     16 bit 2^(e_ij - a_i + shift), from `top` and `left` on, in POWER_TERMS terms: float16
//                                      for MOMENTS; for VALUES bfloat16, which has the range of float
//   totals     (parts, pitch)   float  += sum_j 2^(e_ij - a_i + shift), a row for each part of the data; with
//                                      COLUMN_TOTALS also += sum_i 2^(e_ij + shift) for rows j, over the queries i of a
//                                      block, a row for each
//   far_totals   (m,)           double  += in units of wide_fixed.cuh: sums of 2^(e_ij - a_i) of pairs that are left out
//   far_moments  (m, d)         double     of all others, and of 2^(e_ij - a_i) (z_j - z_i), for MOMENTS; else null
//
// Tensor cores truncate every term of a sum to the last bit of the largest one, and products of 11-bit numbers soon need
// more bits than that. So each row has a quantum of its own, hi are whole numbers and norms, too: all sums of hi . hi are
// exact, and so are those of norms up to 2^23. The small terms, products with lo and rests, have their own accumulators.
// The error of an exponent therefore depends little on the scaled squared radius and on the dimension. Points near each
// other and far from the centre are taken again (wide_differences.cuh).
//
// 4 x WARPS_DOWN warps own a tile of 64 WARPS_DOWN queries x 128 data rows, 64 x 32 for each warp, and go through all
// tiles of their part. STEP_DEPTH dimensions of both sides at a time pass through shared memory, with STAGES such steps
// in flight, also across the ends of tiles. Data row 8t + 2j + e of a warp is column 2t + e of the j-th of its four
// fragments, so a lane has eight neighbouring 2^e of a query.
//
// Grid: x over tiles of queries, y over parts of the data. No two blocks of a launch add to the same memory, so every
// run gives the same bits.
// Barriers: one a step, one a tile with COLUMN_TOTALS, one at the end; all threads of a block pass all of them.
//
// Macros: KERNEL the name; OUTPUT one of the four; TERMS; POWER_TERMS 1 or 2; COLUMN_TOTALS 0 or 1; WARPS_DOWN;
// STEP_DEPTH 32 or 64; STAGES; BLOCKS that a multiprocessor runs at a time.
#include "ptx.cuh"
#include "log_sum_exp.cuh"

enum Output { SUM, MOMENTS, LAPLACE, VALUES };
constexpr Output output = OUTPUT;
#include "wide_differences.cuh"

constexpr bool staged = output == MOMENTS || output == VALUES;

constexpr int terms = TERMS;
// With 2^e in one term of 11 bits, for a mean shift, lo . lo is less than the rounding of 2^e, except between points so
// close together that they hardly move each other.
constexpr bool mean_shift = output == MOMENTS && POWER_TERMS == 1;
constexpr int row_tiles = 4;     // of 16 queries, a warp
constexpr int row_pairs = row_tiles / 2;
constexpr int column_tiles = 4;  // of 8 data rows, a warp
constexpr int warps_across = 4;
constexpr int threads = 32 * warps_across * WARPS_DOWN;
constexpr int tile_queries = 16 * row_tiles * WARPS_DOWN;
constexpr int tile_data = 8 * column_tiles * warps_across;
constexpr int pitch = 2 * STEP_DEPTH;  // bytes of a row in shared memory
constexpr int pieces = pitch / 16;

constexpr float first_reference = Exponent<float>::least;
constexpr float no_exponent = Exponent<float>::none;  // of a pair that is left out: 2^e is zero

// Pieces of 16 bytes are permuted in their row so that the eight rows of a matrix lie in different banks: eight
// neighbouring queries, and pairs of data rows 8 apart.
__device__ inline int place_of_query(int row, int piece) { return piece ^ (pieces == 8 ? row % 8 : row / 2 % 4); }
__device__ inline int place_of_datum(int row, int piece) {
    return piece ^ (pieces == 8 ? row % 2 + row / 8 % 4 * 2 : row / 8 % 4);
}

struct Stage {
    alignas(128) unsigned char queries[terms][tile_queries][pitch];
    alignas(128) unsigned char data[terms][tile_data][pitch];
};

// What exponents take of a side beside its products, from a lane's first row on.
struct Side {
    const float *norms, *rests, *quanta;

    __device__ Side from(long long row) const { return {norms + row, terms == 2 ? rests + row : nullptr, quanta + row}; }
};

// Sums of the queries over a warp's share of the data so far. They would take a fifth of the registers.
struct Share {
    float reference[staged ? 1 : tile_queries];
    float total[tile_queries];
    float corrected[output == LAPLACE ? tile_queries : 1];  // the total with the factors of LAPLACE
};

struct Shared {
    Stage under_way[STAGES];
    Share shares[warps_across];
};

// Fragments of 16 dimensions: of two row tiles of queries, and of all the warp's columns.
struct Queries {
    unsigned of[terms][2][4];

    __device__ void load(const unsigned char* at) {
#pragma unroll
        for (int term = 0; term < terms; term++)
#pragma unroll
            for (int i = 0; i < 2; i++) load_matrices(of[term][i], at + (term * tile_queries + 16 * i) * pitch);
    }
};

struct Data {
    unsigned of[terms][column_tiles / 2][4];

    __device__ void load(const unsigned char* at) {
#pragma unroll
        for (int term = 0; term < terms; term++)
#pragma unroll
            for (int p = 0; p < column_tiles / 2; p++) load_matrices(of[term][p], at + (term * tile_data + 4 * p) * pitch);
    }
};

// Sums of a warp's pairs: the exponents, and their small terms apart.
struct Sums {
    float large[row_tiles][column_tiles][4];
    float small[terms == 2 ? row_tiles : 1][column_tiles][4];

    __device__ void begin() {
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int j = 0; j < column_tiles; j++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    large[i][j][c] = 0;
                    if constexpr (terms == 2) small[i][j][c] = 0;
                }
    }

    // Add the products of a pair of row tiles with all columns.
    __device__ void add(int pair, const Queries& y, const Data& x) {
        if constexpr (terms == 2) {
            add_to(small, pair, y.of[1], x.of[0]);
            add_to(small, pair, y.of[0], x.of[1]);
            if constexpr (!mean_shift) add_to(small, pair, y.of[1], x.of[1]);
        }
        add_to(large, pair, y.of[0], x.of[0]);
    }

    // Make exponents of products; those of a row are `base(row)` more.
    template <class Base>
    __device__ void finish(const Side& y, const Side& x, const Base& base) {
        float norms[column_tiles][2], rests[column_tiles][2], quanta[column_tiles][2];
#pragma unroll
        for (int j = 0; j < column_tiles; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                norms[j][e] = x.norms[2 * j + e];
                rests[j][e] = terms == 2 ? x.rests[2 * j + e] : 0.0f;
                quanta[j][e] = x.quanta[2 * j + e];
            }
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int row = 16 * i + 8 * r;
                const float norm = y.norms[row] + base(row), quantum = y.quanta[row];
                const float rest = terms == 2 ? y.rests[row] : 0.0f;
#pragma unroll
                for (int j = 0; j < column_tiles; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const float unit = quantum * quanta[j][e];
                        float& to = large[i][j][2 * r + e];
                        to = fmaf(to, unit, norm + norms[j][e]);
                        if constexpr (terms == 2) to += fmaf(small[i][j][2 * r + e], unit, rest + rests[j][e]);
                    }
            }
    }

    // Set 2^e of a point with itself to zero, `below` rows below the lane's first exponent.
    __device__ void clear_own(int below) {
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int j = 0; j < column_tiles; j++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    if (below + 16 * i + c / 2 * 8 == 2 * j + c % 2) large[i][j][c] = no_exponent;
    }

  private:
    __device__ static void add_to(float (*to)[column_tiles][4], int pair, const unsigned (&y)[2][4],
                                  const unsigned (&x)[column_tiles / 2][4]) {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < column_tiles; j++)
                mma_f16_m16n8k16(to[2 * pair + i][j], y[i], x[j / 2][j % 2 * 2], x[j / 2][j % 2 * 2 + 1]);
    }
};

// The address 16 dimensions further. No permutation of pieces changes the bits of an address that this changes.
__device__ inline const unsigned char* further(const unsigned char* at, int groups) {
    return reinterpret_cast<const unsigned char*>(reinterpret_cast<size_t>(at) ^ size_t(32 * groups));
}

// Add the products of a step; `fetch()` is called when the first fragments are in flight.
template <class Fetch>
__device__ inline void add_step(Sums& sums, const unsigned char* queries, const unsigned char* data, const Fetch& fetch) {
    constexpr int phases = STEP_DEPTH / 16 * row_pairs;
    Queries y[2];
    Data x[2];
    x[0].load(data);
    y[0].load(queries);
    fetch();
#pragma unroll
    for (int phase = 0; phase < phases; phase++) {
        const int next = phase + 1, group = phase / row_pairs, next_group = next / row_pairs;
        if (next < phases) {
            if (next_group > group) x[next_group % 2].load(further(data, next_group));
            y[next % 2].load(further(queries, next_group) + next % row_pairs * 32 * pitch);
        }
        sums.add(phase % row_pairs, y[phase % 2], x[group % 2]);
    }
}

// Whether a row or a column of the warp's pairs has at least a quantum, by those from the lane's first of each on.
__device__ inline bool any_far(const float* of_queries, const float* of_data, float quantum) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 2 * row_tiles; i++) largest = fmaxf(largest, of_queries[8 * i]);
#pragma unroll
    for (int j = 0; j < 2 * column_tiles; j++) largest = fmaxf(largest, of_data[j]);
    return __any_sync(~0u, largest >= quantum);
}

// A side of what is corrected by third terms.
struct Thirds {
    const unsigned short *hi, *third;  // (rows, depth)
    const float* corrections;

    // Four dimensions of each of four lanes.
    __device__ void load(uint2& of_hi, uint2& of_third, long long place) const {
        of_hi = *reinterpret_cast<const uint2*>(hi + place);
        of_third = *reinterpret_cast<const uint2*>(third + place);
    }
};

// Correct all exponents of a warp by products with third terms; arguments as below. Both sides take their dimensions in
// one order, which does not matter: lane t of four has dimensions 4t to 4t + 3 of 16.
__device__ inline void correct(Sums& sums, const Thirds& y, const Thirds& x, int depth, const float* of_queries,
                               const float* of_data, long long row, long long column) {
    constexpr int parts = row_tiles * column_tiles / 4, parts_across = column_tiles / 2;
#pragma unroll 1
    for (int part = 0; part < parts; part++) {  // of 2 x 2 tiles, and in a loop that stays one: registers are few
        const int i0 = part / parts_across * 2, j0 = part % parts_across * 2;
        const int lane = computed_here(threadIdx.x % 32), g = lane / 4, t = lane % 4;
        const long long y_place = (row + 16 * i0 + g) * depth + 4 * t;
        const long long x_place = (column + 2 * j0 + g / 2 * 8 + g % 2) * depth + 4 * t;
        float sum[2][2][4] = {};
#pragma unroll 1
        for (int k = 0; k < depth; k += 16) {
            uint2 x_hi[2], x_third[2];
#pragma unroll
            for (int j = 0; j < 2; j++) x.load(x_hi[j], x_third[j], x_place + 2 * j * depth + k);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint2 y_hi[2], y_third[2];
#pragma unroll
                for (int r = 0; r < 2; r++) y.load(y_hi[r], y_third[r], y_place + (16 * i + 8 * r) * depth + k);
                const unsigned hi[4] = {y_hi[0].x, y_hi[1].x, y_hi[0].y, y_hi[1].y};
                const unsigned third[4] = {y_third[0].x, y_third[1].x, y_third[0].y, y_third[1].y};
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    mma_f16_m16n8k16(sum[i][j], hi, x_third[j].x, x_third[j].y);
                    mma_f16_m16n8k16(sum[i][j], third, x_hi[j].x, x_hi[j].y);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int c = 2 * (j0 + j) + e;
                const float unit = of_data[c] / third_scale, correction = x.corrections[column + 8 * t + c];
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const int below = 16 * (i0 + i) + 8 * r;
                        float& to = sum[i][j][2 * r + e];
                        to = fmaf(to, unit * of_queries[below], correction + y.corrections[row + g + below]);
                    }
            }
#pragma unroll
        for (int i = 0; i < row_tiles; i++)
#pragma unroll
            for (int j = 0; j < column_tiles; j++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    sums.large[i][j][c] += part == i / 2 * parts_across + j / 2 ? sum[i % 2][j % 2][c] : 0.0f;
    }
}

// What pairs that are taken again need of the launch, and where those of MOMENTS go.
struct Far {
    Given given;
    Thirds y, x;
    int depth;
    const float *references, *weights;  // of all rows, or null
    double *totals, *moments;
    long long queries;
    float shift;

    __device__ float base(long long query) const {
        return staged ? shift - (has_references() && query < queries ? references[query] : 0.0f) : 0.0f;
    }

    // Data at themselves have none.
    __device__ bool has_references() const { return !COLUMN_TOTALS && references; }

    // Of LAPLACE, whose exponents are without: log2 w of a lane's columns.
    __device__ void load_weights(float (&to)[column_tiles][2], long long column) const {
#pragma unroll
        for (int j = 0; j < column_tiles; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) to[j][e] = output == LAPLACE && weights ? weights[column + 2 * j + e] : 0.0f;
    }

    // Add a pair to the sums of its query, and where a launch serves both of its sides to those of its datum.
    __device__ void add(long long query, long long datum, float power, float reference) const {
#pragma unroll 1
        for (int side = 0; side <= COLUMN_TOTALS; side++) {
            const long long to = side ? datum : query;
            const double scale = (side ? -1 : 1) * two_to_the(-exponent_of_moments(reference));
            if (threadIdx.x % 32 == 0) add_whole(totals + to, power / unit_of_totals);
#pragma unroll 1
            for (int k = threadIdx.x % 32; k < given.d; k += 32)
                add_whole(moments + to * given.d + k, power * given.difference(query, datum, k) * scale);
        }
    }

    // What the exponent of a pair becomes, by all lanes together; `apart`, the moments of it do not come of products.
    __device__ float taken(long long query, long long datum, bool apart) const {
        float exponent = given.exponent(query, datum);
        if (output != LAPLACE && weights) exponent += weights[datum];
        if (output == MOMENTS && apart) {
            const float reference = has_references() ? references[query] : 0.0f;
            const float power = exp2_approx(exponent - reference);
            add(query, datum, power, reference);
            return no_exponent;
        }
        return exponent + base(query);
    }
};

// Take again what products of two terms are not good enough for. `row` and `column` are the warp's first, `of_queries` and `of_data`
// quanta from the lane's first on, and from `own_row` on `share` what is known of sums; outputs with powers in memory have no
// references there.
__device__ inline void take_again(Sums& sums, const Far& far, const float* of_queries, const float* of_data,
                                  const Share& share, int own_row, long long row, long long column) {
    // Of moments computed here, or registers keep what follows from it.
    const int lane = output == MOMENTS ? computed_here(threadIdx.x % 32) : threadIdx.x % 32;
    unsigned wanted[2] = {};  // bit 16 i + 4 j + c, i < 2, for either half of the row tiles
    bool beyond = false;      // what third terms can do
    float quantum_of_data[column_tiles][2], largest_quantum = 0, weights[column_tiles][2];
    far.load_weights(weights, column + lane % 4 * 8);
#pragma unroll
    for (int j = 0; j < column_tiles; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            quantum_of_data[j][e] = of_data[2 * j + e];
            largest_quantum = fmaxf(largest_quantum, quantum_of_data[j][e]);
        }
#pragma unroll
    for (int i = 0; i < row_tiles; i++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float quantum = of_queries[16 * i + 8 * r];
            float base = 0, matters = far.shift;
            if constexpr (staged) {
                base = far.base(row + 16 * i + 8 * r + lane / 4);
            } else {
                // The largest exponent is one of the lane's, as products have it, or larger.
                float largest = Exponent<float>::none;
#pragma unroll
                for (int j = 0; j < column_tiles; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++) largest = fmaxf(largest, sums.large[i][j][2 * r + e] + weights[j][e]);
                const float larger = fmaxf(quantum, largest_quantum);
                const int own = own_row + 16 * i + 8 * r;
                const float known = share.reference[own] + log2f(fmaxf(share.total[own], 1.0f));
                matters = fmaxf(known, largest - error_of_products(larger));
            }
            matters -= bits_that_matter(fmaxf(quantum, largest_quantum));
            // With weights the exponent is that of a nearer pair.
            const float below = output != LAPLACE && far.weights ? base - 128 : base;
#pragma unroll
            for (int j = 0; j < column_tiles; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float exponent = sums.large[i][j][2 * r + e];
                    const float larger_quantum = fmaxf(quantum, quantum_of_data[j][e]);
                    const bool again = exponent >= least_again(larger_quantum) + below &&
                                       (POWER_TERMS == 2 || exponent <= most_again(larger_quantum) + base) &&
                                       exponent + weights[j][e] + error_of_products(larger_quantum) >= matters;
                    beyond |= again && larger_quantum > most_of_third_terms;
                    wanted[i / 2] |= unsigned(again) << (i % 2 * 16 + 4 * j + 2 * r + e);
                }
        }
    const int pairs = sum_over_lanes<32>(__popc(wanted[0]) + __popc(wanted[1]));
    if (!pairs) return;
    if constexpr (third_terms_fit)
        if (pairs > most_one_by_one && !__any_sync(~0u, beyond))
            return correct(sums, far.y, far.x, far.depth, of_queries, of_data, row, column);
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        const unsigned own = half ? wanted[1] : wanted[0];
        unsigned left = own;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) left |= __shfl_xor_sync(~0u, left, step);
#pragma unroll 1
        for (; left; left &= left - 1) {
            const int bit = __ffs(left) - 1;
            const int row_of_bit = 32 * half + bit / 16 * 16 + bit % 4 / 2 * 8, column_of_bit = bit / 4 % 4 * 2 + bit % 2;
            unsigned lanes = __ballot_sync(~0u, own >> bit & 1);
            float taken = 0;
#pragma unroll 1
            for (; lanes; lanes &= lanes - 1) {
                const int l = __ffs(lanes) - 1;
                const int y = row_of_bit + l / 4, x = column_of_bit + l % 4 * 8;
                const float quantum = fmaxf(of_queries[y - lane / 4], of_data[x - lane % 4 * 8]);
                const float of_pair = far.taken(row + y, column + x, quantum >= least_of_moments);
                if (lane == l) taken = of_pair;
            }
            const int at = own >> bit & 1 ? 32 * half + bit : -1;
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int j = 0; j < column_tiles; j++)
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        float& to = sums.large[i][j][c];
                        to = at == 16 * i + 4 * j + c ? taken : to;
                    }
        }
    }
}

// The sum of column g of a lane's eight over the eight lanes that share them, in three halving steps.
__device__ inline float column_total(const float (&of_column)[column_tiles][2]) {
    const int g = threadIdx.x % 32 / 4;
    float held[8];
#pragma unroll
    for (int k = 0; k < 8; k++) held[k] = of_column[k / 2][k % 2];
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
        const bool upper = g & half;
#pragma unroll
        for (int k = 0; k < half; k++) {
            const float kept = upper ? held[k + half] : held[k], given = upper ? held[k] : held[k + half];
            held[k] = kept + __shfl_xor_sync(~0u, given, 4 * half);
        }
    }
    return held[0];
}

// Two neighbouring powers in one term or two. Those in one become what is kept of them: moments are about a query by what
// the total says of all.
__device__ inline void split_powers(float& first, float& second, unsigned& hi, unsigned& lo) {
    float rounded[2];
    hi = output == MOMENTS ? pack_f16(first, second) : pack_bf16(first, second);
    if constexpr (POWER_TERMS == 1) {
        unpack_f16(hi, first, second);
    } else {
        if constexpr (output == MOMENTS) unpack_f16(hi, rounded[0], rounded[1]);
        else unpack_bf16(hi, rounded[0], rounded[1]);
        rounded[0] = first - rounded[0];
        rounded[1] = second - rounded[1];
        lo = output == MOMENTS ? pack_f16(rounded[0], rounded[1]) : pack_bf16(rounded[0], rounded[1]);
    }
}

extern "C" __global__ void __launch_bounds__(threads, BLOCKS)
KERNEL(const unsigned short* __restrict__ Y_hi, const unsigned short* __restrict__ Y_lo,
       const unsigned short* __restrict__ Y_third, const float* __restrict__ Y_norms, const float* __restrict__ Y_rests,
       const float* __restrict__ Y_quanta, const float* __restrict__ Y_corrections,
       const unsigned short* __restrict__ X_hi, const unsigned short* __restrict__ X_lo,
       const unsigned short* __restrict__ X_third, const float* __restrict__ X_norms, const float* __restrict__ X_rests,
       const float* __restrict__ X_quanta, const float* __restrict__ X_corrections,
       const float* __restrict__ X_weights, const void* __restrict__ Y, const void* __restrict__ X,
       float* __restrict__ references, float* __restrict__ totals, float* __restrict__ moments,
       unsigned short* __restrict__ P_hi, unsigned short* __restrict__ P_lo, double* __restrict__ far_totals,
       double* __restrict__ far_moments, long long top, long long m, long long left, long long right,
       long long part_rows, long long pitch_of_totals, long long P_pitch, int depth, int d, int in_double,
       int own_out, float scale, float shift, float far_from) {
    extern __shared__ uint4 dynamic_shared[];
    auto& shared = *reinterpret_cast<Shared*>(dynamic_shared);

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int warp_row = warp / warps_across * 16 * row_tiles, warp_column = warp % warps_across * 8 * column_tiles;
    const int own_column = warp_column + 8 * t;  // the lane's first of eight
    const long long first_query = top + (long long)blockIdx.x * tile_queries, bottom = top + m;
    const Far far = {{Y, X, in_double, d, scale}, {Y_hi, Y_third, Y_corrections}, {X_hi, X_third, X_corrections}, depth,
                     references, X_weights, far_totals, far_moments, bottom, shift};

    for (int row = threadIdx.x; row < tile_queries; row += threads) {
#pragma unroll
        for (int w = 0; w < warps_across; w++) {
            if constexpr (!staged) shared.shares[w].reference[row] = first_reference;
            shared.shares[w].total[row] = 0;
            if constexpr (output == LAPLACE) shared.shares[w].corrected[row] = 0;
        }
    }
    Share& share = shared.shares[warp % warps_across];

    const long long begin = left + blockIdx.y * part_rows, end = begin + part_rows < right ? begin + part_rows : right;
    const int steps_of_tile = depth / STEP_DEPTH;
    const int steps = int((end - begin + tile_data - 1) / tile_data) * steps_of_tile;

    // A thread copies one piece of every rows_apart-th row.
    constexpr int rows_apart = threads / pieces;
    static_assert(rows_apart % 8 == 0);
    const int own_row = threadIdx.x / pieces, own_piece = threadIdx.x % pieces;
    long long y_at = (first_query + own_row) * depth + own_piece * 8, x_at = (begin + own_row) * depth + own_piece * 8;
    int next_step = 0, next_of_tile = 0, next_tile = 0;
    const auto fetch = [&] {
        if (next_step < steps) {
            Stage& stage = shared.under_way[next_step % STAGES];
#pragma unroll
            for (int row = 0; row < tile_queries; row += rows_apart) {
                const int place = place_of_query(own_row + row, own_piece) * 16;
                copy_async_16(&stage.queries[0][own_row + row][place], Y_hi + y_at + row * depth);
                if constexpr (terms == 2)
                    copy_async_16(&stage.queries[terms - 1][own_row + row][place], Y_lo + y_at + row * depth);
            }
#pragma unroll
            for (int row = 0; row < tile_data; row += rows_apart) {
                const int place = place_of_datum(own_row + row, own_piece) * 16;
                copy_async_16(&stage.data[0][own_row + row][place], X_hi + x_at + row * depth);
                if constexpr (terms == 2)
                    copy_async_16(&stage.data[terms - 1][own_row + row][place], X_lo + x_at + row * depth);
            }
        }
        copy_async_commit();
        next_step++;
        y_at += STEP_DEPTH;
        x_at += STEP_DEPTH;
        if (++next_of_tile == steps_of_tile) {
            next_of_tile = 0;
            next_tile++;
            y_at -= depth;
            x_at += (tile_data - 1) * (long long)depth;
        }
    };
    for (int i = 0; i < STAGES - 1; i++) fetch();

    // Where this lane's rows of the 8 x 8 matrices are. Queries: rows 0..7 and 8..15 with the lower 8 dimensions, then
    // with the upper; data: two fragments, each with both halves of the dimensions.
    const int own_query = warp_row + lane % 16, own_datum = warp_column + lane % 8 / 2 * 8 + lane / 16 * 2 + lane % 2;
    const int of_queries = own_query * pitch + place_of_query(own_query, lane / 16) * 16;
    const int of_data = own_datum * pitch + place_of_datum(own_datum, lane / 8 % 2) * 16;

    Sums sums;
    int of_tile = 0, tile = 0;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        if (of_tile == 0) sums.begin();
        const Stage& stage = shared.under_way[step % STAGES];
        add_step(sums, stage.queries[0][0] + of_queries, stage.data[0][0] + of_data, fetch);
        if (++of_tile < steps_of_tile) continue;

        const long long first_column = begin + (long long)tile * tile_data;
        const Side y = Side{Y_norms, Y_rests, Y_quanta}.from(first_query + warp_row + g);
        const Side x = Side{X_norms, X_rests, X_quanta}.from(first_column + own_column);
        sums.finish(y, x, [&](int row) { return far.base(first_query + warp_row + g + row); });
        of_tile = 0;
        tile++;
        // Distance of the lane's first row below the diagonal, in the few tiles on the diagonal.
        const long long below = first_query + warp_row + g - (first_column + own_column);
        if (own_out && below > -tile_queries && below < tile_data) sums.clear_own(int(below));
        if (any_far(y.quanta, x.quanta, far_from))
            take_again(sums, far, y.quanta, x.quanta, share, warp_row + g, first_query + warp_row,
                       first_column + warp_column);
        if constexpr (!staged) {
            float weights[column_tiles][2];
            far.load_weights(weights, first_column + own_column);
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const int row = warp_row + 16 * i + 8 * r + g;
                    const float before = share.reference[row];
                    float largest = before, total = 0, corrected = 0;
#pragma unroll
                    for (int j = 0; j < column_tiles; j++)
#pragma unroll
                        for (int c = 0; c < 2; c++) largest = fmaxf(largest, sums.large[i][j][2 * r + c] + weights[j][c]);
                    largest = largest_over_lanes<4>(largest);
#pragma unroll
                    for (int j = 0; j < column_tiles; j++)
#pragma unroll
                        for (int c = 0; c < 2; c++) {
                            const float exponent = sums.large[i][j][2 * r + c];
                            const float power = exp2_approx(exponent + weights[j][c] - largest);
                            total += power;
                            if constexpr (output == LAPLACE) corrected = fmaf(power, shift + exponent, corrected);
                        }
                    total = sum_over_lanes<4>(total);
                    if constexpr (output == LAPLACE) corrected = sum_over_lanes<4>(corrected);
                    if (t == 0) {
                        const float factor = exp2_approx(before - largest);
                        share.reference[row] = largest;
                        share.total[row] = fmaf(share.total[row], factor, total);
                        if constexpr (output == LAPLACE)
                            share.corrected[row] = fmaf(share.corrected[row], factor, corrected);
                    }
                }
        } else {
            float of_column[column_tiles][2] = {};
#pragma unroll
            for (int i = 0; i < row_tiles; i++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const long long row = first_query + warp_row + 16 * i + 8 * r + g;
                    unsigned hi[column_tiles], lo[column_tiles];
                    float total = 0;
#pragma unroll
                    for (int j = 0; j < column_tiles; j++) {
                        float power[2];
#pragma unroll
                        for (int c = 0; c < 2; c++) power[c] = exp2_approx(sums.large[i][j][2 * r + c]);
                        split_powers(power[0], power[1], hi[j], lo[j]);
#pragma unroll
                        for (int c = 0; c < 2; c++) {
                            total += power[c];
                            of_column[j][c] += power[c];
                        }
                    }
                    total = sum_over_lanes<4>(total);
                    if (t == 0) share.total[warp_row + 16 * i + 8 * r + g] += total;
                    const long long place = (row - top) * P_pitch + first_column - left + own_column;
                    *reinterpret_cast<uint4*>(P_hi + place) = make_uint4(hi[0], hi[1], hi[2], hi[3]);
                    if constexpr (POWER_TERMS == 2)
                        *reinterpret_cast<uint4*>(P_lo + place) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
                }
            if constexpr (COLUMN_TOTALS) {
                __shared__ float of_warps[2][WARPS_DOWN][tile_data];
                float(&of_tile_columns)[WARPS_DOWN][tile_data] = of_warps[tile % 2];
                of_tile_columns[warp / warps_across][own_column + g] = column_total(of_column);
                __syncthreads();
                if (threadIdx.x < tile_data) {
                    float sum = 0;
#pragma unroll
                    for (int w = 0; w < WARPS_DOWN; w++) sum += of_tile_columns[w][threadIdx.x];
                    add_global(totals + blockIdx.x * pitch_of_totals + first_column + threadIdx.x, sum);
                }
            }
        }
    }

    copy_async_wait<0>();
    __syncthreads();
    const int row = threadIdx.x;
    const long long query = first_query + row;
    if (row >= tile_queries || query >= bottom) return;
    float largest = first_reference, sum = 0, sum_corrected = 0;
    if constexpr (!staged) {
#pragma unroll
        for (int w = 0; w < warps_across; w++) largest = fmaxf(largest, shared.shares[w].reference[row]);
    }
#pragma unroll
    for (int w = 0; w < warps_across; w++) {
        const Share& one = shared.shares[w];
        const float factor = staged ? 1.0f : exp2_approx(one.reference[staged ? 0 : row] - largest);
        sum += one.total[row] * factor;
        if constexpr (output == LAPLACE) sum_corrected += one.corrected[row] * factor;
    }
    const long long place = blockIdx.y * pitch_of_totals + query;
    if constexpr (staged) {
        add_global(totals + place, sum);
    } else {
        references[place] = largest;
        totals[place] = sum;
        if constexpr (output == LAPLACE) moments[place] = sum_corrected;
    }
}
