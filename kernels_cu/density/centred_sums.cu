// Sums over all pairs that can matter, for any data, on the tensor cores: operands about the centres of blocks of data.
//
//   e_ij = -|z_i - z_j|^2 / 2 + log2 w_j
//   S_i  = sum_j 2^(e_ij - a_i + shift)
//   T_i  = sum_j 2^(e_ij - a_i + shift) (z_j - z_i)          output MOMENTS
//   L_i  = sum_j 2^(e_ij - a_i) (e_ij - log2 w_j)            output LAPLACE
//
//   Y, X         (m, d), (n, d)         float2   queries and data in two floats, in order
//   blocks, boxes                                of centred_data.cuh, `count` blocks
//   tiles, centres, references                   of centred_queries.cuh, `all` tiles
//   R, S         (spans, rows)          float    a_i and S_i over a share of the blocks; rows: whole groups of 32 WARPS queries
//   T            (spans, rows, 16 STEPS) float   T_i; LAPLACE: (spans, rows) L_i; SUM: null
//   limit, of_pair                      float    log2 of what may be left out of a sum for each block, and for each pair
//   budget                              float    error of an exponent that is allowed in any case, in bits
//   own_out                                      leave out pairs of one number; queries are in the order of the data
//
// A warp owns 32 queries and writes them anew about the centre of every block that it meets: v = z_i - c in two terms of
// float16, so that products of v and u = z_j - c are good where block and query are near, however far the data reach:
//
//   e_ij = v . u - |v|^2 / 2 + norm_j
//
// The reference a_i begins as an exponent of the query's own sum, which is then at least 2^a_i, and rises where a term is
// too large for it. A block is left out where its mass times the largest term that its box allows is at most
// 2^(limit + a_i): all that is left out together is below the tolerance of the sum, by construction.
//
// The error of a product is about 2^-24 (|v|^2 + |u|^2); it may be `budget`, or some eps times the reference where that is
// more, and larger for pairs that are a small part of the sum (`share_bits`). Where it may be more for some pair of a block,
// each pair is looked at: those whose error may be too large for their part are taken by differences of coordinates. Rows far
// out thus cost what they are, and not what their block is.
//
// Grid: x over groups of WARPS warps, y over spans of blocks (centred_list.cuh). The blocks that any warp needs pass through
// shared memory, `stage` at a time while as many others come: warps may be so far apart. Sums are added up in the same order on
// every run. Barriers: two a stage, all threads pass all of them.
//
// Macros: KERNEL; OUTPUT; STEPS of 16 dimensions; POWER_TERMS of float16 that a power has in moments; WARPS, at most 16,
// of a block; MULTIPROCESSOR_BLOCKS that run on a multiprocessor at a time.
#include "centred_list.cuh"

enum Output { SUM, MOMENTS, LAPLACE };
constexpr Output output = OUTPUT;
constexpr bool moments = output == MOMENTS, laplace = output == LAPLACE;
// With one term the sums are of the same rounded powers as the moments, by a product with ones.
constexpr bool rounded = moments && POWER_TERMS == 1;
constexpr unsigned ones = 0x3c003c00;  // 1, 1
constexpr int steps = STEPS, depth = 16 * steps;

constexpr int warps = WARPS, threads = 32 * warps;
constexpr int octets = output == SUM && STEPS == 1 ? 4 : 2, chunk_rows = 8 * octets, chunks = block_rows / chunk_rows;  // of rows that are under way at a time
constexpr int pitch = depth + 8;  // of queries in shared memory: no two lanes of a load meet in a bank
constexpr float shift = moments ? 2 : 0;  // room for terms above the reference, which is then raised seldom
constexpr int most_pairs = 4;  // of a lane, that take less time one by one than all pairs of a chunk do
constexpr float most_of_chunk = moments ? 32768.0f : 1e30f;  // float16 powers stay below 65504
constexpr float most_error = 8;     // bits of an exponent, so that all terms of far points do not underflow
constexpr float farthest2 = 4e8f;  // squared distance that float16 operands reach
constexpr float out_of_reach = -1e30f;  // exponent beyond, which norms may still be added to
constexpr int most_rises = 12;  // of references by a chunk
constexpr int bytes = block_bytes(steps, moments);

// How moments of a block are added up: by products, by differences of coordinates about its centre, or of the points. Products
// are tried first; a block that is found to be too large a part of the sums for its distance is summed again.
enum Moments { BY_PRODUCTS, ABOUT_CENTRE, BY_POINTS };

// Radius of a tile whose coordinates are kept in one float about its middle.
constexpr float most_of_tile = 64;

// Of the distance that what counts has about: farther from the centre, moments of all of a sum ask for differences. Errors of
// blocks are independent: those of a part of the sum may be larger by the root of that.
constexpr float far_for_products = 24, far_for_centre = 200;

