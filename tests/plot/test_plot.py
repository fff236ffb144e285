"""Pictures: what their artists show, against values computed here, and how calls are refused."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde import plot
from cukde.plot import groups, pictures
from tests.conftest import Backend
from tests.private import plot_cells, plot_estimate, plot_numbers as numbers, plot_regions

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.collections import PolyCollection  # noqa: E402
from matplotlib.contour import QuadContourSet  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import StepPatch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS: dict[str, Any] = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}
RULES: dict[str, Any] = {"kde": cukde.bandwidth.silverman, "sd": cukde.bandwidth.sd, "laplace": cukde.bandwidth.laplace}
RNG = np.random.default_rng(4)
LINE = np.concatenate([RNG.normal(size=150), RNG.normal(4, 0.5, size=50)])
PLANE = RNG.normal(size=(300, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
WEIGHTS = RNG.exponential(size=200)


def new() -> Axes:
    return Figure().subplots()


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def band_of(ax: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end of the band, by the vertices of its polygon."""
    (band,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    vertices = band.get_paths()[0].vertices[:, 1]
    n = len(ax.lines[0].get_xdata())
    return vertices[1 : n + 1], vertices[n + 2 : 2 * n + 2][::-1]


def test_examples_of_the_documentation() -> None:
    done = doctest.testmod(pictures)
    assert done.failed == 0
    assert done.attempted > 10


def test_code_of_the_page_draws_its_pictures() -> None:
    page = (ROOT / "docs/plots.md").read_text(encoding="utf-8")
    assert all(f"cukde.plot.{name}(" in page for name in plot.__all__)
    shown = re.findall(r"^!\[.+\]\((.+)\)$", page, re.MULTILINE)
    assert shown == re.findall(r'\.savefig\("(.+)"\)', page)
    assert len(shown) > 4


# --- density -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "dtype"), [("kde", "float32"), ("sd", "float64"), ("laplace", "float64")])
def test_the_curve_is_the_density(backend: Backend, method: Any, dtype: str) -> None:
    X = LINE[: backend.size(200, 20)].astype(dtype)
    ax = plot.density(backend.asarray(X), method=method, points=9, band=None, ax=new())
    x, p = ax.lines[0].get_data()
    h = float(RULES[method](X)[0])
    np.testing.assert_allclose(x, np.linspace(float(X.min()) - 3 * h, float(X.max()) + 3 * h, 9), rtol=1e-12)
    want = FUNCTIONS[method](X.astype(np.float64), x, h)
    np.testing.assert_allclose(p, want, rtol=1e-6, atol=1e-7)
    assert texts(ax)[0].endswith(f"h = {h:.3g}")


def test_the_rug_marks_the_rows(backend: Backend) -> None:
    ax = plot.density(backend.asarray(LINE), 0.3, band=None, points=9, ax=new())
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), LINE)
    assert texts(ax)[1] == "200 rows"


def test_a_rug_of_many_rows_is_thinned_and_says_so() -> None:
    X = np.arange(3000.0)
    shown = [plot.density(X, 50.0, band=None, points=9, seed=seed, ax=new()) for seed in (1, 1, 2)]
    first, again, other = (ax.lines[1].get_xdata() for ax in shown)
    assert len(first) == len(set(first)) == 1000
    assert set(first) <= set(X)
    np.testing.assert_array_equal(first, again)
    assert set(first) != set(other)
    assert texts(shown[0])[1] == "1,000 of 3,000 rows, drawn at random"


