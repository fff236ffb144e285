"""Leave-one-out scores of bandwidths, and their gradients, from a backend's passes over all pairs of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.bandwidth import backends, check, least_squares, scores_1d
from cukde.bandwidth.data import Question
from cukde.bandwidth.one_by_one import STEP
from cukde.density.arguments import prepare
from cukde.density.leave_one_out import log_rest
from cukde.density.problem import Problem, score_problem

_BLOCK = 2**28  # bytes of the sums that a pass returns, a row for each bandwidth

# Of bandwidths and of data that stay as they are: their squares are floats, and a difference of two given floats rounds
# less than one of two scaled ones.
_PLAIN = (1e-12, 1e12)

# Bandwidths this near to each other's multiples are taken for proportional: products round.
_PROPORTIONAL = 1e-14

_GAUSSIAN = np.array([[1.0, 0, 0, 0, 0]])  # P = 1 and R = 0: the integral of the square alone


class _Coordinates(NamedTuple):
    """Data in which one number is the bandwidth of every column."""

    points: Any  # (n, d) of the dtype of the arithmetic
    widths: np.ndarray  # (B,): the bandwidths there

    @property
    def scales(self) -> np.ndarray:
        """What squared distances are multiplied by."""
        out: np.ndarray = 0.5 / self.widths**2
        return out


class LeaveOneOut:
    """The criterion as a function of the bandwidths: (B, d) deviations on the host in, (B,) scores out."""

    def __init__(self, of: Question) -> None:
        backend = self._backend = of.backend
        self._method, self.is_logarithmic, self.precision = of.method, of.is_logarithmic, of.arithmetic
        self._dtype = np.dtype(self.precision)
        xp = backend.xp
        self._points, self._weights, self.ranges = of.rows.counted(backend, weighted=of.weighted)
        self.n, self.d = self._points.shape
        with np.errstate(over="ignore", invalid="ignore"):  # such ranges are refused
            self._centre = backend.mean(self._points)
        # The logarithm of the weight that is left without a row, and its mean; the sum of squared weights.
        if self._weights is None:
            self._log_rest: Any = math.log1p(-1 / self.n)
            self._squares = 1 / self.n
        else:
            self._log_rest = log_rest(xp.log(self._weights), xp)
            self._squares = float(self._weights @ self._weights)
        self._mean_log_rest = float(self._mean(self._log_rest))

    @property
    def _passes(self) -> ModuleType:
        """The backend's passes over all pairs."""
        return backends.passes(self._backend)

    @property
    def _by_line(self) -> bool:
        """Whether a transform of data of one column takes less time than all pairs."""
        return self.d == 1 and self.n >= self._passes.LEAST_ROWS_OF_LINE

    def scores(self, h: np.ndarray) -> np.ndarray:
        """Return scores, the greater the better; proportional bandwidths share passes over the distances."""
        out = np.empty(len(h))
        for members in proportional(h):
            for block in self._blocks(members):
                out[block] = self._scores(h[block])
        return check.scores(out)

    def with_gradient(self, h: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the score of (d,) deviations and its derivatives by their logarithms, infinite or NaN beyond range."""
        if self._method == "sd":
            return self._with_differences(h)
        coordinates = self._coordinates(h[None])
        scale, unit = float(coordinates.scales[0]), float(coordinates.widths[0] ** 2)
        if self.is_logarithmic:
            logs = self._logs(coordinates)
            sums = self._passes.likelihood_gradient(coordinates.points, scale, logs[0], self._weights)
            return float(self._likelihoods(logs, h[None])[0]), sums / unit - 1
        coefficients = least_squares.coefficients(self._method, self.d)
        pairs = self._passes.least_squares(coordinates.points, coordinates.scales, coefficients[None], self._weights)
        score = float(self._least_squares(coefficients[0], pairs, h[None])[0])
        sums = self._passes.least_squares_gradient(
            coordinates.points, scale, least_squares.of_derivative(coefficients), self._weights
        )
        with np.errstate(over="ignore", invalid="ignore"):
            return score, -2 * np.exp(least_squares.log_scale(h)) * sums / unit - score

    def _with_differences(self, h: np.ndarray) -> tuple[float, np.ndarray]:
        """The same by central differences: without a row every debiased point moves, and that with h."""
        step = STEP[self.precision] * np.eye(self.d)
        tried = h * np.exp(np.concatenate([np.zeros((1, self.d)), step, -step]))
        scores = np.array([self._scores(one[None])[0] for one in tried])
        return float(scores[0]), (scores[1 : 1 + self.d] - scores[1 + self.d :]) / (2 * STEP[self.precision])

    def _scores(self, h: np.ndarray) -> np.ndarray:
        """Scores of proportional bandwidths; not finite where they overflow."""
        coordinates = self._coordinates(h)
        if self._method == "sd":
            whitened, _ = prepare(coordinates.points, None, coordinates.widths[0], self._weights, self.precision)
            return np.array([self._sd(whitened, width, one) for width, one in zip(coordinates.widths, h, strict=True)])
        if self.is_logarithmic:
            return self._likelihoods(self._logs(coordinates), h)
        coefficients = least_squares.coefficients(self._method, self.d)
        each = np.tile(coefficients, (len(h), 1))
        if self._by_line and self._method == "kde":
            pairs = scores_1d.least_squares(coordinates.points, coordinates.scales, each, self._weights, self._backend)
        else:
            pairs = self._passes.least_squares(coordinates.points, coordinates.scales, each, self._weights)
        return self._least_squares(coefficients[0], pairs, h)

    def _logs(self, coordinates: _Coordinates) -> Any:
        """Logarithms of the sums of kernels at each row over all others, (B, n)."""
        if self._by_line:
            return scores_1d.leave_one_out(coordinates.points, coordinates.scales, self._weights, self._backend)
        return self._passes.leave_one_out(coordinates.points, coordinates.scales, self._weights)

    def _likelihoods(self, logs: Any, h: np.ndarray) -> np.ndarray:
        """Mean log densities, of the logarithms of sums of kernels."""
        means: np.ndarray = self._backend.asnumpy(self._mean(logs))
        return means - self._mean_log_rest + _log_norm(h)

    def _least_squares(self, at_zero: float, pairs: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Minus the criterion, of P(0) and the sums over pairs."""
        with np.errstate(over="ignore", invalid="ignore"):
            out: np.ndarray = -np.exp(least_squares.log_scale(h)) * (self._squares * at_zero + 2 * pairs)
        return out

    def _sd(self, whitened: Problem, width: float, h: np.ndarray) -> float:
        """Score of one bandwidth of the score-debiased estimate: all moments, then the sums without each row."""
        xp, weighted, points = self._backend.xp, self._weights is not None, whitened.X
        problem = score_problem(whitened, width)
        sums = problem.sums("moments")
        mean_shift = sums.moments / sums.total[:, None]
        totals = sums.total * xp.exp(sums.reference + (0.0 if weighted else -math.log(self.n)))  # of weights 1 there
        scale = 0.5 / width**2
        logs = self._passes.debiased_leave_one_out(points, mean_shift, totals, scale, self._weights)
        if self.is_logarithmic:
            return float(self._likelihoods(logs[None], h[None])[0])
        # About the mean, so that rounding to the dtype of the arithmetic costs no accuracy.
        moved = xp.ascontiguousarray(points - problem.options.centre + mean_shift / 2, dtype=self._dtype)
        pairs = self._passes.least_squares(moved, np.array([scale]), _GAUSSIAN, self._weights)
        log_density = logs - self._log_rest + _log_norm(h)
        top = float(log_density.max())
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(top) * float(self._mean(xp.exp(log_density - top)))
            return float(self._least_squares(1.0, pairs, h[None])[0] + 2 * mean)

    def _mean(self, a: Any) -> Any:
        """Mean over the rows, by their weights, along the last axis; a number stays what it is."""
        if np.ndim(a) == 0:
            return a
        return a.mean(axis=-1) if self._weights is None else a @ self._weights

    def _coordinates(self, h: np.ndarray) -> _Coordinates:
        """Lay out the data for proportional bandwidths.

        For a bandwidth that is the same in every column they stay as they are.
        """
        equal = bool((h[0] == h[0, 0]).all()) and self._points.dtype == self._dtype
        if equal and _PLAIN[0] < h.min() and max(h.max(), self.ranges.max()) < _PLAIN[1]:
            return _Coordinates(self._points, h[:, 0])
        xp = self._backend.xp
        scaled = (self._points.astype(xp.float64) - self._centre) / xp.asarray(h[0])
        return _Coordinates(xp.ascontiguousarray(scaled, dtype=self._dtype), h[:, 0] / h[0, 0])

    def _blocks(self, members: np.ndarray) -> Iterator[np.ndarray]:
        """Cut bandwidths such that the sums of a block stay small."""
        step = max(1, _BLOCK // (8 * self.n))
        for start in range(0, len(members), step):
            yield members[start : start + step]


def proportional(h: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the places of the bandwidths, (B, d), that are multiples of each other."""
    left = np.arange(len(h))
    while left.size:
        ratios = h[left] / h[left[0]]
        members = (abs(ratios / ratios[:, :1] - 1) < _PROPORTIONAL).all(axis=1)
        yield left[members]
        left = left[~members]


def _log_norm(h: np.ndarray) -> Any:
    """Logarithm of the Gaussian's constant for deviations, a row a bandwidth."""
    return -0.5 * h.shape[-1] * math.log(2 * math.pi) - np.log(h).sum(axis=-1)