__device__ inline float root(float x) { return x * rsqrtf(fmaxf(x, 1e-30f)); }

// Of a product, relative to the squares that add up to it: three standard deviations of what float32 sums of truncated
// products come to. What tensor cores cut off is near half a last place in the mean, for which a factor of every second
// step makes up.
constexpr float error_of_square = 2.5f * 0x1p-25f, not_cut_off = 1 + 0x1p-23f;

// Bits below the sum of a pair whose error may be `ratio` times what is allowed. Up to `most_ratio` errors of many such pairs
// add up as those of independent ones do, to half of what is allowed, and what they have in common is a small part of them;
// beyond, all n errors may add up.
constexpr float most_ratio = 4;
__device__ inline float share_bits(float ratio, int n) {
    const float bits = log2f(ratio);
    return ratio <= most_ratio ? 2 * bits + 2 : bits + log2f(float(n));
}

// Error of an exponent that is allowed, in eps: the promise is 8 eps beyond 80 nats, 20 bits before `far_level`, so that what
// the larger error is allowed to adds nothing to a sum that turns out to be nearer.
constexpr float near_eps = 3.2f, far_eps = 5.5f, far_level = 136, eps = 0x1p-23f;

// Errors of an exponent, in bits, of pairs whose exponent is about `reference`: by differences of coordinates about the
// centre, and of a tile's own coordinates, which are kept in one float about its middle.
__device__ inline float error_about_centre(float far2, float radius2, float reference) {
    return (moments ? 0x1p-24f : 0x1p-25f) * root(2 * (fabsf(reference) + 30) * (far2 + radius2));
}
__device__ inline float error_of_tile(float tile2, float reference) {
    return 0x1p-24f * root(2 * (fabsf(reference) + 30) * tile2);
}

// Add the moments of the pairs that lanes have a `power` of, one after the other, a lane a dimension. A lane's pair is of
// row `row` and column `column` from its first ones.
__device__ inline void add_by_differences(float power, const float2* __restrict__ Y, const float2* __restrict__ X, float* T,
                                          int first_row, int first_column, int row, int column, int m, int d) {
    unsigned left = __ballot_sync(~0u, power > 0);
#pragma unroll 1
    while (left) {
        const int source = __ffs(left) - 1;
        left &= left - 1;
        const float factor = __shfl_sync(~0u, power, source);
        const int of_tile = row + source / 4, query = min(first_row + of_tile, m - 1);
        const int datum = first_column + column + 2 * (source % 4);
#pragma unroll 1
        for (int k = threadIdx.x % 32; k < d; k += 32)
            T[of_tile * depth + k] -= factor * difference(Y[(long long)query * d + k], X[(long long)datum * d + k]);
    }
}

// Coordinate k of the rows of a chunk that a lane has pairs of, about the centre of the block.
__device__ inline void coordinates(float (&u)[octets][2], const uint4* right, int k) {
    const int of_lane = k / 2 % 4, word = k / 8 % 2, s = k / 16, t = threadIdx.x % 4;
#pragma unroll
    for (int o = 0; o < octets; o++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const unsigned* const terms =
                reinterpret_cast<const unsigned*>(right + (o * steps + s) * 32 + (2 * t + c) * 4 + of_lane) + word;
            float first, second, unused;
            unpack_f16(terms[0] >> k % 2 * 16, first, unused);
            unpack_f16(terms[2] >> k % 2 * 16, second, unused);
            u[o][c] = first + second;
        }
}

// Squared distances of a chunk, by differences of coordinates about the centre of the block. A lane has the pairs that it
// has of the products.
__device__ inline void squared_distances(float (&distance2)[2][octets][4], const float* points, const float* middle,
                                         const float* centre, const uint4* right, int d) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int q = 0; q < 2; q++)
#pragma unroll
        for (int o = 0; o < octets; o++)
#pragma unroll
            for (int i = 0; i < 4; i++) distance2[q][o][i] = 0;
#pragma unroll 1
    for (int k = 0; k < d; k++) {
        const float between = middle[k] - centre[k];
        float u[octets][2];
        coordinates(u, right, k);
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float v = points[(16 * q + 8 * r + g) * pitch + k] + between;
#pragma unroll
                for (int o = 0; o < octets; o++)
#pragma unroll
                    for (int c = 0; c < 2; c++)
                        distance2[q][o][2 * r + c] = fmaf(v - u[o][c], v - u[o][c], distance2[q][o][2 * r + c]);
            }
    }
}