@pytest.mark.parametrize("method", ["kde", "sd"])
def test_the_band_is_made_of_resampled_weights(backend: Backend, method: Any) -> None:
    """Of rows in cells of their own, whose counts are those of the seed's stream."""
    X, h, at = np.array([0.1, 1.3, 1.9, 3.0, 0.7]), 0.8, np.array([-1.0, 1.0, 3.0])
    options: dict[str, Any] = {"band": 0.5, "resamples": 3, "points": 3, "limits": (-1, 3), "rug": False, "seed": 5}
    low, high = band_of(plot.density(backend.asarray(X), h, method=method, ax=new(), **options))
    counts = np.random.default_rng([5, 0]).multinomial(5, np.full(5, 0.2), size=3)
    assert len(np.unique(counts)) > 1
    points = np.sort(X)
    each = []
    for count in counts:
        phi = np.exp(-((points[:, None] - points) ** 2) / (2 * h * h)) * count
        moved = (points + phi @ points / phi.sum(axis=1)) / 2 if method == "sd" else points
        each.append(np.exp(-((at[:, None] - moved) ** 2) / (2 * h * h)) @ count / (5 * h * np.sqrt(2 * np.pi)))
    np.testing.assert_allclose([low, high], np.percentile(each, [25, 75], axis=0), rtol=1e-9)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["rows", "weights"])
@pytest.mark.parametrize("method", FUNCTIONS)
def test_the_band_is_that_of_resampled_rows(method: Any, weights: Any) -> None:
    """Against each row drawn anew, by one call a resample, from the same law but another stream."""
    options: dict[str, Any] = {"band": 0.8, "resamples": 200, "points": 5, "limits": (-2, 5), "rug": False}
    ax = plot.density(LINE, 0.5, method=method, weights=weights, ax=new(), **options)
    low, high = band_of(ax)
    at, p = ax.lines[0].get_data()
    counts = np.random.default_rng(9).multinomial(len(LINE), np.full(len(LINE), 1 / len(LINE)), size=200)
    each = np.array([FUNCTIONS[method](LINE, at, 0.5, weights=c * (1 if weights is None else weights)) for c in counts])
    want = np.percentile(each, [10, 90], axis=0)
    # The percentile 10 of r numbers from a normal is off by a standard error of 1.7 deviations over sqrt(r).
    error = 4 * 1.7 * each.std(axis=0) * np.sqrt(2 / 200)
    assert (abs(low - want[0]) < error).all()
    assert (abs(high - want[1]) < error).all()
    assert (low < p).all()
    assert (p < high).all()


@pytest.mark.parametrize("law", ["random", "of the value"])
def test_the_band_is_as_wide_as_estimates_vary(law: str) -> None:
    at, rng = np.linspace(-1, 3, 5), np.random.default_rng(5)

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=1000)
        return x, np.exp(x) if law == "of the value" else rng.exponential(size=1000)

    deviation = np.std([cukde.kde(x, at, 0.3, weights=w) for x, w in (drawn() for _ in range(300))], axis=0)
    options: dict[str, Any] = {"resamples": 200, "points": 5, "limits": (-1, 3), "rug": False}
    bands = [band_of(plot.density(x, 0.3, weights=w, ax=new(), **options)) for x, w in (drawn() for _ in range(10))]
    width = np.mean([high - low for low, high in bands], axis=0)
    np.testing.assert_allclose(width, 2 * 1.96 * deviation, rtol=0.4)


@settings(max_examples=10, deadline=None)
@given(st.integers(2, 400), st.floats(-3, 2), st.floats(-1e3, 1e3), st.booleans(), st.integers(0, 9))
def test_cells_have_the_density_of_their_rows(n: int, log_h: float, offset: float, weighted: bool, seed: int) -> None:
    rng, h = np.random.default_rng(seed), 10**log_h
    X, w = rng.normal(size=n) + offset, rng.exponential(size=n) if weighted else None
    centres, shares, _, _ = plot_cells(_sample(X, w, h), h / 16)
    at = np.linspace(X.min() - h, X.max() + h, 50)
    rows, cells = cukde.kde(X, at, h, weights=w), cukde.kde(centres, at, h, weights=shares)
    # Cells keep their means: what is left is half the square of half a cell, 1/32, times the kernel's curvature.
    assert abs(rows - cells).max() < 5e-4 * rows.max()
    assert len(centres) <= n


