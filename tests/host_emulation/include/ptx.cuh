// The device functions of kernels_cu/core/ptx.cuh in plain C++, with the fragment layouts of the PTX manual.
//
// A matrix operation is a warp collective: every lane brings pointers to its fragments, and the last lane to
// arrive gathers them into matrices, multiplies and scatters the result (fibers.hpp: collective).
#pragma once

// ex2.approx.ftz.f32
inline float exp2_approx(float x) { return exp2f(x); }
inline float reciprocal_approx(float x) { return 1 / x; }

// -------------------------------------------------------------------------------- arithmetic and memory

// fma.rn.sat.f32
inline float fma_saturate(float a, float b, float c) {
    const float y = ::fmaf(a, b, c);
    return y > 0 ? (y < 1 ? y : 1.0f) : 0.0f;
}

// fma.rm; volatile, so that nothing is computed before the rounding changes
template <class Real>
inline Real fma_down(Real a, Real b, Real c) {
    const int before = fegetround();
    fesetround(FE_DOWNWARD);
    volatile Real factors[] = {a, b, c};
    volatile Real y = std::fma(factors[0], factors[1], factors[2]);
    fesetround(before);
    return y;
}

// mov.u64 from %globaltimer
inline long long nanoseconds_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1'000'000'000LL * now.tv_sec + now.tv_nsec;
}

// Of the compiler alone.
inline void keep_order() {}
inline int computed_here(int value) { return value; }

// setp.ge.f32
inline bool at_least(float a, float b) { return a >= b; }

inline void check_streamed(const char* what, const void* p) {
    if (reinterpret_cast<uintptr_t>(p) % 16) ::emulation::fail("%s of a misaligned address %p", what, p);
}

// ld.global.nc.L1::no_allocate.v4.u32
inline uint4 load_streaming(const void* global) {
    check_streamed("load_streaming", global);
    return *static_cast<const uint4*>(global);
}

// The same with a predicate; zeros where it is false.
inline uint4 load_streaming_if(bool exists, const void* global) {
    return exists ? load_streaming(global) : uint4{0, 0, 0, 0};
}

// st.global.cs.v4.u32
inline void store_streaming(void* global, uint4 v) {
    check_streamed("store_streaming", global);
    *static_cast<uint4*>(global) = v;
}

// The same with a predicate.
inline void store_streaming_if(bool wanted, void* global, uint4 v) {
    if (wanted) store_streaming(global, v);
}

// The same for 8 bytes, st.global.cs.v2.u32
inline void store_streaming(void* global, uint2 v) {
    if (reinterpret_cast<uintptr_t>(global) % 8) ::emulation::fail("store_streaming of a misaligned address %p", global);
    *static_cast<uint2*>(global) = v;
}

// ----------------------------------------------------------------------------------------------- float16

// cvt.rn.f16.f32
inline unsigned short f16_bits(float x) {
    const _Float16 rounded = _Float16(x);
    unsigned short bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
}

inline float f16_value(unsigned short bits) {
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return float(value);
}

// cvt.rn.f16x2.f32
inline unsigned pack_f16(float low, float high) { return f16_bits(low) | unsigned(f16_bits(high)) << 16; }

inline void unpack_f16(unsigned packed, float& low, float& high) {
    low = f16_value(packed & 0xffffu);
    high = f16_value(packed >> 16);
}

// sub.rn.f16x2; float holds the difference of two float16 numbers so well that it is rounded right
inline unsigned subtract_f16x2(unsigned a, unsigned b) {
    return pack_f16(f16_value(a & 0xffffu) - f16_value(b & 0xffffu), f16_value(a >> 16) - f16_value(b >> 16));
}

