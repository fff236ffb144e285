"""Oracles in float64, written from the formulas of the documentation and sharing no code with the package.

Every function works by log-sum-exp over differences ``x_j - y_i`` taken before anything is scaled, so an
offset of the data costs nothing, and goes through the queries in blocks, so memory stays small. Inputs are
converted to float64 exactly: the oracle of float32 data is the value for those very float32 numbers.

A bandwidth is a scalar, (d,) deviations or a (d, d) covariance H = L L^T; ``z = L^-1 (x_j - y_i)`` is a
difference in bandwidths, ``|z|^2 / 2`` its exponent.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import integrate, special

_BLOCK_PAIRS = 2**15  # of which arrays stay in the processor's cache
_BLOCK_COORDINATES = 2**20  # of pairs, where a covariance mixes columns: products of few rows are slow
_KEPT = 8  # results of an oracle

_Oracle = TypeVar("_Oracle", bound=Callable[..., Any])


class _Block(NamedTuple):
    """Pairs of some queries (b of them) with all the data."""

    rows: slice
    X: np.ndarray  # (n, d)
    Y: np.ndarray  # (b, d)
    squares: np.ndarray  # (b, n): |z|^2
    log_terms: np.ndarray  # (b, n): log w_j - |z|^2 / 2

    def mean_difference(self, shares: np.ndarray) -> np.ndarray:
        """sum_j p_ij (x_j - y_i) of shares (b, n); shape (b, d)."""
        columns = np.ascontiguousarray(self.X.T)
        return np.stack([(columns - y[:, None]) @ p for p, y in zip(shares, self.Y, strict=True)])


def points(A: Any) -> np.ndarray:
    """A as (rows, d) float64."""
    out = np.asarray(A, np.float64)
    return out[:, None] if out.ndim == 1 else out


def covariance(h: Any, d: int) -> np.ndarray:
    """The bandwidth as a covariance matrix H."""
    h = np.asarray(h, np.float64)
    return h if h.ndim == 2 else np.diag(np.broadcast_to(h, (d,)) ** 2)


def whiten(D: np.ndarray, h: Any) -> np.ndarray:
    """L^-1 D, a row a vector: differences in bandwidths."""
    h = np.asarray(h, np.float64)
    if h.ndim < 2:
        return D / h
    inverse = np.linalg.inv(np.linalg.cholesky(h))
    return (D.reshape(-1, len(h)) @ inverse.T).reshape(D.shape)  # one product, not one a leading index


def whiten_gradient(s: np.ndarray, h: Any) -> np.ndarray:
    """L^T s, a row a vector: gradients in units of 1/bandwidth."""
    h = np.asarray(h, np.float64)
    return s * h if h.ndim < 2 else s @ np.linalg.cholesky(h)


def log_constant(h: Any, d: int) -> float:
    """Logarithm of c = (2 pi)^(-d/2) |H|^(-1/2)."""
    h = np.asarray(h, np.float64)
    log_det = np.log(np.diag(np.linalg.cholesky(h))) if h.ndim == 2 else np.log(np.broadcast_to(h, (d,)))
    return float(-0.5 * d * np.log(2 * np.pi) - log_det.sum())


def _log_weights(weights: Any, n: int) -> np.ndarray:
    if weights is None:
        return np.full(n, -np.log(n))
    w = np.asarray(weights, np.float64)
    w = w / w.max()
    with np.errstate(divide="ignore"):
        return np.log(w) - np.log(w.sum())


def _blocks(X: np.ndarray, Y: np.ndarray, h: Any, log_weights: np.ndarray | float) -> Iterator[_Block]:
    step = max(1, _BLOCK_COORDINATES // X.size if np.ndim(h) == 2 else _BLOCK_PAIRS // len(X))
    for start in range(0, len(Y), step):
        rows = slice(start, min(start + step, len(Y)))
        squares = _squares(X, Y[rows], h)
        yield _Block(rows, X, Y[rows], squares, log_weights - 0.5 * squares)


def exponents(X: np.ndarray, Y: np.ndarray, h: Any) -> np.ndarray:
    """|z|^2 / 2 of all pairs; shape (m, n)."""
    return 0.5 * _squares(points(X), points(Y), h)


def _squares(X: np.ndarray, Y: np.ndarray, h: Any) -> np.ndarray:
    """|z|^2 of all pairs, (b, n): a column after the other where they do not mix, which spares (b, n, d) numbers."""
    if np.ndim(h) == 2:
        z = whiten(X[None, :, :] - Y[:, None, :], h)
        return np.einsum("bnd,bnd->bn", z, z)
    deviations = np.broadcast_to(np.asarray(h, np.float64), X.shape[1:])
    out = np.zeros((len(Y), len(X)))
    for x, y, deviation in zip(np.ascontiguousarray(X.T), Y.T, deviations, strict=True):
        z = x - y[:, None]
        z /= deviation
        z *= z
        out += z
    return out


def _remembers(function: _Oracle) -> _Oracle:
    """Keep the latest results: a test asks the same of every output of a pass, and of every pass of a problem."""
    kept: OrderedDict[Any, Any] = OrderedDict()

    @functools.wraps(function)
    def asked(*arguments: Any, **named: Any) -> Any:
        key = (*map(_content, arguments), *((name, _content(a)) for name, a in named.items()))
        if key not in kept:
            kept[key] = function(*arguments, **named)
        kept.move_to_end(key)
        if len(kept) > _KEPT:
            kept.popitem(last=False)
        return copy.deepcopy(kept[key])  # which the test may change

    return asked  # type: ignore[return-value]


def _content(a: Any) -> Any:
    if a is None or isinstance(a, str):
        return a
    a = np.ascontiguousarray(a)
    return a.shape, a.dtype.str, hashlib.sha256(a).digest()


@_remembers
def log_kde(X: Any, Y: Any, h: Any, weights: Any = None) -> np.ndarray:
    """log p(y) = log c + log sum_j w_j exp(-|z_j|^2 / 2); shape (m,)."""
    X, Y = points(X), points(Y)
    out = np.empty(len(Y))
    for block in _blocks(X, Y, h, _log_weights(weights, len(X))):
        top = block.log_terms.max(axis=1)
        out[block.rows] = top + np.log(np.exp(block.log_terms - top[:, None]).sum(axis=1))
    return out + log_constant(h, X.shape[1])


def kde(X: Any, Y: Any, h: Any, weights: Any = None) -> np.ndarray:
    """p(y) = c sum_j w_j exp(-|z_j|^2 / 2); shape (m,)."""
    return np.exp(log_kde(X, Y, h, weights))


def log_distribution(X: Any, Y: Any, h: float, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of F(y) = sum_j w_j Phi((y - x_j) / h), d = 1, and of 1 - F(y) as a sum of its own; shape (m,)."""
    x, y = points(X)[:, 0], points(Y)[:, 0]
    u = (y[:, None] - x) / h
    terms = _log_weights(weights, len(x))
    with np.errstate(divide="ignore"):
        below, above = (special.logsumexp(special.log_ndtr(z) + terms, axis=1) for z in (u, -u))
    return below, above


