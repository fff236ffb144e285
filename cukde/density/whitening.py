"""Bandwidths other than a plain scalar: a linear map to coordinates in which the bandwidth is 1."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from cukde.density import check

# Outside this range h^2 leaves float32 (and the reciprocal of h^2 with it), or float64: such a scalar is whitened too.
_PLAIN_RANGE = {True: (1e-12, 1e12), False: (1e-100, 1e100)}
_LEAST_FACTOR = 1e-8  # with factors h times the least of them has to be in the range

_NUMBERS = (float, np.float64, int)
_FEW_NUMBERS = 1024  # of an array whose whitening is kept for further calls


def whitening_of(h: Any, d: int, name: str = "h", *, factors: bool = False, single: bool = True) -> Whitening:
    """Check a bandwidth of ``d`` columns, on the host, and return its whitening.

    ``factors`` says whether there are local ones, and ``single`` that pairs may be in single precision.
    """
    if type(h) in _NUMBERS:  # the usual cases: once for a number, and for an array
        return _of_number(h, d, name, factors, single)
    if type(h) is np.ndarray and h.dtype == np.float64 and h.size <= _FEW_NUMBERS:
        return _of_numbers(h.tobytes(), h.shape, d, name, factors, single)
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors, single=single)


@functools.lru_cache(maxsize=1024)
def _of_number(h: float | np.float64, d: int, name: str, factors: bool, single: bool) -> Whitening:
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors, single=single)


@functools.lru_cache(maxsize=64)
def _of_numbers(numbers: bytes, shape: tuple[int, ...], d: int, name: str, factors: bool, single: bool) -> Whitening:
    h = np.frombuffer(numbers).reshape(shape)
    return Whitening(check.bandwidth(h, d, name), d, name, factors=factors, single=single)


def _simplest(bandwidth: np.ndarray, stacked: bool) -> np.ndarray:
    """The same bandwidth as a number rather than equal deviations, and as deviations rather than a diagonal matrix."""
    if bandwidth.ndim - stacked == 2:
        variances = np.diagonal(bandwidth, axis1=-2, axis2=-1)
        if np.count_nonzero(bandwidth) > variances.size or not (variances > 0).all():
            return bandwidth
        bandwidth = np.sqrt(variances)
    if bandwidth.ndim - stacked == 1 and bandwidth.size and (bandwidth == bandwidth[..., :1]).all():
        return bandwidth[..., 0]
    return bandwidth


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums and their rounding errors, exactly (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products and their rounding errors, exactly (Dekker)."""
    product = a * b
    (high_a, low_a), (high_b, low_b) = _halves(a), _halves(b)
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of half the bits that add up to the given ones."""
    scaled = (2.0**27 + 1) * a
    high = scaled - (scaled - a)
    return high, a - high


class Whitening:
    """z = L^-1 (x - origin), with the bandwidth's covariance H = L L^T; of a stack, that of each member.

    A scalar in the ordinary range maps nothing (``plain``): data stay as they are, with bandwidth ``h``,
    since a difference of two given floats rounds less than a difference of two scaled ones. Equal deviations
    are one number, too. Everything else yields float64 coordinates with bandwidth 1, whatever precision the
    pairs are computed in: each has a rounding error of its distance from the origin, not from its neighbours.

    Parameters
    ----------
    bandwidth : array, shape (), (d,) or (d, d)
        Checked, on the host. With ``stacked`` (b,), (b, d) or (b, d, d): a bandwidth for each member, and arrays of
        all methods begin with the axis of the members.
    """

    def __init__(
        self,
        bandwidth: np.ndarray,
        d: int,
        name: str = "h",
        *,
        factors: bool = False,
        stacked: bool = False,
        single: bool = True,
    ) -> None:
        self.bandwidth, self._d, self._name, self._stacked, self.single = bandwidth, d, name, stacked, single
        bandwidth = _simplest(bandwidth, stacked)
        axes = bandwidth.ndim - stacked
        self._covariances = axes == 2
        least, largest = _PLAIN_RANGE[single]
        least = least / _LEAST_FACTOR if factors else least
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
        return Whitening(self.bandwidth[i], self._d, f"{self._name}[{i}]", single=self.single)

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

    def lost(self, A: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """What rounding takes from points on the host in :meth:`apply`, to twice the precision.

        Points that reach far, in bandwidths, lose digits there that differences of near ones would keep.
        """
        Z, inverse = self.apply(A, origin, np), self._inverse
        centred, of_centred = _sum(A.astype(np.float64), -origin)
        if not self._covariances:
            product, of_product = _product(centred, np.broadcast_to(inverse, centred.shape))
            return (product - Z) + (of_product + of_centred * inverse)
        total, rest = -Z, of_centred @ inverse.T
        for column, factors in zip(centred.T, inverse.T, strict=True):
            product, of_product = _product(column[:, None], factors[None])
            total, of_total = _sum(total, product)
            rest += of_product + of_total
        return total + rest

    def restore(self, Z: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Points on the host that :meth:`apply` sends to ``Z``."""
        if self.plain:
            return Z
        return (Z @ self._factor.T if self._covariances else Z * self._deviations) + origin

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