// fma.rn.f16: the product is exact in double; the sum is rounded to odd, so that rounding it again is rounding once
inline unsigned short fma_f16(unsigned short a, unsigned short b, unsigned short c) {
    const double product = double(f16_value(a)) * f16_value(b), added = f16_value(c);
    double sum = product + added;
    const double taken = sum - product;
    const double lost = (product - (sum - taken)) + (added - taken);
    unsigned long long bits;
    memcpy(&bits, &sum, sizeof bits);
    if (isfinite(sum) && lost != 0 && !(bits & 1)) sum = nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
    const _Float16 rounded = _Float16(sum);
    unsigned short result;
    memcpy(&result, &rounded, sizeof result);
    return result;
}

// fma.rn.f16x2
inline unsigned fma_f16x2(unsigned a, unsigned b, unsigned c) {
    return fma_f16(a & 0xffffu, b & 0xffffu, c & 0xffffu) | unsigned(fma_f16(a >> 16, b >> 16, c >> 16)) << 16;
}

// prmt.b32 with selectors that spread sign bits
inline unsigned sign_bytes(unsigned a, unsigned b) {
    return (a >> 15 & 1) * 0xffu | (a >> 31) * 0xff00u | (b >> 15 & 1) * 0xff0000u | (b >> 31) * 0xff000000u;
}

// ---------------------------------------------------------------------------------------------- bfloat16

// cvt.rn.bf16.f32: the upper half of a float, to nearest, ties to even
inline unsigned bf16_bits(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

// cvt.rn.bf16x2.f32
inline unsigned pack_bf16(float low, float high) { return bf16_bits(low) | bf16_bits(high) << 16; }

inline void unpack_bf16(unsigned packed, float& low, float& high) {
    low = __uint_as_float(packed << 16);
    high = __uint_as_float(packed & 0xffff0000u);
}

// ------------------------------------------------------------------------------------------- reductions

// red.global.add.f32; blocks and threads run one at a time
inline void add_global(float* p, float a) { *p += a; }

// red.global.add.v4.f32
inline void add_global_4(float* p, float a, float b, float c, float d) {
    if (reinterpret_cast<uintptr_t>(p) % 16) ::emulation::fail("add_global_4 of a misaligned address %p", (void*)p);
    p[0] += a, p[1] += b, p[2] += c, p[3] += d;
}

// ---------------------------------------------------------------------------------------------- products

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

// A sum as tensor cores make it: terms are cut off at 2^-25 of the largest, and so is their sum at a float's last place.
inline float cut_off_sum(double c, const double* terms, int count) {
    double largest = fabs(c);
    for (int k = 0; k < count; k++) largest = fabs(terms[k]) > largest ? fabs(terms[k]) : largest;
    if (!isfinite(largest) || largest == 0) {
        for (int k = 0; k < count; k++) c += terms[k];
        return float(c);
    }
    int exponent;
    frexp(largest, &exponent);
    const double unit = ldexp(1.0, exponent - 1 - 25), units = 1 / unit;  // powers of two
    double sum = trunc(c * units);
    for (int k = 0; k < count; k++) sum += trunc(terms[k] * units);
    sum *= unit;
    const float rounded = float(sum);
    return fabs(double(rounded)) > fabs(sum) ? nextafterf(rounded, 0.0f) : rounded;
}

struct Mma16BitFragments {
    float* d;
    const unsigned* a;
    unsigned b[2];
    const float* c;
};

// D (16 x 8) = A (16 x 16) B (16 x 8) + C. A register holds two neighbours, the lower column of A or row of B in
// its low half: a: (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8);  b: (2t, g) (2t+8, g);  c and d as above.
template <void (*unpack)(unsigned, float&, float&)>
inline void mma_16_bit_m16n8k16(const char* what, ::emulation::Site site, Mma16BitFragments own) {
    ::emulation::collective(what, site, 0xffffffffu, own, [](unsigned, Mma16BitFragments* const* lanes) {
        // Products of 16-bit numbers are exact in double, and so are their sums but for numbers far apart.
        float A[16][16], B[16][8];
        double C[16][8];
        for (int l = 0; l < 32; l++) {
            const int g = l / 4, t = l % 4;
            for (int i = 0; i < 4; i++) {
                const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
                unpack(lanes[l]->a[i], A[row][column], A[row][column + 1]);
            }
            for (int i = 0; i < 2; i++) unpack(lanes[l]->b[i], B[2 * t + 8 * i][g], B[2 * t + 1 + 8 * i][g]);
            for (int i = 0; i < 4; i++) C[g + 8 * (i / 2)][2 * t + i % 2] = lanes[l]->c[i];
        }
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 8; column++) {
                double terms[16];
                for (int k = 0; k < 16; k++) terms[k] = double(A[row][k]) * B[k][column];
                C[row][column] = cut_off_sum(C[row][column], terms, 16);
            }
        for (int l = 0; l < 32; l++) {
            const int g = l / 4, t = l % 4;
            for (int i = 0; i < 4; i++) lanes[l]->d[i] = float(C[g + 8 * (i / 2)][2 * t + i % 2]);
        }
    });
}

