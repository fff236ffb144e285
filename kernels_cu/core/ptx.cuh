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

// 1 / x to 1 unit in the last place; denormal numbers, and results, are zero.
__device__ inline float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// a b + c, rounded to nearest, held between 0 and 1; NaN gives 0.
__device__ inline float fma_saturate(float a, float b, float c) {
    float y;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
    return y;
}

// a b + c, rounded down.
__device__ inline float fma_down(float a, float b, float c) {
    float y;
    asm("fma.rm.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
    return y;
}

__device__ inline double fma_down(double a, double b, double c) {
    double y;
    asm("fma.rm.f64 %0, %1, %2, %3;" : "=d"(y) : "d"(a), "d"(b), "d"(c));
    return y;
}

// a >= b of denormal numbers too, which a comparison in C++ takes for zero.
__device__ inline bool at_least(float a, float b) {
    int yes;
    asm("{ .reg .pred p;\n setp.ge.f32 p, %1, %2;\n selp.s32 %0, 1, 0, p; }" : "=r"(yes) : "f"(a), "f"(b));
    return yes;
}

// 16 bytes that are read once, or written and not read: they are kept out of the caches. The address is aligned to 16.
__device__ inline uint4 load_streaming(const void* global) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(global));
    return v;
}

// The same, or zeros without a load where there is nothing at the address: no branch.
__device__ inline uint4 load_streaming_if(bool exists, const void* global) {
    uint4 v = {0, 0, 0, 0};
    asm volatile("{ .reg .pred p;\n setp.ne.s32 p, %5, 0;\n"
                 " @p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(global), "r"(int(exists)));
    return v;
}

__device__ inline void store_streaming(void* global, uint4 v) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// The same, or nothing, without a branch.
__device__ inline void store_streaming_if(bool wanted, void* global, uint4 v) {
    asm volatile("{ .reg .pred p;\n setp.ne.s32 p, %5, 0;\n @p st.global.cs.v4.u32 [%0], {%1, %2, %3, %4}; }" ::"l"(global),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(int(wanted))
                 : "memory");
}

// The same for 8 bytes; the address is aligned to 8.
__device__ inline void store_streaming(void* global, uint2 v) {
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(global), "r"(v.x), "r"(v.y) : "memory");
}

// The device's clock, in nanoseconds; it may stand still for a microsecond.
__device__ inline long long nanoseconds_now() {
    long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// No access to memory is moved past this by the compiler.
__device__ inline void keep_order() { asm volatile("" ::: "memory"); }

// The value, of which the compiler knows nothing: what depends on it is computed after this, in every turn of a loop,
// and not kept in registers from before the loop.
__device__ inline int computed_here(int value) {
    asm volatile("" : "+r"(value));
    return value;
}

// Two float16 numbers in a register, `low` in its low half, each rounded to nearest; beyond 65504 they are infinite.
__device__ inline unsigned pack_f16(float low, float high) {
    unsigned packed;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
#else
    asm("{ .reg .b16 l, h;\n cvt.rn.f16.f32 l, %1;\n cvt.rn.f16.f32 h, %2;\n mov.b32 %0, {l, h}; }"
        : "=r"(packed)
        : "f"(low), "f"(high));
#endif
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

// Differences of two float16 numbers in a register each, to nearest; denormal results are kept, so that only equal
// numbers differ by zero, +0.
__device__ inline unsigned subtract_f16x2(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}

// a b + c of two float16 numbers in a register each, rounded once to nearest; denormal results are kept.
__device__ inline unsigned fma_f16x2(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// A byte of ones for each set sign bit of four 16-bit numbers, in the order low, high of a, low, high of b.
__device__ inline unsigned sign_bytes(unsigned a, unsigned b) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, 0xfdb9;" : "=r"(bytes) : "r"(a), "r"(b));
    return bytes;
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

// D = A B + C on one warp in float64, C and D 8 x 8, A 8 x 4, B 4 x 8. A lane holds
//   a: (g, t)    b: (t, g)    c: (g, 2t) (g, 2t+1)
__device__ inline void mma_f64_m8n8k4(double& d0, double& d1, double a, double b, double c0, double c1) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
        : "=d"(d0), "=d"(d1)
        : "d"(a), "d"(b), "d"(c0), "d"(c1));
}

// The same with C and D 16 x 8, A 16 x 8, B 8 x 8: one instruction from sm_90 on, four before. A lane holds
//   a: (g, t) (g+8, t) (g, t+4) (g+8, t+4)    b: (t, g) (t+4, g)    c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
__device__ inline void mma_f64_m16n8k8(double (&d)[4], const double (&a)[4], double b0, double b1,
                                       const double (&c)[4]) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
#else
#pragma unroll
    for (int r = 0; r < 2; r++) {
        mma_f64_m8n8k4(d[2 * r], d[2 * r + 1], a[r], b0, c[2 * r], c[2 * r + 1]);
        mma_f64_m8n8k4(d[2 * r], d[2 * r + 1], a[r + 2], b1, d[2 * r], d[2 * r + 1]);
    }
#endif
}

// C += A B on one warp, C 16 x 8 in int32, A 16 x 32 and B 32 x 8 in int8, four to a register (the lowest column of A,
// the lowest row of B in the low byte). A lane holds
//   a: (g, 4t) (g+8, 4t) (g, 4t+16) (g+8, 4t+16)    b: (4t, g) (4t+16, g)
//   c: (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
__device__ inline void mma_s8_m16n8k32(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// C += A B as above, A 16 x 256 and B 256 x 8 in bits, 32 to a register: C gains the number of ones that a row of A and
// a column of B share. Native from sm_80 to sm_90; later architectures have a slow replacement. A lane holds
//   a: (g, 32t) (g+8, 32t) (g, 32t+128) (g+8, 32t+128)    b: (32t, g) (32t+128, g)
__device__ inline void mma_b1_m16n8k256(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// D = A B + C in float16, sums rounded to it: C and D 16 x 8, A 16 x 16, B 16 x 8. A register of c and d holds two neighbours:
//   c: (g, 2t) (g+8, 2t)
__device__ inline void mma_f16_in_f16(unsigned (&d)[2], const unsigned (&a)[4], unsigned b0, unsigned b1, unsigned c0,
                                      unsigned c1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c0), "r"(c1));
}

// The larger of two float16 numbers, in either half.
__device__ inline unsigned larger_f16x2(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
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

// The same for 8 bytes, aligned to 8; where `exists` is false nothing is read and zero arrives.
__device__ inline void copy_async_8(void* shared, const void* global, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(unsigned(__cvta_generic_to_shared(shared))),
                 "l"(global), "r"(exists ? 8 : 0)
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
