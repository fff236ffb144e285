r"""Least-squares cross-validation in closed form: what a pair of rows adds to it.

With q_ij = |x_i - x_j|^2 / (2 h^2), v_j = 1 / (1 - w_j) and k0 = (4 pi)^(-d/2) / prod h,

    int p^2 - 2 sum_j w_j p_-j(x_j)
        = k0 { sum_i w_i^2 P(0) + 2 sum_{i<j} w_i w_j [exp(-q/2) P(q) + (v_i + v_j) exp(-q) R(q)] }.

P. The integral of the squared density is a sum over pairs of the kernel convolved with itself. The Gaussian's is
k0 exp(-q/2), so P = 1. The Laplace-corrected kernel has the Fourier transform (1 + k^2/2) exp(-k^2/2) at h = 1; its
square is (1 + k^2 + k^4/4) exp(-k^2), which is G - Delta G + Delta^2 G / 4 with G = (4 pi)^(-d/2) exp(-q/2) the normal
density of variance 2. There Delta G = G (q - d)/2 and Delta^2 G = G [q^2 - 2 (d+2) q + d (d+2)] / 4, so that

    P = 1 + d/2 + d (d+2)/16 - q [1/2 + (d+2)/8] + q^2/16.

R. The density at x_j without x_j is (2 pi)^(-d/2) / prod h = 2^(d/2) k0 times v_j sum_{i != j} w_i exp(-q) L(q), with
L = 1 for kde and 1 + d/2 - q for the Laplace-corrected one; so R = -2^(d/2) L.

Derivative. By the logarithm of h_k, that of q is -t_k, t_k = (x_ik - x_jk)^2 / h_k^2, and that of k0 is -k0: it is the
sum with each pair times t_k, P/2 - P' for P and R - R' for R, minus the criterion itself.
"""

from __future__ import annotations

import math

import numpy as np


def coefficients(method: str, d: int) -> np.ndarray:
    """Return p0, p1, p2, r0, r1 of P = p0 + p1 q + p2 q^2 and R = r0 + r1 q, of method "kde" or "laplace"."""
    peak = 2 ** (d / 2)
    if method == "kde":
        return np.array([1, 0, 0, -peak, 0], np.float64)
    return np.array(
        [1 + d / 2 + d * (d + 2) / 16, -(1 / 2 + (d + 2) / 8), 1 / 16, -peak * (1 + d / 2), peak], np.float64
    )


def of_derivative(polynomials: np.ndarray) -> np.ndarray:
    """Return the coefficients of P/2 - P' and R - R'."""
    p0, p1, p2, r0, r1 = polynomials
    return np.array([p0 / 2 - p1, p1 / 2 - 2 * p2, p2 / 2, r0 - r1, r1])


def log_scale(h: np.ndarray) -> np.ndarray:
    """Return log k0 of deviations, a row a bandwidth."""
    out: np.ndarray = -0.5 * h.shape[-1] * math.log(4 * math.pi) - np.log(h).sum(axis=-1)
    return out
