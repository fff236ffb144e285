"""Cross-validation of mixed columns: one bandwidth each, of numbers and of categories, by the leave-one-out likelihood.

The kernel of all columns is a Gaussian in more columns (:mod:`cukde.density.mixed.kernels`). The derivatives by the
bandwidths are those of the likelihood by the scales of its columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from cukde.bandwidth import backends, check, data, search
from cukde.core.frames.categories import Kinds
from cukde.core.warnings import BandwidthRangeWarning, of_user
from cukde.density import check as density_check
from cukde.density.leave_one_out import log_rest
from cukde.density.mixed import density as mixed_density
from cukde.density.mixed.kernels import Mixed, largest

_WIDTHS, _SHARES = (1.0, 0.5, 0.25), (0.6, 0.2, 0.05)  # of the rule of numbers, and of the largest, to start from
_NEAR = 1e-6  # how near shares come to 0 and 1
_ITERATIONS = 60


class Likelihood:
    """The mean log density of rows, each given the others, by logarithms of widths and shares of the largest."""

    def __init__(self, x: Any, kinds: Kinds, weights: Any | None, precision: str, backend: ModuleType) -> None:
        xp = self._xp = backend.xp
        self._backend, self._kinds, self._x = backend, kinds, x
        self.precision = "float64" if precision == "float64" else "float32"
        self._dtype = np.dtype(self.precision)
        n = len(x)
        self._w = xp.full(n, 1 / n) if weights is None else weights
        self._rest = float((self._w * log_rest(xp.log(self._w), xp)).sum())
        self._origin = backend.asnumpy(backend.mean(x)).astype(np.float64)
        self._most = np.array([1.0 if of is None else largest(of) for of in kinds])
        self._numbers = np.array([of is None for of in kinds])
        self._passes = backends.passes(backend)

    def mixed(self, u: np.ndarray, near: float = 0.0) -> Mixed:
        """The kernel of parameters; shares that come ``near`` 1 are 1."""
        shares = np.where(u >= 1 - near, 1.0, u) * self._most
        return Mixed(self._kinds, np.where(self._numbers, np.exp(np.where(self._numbers, u, 0)), shares))

    def score(self, mixed: Mixed) -> float:
        """The score of a kernel."""
        return self._of(mixed)[0]

    def _of(self, mixed: Mixed) -> tuple[float, Any, Any, Any, Any]:
        """The score, the points, the weights of kernels, logarithms of sums, and those of what kernels sum to."""
        xp = self._xp
        points = mixed.apply(self._x, self._origin, xp).astype(self._dtype)
        log_sums, w, log_mass = mixed.log_sums(self._x, xp), self._w, 0.0
        if log_sums is not None:
            log_mass = self._log_mass(log_sums)
            w = w * xp.exp(-log_sums - log_mass)
        logs = self._passes.leave_one_out(points, np.array([0.5]), w)[0] + log_mass
        score = float((self._w * logs).sum()) - self._rest + mixed.log_norm
        return score, points, w, logs, log_sums

    def with_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """The score and its derivatives by the parameters."""
        xp, mixed = self._xp, self.mixed(u)
        score, points, w, logs, log_sums = self._of(mixed)
        # Kernels have weights of their own, w, beside those of rows; the pass takes no term that exceeds its sum.
        ratio = xp.log(w) - xp.log(self._w)
        most, log_mass = -float(ratio.min()), self._log_mass(log_sums)
        squares = np.asarray(self._passes.likelihood_gradient(points, 0.5, logs + (ratio + (most - log_mass)), w))
        squares = squares * math.exp(most)
        out, first = np.zeros(len(u)), 0
        at_data = None
        for k, (of, where) in enumerate(zip(self._kinds, mixed.places, strict=True)):
            along = squares[first : first + where.shape[1]].sum()
            first += where.shape[1]
            if of is None:
                out[k] = along - 1
            elif where.shape[1]:
                width, step = float(mixed.h[k]), float(((where[0] - where[1]) ** 2).sum())
                each = along / step / width
                if of.ordered:
                    at_data = self._shares(points, logs, xp) * w * math.exp(log_mass) if at_data is None else at_data
                    slopes = xp.asarray(_slopes(len(of.values), width))[self._x[:, k].astype(xp.int64)]
                    out[k] = (each - float((at_data * slopes).sum())) * self._most[k]
                else:
                    out[k] = (each - 1) / (1 - width) * self._most[k]
        return score, out

    def _log_mass(self, log_sums: Any | None) -> float:
        """Logarithm of the sum of the weights of kernels, which are those of rows over what each kernel sums to."""
        return 0.0 if log_sums is None else math.log(float((self._w * self._xp.exp(-log_sums)).sum()))

    def _shares(self, points: Any, logs: Any, xp: Any) -> Any:
        """Sums over the other rows i of w_i K_ij / S_i at each row j, S being the sums of the score."""
        log_v = xp.log(self._w) - logs
        most = float(log_v.max())
        v = xp.exp(log_v - most)
        total = float(v.sum())
        return xp.exp(self._passes.leave_one_out(points, np.array([0.5]), v / total)[0] + (most + math.log(total)))


def _slopes(c: int, width: float) -> np.ndarray:
    """Derivatives of the logarithms of what an ordered kernel sums to, by its bandwidth, for each level."""
    apart = abs(np.arange(c)[:, None] - np.arange(c))
    out: np.ndarray = (apart * width ** np.maximum(apart - 1, 0)).sum(axis=1) / (width**apart).sum(axis=1)
    return out


def cross_validate(
    X: Any, kinds: Any, options: Mapping[str, Any], rule: Callable[..., Any]
) -> search.CrossValidation | None:
    """Return the bandwidths of the best score; None where all columns are numbers, whose reference is a ``rule``."""
    weights = options.get("weights")
    of_data = mixed_density.data(X, kinds, weights=weights)
    if of_data is None:
        return None
    for name in ("bounds", "periods", "n_eff"):
        if options.get(name) is not None:
            raise ValueError(f"{name} must be None in cross_validate where columns have categories: choose h yourself")
    backend, x, found = of_data
    with backend.device_of(x):
        rows = data.rows(x, weights, backend)
        precision = density_check.precision(options.get("precision"), rows.points.dtype)
        x, w, _ = rows.counted(backend, weighted=weights is not None)
        score = Likelihood(x, found, w, precision, backend)
        start = np.array([0.0 if of is None else 1.0 for of in found])
        numbers = [k for k, of in enumerate(found) if of is None]
        if numbers:
            start[numbers] = np.log(backend.asnumpy(rule(x[:, numbers], weights=w)))
        best, tried, scores = _searched(score, start, numbers)
        asarray = backend.asarray
        return search.CrossValidation(asarray(best[0]), best[1], asarray(tried), asarray(scores))


def _searched(
    of: Likelihood, rule: np.ndarray, numbers: list[int]
) -> tuple[tuple[np.ndarray, float], np.ndarray, np.ndarray]:
    """Start from the best of a few, and follow the gradient; return the best, and those few with their scores."""
    from scipy.optimize import minimize

    is_number = np.isin(np.arange(len(rule)), numbers)
    starts = np.array(
        [
            np.where(is_number, rule + math.log(width), share)
            for width, share in itertools.product(_WIDTHS if numbers else (1.0,), _SHARES)
        ]
    )
    scores = check.scores(np.array([of.score(of.mixed(u)) for u in starts]))
    best = starts[scores.argmax()], float(scores.max())

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        score, gradient = of.with_gradient(u)
        if not (math.isfinite(score) and np.isfinite(gradient).all()):
            return search.WORST, np.zeros(len(u))
        if score > best[1]:
            best = u.copy(), score
        return -score, -gradient

    box = [
        (u - search.BOX, u + search.BOX) if number else (_NEAR, 1 - _NEAR)
        for u, number in zip(best[0], is_number, strict=True)
    ]
    of_score, of_gradient = search.TOLERANCES[of.precision]
    limits = {"maxiter": _ITERATIONS, "ftol": of_score, "gtol": of_gradient}
    minimize(loss, best[0], jac=True, method="L-BFGS-B", bounds=box, options=limits)
    edge = [k for k in numbers if best[0][k] < box[k][0] + 1e-3 * search.BOX]
    if edge:
        of_user(
            f"the bandwidth of column {edge[0]} is the smallest that is looked for: where its numbers are few and "
            "shared by rows, they are levels: kinds may say 'ordered'",
            BandwidthRangeWarning,
        )
    found = of.mixed(best[0], 2 * _NEAR)
    return (found.h, of.score(found)), np.array([of.mixed(u).h for u in starts]), scores
