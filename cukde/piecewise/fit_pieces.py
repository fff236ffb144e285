"""Polynomials fitted to a function piece by piece: the approximations of ``fit_piecewise``, their errors, and knots.

Piece i is fitted on [-1, 1], in Chebyshev polynomials T_j(t) with t = 2 (x - knots[i]) / (knots[i + 1] - knots[i]) - 1,
which keep every linear system well conditioned, and then converted to powers of x - knots[i].

With fixed ends the polynomial is the line through the function's values at both knots plus (1 - t^2) q(t), and the
approximation chooses q.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from cukde.piecewise import pieces, remez

Function = Callable[[np.ndarray], np.ndarray]

APPROXIMATIONS = ("minimax", "chebyshev", "interpolate", "least_squares")

_EPS = float(np.finfo(np.float64).eps)
_POINTS_A_COEFFICIENT = 64
_ROUNDS = 12  # of adaptive knots
_FLOOR = 1e-2  # least density of a piece relative to the mean, so that pieces without error move slowly


def fit(f: Function, knots: np.ndarray, degree: int, approximation: str, continuous: bool) -> np.ndarray:
    """Return local coefficients, shape (degree + 1, m), the leading one first; ``f`` takes float64 of any shape."""
    left, width = knots[:-1], np.diff(knots)

    def values(t: np.ndarray) -> np.ndarray:
        return f(_points(knots, t))

    if approximation == "minimax":
        b = _minimax(values, f(knots), degree, continuous)
    else:
        t, matrix = _linear(degree, approximation, continuous)
        b = values(np.broadcast_to(t, (len(left), len(t)))) @ matrix.T
    powers = np.arange(degree, -1, -1)
    c: np.ndarray = (b @ _shifted(degree)[:, ::-1]).T / width ** powers[:, None]
    if continuous or approximation == "interpolate":
        c[-1] = f(left)  # exactly the value at the knot, without rounding errors of the basis
    return c


def errors(f: Function, knots: np.ndarray, c: np.ndarray) -> np.ndarray:
    r"""Return the largest error \|f - p\| of each piece, shape (m,), with p evaluated in float64.

    It is the maximum over a Chebyshev grid of 64 points for each coefficient, refined by parabolas. A millionth of it
    and the rounding error of the values are added, so that denser grids find no more where f is smooth in each piece.
    """
    angle = np.linspace(0, np.pi, _POINTS_A_COEFFICIENT * len(c) + 1)
    t = -np.cos(angle)
    out = np.empty(len(knots) - 1)
    block = max(1, 2**21 // len(t))  # pieces at a time: 16 MiB
    for first in range(0, len(out), block):
        some = knots[first : first + block + 1]
        coefficients = c[:, first : first + block]
        x = _points(some, np.broadcast_to(t, (len(some) - 1, len(t))))
        y = f(x)
        e = np.abs(y - pieces.horner(coefficients[..., None], x - some[:-1, None]))
        largest = e.max(axis=1)
        high = (e[:, 1:-1] >= e[:, :-2]) & (e[:, 1:-1] > e[:, 2:]) & (e[:, 1:-1] >= 0.99 * largest[:, None])
        piece, i = np.nonzero(high)
        centre, left, right = angle[i + 1, None], some[piece, None], some[piece + 1, None]
        for width in angle[1] * np.array([1, 1 / 8, 1 / 64]):
            x = left + (right - left) * ((1 - np.cos(centre + width * np.array([-1, 0, 1]))) / 2)
            x = np.clip(x, left, right)
            e = np.abs(f(x) - pieces.horner(coefficients[:, piece, None], x - left))
            np.maximum.at(largest, piece, e.max(axis=1))
            before, here, after = e[:, :1], e[:, 1:2], e[:, 2:]
            curvature = before - 2 * here + after
            with np.errstate(divide="ignore", invalid="ignore"):
                shift = np.where(curvature < 0, (before - after) / (2 * curvature), 0)
            centre = centre + width * np.clip(shift, -1, 1)
        out[first : first + block] = largest * (1 + 1e-6) + 8 * _EPS * np.abs(y).max(axis=1)
    return out


def _points(knots: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Map t in [-1, 1] of each piece, (m, g), to x; 1 becomes exactly the right knot."""
    left, right = knots[:-1, None], knots[1:, None]
    return np.where(t < 1, np.minimum(left + (right - left) * ((1 + t) / 2), right), right)


def _minimax(values: Function, at_knots: np.ndarray, degree: int, continuous: bool) -> np.ndarray:
    """Return the Chebyshev coefficients (m, degree + 1) of the best uniform approximations."""
    noise = 8 * _EPS * np.maximum(np.abs(at_knots[:-1]), np.abs(at_knots[1:]))
    if not continuous:
        return remez.minimax(values, lambda t: np.polynomial.chebyshev.chebvander(t, degree), degree + 1, noise)
    line = _line(at_knots)

    def rest(t: np.ndarray) -> np.ndarray:
        return values(t) - line[:, :1] - line[:, 1:] * t

    def basis(t: np.ndarray) -> np.ndarray:
        return (1 - t[..., None] ** 2) * np.polynomial.chebyshev.chebvander(t, max(degree - 2, 0))[..., : degree - 1]

    b = remez.minimax(rest, basis, degree - 1, noise) @ _vanishing(degree).T
    b[:, :2] += line
    return b


