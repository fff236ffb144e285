// Morton codes: points whose codes are near each other are near each other along a few axes.
//
//   X       (n, d)      STORAGE   points
//   centre  (d,)        double    origin of the axes
//   axes    (k, d)      float     directions, k of at most 5
//   edges   (k, 257)    float     edges of 256 intervals along each axis, ascending; outside counts as the nearest
//   codes   (n,)        unsigned  bits of the positions along the axes, interleaved, `bits` of each; above them, in two bits,
//                                 how many of `fine_square` and `most_square` the squared distance to the centre, times
//                                 scale^2, is beyond: points that take other kernels have blocks of their own
//
// A position is the number of the interval, and between its edges it is linear: quantiles of a sample as edges make
// positions nearly uniform, whatever the distribution.
//
// One thread a point. Shared memory: the edges. One barrier.
constexpr int threads = 256;
constexpr int intervals = 256;
constexpr int most_axes = 5;
constexpr float most_local = 31;  // as in skipping_points.cu

extern "C" __global__ void __launch_bounds__(threads)
    morton_codes(const STORAGE* __restrict__ X, const double* __restrict__ centre, const float* __restrict__ axes,
                 const float* __restrict__ edges, unsigned* __restrict__ codes, long long n, int d, int k, int bits,
                 float fine_square, float most_square, float scale) {
    __shared__ float edge[most_axes][intervals + 1];
    for (int i = threadIdx.x; i < k * (intervals + 1); i += threads)
        edge[i / (intervals + 1)][i % (intervals + 1)] = edges[i];
    __syncthreads();
    const long long i = (long long)blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;

    float along[most_axes] = {}, square = 0, largest = 0;
    for (int j = 0; j < d; j++) {
        const float x = float(X[i * d + j] - centre[j]);
        square = fmaf(x * scale, x * scale, square);
        largest = fmaxf(largest, fabsf(x * scale));
#pragma unroll
        for (int a = 0; a < most_axes; a++)
            if (a < k) along[a] = fmaf(x, axes[a * d + j], along[a]);
    }
    unsigned place[most_axes];
#pragma unroll
    for (int a = 0; a < most_axes; a++) {
        if (a >= k) continue;
        int low = 0;
#pragma unroll
        for (int step = intervals / 2; step > 0; step /= 2)
            if (along[a] >= edge[a][low + step]) low += step;
        const float width = edge[a][low + 1] - edge[a][low];
        const float part = width > 0 ? fminf(fmaxf((along[a] - edge[a][low]) / width, 0.0f), 0.999f) : 0.0f;
        place[a] = unsigned((low + part) * (float(1u << bits) / intervals));
    }
    unsigned code = 0;
    for (int bit = bits - 1; bit >= 0; bit--) {
#pragma unroll
        for (int a = 0; a < most_axes; a++)
            if (a < k) code = code << 1 | (place[a] >> bit & 1);
    }
    const bool far = square > most_square || (largest > most_local && most_square < 1e30f);
    codes[i] = code | (far ? 2u : square > fine_square ? 1u : 0u) << 30;
}
