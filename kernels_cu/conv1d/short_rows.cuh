// Short rows of one channel, side by side in shared memory, each with the zeros around it.
//
// A row has a slot of `pitch` Rows. The pitch is odd: eight threads that read or write the same position of eight
// neighbouring slots use all banks, and so do eight threads along a slot.
//
// Macro: STORAGE (core/storage.cuh).
#pragma once
#include "storage.cuh"

// The way of a thread over the places of several rows, of which so many threads take every so many-th.
struct Walk {
    int row, at;  // where the thread is
    int width;    // places of a row
    int rows_on, places_on;

    __device__ Walk(int thread, int threads, int width)
        : row(unsigned(thread) / width), at(unsigned(thread) % width), width(width), rows_on(unsigned(threads) / width),
          places_on(unsigned(threads) % width) {}

    __device__ void go_on() {
        row += rows_on;
        at += places_on;
        const bool wraps = at >= width;
        at -= wraps ? width : 0;
        row += wraps;
    }
};

// Rows of an array, `apart` from one to the next.
struct ShortRows {
    const Stored* x;
    long long apart;
    int rows, length;
};

constexpr int vectors_at_a_time = 4;

// Stage rows whose vectors are aligned. Place v of a slot is element `begin` + v * vector, begin a multiple of vector, or
// zeros beyond the ends of the row. The walk is over vectors.
__device__ inline void stage_vectors(const ShortRows& of, int begin, Row* slots, int pitch, Walk walk) {
#pragma unroll 1
    while (walk.row < of.rows) {
        uint4 got[vectors_at_a_time];
        int to[vectors_at_a_time];
#pragma unroll
        for (int i = 0; i < vectors_at_a_time; i++) {
            const int element = begin + walk.at * vector;
            const bool exists = walk.row < of.rows;
            got[i] = load_streaming_if(exists && unsigned(element) < unsigned(of.length),
                                       of.x + walk.row * of.apart + element);
            to[i] = exists ? walk.row * pitch + walk.at * rows_of_vector : -1;
            walk.go_on();
        }
#pragma unroll
        for (int i = 0; i < vectors_at_a_time; i++) {
            if (to[i] < 0) break;
            Real values[vector];
            unpack(got[i], values);
#pragma unroll
            for (int r = 0; r < rows_of_vector; r++) to_row(values + r * row_width, slots[to[i] + r]);
        }
    }
}

// The same of rows that begin anywhere, element by element. The walk is over elements.
__device__ inline void stage_elements(const ShortRows& of, int begin, Row* slots, int pitch, Walk walk) {
    Real* const values = reinterpret_cast<Real*>(slots);
#pragma unroll 4
    for (; walk.row < of.rows; walk.go_on()) {
        const int element = begin + walk.at;
        values[walk.row * pitch * row_width + walk.at] =
            unsigned(element) < unsigned(of.length) ? to_real(of.x[walk.row * of.apart + element]) : Real(0);
    }
}
