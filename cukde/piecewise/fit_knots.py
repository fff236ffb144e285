r"""Knots that give every piece of a fit about the same error.

A piece of width w and degree D has an error of about (density w)^(D + 1), where the density is a constant times
\|f^(D + 1)\|^(1 / (D + 1)) (de Boor 1973). It is measured: fits on the knots at hand give each piece its density, and
the next knots share its integral out equally.
"""

from __future__ import annotations

import numpy as np

from cukde.piecewise import fit_pieces
from cukde.piecewise.fit_pieces import Function

_ROUNDS = 12
_FLOOR = 1e-2
"""Least density of a piece in units of the mean, so that pieces without any error move little by little."""


def adaptive(f: Function, domain: tuple[float, float], m: int, degree: int) -> np.ndarray:
    """Return the knots, shape (m + 1,), of smallest largest error that were met."""
    knots = _shared_out(f, np.linspace(*domain, max(4 * m, 64) + 1), m, degree)[0]
    best, least = np.linspace(*domain, m + 1), np.inf
    for _ in range(_ROUNDS):
        following, error = _shared_out(f, knots, m, degree)
        if error < least:
            best, least = knots, error
        knots = following
    return best


def _shared_out(f: Function, knots: np.ndarray, m: int, degree: int) -> tuple[np.ndarray, float]:
    """Return m pieces of equal shares of the density on some knots, and the largest error there.

    Interpolation at Chebyshev points stands for every method: their errors are nearly proportional.
    """
    error = fit_pieces.errors(f, knots, fit_pieces.fit(f, knots, degree, "chebyshev", False))
    width = np.diff(knots)
    share = error ** (1 / (degree + 1))  # density times width
    density = np.maximum(share / width, _FLOOR * share.sum() / (knots[-1] - knots[0]))
    integral = np.concatenate([[0.0], np.cumsum(density * width)])
    if not integral[-1] > 0:
        return np.linspace(knots[0], knots[-1], m + 1), 0.0
    following = np.interp(np.linspace(0, integral[-1], m + 1), integral, knots)
    following[0], following[-1] = knots[0], knots[-1]
    return following, float(error.max())