def _sample(X: np.ndarray, w: Any, h: float) -> numbers.Estimate:
    rows = groups.rows(X, [], None, None, w, False)
    return plot_estimate(rows.backend, rows.groups[0].X, rows.groups[0].weights, h, "kde")


def test_blocks_of_resamples_are_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = band_of(plot.density(LINE, 0.4, resamples=30, points=9, ax=new()))
    monkeypatch.setattr(numbers, "_ENTRIES", 1000)
    np.testing.assert_array_equal(whole, band_of(plot.density(LINE, 0.4, resamples=30, points=9, ax=new())))


def test_the_band_is_that_of_its_seed() -> None:
    def drawn(seed: int, rug: bool = True) -> np.ndarray:
        return np.array(band_of(plot.density(LINE, 0.4, resamples=20, points=9, seed=seed, rug=rug, ax=new())))

    np.testing.assert_array_equal(drawn(1), drawn(1, rug=False))
    assert (drawn(1) != drawn(2)).any()


@pytest.mark.parametrize("h", [0.3, np.array([0.3]), np.array([[0.09]])], ids=["number", "deviation", "covariance"])
def test_forms_of_the_bandwidth(h: Any) -> None:
    ax = plot.density(LINE, h, points=20, resamples=5, limits=(-1, 1), rug=False, ax=new())
    np.testing.assert_allclose(ax.lines[0].get_ydata(), cukde.kde(LINE, np.linspace(-1, 1, 20), 0.3), rtol=1e-12)


def test_rows_of_no_weight_are_left_out() -> None:
    w = (LINE < 2).astype(float)
    ax = plot.density(LINE, weights=w, points=9, band=None, ax=new())
    alone = plot.density(LINE[LINE < 2], points=9, band=None, ax=new())
    for mine, other in zip(ax.lines, alone.lines, strict=True):
        np.testing.assert_allclose(mine.get_xydata(), other.get_xydata(), rtol=1e-12)


def test_curves_on_the_same_axes_differ() -> None:
    ax = new()
    for k in range(3):
        assert plot.density(LINE + k, 0.4, label=f"no. {k}", resamples=5, points=9, ax=ax) is ax
    curves = [line for line in ax.lines if line.get_marker() != "|"]
    assert len({line.get_color() for line in curves}) == len({line.get_linestyle() for line in curves}) == 3
    rugs = [line.get_color() for line in ax.lines if line.get_marker() == "|"]
    assert rugs == [line.get_color() for line in curves]
    assert texts(ax).count("95% bootstrap band (variability, not bias)") == 1
    assert {"no. 0", "no. 1", "no. 2"} < set(texts(ax))
    low, high = ax.get_ylim()
    assert low == 0
    assert high > max(line.get_ydata().max() for line in curves)