// Add the moments of a chunk by differences of coordinates about the centre of the block.
__device__ inline void add_about_centre(const float (&power)[2][octets][4], float* T, const float* points,
                                        const float* middle, const float* centre, const uint4* right, int d) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll 1
    for (int k = 0; k < d; k++) {
        const float between = middle[k] - centre[k];
        float u[octets][2];
        coordinates(u, right, k);
#pragma unroll
        for (int q = 0; q < 2; q++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int of_tile = 16 * q + 8 * r + g;
                const float v = points[of_tile * pitch + k] + between;
                float sum = 0;
#pragma unroll
                for (int o = 0; o < octets; o++)
#pragma unroll
                    for (int c = 0; c < 2; c++) sum = fmaf(power[q][o][2 * r + c], u[o][c] - v, sum);
                sum = sum_over_lanes<4>(sum);
                if (t == k % 4) T[of_tile * depth + k] += sum;
            }
    }
}

// Over the four lanes that share a query.
__device__ inline float quad_sum(float value) { return sum_over_lanes<4>(value); }

extern "C" __global__ void __launch_bounds__(threads, MULTIPROCESSOR_BLOCKS)
    KERNEL(const float2* __restrict__ Y, const float2* __restrict__ X, const unsigned char* __restrict__ blocks,
           const float* __restrict__ boxes, const float* __restrict__ tiles, const float* __restrict__ centres,
           const float* __restrict__ references, float* __restrict__ R, float* __restrict__ S, float* __restrict__ T,
           int m, int n, int count, int span, int stage, int d, int own_out, float limit, float of_pair,
           float budget) {
    extern __shared__ uint4 dynamic_shared[];
    __shared__ Found<warps> found;
    __shared__ float box[warps][tile_lines], middle[warps][depth];
    __shared__ float reference_of[warps][tile_rows], sum_of[warps][tile_rows], second_of[warps][tile_rows];  // of LAPLACE
    __shared__ float least_of[warps][tile_rows], least_norm_of[warps][tile_rows];  // exponents that matter, good operands
    __shared__ float far_of[warps][tile_rows], base_of[warps][tile_rows];  // squared distances to the centre, and with references
    __shared__ float least_asking_of[warps][tile_rows];  // exponents of pairs that ask for differences
    // References to come, or sums of a block, and what moments in memory are still to be multiplied by.
    __shared__ float raised_to[warps][tile_rows], pending_of[warps][tile_rows];
    __shared__ float stretch_of[moments ? warps : 1][tile_rows];  // squared distances of what counts, over those it has about
    unsigned char* const ring = reinterpret_cast<unsigned char*>(dynamic_shared);
    float* const points = reinterpret_cast<float*>(ring + 2 * stage * bytes);
    unsigned* const list = reinterpret_cast<unsigned*>(points + threads * pitch);  // places in the span, and which warps need them

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int all = (m + tile_rows - 1) / tile_rows, tile = blockIdx.x * warps + warp, first_row = tile * tile_rows;
    const long long rows = (long long)gridDim.x * threads;
    const bool some = tile < all;
    if (lane < tile_lines) box[warp][lane] = some ? tiles[(long long)lane * all + tile] : nowhere(lane);
    for (int k = lane; k < depth; k += 32) middle[warp][k] = some ? centres[(long long)tile * depth + k] : 0;
    __syncwarp();
    float* const own_points = points + warp * 32 * pitch;
    // Write the queries about `middle`, in one float.
    const auto write_points = [&] {
#pragma unroll 4
        for (int i = lane; i < 32 * depth; i += 32) {
            const int row = i / depth, k = i % depth;
            float2 z = make_float2(0, 0);
            if (k < d) z = Y[(long long)min(first_row + row, m - 1) * d + k];
            own_points[row * pitch + k] = k < d ? (z.x - middle[warp][k]) + z.y : 0;
        }
    };
    write_points();
    if (threadIdx.x == 0)
        found.start = int(tiles[(long long)(tile_lines - 1) * all + min(int(blockIdx.x) * warps + warps / 2, all - 1)]);
    const int entries = list_blocks<warps, output != SUM>(found, list, box, boxes, count, 0, span, d, limit);
    const auto block_of = [&](int entry) { return block_at(found.start, int(list[entry] >> 16), count); };

    // Where one float about the middle is not enough, the centre of each block takes its place.
    const auto is_spread = [&] { return box[warp][2 * box_axes + 1] > most_of_tile * most_of_tile; };
    float* const references_of_tile = reference_of[warp];
    references_of_tile[lane] = some ? float(number_or_0(references[first_row + lane])) : 0;
    sum_of[warp][lane] = second_of[warp][lane] = 0;
    pending_of[warp][lane] = 1;
    __syncwarp();
    const long long place_of_tile = blockIdx.y * rows + first_row;
    // Worked out where it is needed: no register is kept for it.
    const auto moments_of_tile = [&] { return T + (blockIdx.y * rows + computed_here(first_row)) * depth; };
    if constexpr (moments) {
        if (some)
            for (int i = lane; i < 32 * depth; i += 32) moments_of_tile()[i] = 0;
        __syncwarp();
    }
    // Multiply moments in memory by what is pending.
    const auto settle = [&] {
        if (!__any_sync(~0u, pending_of[warp][lane] != 1)) return;
#pragma unroll 4
        for (int i = lane; i < 32 * depth; i += 32) moments_of_tile()[i] *= pending_of[warp][i / depth];
        __syncwarp();
        pending_of[warp][lane] = 1;
        __syncwarp();
    };
    const auto fetch = [&](int first_entry) {
        for (int entry = first_entry; entry < min(first_entry + stage, entries); entry++) {
            const unsigned char* const from = blocks + (long long)block_of(entry) * bytes;
            unsigned char* const to = ring + entry % (2 * stage) * bytes;
            for (int i = 16 * threadIdx.x; i < bytes; i += 16 * threads) copy_async_16(to + i, from + i);
        }
        copy_async_commit();
    };
    bool sparse = false;  // little of the block before mattered: then it pays to look before powers are taken
    fetch(0);
    for (int entry = 0; entry < entries; entry++) {
        if (entry % stage == 0) {
            fetch(entry + stage);
            copy_async_wait<1>();
            __syncthreads();
        }
        if (list[entry] >> warp & 1) {
            const unsigned char* const block = ring + entry % (2 * stage) * bytes;
            const uint4* const right = reinterpret_cast<const uint4*>(block);
            const uint4* const across = reinterpret_cast<const uint4*>(block + right_bytes(steps));
            const float* const norms = reinterpret_cast<const float*>(block + norms_at(steps, moments));
            const float* const weights = reinterpret_cast<const float*>(block + weights_at(steps, moments));
            const float* const centre = reinterpret_cast<const float*>(block + centre_at(steps, moments));
            const float* const figures = reinterpret_cast<const float*>(block + radius_at(steps, moments));
            // Worked out where it is needed, too.
            const auto first_column = [&] { return block_of(computed_here(entry)) * block_rows; };

            if (is_spread()) {
                for (int k = lane; k < depth; k += 32) middle[warp][k] = centre[k];
                __syncwarp();
                write_points();
                __syncwarp();
            }

            Moments how = BY_PRODUCTS;
            bool again = false;
#pragma unroll 1
            do {
                // The queries about the centre of the block.
                unsigned hi[steps][2][4], lo[steps][2][4];
                float base[2][2] = {};
#pragma unroll
                for (int s = 0; s < steps; s++) {
                    float between[4];  // the middle of the tile and the centre
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int k = 16 * s + 2 * t + i / 2 * 8 + i % 2;
                        between[i] = middle[warp][k] - centre[k];
                    }
#pragma unroll
                    for (int q = 0; q < 2; q++)
#pragma unroll
                        for (int r = 0; r < 2; r++) {
                            const float* const point = own_points + (16 * q + 8 * r + g) * pitch + 16 * s + 2 * t;
                            const float2 low = *reinterpret_cast<const float2*>(point), high = *reinterpret_cast<const float2*>(point + 8);
                            const float v[4] = {low.x + between[0], low.y + between[1], high.x + between[2], high.y + between[3]};
                            float first_terms[4], second_terms[4];
                            hi[s][q][r] = pack_f16(v[0], v[1]);
                            hi[s][q][2 + r] = pack_f16(v[2], v[3]);
                            unpack_f16(hi[s][q][r], first_terms[0], first_terms[1]);
                            unpack_f16(hi[s][q][2 + r], first_terms[2], first_terms[3]);
                            lo[s][q][r] = pack_f16(v[0] - first_terms[0], v[1] - first_terms[1]);
                            lo[s][q][2 + r] = pack_f16(v[2] - first_terms[2], v[3] - first_terms[3]);
                            unpack_f16(lo[s][q][r], second_terms[0], second_terms[1]);
                            unpack_f16(lo[s][q][2 + r], second_terms[2], second_terms[3]);
#pragma unroll
                            for (int i = 0; i < 4; i++) {
                                const float kept = first_terms[i] + second_terms[i];
                                base[q][r] = fmaf(kept, kept, base[q][r]);
                            }
                        }
                }
#pragma unroll
                for (int q = 0; q < 2; q++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const float far2 = quad_sum(base[q][r]);
                        if (t == 0) far_of[warp][16 * q + 8 * r + g] = far2;
                        if (!(far2 <= farthest2))  // no operands
#pragma unroll
                            for (int s = 0; s < steps; s++) hi[s][q][r] = hi[s][q][2 + r] = lo[s][q][r] = lo[s][q][2 + r] = 0;
                    }
                __syncwarp();
                // Whether the block matters to any query, whether products are good for all pairs of those that it does, and
                // what else can be done about them.
                bool matters, mixed, wide;
                const auto decide = [&] {  // a lane a query
                    const float radius2 = figures[0], log_mass = figures[1], most_weight = figures[2], radius = root(radius2);
                    const float far2 = far_of[warp][lane], far = root(far2), gap = fmaxf(0.0f, far * 0.9999f - radius * 1.0001f);
                    const float largest = -0.4999f * gap * gap;
                    const float of_factors = output == SUM ? 0 : log2f(1 + 0.5f * d - largest);
                    const float reference = references_of_tile[lane];
                    // What is known of the sum: what has been added up says more, once it is more than the reference.
                    const float known = fmaxf(0.0f, log2f(sum_of[warp][lane]) - shift);
                    const bool near = !(log_mass + largest + of_factors <= reference + known + limit);
                    const float level = fmaxf(0.0f, figures[3] - reference - known);  // of squared distances that count, halved
                    const float of_level = (level > far_level ? far_eps : near_eps) * eps * level;
                    const float allowed = fmaxf(budget, fminf(of_level, most_error));
                    // Of the products, and of the tile's own coordinates where its points lie far apart.
                    const float of_own = is_spread() ? 0 : error_of_tile(box[warp][2 * box_axes + 1], reference);
                    const float most2 = (allowed - of_own) * (1 / error_of_square) - far2;  // |u|^2 of good pairs
                    const bool reached = far2 <= farthest2;  // else there are no operands: never, or always by differences
                    const float sum = known + shift - 4 * (error_of_square * far2 + of_own) - 0.01f;
                    const float ratio = (error_of_square * (far2 + radius2) + of_own) / allowed;
                    least_of[warp][lane] = reached ? of_pair + sum : 0;
                    least_asking_of[warp][lane] = reached ? sum - fminf(share_bits(ratio, n), -of_pair) : 0;
                    least_norm_of[warp][lane] = !reached ? 3e38f : near ? -0.5f * most2 : never;
                    base_of[warp][lane] = reached ? shift + (most_weight - reference) - 0.5f * far2 : near ? 1e32f : out_of_reach;
                    matters = __any_sync(~0u, near);
                    mixed = __any_sync(~0u, near && !(radius2 <= most2));
                    wide = __any_sync(~0u, near && !(reached && error_about_centre(far2, radius2, reference) + of_own <= allowed));
                    if constexpr (moments) {
                        const float inverse = rsqrtf(1 + level), stretch = far * inverse + fminf(radius * inverse, 8.4f);
                        stretch_of[warp][lane] = stretch * stretch;
                    }
                    __syncwarp();
#pragma unroll
                    for (int q = 0; q < 2; q++)
#pragma unroll
                        for (int r = 0; r < 2; r++) base[q][r] = base_of[warp][16 * q + 8 * r + g];
                };
                decide();
                const bool diagonal = own_out && first_row < first_column() + block_rows && first_column() < first_row + tile_rows;

                int skipped = 0;
                bool taken = false;
                float of_block[2][2] = {}, factored[2][2] = {}, rounded_sum[2][4] = {}, moment[2][2 * steps][4] = {};
#pragma unroll 1
                for (int chunk = 0; chunk < chunks && matters; chunk++) {
                    bool raising = false, nothing = false;
                    int rises = 0;
                    float e[2][octets][4];
#pragma unroll 1
                    for (;;) {
                        // Exponents of 32 queries and 16 rows.
                        uint4 b[octets][steps];
                        const float* const norms_of_chunk = norms + chunk_rows * chunk + 2 * t;
#pragma unroll
                        for (int o = 0; o < octets; o++)
#pragma unroll
                            for (int s = 0; s < steps; s++) b[o][s] = right[((octets * chunk + o) * steps + s) * 32 + lane];
                        // The small products, then squares and large products in turn, so that sums stay small. They add
                        // up by rounding, from zero each: tensor cores cut off a chain of products at every step.
#pragma unroll
                        for (int o = 0; o < octets; o++)
#pragma unroll
                            for (int q = 0; q < 2; q++) {
#pragma unroll
                                for (int i = 0; i < 4; i++) e[q][o][i] = 0;
                            }
#pragma unroll
                        for (int s = 0; s < steps; s++)
#pragma unroll
                            for (int o = 0; o < octets; o++)
#pragma unroll
                                for (int q = 0; q < 2; q++) {
                                    mma_f16_m16n8k16(e[q][o], hi[s][q], b[o][s].z, b[o][s].w);
                                    mma_f16_m16n8k16(e[q][o], lo[s][q], b[o][s].x, b[o][s].y);
                                }
#pragma unroll
                        for (int o = 0; o < octets; o++) {
                            const float2 norm = *reinterpret_cast<const float2*>(norms_of_chunk + 8 * o);
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int i = 0; i < 4; i++) e[q][o][i] += i % 2 ? norm.y : norm.x;
                        }
#pragma unroll
                        for (int s = 0; s < steps; s++)
#pragma unroll
                            for (int o = 0; o < octets; o++)
#pragma unroll
                                for (int q = 0; q < 2; q++) {
                                    // Of many steps operands are read again, so that no registers are kept for them.
                                    uint2 large = make_uint2(b[o][s].x, b[o][s].y);
                                    if constexpr (steps > 2)
                                        large = *reinterpret_cast<const uint2*>(
                                            right + ((octets * chunk + o) * steps + s) * 32 + computed_here(lane));
                                    float of_step[4] = {};
                                    mma_f16_m16n8k16(of_step, hi[s][q], large.x, large.y);
#pragma unroll
                                    for (int i = 0; i < 4; i++) {
                                        e[q][o][i] = fmaf(of_step[i], s % 2 ? 1.0f : not_cut_off, e[q][o][i]);
                                        if (s == (steps - 1) / 2) e[q][o][i] += base[q][i / 2];
                                    }
                                }
                        if (mixed || sparse) {
                            // Whether any pair can matter, and whether one that does may ask for differences.
                            float lowest = norms_of_chunk[0];
#pragma unroll
                            for (int o = 0; o < octets; o++) lowest = fminf(lowest, fminf(norms_of_chunk[8 * o], norms_of_chunk[8 * o + 1]));
                            bool some_matter = false, some_ask = false;
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int r = 0; r < 2; r++) {
                                    const int of_tile = 16 * q + 8 * r + g;
                                    float most = e[q][0][2 * r];
#pragma unroll
                                    for (int o = 0; o < octets; o++) most = fmaxf(most, fmaxf(e[q][o][2 * r], e[q][o][2 * r + 1]));
                                    most = fmaf(-8 * error_of_square, lowest, most);
                                    some_matter |= most >= least_of[warp][of_tile];
                                    some_ask |= most >= least_asking_of[warp][of_tile] && lowest < least_norm_of[warp][of_tile];
                                }
                            nothing = !__any_sync(~0u, some_matter);
                            if (nothing) break;
                            if (__any_sync(~0u, some_ask)) {
                                unsigned asking = 0;  // a bit a pair
#pragma unroll
                                for (int q = 0; q < 2; q++)
#pragma unroll
                                    for (int r = 0; r < 2; r++) {
                                        const float least = least_asking_of[warp][16 * q + 8 * r + g];
                                        const float least_norm = least_norm_of[warp][16 * q + 8 * r + g];
#pragma unroll
                                        for (int o = 0; o < octets; o++)
#pragma unroll
                                            for (int c = 0; c < 2; c++) {
                                                const float norm = norms_of_chunk[8 * o + c];
                                                if (fmaf(-8 * error_of_square, norm, e[q][o][2 * r + c]) >= least && norm < least_norm)
                                                    asking |= 1u << ((q * octets + o) * 4 + 2 * r + c);
                                            }
                                    }
                                if (!wide && __any_sync(~0u, __popc(asking) > most_pairs)) {
                                    squared_distances(e, own_points, middle[warp], centre, right + octets * chunk * steps * 32, d);
#pragma unroll
                                    for (int q = 0; q < 2; q++)
#pragma unroll
                                        for (int i = 0; i < 4; i++) {
                                            const float about = shift + (figures[2] - references_of_tile[16 * q + i / 2 * 8 + g]);
#pragma unroll
                                            for (int o = 0; o < octets; o++) {
                                                const float weight = weights[chunk_rows * chunk + 8 * o + 2 * t + i % 2];
                                                e[q][o][i] = weight + about - 0.5f * e[q][o][i];
                                            }
                                        }
                                } else {
#pragma unroll 1
                                    for (unsigned left = asking; __any_sync(~0u, left); left &= left - 1) {
                                        const int chosen = __ffs(left) - 1, q = chosen / (4 * octets), o = chosen / 4 % octets, i = chosen % 4;
                                        const int of_tile = 16 * q + i / 2 * 8 + g, row = chunk_rows * chunk + 8 * o + 2 * t + i % 2;
                                        float exact = 0;
                                        if (left)
                                            exact = weights[row] + shift + (figures[2] - references_of_tile[of_tile]) -
                                                    0.5f * distance2_of(Y + (long long)min(first_row + of_tile, m - 1) * d,
                                                                        X + (long long)(first_column() + row) * d, d);
#pragma unroll
                                        for (int at = 0; at < 8 * octets; at++)
                                            if (at == chosen) e[at / (4 * octets)][at / 4 % octets][at % 4] = exact;
                                    }
                                }
                            }
                        }
                        if (diagonal) {
                            const int below = first_row - first_column() + g - 2 * t;  // of the diagonal
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int o = 0; o < octets; o++)
#pragma unroll
                                    for (int i = 0; i < 4; i++)
                                        if (below + 16 * q + i / 2 * 8 == chunk_rows * chunk + 8 * o + i % 2) e[q][o][i] = never;
                        }
                        if (raising) {
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int r = 0; r < 2; r++) {
                                    float most = never;
#pragma unroll
                                    for (int o = 0; o < octets; o++)
                                        most = fmaxf(most, fmaxf(e[q][o][2 * r], e[q][o][2 * r + 1]));
                                    const float by = largest_over_lanes<4>(most) - shift;
                                    const float reference = references_of_tile[16 * q + 8 * r + g];
                                    // A large reference may not resolve what it should rise by, and the exponents about it
                                    // may then be smaller than they were: it rises by a little less.
                                    const float short_of = reference + by - fabsf(reference) * 0x1p-22f;
                                    const float higher = by > 0 ? fmaxf(short_of, nextafterf(reference, 3e38f)) : reference;
                                    if (t == 0) raised_to[warp][16 * q + 8 * r + g] = higher;
                                }
                            __syncwarp();
                            const float higher = raised_to[warp][lane], by = higher - references_of_tile[lane], factor = exp2_approx(-by);
                            __syncwarp();
                            references_of_tile[lane] = higher;
                            sum_of[warp][lane] *= factor;
                            second_of[warp][lane] *= factor;
                            pending_of[warp][lane] *= factor;
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int r = 0; r < 2; r++) {
                                    const float of_row = __shfl_sync(~0u, factor, 16 * q + 8 * r + g);
                                    if constexpr (laplace) {
                                        const float up = __shfl_sync(~0u, by * factor, 16 * q + 8 * r + g);
                                        factored[q][r] = fmaf(-up, of_block[q][r], of_row * factored[q][r]);
                                    }
                                    of_block[q][r] *= of_row;
                                    rounded_sum[q][2 * r] *= of_row;
                                    if constexpr (moments)
#pragma unroll
                                        for (int k = 0; k < 2 * steps; k++) {
                                            moment[q][k][2 * r] *= of_row;
                                            moment[q][k][2 * r + 1] *= of_row;
                                        }
                                }
                            __syncwarp();
                            // What is good enough depends on the reference.
                            decide();
                            if (!matters) break;
                            raising = false;
                            continue;
                        }
                        float of_chunk[2][2] = {}, factored_of_chunk[2][2] = {};
                        bool large = false;
