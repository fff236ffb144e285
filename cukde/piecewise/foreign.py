"""Piecewise polynomials and splines of SciPy and CuPy, as coefficients of pieces and knots on the host.

Functions return coefficients c (k, m, ...), knots (m + 1,), what holds beyond the knots, and an array that is where the
result belongs. Only a first and a last piece may have no width; SciPy evaluates them at the last knot and beyond.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from cukde.piecewise import check
from cukde.piecewise.pieces import expanded_about

_OF_FITPACK: dict[Any, Any] = {0: True, "extrapolate": True, 2: "raise", "raise": "raise", 3: "clamp", "const": "clamp"}


def of_polynomial(p: Any) -> tuple[np.ndarray, np.ndarray, Any, Any]:
    """Take apart a ``PPoly`` or a ``BPoly``."""
    _one_variable("p", p)
    if not all(hasattr(p, name) for name in ("c", "x", "extrapolate")):
        other = "; from_spline takes it" if hasattr(p, "tck") or hasattr(p, "get_knots") else ""
        raise TypeError(f"p must be a PPoly of SciPy or CuPy; got {type(p).__name__}: a BPoly will do, too{other}")
    if getattr(p, "axis", 0) != 0:
        raise ValueError(
            f"p must have axis 0; got {p.axis}: give {_kind(p)}(p.c, p.x, p.extrapolate), whose values have the axis "
            "of the points first"
        )
    c, x = check.on_host("c", p.c), check.on_host("x", p.x)
    if _kind(p) == "BPoly":
        # SciPy has NaN in pieces without width.
        kept = np.flatnonzero(np.diff(x))
        c, x = _powers(c[:, kept], np.diff(x)[kept]), np.append(x[kept], x[-1])
    return *_without_empty_pieces(c, x), True if p.extrapolate is None else p.extrapolate, p.c


def of_spline(tck: Any) -> tuple[np.ndarray, np.ndarray, Any, Any]:
    """Take apart a ``BSpline``, a ``UnivariateSpline``, or a tuple of knots, coefficients and degree."""
    from scipy.interpolate import BSpline

    _one_variable("tck", tck)
    extrapolate = getattr(tck, "extrapolate", True)
    if hasattr(tck, "get_knots") and hasattr(tck, "ext"):
        extrapolate = _OF_FITPACK.get(tck.ext)
        if extrapolate is None:
            raise ValueError('tck must not be 0 beyond its knots; got ext=1: make it with ext="extrapolate"')
        knots, given = tck.get_knots(), tck.get_coeffs()
        k = len(given) - len(knots) + 1
        parts: Any = np.concatenate([[knots[0]] * k, knots, [knots[-1]] * k]), given, k
    else:
        parts = getattr(tck, "tck", tck)
    if not isinstance(parts, tuple | list) or len(parts) != 3:
        other = "; from_scipy takes it" if hasattr(tck, "c") and hasattr(tck, "x") else ""
        raise TypeError(f"tck must be a BSpline or a tuple (t, c, k); got {type(tck).__name__}{other}")
    if getattr(tck, "axis", 0) != 0:
        raise ValueError(
            f"tck must have axis 0; got {tck.axis}: give BSpline(tck.t, tck.c, tck.k, tck.extrapolate), whose values "
            "have the axis of the points first"
        )
    if isinstance(parts[1], tuple | list) and any(np.ndim(part) for part in parts[1]):
        raise ValueError(
            f"c must be one array; got {len(parts[1])} arrays, as splprep returns them: give np.stack(c, axis=1), of "
            "one value for each"
        )
    t, c = check.on_host("t", parts[0]), check.on_host("c", parts[1])
    if t.ndim != 1:
        raise ValueError(f"t must have shape (knots,); got {t.shape}")
    try:
        k = operator.index(parts[2])
    except TypeError:
        raise TypeError(f"k must be an integer; got {parts[2]!r}") from None
    spline = BSpline(t, c, k)
    n = len(t) - k - 1
    knots = spline.t[k : n + 1]  # the base interval; other knots have an influence on coefficients alone
    values = np.stack([spline(knots[:-1], nu) / math.factorial(nu) for nu in range(k, -1, -1)])
    if knots[0] == knots[1]:  # without width: of degree 0 its coefficient, else 0
        values[:, 0] = spline.c[0] if k == 0 else 0
    return *_without_empty_pieces(values, knots), extrapolate, parts[1]


def _one_variable(argument: str, p: Any) -> None:
    """Raise for a function of several variables."""
    on_grid = any(isinstance(getattr(p, name, None), tuple) for name in ("x", "t", "grid"))
    of_surface = hasattr(p, "degrees") or (isinstance(p, tuple | list) and len(p) == 5)  # objects and bisplrep's list
    if on_grid or of_surface:
        raise TypeError(
            f"{argument} must be a function of one variable; got {type(p).__name__}, which is for several: take "
            "its values v at points x along a line, and write from_spline(scipy.interpolate.make_interp_spline(x, v))"
        )


def _kind(p: Any) -> str:
    return "BPoly" if any(base.__name__ == "BPoly" for base in type(p).__mro__) else "PPoly"


def _powers(c: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return coefficients of powers of x - knot from those of Bernstein polynomials, by differences."""
    k = len(c) - 1
    width = width.reshape(-1, *[1] * (c.ndim - 2))
    out = [math.comb(k, j) * np.diff(c, j, axis=0)[0] / width**j for j in range(k, -1, -1)]
    return np.stack(out)


def _without_empty_pieces(c: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out pieces without width, but for ends whose polynomial is another than the neighbour's."""
    if x.ndim != 1 or c.ndim < 2 or c.shape[1] != x.size - 1:
        return c, x  # an error of the polynomial
    wide = np.diff(x) != 0
    kept = np.flatnonzero(wide)
    if kept.size:
        first, last = kept[0], kept[-1]
        wide[0] |= not _same(c[:, 0], c[:, first], 0.0)
        wide[-1] |= not _same(c[:, -1], c[:, last], x[-1] - x[last])
        kept = np.flatnonzero(wide)
    return c[:, kept], np.append(x[kept], x[-1])


def _same(c: np.ndarray, neighbour: np.ndarray, moved: float) -> bool:
    """Whether polynomials of coefficients (k, ...) about points ``moved`` apart are one but for rounding.

    Coefficients that are not finite come of a division by the width, and are none.
    """
    if not (np.isfinite(c).all() and np.isfinite(neighbour).all()):
        return True
    other = neighbour.reshape(len(c), 1, -1).astype(np.float64)
    size = expanded_about(np.abs(other), np.abs([moved]))
    difference = expanded_about(other, np.array([moved])) - c.reshape(other.shape)
    return bool((np.abs(difference) <= 1e-13 * size).all())
