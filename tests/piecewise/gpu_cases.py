"""Piecewise polynomials of the GPU backend: knots, coefficients, values in float64, and by how much they may differ."""

from __future__ import annotations

import numpy as np

from tests.private import Pieces

ALLOWED = {"float32": 1e-6, "float64": 1e-13}  # of the sum of absolute terms, up to degree 12
HALF = 2.0**-11, 2.0**-25  # a rounding to float16: relative, and absolute where the result is denormal


def arithmetic(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def knots_of(kind: str, m: int, dtype: str) -> np.ndarray:
    """m + 1 knots, as the arithmetic has them."""
    rng = np.random.default_rng(m)
    real = arithmetic(dtype)
    if kind == "whole":
        return np.arange(-3, m - 2).astype(real)
    if kind == "uniform":
        return np.linspace(-1.7, 2.9, m + 1).astype(real)
    if kind == "paired":  # two of them in most cells of a guide
        i = np.arange(m + 1)
        return (i // 2 + 0.3 * (i % 2)).astype(real)
    if kind == "random":
        return np.unique(rng.uniform(-2, 2, 2 * m + 40).astype(real))[np.r_[: m + 1]]
    assert kind == "clustered"  # nearly all of them next to each other
    start, steps = np.array(1.0, real), np.arange(m, dtype=real)
    return np.append(start + steps * np.spacing(start), np.array(9, real))


def coefficients_of(k: int, m: int, columns: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(k).standard_normal((k, m, columns)).astype(arithmetic(dtype))


def expected(pieces: Pieces, x: np.ndarray, mode: bool | str) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, columns), and the sums of the absolute values of their terms."""
    c, knots = (a.astype(np.float64) for a in pieces[:2])
    first, last = pieces.knots[0], pieces.knots[-1]
    x = x.astype(pieces.knots.dtype)
    with np.errstate(all="ignore"):
        if mode == "periodic":
            x = first + (x - first) % (last - first)
        elif mode == "clamp":
            x = np.clip(x, first, last)
        elif mode is False:
            x = np.where((x >= first) & (x <= last), x, np.nan).astype(x.dtype)
        piece = np.clip(np.searchsorted(pieces.knots, x, "right") - 1, 0, knots.size - 2)
        t = x.astype(np.float64) - (knots[piece] if pieces.local else 0)
        value = c[0, piece].copy()
        size = np.abs(value)
        for row in c[1:]:
            value = value * t[:, None] + row[piece]
            size = size * np.abs(t)[:, None] + np.abs(row[piece])
        for column in range(c.shape[2]):  # the first coefficient that is not zero has the limit
            for i in np.flatnonzero(np.isinf(t)):
                terms = np.trim_zeros(c[:, piece[i], column], "f")
                powers = np.where(np.arange(len(terms))[::-1] > 0, t[i] ** np.arange(len(terms))[::-1], 1)
                value[i, column] = terms[0] * powers[0] if len(terms) else 0
                size[i, column] = np.abs(value[i, column])
    value[np.isnan(t)] = np.nan
    return value, size


def allowed(pieces: Pieces, dtype: np.dtype, want: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Errors of values whose terms have absolute values that add up to ``size``."""
    # Every power of t adds a rounding of t and one of Horner's rule.
    error = ALLOWED[arithmetic(dtype.name)] * max(1.0, len(pieces.coefficients) / 13) * size
    if dtype == np.float16:
        return error + HALF[0] * np.abs(want) + HALF[1]
    return error + 8 * float(np.finfo(dtype).tiny)  # denormal numbers may be taken for zero
