"""The studies of methods and rules measure what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import cukde
from benchmarks.bandwidth import bench_rule_of_thumb as study, normal_mixtures
from benchmarks.bandwidth.estimates import Draws, Fitted, Method, methods
from benchmarks.bandwidth.squared_errors import ByPoints, OnGrid

METHODS = methods()


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