def test_names_come_from_the_data_frame_or_stay() -> None:
    ax = plot.density(pd.Series(LINE, name="bill length"), points=9, band=None, ax=new())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bill length", "density (per unit of bill length)")
    ax = new()
    ax.set_xlabel("mine")
    assert plot.density(pd.DataFrame({"a": LINE}), points=9, band=None, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("mine", "density (per unit of mine)")
    assert plot.density(LINE, points=9, band=None, ax=new()).get_xlabel() == "x"


# --- contours ------------------------------------------------------------------------------------------------


def filled(ax: Axes) -> QuadContourSet:
    (found,) = [c for c in ax.collections if isinstance(c, QuadContourSet) and c.filled]
    return found


@pytest.mark.parametrize(
    ("method", "h"),
    [("kde", None), ("kde", np.array([[0.2, 0.05], [0.05, 0.2]])), ("sd", np.array([0.4, 0.5])), ("laplace", 0.6)],
    ids=["rule", "covariance", "sd", "laplace"],
)
def test_levels_are_quantiles_of_the_density_at_the_rows(backend: Backend, method: Any, h: Any) -> None:
    X = PLANE[: backend.size(300, 40)]
    ax = plot.contours(backend.asarray(X), h, method=method, mass=[0.25, 0.9], points=5, ax=new())
    p = np.sort(FUNCTIONS[method](X, X, RULES[method](X) if h is None else h, leave_one_out=True))[::-1]
    want = [p[int(0.9 * len(X)) - 1], p[int(0.25 * len(X)) - 1]]
    np.testing.assert_allclose(filled(ax).levels[:2], want, rtol=3e-4)
    assert texts(ax)[:2] == ["90% of the rows", "25% of the rows"]


def test_the_grid_holds_the_density_and_the_regions() -> None:
    X = RNG.normal(size=(20_000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    of = _sample(X, None, 0.12)
    found = plot_regions(of, [0.95, 0.5], 40, 5000, 0)
    at = np.array([[found.x[3], found.y[30]], [found.x[20], found.y[21]]])
    drawn, allowed = [found.density[30, 3], found.density[21, 20]], 1e-6 * found.density.max()
    np.testing.assert_allclose(drawn, cukde.kde(X, at, 0.12), rtol=3e-5, atol=allowed)
    border = np.concatenate([found.density[[0, -1]].ravel(), found.density[:, [0, -1]].ravel()])
    assert border.max() < found.levels[0] < found.levels[1] < found.density.max()
    # The share of the estimate in a region, by its integral over the grid: the estimate is wider than the rows.
    cell = (found.x[1] - found.x[0]) * (found.y[1] - found.y[0])
    held = [found.density[found.density >= level].sum() * cell for level in found.levels]
    np.testing.assert_allclose(held, [0.95, 0.5], atol=0.02)


def test_outliers_do_not_coarsen_the_grid() -> None:
    far = np.concatenate([PLANE, [[1e4, -1e4]]])
    found = plot_regions(_sample(far, None, 0.4), [0.9], 20, 5000, 0)
    assert found.x[-1] < 10
    assert found.y[0] > -10


def test_rows_outside_are_dotted() -> None:
    ax = plot.contours(PLANE, 0.4, mass=0.9, points=20, ax=new())
    (dots,) = [line for line in ax.lines if len(line.get_xdata())]
    p = cukde.kde(PLANE, PLANE, 0.4)
    want = PLANE[p < np.sort(p)[::-1][269]]
    np.testing.assert_array_equal(dots.get_xydata(), want)
    assert texts(ax)[-1] == "30 rows outside"
    assert not plot.contours(PLANE, 0.4, outside=False, points=9, ax=new()).lines


def test_contours_of_a_huge_bandwidth() -> None:
    """Densities of all rows are one number, but for rounding."""
    for h in (1e19, 1e40):
        plot.contours(PLANE[:3], h, points=9, ax=new())


def test_contours_of_one_row_that_counts() -> None:
    """Without its kernel no other is left beside it, but for rounding."""
    plot.contours(PLANE[:3], 0.4, weights=[1.0, 3e38, 1.0], points=9, ax=new())


def test_what_is_drawn_of_many_rows_is_said() -> None:
    X = RNG.normal(size=(3000, 2))
    ax = plot.contours(X, 0.3, mass=0.2, subsample=2000, points=5, ax=new())
    assert texts(ax)[-1] == "1,000 of 1,600 rows outside, drawn at random, of 2,000 drawn from 3,000"
    (dots,) = [line for line in ax.lines if len(line.get_xdata())]
    assert len(np.unique(dots.get_xydata(), axis=0)) == 1000
    again = plot.contours(X, 0.3, mass=0.2, subsample=2000, points=5, ax=new())
    np.testing.assert_array_equal(filled(ax).levels, filled(again).levels)


def test_weights_move_the_levels() -> None:
    w = (PLANE[:, 0] > 0).astype(float)
    ax = plot.contours(PLANE, 0.4, weights=w, points=9, ax=new())
    alone = plot.contours(PLANE[PLANE[:, 0] > 0], 0.4, points=9, ax=new())
    np.testing.assert_allclose(filled(ax).levels, filled(alone).levels, rtol=1e-5)


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.repeat(PLANE[:4], 5, axis=0)], ids=["one point", "few points"])
def test_ties_of_levels(X: np.ndarray) -> None:
    ax = plot.contours(X, 0.4, points=9, ax=new())
    assert (np.diff(filled(ax).levels) > 0).all()


# --- pairs ---------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame({"a": PLANE[:, 0], "b": PLANE[:, 1], "kind": ["x"] * 300, "c": RNG.exponential(size=300)})
THREE = TABLE[["a", "b", "c"]].to_numpy()


def test_pairs_are_the_pictures_of_one_and_two_columns(backend: Backend) -> None:
    X = THREE[: backend.size(300, 20)]
    axes = plot.pairs(backend.asarray(X), points=5, ax=Figure().subplots(3, 3))
    for k in range(3):
        x, p = axes[k, k].lines[0].get_data()
        np.testing.assert_allclose(p, cukde.kde(X[:, k], x, cukde.bandwidth.silverman(X[:, k])), rtol=1e-6, atol=1e-9)
    taus = cukde.kendall_matrix(X)
    for i in range(3):
        for j in range(i):
            pair = X[:, [j, i]]
            p = np.sort(cukde.kde(pair, pair, cukde.bandwidth.silverman(pair), leave_one_out=True))
            assert filled(axes[i, j]).levels[0] == pytest.approx(p[int(0.05 * len(X))], rel=3e-4)
            (text,) = axes[j, i].texts
            assert text.get_text() == f"$\\tau = {taus[i, j]:.2f}$"
            assert axes[i, j].get_xlim() == axes[j, j].get_xlim() == axes[2, j].get_xlim()


@pytest.mark.parametrize("h", [0.5, np.array([0.3, 0.4, 0.5]), np.diag([0.09, 0.16, 0.25]) + 0.01])
def test_panels_of_a_given_bandwidth_are_marginals(h: Any) -> None:
    axes = plot.pairs(THREE, h, points=5, tau=False, ax=Figure().subplots(3, 3))
    covariance = np.diag(np.broadcast_to(h, 3) ** 2.0) if np.ndim(h) < 2 else h
    x, p = axes[2, 2].lines[0].get_data()
    np.testing.assert_allclose(p, cukde.kde(THREE[:, 2], x, covariance[2:, 2:]), rtol=1e-9, atol=1e-12)
    pair = THREE[:, [0, 2]]
    p = np.sort(cukde.kde(pair, pair, covariance[np.ix_([0, 2], [0, 2])], leave_one_out=True))
    assert filled(axes[2, 0]).levels[0] == pytest.approx(p[15], rel=3e-4)
    assert not any(ax.texts for ax in axes.flat)


@pytest.mark.parametrize(
    ("X", "columns", "names"),
    [
        (TABLE, ["c", "a"], ["c", "a"]),
        (TABLE, [0, "c"], ["a", "c"]),
        (TABLE[["a", "b"]], None, ["a", "b"]),
        (THREE, [2, -3], ["x2", "x0"]),
        (THREE[:, :2], None, ["x0", "x1"]),
    ],
)
def test_columns_and_their_names(X: Any, columns: Any, names: list[str]) -> None:
    axes = plot.pairs(X, columns=columns, points=5, ax=Figure().subplots(2, 2))
    assert [ax.get_xlabel() for ax in axes[-1]] == names
    assert axes[1, 0].get_ylabel() == names[1]
    data = TABLE if isinstance(X, pd.DataFrame) else pd.DataFrame(THREE, columns=["x0", "x1", "x2"])
    x, p = axes[1, 1].lines[0].get_data()
    column = data[names[1]].to_numpy()
    np.testing.assert_allclose(p, cukde.kde(column, x, cukde.bandwidth.silverman(column)), rtol=1e-6, atol=1e-9)


def test_axes_of_pairs_hold_the_regions_and_most_rows_but_no_outliers() -> None:
    scales = np.array([1.0, 30.0])
    X = np.concatenate([PLANE, [[1e4, -1e4]]]) * scales
    axes = plot.pairs(X, 0.4 * scales, points=30, tau=False, ax=Figure().subplots(2, 2))
    ax = axes[1, 0]
    outline = np.concatenate([path.vertices for path in filled(ax).get_paths()])
    ends = np.array([ax.get_xlim(), ax.get_ylim()])
    assert (ends[:, 0] < outline.min(axis=0)).all()
    assert (outline.max(axis=0) < ends[:, 1]).all()
    assert (((ends[:, 0] < X[:-1]) & (X[:-1] < ends[:, 1])).mean(axis=0) > 0.98).all()
    assert (ends[:, 1] - ends[:, 0] < 20 * scales).all()


def test_labels_and_weights_of_pairs() -> None:
    axes = plot.pairs(THREE[:, :2], names=["one", "two"], weights=WEIGHTS[:1].repeat(300), points=5)
    assert [ax.get_xlabel() for ax in axes[-1]] == ["one", "two"]
    assert not axes[0, 1].texts
    legend = axes[0, 0].figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [f"{m}% of the rows" for m in (95, 80, 50)]
    pyplot.close(axes[0, 0].figure)


# --- anomalies -----------------------------------------------------------------------------------------------


def counts_of(ax: Axes) -> list[np.ndarray]:
    return [p.get_data().values for p in ax.patches if isinstance(p, StepPatch) and not p.get_fill()]


def threshold_of(ax: Axes) -> float:
    return float(ax.lines[-1].get_xdata()[0])


def test_the_histogram_counts_and_the_threshold_is_marked(backend: Backend) -> None:
    log_p = np.log(RNG.exponential(size=500))
    ax = plot.anomalies(backend.asarray(log_p), bins=17, quantile=0.02, ax=new())
    np.testing.assert_array_equal(counts_of(ax)[0], np.histogram(log_p, 17)[0])
    assert threshold_of(ax) == np.sort(log_p)[10]
    assert texts(ax)[1].endswith(": 10 of 500 rows below")


def test_a_threshold_as_it_is_given() -> None:
    ax = plot.anomalies([-3.0, -2.0, -2.0, -1.0], threshold=-2, ax=new())
    assert threshold_of(ax) == -2
    assert texts(ax)[1] == "threshold -2: 1 of 4 rows below"


def test_five_in_a_hundred_without_a_threshold() -> None:
    assert texts(plot.anomalies(np.arange(200.0), ax=new()))[1] == "threshold 10: 10 of 200 rows below"


def test_kinds_have_histograms_of_their_own(backend: Backend) -> None:
    log_p, kind = RNG.normal(size=100), np.arange(100) % 3 == 0
    ax = plot.anomalies(backend.asarray(log_p), hue=backend.asarray(kind), bins=9, log_counts=True, ax=new())
    edges = np.linspace(log_p.min(), log_p.max(), 10)
    for found, want in zip(counts_of(ax), (log_p[~kind], log_p[kind]), strict=True):
        np.testing.assert_array_equal(found, np.histogram(want, edges)[0])
    assert texts(ax)[:2] == ["False: 66 rows", "True: 34 rows"]
    assert ax.get_yscale() == "log"


def test_rows_without_density_are_below_and_said() -> None:
    ax = plot.anomalies([-np.inf, -np.inf, -2.0, -1.0], threshold=-1.5, ax=new())
    assert texts(ax)[1] == "threshold -1.5: 3 of 4 rows below, 2 of them at -inf"
    assert counts_of(ax)[0].sum() == 2


def test_bins_follow_freedman_and_diaconis() -> None:
    values = RNG.normal(size=4000)
    first, third = np.percentile(values, [25, 75])
    want = np.ceil(np.ptp(values) / (2 * (third - first) / 4000 ** (1 / 3)))
    assert len(counts_of(plot.anomalies(values, ax=new()))[0]) == want
    assert len(counts_of(plot.anomalies([3.0, 3.0], ax=new()))[0]) == 10


# --- axes, settings, Matplotlib ------------------------------------------------------------------------------

CALLS: dict[str, Any] = {
    "density": lambda **options: plot.density(LINE, points=9, resamples=3, **options),
    "contours": lambda **options: plot.contours(PLANE, points=9, **options),
    "anomalies": lambda **options: plot.anomalies(LINE, **options),
    "pairs": lambda ax=None: plot.pairs(PLANE, points=9, ax=None if ax is None else ax.figure.subplots(2, 2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_axes_are_made_where_none_are_given_and_nothing_else_changes(name: str) -> None:
    settings_before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    CALLS[name](ax=new())
    assert pyplot.get_fignums() == figures
    made = CALLS[name]()
    figure = np.ravel(made)[0].figure
    assert pyplot.get_fignums() == [*figures, figure.number]
    assert isinstance(np.ravel(made)[0], Axes)
    pyplot.close(figure)
    assert dict(matplotlib.rcParams) == settings_before


@pytest.mark.parametrize("name", CALLS)
def test_pictures_are_written(name: str, tmp_path: Any) -> None:
    figure = np.ravel(CALLS[name]())[0].figure
    figure.savefig(tmp_path / "a.png", dpi=40)  # what draws may warn, and warnings are errors here
    pyplot.close(figure)
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("name", CALLS)
def test_without_matplotlib(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'matplotlib>=3.8'"):
        CALLS[name]()


def test_the_import_loads_no_matplotlib() -> None:
    code = "import sys, cukde; cukde.plot.density; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


# --- errors --------------------------------------------------------------------------------------------------

_POLAR = Figure().add_subplot(projection="polar")


class OnGpu:
    __cuda_array_interface__ = None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot.density(PLANE), ValueError, r"1 column for cukde\.plot\.density; got 2.*contours"),
        (lambda: plot.contours(LINE), ValueError, r"2 columns for cukde\.plot\.contours; got 1.*density"),
        (lambda: plot.pairs(LINE), ValueError, r"2 to 16 columns for cukde\.plot\.pairs; got 1"),
        (lambda: plot.pairs(np.zeros((9, 17))), ValueError, "got 17: write columns="),
        (lambda: plot.density([1.0]), ValueError, r"^X\b.*2.*1"),
        (
            lambda: plot.density([1.0, 2.0], weights=[1, 0]),
            ValueError,
            r"^X\b.*2.*1",
        ),
        (lambda: plot.density([1.0, np.nan]), ValueError, r"^X\b.*2.*1"),
        (lambda: plot.density([1.0, 2.0, np.inf]), ValueError, r"^X\b"),
        (lambda: plot.density([1.0, 1.0]), ValueError, r"^X\b.*0"),
        (lambda: plot.density([1.0, 2.0], weights=OnGpu()), TypeError, r"^weights\b"),
        (lambda: plot.density(LINE, -1.0), ValueError, r"^h\b"),
        (lambda: plot.density(LINE, [[-1.0]]), ValueError, r"^h\b"),
        (lambda: plot.density(LINE * 1e110), ValueError, r"at most 1e\+100 in size to be drawn"),
        (lambda: plot.density(LINE + 1e17, 0.1), ValueError, "subtract an offset"),
        (lambda: plot.density(LINE, method="best"), ValueError, r"^method\b.*'kde'.*'sd'.*'laplace'"),
        (lambda: plot.density(LINE, ax="left"), TypeError, "ax must be a Matplotlib Axes.*got str"),
        (lambda: plot.density(LINE, ax=_POLAR), ValueError, "got those of projection 'polar'"),
        (lambda: plot.density(LINE, band=1.0), ValueError, "band must lie between 0 and 1, as 0.95; got 1"),
        (lambda: plot.density(LINE, band=95), ValueError, r"^band\b.*0.*1"),
        (lambda: plot.density(LINE, band="no"), TypeError, "band must be a number"),
        (lambda: plot.density(LINE, resamples=1), ValueError, "resamples must be from 2"),
        (lambda: plot.density(LINE, points=2.5), TypeError, "points must be an integer"),
        (lambda: plot.density(LINE, seed=-1), ValueError, "seed must be from 0"),
        (lambda: plot.density(LINE, rug="yes"), ValueError, r"^rug\b"),
        (lambda: plot.density(LINE, limits=(2, 1)), ValueError, "a lower and then a higher"),
        (lambda: plot.density(LINE, limits=3), ValueError, "limits must be a pair"),
        (lambda: plot.density(LINE, label=3), TypeError, "label must be text"),
        (lambda: plot.contours(PLANE, mass=1.2), ValueError, r"^mass\b.*0.*1"),
        (lambda: plot.contours(PLANE, mass=[]), ValueError, "mass must be 1 to 8 numbers"),
        (lambda: plot.contours(PLANE, ax=3), TypeError, r"^ax\b"),
        (lambda: plot.pairs(PLANE, ax=[1, 2]), ValueError, r"ax must have shape \(2, 2\).*got \(2,\)"),
        (lambda: plot.pairs(PLANE, ax=[[1, 2], [3, 4]]), TypeError, r"^ax\b"),
        (lambda: plot.pairs(PLANE, names=["a"]), ValueError, "names must be 2"),
        (lambda: plot.pairs(PLANE, names="ab"), TypeError, "names must be a list of text"),
        (
            lambda: plot.pairs(PLANE, columns=[0, 2]),
            ValueError,
            "columns must hold columns of X, which has columns 0 to 1; got 2",
        ),
        (
            lambda: plot.pairs(PLANE, columns=[0, 0]),
            ValueError,
            "columns must name each column once; got column 0 twice",
        ),
        (lambda: plot.pairs(PLANE, columns="ab"), TypeError, "columns must be a list"),
        (
            lambda: plot.pairs(TABLE, columns=["a", "d"]),
            ValueError,
            "has none called 'd'; it has the columns 'a', 'b', 'kind', 'c'",
        ),
        (lambda: plot.pairs(TABLE), TypeError, r"^X\b"),
        (lambda: plot.anomalies([]), ValueError, r"shape \(n,\) with at least one row; got \(0,\)"),
        (lambda: plot.anomalies([0.0, np.inf]), ValueError, "1 of 2 are inf"),
        (lambda: plot.anomalies([-np.inf, np.nan]), ValueError, "all are -inf or NaN"),
        (lambda: plot.anomalies([1e200, 0]), ValueError, "to be drawn"),
        (lambda: plot.anomalies(LINE, threshold=1, quantile=0.1), ValueError, "must not both be given"),
        (lambda: plot.anomalies(LINE, quantile=0), ValueError, r"^quantile\b.*0.*1"),
        (lambda: plot.anomalies(LINE, threshold=np.inf), ValueError, "threshold must be finite"),
        (lambda: plot.anomalies(LINE, hue=[1, 2]), ValueError, r"^hue\b"),
        (lambda: plot.anomalies(LINE, hue=range(200)), ValueError, r"^hue\b.*1.*7"),
        (lambda: plot.anomalies([1, 2], hue=np.array(["a", 1], object)), TypeError, "all of one kind"),
        (lambda: plot.anomalies(LINE, bins=0), ValueError, r"^bins\b.*1"),
    ],
)
def test_bad_arguments_are_refused(call: Any, error: type[Exception], message: str) -> None:
    figures = pyplot.get_fignums()
    with pytest.raises(error, match=message):
        call()
    assert pyplot.get_fignums() == figures


def test_dask_collections_of_log_densities_are_refused() -> None:
    import dask.array as da

    with pytest.raises(TypeError, match=r"Dask collection: write \w+\.compute\(\)"):
        plot.anomalies(da.from_array(LINE))
