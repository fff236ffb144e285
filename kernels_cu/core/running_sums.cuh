// Sums of 2^e for the queries of a thread about a running reference, in double, over a tile of pairs.
#pragma once

struct RunningSums {
    Real reference[side];
    double total[side];

    __device__ void begin(Real from) {
#pragma unroll
        for (int r = 0; r < side; r++) {
            reference[r] = from;
            total[r] = 0;
        }
    }

    // Count from `larger_reference` from now on.
    __device__ void raise(int r, Real larger_reference) {
        total[r] *= exp2_of(reference[r] - larger_reference);
        reference[r] = larger_reference;
    }

    // Add 2^e of a query's data rows.
    __device__ void add_powers(int r, const Real (&exponents)[side]) {
        Real largest = reference[r];
#pragma unroll
        for (int c = 0; c < side; c++) largest = larger(largest, exponents[c]);
        if (largest > reference[r]) raise(r, largest);
        Real sum = 0;
#pragma unroll
        for (int c = 0; c < side; c++) sum += exp2_of(exponents[c] - largest);
        total[r] += sum;
    }

    // Give each lane the sums over the lanes that share its query, and their common reference.
    __device__ void share() {
#pragma unroll
        for (int r = 0; r < side; r++) {
            raise(r, largest_over_lanes<lanes>(reference[r]));
            total[r] = sum_over_lanes<lanes>(total[r]);
        }
    }

    // Write a split's sums, and its references in natural logarithms; queries stand where `order` says, if it is given.
    __device__ void write(double* references, double* totals, long long first_query, long long m,
                          const long long* order = nullptr) const {
        const int tx = threadIdx.x % lanes, ty = threadIdx.x / lanes;
#pragma unroll
        for (int r = 0; r < side; r++) {
            const long long query = first_query + ty * side + r;
            if (tx == 0 && query < m) {
                const long long to = blockIdx.z * m + (order ? order[query] : query);
                references[to] = reference[r] * ln_2;
                totals[to] = total[r];
            }
        }
    }
};
