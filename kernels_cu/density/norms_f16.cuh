// Norms of the float16 engine. A matrix product, the first into an accumulator, adds the norms there, so that no
// separate addition is needed.
//
// A norm is kept as 8 float16 numbers. These are the right operand of a data row j. The left operand of a query i has
// the first and the last four exchanged, and a constant where both have a 1:
//
//   right   n1 n2 n3 1    1  1  1  1     norm = n1 + n2 + n3, each the float16 of the remainder
//   left    1  1  1  c1   n1 n2 n3 c2    constant = c1 + c2
//
// Their product is norm_i + norm_j + constant. Multiples of 2^-14 below 1024 add up without error.
#pragma once

// The norm of a row that does not exist, and of lower norms: 2^no_norm is zero, and no_norm is a float16 number.
constexpr float no_norm = -60000;

// The 8 float16 numbers of a norm, which is at least no_norm.
__device__ inline uint4 norm_terms(double norm) {
    float term[3], nothing;
#pragma unroll
    for (float& part : term) {
        unpack_f16(pack_f16(float(norm), 0), part, nothing);
        norm -= part;
    }
    const unsigned ones = pack_f16(1, 1);
    return make_uint4(pack_f16(term[0], term[1]), pack_f16(term[2], 1), ones, ones);
}

// Put part 1 or 2 of a constant into a pair (n3, 1) or (1, 1) of these numbers.
__device__ inline unsigned with_constant(unsigned pair, float constant, int part) {
    float c1, nothing;
    unpack_f16(pack_f16(constant, 0), c1, nothing);
    return (pair & 0xffffu) | pack_f16(0, part == 1 ? c1 : constant - c1);
}

// Pair t of the left operand.
__device__ inline unsigned left_norm_pair(const uint4* norm, int t, float constant) {
    const unsigned pair = reinterpret_cast<const unsigned*>(norm)[t ^ 2];
    return t % 2 ? with_constant(pair, constant, t / 2 + 1) : pair;
}
