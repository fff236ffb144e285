"""Loops over data as they are given, at few queries (``few_queries.py``); NumPy answers until they are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import meanwhile
from cukde.core.cpu.jit import OPTIONS as _JIT, njit

_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz"}}


# NumPy's answers return True: None would say that there is none, and compiled code would add to the same sums again.


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


def _add_moments(X: np.ndarray, queries: np.ndarray, terms: np.ndarray, out: np.ndarray) -> bool:
    for query, of_query, moments in zip(queries, terms, out, strict=True):
        moments += of_query @ (X - query)
    return True


@meanwhile.answered_by(_add_moments, from_call=9)
@njit(**_FAST)
def add_moments(X: Any, queries: Any, terms: Any, out: Any) -> None:
    """Add differences of data (n, d) and queries (m, d) times ``terms`` (m, n) to ``out`` (m, d), all float64."""
    n, d = X.shape
    for i in range(n):
        for j in range(queries.shape[0]):
            term = terms[j, i]
            if term > 0:
                for k in range(d):
                    out[j, k] += term * (X[i, k] - queries[j, k])
