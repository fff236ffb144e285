r"""Covariances as bandwidths: the leave-one-out likelihood over :math:`H = L L^T`, with its gradient.

With :math:`z = L^{-1} x` and the weights :math:`P_{ij} = w_i w_j \phi_{ij} / S_i` of pairs, where
:math:`S_i = \sum_{j \ne i} w_j \phi_{ij}`, the mean log density of left-out rows has the derivative

.. math:: \mathrm{d} s = \mathrm{tr}\big((C - I)\, L^{-1} \mathrm{d} L\big), \qquad
    C = \sum_{i \ne j} P_{ij} (z_i - z_j) (z_i - z_j)^T = Z^T Q, \quad
    Q_i = \sum_j (P_{ij} + P_{ji}) (z_i - z_j).

Q takes two passes that sum moments about the queries: one of the data, and one with the weights :math:`w_j / S_j`. No
second moments are summed, so that every pass over pairs serves, in any dimension.

Factors are searched as :math:`L = L_0 T`, where T is lower triangular and begins as the identity: the logarithms of its
diagonal, and the entries below.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.bandwidth import check
from cukde.bandwidth.data import Question, Rows
from cukde.bandwidth.scores import LeaveOneOut
from cukde.bandwidth.search import CrossValidation, climbed
from cukde.density.api import kde
from cukde.density.arguments import prepare
from cukde.density.leave_one_out import sums_of_others
from cukde.density.options import LOG_ZERO

_MULTIPLES = 2.0 ** (np.arange(-6, 3) / 2)  # of the reference rule's deviations, along the covariance of the data
_FOLDS = 5  # of the rows, each held out of a search
_BOX = math.log(64)  # how far logarithms of the diagonal may go
_ITERATIONS = 100
_TOLERANCES = {"float32": (1e-6, 1e-3), "float64": (1e-9, 1e-5)}  # of the score, and of its gradient
_WORST = 1e10


class Found(NamedTuple):
    """The best covariance, its score, and what it gains over the best deviations, with the gain's standard error."""

    bandwidth: np.ndarray
    score: float
    gain: float
    error: float


class OfCovariance(LeaveOneOut):
    """The likelihood as a function of lower Cholesky factors of the bandwidth, (d, d) on the host."""

    def score(self, factor: np.ndarray) -> float:
        """The mean log density of rows, each by all the others."""
        return float(self._mean(self._logs_at(self._whitened(factor)) - self._log_rest)) + self._constant(factor)

    def scores_along(self, factor: np.ndarray, multiples: np.ndarray) -> np.ndarray:
        """Scores of multiples of a factor, which share passes over the distances."""
        logs = self._passes.leave_one_out(self._whitened(factor), 0.5 / multiples**2, self._weights)
        means = self._backend.asnumpy(self._mean(logs)) - self._mean_log_rest
        return np.asarray(means + self._constant(factor) - self.d * np.log(multiples))

    def with_derivatives(self, factor: np.ndarray) -> tuple[float, np.ndarray]:
        """The score, and C - I."""
        xp, z = self._backend.xp, self._whitened(factor)
        logs = self._logs_at(z)
        score = float(self._mean(logs - self._log_rest)) + self._constant(factor)
        w = xp.full(self.n, 1 / self.n) if self._weights is None else self._weights
        problem, _ = prepare(z, None, 1.0, self._weights, self.precision)
        log_w = xp.maximum(xp.log(w), LOG_ZERO)
        weighted = log_w - logs
        top = float(weighted.max())
        of_data = sums_of_others(problem._replace(options=problem.options._replace(log_weights=log_w)), "moments")
        of_sums = sums_of_others(
            problem._replace(options=problem.options._replace(log_weights=weighted - top)), "moments"
        )
        Q = xp.exp(of_data.reference + weighted)[:, None] * of_data.moments
        Q += xp.exp(of_sums.reference + top + log_w)[:, None] * of_sums.moments
        C = -self._backend.asnumpy(z.astype(xp.float64).T @ Q)
        return score, (C + C.T) / 2 - np.eye(self.d)

    def _whitened(self, factor: np.ndarray) -> Any:
        xp = self._backend.xp
        centred = self._points.astype(xp.float64) - self._centre
        return xp.ascontiguousarray(centred @ xp.asarray(np.linalg.inv(factor).T), dtype=self._dtype)

    def _logs_at(self, z: Any) -> Any:
        return self._passes.leave_one_out(z, np.array([0.5]), self._weights)[0]

    def _constant(self, factor: np.ndarray) -> float:
        return -0.5 * self.d * math.log(2 * math.pi) - float(np.log(np.diag(factor)).sum())


