"""Least squares on the sphere, from a histogram of the angles of all pairs.

The integral of a product of two kernels of concentration kappa depends on the angle t of their points alone, C(kappa)^2
/ C(kappa r) with r = 2 cos(t / 2), and so does a kernel itself. A pair is shared between the two nearest steps of the
histogram, so that any smooth function of the angle is summed as if it were linear between steps.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from cukde.bandwidth.data import Rows, without_each
from cukde.sphere.constant import log_norms

_STEPS = 2**18
_PAIRS = 2**21  # at a time
_NODES = 1000  # of a bandwidth, between which products are linear
_FAR = 50.0  # exponents that count for nothing


class PairAngles:
    """The angles of all pairs of rows, by their weights."""

    def __init__(self, rows: Rows, backend: ModuleType) -> None:
        """Take checked rows."""
        xp = backend.xp
        points = rows.points.astype(xp.float64, copy=False)
        w = rows.weights / rows.total
        self._d = points.shape[1]
        self._squares = float(w @ w)
        self._of_square, self._of_others = (backend.asnumpy(a) for a in _histograms(points, w, xp))
        some = np.flatnonzero(self._of_square)  # steps that pairs of few rows have
        self._of_square, self._of_others = self._of_square[some], self._of_others[some]
        self._angles = some * (np.pi / _STEPS)

    def least_squares(self, h: np.ndarray) -> np.ndarray:
        """Minus the integrated squared error of bandwidths (B,), up to a constant."""
        return np.array([self._score(float(each)) for each in h])

    def _score(self, h: float) -> float:
        kappa = h**-2.0
        nodes = np.arange(0, np.pi + h / _NODES, max(np.pi / _STEPS, h / _NODES))
        nodes = nodes[: 1 + np.searchsorted(4 * kappa * np.sin(nodes / 4) ** 2, _FAR)].clip(max=np.pi)
        fine = self._angles[: np.searchsorted(self._angles, nodes[-1], side="right")]
        log_own = float(log_norms(self._d, np.array([kappa]))[0])
        log_products = log_norms(self._d, kappa * 2 * np.cos(nodes / 2))
        products = np.exp(2 * log_own - 4 * kappa * np.sin(nodes / 4) ** 2 - log_products)
        kernels = np.exp(log_own - 2 * kappa * np.sin(fine / 2) ** 2)
        integral = self._squares * products[0] + np.interp(fine, nodes, products) @ self._of_square[: len(fine)]
        return float(kernels @ self._of_others[: len(fine)] - integral)


def _histograms(points: Any, w: Any, xp: Any) -> tuple[Any, Any]:
    """Weights of pairs of different rows by their angles: w_i w_j, and the same over what is left without a row.

    Each pair counts in both orders.
    """
    n = len(points)
    shares = w / without_each(w, xp)
    of_square, of_others = xp.zeros(_STEPS + 2), xp.zeros(_STEPS + 2)
    step = max(1, _PAIRS // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        later = xp.arange(start, n)[None] > xp.arange(rows.start, rows.stop)[:, None]
        cosines = xp.clip(points[rows] @ points[start:].T, -1, 1)
        places = (xp.arccos(cosines) * (_STEPS / np.pi))[later]
        first = places.astype(np.int64)
        beyond = places - first
        w_i, w_j, s_i, s_j = w[rows, None], w[None, start:], shares[rows, None], shares[None, start:]
        for out, pairs in ((of_square, 2 * w_i * w_j), (of_others, 2 * (w_i * s_j + s_i * w_j))):
            each = xp.broadcast_to(pairs, later.shape)[later]
            out += xp.bincount(first, each * (1 - beyond), _STEPS + 2)
            out += xp.bincount(first + 1, each * beyond, _STEPS + 2)
    return of_square[: _STEPS + 1], of_others[: _STEPS + 1]
