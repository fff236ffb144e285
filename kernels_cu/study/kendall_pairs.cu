// Study, not for use: agreement of every column of a with every column of b by float compares of all pairs of samples,
// the kernel gpuKendall of the source, rewritten. cukde.kendall_matrix is measured against it; no public function reaches
// it.
//
//   C   = #{ i < j : a_i < a_j and b_i < b_j, or a_i > a_j and b_i > b_j }     concordant
//   Txy = #{ i < j : a_i = a_j and b_i = b_j }                                tied in both
//   result = (2 (C + Txy) - N) / N,  N = n (n - 1) / 2
//
// Pairs tied in both count as concordant, pairs tied in one as discordant: without ties this is tau; with ties it is
// none of tau-a, tau-b and tau-c.
//
//   a       (p, n)  float   columns, each contiguous
//   b       (q, n)  float
//   result  (q, p)  double
//
// Block (x, y) of a grid (p, q) owns the pair of column x of a and column y of b. Thread (tx, ty) of 16 x 16 takes the
// samples i = tx mod 16 and of each the samples j = i + 1 + ty mod 16, and counts in float, which is exact while no
// thread meets more than 2^24 pairs: for n up to 92,000 (most_samples of the launcher). The source adds the threads'
// counts in float, too, where integers are lost from n = 5,794 on (N > 2^24); here they are added in double.
// Barriers: one before each of the 8 steps of that sum; all threads of a block pass all of them.
//
// The report launches 32 x 32 threads with NUMTHREADS = 16, the stride of both loops and the side of the shared array.
// Then threads 16 apart take the same samples, so that pairs count up to four times, and tx * 16 + ty reaches 527 of
// the array's 256 elements. This kernel is launched with 16 x 16.
constexpr int side = 16;
constexpr int threads = side * side;

extern "C" __global__ void __launch_bounds__(threads)
kendall_pairs(const float* __restrict__ a, const float* __restrict__ b, double* __restrict__ result, long long n) {
    __shared__ double counts[threads];
    a += blockIdx.x * n;
    b += blockIdx.y * n;

    float agreeing = 0.0f;
    for (long long i = threadIdx.x; i < n; i += side) {
        for (long long j = i + 1 + threadIdx.y; j < n; j += side) {
            const int agrees = ((a[j] > a[i]) && (b[j] > b[i])) + ((a[j] < a[i]) && (b[j] < b[i])) +
                               ((a[j] == a[i]) && (b[j] == b[i]));
            agreeing += float(agrees);
        }
    }

    const int thread = threadIdx.x * side + threadIdx.y;
    counts[thread] = agreeing;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) counts[thread] += counts[thread + half];
    }
    if (thread == 0) {
        const double all = 0.5 * double(n) * double(n - 1);
        result[(long long)blockIdx.y * gridDim.x + blockIdx.x] = (2 * counts[0] - all) / all;
    }
}
