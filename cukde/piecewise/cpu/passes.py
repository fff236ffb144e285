"""Piecewise polynomials on the CPU: blocks of points that stay in cache are located and then evaluated."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numba import uint64

from cukde.core import dtypes
from cukde.core.cpu import float16, threads
from cukde.core.cpu.jit import FUSED as _JIT, njit
from cukde.core.plan import note
from cukde.piecewise.cpu import locate
from cukde.piecewise.pieces import Pieces

__all__ = ["Prepared", "evaluate", "prepare"]

_BLOCK = 512  # points whose pieces, differences and values fit into the first-level cache
_TASK = 2**16  # points of a task of a thread
_UNCHANGED, _CLAMPED, _PERIODIC = range(3)  # x beyond the knots


class Prepared(NamedTuple):
    """A polynomial in the dtype of the arithmetic, with the table that finds pieces."""

    coefficients: np.ndarray  # (r, m, k)
    search: locate.Search
    ends: tuple[Any, Any]
    local: bool


def prepare(pieces: Pieces, dtype: np.dtype) -> Prepared:
    """Prepare evaluation at x of ``dtype``."""
    number = dtypes.arithmetic(np.dtype(dtype))
    knots = np.ascontiguousarray(pieces.knots, number)
    coefficients = np.ascontiguousarray(np.asarray(pieces.coefficients, number).transpose(2, 1, 0))
    ends = knots[0], knots[-1] if pieces.last is None else number.type(pieces.last)
    return Prepared(coefficients, locate.search(knots), ends, pieces.local)


def evaluate(
    prepared: Prepared,
    x: np.ndarray,
    extrapolate: bool | Literal["periodic", "clamp"],
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Evaluate at each x.

    Parameters
    ----------
    prepared : Prepared
        For the dtype of x.
    x : ndarray (N,)
        float16, float32 or float64, contiguous.
    extrapolate : {True, False, "periodic", "clamp"}
        Values beyond the knots.
    out : ndarray, optional
        Output array, contiguous, which does not overlap x.

    Returns
    -------
    ndarray (N,) or (N, r)
        Of the dtype of x; (N,) if r is 1.
    """
    note("guide" if prepared.search.guide.size else "uniform")
    r = len(prepared.coefficients)
    if out is None:
        out = np.empty(x.size if r == 1 else (x.size, r), x.dtype)
    flat = out.reshape(-1)
    number = prepared.coefficients.dtype
    mode = _CLAMPED if extrapolate == "clamp" else _PERIODIC if extrapolate == "periodic" else _UNCHANGED
    low, high = prepared.ends if extrapolate is False else (number.type(-np.inf), number.type(np.inf))

    def write(points: np.ndarray, into: np.ndarray) -> None:
        # Made here: Numba takes 0.1 s to compile what makes an array.
        piece = np.empty(_BLOCK, np.uint32)
        _evaluate(points, prepared, mode, low, high, piece, np.empty((3, _BLOCK), number), into)

    def values(start: int) -> None:
        points = x[start : start + _TASK]
        into = flat[start * r : (start + points.size) * r]
        if x.dtype == number:
            write(points, into)
            return
        wide = np.empty(into.size, number)
        write(float16.widen(points), wide)
        float16.narrow(wide, into)

    threads.run(values, range(0, x.size, _TASK))
    return out


@njit(**_JIT)
def _evaluate(x: Any, prepared: Any, mode: int, low: Any, high: Any, piece: Any, numbers: Any, out: Any) -> None:
    """Write the values at x, (x.size, r) flattened; NaN outside [low, high]. The others are memory for a block."""
    r, k = prepared.coefficients.shape[0], prepared.coefficients.shape[2]
    argument, power, column = numbers[0], numbers[1], numbers[2]
    for start in range(0, x.size, _BLOCK):
        stop = min(start + _BLOCK, x.size)
        n = stop - start
        points = argument[:n]
        _fold(x[start:stop], prepared.ends, mode, points)
        locate.locate(points, prepared.search, piece[:n])
        if prepared.local:
            for p in range(n):
                power[p] = points[p] - prepared.search.knots[piece[p]]
        else:
            for p in range(n):
                power[p] = points[p]
        for q in range(r):
            y = out[start:stop] if r == 1 else column[:n]
            _horner(prepared.coefficients[q], piece[:n], power[:n], y)
            if _any_nan(y):
                _write_limits(prepared.coefficients[q], piece[:n], power[:n], y)
            if k == 1 or low > -np.inf:  # constants do not propagate NaN
                for p in range(n):
                    y[p] = y[p] if low <= points[p] <= high else np.nan
            if r > 1:
                for p in range(n):
                    out[(start + p) * r + q] = y[p]


@njit(**_JIT)
def _fold(x: Any, ends: Any, mode: int, out: Any) -> None:
    """Copy x, clamped to the ends or moved into the first period if ``mode`` says so; NaN stays."""
    first, last = ends
    if mode == _CLAMPED:
        for p in range(x.size):
            above = first if x[p] < first else x[p]
            out[p] = last if above > last else above
    elif mode == _PERIODIC:
        for p in range(x.size):
            out[p] = first + (x[p] - first) % (last - first)
    else:
        for p in range(x.size):
            out[p] = x[p]


@njit(**_JIT)
def _horner(c: Any, piece: Any, u: Any, y: Any) -> None:
    """Write sum_j c[piece, j] u^(k - 1 - j), c (m, k); after the first one to four coefficients, four at a time."""
    k = uint64(c.shape[1])
    first = (k - uint64(1)) % uint64(4) + uint64(1)
    if first == 1:
        for p in range(y.size):
            y[p] = c[piece[p], uint64(0)]
    elif first == 2:
        for p in range(y.size):
            i = piece[p]
            y[p] = c[i, uint64(0)] * u[p] + c[i, uint64(1)]
    elif first == 3:
        for p in range(y.size):
            i = piece[p]
            y[p] = (c[i, uint64(0)] * u[p] + c[i, uint64(1)]) * u[p] + c[i, uint64(2)]
    else:
        for p in range(y.size):
            i, t = piece[p], u[p]
            y[p] = ((c[i, uint64(0)] * t + c[i, uint64(1)]) * t + c[i, uint64(2)]) * t + c[i, uint64(3)]
    j = first
    while j < k:
        for p in range(y.size):
            i, t = piece[p], u[p]
            s = (y[p] * t + c[i, j]) * t + c[i, j + uint64(1)]
            y[p] = (s * t + c[i, j + uint64(2)]) * t + c[i, j + uint64(3)]
        j += uint64(4)


@njit(**_JIT)
def _any_nan(y: Any) -> bool:
    """Whether there is a NaN, has_nan without a branch in the loop."""
    has_nan = False
    for p in range(y.size):
        has_nan |= y[p] != y[p]
    return has_nan


@njit(**_JIT)
def _write_limits(c: Any, piece: Any, u: Any, y: Any) -> None:
    """Write limits at infinite u where Horner's rule gave NaN, by a product of a leading zero and infinity."""
    k = uint64(c.shape[1])
    for p in range(y.size):
        if y[p] != y[p] and np.isinf(u[p]):
            j = uint64(0)
            while j < k - uint64(1) and c[piece[p], j] == 0:
                j += uint64(1)
            y[p] = c[piece[p], j]
            while j < k - uint64(1):
                y[p] = y[p] * u[p]
                j += uint64(1)
