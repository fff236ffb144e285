"""The oracle study: integrals by closed forms, bounded weights, bands that cover, and a small run."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.sources import estimates, importance, oracle, oracle_study
from benchmarks.sources.estimates import FUSED, KDE, SD, SEPARATE
from benchmarks.sources.importance import Draws
from benchmarks.sources.oracle_mixture import Mixture
from benchmarks.sources.section import Outcome, Setting
from tests import reference
from tests.benchmarks import untimed

MIXTURE = Mixture.standardised()
D = MIXTURE.d
NO_GPU = "no GPU in this test"


def overlap(a: np.ndarray, b: np.ndarray, covariance: np.ndarray) -> float:
    """Mean of a normal density at the differences of two sets of points."""
    inverse, size = np.linalg.inv(covariance), np.linalg.slogdet(2 * np.pi * covariance)[1]
    u = a[:, None] - b
    return float(np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", u, inverse, u) - 0.5 * size).mean())


def ise_of_kernels(points: np.ndarray, covariance: np.ndarray) -> float:
    """Integrated squared error of the mean of normal densities about the points."""
    truth = np.diag(MIXTURE.variances)
    squares, products = overlap(points, points, 2 * covariance), overlap(points, MIXTURE.means, covariance + truth)
    return squares - 2 * products + overlap(MIXTURE.means, MIXTURE.means, 2 * truth)


def ise_of_laplace(X: np.ndarray, h: float) -> float:
    """The same of Laplace-corrected KDE: its kernel is K - t dK/dt, t = h^2, by the equation of heat."""
    truth, identity, t = np.diag(MIXTURE.variances), np.eye(D), h * h
    step = 0.01 * t
    squares = [overlap(X, X, (2 * t + k * step) * identity) for k in (-2, -1, 0, 1, 2)]
    products = [overlap(X, MIXTURE.means, (t + k * step) * identity + truth) for k in (-2, -1, 0, 1, 2)]
    first, second = np.array([1, -8, 0, 8, -1]) / (12 * step), np.array([-1, 16, -30, 16, -1]) / (12 * step**2)
    of_squares = squares[2] - 2 * t * (first @ squares) + t * t * (second @ squares)
    return float(of_squares - 2 * (products[2] - t * (first @ products)) + MIXTURE.roughness)


def exact_kde(draws: Draws, h: float) -> float:
    return ise_of_kernels(draws.X.astype(np.float64), h * h * np.eye(D))


def exact_sd(draws: Draws, h: float) -> float:
    X = draws.X.astype(np.float64)
    return ise_of_kernels(X + 0.5 * h * h * reference.score(X, X, h), h * h * np.eye(D))


def exact_laplace(draws: Draws, h: float) -> float:
    return ise_of_laplace(draws.X.astype(np.float64), h)


Case = tuple[Callable[[Any, float], importance.Fitted], Callable[[Draws, float], float], float]
CASES: dict[str, Case] = {
    "kde": (functools.partial(estimates.Estimate, KDE), exact_kde, 1.0),
    "sd": (functools.partial(estimates.Estimate, SD), exact_sd, 1.0),
    "laplace": (functools.partial(estimates.Estimate, FUSED), exact_laplace, 1.0 + D),
}


def check_squared_error(case: Case, h: float, signed: bool = False) -> None:
    """Of one sample of 200 points."""
    fit, exact, bound = case
    draws = Draws.of(MIXTURE, 200, 10_000, 1)
    fitted = fit(draws.X, h)
    found = importance.contributions(fitted, draws, MIXTURE)
    expected = exact(draws, h)
    assert abs(found.means[0] - expected) < 4 * found.errors[0]
    assert found.errors[0] < 0.1 * expected
    assert abs(found.mass - 1) < 4 * found.mass_error + 1e-5
    assert found.largest_weight <= 2 * bound * (1 + 1e-4)
    assert (found.means[2] > 0.05) == signed


BANDWIDTHS = [0.15, 0.5]  # kernels that stand alone, between which points of p fall, and wide ones


@pytest.mark.parametrize("h", BANDWIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_squared_error_is_that_of_the_sample(name: str, h: float) -> None:
    check_squared_error(CASES[name], h, signed=name == "laplace")


@pytest.mark.parametrize("laplace", [False, True])
def test_expected_error_of_a_mixture(laplace: bool) -> None:
    """By Parseval on a grid of the plane's frequencies, and of d = 16 by samples."""
    plane, n, h = Mixture(np.array([[-1.0, 0.5], [1.0, -0.5], [0.3, 0.9]]), np.array([0.3, 0.7])), 50, 0.4
    k = np.linspace(-20, 20, 201)
    u = np.stack(np.meshgrid(k, k), axis=-1)
    p = np.exp(1j * u @ plane.means.T).mean(axis=-1) * np.exp(-0.5 * (u * u) @ plane.variances)
    squares = h * h * (u * u).sum(axis=-1)
    kernel = np.exp(-0.5 * squares) * (1 + 0.5 * squares * laplace)
    integrand = abs(p) ** 2 * (1 - kernel) ** 2 + kernel**2 * (1 - abs(p) ** 2) / n
    expected = integrand.sum() * (k[1] - k[0]) ** 2 / (2 * math.pi) ** 2
    assert plane.expected_ise(n, h, laplace=laplace) == pytest.approx(expected, rel=1e-9)
    exact = exact_laplace if laplace else exact_kde
    of_samples = [exact(Draws.of(MIXTURE, 100, 2, seed), 0.5) for seed in range(10)]
    error = np.std(of_samples, ddof=1) / math.sqrt(10)
    assert abs(np.mean(of_samples) - MIXTURE.expected_ise(100, 0.5, laplace=laplace)) < 4 * error


