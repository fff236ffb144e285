// Sums over all pairs that can matter, for any data, in float64 on the tensor cores: operands about the centres of blocks.
//
//   e_ij = -|z_i - z_j|^2 / 2 + log2 w_j
//   S_i  = sum_j 2^(e_ij - a_i)
//   T_i  = sum_j 2^(e_ij - a_i) (z_j - z_i)          output MOMENTS
//   L_i  = sum_j 2^(e_ij - a_i) (e_ij - log2 w_j)    output LAPLACE
//
//   Y, X         (m, d), (n, d)         double   queries and data as they are given, in order; z = point * scale
//   blocks, boxes                                of centred_data_f64.cuh, `count` blocks
//   tiles, Z, references                         of centred_queries.cuh; Z its `centres`
//   R, S         (spans, rows)          double   a_i and S_i over a span of blocks; rows: whole groups of 16 WARPS queries
//   T            (spans, rows, DEPTH)   double   T_i; LAPLACE: (spans, rows) L_i; SUM: null
//   limit, of_pair                      float    log2 of what may be left out of a sum for each block, and for each pair
//   own_out                                      leave out the pair of a row with itself; the queries are the data
//
// A warp owns 16 queries. For each block that its box and then the ball of the block do not leave out, a product in float16
// tells which groups of 8 data rows hold a pair that can matter: the screen, which errs on the safe side. For these the
// queries are written anew about the centre of the block, v = (y - centre) scale, and products in double make exponents,
//
//   e_ij = v . u - |v|^2 / 2 + norm_j
//
// powers, and moments about the centre. Their error is about 2^-53 (|v|^2 + |u|^2). Where that is too much for the part of
// the sum that a pair is, where a term is too large for the reference, on the diagonal of `own_out` and for operands out of
// range, a group is taken by differences of coordinates: with the screen before them these are few pairs.
//
// The reference a_i, an integer, begins at most at the logarithm of the query's own sum, and rises. What has been added
// up lets later blocks and pairs be left out, too. A power has an integer added to its exponent: the fraction of what all
// exponents of a query and a block share is put into the sums of the block.
//
// Grid: x over groups of WARPS warps, y over spans of blocks (centred_list.cuh). Screens pass through shared memory three at a time,
// operands in double two at a time, and only those of blocks that some warp needs. Barriers: two or three a block; all
// threads pass all of them. Sums are added up in the same order on every run. Fragments are those of f64.cuh.
//
// Macros: F64; KERNEL; OUTPUT; DEPTH, a multiple of 8; WARPS, at most 16, of a block; MULTIPROCESSOR_BLOCKS that run on
// a multiprocessor at a time.
#include "centred_list.cuh"

enum Output { SUM, MOMENTS, LAPLACE };
constexpr Output output = OUTPUT;
constexpr bool moments = output == MOMENTS, laplace = output == LAPLACE;
constexpr int depth = DEPTH, steps = depth / 8, screen_steps = Screen<depth>::steps;
constexpr int warps = WARPS, threads = 32 * warps;
constexpr int queries = 16;  // of a warp
constexpr int screens = 3, exacts = 2;
constexpr int listed = 480;  // blocks at a time

// Compilers for later architectures take more registers for the same.
#if __CUDA_ARCH__ >= 1000
constexpr int multiprocessor_blocks = 1;
#else
constexpr int multiprocessor_blocks = MULTIPROCESSOR_BLOCKS;
#endif

// Squares of operands together, up to which products are as good as is promised; beyond, 4 eps times the exponent are.
constexpr float good = 4000, good_of_exponent = 8;

// So many times that, and more, is too much for any pair. Up to there errors add up as independent ones do: a part of the sum
// may have a larger one by the root of that.
constexpr float most_ratio = 256;

// A reference rises where a term is larger by so many bits, or the sum.
constexpr float most_bits = 150, most_known = 100;

// The data row of a group of 8 that is column g of its fragments (f64.cuh).
__device__ inline int row_of(int g) { return (g & 4) + ((g ^ g >> 2) & 1) * 2 + (g >> 1 & 1); }

__device__ inline double nearest_integer(double x) { return x + magic - magic; }

template <class Part>
__device__ inline void begin_copy(Part& to, const Part& from) {
    for (int i = 16 * threadIdx.x; i < int(sizeof(Part)); i += 16 * threads)
        copy_async_16(reinterpret_cast<char*>(&to) + i, reinterpret_cast<const char*>(&from) + i);
}

// What a screen has found, of a lane's queries g and g + 8 of the warp.
struct Seen {
    unsigned matters, large;  // groups of rows, a bit each, of the warp: with pairs that can matter, with large terms
    float far2[2];            // squared distance of the query to the centre
};

