"""A piecewise polynomial as the public functions hand it to a backend."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

Reduction = Literal["exp", "log"]


class Pieces(NamedTuple):
    r"""m polynomials of k coefficients, the leading one first.

    Piece i is for ``knots[i] <= x < knots[i + 1]``, the last one also for its end.

    With a ``reduction`` the polynomial p, of one value at a point, is of a part of x, which the knots enclose, and
    there is nothing beyond them:

    - "exp": of r = x - n log 2, n the integer nearest to x / log 2, so that \|r\| is at most log(2) / 2 up to rounding.
      The value is 2^n p(r), rounded once: beyond the largest number infinity, below the normal ones subnormal numbers,
      where the arithmetic has them, and then 0; infinity at infinity and 0 at minus infinity.
    - "log": of the mantissa m in [3/4, 3/2) of x = 2^n m, which subnormal numbers have too. The value is
      p(m) + n log 2; minus infinity at zero of either sign, NaN below it, and infinity at infinity.

    NaN gives NaN.
    """

    coefficients: Any  # (k, m, r): r values at a point
    knots: Any  # (m + 1,), strictly increasing
    local: bool  # powers of x - knots[i], else of x itself
    reduction: Reduction | None = None


def horner(c: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Evaluate polynomials, coefficients c (k, ...) with the leading one first, at u, which broadcasts with c[0]."""
    y = np.broadcast_to(c[0], np.broadcast_shapes(c.shape[1:], u.shape)).copy()
    for row in c[1:]:
        y = y * u + row
    return y


def rounded(pieces: Pieces, dtype: np.dtype) -> Pieces:
    """The same function at every x of ``dtype``, from knots and coefficients of that dtype.

    A knot moves up to the next number of ``dtype``, and the end down: no such x changes its piece or leaves the range.
    Powers of x - knot are expanded about the knot where it has moved to; only then coefficients are rounded. A piece
    that no x falls into is left out.

    Parameters
    ----------
    pieces : Pieces
        Of float64 arrays on the host.
    dtype : dtype
        float32 or float64.
    """
    if dtype == np.float64:
        return pieces
    with np.errstate(over="ignore"):
        knots = pieces.knots.astype(dtype)
        low, high = knots[:-1] < pieces.knots[:-1], knots[-1] > pieces.knots[-1]
        knots[:-1][low] = np.nextafter(knots[:-1][low], dtype.type(np.inf))
        if high:
            knots[-1] = np.nextafter(knots[-1], dtype.type(-np.inf))
        kept = knots[:-1] < np.minimum(knots[1:], knots[-1])
        coefficients = pieces.coefficients[:, kept]
        moved = knots[:-1][kept].astype(np.float64) - pieces.knots[:-1][kept]
        if pieces.local and moved.any():
            coefficients = _expanded_about(coefficients, moved)
        return pieces._replace(coefficients=coefficients.astype(dtype), knots=np.append(knots[:-1][kept], knots[-1]))


def _expanded_about(coefficients: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Coefficients of p(u + moved) for those of p(u), (k, m, r), by repeated synthetic division."""
    out: np.ndarray = coefficients.copy()
    for last in range(len(out), 1, -1):
        for j in range(1, last):
            out[j] += moved[:, None] * out[j - 1]
    return out
