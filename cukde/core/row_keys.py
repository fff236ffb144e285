"""A number for each row of an array: the same for equal rows, and next to always different for others."""

from __future__ import annotations

from typing import Any

import numpy as np

_ODD = 0x9E3779B97F4A7C15


def of(A: Any, xp: Any) -> Any:
    """Keys of the rows of floats, (n,) uint64: of 1e7 different rows two have the same by a chance of 3e-6."""
    A = A.astype(xp.float64, copy=False) + 0.0  # no -0.0, whose bits differ
    keys = xp.zeros(len(A), np.uint64)
    for column in range(A.shape[1]):  # bits of small whole numbers differ in their upper half alone
        bits = xp.ascontiguousarray(A[:, column]).view(np.uint64)
        keys = (keys ^ bits ^ (bits >> np.uint64(32))) * np.uint64(_ODD)
        keys = keys ^ (keys >> np.uint64(29))
    return keys


class Rows:
    """Rows that can be looked up by their values."""

    def __init__(self, A: Any, xp: Any, weights: Any | None = None) -> None:
        """Take an array (n, d) of floats, which must not change, and weights (n,) by which equal rows are chosen."""
        self._rows, self._xp = A, xp
        keys = of(A, xp)
        first = xp.arange(len(A)) if weights is None else xp.argsort(-weights, kind="stable")
        self._order = first[xp.argsort(keys[first], kind="stable")]
        self._keys = keys[self._order]

    def find(self, B: Any) -> Any:
        """For each row of ``B`` (m, d) the first of the heaviest rows that equal it, or -1."""
        xp = self._xp
        place = xp.minimum(xp.searchsorted(self._keys, of(B, xp)), len(self._keys) - 1)
        first = self._order[place]
        return xp.where((self._rows[first] == B).all(axis=1), first, -1)