// Sums of a lane's queries; the four lanes that share a query have the same.
struct Sums {
    double reference[2], total[2], factored[2];
};

// The least exponent that a sum of a query is known to have, in bits, and how many of these are above its reference.
struct Level {
    float reference, known;
};

__device__ inline Level level_of(const Sums& sums, int r) {
    const float rounded = float(sums.reference[r]);
    return {rounded - fabsf(rounded) * 0x1p-23f, float(max(0, exponent_of(sums.total[r])))};
}

// Whether a block can matter to a query: by the ball about its centre. `off` bounds what z is rounded by.
__device__ inline bool is_near(const Level& level, float far, float off, float radius, float log_mass, int d, float limit) {
    const float gap = fmaxf(0.0f, far * 0.99999f - off - radius * 1.00001f), largest = -0.4999f * gap * gap;
    const float bits = output == SUM ? 0 : log2f(1 + 0.5f * d - largest);
    return !(log_mass + largest + bits <= level.reference + level.known + limit);
}

__device__ inline float rounding_of(float reach2, float far) { return 0x1p-22f * (sqrtf(reach2) + far); }

// Tell which groups of a block matter to a warp's queries, whose coordinates z are at `Z`.
__device__ inline Seen screened(const Screen<depth>& block, const float4* __restrict__ Z, const Sums& sums, float reach2,
                                int d, float limit, float of_pair) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    Seen seen = {};
    unsigned left[screen_steps][4];
#pragma unroll
    for (int s = 0; s < screen_steps; s++) {
        const float2 low = *reinterpret_cast<const float2*>(block.centre + 16 * s + 2 * t);
        const float2 high = *reinterpret_cast<const float2*>(block.centre + 16 * s + 8 + 2 * t);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float4 z = Z[(s * 2 + r) * 32 + lane];
            const float v[4] = {z.x - low.x, z.y - low.y, z.z - high.x, z.w - high.y};
#pragma unroll
            for (int i = 0; i < 4; i++) seen.far2[r] = fmaf(v[i], v[i], seen.far2[r]);
            left[s][r] = pack_f16(v[0], v[1]);
            left[s][2 + r] = pack_f16(v[2], v[3]);
        }
    }
    const float radius = sqrtf(block.radius2);
    float least[2];  // v . u + norm of pairs that matter
    bool some = false;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float far2 = seen.far2[r] = sum_over_lanes<4>(seen.far2[r]), far = sqrtf(far2), off = rounding_of(reach2, far);
        const Level level = level_of(sums, r);
        const bool near = is_near(level, far, off, radius, block.log_mass, d, limit);
        const bool serves = far2 <= largest_operand * largest_operand;
        least[r] = level.reference + level.known + of_pair + (0.5f - 0.5f * error_of_screen) * far2 -
                   off * (far + radius + off) - 0.05f;
        if (!serves || block.radius2 == unbounded) least[r] = -unbounded;
        if (!near) least[r] = unbounded;
        some |= near;
        if (!serves)
#pragma unroll
            for (int s = 0; s < screen_steps; s++) left[s][r] = left[s][2 + r] = 0;
    }
    if (!__any_sync(~0u, some)) return seen;
#pragma unroll 4
    for (int group = 0; group < groups; group++) {
        const float2 norm = *reinterpret_cast<const float2*>(block.norms + 8 * group + 2 * t);
        float e[4] = {norm.x, norm.y, norm.x, norm.y};
#pragma unroll
        for (int s = 0; s < screen_steps; s++) {
            const uint2 right = block.right[group][s][lane];
            mma_f16_m16n8k16(e, left[s], right.x, right.y);
        }
        const float above = fmaxf(fmaxf(e[0], e[1]) - least[0], fmaxf(e[2], e[3]) - least[1]);
        if (__any_sync(~0u, above >= 0)) seen.matters |= 1u << group;
        if (__any_sync(~0u, above > most_bits - of_pair)) seen.large |= 1u << group;
    }
    return seen;
}

// Raise the reference of a lane's query r by an integer, and bring its sums to it. T is where the lane's moments are.
__device__ inline void raise(Sums& sums, int r, double by, double* T) {
    const double higher = sums.reference[r] + by;
    // A large reference may not resolve what it should rise by.
    const double lower = sums.reference[r] - higher, factor = lower < -1022 ? 0 : power_of_2(int(lower));
    sums.reference[r] = higher;
    sums.total[r] *= factor;
    if constexpr (laplace) sums.factored[r] *= factor;
    if constexpr (moments) {
#pragma unroll 1
        for (int k = 0; k < depth; k += 8) {
            double2& moment = *reinterpret_cast<double2*>(T + 8 * r * depth + k);
            moment.x *= factor;
            moment.y *= factor;
        }
    }
}