inline void mma_f16_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4],
                             EMULATION_SITE) {
    mma_16_bit_m16n8k16<unpack_f16>("mma_f16_m16n8k16", {file, line}, {d, a, {b0, b1}, c});
}

// C += A B
inline void mma_bf16_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, EMULATION_SITE) {
    mma_16_bit_m16n8k16<unpack_bf16>("mma_bf16_m16n8k16", {file, line}, {c, a, {b0, b1}, c});
}

// C += A B
inline void mma_f16_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, EMULATION_SITE) {
    mma_f16_m16n8k16(c, a, b0, b1, c, file, line);
}

struct MmaF16Fragments {
    unsigned* d;
    const unsigned* a;
    unsigned b[2], c[2];
};

// D (16 x 8) = A (16 x 16) B (16 x 8) + C, sums rounded to float16; c and d: (g, 2t) (g+8, 2t).
inline void mma_f16_in_f16(unsigned (&d)[2], const unsigned (&a)[4], unsigned b0, unsigned b1, unsigned c0, unsigned c1,
                           EMULATION_SITE) {
    MmaF16Fragments own{d, a, {b0, b1}, {c0, c1}};
    ::emulation::collective(
        "mma_f16_in_f16", {file, line}, 0xffffffffu, own, [](unsigned, MmaF16Fragments* const* lanes) {
            float A[16][16], B[16][8], C[16][8];
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                for (int i = 0; i < 4; i++) {
                    const int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
                    unpack_f16(lanes[l]->a[i], A[row][column], A[row][column + 1]);
                }
                for (int i = 0; i < 2; i++) {
                    unpack_f16(lanes[l]->b[i], B[2 * t + 8 * i][g], B[2 * t + 1 + 8 * i][g]);
                    unpack_f16(lanes[l]->c[i], C[g + 8 * i][2 * t], C[g + 8 * i][2 * t + 1]);
                }
            }
            double D[16][8];
            for (int row = 0; row < 16; row++)
                for (int column = 0; column < 8; column++) {
                    double sum = C[row][column];
                    for (int k = 0; k < 16; k++) sum += double(A[row][k]) * B[k][column];
                    D[row][column] = sum;
                }
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                for (int i = 0; i < 2; i++)
                    lanes[l]->d[i] = pack_f16(float(D[g + 8 * i][2 * t]), float(D[g + 8 * i][2 * t + 1]));
            }
        });
}

// max.f16x2
inline unsigned larger_f16x2(unsigned a, unsigned b) {
    float a0, a1, b0, b1;
    unpack_f16(a, a0, a1);
    unpack_f16(b, b0, b1);
    return pack_f16(fmax(a0, b0), fmax(a1, b1));
}

// D (16 x 8) = A (16 x 8) B (8 x 8) + C; a: (g, 2t) (g+8, 2t);  b: (2t, g);  c and d as above. It is the product of
// twice the inner dimension where the other half of A is zero.
inline void mma_f16_m16n8k8(float (&d)[4], const unsigned (&a)[2], unsigned b, const float (&c)[4], EMULATION_SITE) {
    const unsigned wide[4] = {a[0], a[1], 0, 0};
    mma_f16_m16n8k16(d, wide, b, 0, c, file, line);
}