#pragma unroll
                        for (int q = 0; q < 2; q++) {
#pragma unroll
                            for (int o = 0; o < octets; o++) {
                                float2 weight = make_float2(0, 0);
                                if constexpr (laplace)
                                    weight = *reinterpret_cast<const float2*>(weights + chunk_rows * chunk + 8 * o + 2 * t);
#pragma unroll
                                for (int i = 0; i < 4; i++) {
                                    const float exponent = e[q][o][i];
                                    e[q][o][i] = exp2_approx(exponent);
                                    of_chunk[q][i / 2] += e[q][o][i];
                                    if constexpr (laplace)
                                        factored_of_chunk[q][i / 2] = fmaf(e[q][o][i], exponent - (i % 2 ? weight.y : weight.x),
                                                                           factored_of_chunk[q][i / 2]);
                                }
                            }
#pragma unroll
                            for (int r = 0; r < 2; r++) large |= !(of_chunk[q][r] < most_of_chunk);
                        }
                        if (rises < most_rises && __any_sync(~0u, large)) {  // a term is too large for the reference
                            raising = true;
                            rises++;
                            continue;
                        }
#pragma unroll
                        for (int q = 0; q < 2; q++)
#pragma unroll
                            for (int r = 0; r < 2; r++) {
                                if (!rounded || how != BY_PRODUCTS) of_block[q][r] += of_chunk[q][r];
                                if constexpr (laplace) factored[q][r] += factored_of_chunk[q][r];
                            }
                        break;
                    }
                    if (!matters) break;
                    skipped += nothing;
                    if (nothing) continue;
                    taken = true;
