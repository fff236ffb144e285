"""Rules for the bandwidth on domains with walls and periods, against formulas, images and fits without each row."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import BandwidthRangeWarning, bandwidth
from tests import reference
from tests.conftest import Backend

RULES = ("scott", "silverman", "sd", "laplace", "positive")
RNG = np.random.default_rng(0)
WAITS, SHARES, ANGLES = RNG.exponential(size=400), RNG.beta(2, 5, 400), RNG.normal(0, 20, 400)


def on_host(backend: Backend, rule: Any, *arrays: Any, weights: Any = None, **options: Any) -> np.ndarray:
    return backend.asnumpy(rule(*map(backend.asarray, arrays), weights=backend.asarray(weights), **options))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_spread_around_a_period_is_that_of_the_formula(backend: Backend, weighted: bool) -> None:
    w = RNG.exponential(size=400) if weighted else np.ones(400)
    w /= w.sum()
    for sigma in (1e-5, 20.0, 90.0):
        x = sigma / 20 * ANGLES
        R2 = abs(w @ np.exp(2j * np.pi * x / 360)) ** 2
        squares = w @ w
        rho2 = max((R2 - squares) / (1 - squares), squares)
        want = 360 / (2 * np.pi) * math.sqrt(-math.log(rho2))
        if sigma < 1:  # R rounds to 1
            want = math.sqrt(w @ (x - w @ x) ** 2 / (1 - squares))
        factor = bandwidth.silverman(x, weights=w)[0] / math.sqrt(w @ (x - w @ x) ** 2 / (1 - squares))
        for turn in (0.0, 179.0, 36000.0):
            got = on_host(backend, bandwidth.silverman, (x + turn) % 360, weights=w, periods=[360])
            np.testing.assert_allclose(got, [want * factor], rtol=1e-9 if sigma > 1 else 1e-6)


def test_each_column_has_its_spread_in_every_rule(backend: Backend) -> None:
    X = np.stack([ANGLES % 360, WAITS], axis=1)
    domain: dict[str, Any] = {"bounds": [None, (0, None)], "periods": [360, None]}
    for name in RULES:
        rule = getattr(bandwidth, name)
        plain = rule(np.stack([ANGLES, WAITS], axis=1))  # narrow beside the period
        got = on_host(backend, rule, X, **domain)
        np.testing.assert_allclose(got, plain, rtol=2e-2)
        np.testing.assert_allclose(got[1], plain[1], rtol=1e-12)


def test_evenly_spread_angles_have_a_bandwidth() -> None:
    x = np.arange(0, 360, 2.0)
    h = bandwidth.silverman(x, periods=[360])
    want = 360 / (2 * np.pi) * math.sqrt(math.log(180)) * (180 * 3 / 4) ** -0.2
    np.testing.assert_allclose(h, [want], rtol=1e-12)


class TestImprovedSheatherJones:
    def test_a_wall_mirrors_the_data(self, backend: Backend) -> None:
        """The mirrored data have half of the density, and twice as many rows."""
        w = RNG.exponential(size=400)
        for weights in (None, w):
            both = None if weights is None else np.tile(weights, 2)
            want = bandwidth.isj(np.concatenate([WAITS, -WAITS]), weights=both)
            got = on_host(backend, bandwidth.isj, 7 + WAITS, weights=weights, bounds=[(7, None)])
            np.testing.assert_allclose(got, want, rtol=1e-6)
            got = on_host(backend, bandwidth.isj, -WAITS, weights=weights, bounds=[(None, 0)])
            np.testing.assert_allclose(got, want, rtol=1e-6)

    def test_far_walls_and_long_periods_change_nothing(self, backend: Backend) -> None:
        want = bandwidth.isj(ANGLES)
        for options in ({"bounds": [(-500, 700)]}, {"periods": [1e3]}, {"bounds": [(-500, None)]}):
            np.testing.assert_allclose(on_host(backend, bandwidth.isj, ANGLES, **options), want, rtol=1e-5)

    def test_a_turn_changes_nothing(self) -> None:
        x = np.concatenate([ANGLES, 150 + 30 * RNG.normal(size=300)])
        want = bandwidth.isj(x, periods=[360])
        for turn in (90.0, 3601.0):
            np.testing.assert_allclose(bandwidth.isj((x + turn) % 360, periods=[360]), want, rtol=1e-6)

    def test_two_walls_are_half_of_a_circle(self) -> None:
        want = bandwidth.isj(np.concatenate([SHARES, -SHARES]), periods=[2.0])
        np.testing.assert_allclose(bandwidth.isj(SHARES, bounds=[(0, 1)]), want, rtol=1e-9)

    def test_even_data_have_none(self) -> None:
        for options in ({"bounds": [(0, 1)]},):
            with pytest.raises(ValueError, match="spread evenly between two bounds or around a period"):
                bandwidth.isj((np.arange(100) + 0.5) / 100, **options)


def without_each(X: np.ndarray, h: Any, w: Any, **domain: Any) -> np.ndarray:
    """Log densities at rows of fits to all the others."""
    keep = ~np.eye(len(X), dtype=bool)
    return np.array(
        [
            reference.in_domain(X[k], X[j : j + 1], h, weights=None if w is None else w[k], **domain).log[0]
            for j, k in enumerate(keep)
        ]
    )


DOMAIN: dict[str, Any] = {"bounds": [(0, None), None, (0, 1)], "periods": [None, 360.0, None]}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_scores_are_those_of_fits_without_each_row(backend: Backend, objective: Any, weighted: bool) -> None:
    """Of narrow and of wide bandwidths: rows on walls, doubles, one alone far from all others."""
    X = np.stack([WAITS, ANGLES % 360, SHARES], axis=1)[:30]
    X[0], X[1], X[2] = [0, 0, 0], [0, 360, 0], [40, 180, 1]
    w = RNG.uniform(0.1, 2, 30) if weighted else None
    share = np.full(30, 1 / 30) if w is None else w / w.sum()
    tried = np.array([[0.05, 3.0, 0.02], [0.3, 20.0, 0.1], [2.0, 500.0, 3.0]])
    want = []
    for h in tried:
        logs = without_each(X, h, w, **DOMAIN)
        if objective == "likelihood":
            want.append(share @ logs)
        else:
            wide = reference.in_domain(X, X, math.sqrt(2) * h, DOMAIN["bounds"], DOMAIN["periods"], w, 30)
            want.append(share @ (2 * np.exp(logs) - np.exp(wide.log)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthRangeWarning)
        found = bandwidth.cross_validate(
            backend.asarray(X), "kde", tried, objective, weights=backend.asarray(w), **DOMAIN
        )
    got = backend.asnumpy(found.scores)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * np.max(np.abs(want)))


def test_the_integral_of_the_square_is_that_of_a_wider_kernel() -> None:
    x, h = SHARES[:20], 0.2
    t, w = np.polynomial.legendre.leggauss(120)
    p = cukde.kde(x, 0.5 + 0.5 * t, h, bounds=[(0, 1)])
    mean = cukde.kde(x, x, math.sqrt(2) * h, bounds=[(0, 1)]).mean()
    np.testing.assert_allclose(0.5 * w @ p**2, mean, rtol=1e-12)


def test_the_default_grid_and_one_deviation_a_column() -> None:
    """A wall that cuts the density off asks for a far wider kernel with reflection than without."""
    found = bandwidth.cross_validate(WAITS, bounds=[(0, None)])
    assert found.bandwidth[0] > 1.5 * bandwidth.cross_validate(WAITS).bandwidth[0]
    X = np.stack([ANGLES % 360, SHARES], axis=1)[:100]
    domain: dict[str, Any] = {"bounds": [None, (0, 1)], "periods": [360, None]}
    found = bandwidth.cross_validate(X, per_dimension=True, **domain)
    assert found.score >= found.scores.max()
    near = found.bandwidth * np.exp(0.1 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthRangeWarning)
        assert (bandwidth.cross_validate(X, "kde", near, **domain).scores < found.score).all()


def test_factors_are_those_of_the_domains_density(backend: Backend) -> None:
    factors = backend.asnumpy(bandwidth.abramson(backend.asarray(SHARES[:50]), 0.1, bounds=[(0, 1)]))
    log_p = cukde.kde(SHARES[:50], SHARES[:50], 0.1, log=True, bounds=[(0, 1)])
    np.testing.assert_allclose(factors, np.exp(0.5 * (log_p.mean() - log_p)), rtol=1e-10)


def test_points_that_their_dtype_rounds_over_a_bound_count() -> None:
    x = np.linspace(0, 0.1, 40).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthRangeWarning)
        assert math.isfinite(bandwidth.cross_validate(x, "kde", [0.02], bounds=[(0, 0.1)]).score)
    assert bandwidth.scott(x, bounds=[(0, 0.1)]) == bandwidth.scott(x)


@pytest.mark.parametrize("rule", [*RULES, "isj", "cross_validate"])
def test_what_does_not_fit_is_refused(rule: str) -> None:
    f = getattr(bandwidth, rule)
    with pytest.raises(ValueError, match=r"X must lie within its bounds; \d+ of 400 rows have column 0 outside"):
        f(WAITS, bounds=[(0, 1)])
    with pytest.raises(ValueError, match="periods must have 1 entries"):
        f(WAITS, periods=[1, 2])
    if rule in RULES:
        with pytest.raises(ValueError, match=r"X must vary in every column.* but for whole periods: 0"):
            f(np.array([0.0, 360.0, 720.0]), periods=[360])


@pytest.mark.parametrize("method", ["sd", "laplace"])
def test_cross_validation_of_other_methods_names_a_rule(method: Any) -> None:
    with pytest.raises(ValueError, match=rf"must be None in cross_validate but .*write cukde.bandwidth.{method}\(X"):
        bandwidth.cross_validate(WAITS, method, None, "least_squares", bounds=[(0, None)])