struct MmaF64Fragments {
    double* d;
    const double* a;
    double b[2];
    const double* c;
};

// D (16 x 8) = A (16 x 8) B (8 x 8) + C in float64; a, b, c and d as for mma_tf32_m16n8k8.
inline void mma_f64_m16n8k8(double (&d)[4], const double (&a)[4], double b0, double b1, const double (&c)[4],
                            EMULATION_SITE) {
    MmaF64Fragments own{d, a, {b0, b1}, c};
    ::emulation::collective(
        "mma_f64_m16n8k8", {file, line}, 0xffffffffu, own, [](unsigned, MmaF64Fragments* const* lanes) {
            double A[16][8], B[8][8], C[16][8];
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                for (int i = 0; i < 4; i++) A[g + 8 * (i % 2)][t + 4 * (i / 2)] = lanes[l]->a[i];
                for (int i = 0; i < 2; i++) B[t + 4 * i][g] = lanes[l]->b[i];
                for (int i = 0; i < 4; i++) C[g + 8 * (i / 2)][2 * t + i % 2] = lanes[l]->c[i];
            }
            for (int row = 0; row < 16; row++)
                for (int k = 0; k < 8; k++)
                    for (int column = 0; column < 8; column++)
                        C[row][column] = fma(A[row][k], B[k][column], C[row][column]);
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                for (int i = 0; i < 4; i++) lanes[l]->d[i] = C[g + 8 * (i / 2)][2 * t + i % 2];
            }
        });
}

struct MmaIntegerFragments {
    int* c;
    const unsigned* a;
    unsigned b[2];
};

inline int dot_s8(unsigned a, unsigned b) {
    int sum = 0;
    for (int i = 0; i < 32; i += 8) sum += int((signed char)(a >> i)) * (signed char)(b >> i);
    return sum;
}

inline int dot_b1(unsigned a, unsigned b) { return __builtin_popcount(a & b); }

// C (16 x 8) += A B, an inner product of eight registers an element: with g = lane / 4 and t = lane % 4 a lane holds
// registers a: (g, t) (g+8, t) (g, t+4) (g+8, t+4);  b: (t, g) (t+4, g);  and of c what mma_tf32_m16n8k8 does.
template <int (*dot)(unsigned, unsigned)>
inline void mma_integer(const char* what, ::emulation::Site site, MmaIntegerFragments own) {
    ::emulation::collective(what, site, 0xffffffffu, own, [](unsigned, MmaIntegerFragments* const* lanes) {
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < 4; i++) {
                const int row = l / 4, column = 2 * (l % 4) + i % 2;
                for (int k = 0; k < 8; k++)
                    lanes[l]->c[i] +=
                        dot(lanes[4 * row + k % 4]->a[i / 2 + k / 4 * 2], lanes[4 * column + k % 4]->b[k / 4]);
            }
    });
}

// mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
inline void mma_s8_m16n8k32(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, EMULATION_SITE) {
    mma_integer<dot_s8>("mma_s8_m16n8k32", {file, line}, {c, a, {b0, b1}});
}

// mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc
inline void mma_b1_m16n8k256(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, EMULATION_SITE) {
    mma_integer<dot_b1>("mma_b1_m16n8k256", {file, line}, {c, a, {b0, b1}});
}

// --------------------------------------------------------------------------------- 8 x 8 matrices of 16 bits

// movmatrix.sync.aligned.m8n8.trans.b16: a lane holds (g, 2t) and (g, 2t+1)
inline unsigned transpose_8x8(unsigned a, EMULATION_SITE) {
    ::emulation::collective("transpose_8x8", {file, line}, 0xffffffffu, a, [](unsigned, unsigned* const* lanes) {
        unsigned short matrix[8][8];
        for (int l = 0; l < 32; l++) memcpy(&matrix[l / 4][2 * (l % 4)], lanes[l], 4);
        for (int l = 0; l < 32; l++)
            *lanes[l] = matrix[2 * (l % 4)][l / 4] | unsigned(matrix[2 * (l % 4) + 1][l / 4]) << 16;
    });
    return a;
}

