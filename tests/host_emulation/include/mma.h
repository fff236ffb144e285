// What kernels_cu/study uses of CUDA's <mma.h> (nvcuda::wmma, TF32 fragments of 16 x 16 x 8), in plain C++.
//
// Which lane holds which element is not documented; here element 32 x + lane in row-major order is x[x] of the lane.
#pragma once

#include "ptx.cuh"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
namespace precision {
struct tf32 {};
}  // namespace precision
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class Element, class Layout = void>
struct fragment {
    static_assert(m == 16 && n == 16 && k == 8);
    static constexpr int height = std::is_same_v<Use, matrix_b> ? k : m;
    static constexpr int width = std::is_same_v<Use, matrix_a> ? k : n;
    static constexpr int num_elements = height * width / 32;
    float x[num_elements];
};

inline float __float_to_tf32(float x) { return __uint_as_float(to_tf32(x)); }

template <class Fragment>
inline void fill_fragment(Fragment& fragment, float value) {
    for (float& element : fragment.x) element = value;
}

// Memory that the warp reads or writes is ordered by a collective on either side.
inline void check_place(const void* place, unsigned pitch) {
    if (reinterpret_cast<uintptr_t>(place) % 32 || pitch % 4)
        ::emulation::fail("a fragment at %p with rows of %u floats: misaligned", place, pitch);
}

template <class Use, int m, int n, int k, class Element, class Layout>
inline void load_matrix_sync(fragment<Use, m, n, k, Element, Layout>& to, const float* from, unsigned pitch,
                             EMULATION_SITE) {
    using Fragment = fragment<Use, m, n, k, Element, Layout>;
    check_place(from, pitch);
    __syncwarp(0xffffffffu, file, line);
    for (int i = 0; i < Fragment::num_elements; i++) {
        const int element = 32 * i + threadIdx.x % 32, row = element / Fragment::width, column = element % Fragment::width;
        to.x[i] = std::is_same_v<Layout, col_major> ? from[column * pitch + row] : from[row * pitch + column];
    }
    __syncwarp(0xffffffffu, file, line);
}

template <class Fragment>
inline void store_matrix_sync(float* to, const Fragment& from, unsigned pitch, layout_t layout, EMULATION_SITE) {
    check_place(to, pitch);
    for (int i = 0; i < Fragment::num_elements; i++) {
        const int element = 32 * i + threadIdx.x % 32, row = element / Fragment::width, column = element % Fragment::width;
        to[layout == mem_col_major ? column * pitch + row : row * pitch + column] = from.x[i];
    }
    __syncwarp(0xffffffffu, file, line);
}

template <class A, class B, class C>
struct Operands {
    C* d;
    const A* a;
    const B* b;
    const C* c;
};

// D (16 x 16) = A (16 x 8) B (8 x 16) + C; the low bits of the operands do not count.
template <class A, class B, class C>
inline void mma_sync(C& d, const A& a, const B& b, const C& c, EMULATION_SITE) {
    using Own = Operands<A, B, C>;
    Own own{&d, &a, &b, &c};
    ::emulation::collective("mma_sync", {file, line}, 0xffffffffu, own, [](unsigned, Own* const* lanes) {
        const auto value = [](float x) { return tf32_value(__float_as_uint(x)); };
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 16; column++) {
                const int place = 16 * row + column;
                double sum = lanes[place % 32]->c->x[place / 32];
                for (int k = 0; k < 8; k++) {
                    const int left = 8 * row + k, right = 16 * k + column;
                    sum += value(lanes[left % 32]->a->x[left / 32]) * value(lanes[right % 32]->b->x[right / 32]);
                }
                lanes[place % 32]->d->x[place / 32] = float(sum);
            }
    });
}

}  // namespace nvcuda::wmma
