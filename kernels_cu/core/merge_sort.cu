// Stable merge sort of segments. With COUNT also the number of inversions of each, pairs i < j with keys[i] > keys[j]:
//
//   keys        (segments, n)  KEY                 unsigned
//   order       (segments, n)  uint32              with ORDER: original position of a key in its segment; else null
//   inversions  (segments,)    unsigned long long  with COUNT: the counts are added; else null
//
// sort_tiles sorts each tile of a segment in place. merge_runs merges each two neighbouring runs of `run` tiles, from one
// array to another; t tiles take log2(t) launches, rounded up. A block owns one tile of its output, 16 keys for each
// thread; grid: x over tiles of all segments. A key of the right run goes before all remaining keys of the left run: each
// of these is an inversion. Barriers: around each use of the tile in shared memory; all threads pass them.
//
// Past the end of a segment a tile is filled up with the largest key. Merges are stable, so the filling stays last, behind
// equal keys that count.
//
// Threads divide a merge by merge path: Green, McColl and Bader, GPU merge path, ICS 2012.
//
// Macros: KEY, unsigned int or unsigned long long; ORDER and COUNT, 0 or 1; THREADS of a block, at least 64.
#include "block_sum.cuh"

using Key = KEY;

constexpr int items = 16;  // of a thread
constexpr int tile = THREADS * items;

// Blocks of a multiprocessor, as many as registers do for on every architecture.
constexpr int blocks_at_least = (ORDER ? 768 : 1024) / THREADS;

constexpr Key largest = ~Key(0);

// Position of key i in shared memory: threads 16 keys apart have no bank conflicts.
__host__ __device__ constexpr unsigned place(unsigned i) { return i + i / unsigned(128 / sizeof(Key)); }

constexpr int places = place(tile) + 1;  // a merge reads one key too far

// Number of keys from the left run among the first d keys of the merge of two runs.
__device__ inline int split(const Key* keys, int left, int left_size, int right, int right_size, int d) {
    int low = d > right_size ? d - right_size : 0, high = d < left_size ? d : left_size;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (keys[place(left + middle)] <= keys[place(right + d - 1 - middle)]) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The same in global memory, by a warp: 32 probes a step.
__device__ inline long long split(const Key* left, long long left_size, const Key* right, long long right_size,
                                  long long d) {
    long long low = d > right_size ? d - right_size : 0, high = d < left_size ? d : left_size;
    while (low < high) {
        const long long step = (high - low + 31) / 32, probe = low + (threadIdx.x % 32 + 1) * step - 1;
        const unsigned from_left = __ballot_sync(~0u, probe < high && left[probe] <= right[d - 1 - probe]);
        low += (32 - __clz(from_left)) * step;  // it is of the first probes that it is true
        high = low + step - 1 < high ? low + step - 1 : high;
    }
    return low;
}

// The thread's 16 keys of a merge, from the d-th on; taken(k, i) is called if the k-th was key i. Return the inversions
// that they undo. The left run has `left_remaining` keys from `left` on, perhaps not all in this tile.
template <typename Taken>
__device__ inline unsigned long long merge(const Key* keys, int left, int left_size, int right, int right_size, int d,
                                           long long left_remaining, Key (&merged)[items], const Taken& taken) {
    const int from_left_before = split(keys, left, left_size, right, right_size, d);
    const int left_end = left + left_size, right_end = right + right_size, right_begin = right + d - from_left_before;
    int i = left + from_left_before, j = right_begin;
    Key a = keys[place(i)], b = keys[place(j)];
    int passed = 0;
#pragma unroll
    for (int k = 0; k < items; k++) {
        const bool from_left = j == right_end || (i < left_end && a <= b);
        const int source = from_left ? i : j;
        merged[k] = from_left ? a : b;
        taken(k, source);
        if (COUNT && !from_left) passed += i - left;
        i = from_left ? source + 1 : i;
        j = from_left ? j : source + 1;
        const Key next = keys[place(source + 1)];
        a = from_left ? next : a;
        b = from_left ? b : next;
    }
    // Each key of the right run goes before all keys of the left run except those already merged.
    return COUNT ? (j - right_begin) * left_remaining - passed : 0;
}

// Load a tile of keys to shared memory, key i from key_at(i), with eight loads of a thread in flight.
template <typename KeyAt>
__device__ inline void load(Key* shared, int size, const KeyAt& key_at) {
#pragma unroll
    for (int half = 0; half < tile; half += tile / 2) {
        Key held[items / 2];
#pragma unroll
        for (int k = 0; k < items / 2; k++) {
            const int i = half + k * THREADS + threadIdx.x;
            held[k] = i < size ? key_at(i) : largest;
        }
#pragma unroll
        for (int k = 0; k < items / 2; k++) shared[place(half + k * THREADS + threadIdx.x)] = held[k];
    }
}

// Add what the threads counted to a segment's inversions.
__device__ inline void count(unsigned long long counted, unsigned long long* inversions) {
    const unsigned long long sum = block_sum<THREADS>(counted);
    if (threadIdx.x == 0 && sum > 0) atomicAdd(inversions, sum);
}

extern "C" __global__ void __launch_bounds__(THREADS, blocks_at_least)
sort_tiles(Key* keys, unsigned* order, unsigned long long* inversions, long long n, int tiles) {
    __shared__ Key shared[places];
#if ORDER
    __shared__ unsigned short shared_order[places];
#endif
    const int segment = blockIdx.x / tiles;
    const long long begin = (long long)(blockIdx.x % tiles) * tile, first = segment * n + begin;
    const int size = n - begin < tile ? int(n - begin) : tile, own = threadIdx.x * items;

    load(shared, size, [=](int i) { return keys[first + i]; });
    __syncthreads();
    Key sorted[items];
    int came_from[items];
#pragma unroll
    for (int k = 0; k < items; k++) {
        sorted[k] = shared[place(own + k)];
        came_from[k] = own + k;
    }

    // Sort sixteen keys by exchanges of neighbours; each exchange undoes one inversion.
    unsigned long long counted = 0;
#pragma unroll
    for (int round = 0; round < items; round++) {
#pragma unroll
        for (int k = round % 2; k + 1 < items; k += 2) {
            const bool exchange = sorted[k] > sorted[k + 1];
            const Key low = exchange ? sorted[k + 1] : sorted[k], high = exchange ? sorted[k] : sorted[k + 1];
            sorted[k] = low;
            sorted[k + 1] = high;
            if (ORDER) {
                const int of_low = exchange ? came_from[k + 1] : came_from[k];
                came_from[k + 1] = exchange ? came_from[k] : came_from[k + 1];
                came_from[k] = of_low;
            }
            if (COUNT) counted += exchange;
        }
    }

    for (int run = items;; run *= 2) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < items; k++) {
            shared[place(own + k)] = sorted[k];
#if ORDER
            shared_order[place(own + k)] = came_from[k];
#endif
        }
        __syncthreads();
        if (run == tile) break;
        const int left = own & -2 * run;
        const auto follow = [&](int k, int source) {
#if ORDER
            came_from[k] = shared_order[place(source)];
#endif
        };
        counted += merge(shared, left, run, left + run, run, own - left, run, sorted, follow);
    }
    for (int i = threadIdx.x; i < size; i += THREADS) {
        keys[first + i] = shared[place(i)];
#if ORDER
        order[first + i] = unsigned(begin) + shared_order[place(i)];
#endif
    }
    if (COUNT) count(counted, inversions + segment);
}

