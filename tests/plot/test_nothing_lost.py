"""Pictures of data of many kinds: regions end within the picture, areas are shares, and no row goes unsaid."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde import plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.contour import QuadContourSet  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.patches import StepPatch  # noqa: E402

KINDS: dict[str, Any] = {
    "normal": lambda rng, n: rng.normal(size=(n, 2)),
    "heavy tails": lambda rng, n: rng.standard_t(1.2, size=(n, 2)),
    "far outlier": lambda rng, n: np.r_[rng.normal(size=(n - 1, 2)), 10 ** rng.uniform(1, 5, (1, 2))],
    "ties": lambda rng, n: rng.integers(0, 4, size=(n, 2)).astype(float) + [1, 0] * (np.arange(n) < 1)[:, None],
    "spots": lambda rng, n: rng.normal(size=(3, 2))[rng.integers(0, 3, n)] + rng.normal(0, 1e-3, (n, 2)),
    "correlated": lambda rng, n: rng.normal(size=(n, 1)) + rng.normal(0, 1e-2, (n, 2)),
    "far from 0": lambda rng, n: rng.normal(size=(n, 2)) + 1e6,
    "large": lambda rng, n: rng.normal(size=(n, 2)) * 1e80,
    "small": lambda rng, n: rng.normal(size=(n, 2)) * 1e-80,
    "log": lambda rng, n: np.exp(rng.normal(size=(n, 2))),
    "bounded": lambda rng, n: rng.exponential(size=(n, 2)),
    "periodic": lambda rng, n: rng.uniform(0, 4, size=(n, 2)),
}
ENDS: dict[str, Any] = {
    "log": {"log_scale": True},
    "bounded": {"bounds": [(0, None), (0, None)]},
    "periodic": {"periods": [4, None]},
}


def new() -> Axes:
    return Figure().subplots()


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def outlines(ax: Axes) -> list[np.ndarray]:
    """The lines around regions."""
    drawn = [c for c in ax.collections if isinstance(c, QuadContourSet) and not c.filled]
    return [line for c in drawn for lines in c.allsegs for line in lines if len(line)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(
    n=st.sampled_from([2, 5, 20, 200]),
    method=st.sampled_from(["kde", "sd", "laplace", "positive"]),
    adjust=st.sampled_from([0.1, 0.5, 1.0, 3.0]),
    mass=st.sampled_from([0.3, 0.99, (0.5, 0.8, 0.95)]),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_regions_end_within_the_axes(
    kind: str, n: int, method: Any, adjust: float, mass: Any, weighted: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, w, ends = KINDS[kind](rng, n), rng.exponential(size=n) ** 3 if weighted else None, ENDS.get(kind, {})
    ax = plot.contours(X, method=method, bw_adjust=adjust, mass=mass, weights=w, points=40, ax=new(), **ends)
    limits = np.array([ax.get_xlim(), ax.get_ylim()])
    ends_of = {"bounded": [0.0, 0.0], "periodic": [0.0, np.nan]}.get(kind, [np.nan, np.nan])
    for line in outlines(ax):
        assert (limits[:, 0] <= line).all()
        assert (line <= limits[:, 1]).all()
        tips = line[[0, -1]] % 4 if kind == "periodic" else line[[0, -1]]
        touching = (abs(tips - ends_of) < 1e-9).any(axis=1).all()
        assert touching or np.allclose(line[0], line[-1], rtol=0, atol=1e-9 * np.ptp(limits, axis=1))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(3, 40), st.floats(0.05, 1), st.integers(0, 99))
def test_every_row_whose_density_is_as_high_is_within_its_outline(n: int, h: float, seed: int) -> None:
    """Few rows, of whose densities own kernels are much, and one far away."""
    X = KINDS["far outlier"](np.random.default_rng(seed), n)
    ax = plot.contours(X, h, mass=0.9, ax=new())
    (filled,) = [c for c in ax.collections if isinstance(c, QuadContourSet) and c.filled]
    at_rows = cukde.kde(X, X, h)
    level = np.sort(cukde.kde(X, X, h, leave_one_out=True))[n - int(np.ceil(0.9 * n))]
    level = max(level, 1e-5 * at_rows.min())
    assert filled.levels[0] == pytest.approx(level, rel=1e-3)
    for path in [line[:, k] for line in outlines(ax) for k in range(2)]:
        assert np.isfinite(path).all()
    for row in X[at_rows > 1.5 * level]:  # an island is at least 0.9 h wide
        nearest = min(np.hypot(*(line - row).T).min() for line in outlines(ax))
        held = any(matplotlib.path.Path(line).contains_point(row) for line in outlines(ax))
        assert held or nearest < 1.5 * h


def test_where_a_corrected_density_is_negative_the_legend_says_so() -> None:
    """That of ten rows in the middle of a ring of many: no region holds them."""
    angle = np.arange(600) * np.pi / 300
    X = np.r_[np.zeros((10, 2)), 2.45 * np.stack([np.cos(angle), np.sin(angle)], axis=1)]
    said = "a largest region is all of positive density, and has fewer rows"
    assert said in texts(plot.contours(X, 1.0, method="laplace", mass=0.99, ax=new()))
    assert said not in texts(plot.contours(X, 1.0, method="laplace", mass=0.95, ax=new()))


# --- logarithmic axes ----------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.floats(0.05, 0.95), st.integers(0, 99), st.sampled_from(["kde", "sd", "laplace"]), st.booleans())
def test_the_area_on_a_logarithmic_axis_is_the_share_of_rows(share: float, seed: int, method: Any, hue: bool) -> None:
    """Of two clusters, as it is drawn: in parts of the width of the axes and of their height."""
    rng, n = np.random.default_rng(seed), 400
    low = np.arange(n) < round(share * n)
    X = pd.Series(np.where(low, 10 ** rng.normal(0, 0.2, n), 10 ** rng.normal(4, 0.3, n)), name="income")
    ax = plot.density(X, log_scale=True, method=method, hue=low if hue else None, band=None, rug=False, ax=new())
    areas = np.zeros(2)
    for line in ax.lines:
        if line.get_gid() is not None:
            x, y = ax.transData.transform(line.get_xydata()).T
            parts = 0.5 * (y[1:] + y[:-1] - 2 * y[0]) * np.diff(x)
            lower = line.get_xdata()[1:] < 100
            areas += parts[lower].sum(), parts[~lower].sum()
    np.testing.assert_allclose(areas / areas.sum(), [low.mean(), 1 - low.mean()], atol=2e-3)
    assert ax.get_ylabel() == "density (per decade of income)"


def test_a_scale_that_is_not_that_of_the_density_is_refused() -> None:
    X = np.exp(np.random.default_rng(0).normal(size=(50, 2)))
    ax = new()
    ax.set_xscale("log", base=2)
    with pytest.raises(ValueError, match="log_scale must be True for the x axis of ax"):
        plot.density(X[:, 0], ax=ax)
    with pytest.raises(ValueError, match=r"^log_scale\b"):
        plot.contours(X, log_scale=[False, True], ax=ax)
    plot.density(X[:, 0], log_scale=True, ax=ax)
    assert ax.xaxis.get_transform().base == 2
    ax = plot.density(X[:, 0], ax=new())
    with pytest.raises(ValueError, match="log_scale must be False for the x axis of ax"):
        plot.density(X[:, 0], log_scale=True, ax=ax)
    grid = Figure().subplots(2, 2)
    grid[1, 0].set_yscale("log")
    with pytest.raises(ValueError, match=r"^log_scale\b"):
        plot.pairs(X, ax=grid)


# --- groups --------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 3)), columns=list("xyz")).assign(
    topic=list("aaaabbbccd")
)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 2, 9]), min_size=2, max_size=4),
    constant=st.booleans(),
    name=st.sampled_from(["density", "contours", "pairs"]),
    weighted=st.booleans(),
)
def test_groups_without_a_density_are_left_out_and_said(
    sizes: list[int], constant: bool, name: str, weighted: bool
) -> None:
    """Others are as they are without them, but for their share of all rows."""
    rng = np.random.default_rng(len(sizes))
    sizes = [20, *sizes, *([5] if constant else [])]
    kinds = pd.Categorical(np.repeat([f"g{k}" for k in range(len(sizes))], sizes), [f"g{k}" for k in range(9)])
    X = pd.DataFrame(rng.normal(size=(len(kinds), 2)), columns=["x", "y"])[["x"] if name == "density" else ["x", "y"]]
    if constant:
        X.loc[kinds == kinds[-1], "x"] = [0.3, 0.3, 0.1 + 0.2, 0.3, 0.3]  # but for rounding
    w = np.ones(len(X)) if weighted else None
    options: dict[str, Any] = {"ax": Figure().subplots(2, 2) if name == "pairs" else new(), "points": 9}
    ax = getattr(plot, name)(X, hue=kinds, weights=w, **options)
    want = [f"g{k}: 1 row, not drawn" for k, size in enumerate(sizes) if size == 1]
    want += [f"g{len(sizes) - 1}: 5 rows, no bandwidth, not drawn"] * constant
    if name == "pairs":
        assert ax[0, 0].get_title(loc="left") == "\n".join(want)
        first = ax[0, 0].lines[0]
        assert len(ax[0, 0].lines) == sum(size > 1 for size in sizes) - constant
    else:
        assert [text for text in texts(ax) if "not drawn" in text] == want
        first = ax.lines[0]
    if name != "contours":
        x, p = first.get_data()
        own = X["x"].to_numpy()[:20]
        np.testing.assert_allclose(
            p, cukde.kde(own, x, cukde.bandwidth.silverman(own)) * 20 / len(X), rtol=1e-6, atol=1e-9
        )


def test_a_pair_plot_of_words_with_one_row() -> None:
    grid = plot.pairs(TABLE, hue="topic")
    legend = grid[0, 0].figure.legends[0]
    assert "d: 1 row, not drawn" in [text.get_text() for text in legend.get_texts()]
    matplotlib.pyplot.close(grid[0, 0].figure)


def test_a_constant_group_with_a_bandwidth_is_drawn() -> None:
    ax = plot.density([1.0, 2.0, 5.0, 5.0], 0.5, hue=[0, 0, 1, 1], band=None, ax=new())
    assert len([line for line in ax.lines if line.get_gid()]) == 2


@pytest.mark.parametrize("name", ["density", "contours", "pairs", "anomalies"])
def test_labels_are_written_whatever_they_are(name: str) -> None:
    """Matplotlib leaves out of legends what begins with an underscore, and reads text between dollars as a formula."""
    X, labels = np.random.default_rng(0).normal(size=(30, 2)), ["_a", "$^b$", "$c_{$", "in $"]
    hue = np.array(labels)[np.arange(30) % 4]
    frame = pd.DataFrame(X, columns=["in $ or $^{", "_y"])
    ax = {
        "density": lambda: plot.density(frame.iloc[:, 0], hue=hue, ax=new()),
        "contours": lambda: plot.contours(frame, hue=hue, points=9, ax=new()),
        "pairs": lambda: plot.pairs(frame, hue=hue, points=9),
        "anomalies": lambda: plot.anomalies(X[:, 0], hue=hue, ax=new()),
    }[name]()
    first = np.ravel(ax)[0]
    first.figure.draw_without_rendering()
    legend = first.figure.legends[0] if name == "pairs" else first.get_legend()
    entries = [text.get_text().replace(r"\$", "$").strip() for text in legend.get_texts()]
    assert all(any(entry.startswith(label) for entry in entries) for label in labels)
    matplotlib.pyplot.close("all")


# --- log densities -------------------------------------------------------------------------------------------


@settings(max_examples=24, deadline=None, derandomize=True)
@given(
    far=st.sampled_from([0, 1, 40, 900]),
    lowest=st.sampled_from([20.0, 350.0, 1e6, 1e90]),
    high=st.booleans(),
    cut=st.sampled_from([{}, {"quantile": 0.02}, {"threshold": -11}, {"threshold": -200}, {"threshold": 9}]),
    hue=st.booleans(),
    bins=st.sampled_from([None, 30]),
    seed=st.integers(0, 9),
)
def test_all_rows_are_in_bins_or_said_to_be_beyond(
    far: int, lowest: float, high: bool, cut: Any, hue: bool, bins: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = np.r_[rng.normal(-5, 1, 1000), -rng.uniform(10, lowest, far), [lowest] * high]
    kinds = np.arange(len(values)) >= 1000
    ax = plot.anomalies(values, hue=kinds if hue else None, bins=bins, ax=new(), **cut)
    counted = sum(p.get_data().values.sum() for p in ax.patches if isinstance(p, StepPatch) and p.get_fill())
    marks = [line.get_label() for line in ax.lines if line.get_marker() in ("<", ">")]
    assert counted + sum(int(re.match(r"([\d,]+) rows? ", mark)[1].replace(",", "")) for mark in marks) == len(values)
    assert set(marks) <= set(texts(ax))
    low, high_end = ax.get_xlim()
    if far == 900 or cut.get("threshold") in (-200, 9):
        assert "threshold" not in cut or low < cut["threshold"] < high_end
        return
    # The quarter of the rows around the middle has more than a bin and a fair part of the axis.
    assert high_end - low < 100
    edges = ax.patches[0].get_data().edges
    assert edges[1] - edges[0] < 3


def test_an_axis_that_shows_all_has_no_marks() -> None:
    for values in (np.random.default_rng(0).normal(size=500), [1.0, 1.0], [1.0, 2.0, 3.0], np.arange(50.0)):
        ax = plot.anomalies(values, ax=new())
        assert not [line for line in ax.lines if line.get_marker() in ("<", ">")]


@pytest.mark.parametrize("name", ["density", "contours", "pairs", "anomalies"])
def test_no_picture_asks_for_other_settings_of_numpy(name: str) -> None:
    X = np.r_[np.random.default_rng(0).normal(size=(30, 2)), [[1e3, -1e3]]]
    with np.errstate(all="raise"):
        if name == "pairs":
            plot.pairs(X, points=9, ax=Figure().subplots(2, 2))
        else:
            getattr(plot, name)(X if name == "contours" else X[:, 0], ax=new())


def test_masked_log_densities_are_left_out_as_nan() -> None:
    log_p = np.linspace(-9.0, -1.0, 40)
    missing = np.arange(40) % 9 == 0
    drawn = [
        [text.get_text() for text in cukde.plot.anomalies(a, ax=Figure().subplots()).get_legend().get_texts()]
        for a in (np.where(missing, np.nan, log_p), np.ma.array(log_p, mask=missing))
    ]
    assert drawn[0] == drawn[1]
    assert any("left out" in text for text in drawn[1])


@pytest.mark.filterwarnings("error")
def test_data_that_are_no_frame_say_what_to_write() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"^data\b"):
        cukde.plot.density(polars.DataFrame({"a": [1.0, 2.0]}).lazy(), x="a")
    with pytest.raises(TypeError, match=r"write pandas\.DataFrame\(data\)"):
        cukde.plot.density({"a": [1.0, 2.0]}, x="a")
