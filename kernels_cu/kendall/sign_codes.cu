// Ranks as float16 numbers in the same order, so that signs.cu can compare two pairs of them in one instruction.
//
//   code(r) = the float16 number whose bits, without the sign, are |r - 31743|, and whose sign is that of r - 31743
//
// Bits of finite float16 numbers are in the order of their magnitudes, so codes of 0 .. 63486 are all finite numbers
// but -0, ascending, and differences of different codes are not zero (denormal ones included).
//
//   x       (p, stride)        uint32   ranks; a row's first n are looked at
//   y       (q, stride)        uint32   or null
//   source  (rows,)            int32    row r of the codes is row source[r] of x or, from p on, of y; -1: no row
//   codes   (blocks, rows, 32) uint16   samples 32 b .. of row r; 0 past n and for no row
//
// One warp for each row and block of samples; grid: x over blocks of 8 rows, y over blocks of samples. No barriers.
constexpr int threads = 256;
constexpr int middle = 31743;  // bits of the largest finite float16 number

extern "C" __global__ void __launch_bounds__(threads)
sign_codes(const unsigned* __restrict__ x, const unsigned* __restrict__ y, const int* __restrict__ source,
           unsigned short* __restrict__ codes, int p, int rows, int n, long long stride) {
    const int row = blockIdx.x * (threads / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const int sample = blockIdx.y * 32 + threadIdx.x % 32, from = source[row];
    unsigned short code = 0;
    if (from >= 0 && sample < n) {
        const int rank = int(from < p ? x[from * stride + sample] : y[(from - p) * stride + sample]);
        code = rank < middle ? 0x8000 | (middle - rank) : rank - middle;
    }
    codes[((long long)blockIdx.y * rows + row) * 32 + threadIdx.x % 32] = code;
}
