"""The oracle study measures what it says, by formulas that share nothing with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.sources import oracle_study
from docs.figures import oracle

KDE, _, LAPLACE = oracle_study.ESTIMATORS
MEANS, DEVIATIONS, SHARES = oracle_study.MEANS, oracle_study.DEVIATIONS, oracle_study.SHARES


def normal(u: Any, s: Any, derivative: int = 0) -> Any:
    """Density of N(0, s^2) at u, or its second or fourth derivative."""
    z = (u / s) ** 2
    factor = {0: 1.0, 2: (z - 1) / s**2, 4: (z * z - 6 * z + 3) / s**4}[derivative]
    return factor * np.exp(-0.5 * z) / (s * math.sqrt(2 * math.pi))


def kernel(u: Any, h: float, s: Any, laplace: bool) -> Any:
    """Kernel of bandwidth h convolved with N(0, s^2)."""
    wide = np.sqrt(h * h + s * s)
    return normal(u, wide) - (0.5 * h * h * normal(u, wide, 2) if laplace else 0.0)


def kernel_twice(u: Any, h: float, s: Any, laplace: bool) -> Any:
    """The same for the kernel convolved with itself."""
    wide = np.sqrt(2 * h * h + s * s)
    correction = h**4 / 4 * normal(u, wide, 4) - h * h * normal(u, wide, 2)
    return normal(u, wide) + (correction if laplace else 0.0)


BETWEEN = MEANS[:, None] - MEANS
TOGETHER = np.hypot(DEVIATIONS[:, None], DEVIATIONS)
ROUGHNESS = SHARES @ normal(BETWEEN, TOGETHER) @ SHARES


@pytest.mark.parametrize("estimator", [KDE, LAPLACE], ids=lambda estimator: estimator.name)
class TestSquaredError:
    def test_of_a_sample(self, estimator: oracle_study.Estimator) -> None:
        X, h, laplace = oracle_study.sample(80, 3), 0.25, estimator is LAPLACE
        squares = kernel_twice(X[:, None] - X, h, 0.0, laplace).mean()
        products = (kernel(X[:, None] - MEANS, h, DEVIATIONS, laplace) @ SHARES).mean()
        found = oracle_study.errors(estimator.estimate(X, oracle_study.GRID, h)).ise
        assert found == pytest.approx(squares - 2 * products + ROUGHNESS, rel=1e-9)

    @pytest.mark.parametrize(("n", "h"), [(1_000, 0.7), (1_000_000, 0.02)])
    def test_expected(self, estimator: oracle_study.Estimator, n: int, h: float) -> None:
        """Marron and Wand (1992), theorem 2.1, and its like for the corrected kernel."""
        laplace = estimator is LAPLACE
        twice, once = (SHARES @ f(BETWEEN, h, TOGETHER, laplace) @ SHARES for f in (kernel_twice, kernel))
        exact = kernel_twice(0.0, h, 0.0, laplace) / n + (1 - 1 / n) * twice - 2 * once + ROUGHNESS
        assert oracle_study.expected_ise(estimator.name, n, h) == pytest.approx(exact, rel=1e-8)


def test_the_grid_has_all_of_the_mass() -> None:
    assert np.trapezoid(oracle_study.density(oracle_study.GRID), oracle_study.GRID) == pytest.approx(1, abs=1e-12)
    for estimator in oracle_study.ESTIMATORS:
        estimate = estimator.estimate(oracle_study.sample(500, 0), oracle_study.GRID, 0.8)
        assert np.trapezoid(estimate, oracle_study.GRID) == pytest.approx(1, abs=1e-8)


def test_a_small_study(tmp_path: Path) -> None:
    rows = list(oracle_study.study((300, 1_500), seeds=2))
    fitted = list(oracle_study.slopes(rows))
    assert all(row["slope_mise"] < row["slope_miae"] < 0 for row in fitted)
    for row in rows:
        assert row["mise"] == pytest.approx(np.mean(row["ise"]))
        assert (row["negative_mass"] > 0) == (row["op"] == "laplace_kde")
    of_best, of_rule = rows[::2], rows[1::2]
    assert all(best["mise"] < rule["mise"] for best, rule in zip(of_best, of_rule, strict=True))
    for text in ("kde", "minimising", "n=300", "negative mass 0.00e+00", "mise expected"):
        assert text in oracle_study.line(rows[0])
    assert "beyond kde" in oracle_study.line(fitted[1])
    pytest.importorskip("matplotlib")
    oracle.draw(rows, fitted, tmp_path / "of" / "figure.png")
    assert (tmp_path / "of" / "figure.png").read_bytes().startswith(b"\x89PNG")