def _line(at_knots: np.ndarray) -> np.ndarray:
    """Return the coefficients (m, 2) of the lines through the values at both ends of the pieces."""
    return np.stack([at_knots[1:] + at_knots[:-1], at_knots[1:] - at_knots[:-1]], axis=1) / 2


@functools.cache
def _linear(degree: int, approximation: str, continuous: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (g,) in [-1, 1], and the matrix (degree + 1, g) from values there to Chebyshev coefficients."""
    k = degree + 1
    if approximation == "least_squares":
        t, weights = np.polynomial.legendre.leggauss(4 * k + 16)
        root = np.sqrt(weights)
        if not continuous:
            return t, np.linalg.pinv(root[:, None] * np.polynomial.chebyshev.chebvander(t, degree)) * root
        B = _vanishing(degree)
        inner = B @ np.linalg.pinv(root[:, None] * (np.polynomial.chebyshev.chebvander(t, degree) @ B)) * root
        # The line is subtracted before q is fitted and added afterwards; the ends are two more nodes.
        ends = np.array([[0.5, 0.5], [-0.5, 0.5]])
        line = np.zeros((k, 2))
        line[:2] = ends
        line -= inner @ (np.polynomial.chebyshev.chebvander(t, 1) @ ends)
        return np.concatenate([[-1.0], t, [1.0]]), np.concatenate([line[:, :1], inner, line[:, 1:]], axis=1)
    if approximation == "interpolate":
        t = -np.cos(np.linspace(0, np.pi, k))
    else:
        t = -np.cos((np.arange(k) + 0.5) * (np.pi / k))
        if continuous:
            t /= t[-1]  # the outermost zeros moved to the ends
    if continuous or approximation == "interpolate":
        t[0], t[-1] = -1, 1
    return t, np.linalg.inv(np.polynomial.chebyshev.chebvander(t, degree))


@functools.cache
def _vanishing(degree: int) -> np.ndarray:
    """Return the Chebyshev coefficients of (1 - t^2) T_j in column j of (degree + 1, degree - 1)."""
    B = np.zeros((degree + 1, degree - 1))
    for j in range(degree - 1):
        product = np.polynomial.chebyshev.chebmul([0.5, 0, -0.5], np.eye(j + 1)[j])
        B[: len(product), j] = product
    return B


@functools.cache
def _shifted(degree: int) -> np.ndarray:
    """Return the coefficients of T_j(2 u - 1) in ascending powers of u in row j of (degree + 1, degree + 1)."""
    S = np.zeros((degree + 1, degree + 1))
    S[0, 0] = 1
    S[1, :2] = -1, 2
    for j in range(2, degree + 1):
        S[j, 1:] = 4 * S[j - 1, :-1]
        S[j] -= 2 * S[j - 1] + S[j - 2]
    return S


def adaptive_knots(f: Function, domain: tuple[float, float], m: int, degree: int) -> np.ndarray:
    r"""Return the knots, shape (m + 1,), of the smallest largest error among several rounds.

    A piece of width w and degree D has an error of about (density w)^(D + 1), where the density is proportional to
    \|f^(D + 1)\|^(1 / (D + 1)) (de Boor 1973). Each round fits the function on its knots, takes the density of each
    piece from the error there, and places the next knots at equal shares of the integral of the density.
    """
    knots = _next_knots(f, np.linspace(*domain, max(4 * m, 64) + 1), m, degree)[0]
    best, least = np.linspace(*domain, m + 1), np.inf
    for _ in range(_ROUNDS):
        following, error = _next_knots(f, knots, m, degree)
        if error < least:
            best, least = knots, error
        knots = following
    return best


def _next_knots(f: Function, knots: np.ndarray, m: int, degree: int) -> tuple[np.ndarray, float]:
    """Return the knots of m pieces with equal shares of the density, and the largest error on the given knots.

    Interpolation at Chebyshev points stands for every approximation: their errors are nearly proportional.
    """
    error = errors(f, knots, fit(f, knots, degree, "chebyshev", False))
    width = np.diff(knots)
    share = error ** (1 / (degree + 1))  # density times width
    density = np.maximum(share / width, _FLOOR * share.sum() / (knots[-1] - knots[0]))
    integral = np.concatenate([[0.0], np.cumsum(density * width)])
    if not integral[-1] > 0:
        return np.linspace(knots[0], knots[-1], m + 1), 0.0
    following = np.interp(np.linspace(0, integral[-1], m + 1), integral, knots)
    following[0], following[-1] = knots[0], knots[-1]
    return following, float(error.max())
