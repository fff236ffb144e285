"""The studies of steps and of reference rules measure what they say."""

from __future__ import annotations

import numpy as np
import pytest

import cukde
from benchmarks.bandwidth import bench_reference_rules
from benchmarks.density import bench_steps

RNG = np.random.default_rng(0)


def test_steps_are_those_of_debias() -> None:
    X = RNG.standard_normal((60, 3))
    points = X
    for k in (1, 2, 3):
        points = bench_steps.step(X, points, 0.6, "steps")
        np.testing.assert_allclose(points, cukde.debias(X, 0.6, steps=k), rtol=0, atol=1e-12)


def test_others_leave_out_the_own_point() -> None:
    X = np.concatenate([RNG.standard_normal((40, 2)), [[9.0, 9.0]]])
    want = X + 0.5 * 0.5**2 * cukde.score(X, X, 0.5, leave_one_out=True)
    np.testing.assert_allclose(bench_steps.step(X, X, 0.5, "others"), want, rtol=0, atol=1e-11)
    points = X
    for k in (1, 2):
        points = bench_steps.step(X, points, 0.5, "limited")
        np.testing.assert_allclose(points, cukde.debias(X, 0.5, steps=k, own_point=False), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    "case", [bench_steps.modes(1, 4.0, 0.5), bench_steps.modes(1, 0.0, 0.5), bench_steps.student(1, 0.6)]
)
def test_known_densities(case: bench_steps.Case) -> None:
    """Of very many rows the kernel density of a narrow bandwidth is the density."""
    assert case.known is not None
    X = np.concatenate([case.draw(np.random.default_rng(k))[0] for k in range(400)])
    assert case.known.overlap(X, 0.05) == pytest.approx(case.known.square, rel=0.01)
    assert bench_steps.judged(X[:2000], 0.4, X[:10], case.known)[1] == pytest.approx(0, abs=0.05)


def test_squared_error_of_points() -> None:
    X = RNG.standard_normal((200, 1))
    y = np.linspace(-9, 9, 2001)
    error = ((cukde.kde(X[:, 0], y, 0.4) - np.exp(-0.5 * y * y) / np.sqrt(2 * np.pi)) ** 2).sum() * (y[1] - y[0])
    want = error * np.sqrt(4 * np.pi)
    assert bench_reference_rules.of_normals(X, 0.4) == pytest.approx(want, rel=1e-6)
    assert bench_steps.judged(X, 0.4, X, bench_steps.modes(1, 0.0, 0.5).known)[1] == pytest.approx(want, rel=1e-6)


def test_squared_error_of_the_positive_estimate() -> None:
    X, h = RNG.standard_normal((300, 1)), 0.6
    y = np.linspace(-12, 12, 2001)
    p = cukde.kde(X[:, 0], y, h)
    t = cukde.laplace_kde(X[:, 0], y, h) / p - 1
    estimate = p * (t + np.sqrt(1 + t * t))
    estimate /= estimate.sum() * (y[1] - y[0])
    error = ((estimate - np.exp(-0.5 * y * y) / np.sqrt(2 * np.pi)) ** 2).sum() * (y[1] - y[0]) * np.sqrt(4 * np.pi)
    draws = [bench_reference_rules.of_positive(X, h, np.random.default_rng(k)) for k in range(10)]
    assert np.mean(draws) == pytest.approx(error, rel=0.1)


def test_excess_of_known_errors() -> None:
    widths = np.linspace(0.5, 1.5, 15)
    errors = np.tile(1 + (np.log(widths) - 0.1) ** 2, (4, 1))
    found = bench_reference_rules.excess(errors, widths, np.exp(0.1), np.exp(-0.2))
    assert found.best == pytest.approx(np.exp(0.1), rel=1e-3)
    assert found.rule == pytest.approx((0, 0), abs=1e-4)
    assert found.leading == pytest.approx((9, 0), abs=1e-3)
