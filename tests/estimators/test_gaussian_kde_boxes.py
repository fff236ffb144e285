"""Masses of boxes: ``integrate_box`` of ``cukde.gaussian_kde`` against SciPy's and against oracles of one integral."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import cukde
from cukde.estimators import boxes, rectangles, sampled_boxes
from tests.conftest import Backend
from tests.private import backend_of, named

EXACT = 1e-13
"""Absolute error of masses that are summed: Owen's function to a few eps, of four corners."""


def arrays_of(backend: Backend) -> Any:
    """The module of arrays that computes on this backend."""
    return backend_of(backend.asarray(np.zeros(1)))


def test_rectangles(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    low = 2 * rng.normal(size=(60, 2))
    high = low + rng.exponential(2, (60, 2))
    correlation = np.tanh(rng.normal(0, 3, 60))
    low[::7], high[::5, 1], low[::11, 0], high[::13] = -np.inf, np.inf, 0, 0
    low = np.minimum(low, high)
    args = [backend.asarray(a) for a in (low, high, correlation)]
    got = backend.asnumpy(rectangles.masses(*args, arrays_of(backend)))
    for mass, a, b, r in zip(got, low, high, correlation, strict=True):
        want = stats.multivariate_normal.cdf(b, lower_limit=a, cov=[[1, r], [r, 1]])
        np.testing.assert_allclose(mass, want, rtol=0, atol=EXACT)


def test_a_rectangle_at_the_origin() -> None:
    """A quadrant has 1/4 + arcsin(rho) / (2 pi)."""
    correlation = np.array([-0.999999, -0.5, 0.0, 0.3, 1 - 1e-12])
    low, high = np.full((5, 2), -np.inf), np.zeros((5, 2))
    got = rectangles.masses(low, high, correlation, named("cpu"))
    np.testing.assert_allclose(got, 0.25 + np.arcsin(correlation) / (2 * np.pi), rtol=0, atol=EXACT)


class OneFactor(cukde.gaussian_kde):
    """The covariance has 1 on its diagonal and RHO beside it, times a square of deviations."""

    RHO, DEVIATION = 0.6, 0.7

    def _compute_covariance(self) -> None:
        self.factor = 1.0
        correlation = self.RHO + (1 - self.RHO) * np.eye(self.d)
        self.covariance = self._backend().xp.asarray(self.DEVIATION**2 * correlation)


def one_factor(X: np.ndarray, w: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Given the common factor t, all columns are independent: one integral over t, by the trapezoidal rule."""
    t = np.linspace(-9, 9, 2001)[:, None, None]
    own = np.sqrt(1 - OneFactor.RHO)
    sides = [
        special.ndtr(((side - X) / OneFactor.DEVIATION - np.sqrt(OneFactor.RHO) * t) / own) for side in (low, high)
    ]
    chances = (sides[1] - sides[0]).prod(axis=2) @ w
    return float(integrate.trapezoid(chances * stats.norm.pdf(t[:, 0, 0]), t[:, 0, 0]))


@pytest.mark.parametrize("d", [3, 6])
def test_sampled_boxes(backend: Backend, d: int) -> None:
    rng = np.random.default_rng(d)
    X, w = 3 * rng.normal(size=(100, d)), rng.uniform(0, 1, 100)
    w /= w.sum()
    low, high = np.full(d, -2.5), np.full(d, 4.0)
    low[1] = -np.inf
    kde = OneFactor(backend.asarray(X.T), weights=backend.asarray(w))
    got = float(kde.integrate_box(low, high, rng=1))
    assert abs(got - one_factor(X, w, low, high)) <= sampled_boxes.TOLERANCE
    assert float(kde.integrate_box(low, high, rng=1)) == got
    for column, sign in ((0, -1), (1, 1), (2, -1)):  # as in an integral
        low[column], high[column] = high[column], low[column]
        assert float(kde.integrate_box(low, high, rng=1)) == sign * got


def test_tiles_of_the_cube_and_of_centres_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(3, 30))
    kde = cukde.gaussian_kde(X)
    want = kde.integrate_box(-0.5, 1, rng=0)
    monkeypatch.setattr(sampled_boxes, "_ENTRIES", {"cpu": 100})
    monkeypatch.setattr(boxes, "_ROWS", {"cpu": 7})
    np.testing.assert_allclose(kde.integrate_box(-0.5, 1, rng=0), want, rtol=0, atol=EXACT)


def test_too_few_points_for_a_box_warn() -> None:
    kde = cukde.gaussian_kde(np.random.default_rng(0).normal(size=(4, 20)))
    with pytest.warns(cukde.ConvergenceWarning, match="more than maxpts=64"):
        kde.integrate_box(-1, 1, 64, rng=0)


def test_errors_that_are_told_are_those_of_three_deviations() -> None:
    """Of 60 estimates hardly any is further off than it says, and all together are a third of that."""
    rng = np.random.default_rng(0)
    X, w = 3 * rng.normal(size=(20, 4)), np.full(20, 1 / 20)
    low, high = np.full(4, -2.5), np.full(4, 4.0)
    kde, want = OneFactor(X.T), one_factor(X, w, low, high)
    off, told = [], []
    for seed in range(60):
        with pytest.warns(cukde.ConvergenceWarning) as record:
            off.append(float(kde.integrate_box(low, high, 512, rng=seed)) - want)
        told.append(float(re.search(r"is known to (\S+) only", str(record[0].message)).group(1)))
    ratio = np.abs(off) / told
    assert (ratio < 1).mean() > 0.9
    assert 0.2 < np.sqrt((ratio**2).mean()) < 0.6


@pytest.mark.parametrize("d", [2, 4])
def test_exact_boxes(backend: Backend, d: int) -> None:
    """Bounds in two columns of several; and independent columns, of which SciPy's is a product as well."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(d, d)) @ rng.normal(size=(d, 50))
    ours, theirs = cukde.gaussian_kde(backend.asarray(X)), stats.gaussian_kde(X)
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    low[0], high[0], low[d - 1], high[d - 1] = -1, 2, 0.1, np.inf
    two = theirs if d == 2 else theirs.marginal([0, d - 1])
    want = two.integrate_box(low[[0, d - 1]], high[[0, d - 1]])
    if d == 4:  # of a marginal SciPy makes the same covariance, but for rounding
        np.testing.assert_allclose(two.covariance, theirs.covariance[np.ix_([0, 3], [0, 3])], 1e-12)
    np.testing.assert_allclose(float(ours.integrate_box(low, high)), want, rtol=0, atol=EXACT)
    assert float(ours.integrate_box(-np.inf, np.inf)) == 1
    assert float(ours.integrate_box([np.inf, *low[1:]], [np.inf, *high[1:]])) == 0

    ours.covariance = backend.asarray(np.diag(np.arange(1.0, d + 1)))
    chances = [np.subtract(*(stats.norm.cdf((b - X[k]) / np.sqrt(k + 1)) for b in (1.5, -1.0))) for k in range(d)]
    got = float(ours.integrate_box(-1, 1.5))
    np.testing.assert_allclose(got, np.prod(chances, axis=0).mean(), rtol=0, atol=EXACT)


def test_intervals_in_the_tails_have_their_digits(backend: Backend) -> None:
    x = np.array([0.0, 1.0])
    kde = cukde.gaussian_kde(backend.asarray(x), 1.0)
    deviation = np.sqrt(0.5)
    for low, high in ((20.0, np.inf), (-np.inf, -20.0), (20.0, 20.5)):
        near, far = sorted((abs(low), abs(high)))
        u = [(side - (x if low > 0 else -x)) / deviation for side in (near, far)]
        want = (special.ndtr(-u[0]) - special.ndtr(-u[1])).mean()
        np.testing.assert_allclose(float(kde.integrate_box_1d(low, high)), want, 1e-11)
