"""Kernel densities of distances that are not euclidean, on the CPU: scikit-learn's distances in blocks of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.density.leave_one_out import log_rest

_BLOCK_ELEMENTS = 2**20  # of a block of distances, 8 MB

_LOG_KERNELS: dict[str, Any] = {
    "gaussian": lambda u: -0.5 * u * u,
    "tophat": np.zeros_like,
    "epanechnikov": lambda u: np.log1p(-u * u),
    "exponential": lambda u: -u,
    "linear": lambda u: np.log1p(-u),
    "cosine": lambda u: np.log(np.cos(0.5 * np.pi * u)),
}
_ENDLESS = ("gaussian", "exponential")  # the others are zero from a distance of one bandwidth on


def log_kernel(kernel: str, u: np.ndarray) -> np.ndarray:
    """Logarithm of a kernel, 1 at 0, at distances in bandwidths; -inf where the kernel is zero."""
    if kernel in _ENDLESS:
        return np.asarray(_LOG_KERNELS[kernel](u))
    inside = u < 1
    return np.where(inside, _LOG_KERNELS[kernel](np.where(inside, u, 0)), -np.inf)


def mass_on_globe(kernel: str, h: float) -> float:
    """What a kernel of the angle, with its constant in the plane, integrates to over the globe; ``h`` in radians."""
    reach = 1.0 if kernel not in _ENDLESS else 12.0 if kernel == "gaussian" else 40.0
    nodes, shares = np.polynomial.legendre.leggauss(200)

    def integral(upper: float, *, curved: bool) -> float:
        angles = 0.5 * upper * (nodes + 1)
        radii = np.sin(angles) if curved else angles
        return float(0.5 * upper * (shares @ (np.exp(log_kernel(kernel, angles / h)) * radii)))

    return integral(min(np.pi, reach * h), curved=True) / integral(reach * h, curved=False)


def log_sums(
    distance: Any,
    X: np.ndarray,
    Y: np.ndarray,
    h: float,
    kernel: str,
    weights: np.ndarray | None,
    *,
    leave_one_out: bool = False,
) -> np.ndarray:
    """Logarithm of the mean of kernels at each query, weighted; -inf where no point is near.

    ``distance`` has scikit-learn's ``pairwise``. All pairs are taken, so that any tolerance is satisfied: not every
    distance is a metric, without which boxes and balls of points bound nothing. Cost: n m distances by one thread;
    memory O(n + m) beside a block.

    With ``leave_one_out`` point i is left out at query i, and sums are divided by the weight of the others.
    """
    X, Y = (np.ascontiguousarray(a, np.float64) for a in (X, Y))
    if weights is None:
        log_weights = np.full(len(X), -np.log(len(X)))
    else:
        w = weights / weights.max()  # the sum of huge weights must not overflow
        log_weights = np.log(w) - np.log(w.sum())
    out = np.empty(len(Y))
    step = max(1, _BLOCK_ELEMENTS // len(X))
    for start in range(0, len(Y), step):
        rows = slice(start, start + step)
        terms = log_kernel(kernel, distance.pairwise(Y[rows], X) / h) + log_weights
        if leave_one_out:
            own = np.arange(len(terms))
            terms[own, start + own] = -np.inf
        top = terms.max(axis=1)
        reference = np.where(np.isfinite(top), top, 0)
        out[rows] = reference + np.log(np.exp(terms - reference[:, None]).sum(axis=1))
    if leave_one_out:
        out -= log_rest(log_weights, np)
    return out
