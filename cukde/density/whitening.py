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

_NUMBERS = (float, np.float64, int)
_FEW_NUMBERS = 1024  # of an array whose whitening is kept for further calls


def whitening_of(h: Any, d: int, name: str = "h", *, factors: bool = False) -> Whitening:
    """Check a bandwidth of ``d`` columns, on the host, and return its whitening."""
    if type(h) in _NUMBERS:  # the usual cases: once for a number, and for an array
        return _of_number(h, d, name, factors)
    if type(h) is np.ndarray and h.dtype == np.float64 and h.size <= _FEW_NUMBERS:
        return _of_numbers(h.tobytes(), h.shape, d, name, factors)
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors)


@functools.lru_cache(maxsize=1024)
def _of_number(h: float | np.float64, d: int, name: str, factors: bool) -> Whitening:
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors)


@functools.lru_cache(maxsize=64)
def _of_numbers(numbers: bytes, shape: tuple[int, ...], d: int, name: str, factors: bool) -> Whitening:
    h = np.frombuffer(numbers).reshape(shape)
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors)


class Whitening:
    """z = L^-1 (x - origin), with the bandwidth's covariance H = L L^T; of a stack, that of each member.

    A scalar in the ordinary range maps nothing (``plain``): data stay as they are, with bandwidth ``h``,
    since a difference of two given floats rounds less than a difference of two scaled ones. Everything
    else yields float64 coordinates with bandwidth 1, whatever precision the pairs are computed in.

    Parameters
    ----------
    bandwidth : array, shape (), (d,) or (d, d)
        Checked, on the host. With ``stacked`` (b,), (b, d) or (b, d, d): a bandwidth for each member, and arrays of
        all methods begin with the axis of the members.
    """

    def __init__(
        self, bandwidth: np.ndarray, d: int, name: str = "h", *, factors: bool = False, stacked: bool = False
    ) -> None:
        self.bandwidth, self._d, self._name, self._stacked = bandwidth, d, name, stacked
        axes = bandwidth.ndim - stacked
        self._covariances = axes == 2
        least, largest = _PLAIN_RANGE_OF_FACTORS if factors else _PLAIN_RANGE
        self.plain = axes == 0 and bool(((least < bandwidth) & (bandwidth < largest)).all())
        self.h: Any = np.ones(len(bandwidth)) if stacked else 1.0
        if self.plain:
            self.h = bandwidth if stacked else float(bandwidth)
        if self._covariances:
            self._factor = factor = check.cholesky(bandwidth, name)
            self._inverse = np.linalg.solve(factor, np.broadcast_to(np.eye(d), factor.shape))
            log_det = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
        else:
            self._deviations = bandwidth
            if stacked:  # each with an axis of its rows
                columns = bandwidth[:, None] if axes else bandwidth[:, None, None]
                self._deviations = np.broadcast_to(columns, (len(bandwidth), 1, d))
            self._inverse = 1.0 / self._deviations
            log_det = d * math.log(bandwidth) if bandwidth.ndim == 0 else np.log(self._deviations).sum(axis=-1)
        self.log_det: Any = log_det.reshape(-1) if stacked else float(log_det)
        self.log_norm = -0.5 * d * math.log(2 * math.pi) - self.log_det

    def member(self, i: int) -> Whitening:
        """The whitening of one member of a stack, as a single density has it."""
        return Whitening(self.bandwidth[i], self._d, f"{self._name}[{i}]")

    def of_queries(self, numbers: Any, xp: Any) -> Any:
        """A number, or one for each member of a stack, as a factor of sums at queries, (m,) or (b, m)."""
        return xp.asarray(numbers[:, None]) if self._stacked else numbers

    def apply(self, A: Any, origin: Any, xp: Any) -> Any:
        """Whiten points (n, d); ``origin`` (d,) keeps data far from zero accurate.

        Of a stack points are (b, n, d), or (1, n, d) where members share them, and origins (b, d).
        """
        if self.plain:
            return A
        centred = A.astype(xp.float64) - origin[..., None, :]
        inverse = xp.asarray(self._inverse.swapaxes(-1, -2) if self._covariances else self._inverse)
        return centred @ inverse if self._covariances else centred * inverse

    def restore(self, Z: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Points on the host that :meth:`apply` sends to ``Z``."""
        if self.plain:
            return Z
        return (Z @ self._factor.T if self._covariances else Z * self.bandwidth) + origin

    def image(self, origin: Any, xp: Any) -> Any:
        """Where :meth:`apply` sends ``origin``."""
        return origin if self.plain else xp.zeros_like(origin)

    def score(self, s: Any, xp: Any) -> Any:
        """Map a score in whitened coordinates back: L^-T s, a row a point."""
        if self.plain:
            return s
        inverse = xp.asarray(self._inverse)
        return s @ inverse if self._covariances else s * inverse

    def smooth(self, s: Any, xp: Any) -> Any:
        """H s, a row a point: what a score is multiplied by in the debiasing shift."""
        if self._covariances:
            return s @ xp.asarray(self.bandwidth)
        h = xp.asarray(self._deviations)
        return s * h * h  # h^2 itself may leave float64