class Local(NamedTuple):
    """Estimates with a factor f_j of the bandwidth for each point, a row a query; shares are of sum_j K_j.

    K_j = w_j f_j^-d exp(-q_j), q_j = |z_j|^2 / (2 f_j^2).
    """

    log: np.ndarray  # log p, p = c sum_j K_j
    exponent: np.ndarray  # what it rounds with, the mean of q_j + d |log f_j| by shares
    score: np.ndarray  # (m, d): H^-1 sum_j K_j (x_j - y) / f_j^2 / sum_j K_j
    steepness: np.ndarray  # mean |z_j| / f_j^2 by shares, what an error of the score may be judged by
    shift: np.ndarray  # (m, d): sum_j K_j (x_j - y) / sum_j K_j
    reach: np.ndarray  # mean |z_j| by shares
    laplace: np.ndarray  # sum_j K_j (1 + d/2 - q_j) / sum_j K_j
    size: np.ndarray  # the same of its absolute terms


@_remembers
def local(X: Any, Y: Any, h: Any, factors: Any, weights: Any = None) -> Local:
    """Estimates with local factors."""
    X, Y, factors = points(X), points(Y), np.asarray(factors, np.float64)
    d = X.shape[1]
    log, exponent, steepness, reach, laplace, size = np.empty((6, len(Y)))
    gradient, shift = np.empty((2, *Y.shape))
    for block in _blocks(X, Y, h, 0.0):
        rows, q, lengths = block.rows, 0.5 * block.squares / factors**2, np.sqrt(block.squares)
        terms = _log_weights(weights, len(X)) - d * np.log(factors) - q
        top = terms.max(axis=1)
        log[rows] = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        p = _posterior(terms)
        exponent[rows] = (p * (q + d * np.abs(np.log(factors)))).sum(axis=1)
        gradient[rows], steepness[rows] = block.mean_difference(p / factors**2), (p * lengths / factors**2).sum(axis=1)
        shift[rows], reach[rows] = block.mean_difference(p), (p * lengths).sum(axis=1)
        laplace[rows], size[rows] = ((p * (1 + 0.5 * d + sign * q)).sum(axis=1) for sign in (-1, 1))
    score = np.linalg.solve(covariance(h, d), gradient.T).T
    return Local(log + log_constant(h, d), exponent, score, steepness, shift, reach, laplace, size)