#pragma unroll
                    for (int q = 0; q < 2; q++) {
                        if constexpr (moments) {
                            if (how == BY_PRODUCTS)
#pragma unroll
                                for (int half = 0; half < octets; half += 2) {  // 16 rows
                                    unsigned first_term[4], second_term[4];
#pragma unroll
                                    for (int i = 0; i < 4; i++) {
                                        const float* const pair = &e[q][half + i / 2][i % 2 * 2];
                                        first_term[i] = pack_f16(pair[0], pair[1]);
                                        if constexpr (!rounded) {
                                            float one, other;
                                            unpack_f16(first_term[i], one, other);
                                            second_term[i] = pack_f16(pair[0] - one, pair[1] - other);
                                        }
                                    }
                                    if constexpr (rounded) mma_f16_m16n8k16(rounded_sum[q], first_term, ones, ones);
#pragma unroll
                                    for (int k = 0; k < 2 * steps; k++) {
                                        const uint4 z = across[((octets * chunk + half) / 2 * 2 * steps + k) * 32 + lane];
                                        mma_f16_m16n8k16(moment[q][k], first_term, z.z, z.w);
                                        if constexpr (!rounded) mma_f16_m16n8k16(moment[q][k], second_term, z.x, z.y);
                                        mma_f16_m16n8k16(moment[q][k], first_term, z.x, z.y);
                                    }
                                }
                        }
                    }
                    if constexpr (moments) {
                        if (how != BY_PRODUCTS) settle();
                        if (how == ABOUT_CENTRE)
                            add_about_centre(e, moments_of_tile(), own_points, middle[warp], centre,
                                             right + octets * chunk * steps * 32, d);
                        if (how == BY_POINTS)
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int o = 0; o < octets; o++)
#pragma unroll
                                    for (int i = 0; i < 4; i++)
                                        add_by_differences(e[q][o][i], Y, X, moments_of_tile(), first_row, first_column(),
                                                           16 * q + i / 2 * 8, chunk_rows * chunk + 8 * o + i % 2, m, d);
                        if (how != BY_PRODUCTS) __syncwarp();
                    }
                }
                bool counts = false;
