"""Data and queries of the engines over pairs, and what their sums are compared by; benchmarks use them, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.density.plane import plan as plane_plan
from tests import reference
from tests.tolerances import Tolerance, check, check_score

# For data of 16 to 64 dimensions, h 1.4 to 2.8 of their deviation: largest |z|^2 below 40, few neighbours.
TOTAL = {
    "exact": Tolerance(3e-6, "float32 sums of phi, exponents off by 40 eps; measured 4e-7"),
    "split": Tolerance(2.4e-4, "2^-12: the float16 of phi are summed; measured 6e-5"),
    "one-term": Tolerance(2e-3, "z in 11 bits: an exponent is off by r |z| 2^-12; measured 5e-4"),
}
SHIFT = {
    "exact": Tolerance(2e-4, "the second product takes phi and z in 11 bits; measured 1.1e-4"),
    "split": Tolerance(2e-4, "the same; measured 9e-5"),
    "one-term": Tolerance(1e-3, "the same beside the error of phi; measured 3e-4"),
}
"""Worst relative error of the total, and worst error of the mean shift moments / total in bandwidths."""

GRID = Tolerance(2.3e-3, "a factor has 11 bits: up to 8 units of 1.18 bandwidths from the centre, 2^-9 of one")
"""Error of a mean shift in bandwidths, a coordinate, where pairs are taken once beyond five dimensions."""

OUTPUTS = ("sum", "laplace", "moments", "values")

# Of the data, by the depth of their operands.
ORDERED = {16: 5, 32: 20, 48: 33, 64: 64}
SYMMETRIC = {16: 16, 32: 20, 48: 33, 64: 64}
DOUBLE = {8: 5, 16: 16, 32: 20, 48: 33, 64: 64}


class Sample:
    """Data around 3, queries near them and between, weights over 30 decades with zeros, values."""

    def __init__(self, n: int, m: int, d: int, *, weighted: bool = False, dtype: str = "float32") -> None:
        rng = np.random.default_rng([n, m, d])
        self.h = 0.35 * d**0.5
        self.X = (3 + rng.standard_normal((n, d))).astype(dtype)
        near = self.X[rng.integers(n, size=m)] + self.h * rng.standard_normal((m, d)) / d**0.5
        self.Y = np.where(np.arange(m)[:, None] % 3, near, 3 + rng.standard_normal((m, d))).astype(dtype)
        self.V = rng.standard_normal((n, 130)).astype(dtype)
        self.w = None
        if weighted:
            self.w = 10.0 ** -rng.uniform(0, 30, n)
            self.w[rng.random(n) < 0.2] = 0
            self.w[rng.integers(n)] = 1

    @property
    def log_weights(self) -> np.ndarray | None:
        """As the launcher takes them."""
        if self.w is None:
            return None
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.w / self.w.sum()), -1e30)

    @property
    def log_scale(self) -> float:
        """What the oracle's logarithms have more than the sums: the constant, and 1/n where there are no weights."""
        return reference.log_constant(self.h, self.X.shape[1]) - (np.log(len(self.X)) if self.w is None else 0)


def verify(s: Sample, output: str, sums: Any, allowed: float, k: int = 5) -> None:
    """Compare the sums with the oracle by the documented measures of error."""
    log_total = reference.log_kde(s.X, s.Y, s.h, s.w) - s.log_scale
    check(np.abs(sums.reference + np.log(sums.total) - log_total), np.asarray(allowed), "log total")
    if output == "moments":
        error = sums.moments / sums.total[:, None] / s.h - s.h * reference.score(s.X, s.Y, s.h, s.w)
        reach = reference.nearness(s.X, s.Y, s.h, s.w).reach
        check_score(np.linalg.norm(error, axis=1), np.full(len(s.Y), allowed), reach)
    if output == "laplace":
        log_scale, total, size = reference.scaled_laplace(s.X, s.Y, s.h, s.w)
        error = np.exp(sums.reference - (log_scale - s.log_scale)) * sums.moments[:, 0] - total
        check(np.abs(error), allowed * size, "Laplace sum")
    if output == "laplace_moments":
        log_scale, total, size = reference.scaled_laplace_moments(s.X, s.Y, s.h, s.w)
        error = np.exp(sums.reference - (log_scale - s.log_scale))[:, None] * sums.moments - total
        check(np.linalg.norm(error, axis=1), allowed * size, "Laplace moments")
    if output == "values":
        total, size = reference.kernel_sum(s.X, s.V[:, :k], s.Y, s.h)
        check(np.abs(np.exp(sums.reference)[:, None] * sums.moments - total), allowed * size, "values")


def as_float(bits: np.ndarray) -> np.ndarray:
    """Bits of bfloat16 as numbers."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(float)


def in_order(blocks: np.ndarray) -> np.ndarray:
    """All columns in their own order, of every block."""
    position = np.arange(blocks.shape[2])
    column = position // 16 * 16 + position % 8 // 2 * 4 + position % 16 // 8 * 2 + position % 2
    ordered = np.empty_like(blocks)
    ordered[:, :, column] = blocks
    return np.hstack(list(ordered))


def adversarial(X: np.ndarray, h: float, m: int, seed: int = 0) -> np.ndarray:
    """Queries on borders and corners of cells, between points, in empty places and far beyond all."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    at = X[rng.integers(n, size=(m, 2))]
    width = plane_plan.plan(h, 1e-5).width
    border = np.rint(at[:, 0] / width) * width
    kinds = [
        np.where(rng.uniform(size=(m, d)) < 0.6, border, at[:, 0]),
        np.nextafter(border, rng.choice([-np.inf, np.inf], (m, d))),
        at[:, 0] + rng.uniform(size=(m, 1)) * (at[:, 1] - at[:, 0]),
        at[:, 0] + h * rng.choice([3.0, 6.0, 9.0, 30.0, 1e3], (m, 1)) * rng.standard_normal((m, d)),
        at[:, 0],
    ]
    out: np.ndarray = np.stack(kinds)[np.arange(m) % len(kinds), np.arange(m)]
    return out
