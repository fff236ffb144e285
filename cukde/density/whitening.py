"""Bandwidths other than a plain scalar: a linear map to coordinates in which the bandwidth is 1."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from cukde.density import check

# Outside this range h^2 leaves float32 (and the reciprocal of h^2 with it): such a scalar is whitened too. With
# factors, of 1e-8 or more, h times the least of them has to be in the range.
_PLAIN_RANGE = (1e-12, 1e12)
_PLAIN_RANGE_OF_FACTORS = (1e-4, 1e12)


def in_plain_range(h: Any, *, factors: bool = False) -> Any:
    """Whether numbers, or arrays of them, are bandwidths that leave data as they are."""
    least, largest = _PLAIN_RANGE_OF_FACTORS if factors else _PLAIN_RANGE
    return (least < h) & (h < largest)


def whitening_of(h: Any, d: int, name: str = "h", *, factors: bool = False) -> Whitening:
    """Check a bandwidth of ``d`` columns, on the host, and return what it makes of data."""
    if type(h) is float:  # the usual case: once for a number
        return _of_number(h, d, name, factors)
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors)


@functools.lru_cache(maxsize=1024)
def _of_number(h: float, d: int, name: str, factors: bool) -> Whitening:
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors)


class Whitening:
    """z = L^-1 (x - origin), with the bandwidth's covariance H = L L^T.

    A scalar in the ordinary range maps nothing (``plain``): data stay as they are, with bandwidth ``h``,
    since a difference of two given floats rounds less than a difference of two scaled ones. Everything
    else yields float64 coordinates with bandwidth 1, whatever precision the pairs are computed in.
    """

    def __init__(self, bandwidth: np.ndarray, d: int, name: str = "h", *, factors: bool = False) -> None:
        self.bandwidth = bandwidth
        self.plain = bandwidth.ndim == 0 and bool(in_plain_range(bandwidth, factors=factors))
        self.h = float(bandwidth) if self.plain else 1.0
        if bandwidth.ndim == 2:
            self._factor = factor = check.cholesky(bandwidth, name)
            self._inverse = np.linalg.solve(factor, np.eye(d))
            self.log_det = float(np.log(np.diag(factor)).sum())
        else:
            with np.errstate(over="ignore"):  # of subnormal numbers; the data then spread beyond any range
                self._inverse = 1.0 / bandwidth
            self.log_det = float(np.log(bandwidth).sum()) if bandwidth.ndim else d * math.log(bandwidth)
        self.log_norm = -0.5 * d * math.log(2 * math.pi) - self.log_det

    def apply(self, A: Any, origin: Any, xp: Any) -> Any:
        """Whiten points of shape (n, d); ``origin`` (d,) keeps data far from zero accurate."""
        if self.plain:
            return A
        centred = A.astype(xp.float64) - origin
        if self.bandwidth.ndim == 2:
            return centred @ xp.asarray(self._inverse.T)
        return centred * xp.asarray(self._inverse)

    def restore(self, Z: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Points on the host that :meth:`apply` sends to ``Z``."""
        if self.plain:
            return Z
        return (Z @ self._factor.T if self.bandwidth.ndim == 2 else Z * self.bandwidth) + origin

    def image(self, origin: Any, xp: Any) -> Any:
        """Where :meth:`apply` sends ``origin``."""
        return origin if self.plain else xp.zeros_like(origin)

    def score(self, s: Any, xp: Any) -> Any:
        """Map a score in whitened coordinates back: L^-T s, a row a point."""
        if self.plain:
            return s
        inverse = xp.asarray(self._inverse)
        with np.errstate(over="ignore"):  # a score beyond the range of float64 is infinite, as on the GPU
            return s @ inverse if self.bandwidth.ndim == 2 else s * inverse

    def smooth(self, s: Any, xp: Any) -> Any:
        """H s, a row a point: what a score is multiplied by in the debiasing shift."""
        if self.bandwidth.ndim == 2:
            return s @ xp.asarray(self.bandwidth)
        h = xp.asarray(self.bandwidth)
        with np.errstate(over="ignore", invalid="ignore"):
            return s * h * h  # h^2 itself may leave float64
