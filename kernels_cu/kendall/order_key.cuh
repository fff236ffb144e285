// An unsigned key in the order of the values of a type, equal where the values are, NaN last.
//
// Floating point: a negative number has its bits flipped and any other its sign bit, so that the bits have the order of
// the numbers; -0 becomes 0 before, and NaN is all ones. Signed integers have the sign bit flipped.
#pragma once

enum Kind { FLOATING, SIGNED, UNSIGNED };

// Of the bits of a value; `infinity`: those of infinity where values are floating point.
template <typename Word>
__device__ inline Word order_key(Word value, int kind, Word infinity) {
    constexpr Word sign = Word(Word(1) << (8 * sizeof(Word) - 1));
    if (kind == UNSIGNED) return value;
    if (kind == SIGNED) return value ^ sign;
    const Word magnitude = value & Word(~sign);
    if (magnitude > infinity) return Word(~Word(0));
    if (magnitude == 0) return sign;
    return value & sign ? Word(~value) : Word(value | sign);
}
