// Epilogue of sign_products.cu: concordant and discordant pairs from its sums, in the order of the caller's rows.
//
// a and b are the rows of the products for row i of x and row k of y, N = n (n - 1) / 2:
//
//   a, b untied   C - D = sum_ab (+ N - 2 |g_a| - 2 |g_b| of signs in bits), C + D = N
//   else          C - D = sum_ab, C + D = magnitudes_ab
//
// In bits untied rows have sum_ab = 4 g_a g_b, and s = 2 g - 1.
//
//   sums, magnitudes    (.., width)  int64   of sign_products.cu; magnitudes null: no row has ties
//   ascents             (rows,)      uint64  |g| of signs.cu; null: signs are bytes
//   place_x, place_y    (p,), (q,)   int32   a of i, b of k
//   concordant, discordant  (p, q)   int64
//
// Rows a < untied_rows and columns b < untied_columns are untied; b is row first_column + b of the signs. If y is x, only
// sums on or above the diagonal, a <= b, exist. One thread for each element, no barriers.
constexpr int threads = 256;

extern "C" __global__ void __launch_bounds__(threads)
finish_sign_products(const long long* __restrict__ sums, const long long* __restrict__ magnitudes,
                     const unsigned long long* __restrict__ ascents, const int* __restrict__ place_x,
                     const int* __restrict__ place_y, long long* __restrict__ concordant,
                     long long* __restrict__ discordant, int p, int q, long long width, int untied_rows,
                     int untied_columns, int first_column, int symmetric, long long all_pairs) {
    const long long at = (long long)blockIdx.x * threads + threadIdx.x;
    if (at >= (long long)p * q) return;
    int a = place_x[at / q], b = place_y[at % q];
    if (symmetric && a > b) {
        const int row = a;
        a = b;
        b = row;
    }
    const bool none_tied = a < untied_rows && b < untied_columns;
    long long sum = sums[a * width + b];
    if (none_tied && ascents) sum += all_pairs - 2 * (long long)(ascents[a] + ascents[first_column + b]);
    const long long untied = none_tied ? all_pairs : magnitudes[a * width + b];
    concordant[at] = (untied + sum) / 2;
    discordant[at] = (untied - sum) / 2;
}