def test_the_mixture_is_standardised_and_its_density_is_that_of_its_samples() -> None:
    X = MIXTURE.sample(20_000, np.random.default_rng(0))
    assert np.abs(X.mean(axis=0)).max() < 0.03
    assert np.abs(X.std(axis=0) - 1).max() < 0.03
    # The mean of p over samples is the integral of p^2.
    p = MIXTURE.density(X)
    assert abs(p.mean() - MIXTURE.roughness) < 4 * p.std() / math.sqrt(len(p))


def test_bands_cover() -> None:
    """Of a known mean, where samples differ by half as much as the points of one leave open; skewed as errors are."""
    rng, points, covered, width, trials = np.random.default_rng(0), 100, 0, 0.0, 100
    noise = 1 / math.sqrt(2 * points)
    for _ in range(trials):
        of_samples = rng.normal(1, noise / 2, 3)[:, None, None, None]
        (band,) = importance.bands(list(of_samples - 1 + rng.exponential(size=(3, 2, points, 1))))
        covered += band.low <= 1 <= band.high
        assert band.low < band.mean < band.high
        width += (band.high - band.low) / trials
    assert covered >= 90
    # Of the mean's own deviation, noise sqrt(5 / 12), the interval of a normal is 3.9 wide; this one is wider by 1.2.
    assert 3.9 < width / (noise * math.sqrt(5 / 12)) < 5.5


@pytest.mark.parametrize("method", [KDE, SD, FUSED, SEPARATE], ids=lambda method: method.name)
def test_an_estimate_that_is_off_is_not_timed(method: estimates.Method) -> None:
    draws = Draws.of(MIXTURE, 300, 100, 0)
    assert estimates.checked(method, draws.X, draws.of_oracle, 0.6) <= 3e-4
    off = method._replace(estimate=lambda X, Y, h: method.estimate(X, Y, 1.01 * h))
    with pytest.raises(ValueError, match="must be within"):
        estimates.checked(off, draws.X, draws.of_oracle, 0.6)


def small(monkeypatch: pytest.MonkeyPatch, section: Any, **sizes: Any) -> Outcome:
    """A section at sizes of a test, without its times; it comes back from JSON."""
    untimed.use(monkeypatch)
    for name, value in sizes.items():
        monkeypatch.setattr(section, name, value)
    outcome = section.SECTION.run(Setting(quick=True, no_gpu=NO_GPU))
    for table in outcome.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert json.loads(json.dumps(outcome.rows)) == outcome.rows
    return outcome


def near_the_rule(estimator: Any, samples: Any, low: float, high: float) -> tuple[float, Any]:
    h = math.sqrt(low * high)
    return h, [oracle_study.errors(estimator.estimate(X, oracle_study.GRID, h)) for X in samples]


@pytest.mark.long
def test_a_small_oracle_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_study, "minimising", near_the_rule)  # the search has a test of its own
    found = small(monkeypatch, oracle, _QUICK_16D=(200, 800), _QUICK_1D=(100, 400), _TEST_POINTS=(400, 400))
    sixteen, shared = found.tables
    assert {row[0] for row in shared.rows} == {1, 16}
    assert len({(row[0], row[1], row[3]) for row in shared.rows}) == len(shared.rows) / 3, "one bandwidth for all"
    assert [row[1] for row in sixteen.rows[::2]] == 2 * [KDE.name, SD.name, FUSED.name, SEPARATE.name]
    for row in sixteen.rows:
        exact = MIXTURE.expected_ise(row[0], row[3], laplace="Laplace" in row[1]) / MIXTURE.roughness
        assert row[1] == SD.name or row[4] == pytest.approx(exact, rel=0.1)
    assert oracle.SECTION.number == 4
    assert {(of["op"], of["shape"]["d"]) for of in found.rows} == {
        (op, d) for op in ("kde", "sd_kde", "laplace_kde") for d in (1, 16)
    }
    for of in found.rows:
        assert of["shape"]["d"] == 1 or of["minimising"]["mise"] < of["by_rule"]["mise"]
        assert of["rel_err_max"] < 1e-4
        assert ("peer" in of) == (of["op"] == "laplace_kde")