// Add the pairs of a warp's queries with a group of 8 rows, by differences of coordinates. The lane's queries are at `y`,
// its data at `x`; of rows past the end there are copies of the last one, without weight. T is where its moments are.
__device__ inline void add_by_differences(Sums& sums, const double* const (&y)[2], const double* const (&x)[2],
                                          const double (&weights)[2], const bool (&own)[4], double* T, int d, double scale) {
    const int t = threadIdx.x % 4;
    double distance2[4] = {};
#pragma unroll 1
    for (int k = 0; k < d; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const double gap = (y[i / 2][k] - x[i % 2][k]) * scale;
            distance2[i] = fma(gap, gap, distance2[i]);
        }
    double power[4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        double e[2], most = Exponent<double>::none;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const bool counts = weights[c] > nothing && !own[2 * r + c];
            e[c] = counts ? weights[c] - 0.5 * distance2[2 * r + c] : Exponent<double>::none;
            most = larger(most, e[c]);
        }
        const double by = largest_over_lanes<4>(most) - sums.reference[r];
        if (by > most_bits) raise(sums, r, floor(by), T);
        double sum = 0, factored = 0;
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const double least = -3000, largest = 300;  // the one is 0, the other is of references that resolve no less
            const double above = e[c] - sums.reference[r];
            power[2 * r + c] = exp2_from(magic, above > least ? smaller(above, largest) : least);
            sum += power[2 * r + c];
            if constexpr (laplace) factored -= power[2 * r + c] * 0.5 * distance2[2 * r + c];
        }
        sums.total[r] += sum_over_lanes<4>(sum);
        if constexpr (laplace) sums.factored[r] += sum_over_lanes<4>(factored);
    }
    if constexpr (moments) {
        if (!__any_sync(~0u, power[0] > 0 || power[1] > 0 || power[2] > 0 || power[3] > 0)) return;
#pragma unroll 1
        for (int k = 0; k < d; k++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                double sum = power[2 * r] * (x[0][k] - y[r][k]) + power[2 * r + 1] * (x[1][k] - y[r][k]);
                sum = sum_over_lanes<4>(sum);
                if (k % 8 / 2 == t) T[8 * r * depth + k / 8 * 8 + k % 2] += sum * scale;
            }
    }
}

// Add the pairs with the groups of a block that `matters` says, by products, but for groups with powers of more than `most` of a
// query's sum, where that is below 1; return these. Of 0 there are no pairs.
__device__ inline unsigned add_by_products(Sums& sums, const Exact<depth>& block, const double* const (&y)[2],
                                           const float (&most)[2], unsigned matters, double* T, int d, double scale) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    double points[steps][4], norm[2] = {}, from[2], rest[2];
#pragma unroll
    for (int s = 0; s < steps; s++) {
        const double2 centre = *reinterpret_cast<const double2*>(block.centre + 8 * s + 2 * t);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int k = 8 * s + 2 * t;
            points[s][r] = k < d && most[r] > 0 ? (y[r][k] - centre.x) * scale : 0;
            points[s][r + 2] = k + 1 < d && most[r] > 0 ? (y[r][k + 1] - centre.y) * scale : 0;
            norm[r] = fma(points[s][r], points[s][r], fma(points[s][r + 2], points[s][r + 2], norm[r]));
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        norm[r] = -0.5 * sum_over_lanes<4>(norm[r]);
        const double base = most[r] > 0 ? norm[r] - sums.reference[r] : 0.5 * nothing, whole = nearest_integer(base);
        from[r] = magic + whole;
        rest[r] = base - whole;
    }

    double total[2] = {}, factored[2] = {}, moment[steps][4] = {};
    unsigned coarse = 0;
    int largest = 1 << 30;  // exponent of powers
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (most[r] > 0 && most[r] < 1) largest = min(largest, exponent_of(sums.total[r] * most[r]) - 1);
#pragma unroll 1
    for (; matters; matters &= matters - 1) {
        const int row = 8 * (__ffs(matters) - 1), own = row + row_of(g);
        const int even = row + row_of(2 * t), odd = row + row_of(2 * t + 1);
        const double norms[4] = {block.norms[even], block.norms[odd], block.norms[even], block.norms[odd]};
        double e[4];
#pragma unroll
        for (int s = 0; s < steps; s++) {
            const double2 b = *reinterpret_cast<const double2*>(&block.points[own][8 * s + 2 * t]);
            if (s == 0) mma_f64_m16n8k8(e, points[s], b.x, b.y, norms);
            else mma_f64_m16n8k8(e, points[s], b.x, b.y, e);
        }
        double power[4];
        double most_of_group = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            power[i] = exp2_from(from[i / 2], e[i]);
            most_of_group = larger(most_of_group, power[i]);
        }
        if (__any_sync(~0u, exponent_of(most_of_group) > largest)) {
            coarse |= matters & (0 - matters);
            continue;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            total[i / 2] += power[i];
            if constexpr (laplace)
                factored[i / 2] = fma(power[i], e[i] - block.weights[i % 2 ? odd : even], factored[i / 2]);
        }
        if constexpr (moments) {
            const double a[4] = {power[0], power[2], power[1], power[3]};
#pragma unroll
            for (int s = 0; s < steps; s++)
                mma_f64_m16n8k8(moment[s], a, block.points[even][8 * s + g], block.points[odd][8 * s + g], moment[s]);
        }
    }

    // From the centre of the block to the query, and then into memory.
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const double factor = exp2_from(magic, rest[r]), of_block = factor * sum_over_lanes<4>(total[r]);
        sums.total[r] += of_block;
        if constexpr (laplace)
            sums.factored[r] += factor * sum_over_lanes<4>(factored[r]) + norm[r] * of_block;
        if constexpr (moments)
