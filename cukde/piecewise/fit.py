"""Piecewise polynomials that approximate a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from cukde.core import check as core_check, dtypes
from cukde.piecewise import check_fit, fit_knots, fit_pieces
from cukde.piecewise.polynomial import PiecewisePolynomial

MOST_PIECES = 2**16
"""Of a fit that is given a tolerance."""


class FittedPolynomial(PiecewisePolynomial):
    """A :class:`PiecewisePolynomial` made by :func:`fit_piecewise`, with what it deviates from the function by.

    Attributes
    ----------
    max_error : float
        Largest absolute error on the domain, in float64 and in the dtype of the fit.
    max_errors : dict
        Both by the name of the dtype, such as ``{"float64": 2.5e-7, "float32": 6.1e-7}``.
    """

    __module__ = "cukde"

    max_error: float
    max_errors: dict[str, float]


def fit_piecewise(
    func: Callable[[np.ndarray], Any],
    domain: tuple[float, float],
    pieces: int | None = None,
    degree: int = 3,
    *,
    tol: float | None = None,
    method: Literal["minimax", "chebyshev", "interpolate", "least_squares"] = "minimax",
    knots: Literal["uniform", "adaptive"] | ArrayLike = "uniform",
    dtype: DTypeLike = np.float32,
    continuous: bool = False,
) -> FittedPolynomial:
    """Fit a piecewise polynomial to a function of one variable.

    Parameters
    ----------
    func : callable
        Takes a NumPy array of float64 of shape (n,) and returns as many finite real numbers.
    domain : (float, float)
        Where to fit. Ends that are not numbers of ``dtype`` are rounded outward, and ``func`` is evaluated there.
    pieces : int, optional
        Number of pieces. Exactly one of ``pieces`` and ``tol`` is given; with an array of knots neither is needed.
    degree : int
        Degree of each piece, at least 1.
    tol : float, optional
        Take as few pieces as make ``max_error`` at most ``tol``: the number is doubled until that holds, then bisected.
        It is the smallest one where more pieces never have a larger error.
    method : {"minimax", "chebyshev", "interpolate", "least_squares"}
        The smallest largest error (Remez's exchange), interpolation at the zeros of the Chebyshev polynomial,
        interpolation at the Chebyshev-Lobatto points, the knots among them, or the smallest integral of the squared
        error (Gauss-Legendre quadrature of 4 (degree + 1) + 16 nodes).
    knots : {"uniform", "adaptive"} or array_like, shape (pieces + 1,)
        Equal widths, which a GPU evaluates fastest; widths that give each piece about the same error; or increasing
        numbers from one end of the domain to the other. They are rounded to ``dtype`` (float32 for float16) before
        anything is fitted, so that no evaluation rounds them.
    dtype : {float32, float16, float64}
        What the polynomial is going to be evaluated in. The coefficients returned are float64.
    continuous : bool
        Whether the pieces take the function's own values at the knots, where they meet then (up to rounding): the
        method chooses among such polynomials; "chebyshev" stretches its points until the outermost are the knots.

    Returns
    -------
    FittedPolynomial
        A :class:`PiecewisePolynomial`, NaN beyond the domain unless a call says otherwise (``extrapolate``), with
        ``max_error``, the largest absolute error on the domain, and ``max_errors``, that in float64 and in ``dtype``.

    Raises
    ------
    ValueError
        For a degree or a number of pieces below 1, a domain that is not two finite increasing numbers, an unknown
        option, knots that do not increase or do not span the domain, both or neither of ``pieces`` and ``tol``, a
        function that returns another shape or values that are not finite, more pieces than the dtype can tell apart,
        and a ``tol`` that is out of reach.

    Notes
    -----
    The error in float64 is measured on 64 (degree + 1) points a piece and refined by parabolas; it holds everywhere for
    functions that are smooth within the pieces. The error in ``dtype`` adds to it the largest deviation that rounding
    made in evaluations on the CPU, at random points of all pieces, and an eighth of it for the points between.
    Rounding is at least half a unit in the last place of the largest value, 2.4e-7 for values from 4 to 8 in float32.

    Minimax pieces agree with the best ones to 1e-6 of their error, down to the rounding of float64. Cost: 256 pieces of
    degree 3 take some 0.05 s and evaluate ``func`` 120,000 times.

    References
    ----------
    Powell, M. J. D. (1981). *Approximation Theory and Methods*, chapters 7 to 9. Cambridge University Press.

    de Boor, C. (1973). Good approximation by splines with variable knots. In *Spline Functions and Approximation
    Theory*, 57-72. Birkhaeuser.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> p = cukde.fit_piecewise(np.exp, (0, 1), 1, 3, dtype=np.float64)
    >>> print(f"{p.max_error:.3e}")
    5.448e-04
    >>> p = cukde.fit_piecewise(np.tanh, (-4, 4), tol=1e-6, knots="adaptive")
    >>> p.max_error <= 1e-6
    True
    """
    f = check_fit.sampled(func)
    evaluated = check_fit.dtype(dtype)
    low, high = check_fit.domain(domain)
    degree = core_check.count("degree", degree)
    core_check.option("method", method, fit_pieces.METHODS)
    continuous = core_check.flag("continuous", continuous)
    given: np.ndarray | None = None
    if isinstance(knots, str):
        core_check.option("knots", knots, ("uniform", "adaptive"), " or an array")
    else:
        given = check_fit.knots(knots, (low, high))
    first, tol = check_fit.size(pieces, tol, None if given is None else len(given) - 1)

    def fitted(m: int) -> FittedPolynomial:
        if given is not None:
            at = given
        elif knots == "adaptive":
            at = fit_knots.adaptive(f, (low, high), m, degree)
        else:
            at = np.linspace(low, high, m + 1)
        at = _rounded(at, evaluated)
        c = fit_pieces.fit(f, at, degree, method, continuous)
        out = FittedPolynomial(c, at, extrapolate=False)
        out.max_errors = _errors(out, f, evaluated)
        out.max_error = max(out.max_errors.values())
        return out

    return fitted(first) if tol is None else _fewest(fitted, tol, evaluated)


def _fewest(fitted: Callable[[int], FittedPolynomial], tol: float, evaluated: np.dtype) -> FittedPolynomial:
    """Return the fit of fewest pieces that was found to reach ``tol``: doubling, then bisection."""
    m, best, too_few = 1, fitted(1), 0
    least = best
    while best.max_error > tol:
        too_few, reason = m, None
        if best.max_errors["float64"] < best.max_error / 16:
            reason = f"rounding in {evaluated.name} alone is above it"
        elif m == MOST_PIECES:
            reason = f"more than {MOST_PIECES} pieces are not tried"
        if reason is None:
            m *= 2
            try:
                best = fitted(m)
            except ValueError as error:
                reason = str(error)
        if reason is not None:
            raise ValueError(
                f"tol={tol:g} is unreachable: the least error found is {least.max_error:.3g}, with {least.c.shape[1]} "
                f"pieces; {reason}"
            )
        least = min(least, best, key=lambda fit: fit.max_error)
    while m - too_few > 1:
        between = (m + too_few) // 2
        attempt = fitted(between)
        if attempt.max_error <= tol:
            m, best = between, attempt
        else:
            too_few = between
    return best


def _rounded(knots: np.ndarray, evaluated: np.dtype) -> np.ndarray:
    """Round knots to the dtype they are compared in, the ends outward."""
    number = dtypes.arithmetic(evaluated)
    with np.errstate(over="ignore"):
        out = knots.astype(number)
    if out[0] > knots[0]:
        out[0] = np.nextafter(out[0], number.type(-np.inf))
    if out[-1] < knots[-1]:
        out[-1] = np.nextafter(out[-1], number.type(np.inf))
    check_fit.distinct(out, out.dtype.name)
    return out.astype(np.float64)


_LEAST_POINTS, _POINTS_A_PIECE = 2**16, 64


def _errors(p: FittedPolynomial, f: fit_pieces.Function, evaluated: np.dtype) -> dict[str, float]:
    """Measure the error in float64 and in the dtype of the evaluation."""
    errors = {"float64": float(fit_pieces.errors(f, p.x, p.c).max())}
    if evaluated != np.float64:
        m = p.c.shape[1]
        each = max(_LEAST_POINTS // m, _POINTS_A_PIECE)
        u = np.random.default_rng(0).random((m, each))
        with np.errstate(over="ignore"):
            x = (p.x[:-1, None] + np.diff(p.x)[:, None] * u).ravel().astype(evaluated)
        x = x[(x >= p.x[0]) & (x <= p.x[-1])]  # rounding may lead out of the domain
        rounding = np.abs(p(x).astype(np.float64) - p(x.astype(np.float64)))
        errors[evaluated.name] = errors["float64"] + 1.125 * float(rounding.max(initial=0))
    return errors
