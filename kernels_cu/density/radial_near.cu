// Sums of radial.cu for kernels of bounded support, over the blocks of 64 data that 64 neighbouring queries reach. Nothing
// else adds anything: what a box says of a distance is a lower bound with rounding in it, so no pair that counts is left out.
//
//   X, Y, log_weights       as in radial.cu, but in order (radial_blocks.cu)
//   X_low, X_high           (d, data blocks)   REAL       boxes of data
//   groups_low, groups_high (d, groups)        REAL       boxes of 256 blocks of data (radial_groups.cu)
//   Y_low, Y_high           (d, query blocks)  REAL       boxes of queries
//   order                   (m,)               long long  where each query stands in the results
//   reference, total        (splits, m)        double     zeros, and the sums S_i
//
// One block owns 64 queries and every so many blocks of data, one in as many as there are splits, so that those which a
// query reaches are shared by all splits: grid x over queries, z over splits. Of a group that is near 256 boxes are looked
// at at once, a thread a box; then all threads go through the blocks of data that are near, tile by tile. A warp, which has
// eight of the queries, adds nothing where these are too far from the tile's box along the first CHUNK dimensions. The order
// of sums does not depend on time: every run gives the same bits.
//
// Barriers: two for a group that is near, and those of the tiles; all threads of a block pass all of them.
//
// Macros: KERNEL, KIND, REAL, STORAGE and CHUNK as in radial.cu.
#include "radial.cuh"

constexpr int warps = threads / 32;  // and a group has as many blocks as a block of threads has threads
constexpr int queries_of_warp = 8;  // a lane each, four times: for other dimensions
constexpr int dimensions_at_once = 32 / queries_of_warp;
constexpr int dimensions_of_lane = CHUNK / dimensions_at_once;

// Whether a point of a box may be within a bandwidth of one of another.
__device__ inline bool reach(const Boxes& x, int a, const Boxes& y, int b, const Pass& pass) {
    return !(squared_gap(x, a, y, b, pass.d) * pass.scale > pass.edge_to);
}

// The box of a warp's queries along the first CHUNK dimensions; a lane has one in four of these.
struct OfWarp {
    Real low[dimensions_of_lane], high[dimensions_of_lane];

    __device__ void find(const Pass& pass, long long first_query) {
        const int lane = threadIdx.x % 32;
        const long long row = first_query + threadIdx.x / 32 * queries_of_warp + lane % queries_of_warp;
        const long long query = row < pass.m ? row : pass.m - 1;
#pragma unroll
        for (int s = 0; s < dimensions_of_lane; s++) {
            const int k = s * dimensions_at_once + lane / queries_of_warp;
            const Real y = k < pass.d ? pass.Y[query * pass.d + k] * pass.unit : Real(0);
            low[s] = least_over_lanes<queries_of_warp>(y);
            high[s] = largest_over_lanes<queries_of_warp>(y);
        }
    }

    __device__ bool reaches(const Boxes& x, int a, const Pass& pass) const {
        Real distance = 0;
#pragma unroll
        for (int s = 0; s < dimensions_of_lane; s++) {
            const int k = s * dimensions_at_once + threadIdx.x % 32 / queries_of_warp;
            if (k >= pass.d) continue;
            const long long p = x.place(k, a);
            const Real gap = gap_of(x.low[p], x.high[p], low[s], high[s]);
            distance = multiply_add(gap, gap, distance);
        }
#pragma unroll
        for (int step = queries_of_warp; step < 32; step *= 2) distance += __shfl_xor_sync(~0u, distance, step);
        return !(distance * pass.scale > pass.edge_to);
    }
};

extern "C" __global__ void __launch_bounds__(threads, blocks_at_least)
KERNEL(const Storage* __restrict__ X, const Storage* __restrict__ Y, const double* __restrict__ log_weights,
       const Real* __restrict__ X_low, const Real* __restrict__ X_high, const Real* __restrict__ groups_low,
       const Real* __restrict__ groups_high, const Real* __restrict__ Y_low, const Real* __restrict__ Y_high,
       const long long* __restrict__ order, double* __restrict__ reference, double* __restrict__ total, long long n,
       long long m, int d, Storage unit, Real scale, double squared_h, Real edge_from, Real edge_to) {
    __shared__ TileMemory staged;
    __shared__ unsigned near_boxes[warps];
    const Pass pass = {X, Y, log_weights, n, m, d, unit, scale, squared_h, edge_from, edge_to};
    const int data_blocks = int((n + tile - 1) / tile), count = (data_blocks + threads - 1) / threads;
    const Boxes data = {X_low, X_high, data_blocks}, groups = {groups_low, groups_high, count};
    const Boxes queries = {Y_low, Y_high, int(gridDim.x)};
    const long long first_query = (long long)blockIdx.x * tile;

    OfWarp of_warp;
    of_warp.find(pass, first_query);
    Sums sums;
    sums.begin(0);
    bool first = true;
    for (int group = 0; group < count; group++) {
        if (!reach(groups, group, queries, blockIdx.x, pass)) continue;
        const int base = group * threads, own = base + threadIdx.x;
        const bool near =
            own < data_blocks && own % gridDim.z == blockIdx.z && reach(data, own, queries, blockIdx.x, pass);
        const unsigned votes = __ballot_sync(~0u, near);
        __syncthreads();  // all have read the last boxes
        if (threadIdx.x % 32 == 0) near_boxes[threadIdx.x / 32] = votes;
        __syncthreads();
        for (int w = 0; w < warps; w++) {
            for (unsigned left = near_boxes[w]; left; left &= left - 1) {
                const int b = base + w * 32 + __ffs(left) - 1;
                const bool reaches = of_warp.reaches(data, b, pass);
                add_tile(sums, staged, pass, (long long)b * tile, n, first_query, first, reaches);
                first = false;
            }
        }
    }
    sums.share();
    sums.write(reference, total, first_query, m, order);
}
