"""Section 6: estimates of few principal components have the errors that are found, and a small run."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.sources import cost_error, principal
from benchmarks.sources.estimates import KDE
from benchmarks.sources.importance import Draws
from tests import reference
from tests.benchmarks import untimed
from tests.benchmarks.test_sources_oracle import BANDWIDTHS, MIXTURE, NO_GPU, check_squared_error, ise_of_kernels, small


def exact_lifted(draws: Draws, h: float) -> float:
    X = draws.X.astype(np.float64)
    variances, axes = np.linalg.eigh(np.cov(X.T))
    kept, rest = axes[:, -4:], axes[:, :-4]
    centres = X.mean(axis=0) + (X - X.mean(axis=0)) @ kept @ kept.T
    return ise_of_kernels(centres, h * h * kept @ kept.T + (rest * variances[:-4]) @ rest.T)


@pytest.mark.parametrize("h", BANDWIDTHS)
def test_squared_error_is_that_of_the_sample(h: float) -> None:
    check_squared_error((functools.partial(principal.LiftedEstimate, KDE, 4), exact_lifted, 1.0), h)


def test_a_lifted_density_is_that_of_its_components_times_normals() -> None:
    draws, h = Draws.of(MIXTURE, 400, 200, 0), 0.4
    X, Y = draws.X.astype(np.float64), draws.of_oracle.astype(np.float64)
    variances, axes = np.linalg.eigh(np.cov(X.T))
    Z = (Y - X.mean(axis=0)) @ axes
    rest = np.exp(-0.5 * Z[:, :-8] ** 2 / variances[:-8]) / np.sqrt(2 * np.pi * variances[:-8])
    expected = reference.kde((X - X.mean(axis=0)) @ axes[:, -8:], Z[:, -8:], h) * rest.prod(axis=1)
    assert principal.lifted(KDE, 8, X, Y, h) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="k must be from 1 to 15"):
        principal.Principal.of(X, 16)


def test_a_small_study_of_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    found = small(monkeypatch, cost_error, _QUICK=(160, 480), _TEST_POINTS=(400, 400))
    (table,), (figure,) = found.tables, found.figures
    assert cost_error.SECTION.number == 6
    assert len(table.rows) == 3 * (1 + 5)
    assert all(row[-1] == NO_GPU and row[-2] == untimed.TIMES.median_ms for row in table.rows)
    assert len(figure.series) == 3 * 3
    assert {len(series.x) for series in figure.series} == {2}
    assert {row["shape"]["n"] for row in found.rows} == {160, 480, 120, 30}
    assert any("what no other beats" in text for text in found.findings)
    assert any(NO_GPU in text for text in found.findings)


def test_figures_have_rivals_of_the_largest_size_alone() -> None:
    points = []
    for n in (100, 1000):
        for k, variant in enumerate(cost_error._VARIANTS):
            found = SimpleNamespace(mise=SimpleNamespace(mean=k + 1 / n))
            points.append(cost_error._Point(n, "KDE", variant.name, found, {"cpu": "none", "gpu": 1.0 * n}))
    (figure,) = cost_error._figures(points, 10)
    whole, components, parts = figure.series
    assert whole.y == [100, 1000]
    assert components.y == parts.y == [1000, 1000]
    assert components.x == [1 + 1 / 1000, 2 + 1 / 1000]


def test_a_part_of_a_sample_draws_from_all_of_its_points() -> None:
    whole = Draws.of(MIXTURE, 200, 2_000, 0)
    part = whole.first(50)
    assert np.array_equal(part.X, whole.X[:50])
    assert np.bincount(part.rows, minlength=50).min() > 0
    assert part.rows.max() == 49