extern "C" __global__ void __launch_bounds__(THREADS, blocks_at_least)
merge_runs(const Key* __restrict__ keys, const unsigned* __restrict__ order, Key* __restrict__ merged,
           unsigned* __restrict__ merged_order, unsigned long long* __restrict__ inversions, long long n, int tiles,
           int run) {
    __shared__ Key shared[places];
    __shared__ long long splits[2];
    const int segment = blockIdx.x / tiles, own_tile = blockIdx.x % tiles, left_tile = own_tile & -2 * run;
    const long long begin = (long long)left_tile * tile, length = (long long)run * tile;
    const long long left_size = n - begin < length ? n - begin : length;
    const long long right_size = n - begin - left_size < length ? n - begin - left_size : length;
    const Key* const left = keys + segment * n + begin;
    const Key* const right = left + left_size;

    // The part of each run in this tile.
    const long long d = (long long)(own_tile - left_tile) * tile;
    const int size = left_size + right_size - d < tile ? int(left_size + right_size - d) : tile;
    if (threadIdx.x < 64) {
        const long long from_left = split(left, left_size, right, right_size, threadIdx.x < 32 ? d : d + size);
        if (threadIdx.x % 32 == 0) splits[threadIdx.x / 32] = from_left;
    }
    __syncthreads();
    const long long left_begin = splits[0], right_begin = d - left_begin;
    const int of_left = int(splits[1] - left_begin);
    const long long in_left = left_begin, in_right = left_size + right_begin - of_left;  // of i = 0
    load(shared, size, [=](int i) { return left[(i < of_left ? in_left : in_right) + i]; });
    __syncthreads();

    const int own = threadIdx.x * items;
    Key sorted[items];
    unsigned sources[items / 2] = {};  // two in a word
    const auto note = [&](int k, int source) {
        if (ORDER) sources[k / 2] |= unsigned(source) << 16 * (k % 2);
    };
    const unsigned long long counted =
        merge(shared, 0, of_left, of_left, tile - of_left, own, left_size - left_begin, sorted, note);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < items; k++) shared[place(own + k)] = sorted[k];
    __syncthreads();
    const long long first = segment * n + begin + d;
    for (int i = threadIdx.x; i < size; i += THREADS) merged[first + i] = shared[place(i)];
#if ORDER
    // The order of the runs is read here, where neighbouring results come from two sequences of neighbours.
    order += segment * n + begin;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < items; k++) shared[place(own + k)] = sources[k / 2] >> 16 * (k % 2) & 0xffff;
    __syncthreads();
#pragma unroll 8
    for (int i = threadIdx.x; i < size; i += THREADS) {
        const int from = int(shared[place(i)]);
        merged_order[first + i] = order[(from < of_left ? in_left : in_right) + from];
    }
#endif
    if (COUNT) count(counted, inversions + segment);
}
