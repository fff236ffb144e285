"""Distances and moments of data as they are given at few queries; NumPy answers until the loops are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import meanwhile
from cukde.core.cpu.jit import OPTIONS as _JIT, njit

_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz"}}


# NumPy's answer returns True: None would say that there is none.


def _squares(X: np.ndarray, queries: np.ndarray, out: np.ndarray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused later
        for query, squares_of in zip(queries, out, strict=True):
            steps = X - query
            np.einsum("ik,ik->i", steps, steps, out=squares_of)
    return True


@meanwhile.answered_by(_squares, from_call=9)
@njit(**_FAST)
def squares(X: Any, queries: Any, out: Any) -> None:
    """Write squared distances of data (n, d) to queries (m, d), float64, to ``out`` (m, n)."""
    n, d = X.shape
    for i in range(n):
        for j in range(queries.shape[0]):
            square = 0.0
            for k in range(d):
                step = X[i, k] - queries[j, k]
                square += step * step
            out[j, i] = square


def _moments(X: np.ndarray, queries: np.ndarray, terms: np.ndarray, out: np.ndarray) -> bool:
    np.einsum("ij,ijk->ik", terms, X - queries[:, None], out=out)
    return True


@meanwhile.answered_by(_moments, from_call=9)
@njit(**_FAST)
def moments(X: Any, queries: Any, terms: Any, out: Any) -> None:
    """Write sums of ``terms`` (m, n) times the differences of data (n, d) from queries (m, d) to ``out`` (m, d)."""
    n, d = X.shape
    for j in range(queries.shape[0]):
        for k in range(d):
            out[j, k] = 0.0
        for i in range(n):
            for k in range(d):
                out[j, k] += terms[j, i] * (X[i, k] - queries[j, k])