def log_local_kde(X: Any, Y: Any, h: Any, factors: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(log p, exponent) of :func:`local`, (m,)."""
    of = local(X, Y, h, factors, weights)
    return of.log, of.exponent


def local_debias(X: Any, h: Any, factors: Any, score_bandwidth: Any = None, weights: Any = None) -> np.ndarray:
    """x_i + (1/2) H H_s^-1 shift(x_i), the shift by self-interaction (Y = X) with the bandwidth H_s; shape (n, d)."""
    X = points(X)
    d, of_score = X.shape[1], h if score_bandwidth is None else score_bandwidth
    shift = local(X, X, of_score, factors, weights).shift
    return X + 0.5 * np.linalg.solve(covariance(of_score, d), shift.T).T @ covariance(h, d)


def abramson(X: Any, h: Any, alpha: float, weights: Any = None) -> np.ndarray:
    """(p(x_j) / g)^-alpha with g the weighted geometric mean of p(x_j); 1 where the weight is 0; shape (n,)."""
    log_p = log_kde(X, X, h, weights)
    w = np.exp(_log_weights(weights, len(log_p)))
    return np.exp(np.where(w > 0, -alpha * (log_p - np.sum(w * log_p)), 0.0))


class OfDomain(NamedTuple):
    """Estimates on a domain with walls and periods, a row a query."""

    log: np.ndarray  # log p
    score: np.ndarray
    laplace: np.ndarray  # over p
    size: np.ndarray  # of its absolute terms, likewise
    exponent: np.ndarray  # the smallest r^2 / (2 h^2), over the images of all data


def in_domain(
    X: Any, Y: Any, h: Any, bounds: Any = None, periods: Any = None, weights: Any = None, reach: int = 12
) -> OfDomain:
    """p(y) = c sum_j w_j prod_k sum_z exp(-(y_k - z)^2 / (2 h_k^2)) over the images z of x_jk, and its derivatives.

    Images lie in ``reach`` cells, of the width between two walls or of a period, on either side.
    """
    X, Y = points(X), points(Y)
    d = X.shape[1]
    deviations = np.sqrt(np.diag(covariance(h, d)))
    first, curvature, exponents = np.zeros((d, len(Y), len(X))), np.zeros((len(Y), len(X))), np.zeros((len(Y), len(X)))
    terms = np.zeros((len(Y), len(X))) + _log_weights(weights, len(X))
    squares = np.zeros_like(terms)
    for k in range(d):
        z = _images(X[:, k], bounds and bounds[k], periods and periods[k], reach)
        t = (z - Y[:, k, None, None]) / deviations[k]  # (m, n, images)
        top = (-0.5 * t * t).max(axis=2)
        e = np.exp(-0.5 * t * t - top[..., None])
        total = e.sum(axis=2)
        terms += top + np.log(total)
        exponents -= top
        first[k] = (e * t).sum(axis=2) / total / deviations[k]
        curvature += (e * (0.5 - 0.5 * t * t)).sum(axis=2) / total
        squares += (e * (0.5 + 0.5 * t * t)).sum(axis=2) / total
    share = _posterior(terms)
    largest = terms.max(axis=1)
    log_p = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1)) + log_constant(deviations, d)
    return OfDomain(
        log_p,
        np.einsum("mn,kmn->mk", share, first),
        (share * (1 + curvature)).sum(axis=1),
        (share * (1 + squares)).sum(axis=1),
        exponents.min(axis=1),
    )


def _images(x: np.ndarray, bound: Any, period: Any, reach: int) -> np.ndarray:
    """All images of the points of a column, (n, images)."""
    cells = np.arange(-reach, reach + 1)
    if period is not None:
        return x[:, None] + cells * period
    low, high = (None, None) if bound is None else bound
    if low is None and high is None:
        return x[:, None]
    if low is None or high is None:
        return np.stack([x, 2 * (low if high is None else high) - x], axis=1)
    around = 2 * (high - low) * cells
    return np.concatenate([x[:, None] + around, 2 * low - x[:, None] + around], axis=1)


def folded(x: np.ndarray, bound: Any, period: Any) -> np.ndarray:
    """A column reflected between its walls, or wrapped."""
    if period is not None:
        return np.mod(x, period)
    low, high = (None, None) if bound is None else bound
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    for _ in range(100):
        x = np.where(x < low, 2 * low - x, x)
        x = np.where(x > high, 2 * high - x, x)
    return x


_RADIAL = {
    "tophat": lambda t: np.where(t < 1, 1.0, 0.0),
    "epanechnikov": lambda t: np.where(t < 1, 1 - t * t, 0.0),
    "exponential": lambda t: np.exp(-t),
    "linear": lambda t: np.where(t < 1, 1 - t, 0.0),
    "cosine": lambda t: np.where(t < 1, np.cos(0.5 * np.pi * t), 0.0),
}
"""Kernels beside the Gaussian, of a distance in bandwidths."""


@functools.cache
def radial_log_integral(kernel: str, d: int) -> float:
    """Logarithm of the integral of a kernel over d dimensions, by quadrature along the radius: s_d int K t^(d-1) dt.

    The integrand is divided by its largest value first, so that it stays in range at any d.
    """

    def log_integrand(t: float) -> float:
        with np.errstate(divide="ignore"):
            radial = -t if kernel == "exponential" else float(np.log(_RADIAL[kernel](np.asarray(t))))
            return radial + ((d - 1) * float(np.log(t)) if d > 1 else 0.0)

    grid = np.linspace(0, d + 60 * math.sqrt(d) if kernel == "exponential" else 1, 2001)
    heights = [log_integrand(t) for t in grid]
    top, mode = max(heights), float(grid[int(np.argmax(heights))])
    parts = (
        integrate.quad(lambda t: math.exp(log_integrand(t) - top), *ends, epsabs=0, epsrel=1e-13, limit=500)[0]
        for ends in ((grid[0], mode), (mode, grid[-1]))
        if ends[0] < ends[1]
    )
    log_sphere = math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
    return log_sphere + top + math.log(math.fsum(parts))


@_remembers
def kernel_density(X: Any, Y: Any, h: Any, kernel: str, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(p, size), (m,): sum_j w_j K(|z_j|) over the kernel's integral and |H|^(1/2), and the same with 1 where K counts.

    Sums are not relative to a largest term: p underflows where the exponential kernel does.
    """
    X, Y = points(X), points(Y)
    w = np.exp(_log_weights(weights, len(X)))
    p, size = np.empty(len(Y)), np.empty(len(Y))
    for block in _blocks(X, Y, h, 0.0):
        values = _RADIAL[kernel](np.sqrt(block.squares))
        p[block.rows], size[block.rows] = values @ w, (values > 0) @ w
    log_det = log_constant(h, X.shape[1]) + 0.5 * X.shape[1] * np.log(2 * np.pi)  # minus it
    constant = np.exp(log_det - radial_log_integral(kernel, X.shape[1]))
    return constant * p, constant * size


def log_exponential_density(X: Any, Y: Any, h: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(log p, smallest distance in bandwidths), (m,), of the exponential kernel."""
    X, Y = points(X), points(Y)
    d = X.shape[1]
    out, nearest = np.empty(len(Y)), np.empty(len(Y))
    for block in _blocks(X, Y, h, 0.0):
        distances = np.sqrt(block.squares)
        terms = _log_weights(weights, len(X)) - distances
        top = terms.max(axis=1)
        out[block.rows] = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        nearest[block.rows] = distances.min(axis=1)
    minus_log_det = log_constant(h, d) + 0.5 * d * np.log(2 * np.pi)
    return out + minus_log_det - radial_log_integral("exponential", d), nearest


def _posterior(log_terms: np.ndarray) -> np.ndarray:
    """Shares of the data in each query's sum."""
    p = np.exp(log_terms - log_terms.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@_remembers
def score(X: Any, Y: Any, h: Any, weights: Any = None) -> np.ndarray:
    """s(y) = H^-1 (sum_j w_j phi_j x_j / sum_j w_j phi_j - y); shape (m, d)."""
    X, Y = points(X), points(Y)
    shift = np.empty_like(Y)
    for block in _blocks(X, Y, h, _log_weights(weights, len(X))):
        p = _posterior(block.log_terms)
        shift[block.rows] = block.mean_difference(p)
    if np.ndim(h) < 2:
        return shift / np.asarray(h, np.float64) ** 2
    return np.linalg.solve(np.asarray(h, np.float64), shift.T).T


def density_and_score(X: Any, Y: Any, h: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(log p, grad log p); shapes (m,) and (m, d)."""
    return log_kde(X, Y, h, weights), score(X, Y, h, weights)


def debias(
    X: Any, h: Any, score_bandwidth: Any = None, weights: Any = None, steps: int = 1, own_point: bool = True
) -> np.ndarray:
    """x_i + (H/2) s(x_i), the score by self-interaction (Y = X), own point included; shape (n, d).

    Each further step moves the data by the score, at them, of the points of the step before. Without the own point the
    mean shift m = L' s, of the score's covariance L L', is m d / max(d, |m|^2).
    """
    X = moved = points(X)
    d, hs = X.shape[1], h if score_bandwidth is None else score_bandwidth
    root = np.linalg.cholesky(covariance(hs, d))
    for _ in range(steps):
        if own_point:
            s = score(moved, X, hs, weights)
        else:
            rows = [np.delete(moved, i, axis=0) for i in range(len(X))]
            left = [None if weights is None else np.delete(weights, i) for i in range(len(X))]
            s = np.concatenate([score(A, X[i : i + 1], hs, left[i]) for i, A in enumerate(rows)])
            s *= (d / np.maximum(d, ((s @ root) ** 2).sum(axis=1)))[:, None]
        moved = X + 0.5 * s @ covariance(h, d)
    return moved


def sd_kde(
    X: Any, Y: Any, h: Any, score_bandwidth: Any = None, weights: Any = None, log: bool = False, steps: int = 1
) -> np.ndarray:
    """The density of the debiased points with bandwidth h; shape (m,)."""
    log_p = log_kde(debias(X, h, score_bandwidth, weights, steps), Y, h, weights)
    return log_p if log else np.exp(log_p)


@_remembers
def scaled_laplace(X: Any, Y: Any, h: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, t, u): the Laplace-corrected density is exp(a) t, and the sum of its absolute terms exp(a) u.

    The terms are those of the factor too, 1 + d/2 and |z|^2 / 2: a datum where they cancel has no value of
    its own to be relative to.
    """
    X, Y = points(X), points(Y)
    d = X.shape[1]
    log_scale, total, size = np.empty((3, len(Y)))
    for block in _blocks(X, Y, h, _log_weights(weights, len(X))):
        top = block.log_terms.max(axis=1)
        shares = np.exp(block.log_terms - top[:, None])
        log_scale[block.rows] = top
        total[block.rows] = (shares * (1 + 0.5 * d - 0.5 * block.squares)).sum(axis=1)
        size[block.rows] = (shares * (1 + 0.5 * d + 0.5 * block.squares)).sum(axis=1)
    return log_scale + log_constant(h, d), total, size


def log_positive(X: Any, Y: Any, h: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """log p + asinh(L / p - 1), L being the Laplace-corrected density; and its condition, (m,).

    The condition is the error that comes of an error of 1 in log p, and in L relative to its absolute terms.
    """
    of = positive(X, Y, h, weights)
    return of.log, 1 + (of.size + np.abs(1 + of.t)) / np.hypot(1, of.t)


@_remembers
def scaled_laplace_moments(X: Any, Y: Any, h: float, weights: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(a, t, u): c sum_j w_j phi_j (2 + d/2 - |z_j|^2 / 2) (x_j - y) is exp(a) t, (m, d).

    exp(a) u, (m,), is the sum of what the absolute terms of the factor make of the distances.
    """
    X, Y = points(X), points(Y)
    d = X.shape[1]
    log_scale, size, total = np.empty(len(Y)), np.empty(len(Y)), np.empty((len(Y), d))
    for block in _blocks(X, Y, h, _log_weights(weights, len(X))):
        top = block.log_terms.max(axis=1)
        shares = np.exp(block.log_terms - top[:, None])
        log_scale[block.rows] = top
        total[block.rows] = block.mean_difference(shares * (2 + 0.5 * d - 0.5 * block.squares))
        absolute = shares * (2 + 0.5 * d + 0.5 * block.squares)
        size[block.rows] = (absolute * h * np.sqrt(block.squares)).sum(axis=1)
    return log_scale + log_constant(h, d), total, size


def laplace(X: Any, Y: Any, h: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """c sum_j w_j phi_j (1 + d/2 - |z_j|^2 / 2), and the sum of its absolute terms; shapes (m,)."""
    log_scale, total, size = scaled_laplace(X, Y, h, weights)
    return np.exp(log_scale) * total, np.exp(log_scale) * size


class Positive(NamedTuple):
    """The positive estimate before it is normalised, a row a query."""

    log: np.ndarray  # log of p (t + sqrt(1 + t^2))
    t: np.ndarray  # L / p - 1
    size: np.ndarray  # the sum of absolute terms of L, over p
    score: np.ndarray  # gradient of the logarithm, (m, d)


@_remembers
def positive(X: Any, Y: Any, h: Any, weights: Any = None) -> Positive:
    """p (t + sqrt(1 + t^2)) with t = sum_j s_j (d/2 - |z_j|^2 / 2), the s_j being shares of the data in p(y).

    Its gradient is differentiated term by term: grad s_j = s_j (u_j - sum_k s_k u_k), u_j = H^-1 (x_j - y), and the
    gradient of -|z_j|^2 / 2 is u_j.
    """
    X, Y = points(X), points(Y)
    d = X.shape[1]
    t, size, score = np.empty(len(Y)), np.empty(len(Y)), np.empty_like(Y)
    inverse = np.linalg.inv(covariance(h, d))
    for block in _blocks(X, Y, h, _log_weights(weights, len(X))):
        shares, half = _posterior(block.log_terms), 0.5 * block.squares
        t[block.rows] = (shares * (0.5 * d - half)).sum(axis=1)
        size[block.rows] = (shares * (1 + 0.5 * d + half)).sum(axis=1)
        for i, (y, of_y, q) in enumerate(zip(block.Y, shares, half, strict=True)):
            u = (X - y) @ inverse
            mean = of_y @ u
            slope = (of_y * (0.5 * d - q)) @ (u - mean) + mean
            score[block.rows.start + i] = mean + slope / np.hypot(1, t[block.rows.start + i])
    return Positive(log_kde(X, Y, h, weights) + np.arcsinh(t), t, size, score)


def kernel_sum(X: Any, V: Any, Y: Any, h: Any) -> tuple[np.ndarray, np.ndarray]:
    """sum_j phi_j V_j, and the sum of its absolute terms; shapes (m, k), with k = 1 for V of shape (n,)."""
    X, V, Y = points(X), points(V), points(Y)
    total, size = np.empty((2, len(Y), V.shape[1]))
    for block in _blocks(X, Y, h, 0.0):
        phi = np.exp(block.log_terms)
        total[block.rows] = phi @ V
        size[block.rows] = phi @ np.abs(V)
    return total, size


def size_in_bandwidths(A: np.ndarray, h: Any) -> float:
    """How many bandwidths an error relative to the largest coordinates of A can amount to."""
    return float(np.linalg.norm(whiten(np.diag(np.abs(A).max(axis=0)), h), axis=1).sum())


class Nearness(NamedTuple):
    """How far each query is from the data, in bandwidths: what an error may be judged by."""

    exponent: np.ndarray  # (m,): smallest |z|^2 / 2 over the data whose weight is not zero
    reach: np.ndarray  # (m,): r/h, the mean |z| of the data by their shares in the sum, at least 1
    scatter: np.ndarray  # (m,): root mean square |z - mean z| by the same shares


@_remembers
def nearness(X: Any, Y: Any, h: Any, weights: Any = None) -> Nearness:
    """Smallest exponent, reach and scatter of each query."""
    X, Y = points(X), points(Y)
    log_weights = _log_weights(weights, len(X))
    counts = np.isfinite(log_weights)
    exponent, reach, scatter = np.empty((3, len(Y)))
    for block in _blocks(X, Y, h, log_weights):
        exponent[block.rows] = 0.5 * block.squares[:, counts].min(axis=1)
        p = _posterior(block.log_terms)
        reach[block.rows] = (p * np.sqrt(block.squares)).sum(axis=1)
        mean = whiten(block.mean_difference(p), h)
        variance = (p * block.squares).sum(axis=1) - np.square(mean).sum(axis=1)
        scatter[block.rows] = np.sqrt(np.maximum(0, variance))
    return Nearness(exponent, np.maximum(1, reach), scatter)


class LeaveOneOut(NamedTuple):
    """Sums at each row over the others."""

    log: np.ndarray  # (n,)
    exponent: np.ndarray  # (n,): the smallest of the others
    condition: np.ndarray  # (n,): relative errors of the arithmetic count so many times in the logarithm


def _weights(weights: Any, n: int) -> np.ndarray:
    return np.full(n, 1 / n) if weights is None else np.asarray(weights, np.float64)


def _log_sums(exponents: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log sum_{j != i} w_j exp(-exponents_ij), shares of j in the sum of i)."""
    terms = np.log(w) - exponents
    np.fill_diagonal(terms, -np.inf)
    top = terms.max(axis=1)
    log = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
    return log, np.exp(terms - log[:, None])


def leave_one_out(X: np.ndarray, scale: float, weights: Any = None) -> LeaveOneOut:
    """log sum_{j != i} w_j exp(-scale |x_i - x_j|^2)."""
    q = _exponents(X, scale)
    log, _ = _log_sums(q, _weights(weights, len(X)))
    np.fill_diagonal(q, np.inf)
    return LeaveOneOut(log, q.min(axis=1), np.zeros(len(X)))


def _exponents(X: np.ndarray, scale: float) -> np.ndarray:
    return scale * np.stack([np.square(X - x).sum(axis=1) for x in X])


def mean_shift(X: np.ndarray, scale: float, weights: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """(sum_k w_k exp(-q_jk) (x_k - x_j) / T_j, T_j = sum_k w_k exp(-q_jk)): (n, d) and (n,)."""
    terms = np.exp(-_exponents(X, scale)) * _weights(weights, len(X))
    totals = terms.sum(axis=1)
    return np.einsum("jk,jkd->jd", terms, X[None] - X[:, None]) / totals[:, None], totals


def debiased_leave_one_out(X: np.ndarray, scale: float, weights: Any = None) -> LeaveOneOut:
    """Each row taken away in turn, the others debiased by one another, and summed at that row."""
    n = len(X)
    w = _weights(weights, n)
    X = X - X.mean(axis=0)
    K = np.exp(-_exponents(X, scale))
    m, totals = mean_shift(X, scale, weights)
    exponents, condition = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        others = np.where(np.arange(n) == i, 0, w)
        left = K @ others
        left[i] = 1  # any: the row itself is not asked for
        moved = 0.5 * (X + K @ (others[:, None] * X) / left[:, None])
        v, u = X[i] - moved, X[i] - X
        exponents[i] = scale * (v * v).sum(axis=1)
        # What the step to v is made of, by its length, and errors of a share count 1 / (1 - share) times.
        parts = sum(np.linalg.norm(part, axis=1) for part in (2 * v - u, u, m))
        condition[i] = scale * np.linalg.norm(v, axis=1) * parts * totals / left
    log, shares = _log_sums(exponents, w)
    np.fill_diagonal(exponents, np.inf)
    return LeaveOneOut(log, exponents.min(axis=1), (shares * condition).sum(axis=1))


class PairSums(NamedTuple):
    """Sums over pairs, and the same of absolute terms."""

    value: float
    size: float
    by_dimension: np.ndarray  # (d,): each pair times its squared difference
    size_by_dimension: np.ndarray


def least_squares(X: np.ndarray, scale: float, coefficients: Any, weights: Any = None) -> PairSums:
    """sum_{i < j} w_i w_j [exp(-q/2) (p0 + p1 q + p2 q^2) + (v_i + v_j) exp(-q) (r0 + r1 q)], v = 1 / (1 - w)."""
    w = _weights(weights, len(X))
    v = 1 / np.array([math.fsum(np.delete(w, k)) for k in range(len(w))])  # 1 - w has few digits beside a heavy weight
    i, j = np.triu_indices(len(X), 1)
    squares = (X[i] - X[j]) ** 2
    q = scale * squares.sum(axis=1)

    def terms(p0: float, p1: float, p2: float, r0: float, r1: float) -> np.ndarray:
        both = (v[i] + v[j]) * np.exp(-q) * (r0 + r1 * q)
        out: np.ndarray = w[i] * w[j] * (np.exp(-q / 2) * (p0 + p1 * q + p2 * q * q) + both)
        return out

    signed, absolute = terms(*coefficients), terms(*np.abs(coefficients))
    return PairSums(math.fsum(signed), math.fsum(absolute), signed @ squares, absolute @ squares)


def likelihood_gradient(
    X: np.ndarray, scale: float, logs: np.ndarray, weights: Any, relative: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(sum_j w_j sum_{i != j} w_i exp(-q_ij - logs_j) (x_ik - x_jk)^2, that of terms times relative(q_ij)): (d,)."""
    w = _weights(weights, len(X))
    q = _exponents(X, scale)
    terms = np.log(w)[:, None] + np.log(w) - q - logs
    np.fill_diagonal(terms, -np.inf)
    squares = (X[:, None] - X[None]) ** 2
    terms = np.exp(terms)
    return np.einsum("ij,ijk->k", terms, squares), np.einsum("ij,ijk->k", terms * relative(q), squares)


class PairsOfSamples(NamedTuple):
    """Counts over all pairs of samples i < j without NaN, Python integers."""

    samples: int
    concordant: int
    discordant: int
    tied_x: int  # in x, in y or not
    tied_y: int
    tied_both: int
    groups_x: list[int]  # sizes of the groups of equal values
    groups_y: list[int]


def pairs_of_samples(x: Any, y: Any) -> PairsOfSamples:
    """Count by comparing all pairs: sign(x_j - x_i) sign(y_j - y_i), from comparisons of the values as they are."""
    x, y = np.asarray(x), np.asarray(y)
    there = (x == x) & (y == y)
    x, y = x[there], y[there]
    i, j = np.triu_indices(len(x), 1)
    sign_x = (x[j] > x[i]).astype(np.int64) - (x[j] < x[i])
    sign_y = (y[j] > y[i]).astype(np.int64) - (y[j] < y[i])
    return PairsOfSamples(
        len(x),
        int((sign_x * sign_y == 1).sum()),
        int((sign_x * sign_y == -1).sum()),
        int((sign_x == 0).sum()),
        int((sign_y == 0).sum()),
        int(((sign_x == 0) & (sign_y == 0)).sum()),
        [int((x == value).sum()) for value in set(x.tolist())],
        [int((y == value).sum()) for value in set(y.tolist())],
    )


def kendall_tau(counts: PairsOfSamples, variant: str) -> float:
    """tau-a, -b or -c from counts; NaN where a variable does not vary."""
    n, m = counts.samples, min(len(counts.groups_x), len(counts.groups_y))
    if m < 2:
        return float("nan")
    pairs = n * (n - 1) // 2
    difference = counts.concordant - counts.discordant
    if variant == "a":
        return difference / pairs
    if variant == "b":
        return difference / math.sqrt((pairs - counts.tied_x) * (pairs - counts.tied_y))
    return 2 * difference / (n**2 * ((m - 1) / m))


def kendall_p_value(counts: PairsOfSamples, method: str, alternative: str) -> float:
    """p-value of C - D under independence: by its normal approximation, or by counting orders without ties."""
    n, (x, y) = counts.samples, (counts.groups_x, counts.groups_y)
    if min(len(x), len(y)) < 2:
        return float("nan")
    untied = len(x) == len(y) == n
    if method == "auto":
        few = n <= 33 or min(counts.concordant, counts.discordant) <= 1
        method = "exact" if untied and few else "asymptotic"
    if method == "exact":
        orders = permutations_by_inversions(n)
        less, greater = sum(orders[: counts.concordant + 1]), sum(orders[: counts.discordant + 1])
        ways = {"less": less, "greater": greater, "two-sided": min(2 * min(less, greater), math.factorial(n))}
        return ways[alternative] / math.factorial(n)

    def total(groups: list[int], term: Any) -> Fraction:
        return Fraction(sum(term(t) for t in groups))

    def first(t: int) -> int:
        return t * (t - 1) * (2 * t + 5)

    def second(t: int) -> int:
        return t * (t - 1)

    def third(t: int) -> int:
        return t * (t - 1) * (t - 2)

    variance = (first(n) - total(x, first) - total(y, first)) / 18
    variance += total(x, second) * total(y, second) / (2 * second(n))
    if n > 2:
        variance += total(x, third) * total(y, third) / (9 * third(n))
    z = (counts.concordant - counts.discordant) / math.sqrt(variance)
    if alternative == "two-sided":
        return math.erfc(abs(z) / math.sqrt(2))
    return 0.5 * math.erfc((z if alternative == "greater" else -z) / math.sqrt(2))


@functools.cache
def permutations_by_inversions(n: int) -> list[int]:
    """How many permutations of n have 0, 1, ... inversions: the product of 1 + q + ... + q^(j-1) over j <= n."""
    counts = [1]
    for j in range(2, n + 1):
        product = [0] * (len(counts) + j - 1)
        for i, count in enumerate(counts):
            for k in range(j):
                product[i + k] += count
        counts = product
    return counts


def piecewise(c: np.ndarray, knots: np.ndarray, x: np.ndarray, beyond: Any = True, local: bool = True) -> np.ndarray:
    """Values of a piecewise polynomial and their scales, (2, N, ...), for knots that rise or fall.

    Sums of c u^power and of |c| |u|^power, u = x - knot or x itself; c (k, m, ...), the leading coefficient first.
    """
    c = c.astype(np.float64)
    if beyond == "periodic":
        with np.errstate(invalid="ignore"):
            x = knots[0] + (x - knots[0]) % (knots[-1] - knots[0])
    elif beyond == "clamp":
        x = np.clip(x, min(knots[0], knots[-1]), max(knots[0], knots[-1]))
    rises = knots[0] < knots[-1]
    piece = np.zeros(len(x), np.int64)
    for knot in knots[1:-1]:
        piece += x >= knot if rises else x <= knot
    u = x - knots[piece] if local else x
    of_points = (len(u), *[1] * (c.ndim - 2))
    total, scale = np.zeros((2, len(x), *c.shape[2:]))
    for power in range(len(c)):
        term = c[len(c) - 1 - power, piece] * (u**power).reshape(of_points)
        total, scale = total + term, scale + np.abs(term)
    if beyond is False:
        total[(x < knots.min()) | (x > knots.max())] = np.nan
    total[np.isnan(x)] = np.nan
    return np.stack([total, scale])


Padding = str | int | tuple[int, int]


def conv1d(
    x: np.ndarray,
    w: np.ndarray,
    *,
    bias: np.ndarray | None = None,
    padding: Padding = "causal",
    stride: int = 1,
    dilation: int = 1,
    activation: str | None = None,
    layout: str = "BCL",
    flip: bool = False,
    state: np.ndarray | None = None,
) -> np.ndarray:
    """Depthwise convolution, a loop over taps of the padded input; arguments of :func:`cukde.depthwise_conv1d`.

    ``padding`` may be the numbers of zeros before and after the input, too; negative ones leave inputs out.
    """
    if layout == "BLC":
        x, state = x.transpose(0, 2, 1), None if state is None else state.transpose(0, 2, 1)
    w = w.astype(np.float64)[:, ::-1] if flip else w.astype(np.float64)
    padded, outputs = _padded(x.astype(np.float64), w.shape[1], padding, stride, dilation)
    if state is not None:
        padded[:, :, : state.shape[2]] = state
    y = np.zeros((*x.shape[:2], outputs))
    with np.errstate(invalid="ignore"):  # of infinities
        for k in range(w.shape[1]):
            y += w[:, k, None] * padded[:, :, k * dilation :: stride][:, :, :outputs]
    if bias is not None:
        y += bias.astype(np.float64)[:, None]
    y = activated(y, activation)
    return y.transpose(0, 2, 1) if layout == "BLC" else y


_ACTIVATIONS = {
    "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "softplus": lambda z: np.logaddexp(0, z),
    "exp": np.exp,
    "log": np.log,
}


def activated(z: np.ndarray, activation: str | None) -> np.ndarray:
    """A function by its name, or z itself."""
    if activation in _ACTIVATIONS:
        with np.errstate(all="ignore"):
            out: np.ndarray = _ACTIVATIONS[activation](z)
            return out
    if activation == "silu":
        return z / (1 + np.exp(-z))
    if activation == "gelu":
        return z * np.vectorize(math.erfc, otypes=[np.float64])(-z / math.sqrt(2)) / 2
    return z


def conv1d_input_grad(
    dy: np.ndarray,
    w: np.ndarray,
    *,
    input_length: int,
    padding: Padding = "causal",
    stride: int = 1,
    dilation: int = 1,
    layout: str = "BCL",
    flip: bool = False,
) -> np.ndarray:
    """Adjoint of :func:`conv1d` with respect to x: every tap adds to the padded input that it read."""
    if layout == "BLC":
        dy = dy.transpose(0, 2, 1)
    w = w.astype(np.float64)[:, ::-1] if flip else w.astype(np.float64)
    empty = np.zeros((*dy.shape[:2], input_length))
    padded, outputs = _padded(empty, w.shape[1], padding, stride, dilation)
    for k in range(w.shape[1]):
        padded[:, :, k * dilation :: stride][:, :, :outputs] += w[:, k, None] * dy.astype(np.float64)
    places = _places(input_length, w.shape[1], padding, dilation)
    inside = (places >= 0) & (places < input_length)
    dx = np.zeros((*dy.shape[:2], input_length))
    dx[:, :, places[inside]] = padded[:, :, inside]
    return dx.transpose(0, 2, 1) if layout == "BLC" else dx


def conv1d_weight_grad(
    x: np.ndarray,
    dy: np.ndarray,
    kernel_size: int,
    *,
    padding: Padding = "causal",
    stride: int = 1,
    dilation: int = 1,
    layout: str = "BCL",
    flip: bool = False,
) -> np.ndarray:
    """Adjoint of :func:`conv1d` with respect to w: the inner product of dy with what each tap read."""
    if layout == "BLC":
        x, dy = x.transpose(0, 2, 1), dy.transpose(0, 2, 1)
    padded, outputs = _padded(x.astype(np.float64), kernel_size, padding, stride, dilation)
    dw = np.zeros((x.shape[1], kernel_size))
    for k in range(kernel_size):
        read = padded[:, :, k * dilation :: stride][:, :, :outputs]
        dw[:, k] = np.ascontiguousarray(read * dy.astype(np.float64)).sum(axis=2).sum(axis=0)  # of pairs
    return dw[:, ::-1] if flip else dw


def _zeros(taps: int, padding: Padding, dilation: int) -> tuple[int, int]:
    """Before the input and after it."""
    reach = (taps - 1) * dilation
    if isinstance(padding, str):
        before = {"causal": reach, "same": reach // 2, "valid": 0}[padding]
        return before, reach - before if padding == "same" else 0
    return padding if isinstance(padding, tuple) else (padding, padding)


def _padded(x: np.ndarray, taps: int, padding: Padding, stride: int, dilation: int) -> tuple[np.ndarray, int]:
    """Return x with its zeros, and the number of outputs."""
    places = _places(x.shape[2], taps, padding, dilation)
    inside = (places >= 0) & (places < x.shape[2])
    padded = np.where(inside, x[:, :, np.clip(places, 0, x.shape[2] - 1)], 0)
    return padded, (len(places) - (taps - 1) * dilation - 1) // stride + 1


def _places(length: int, taps: int, padding: Padding, dilation: int) -> np.ndarray:
    """Which input stands where in the padded one; what is not from 0 to length - 1 is a zero."""
    before, after = _zeros(taps, padding, dilation)
    return np.arange(-before, length + after)


# The improved Sheather-Jones rule, from sums over all pairs


def derivative_norm(X: np.ndarray, w: np.ndarray, s: int, t: float) -> float:
    """Squared norm of derivative s of the density estimate of variance t, of the line's points with weights of sum 1.

    It is (-1)^s times derivative 2 s of the normal density of variance 2 t, summed over all pairs.
    """
    u = np.clip((X[:, None] - X[None, :]) / math.sqrt(2 * t), -40, 40)  # where the kernel is 0
    before, polynomial = np.ones_like(u), u  # Hermite's, of degrees 0 and 1
    for k in range(1, 2 * s):
        before, polynomial = polynomial, u * polynomial - k * before
    kernel = polynomial * np.exp(-u * u / 2) / math.sqrt(2 * math.pi) / (2 * t) ** (s + 0.5)
    return float((-1) ** s * (w @ kernel @ w))


def sheather_jones_map(X: np.ndarray, t: float, weights: Any = None, *, begin: int = 7) -> float:
    """xi gamma^[l](t) of Botev, Grotowski and Kroese (2010), section 3, from derivative ``begin`` = l + 1 on.

    gamma_j(t) = [(1 + 2^-(j + 1/2)) / 3 * 1 3 5 ... (2 j - 1) / (N sqrt(pi / 2) |f^(j+1)|^2)]^(2 / (3 + 2 j)).
    """
    w = np.full(len(X), 1 / len(X)) if weights is None else np.asarray(weights) / np.sum(weights)
    N = 1 / (w @ w)
    for j in range(begin - 1, 0, -1):
        odd = math.prod(2 * i - 1 for i in range(1, j + 1))
        ratio = (1 + 0.5 ** (j + 0.5)) / 3 * odd / (N * math.sqrt(math.pi / 2) * derivative_norm(X, w, j + 1, t))
        t = ratio ** (2 / (3 + 2 * j))
    return ((6 * math.sqrt(2) - 3) / 7) ** (2 / 5) * t


# Cross-validation, by a fit without each row


def leave_one_out_score(X: Any, h: Any, method: str, objective: str, weights: Any = None) -> float:
    """Mean over the rows of log p_-j(x_j), or 2 of p_-j(x_j) minus the integral of p^2 (one or two dimensions)."""
    X = points(X)
    n, d = X.shape
    w = np.exp(_log_weights(weights, n))
    values = np.empty(n)
    for j in range(n):
        rest = np.arange(n) != j
        values[j] = _estimate(method, X[rest], X[j : j + 1], h, w[rest], log=objective == "likelihood")[0]
    if objective == "likelihood":
        return float(w @ values)
    # The square's frequencies beyond those of a grid of half a bandwidth are exp(-4 pi^2) of it.
    step = 0.5 * np.broadcast_to(np.asarray(h, np.float64), (d,))
    lines = [np.arange(X[:, k].min() - 20 * step[k], X[:, k].max() + 20 * step[k], step[k]) for k in range(d)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*lines)], axis=1)
    density = _estimate(method, X, grid, h, w, log=False)
    return float(2 * w @ values - step.prod() * density @ density)


def _estimate(method: str, X: np.ndarray, Y: np.ndarray, h: Any, weights: np.ndarray, log: bool) -> np.ndarray:
    """The density by one of the methods; the logarithm of kde and sd."""
    if method == "laplace":
        return laplace(X, Y, h, weights)[0]
    log_p = log_kde(X, Y, h, weights) if method == "kde" else sd_kde(X, Y, h, weights=weights, log=True)
    return log_p if log else np.exp(log_p)
