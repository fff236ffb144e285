"""Values of piecewise polynomials on the CPU: blocks of points that stay in cache, located and then evaluated."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numba import uint64

from cukde.core import dtypes
from cukde.core.cpu import float16, threads
from cukde.core.cpu.jit import njit
from cukde.piecewise.cpu import locate, reduction as piecewise_reduction
from cukde.piecewise.pieces import Pieces

__all__ = ["Prepared", "evaluate", "prepare"]

# Sums of products may be fused, which is all the freedom that NaN and infinities leave.
_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "cache": True}

_BLOCK = 512  # points of which pieces, differences and values are in the first-level cache together
_TASK = 2**16  # points a thread takes at once
_AS_IT_IS, _HELD, _PERIODIC = range(3)  # what is done to x


class Prepared(NamedTuple):
    """A polynomial in the dtype of the arithmetic, with the table that finds pieces."""

    coefficients: np.ndarray  # (r, m, k)
    search: locate.Search
    ends: tuple[Any, Any]
    local: bool
    reduction: piecewise_reduction.Reduction | None


def prepare(pieces: Pieces, dtype: np.dtype) -> Prepared:
    """Make what evaluation at x of ``dtype`` needs, once."""
    number = dtypes.arithmetic(np.dtype(dtype))
    knots = np.ascontiguousarray(pieces.knots, number)
    coefficients = np.ascontiguousarray(np.asarray(pieces.coefficients, number).transpose(2, 1, 0))
    reduction = None if pieces.reduction is None else piecewise_reduction.constants(pieces.reduction, number)
    return Prepared(coefficients, locate.search(knots), (knots[0], knots[-1]), pieces.local, reduction)


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
        What lies beyond the knots; of no effect after a reduction, which leaves nothing there.
    out : ndarray, optional
        Where to write, contiguous, apart from x.

    Returns
    -------
    ndarray (N,) or (N, r)
        Of the dtype of x; (N,) where r is 1.
    """
    r = len(prepared.coefficients)
    if out is None:
        out = np.empty(x.size if r == 1 else (x.size, r), x.dtype)
    flat = out.reshape(-1)
    number = prepared.coefficients.dtype
    mode = _HELD if extrapolate == "clamp" else _PERIODIC if extrapolate == "periodic" else _AS_IT_IS
    low, high = prepared.ends if extrapolate is False else (number.type(-np.inf), number.type(np.inf))

    def write(points: np.ndarray, into: np.ndarray) -> None:
        if prepared.reduction is None:
            _evaluate(points, prepared, mode, low, high, into)
        else:
            _evaluate_reduced(points, prepared, piecewise_reduction.workspace(_BLOCK, number), into)

    def values(start: int) -> None:
        points = x[start : start + _TASK]
        into = flat[start * r : (start + points.size) * r]
        if x.dtype == number:
            write(points, into)
            return
        wide = np.empty(into.size, number)
        write(float16.widen(points), wide)
        float16.narrow(wide, into)

    threads.run(values, range(0, x.size, _TASK), blas=False)
    return out


@njit(**_JIT)
def _evaluate(x: Any, prepared: Any, mode: int, low: Any, high: Any, out: Any) -> None:
    """Write the values at x, (x.size, r) flattened; NaN where x is not in [low, high]."""
    r, k = prepared.coefficients.shape[0], prepared.coefficients.shape[2]
    piece = np.empty(_BLOCK, np.uint32)
    argument = np.empty(_BLOCK, x.dtype)
    power = np.empty(_BLOCK, x.dtype)
    column = np.empty(_BLOCK, x.dtype)
    for start in range(0, x.size, _BLOCK):
        stop = min(start + _BLOCK, x.size)
        n = stop - start
        at = argument[:n]
        _fold(x[start:stop], prepared.ends, mode, at)
        locate.locate(at, prepared.search, piece[:n])
        if prepared.local:
            for p in range(n):
                power[p] = at[p] - prepared.search.knots[piece[p]]
        else:
            for p in range(n):
                power[p] = at[p]
        for q in range(r):
            y = out[start:stop] if r == 1 else column[:n]
            _horner(prepared.coefficients[q], piece[:n], power[:n], y)
            if _any_nan(y):
                _mend_infinities(prepared.coefficients[q], piece[:n], power[:n], y)
            if k == 1 or low > -np.inf:  # a constant does not hand on the NaN of x
                for p in range(n):
                    y[p] = y[p] if low <= at[p] <= high else np.nan
            if r > 1:
                for p in range(n):
                    out[(start + p) * r + q] = y[p]


@njit(**_JIT)
def _evaluate_reduced(x: Any, prepared: Any, work: Any, out: Any) -> None:
    """Write the values at x of one polynomial of a reduced argument."""
    piece = np.empty(_BLOCK, np.uint32)
    part = np.empty(_BLOCK, x.dtype)
    for start in range(0, x.size, _BLOCK):
        stop = min(start + _BLOCK, x.size)
        n = stop - start
        points, at, y = x[start:stop], part[:n], out[start:stop]
        piecewise_reduction.reduce(points, prepared.reduction, work, at)
        locate.locate(at, prepared.search, piece[:n])
        for p in range(n):
            at[p] = at[p] - prepared.search.knots[piece[p]]
        _horner(prepared.coefficients[0], piece[:n], at, y)
        piecewise_reduction.restore(points, prepared.reduction, work, y)


@njit(**_JIT)
def _fold(x: Any, ends: Any, mode: int, out: Any) -> None:
    """Copy x, held at the nearer end or brought into the first period where ``mode`` says so; NaN stays."""
    first, last = ends
    if mode == _HELD:
        for p in range(x.size):
            held = first if x[p] < first else x[p]
            out[p] = last if held > last else held
    elif mode == _PERIODIC:
        for p in range(x.size):
            out[p] = first + (x[p] - first) % (last - first)
    else:
        for p in range(x.size):
            out[p] = x[p]


@njit(**_JIT)
def _horner(c: Any, piece: Any, u: Any, y: Any) -> None:
    """Write sum_j c[piece, j] u^(k - 1 - j), c (m, k); after the first few coefficients four at a time."""
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
    """Whether there is a NaN; without a branch in the loop."""
    found = False
    for p in range(y.size):
        found |= y[p] != y[p]
    return found


@njit(**_JIT)
def _mend_infinities(c: Any, piece: Any, u: Any, y: Any) -> None:
    """Write limits where u is infinite and Horner's rule gave NaN: it multiplied a leading zero by infinity."""
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
