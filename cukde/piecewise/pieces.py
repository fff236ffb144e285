"""The form in which public functions pass a piecewise polynomial to a backend."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

Reduction = Literal["exp", "log"]


class Pieces(NamedTuple):
    r"""m polynomials of k coefficients, the leading one first.

    Piece i is for ``knots[i] <= x < knots[i + 1]``; the last piece includes its end. The first and the last piece may
    have no width in float64: then the one is for x below the knots, and the other for the last knot and x above it.

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
    knots: Any  # (m + 1,), increasing
    local: bool  # whether powers are of x - knots[i], or of x
    reduction: Reduction | None = None
    last: Any = None  # the end of the range where it is not the last knot, see :func:`rounded`


def horner(c: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Evaluate polynomials, coefficients c (k, ...) with the leading one first, at u, which broadcasts with c[0]."""
    y = np.broadcast_to(c[0], np.broadcast_shapes(c.shape[1:], u.shape)).copy()
    for row in c[1:]:
        y = y * u + row
    return y


def has_narrow_end(pieces: Pieces, dtype: np.dtype) -> bool:
    """Whether the first piece contains no number of ``dtype``, or the last piece at most one."""
    knots, last = _within(pieces.knots, dtype)
    return bool(knots[0] >= knots[1] or knots[-2] >= last)


def rounded(pieces: Pieces, dtype: np.dtype, go_on: bool = False) -> Pieces:
    """Return the same function of every x of ``dtype``, with strictly increasing knots and coefficients of that dtype.

    Knots are rounded up and the end of the range down, so that no x of ``dtype`` changes its piece or leaves the range.
    Powers of x - knot are expanded about the rounded knot before the coefficients are rounded. Pieces that contain no x
    of ``dtype`` are left out, all of them if the range has fewer than two numbers. If the last piece contains a single
    number, its end is the next one, and ``last`` that number.

    Parameters
    ----------
    pieces : Pieces
        Of float64 arrays on the host.
    dtype : dtype
        float32 or float64.
    go_on : bool
        Whether the end pieces are also for all x beyond the knots. Then they stay, and where no x of ``dtype`` is in
        the first piece, it begins at the number before.
    """
    if dtype == np.float64 and not has_narrow_end(pieces, dtype):
        return pieces
    with np.errstate(all="ignore"):
        knots, last = _within(pieces.knots, dtype)
        kept = knots[:-1] < np.append(knots[1:-1], np.nextafter(last, dtype.type(np.inf)))
        kept[[0, -1]] |= go_on
        kept &= knots[0] < last
        starts, coefficients = knots[:-1][kept], pieces.coefficients[:, kept]
        if len(starts) > 1 and starts[0] == starts[1]:
            starts[0] = np.nextafter(starts[0], dtype.type(-np.inf))
        end = np.maximum(last, np.nextafter(starts[-1:], dtype.type(np.inf)))
        moved = starts.astype(np.float64) - pieces.knots[:-1][kept]
        if pieces.local and moved.any():
            coefficients = expanded_about(coefficients, moved)
        return pieces._replace(
            coefficients=coefficients.astype(dtype), knots=np.append(starts, end), last=None if go_on else last
        )


def _within(knots: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, Any]:
    """Return the least numbers of ``dtype`` that are not below the knots, and the largest one not above the last."""
    with np.errstate(all="ignore"):
        nearest = knots.astype(dtype)
        up, last = np.nextafter(nearest, dtype.type(np.inf)), nearest[-1]
        if last > knots[-1]:
            last = np.nextafter(last, dtype.type(-np.inf))
        return np.where(nearest < knots, up, nearest), last


def expanded_about(coefficients: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return the coefficients of p(u + moved) from those of p(u), (k, m, r), by repeated synthetic division."""
    out: np.ndarray = coefficients.copy()
    for last in range(len(out), 1, -1):
        for j in range(1, last):
            out[j] += moved[:, None] * out[j - 1]
    return out
