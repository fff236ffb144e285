// All inline PTX of the library: one device function an instruction.
#pragma once

// 2^x to 2 units in the last place; denormal results are zero.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#if __CUDA_ARCH__ >= 800
// The bits of x rounded to TF32: to nearest, ties away from zero.
__device__ inline unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// C += A B on one warp, C 16 x 8, A 16 x 8, B 8 x 8. With g = lane / 4 and t = lane % 4 a lane holds
//   a: (g, t) (g+8, t) (g, t+4) (g+8, t+4)    b: (t, g) (t+4, g)    c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
__device__ inline void mma_tf32_m16n8k8(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
