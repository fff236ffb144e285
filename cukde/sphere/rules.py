"""Bandwidths on the sphere, in radians: a reference rule and cross-validation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, Unpack

import numpy as np

from cukde.bandwidth import data, search
from cukde.bandwidth.check import options as check_options
from cukde.bandwidth.cost import of_cross_validation
from cukde.bandwidth.data import Question, Rows
from cukde.bandwidth.scores import LeaveOneOut
from cukde.bandwidth.search import CROSS_VALIDATED, CrossValidation
from cukde.core import dispatch, words
from cukde.core.cost.registry import declare
from cukde.core.entry.public_call import public_call
from cukde.core.types import ArrayLike
from cukde.density import check as density_check
from cukde.density.cost.calls import of_bandwidth
from cukde.density.keywords import OfPrecision, OfRowWeights, takes
from cukde.sphere import check, constant, cost
from cukde.sphere.pair_angles import PairAngles

Width = float | str | CrossValidation
"""What functions of the sphere take as a bandwidth."""

# Radians between which a search goes on: beyond, densities are uniform, or their kernels apart, to many digits.
_NARROWEST, _WIDEST = 1e-6, 16.0

_CALL = "cukde.sphere.cross_validate(X, bandwidths)"


def width(h: Any, X: Any, weights: Any) -> float:
    """Return a bandwidth: a number, or what a rule makes of the data, or has made."""
    if isinstance(h, str):
        if h not in _RULES:
            rules = ", ".join(map(repr, _RULES))
            raise ValueError(f"h must be a number or one of {rules}; got {h!r}{words.meant(h, _RULES)}")
        h = _RULES[h](X, weights=weights)
    return check.bandwidth(h.bandwidth if isinstance(h, CrossValidation) else h)


@declare(cost.reference, of_bandwidth, name="sphere.reference")
@public_call()
@takes(OfRowWeights, described=["weights"])
def reference(X: ArrayLike, **options: Unpack[OfRowWeights]) -> float:
    r"""Reference rule for :func:`cukde.sphere.kde`: to leading order the best bandwidth for von Mises-Fisher data.

    .. math:: h = \left[\frac{4 \sqrt\pi\, I_{(q-1)/2}(\kappa)^2}{\kappa^{(q+1)/2}\, n_\mathrm{eff}\,
        [2 q\, I_{(q+1)/2}(2\kappa) + (q + 2)\, \kappa\, I_{(q+3)/2}(2\kappa)]}\right]^{1/(q+4)}, \qquad q = d - 1

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data: unit vectors, at least two different ones.

    Returns
    -------
    float
        Bandwidth in radians.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.bandwidth.scott`, and as :func:`cukde.sphere.kde` for rows that are not unit vectors.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> lon, lat = np.random.default_rng(0).normal(scale=10, size=(2, 500))  # degrees about one place
    >>> round(np.degrees(cukde.sphere.reference(cukde.sphere.from_degrees(lon, lat))), 2)
    np.float64(3.45)

    Notes
    -----
    The concentration :math:`\kappa` is that of the von Mises-Fisher distribution with the mean resultant length
    :math:`\rho` of the data, where :math:`\rho^2 = (R^2 - \sum w_j^2) / (1 - \sum w_j^2)`, at least
    :math:`1 / n_\mathrm{eff}`. It suits data about one direction; several groups, or data all around, it oversmooths:
    take :func:`cross_validate`. For narrow data it is :func:`cukde.bandwidth.silverman` in the tangent plane.

    References
    ----------
    - García-Portugués, E. (2013). Exact risk improvement of bandwidth selectors for kernel density estimation with
      directional data. *Electronic Journal of Statistics* 7, 1655-1685, proposition 2.
    """
    weights = options.get("weights")
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        return _reference(_rows(X, weights, backend))


@declare(cost.cross_validate, of_cross_validation, name="sphere.cross_validate")
@public_call()
@takes(OfPrecision)
def cross_validate(
    X: ArrayLike,
    bandwidths: ArrayLike | None = None,
    objective: Literal["likelihood", "least_squares"] = "likelihood",
    **options: Unpack[OfPrecision],
) -> CrossValidation:
    r"""Choose a bandwidth for :func:`cukde.sphere.kde` by leave-one-out cross-validation.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data: unit vectors, at least two different ones.
    bandwidths : array_like, shape (B,), optional
        Candidates in radians. Default: 32 multiples of :func:`reference`, from 1/8 to 1.83, and more while the best is
        at an end, from 1e-6 to 16.
    objective : {"likelihood", "least_squares"}
        The score, which is to be large: :math:`\sum_j w_j \log \hat p_{-j}(x_j)`, or minus the integrated squared
        error up to a constant, :math:`-(\int \hat p^2 - 2 \sum_j w_j \hat p_{-j}(x_j))`, over the sphere.

    Returns
    -------
    CrossValidation
        A named tuple: ``bandwidth``, a number, to be given as ``h``, as the result itself may be; ``score``, its score;
        ``bandwidths`` and ``scores``, (B,). On the host.

    Raises
    ------
    TypeError, ValueError
        As :func:`reference`; for an unknown objective, and for bandwidths that are not positive numbers.

    Warns
    -----
    BandwidthRangeWarning
        If the best bandwidth is the smallest or the largest of the candidates.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> lon, lat = np.random.default_rng(0).normal(scale=10, size=(2, 500))
    >>> lon[250:] += 170  # two groups, one over the date line
    >>> X = cukde.sphere.from_degrees(lon, lat)
    >>> found = cukde.sphere.cross_validate(X)
    >>> np.degrees(found.bandwidth).round(1), np.degrees(cukde.sphere.reference(X)).round(1)
    (np.float64(4.4), np.float64(35.2))

    Notes
    -----
    The likelihood is that of :func:`cukde.bandwidth.cross_validate` for one deviation in all columns, with the constant
    of the sphere, in the same passes. Least squares take the angles of all pairs once, in steps of
    :math:`\pi / 2^{18}`: relative to the mean density a score is accurate to 1e-6 from h = 0.005 on, and to 2e-5 at
    0.001. There :math:`\int \hat p^2 = \sum_{ij} w_i w_j C_d(\kappa)^2 / C_d(\kappa |x_i + x_j|)`, and the cost is
    that of n (n - 1) / 2 products of rows, 25 ns each on a core, for any number of bandwidths.

    References
    ----------
    - Hall, P., Watson, G. S. and Cabrera, J. (1987). Kernel density estimation with spherical data. *Biometrika* 74.
    """
    check_options("kde", objective, False, in_domain=False)
    weights = options.get("weights")
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        rows = _rows(X, weights, backend)
        chosen = density_check.precision(options.get("precision"), rows.points.dtype)
        score: Callable[[np.ndarray], np.ndarray]
        if objective == "likelihood":
            question = Question(rows, None, weights is not None, "kde", objective, chosen, backend)
            score = functools.partial(_likelihoods, LeaveOneOut(question))
        else:
            score = PairAngles(rows, backend).least_squares
        tied = functools.partial(rows.tied, objective, backend)
        if bandwidths is None:
            grid = np.array([_reference(rows)])
            tried, scores = search.along(CROSS_VALIDATED, grid, functools.partial(_within, score), tied)
            tried, scores = (a[np.isfinite(scores)] for a in (tried[:, 0], scores))
        else:
            tried = check.bandwidths(dispatch.to_host(bandwidths))
            scores = score(tried)
    best = int(scores.argmax())
    found = tried[best : best + 1]
    if tried.min() < tried.max() and found == tried.min():
        search.warn("smallest", found, tied, listed=bandwidths is not None, call=_CALL)
    elif tried.min() < tried.max() and found == tried.max() and bandwidths is not None:  # else it is the uniform one
        search.warn("largest", found, tied, listed=True)
    return CrossValidation(found[0], float(scores[best]), tried, scores)


_RULES: dict[str, Callable[..., Any]] = {"reference": reference, "cross_validate": cross_validate}


def _rows(X: Any, weights: Any, backend: ModuleType) -> Rows:
    """Check unit vectors and weights."""
    rows = data.rows(X, weights, backend)
    check.columns(rows.points.shape[1])
    check.unit_rows("X", rows.points, backend)
    return rows


def _reference(rows: Rows) -> float:
    """The reference rule of checked rows."""
    points, d = rows.points.astype(float, copy=False), rows.points.shape[1]
    w = rows.weights / rows.total
    deviations = points - points[rows.heaviest]  # exactly 0 of copies
    deviations = deviations - w @ deviations
    # 1 - R^2 is the spread about the mean, of unit vectors, so that nothing cancels; then of independent rows.
    spread = float(w @ (deviations * deviations).sum(axis=1)) / (1 - 1 / rows.effective)
    check.varies(spread)
    kappa = _concentration(d, min(spread, 1 - 1 / rows.effective))
    q, both = d - 1, np.array([2 * kappa])
    log_squared = 2 * float(constant.log_scaled_bessel((q - 1) / 2, np.array([kappa]))[0])
    logs = [float(constant.log_scaled_bessel((q + k) / 2, both)[0]) for k in (1, 3)]
    curvature = np.logaddexp(math.log(2 * q) + logs[0], math.log((q + 2) * kappa) + logs[1])
    log_h = math.log(4) + 0.5 * math.log(math.pi) + log_squared - 0.5 * (q + 1) * math.log(kappa) - curvature
    return math.exp((log_h - math.log(rows.effective)) / (q + 4))


def _concentration(d: int, spread: float) -> float:
    """The concentration of the von Mises-Fisher distribution whose 1 - R^2 this is, by bisection of its logarithm."""
    low, high = -20.0, 45.0

    def of(log_kappa: float) -> float:
        kappa = np.array([math.exp(log_kappa)])
        if kappa[0] > 1e6 * d * d:
            return (d - 1) / float(kappa[0])
        above, below = (float(constant.log_scaled_bessel(nu, kappa)[0]) for nu in (0.5 * d, 0.5 * d - 1))
        return -math.expm1(2 * (above - below))

    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if of(middle) > spread else (low, middle)
    return math.exp(low)


def _likelihoods(gaussian: LeaveOneOut, h: np.ndarray) -> np.ndarray:
    """Mean log densities, of those of Gaussians in R^d, whose constants give way to those of the sphere."""
    d = gaussian.d
    flat = -d * (0.5 * constant.LOG_2_PI + np.log(h))
    return gaussian.scores(np.repeat(h[:, None], d, axis=1)) - flat + constant.log_norms(d, h**-2.0)


def _within(score: Callable[[np.ndarray], np.ndarray], h: np.ndarray) -> np.ndarray:
    """Scores of candidates, (B, 1); -inf outside their range."""
    some = (h[:, 0] >= _NARROWEST) & (h[:, 0] <= _WIDEST)
    out = np.full(len(h), -np.inf)
    if some.any():
        out[some] = score(h[some, 0])
    return out
