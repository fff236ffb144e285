"""The studies of methods and rules measure what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import cukde
from benchmarks.bandwidth import bench_bias_order, bench_rule_of_thumb as study, normal_mixtures, real_sets
from benchmarks.bandwidth.estimates import Draws, Fitted, Method, methods
from benchmarks.bandwidth.squared_errors import ByPoints, OnGrid
from cukde.core import dispatch

METHODS = methods()
CPU = dispatch.named("cpu")


@pytest.mark.parametrize("oracle", normal_mixtures.MARRON_WAND, ids=lambda oracle: oracle.name)
def test_a_density_of_marron_and_wand(oracle: normal_mixtures.Mixture) -> None:
    """Integral, integrated square and moments, on a grid."""
    x = np.linspace(-9, 9, 2**15 + 1)
    p = oracle.density(x[:, None])
    assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-12)
    assert np.trapezoid(p * p, x) == pytest.approx(oracle.roughness, rel=1e-12)
    mean = np.trapezoid(p * x, x)
    deviation = math.sqrt(np.trapezoid(p * (x - mean) ** 2, x))
    X = oracle.sample(20_000, np.random.default_rng(0))
    assert X.mean() == pytest.approx(mean, abs=5 * deviation / math.sqrt(20_000))
    assert X.std() == pytest.approx(deviation, rel=0.05)


def test_peaks_of_marron_and_wand() -> None:
    """Shares, means and deviations that are easily got wrong, by hand."""
    of = {oracle.name: oracle for oracle in normal_mixtures.MARRON_WAND}
    assert len(of) == 15
    np.testing.assert_allclose(of["claw"].means[1:, 0], [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_allclose(of["asymmetric claw"].shares[1:], np.array([8, 4, 2, 1, 0.5]) / 31)
    np.testing.assert_allclose(of["asymmetric claw"].deviations[1:, 0], [0.4, 0.2, 0.1, 0.05, 0.025])
    np.testing.assert_allclose(of["smooth comb"].means[:, 0], np.array([-31, 17, 41, 53, 59, 62]) / 21)
    np.testing.assert_allclose(of["discrete comb"].means[:, 0], np.array([-15, -3, 9, 16, 18, 20]) / 7)


@pytest.mark.parametrize("d", [2, 3])
def test_families(d: int) -> None:
    """Densities in d dimensions integrate to 1 along the first axis and over a grid."""
    assert len({oracle.name for oracle in normal_mixtures.family(d)}) == len(
        normal_mixtures.BALLS + normal_mixtures.LINES
    )
    of = {oracle.name: oracle for oracle in normal_mixtures.family(d)}
    Y = np.random.default_rng(0).normal(size=(5, d))
    one = {oracle.name: oracle for oracle in normal_mixtures.MARRON_WAND}
    claw = of["claw, line"]
    rest = np.exp(-0.5 * (Y[:, 1:] / claw.deviations[0, 1]) ** 2) / claw.deviations[0, 1] / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(claw.density(Y), one["claw"].density(Y[:, :1]) * rest.prod(axis=1))
    radius = (Y**2).sum(axis=1)
    expected = (2 / 3) * np.exp(-radius / 2) + 1 / 3 * 10**d * np.exp(-50 * radius)
    np.testing.assert_allclose(of["kurtotic, balls"].density(Y), expected * (2 * math.pi) ** (-d / 2))


def _draws(n: int, m: int, d: int) -> Draws:
    rng = np.random.default_rng(1)
    return Draws(rng.integers(n, size=m), rng.standard_normal((m, d)), rng.exponential(size=m), rng.uniform(size=m))


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_squared_error_by_points_is_that_on_a_grid(method: Method) -> None:
    oracle = normal_mixtures.family(2)[3]
    X = oracle.sample(150, np.random.default_rng(0))
    fitted = Fitted(method, X, np.array([0.35, 0.4]))
    x = np.linspace(-6, 6, 161)
    Y = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    estimate, area = fitted.density(Y), (x[1] - x[0]) ** 2
    found = ByPoints(oracle, _draws(150, 20_000, 2), np.random.default_rng(2), np.float64, np)(fitted)
    expected = float(((estimate - oracle.density(Y)) ** 2).sum()) * area
    assert found.standard_error < 0.03 * expected
    assert found.ise == pytest.approx(expected, abs=4 * found.standard_error)
    assert found.negative_mass == pytest.approx(-float(estimate[estimate < 0].sum()) * area, abs=2e-3)
    assert found.mass == pytest.approx(1, abs=0.03)
    log_p = fitted.log_density(Y[:50])
    positive = estimate[:50] > 0
    np.testing.assert_allclose(log_p[positive], np.log(estimate[:50][positive]), rtol=1e-6)


def test_squared_error_on_a_grid_is_exact() -> None:
    """Of KDE in closed form: all its terms are normal densities."""
    oracle = normal_mixtures.MARRON_WAND[9]
    X, h = oracle.sample(60, np.random.default_rng(0)), 0.2
    found = OnGrid(oracle, np.float64, np)(Fitted(METHODS["kde"], X, np.array([h])))
    squares = cukde.kde(X, X, math.sqrt(2) * h).mean()
    expected = squares - 2 * oracle.smoothed(h).density(X).mean() + oracle.roughness
    assert found.ise == pytest.approx(expected, rel=1e-9)
    assert (found.negative_mass, found.standard_error) == (0, 0)


def test_rows_of_mixtures_and_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program writes what it says, and gains are differences of losses."""
    record = tmp_path / "run.json"
    command = ["x", "mixtures", "--sizes", "60", "--dimensions", "1", "2", "--only", "claw", "claw, line"]
    options = ["--draws", "2", "--points", "100", "--methods", "kde", "laplace", "abramson", "--record", str(record)]
    monkeypatch.setattr("sys.argv", command + options)
    study.main()
    first, second = json.loads(record.read_text())["rows"]
    assert (first["density"], first["shape"], first["draws"]) == ("claw", {"n": 60, "d": 1}, 2)
    assert second["shape"] == {"n": 60, "d": 2}
    results = first["results"]
    assert set(results) == {"kde", "laplace", "abramson", "select"}
    assert {"scott", "isj", "reference", "likelihood", "least_squares", "folds", "oracle_ise"} <= set(results["kde"])
    assert set(results["laplace"]) == {"reference", "least_squares", "oracle_ise"}
    assert sum(first["took"].values()) == 2
    gain = results["kde"]["likelihood"]["loss"] - results["abramson"]["folds"]["loss"]
    assert results["abramson"]["folds"]["gain"] == pytest.approx(gain, abs=2e-3)
    assert results["kde"]["oracle_ise"]["ise"] <= 1.3 * results["kde"]["reference"]["ise"]
    assert "loss" not in results["laplace"]["reference"]
    assert results["laplace"]["reference"]["negative_mass"] > 0


