// Unsigned keys in the order of the values of any type, equal where the values are, NaN last:
//
//   values  (columns, n)  WORD                the bits of the values
//   keys    (columns, n)  unsigned long long  of 64-bit values the key; of shorter ones the key in the high word and
//                                             the position in the column in the low one, so that keys are distinct
//
// Keys are those of order_key.cuh. A block takes 2,048 values of a column; grid: x over these parts of all columns. No
// barriers.
//
// Macros: WORD, the unsigned type of the size of a value.
#include "order_key.cuh"

using Word = WORD;

constexpr int threads = 256;
constexpr int part = 2048;  // values of a block

extern "C" __global__ void __launch_bounds__(threads)
order_keys(const Word* __restrict__ values, unsigned long long* __restrict__ keys, long long n, int parts, int kind,
           unsigned long long infinity) {
    const int column = blockIdx.x / parts;
    const long long begin = (long long)(blockIdx.x % parts) * part, end = begin + part < n ? begin + part : n;
    values += column * n;
    keys += column * n;
    for (long long i = begin + threadIdx.x; i < end; i += threads) {
        const Word key = order_key(values[i], kind, Word(infinity));
        if constexpr (sizeof(Word) == 8) keys[i] = key;
        else keys[i] = (unsigned long long)key << 32 | unsigned(i);
    }
}
