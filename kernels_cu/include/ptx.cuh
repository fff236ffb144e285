// All inline PTX of the library: one device function an instruction.
//
// Fragments of a matrix lie over the 32 lanes of a warp as the PTX manual says; below, g = lane / 4, t = lane % 4.
#pragma once

// 2^x to 2 units in the last place; denormal results are zero.
__device__ inline float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two float16 numbers in a register, `low` in its low half, each rounded to nearest; beyond 65504 they are infinite.
__device__ inline unsigned pack_f16(float low, float high) {
    unsigned packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ inline void unpack_f16(unsigned packed, float& low, float& high) {
    asm("{ .reg .b16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h; }"
        : "=f"(low), "=f"(high)
        : "r"(packed));
}

// A bfloat16 number is the upper half of a float's bits.
__device__ inline void unpack_bf16(unsigned packed, float& low, float& high) {
    low = __uint_as_float(packed << 16);
    high = __uint_as_float(packed & 0xffff0000u);
}

// Add to memory, atomically, without asking for the value before.
__device__ inline void add_global(float* p, float a) {
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(a) : "memory");
}

// The same for four neighbours; p is aligned to 16 bytes.
__device__ inline void add_global_4(float* p, float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
#else
    add_global(p, a);
    add_global(p + 1, b);
    add_global(p + 2, c);
    add_global(p + 3, d);
#endif
}

#if __CUDA_ARCH__ >= 800
// The bits of x rounded to TF32: to nearest, ties away from zero.
__device__ inline unsigned to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// C += A B on one warp, C 16 x 8, A 16 x 8, B 8 x 8. A lane holds
//   a: (g, t) (g+8, t) (g, t+4) (g+8, t+4)    b: (t, g) (t+4, g)    c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
__device__ inline void mma_tf32_m16n8k8(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// D = A B + C on one warp, C and D 16 x 8 in float32, A 16 x 16 and B 16 x 8 in float16, two to a register (the
// lower column of A, the lower row of B in the low half). A lane holds
//   a: (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8)    b: (2t, g) (2t+8, g)    c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
__device__ inline void mma_f16_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                        const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// C += A B
__device__ inline void mma_f16_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// D = A B + C on one warp, C and D 16 x 8 in float32, A 16 x 8 and B 8 x 8 in float16. A lane holds
//   a: (g, 2t) (g+8, 2t)    b: (2t, g)    c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
__device__ inline void mma_f16_m16n8k8(float (&d)[4], const unsigned (&a)[2], unsigned b, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Two bfloat16 numbers in a register, `low` in its low half, each rounded to nearest; beyond 3.3895e38 they are infinite.
__device__ inline unsigned pack_bf16(float low, float high) {
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// C += A B as above, A and B in bfloat16.
__device__ inline void mma_bf16_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The transpose of an 8 x 8 matrix of 16-bit elements; a lane holds (g, 2t) and (g, 2t+1).
__device__ inline unsigned transpose_8x8(unsigned a) {
    unsigned transposed;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(a));
    return transposed;
}

// Four 8 x 8 matrices of 16-bit elements from shared memory. Lane 8 q + r brings the address of row r of matrix q,
// 16 bytes aligned to 16; r[q] holds (g, 2t) and (g, 2t+1) of matrix q.
__device__ inline void load_matrices(unsigned (&r)[4], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(unsigned(__cvta_generic_to_shared(shared)))
                 : "memory");
}

// Two such matrices, their rows from lanes 0 to 15.
__device__ inline void load_matrices(unsigned (&r)[2], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(unsigned(__cvta_generic_to_shared(shared)))
                 : "memory");
}

// Four, each transposed: r[q] holds (2t, g) and (2t+1, g).
__device__ inline void load_matrices_transposed(unsigned (&r)[4], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(unsigned(__cvta_generic_to_shared(shared)))
                 : "memory");
}

// Begin to copy 16 bytes to shared memory, past the registers; both addresses are aligned to 16 bytes.
__device__ inline void copy_async_16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unsigned(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
}

// The thread's copies since the last call are one group.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait until all of the thread's groups but the last n are there. Other threads see them after a barrier.
template <int n>
__device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}
#endif