def search(of: Question, deviations: np.ndarray, reference: np.ndarray) -> Found:
    """Search from the best ``deviations``, (d,), or a multiple of a ``reference`` covariance, whichever is better."""
    criterion = OfCovariance(of)
    diagonal, along = np.diag(deviations), np.linalg.cholesky(reference)
    score, scores = criterion.score(diagonal), criterion.scores_along(along, _MULTIPLES)
    best = int(scores.argmax())
    start = diagonal if score >= scores[best] else _MULTIPLES[best] * along
    factor, score = _climbed(criterion, start, max(score, float(scores[best])))
    bandwidth = factor @ factor.T
    check.variances(bandwidth.diagonal())
    return Found(bandwidth, score, *_gain(of, deviations, factor))


def _gain(of: Question, deviations: np.ndarray, factor: np.ndarray) -> tuple[float, float]:
    """Mean gain in log density at rows that are held out of the search for both bandwidths, and its standard error.

    Scores of the rows that a covariance is chosen by flatter it, as it has more numbers to choose.
    """
    rows = of.rows
    counted = of.backend.asnumpy(rows.weights).nonzero()[0]
    order = np.random.default_rng(0).permutation(counted)
    gains, weights = [], []
    for fold in range(_FOLDS):
        place = np.arange(len(order)) % _FOLDS
        fitted, scored = (of.backend.asarray(order[where]) for where in (place != fold, place == fold))
        part = of._replace(rows=Rows.of(rows.points[fitted], rows.weights[fitted]))
        criterion = OfCovariance(part)
        start = CrossValidation(deviations, criterion.score(np.diag(deviations)), deviations[None], np.zeros(1))
        diagonal, _ = climbed(criterion, start)
        full, _ = _climbed(criterion, factor, criterion.score(factor))
        at = rows.points[fitted], rows.points[scored]
        options: dict[str, Any] = {
            "weights": rows.weights[fitted] if of.weighted else None,
            "precision": of.precision,
            "log": True,
        }
        log_p, log_q = (kde(*at, h, **options).astype(np.float64) for h in (full @ full.T, diagonal.bandwidth))
        gains.append(of.backend.asnumpy(log_p - log_q))
        weights.append(of.backend.asnumpy(rows.weights[scored]))
    gain, w = np.concatenate(gains), np.concatenate(weights)
    mean = float(w @ gain / w.sum())
    return mean, math.sqrt(float(w @ (gain - mean) ** 2 / w.sum()) / max(rows.effective - 1, 1.0))


def _climbed(criterion: OfCovariance, start: np.ndarray, score: float) -> tuple[np.ndarray, float]:
    """The factor of a local maximum, from that of ``start`` upward, and its score."""
    from scipy.optimize import minimize

    d = len(start)
    rows, columns = np.tril_indices(d)
    on_diagonal = rows == columns
    best, first = (start, score), score

    def factor_of(u: np.ndarray) -> np.ndarray:
        T = np.zeros((d, d))
        T[rows, columns] = np.where(on_diagonal, np.exp(u), u)
        return start @ T

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        factor = factor_of(u)
        value, excess = criterion.with_derivatives(factor)
        # d score = tr((C - I) L^-1 dL) with L^-1 dL = T^-1 dT
        T = np.linalg.solve(start, factor)
        gradient = np.linalg.solve(T.T, excess)[rows, columns] * np.where(on_diagonal, np.exp(u), 1.0)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return _WORST, np.zeros(len(u))
        if value > best[1]:
            best = factor, value
        return first - value, -gradient

    of_score, of_gradient = _TOLERANCES[criterion.precision]
    minimize(
        loss,
        np.zeros(len(rows)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-_BOX, _BOX) if one else (None, None) for one in on_diagonal],
        options={"maxiter": _ITERATIONS, "ftol": of_score, "gtol": of_gradient},
    )
    return best
