// Densities from the sums of a query, in double. `log_factor` is the logarithm of what both sums are multiplied by:
//
//   of the total T      exp(log_factor) T
//   Laplace-corrected   exp(log_factor) L, of either sign; its logarithm is NaN where L is negative
//   positive            exp(log_factor) T exp(asinh(L / T - 1)); L / T - 1 is at most d/2 and as negative as |y - x|^2 is
//                       large, so the logarithm is finite
//
// T = sum_j 2^(e_ij - a_i) and L = sum_j 2^(e_ij - a_i) (1 + d/2 - r_ij^2/(2 h^2)), see pairs.cu.
#pragma once

// What of a density is wanted; the values add up.
constexpr int logarithm_wanted = 1, positive_wanted = 2;

__device__ inline double density_of_total(double log_factor, double total, int wanted) {
    const double log_density = log_factor + log(total);
    return wanted & logarithm_wanted ? log_density : exp(log_density);
}

__device__ inline double density_of_both(double log_factor, double total, double corrected, int wanted) {
    if (wanted & positive_wanted) {
        const double log_correction = total > 0 ? asinh(corrected / total - 1) : 0;  // of no sum there is none
        return density_of_total(log_factor + log_correction, total, wanted);
    }
    if (wanted & logarithm_wanted) return log_factor + log(corrected);
    return copysign(exp(log_factor + log(fabs(corrected))), corrected);
}