#pragma unroll
            for (int s = 0; s < steps; s++) {
                double2& to = *reinterpret_cast<double2*>(T + 8 * r * depth + 8 * s);
                to.x += fma(-of_block, points[s][r], factor * moment[s][2 * r]);
                to.y += fma(-of_block, points[s][r + 2], factor * moment[s][2 * r + 1]);
            }
    }
    return coarse;
}

extern "C" __global__ void __launch_bounds__(threads, multiprocessor_blocks)
    KERNEL(const double* __restrict__ Y, const double* __restrict__ X, const Block<depth>* __restrict__ blocks,
           const float* __restrict__ boxes, const float* __restrict__ tiles, const float4* __restrict__ Z,
           const double* __restrict__ references, double* __restrict__ R, double* __restrict__ S, double* __restrict__ T,
           int m, int n, int count, int span, int d, int own_out, float limit, float of_pair, double scale) {
    extern __shared__ uint4 dynamic_shared[];
    __shared__ Found<warps> found;
    __shared__ float box[warps][tile_lines];
    __shared__ int needed[2];  // the last of the even and of the odd entries that some warp needs operands of
    Screen<depth>* const screen_ring = reinterpret_cast<Screen<depth>*>(dynamic_shared);
    Exact<depth>* const exact_ring = reinterpret_cast<Exact<depth>*>(screen_ring + screens);
    unsigned* const list = reinterpret_cast<unsigned*>(exact_ring + exacts);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int all = (m + tile_rows - 1) / tile_rows, first_row = (blockIdx.x * warps + warp) * queries;
    const bool some = first_row < m;

    if (lane < tile_lines) box[warp][lane] = some ? tiles[(long long)lane * all + first_row / tile_rows] : nowhere(lane);
    __syncwarp();

    Sums sums = {};
    // Worked out where they are needed: no registers are kept for them.
    const auto place_of_lane = [&] {
        return (long long)computed_here(blockIdx.y * gridDim.x + blockIdx.x) * (warps * queries) + warp * queries + g;
    };
    const auto moments_of_lane = [&] { return moments ? T + place_of_lane() * depth + 2 * t : nullptr; };
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sums.reference[r] = some ? floor(number_or_0(references[first_row + g + 8 * r])) : 0;
        if constexpr (moments)
            for (int k = 0; k < depth; k += 8)
                *reinterpret_cast<double2*>(moments_of_lane() + 8 * r * depth + k) = make_double2(0, 0);
    }

    if (threadIdx.x == 0) {
        const int middle = min((int(blockIdx.x) * warps + warps / 2) * queries, m - 1) / tile_rows;
        found.start = int(tiles[(long long)(tile_lines - 1) * all + middle]);
    }