def test_a_run_without_time_says_what_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "run.json"
    monkeypatch.setattr("sys.argv", ["x", "real", "--only", "iris", "--budget", "0", "--record", str(record)])
    study.main()
    assert json.loads(record.read_text())["rows"] == [{"op": "left_out", "what": "iris, d=4, n=None: 0 of 10 draws"}]


def test_splits_of_sets() -> None:
    """Standardised by the fitted rows; no row is both fitted and scored."""
    rows = np.random.default_rng(0).normal(size=(100, 3)) * [1, 10, 100]
    sample = study.of_set(rows, 50, 3, 15, np.float64, CPU)
    assert (sample.X.shape, sample.Y.shape) == ((50, 3), (15, 3))
    np.testing.assert_allclose(sample.X.std(axis=0, ddof=1), 1)
    np.testing.assert_allclose(sample.X.mean(axis=0), 0, atol=1e-12)
    assert not set(map(tuple, sample.X.round(9))) & set(map(tuple, sample.Y.round(9)))


@pytest.mark.parametrize("each", real_sets.SETS, ids=lambda each: each.name)
def test_real_sets(each: real_sets.Set) -> None:
    X = each.rows()
    assert X.ndim == 2
    assert len(X) >= 150
    assert np.isfinite(X).all()
    assert len(np.unique(X, axis=0)) == len(X)
    np.testing.assert_array_equal(X, each.rows())


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("method", bench_bias_order.ORDERS)
def test_bias_has_the_order_of_theory(method: str, d: int) -> None:
    for truth in bench_bias_order.truths(d):
        bandwidths = bench_bias_order.BANDWIDTHS[1:4]
        bias = np.array([bench_bias_order.infinite(truth, method, h, CPU) for h in bandwidths])
        slope = bench_bias_order.slope(bandwidths, bias)
        assert slope == pytest.approx(bench_bias_order.ORDERS[method], abs=bench_bias_order.TOLERANCE)


def test_bias_of_kde_is_that_of_a_wider_normal() -> None:
    truth = next(bench_bias_order.truths(2))
    found = bench_bias_order.infinite(truth, "kde", 0.1, CPU)
    np.testing.assert_allclose(
        found, truth.density.smoothed(0.1).density(truth.queries) - truth.density.density(truth.queries), rtol=1e-6
    )


def test_sobol_points_are_of_the_density() -> None:
    *_, truth = bench_bias_order.truths(2)
    X, weights = bench_bias_order.sobol(truth.density, 2**10, 0)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights @ X, truth.density.shares @ truth.density.means, atol=1e-2)
