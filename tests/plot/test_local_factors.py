"""Pictures of a density with the local factors of a selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import ndimage

import cukde
from cukde import bandwidth, plot
from tests import reference
from tests.conftest import Backend
from tests.private import named, plot_cells, plot_estimate, plot_regions

pytest.importorskip("matplotlib").use("Agg")

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.contour import QuadContourSet  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

RNG = np.random.default_rng(8)
PLANE = np.concatenate([RNG.standard_t(2, size=(150, 2)), RNG.normal(6, 0.3, size=(100, 2))])
LINE = np.ascontiguousarray(PLANE[:, 0])
W = RNG.exponential(size=250)


def selected(h: Any) -> bandwidth.Selection:
    """A selection of "abramson" with this bandwidth."""
    return bandwidth.Selection("abramson", np.asarray(h), 0.0, "", ("abramson",), np.array([h]), np.zeros(1))


def new() -> Axes:
    return Figure().subplots()


def levels_of(ax: Axes) -> np.ndarray:
    (found,) = [c for c in ax.collections if isinstance(c, QuadContourSet) and c.filled]
    return np.asarray(found.levels)


@pytest.mark.parametrize("w", [None, W], ids=["rows", "weights"])
def test_a_curve_is_the_density_within_its_band(backend: Backend, w: Any) -> None:
    n = backend.size(250, 60)
    x, w = LINE[-n:], None if w is None else w[-n:]
    ax = plot.density(backend.asarray(x), selected(0.4), weights=backend.asarray(w), points=41, resamples=40, ax=new())
    at, drawn = ax.lines[0].get_data()
    factors = reference.abramson(x, 0.4, 0.5, w)
    assert (at[0], at[-1]) == pytest.approx(((x - 1.2 * factors).min(), (x + 1.2 * factors).max()))
    np.testing.assert_allclose(drawn, np.exp(reference.local(x, at, 0.4, factors, w).log), rtol=1e-6, atol=1e-9)
    assert ax.get_legend().get_texts()[0].get_text() == "KDE, h = 0.4, local factors"
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    low, high = band[1:42], band[43:84][::-1]
    assert np.mean((low <= drawn) & (drawn <= high)) > 0.9
    # Deviations of resampled means of kernels, by the rows themselves.
    share = np.full(n, 1 / n) if w is None else w / w.sum()
    kernels = np.exp(-0.5 * ((at[:, None] - x) / (0.4 * factors)) ** 2) / (0.4 * factors * np.sqrt(2 * np.pi))
    deviation = np.sqrt((kernels - drawn[:, None]) ** 2 @ share**2)
    seen = drawn > 0.05 * drawn.max()
    np.testing.assert_allclose(((high - low) / (2 * 1.96 * deviation))[seen], 1, atol=0.45)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(2, 300), st.floats(-2, 1), st.booleans(), st.integers(0, 9))
def test_cells_have_the_density_of_their_rows(n: int, log_h: float, weighted: bool, seed: int) -> None:
    rng, h = np.random.default_rng(seed), 10**log_h
    x, w = rng.standard_t(2, size=(n, 1)), rng.exponential(size=n) if weighted else None
    data = plot_estimate(named("cpu"), x, w, selected(h), "kde")
    centres, shares, _, factors = plot_cells(data, h / 16)
    at = np.linspace(x.min() - h, x.max() + h, 50)
    rows = cukde.kde(x, at, h, weights=w, local_factors=data.factors)
    cells = cukde.kde(centres, at, h, weights=shares, local_factors=factors)
    assert abs(rows - cells).max() < 2e-3 * rows.max()


@pytest.mark.parametrize("h", [0.5, [0.4, 0.6], [[0.3, 0.1], [0.1, 0.2]]], ids=["number", "deviations", "covariance"])
@pytest.mark.parametrize("w", [None, W], ids=["rows", "weights"])
def test_levels_and_grid_are_of_the_density(h: Any, w: Any) -> None:
    ax = plot.contours(PLANE, selected(h), mass=[0.5, 0.9], weights=w, points=80, ax=new())
    want = cukde.hdr_threshold(PLANE, selected(h), [0.9, 0.5], weights=w)
    np.testing.assert_allclose(levels_of(ax)[:2], want, rtol=1e-3)
    data = plot_estimate(named("cpu"), PLANE, w, selected(h), "kde")
    found = plot_regions(data, [0.9], 80, 5000, 0)
    grid = np.stack(np.meshgrid(found.x, found.y), axis=-1)
    factors = reference.abramson(PLANE, h, 0.5, w)
    density = np.exp(reference.local(PLANE, grid.reshape(-1, 2), h, factors, w).log).reshape(found.density.shape)
    np.testing.assert_allclose(found.density, density, rtol=1e-4, atol=1e-9)
    border = np.concatenate([density[[0, -1]].ravel(), density[:, [0, -1]].ravel()])
    assert border.max() < found.levels[0]
    # The narrow group has more of the places than its share of the axis, 5.
    assert ((found.x > 5.4) & (found.x < 6.6)).sum() > 8
    # The places of the grid hold the region: no row above the level is without a place as high within a step.
    at_rows = np.exp(reference.local(PLANE, PLANE, h, factors, w).log)
    inside = ndimage.maximum_filter(density, 3) >= found.levels[0]
    i, j = (np.searchsorted(axis, PLANE[:, k]) for k, axis in ((0, found.x), (1, found.y)))
    kept = (i > 0) & (i < len(found.x)) & (j > 0) & (j < len(found.y)) & (at_rows >= found.levels[0])
    assert kept.sum() == (at_rows >= found.levels[0]).sum()
    assert inside[j[kept], i[kept]].all()


def test_pairs_are_marginals_with_the_factors_of_all_columns() -> None:
    X = np.column_stack([PLANE, RNG.normal(size=250)])
    grid = plot.pairs(X, selected([0.4, 0.5, 0.6]), mass=[0.5], points=30)
    factors = bandwidth.abramson(X, [0.4, 0.5, 0.6])
    of_pair = cukde.kde(X[:, [0, 2]], X[:, [0, 2]], [0.4, 0.6], local_factors=factors, leave_one_out=True)
    assert levels_of(grid[2, 0])[0] == pytest.approx(np.sort(of_pair)[::-1][124], rel=1e-3)
    at, p = grid[1, 1].lines[0].get_data()
    want = cukde.kde(X[:, 1], at, 0.5, local_factors=factors)
    np.testing.assert_allclose(p / p.max(), want / want.max(), rtol=1e-6, atol=1e-9)


def test_select_by_name_draws_what_it_selects() -> None:
    by_name, found = (plot.contours(PLANE, h, points=20, ax=new()) for h in ("select", bandwidth.select(PLANE)))
    np.testing.assert_array_equal(levels_of(by_name), levels_of(found))
    assert bandwidth.select(PLANE).method == "abramson"