#pragma unroll 1
    for (int from = 0; from < span; from += listed) {
        if (threadIdx.x < 2) needed[threadIdx.x] = -1;
        const int entries = list_blocks<warps, output != SUM>(found, list, box, boxes, count, from, min(span, from + listed), d, limit);
        const auto number_of = [&](int entry) { return block_at(found.start, from + int(list[entry] >> 16), count); };
        const auto block_of = [&](int entry) -> const Block<depth>& { return blocks[number_of(entry)]; };
        const auto fetch_screen = [&](int entry) {
            if (entry < entries) begin_copy(screen_ring[entry % screens], block_of(entry).screen);
            copy_async_commit();
        };
        // Screen the block of an entry, for the loop's next turn; all threads call.
        const auto look = [&](int entry) {
            Seen seen = {};
            if (entry < entries && list[entry] >> warp & 1) {
                const float4* const of_warp = Z + (long long)(computed_here(first_row) / queries) * screen_steps * 64;
                const float reach2 = box[warp][2 * box_axes + 1];
                seen = screened(screen_ring[entry % screens], of_warp, sums, reach2, d, limit, of_pair);
                if (seen.matters && lane == 0) needed[entry % 2] = entry;
            }
            __syncthreads();
            if (needed[entry % 2] == entry) begin_copy(exact_ring[entry % exacts], block_of(entry).exact);
            copy_async_commit();
            return seen;
        };
        fetch_screen(0);
        fetch_screen(1);
        copy_async_wait<1>();
        __syncthreads();
        Seen seen = look(0);
        fetch_screen(2);
#pragma unroll 1
        for (int entry = 0; entry < entries; entry++) {
            copy_async_wait<2>();  // all but the operands of this entry and the screen after the next one
            __syncthreads();
            const bool is_needed = needed[entry % 2] == entry;
            const Seen next = look(entry + 1);
            fetch_screen(entry + 3);
            if (is_needed) {
                copy_async_wait<3>();
                __syncthreads();
                const Exact<depth>& block = exact_ring[entry % exacts];
                const int first_column = number_of(entry) * block_rows;
                const bool diagonal = own_out && first_row < first_column + block_rows && first_column < first_row + queries;
                const int own_row = computed_here(first_row) + g;
                const double* const y[2] = {Y + (long long)min(own_row, m - 1) * d,
                                            Y + (long long)min(own_row + 8, m - 1) * d};
                double* const to = moments_of_lane();
                unsigned left = seen.matters;
                float most[2];  // of a sum, that a pair by products may be
                const float reach2 = box[warp][2 * box_axes + 1];
                const auto take = [&](unsigned asking) {  // by differences
#pragma unroll 1
                    for (; asking; asking &= asking - 1) {
                        const int even = 8 * (__ffs(asking) - 1) + 2 * t;
                        const double weights[2] = {block.weights[even], block.weights[even + 1]};
                        const double* const x[2] = {X + (long long)min(first_column + even, n - 1) * d,
                                                    X + (long long)min(first_column + even + 1, n - 1) * d};
                        const int behind = own_out ? first_column + even - first_row - g : queries;  // of the diagonal
                        const bool own[4] = {behind == 0, behind == -1, behind == 8, behind == 7};
                        add_by_differences(sums, y, x, weights, own, to, d, scale);
                    }
                };
                // What asks for differences comes first. References may rise, and then more does.
#pragma unroll 1
                while (left) {
                    bool coarse = diagonal;
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const Level level = level_of(sums, r);
                        const float far2 = seen.far2[r], far = sqrtf(far2), radius2 = float(block.radius2);
                        const float off = rounding_of(reach2, far), log_mass = float(block.most_weight) + 6;
                        const bool near = is_near(level, far, off, sqrtf(radius2), log_mass, d, limit);
                        const float exponent = -level.reference - level.known - 2 * most_bits;
                        const bool serves = far2 <= largest_operand * largest_operand && radius2 < unbounded;
                        const float ratio = (far2 + radius2) / fmaxf(good, good_of_exponent * exponent);
                        coarse |= near && !(serves && ratio <= most_ratio);
                        most[r] = !near ? 0 : ratio > 1 ? 1 / (ratio * ratio) : 1;
                    }
                    const unsigned asking = __any_sync(~0u, coarse) ? left : left & seen.large;
                    left &= ~asking;
                    if (!asking) break;
                    take(asking);
                }
                if (left) take(add_by_products(sums, block, y, most, left, to, d, scale));
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (exponent_of(sums.total[r]) > most_known) raise(sums, r, exponent_of(sums.total[r]), to);
            }
            seen = next;
        }
        copy_async_wait<0>();
        __syncthreads();
    }
    if (!some || t != 0) return;
    const long long place = place_of_lane();
#pragma unroll
    for (int r = 0; r < 2; r++) {
        R[place + 8 * r] = sums.reference[r];
        S[place + 8 * r] = sums.total[r] + 0 * references[first_row + g + 8 * r];  // perhaps NaN
        if constexpr (laplace) T[place + 8 * r] = sums.factored[r];
    }
}