#pragma unroll
                for (int q = 0; q < 2; q++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const int of_tile = 16 * q + 8 * r + g;
                        of_block[q][r] = quad_sum(of_block[q][r]) + rounded_sum[q][2 * r];
                        if constexpr (laplace) factored[q][r] = quad_sum(factored[q][r]);
                        if (t == 0) {
                            raised_to[warp][of_tile] = of_block[q][r];
                            if constexpr (laplace)
                                second_of[warp][of_tile] += fmaf(references_of_tile[of_tile] - figures[2], of_block[q][r], factored[q][r]);
                        }
                        counts |= of_block[q][r] > exp2_approx(of_pair + shift);
                    }
                __syncwarp();
                const float of_own_block = raised_to[warp][lane], with_block = sum_of[warp][lane] + of_own_block;
                if constexpr (moments) {
                    const float stretch = stretch_of[warp][lane] * of_own_block;
                    const auto fits = [&](float most) {  // a distance may be NaN
                        return !__any_sync(~0u, of_own_block > 0 && !(stretch <= most * most * with_block));
                    };
                    again = how == BY_PRODUCTS && taken && !fits(far_for_products);
                    if (again) {
                        how = fits(far_for_centre) ? ABOUT_CENTRE : BY_POINTS;
                        continue;
                    }
                }
                __syncwarp();
                sum_of[warp][lane] = with_block;
                __syncwarp();
                if (matters) sparse = mixed || sparse ? 2 * skipped >= chunks : !__any_sync(~0u, counts);
                if constexpr (moments) {
                    if (how == BY_PRODUCTS && taken) {
                        // From the centre of the block to the query, and then into memory: tensor cores truncate at every product,
                        // so that sums over all blocks would lose what those over one keep.
                        float* const to_moments = moments_of_tile();
#pragma unroll
                        for (int k = 0; k < 2 * steps; k++) {
                            const int dim = 8 * k + 2 * t;
                            const float along = middle[warp][dim] - centre[dim], other = middle[warp][dim + 1] - centre[dim + 1];
                            float2 sums[2][2];  // all are read before any is written, so that reads do not wait for writes
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int r = 0; r < 2; r++)
                                    sums[q][r] = *reinterpret_cast<const float2*>(to_moments + (16 * q + 8 * r + g) * depth + dim);
#pragma unroll
                            for (int q = 0; q < 2; q++)
#pragma unroll
                                for (int r = 0; r < 2; r++) {
                                    const int of_tile = 16 * q + 8 * r + g;
                                    const float pending = pending_of[warp][of_tile];
                                    const float2 point = *reinterpret_cast<const float2*>(own_points + of_tile * pitch + dim);
                                    sums[q][r].x = fmaf(sums[q][r].x, pending, fmaf(-of_block[q][r], point.x + along, moment[q][k][2 * r]));
                                    sums[q][r].y = fmaf(sums[q][r].y, pending, fmaf(-of_block[q][r], point.y + other, moment[q][k][2 * r + 1]));
                                    *reinterpret_cast<float2*>(to_moments + of_tile * depth + dim) = sums[q][r];
                                }
                        }
                        __syncwarp();
                        pending_of[warp][lane] = 1;
                        __syncwarp();
                    }
                }
            } while (again);
        }
        if ((entry + 1) % stage == 0) __syncthreads();
    }
    copy_async_wait<0>();
    __syncwarp();
    if (!some) return;
    if constexpr (moments) settle();
    R[place_of_tile + lane] = references_of_tile[lane];
    S[place_of_tile + lane] = sum_of[warp][lane] + 0 * references[first_row + lane];  // perhaps NaN
    if constexpr (laplace) T[place_of_tile + lane] = second_of[warp][lane];
}
