"""The form in which public functions pass a piecewise polynomial to a backend."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

Reduction = Literal["exp", "log"]


class Pieces(NamedTuple):
    r"""m polynomials of k coefficients, the leading one first.

    Piece i is for ``knots[i] <= x < knots[i + 1]``; the last piece includes its end.

    With a ``reduction`` the polynomial p, of one value at a point, has a reduced argument, which never leaves the range
    of the knots:

    - "exp": r = x - n log 2, where n is the integer nearest to x / log 2, so that \|r\| is at most log(2) / 2 up to
      rounding. The value is 2^n p(r), rounded once. Overflow gives infinity. Underflow gives subnormal numbers, if the
      arithmetic has them, and then 0. The value is infinity at infinity and 0 at minus infinity.
    - "log": the mantissa m in [3/4, 3/2) of x = 2^n m, for subnormal x too. The value is p(m) + n log 2; minus infinity
      at zero of either sign, NaN below it, and infinity at infinity.

    NaN gives NaN.
    """

    coefficients: Any  # (k, m, r), for r values at a point
    knots: Any  # (m + 1,), strictly increasing
    local: bool  # whether powers are of x - knots[i], or of x
    reduction: Reduction | None = None


def horner(c: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Evaluate polynomials, coefficients c (k, ...) with the leading one first, at u, which broadcasts with c[0]."""
    y = np.broadcast_to(c[0], np.broadcast_shapes(c.shape[1:], u.shape)).copy()
    for row in c[1:]:
        y = y * u + row
    return y


def rounded(pieces: Pieces, dtype: np.dtype) -> Pieces:
    """Return the same function of every x of ``dtype``, with knots and coefficients of that dtype.

    Knots are rounded up and the last one down, so that no x of ``dtype`` changes its piece or leaves the range. Powers
    of x - knot are expanded about the rounded knot before the coefficients are rounded. Pieces that contain no x of
    ``dtype`` are left out.

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
    """Return the coefficients of p(u + moved) from those of p(u), (k, m, r), by repeated synthetic division."""
    out: np.ndarray = coefficients.copy()
    for last in range(len(out), 1, -1):
        for j in range(1, last):
            out[j] += moved[:, None] * out[j - 1]
    return out