struct MatrixRows {
    unsigned* registers;
    const void* row;
};

template <int count, bool transposed>
inline void load_matrices_of(const char* what, ::emulation::Site site, unsigned* r, const void* shared) {
    // The hardware ignores the addresses of lanes that bring no row.
    if (int(::emulation::lane()) < 8 * count && reinterpret_cast<uintptr_t>(shared) % 16)
        ::emulation::fail("%s of a misaligned address %p", what, shared);
    MatrixRows own{r, shared};
    ::emulation::collective(what, site, 0xffffffffu, own, [](unsigned, MatrixRows* const* lanes) {
        for (int q = 0; q < count; q++) {
            unsigned short matrix[8][8];
            for (int row = 0; row < 8; row++) memcpy(matrix[row], lanes[8 * q + row]->row, 16);
            for (int l = 0; l < 32; l++) {
                const int g = l / 4, t = l % 4;
                const unsigned low = transposed ? matrix[2 * t][g] : matrix[g][2 * t];
                const unsigned high = transposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
                lanes[l]->registers[q] = low | high << 16;
            }
        }
    });
}

// ldmatrix.sync.aligned.m8n8.x4.shared.b16
inline void load_matrices(unsigned (&r)[4], const void* shared, EMULATION_SITE) {
    load_matrices_of<4, false>("load_matrices", {file, line}, r, shared);
}

// ldmatrix.sync.aligned.m8n8.x2.shared.b16
inline void load_matrices(unsigned (&r)[2], const void* shared, EMULATION_SITE) {
    load_matrices_of<2, false>("load_matrices", {file, line}, r, shared);
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
inline void load_matrices_transposed(unsigned (&r)[4], const void* shared, EMULATION_SITE) {
    load_matrices_of<4, true>("load_matrices_transposed", {file, line}, r, shared);
}

// ------------------------------------------------------------------------------------ asynchronous copies
//
// A copy happens as late as it may, when its group is waited for: what is read before that is stale.

struct PendingCopies {
    static constexpr unsigned most = 128;
    unsigned long long block;  // that the copies belong to
    unsigned copies, groups;
    struct {
        void* to;
        const void* from;  // null: zeros
        unsigned bytes, group;
    } copy[most];
};

inline PendingCopies& pending_copies() {
    static PendingCopies of_thread[::emulation::most_threads];
    PendingCopies& own = of_thread[::emulation::current - ::emulation::threads];
    if (own.block != ::emulation::blocks_begun) own = {.block = ::emulation::blocks_begun};
    return own;
}

inline void begin_copy(void* shared, const void* global, unsigned bytes) {
    if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % bytes)
        ::emulation::fail("copy_async_%u from %p to %p: misaligned", bytes, global, shared);
    PendingCopies& own = pending_copies();
    if (own.copies == PendingCopies::most) ::emulation::fail("more than %u copies of a thread under way", own.most);
    own.copy[own.copies++] = {shared, global, bytes, own.groups};
}

// cp.async.cg.shared.global
inline void copy_async_16(void* shared, const void* global) { begin_copy(shared, global, 16); }

// cp.async.ca.shared.global with a source that may have no bytes
inline void copy_async_8(void* shared, const void* global, bool exists) {
    begin_copy(shared, exists ? global : nullptr, 8);
}

// cp.async.commit_group
inline void copy_async_commit() { pending_copies().groups++; }

// cp.async.wait_group
template <int n>
inline void copy_async_wait() {
    PendingCopies& own = pending_copies();
    unsigned kept = 0;
    for (unsigned i = 0; i < own.copies; i++) {
        const auto& copy = own.copy[i];
        if (copy.group + n >= own.groups) own.copy[kept++] = copy;
        else if (copy.from) memcpy(copy.to, copy.from, copy.bytes);
        else memset(copy.to, 0, copy.bytes);
    }
    own.copies = kept;
}
