// The device functions of kernels_cu/include/ptx.cuh in plain C++, by the fragment layouts of the PTX manual.
//
// A matrix operation is a warp collective: every lane brings pointers to its fragments, and the last lane to
// arrive gathers them into matrices, multiplies and scatters the result (fibers.hpp: collective).
#pragma once

// ex2.approx.ftz.f32
inline float exp2_approx(float x) { return exp2f(x); }

// cvt.rna.tf32.f32: to nearest, ties away from zero
inline unsigned to_tf32(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }

struct MmaTf32Fragments {
    float* c;
    const unsigned *a, *b;
};

// What the tensor core reads of a float32 register as TF32.
inline double tf32_value(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }

// C (16 x 8) += A (16 x 8) B (8 x 8). With g = lane / 4 and t = lane % 4 a lane holds
// a: (g, t) (g+8, t) (g, t+4) (g+8, t+4);  b: (t, g) (t+4, g);  c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1).
inline void mma_tf32_m16n8k8(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], EMULATION_SITE) {
    MmaTf32Fragments own{c, a, b};
    ::emulation::collective(
        "mma_tf32_m16n8k8", {file, line}, 0xffffffffu, own, [](unsigned, MmaTf32Fragments* const* lanes) {
            double A[16][8], B[8][8], C[16][8];
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                for (int i = 0; i < 4; i++) A[g + 8 * (i % 2)][t + 4 * (i / 2)] = tf32_value(lanes[l]->a[i]);
                for (int i = 0; i < 2; i++) B[t + 4 * i][g] = tf32_value(lanes[l]->b[i]);
                for (int i = 0; i < 4; i++) C[g + 8 * (i / 2)][2 * t + i % 2] = lanes[l]->c[i];
            }
            for (int row = 0; row < 16; row++)
                for (int k = 0; k < 8; k++)
                    for (int column = 0; column < 8; column++) C[row][column] += A[row][k] * B[k][column];
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                for (int i = 0; i < 4; i++) lanes[l]->c[i] = float(C[g + 8 * (i / 2)][2 * t + i % 2]);
            }
        });
}
