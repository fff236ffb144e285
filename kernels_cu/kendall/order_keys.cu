// Unsigned keys in the order of the values of any type, equal where the values are, NaN last:
//
//   values  (columns, n)  WORD                the bits of the values
//   keys    (columns, n)  unsigned long long  of 64-bit values the key; of shorter ones the key in the high word and
//                                             the position in the column in the low one, so that keys are distinct
//
// Floating point: a negative number has its bits flipped and any other its sign bit, so that the bits have the order of
// the numbers; -0 becomes 0 before, and NaN is all ones. Signed integers have the sign bit flipped. A block takes
// 2,048 values of a column; grid: x over these parts of all columns. No barriers.
//
// Macros: WORD, the unsigned type of the size of a value.
enum Kind { FLOATING, SIGNED, UNSIGNED };

using Word = WORD;

constexpr int threads = 256;
constexpr int part = 2048;  // values of a block
constexpr int bits = 8 * sizeof(Word);
constexpr Word sign = Word(1) << (bits - 1);

// `infinity`: the bits of infinity where values are floating point.
__device__ inline Word key_of(Word value, int kind, Word infinity) {
    if (kind == UNSIGNED) return value;
    if (kind == SIGNED) return value ^ sign;
    const Word magnitude = value & Word(~sign);
    if (magnitude > infinity) return Word(~Word(0));
    if (magnitude == 0) return sign;
    return value & sign ? Word(~value) : Word(value | sign);
}

extern "C" __global__ void __launch_bounds__(threads)
order_keys(const Word* __restrict__ values, unsigned long long* __restrict__ keys, long long n, int parts, int kind,
           unsigned long long infinity) {
    const int column = blockIdx.x / parts;
    const long long begin = (long long)(blockIdx.x % parts) * part, end = begin + part < n ? begin + part : n;
    values += column * n;
    keys += column * n;
    for (long long i = begin + threadIdx.x; i < end; i += threads) {
        const Word key = key_of(values[i], kind, Word(infinity));
        if constexpr (bits == 64) keys[i] = key;
        else keys[i] = (unsigned long long)key << 32 | unsigned(i);
    }
}
