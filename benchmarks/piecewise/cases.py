"""Piecewise polynomials and elementary functions on the CPU beside SciPy's and NumPy's: calls, and checked rows.

Points are uniform random over the range; knots are uniform, or random. The error of a row is the largest in units of
sum_j |c_j| |x - x_i|^(k-1-j), against sums of powers in float64. Rows of float32 and float16 are beside SciPy in
float64, for it has no other. Points of functions are normal of deviation 2, of log their exponentials; errors are in
units of max(1, |f(x)|).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import scipy.special
from scipy.interpolate import PPoly

import cukde
from benchmarks.record import Case, checked
from tests import reference

_CHECKED = 100_000  # of the points
_TOLERANCE = {"float64": 1e-13, "float32": 1e-6, "float16": 2**-11 + 1e-6}
_TOLERANCE_OF_FUNCTIONS = {"float64": 6e-8, "float32": 2e-7}  # as cukde.functions says

FUNCTIONS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "gelu": ("SciPy", lambda x: x * scipy.special.ndtr(x)),
    "silu": ("SciPy", lambda x: x * scipy.special.expit(x)),
    "tanh": ("NumPy", np.tanh),
    "sigmoid": ("SciPy", scipy.special.expit),
    "erf": ("SciPy", scipy.special.erf),
    "softplus": ("NumPy", lambda x: np.logaddexp(x, 0, dtype=x.dtype)),
    "exp": ("NumPy", np.exp),
    "log": ("NumPy", np.log),
}
"""Whose function a CPU user has, and that function."""


def polynomials(n: int, pieces: int, degree: int, knots: str, dtype: str) -> Case:
    """So many points, with knots "uniform" or "random"."""
    places, c = _knots(pieces, knots), np.random.default_rng(degree).standard_normal((degree + 1, pieces))
    x = _points(n).astype(dtype)
    p, q, wide = cukde.PiecewisePolynomial(c, places), PPoly(c, places), x.astype(np.float64)
    expected, scale = reference.piecewise(c, places, wide[:_CHECKED])

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:_CHECKED] - expected) / scale).max())

    about = {
        "op": "piecewise",
        "backend": "cpu",
        "shape": {"n": n, "pieces": pieces, "degree": degree, "knots": knots},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error(p(x)),
    }
    return Case(lambda: p(x), checked(about, _TOLERANCE[dtype]), {"SciPy": (lambda: q(wide), error(q(wide)))})


def function(n: int, name: str, dtype: str) -> Case:
    """One of :data:`FUNCTIONS` at so many points."""
    x = 2 * np.random.default_rng(0).standard_normal(n)
    x = (np.exp(x) if name == "log" else x).astype(dtype)
    ours, (library, theirs) = getattr(cukde.functions, name), FUNCTIONS[name]
    exact = theirs(x[:_CHECKED].astype(np.float64))

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:_CHECKED] - exact) / np.maximum(1, np.abs(exact))).max())

    about = {
        "op": name,
        "backend": "cpu",
        "shape": {"n": n},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error(ours(x)),
    }
    peers = {library: (lambda: theirs(x), error(theirs(x)))}
    return Case(lambda: ours(x), checked(about, _TOLERANCE_OF_FUNCTIONS[dtype]), peers)


@functools.lru_cache(maxsize=1)
def _points(n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, n)


def _knots(pieces: int, knots: str) -> np.ndarray:
    if knots == "uniform":
        return np.linspace(-1, 1, pieces + 1)
    return np.concatenate([[-1], np.sort(np.random.default_rng(pieces).uniform(-1, 1, pieces - 1)), [1]])
