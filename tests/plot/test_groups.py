"""Pictures of groups, of logarithmic axes and of rows with NaN, against densities computed here; and their legends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cukde
from cukde import plot
from tests.conftest import Backend

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.collections import PolyCollection  # noqa: E402
from matplotlib.contour import QuadContourSet  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.transforms import Bbox  # noqa: E402

RNG = np.random.default_rng(8)
LINE = np.concatenate([RNG.normal(size=60), RNG.normal(4, 0.5, size=30)])
KIND = np.array(["low"] * 60 + ["high"] * 30)
TABLE = pd.DataFrame({"x": LINE, "y": RNG.normal(size=90), "kind": KIND})
SPREAD = np.exp(RNG.normal(1, 1.5, size=80))
FEW: dict[str, Any] = {"points": 33, "resamples": 3}


def new(**options: Any) -> Axes:
    return Figure(**options).subplots()


def curves(ax: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Curves by the first word of their labels."""
    drawn = [line for line in ax.lines if line.get_gid() == "cukde density"]
    return {re.split(r"[:,]", line.get_label())[0]: line.get_data() for line in drawn}


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def levels(ax: Axes) -> list[float]:
    return [float(c.levels[0]) for c in ax.collections if isinstance(c, QuadContourSet) and c.filled]


# --- hue -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("common", [True, False])
def test_each_group_has_its_density_times_its_share(backend: Backend, common: bool) -> None:
    w = RNG.exponential(size=90)
    X, options = backend.asarray(LINE), {**FEW, "hue": KIND, "common_norm": common, "weights": backend.asarray(w)}
    ax = plot.density(X, bw_adjust=0.5, ax=new(), **options)
    assert list(curves(ax)) == ["high", "low"]
    for kind, (x, p) in curves(ax).items():
        own, v = LINE[kind == KIND], w[kind == KIND]
        h = 0.5 * float(cukde.bandwidth.silverman(own, weights=v)[0])
        np.testing.assert_allclose([x[0], x[-1]], [own.min() - 3 * h, own.max() + 3 * h], rtol=1e-12)
        share = v.sum() / w.sum() if common else 1.0
        np.testing.assert_allclose(p, share * cukde.kde(own, x, h, weights=v), rtol=1e-9, atol=1e-12)


def test_a_group_is_drawn_as_it_is_alone() -> None:
    ax = plot.density(TABLE[["x", "kind"]], hue="kind", common_norm=False, ax=new(), **FEW)
    alone = plot.density(LINE[:60], ax=new(), **FEW)
    np.testing.assert_array_equal(curves(ax)["low"], curves(alone)["KDE"])
    bands = [[c for c in a.collections if isinstance(c, PolyCollection)][-1].get_paths()[0] for a in (ax, alone)]
    np.testing.assert_array_equal(bands[0].vertices, bands[1].vertices)
    assert ax.get_xlabel() == "x"
    assert ax.get_legend().get_title().get_text() == "kind"
    colours = [line.get_color() for line in ax.lines if line.get_marker() == "|"]
    assert colours == [line.get_color() for line in ax.lines if line.get_gid()]


@pytest.mark.parametrize(
    ("hue", "order"),
    [
        (pd.Categorical(KIND, categories=["low", "none", "high"]), ["low", "high"]),
        (KIND == "high", ["False", "True"]),
        (np.where(KIND == "high", 10.0, 9.0), ["9.0", "10.0"]),
        (pd.array([None, *np.where(KIND[1:] == "high", 2**53 + 1, 2**53)], "Int64"), [str(2**53), str(2**53 + 1)]),
        (pl.Series([None, *np.where(KIND[1:] == "high", 2, 1).tolist()]), ["1", "2"]),
        (np.where(KIND == "high", "2021-01-01", "2020-01-01").astype("datetime64[ns]"), ["2020-01-01", "2021-01-01"]),
    ],
    ids=["categories", "booleans", "numbers", "integers", "integers of polars", "dates"],
)
def test_the_order_of_groups(hue: Any, order: list[str]) -> None:
    assert list(curves(plot.density(LINE, hue=hue, ax=new(), **FEW))) == order


def test_regions_of_groups_hold_shares_of_their_rows(backend: Backend) -> None:
    X = backend.asarray(TABLE[["x", "y"]].to_numpy())
    ax = plot.contours(X, 0.4, hue=TABLE["kind"], mass=0.8, points=3, ax=new())
    want = []
    for kind in ("high", "low"):
        own = TABLE.loc[TABLE["kind"] == kind, ["x", "y"]].to_numpy()
        want.append(np.sort(cukde.kde(own, own, 0.4, leave_one_out=True))[::-1][int(0.8 * len(own)) - 1])
    np.testing.assert_allclose(levels(ax), want, rtol=3e-4)
    assert texts(ax) == ["high", "low", "80% of a group's rows", "18 rows outside"]


def test_pairs_of_groups() -> None:
    axes = plot.pairs(TABLE, hue="kind", points=9, ax=Figure().subplots(2, 2))
    assert [ax.get_xlabel() for ax in axes[-1]] == ["x", "y"]
    taus = [cukde.kendalltau(*TABLE.loc[TABLE["kind"] == kind, ["x", "y"]].to_numpy().T)[0] for kind in ("high", "low")]
    assert [text.get_text() for text in axes[0, 1].texts] == [f"$\\tau = {tau:.2f}$" for tau in taus]
    assert len(levels(axes[1, 0])) == 2
    x, p = axes[0, 0].lines[1].get_data()
    np.testing.assert_allclose(p, cukde.kde(LINE[:60], x, cukde.bandwidth.silverman(LINE[:60])) * 2 / 3, rtol=1e-9)


# --- bw_adjust -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [0.4, np.array([0.3, 0.4]), np.array([[0.2, 0.05], [0.05, 0.3]])])
def test_the_factor_of_a_bandwidth(h: Any) -> None:
    X = TABLE[["x", "y"]].to_numpy()
    ax = plot.contours(X, h, bw_adjust=1.5, mass=0.8, points=5, ax=new())
    scaled = 1.5**2 * h if np.ndim(h) == 2 else 1.5 * h
    assert levels(ax) == pytest.approx([np.sort(cukde.kde(X, X, scaled, leave_one_out=True))[::-1][71]], rel=3e-4)


# --- log_scale -----------------------------------------------------------------------------------------------


def test_the_density_of_a_logarithmic_axis_is_per_decade(backend: Backend) -> None:
    ax = plot.density(backend.asarray(SPREAD), 0.2, log_scale=True, points=backend.size(400, 9), ax=new())
    x, p = curves(ax)["KDE"]
    t = np.log10(SPREAD)
    want = np.exp(-((np.log10(x)[:, None] - t) ** 2) / 0.08).mean(axis=1) / (0.2 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(p, want, rtol=1e-6, atol=1e-12)
    if len(x) == 400:
        assert np.trapezoid(p, np.log10(x)) == pytest.approx(1, abs=3e-3)
    assert (ax.get_xscale(), ax.get_ylabel()) == ("log", "density (per decade of x)")
    assert texts(ax)[0] == "KDE, h = 0.2 decades"
    rug = next(line for line in ax.lines if line.get_marker() == "|")
    np.testing.assert_allclose(rug.get_xdata(), SPREAD, rtol=1e-12)


def test_limits_of_a_logarithmic_axis_are_in_units_of_the_data() -> None:
    ax = plot.density(SPREAD, log_scale=True, limits=(0.5, 50), ax=new(), **FEW)
    x = curves(ax)["KDE"][0]
    np.testing.assert_allclose(x, np.geomspace(0.5, 50, 33), rtol=1e-12)


def test_regions_on_logarithmic_axes_are_those_of_logarithms() -> None:
    X = np.column_stack([SPREAD, RNG.normal(size=80)])
    T = np.column_stack([np.log10(SPREAD), X[:, 1]])
    ax = plot.contours(X, [0.2, 0.4], log_scale=(True, False), mass=0.5, points=20, ax=new())
    flat = plot.contours(T, [0.2, 0.4], mass=0.5, points=20, ax=new())
    assert levels(ax) == levels(flat)
    (dots,) = [line for line in ax.lines if len(line.get_xdata())]
    (there,) = [line for line in flat.lines if len(line.get_xdata())]
    np.testing.assert_allclose(np.log10(dots.get_xdata()), there.get_xdata(), atol=1e-12)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")


def test_pairs_on_logarithmic_axes() -> None:
    X = np.column_stack([SPREAD, RNG.normal(size=80)])
    axes = plot.pairs(X, log_scale=[True, False], points=9, ax=Figure().subplots(2, 2))
    assert [ax.get_xscale() for ax in axes[1]] == ["log", "linear"]
    assert [ax.get_yscale() for ax in axes[1]] == ["linear", "linear"]
    low, high = axes[1, 0].get_xlim()
    assert 0 < low < np.median(SPREAD) < high
    assert axes[0, 0].get_xscale() == "log"


# --- rows with NaN -------------------------------------------------------------------------------------------


def test_rows_with_nan_are_left_out_and_counted(backend: Backend) -> None:
    X, kind, w = LINE.copy(), KIND.astype(object), np.ones(90)
    X[[0, 5]], kind[[5, 89]], w[10] = np.nan, None, np.nan
    kept = np.setdiff1d(np.arange(90), [0, 5, 10, 89])
    ax = plot.density(backend.asarray(X), hue=kind, weights=backend.asarray(w), ax=new(), **FEW)
    alone = plot.density(LINE[kept], hue=KIND[kept], ax=new(), **FEW)
    for found, want in zip(curves(ax).values(), curves(alone).values(), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)
    assert texts(ax)[-1] == "4 rows with NaN left out"


def test_rows_with_nan_in_other_pictures() -> None:
    table = TABLE.copy()
    table.loc[3, "x"] = table.loc[4, "y"] = np.nan
    assert texts(plot.contours(table[["x", "y"]], points=5, ax=new()))[-1] == "2 rows with NaN left out"
    figure = plot.pairs(table[["x", "y"]], points=5)[0, 0].figure
    assert figure.legends[0].get_texts()[-1].get_text() == "2 rows with NaN left out"
    matplotlib.pyplot.close(figure)
    ax = plot.anomalies([-1.0, -2.0, np.nan, -3.0], threshold=-2.5, hue=[1.0, np.nan, 1.0, 2.0], ax=new())
    assert texts(ax) == ["1.0: 1 rows", "2.0: 1 rows", "threshold -2.5: 1 of 2 rows below", "2 rows with NaN left out"]


# --- legends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("name", ["one", "groups", "logarithmic", "contours", "histogram"])
def test_a_legend_covers_nothing(name: str, layout: Any) -> None:
    ax = new(figsize=(4, 3), layout=layout)
    calls: dict[str, Any] = {
        "one": lambda: [plot.density(LINE + shift, ax=ax, **FEW) for shift in (0, -1, 1)],
        "groups": lambda: plot.density(LINE, hue=np.arange(90) % 5, ax=ax, **FEW),
        "logarithmic": lambda: plot.contours(np.exp(TABLE[["x", "y"]]), hue=KIND, log_scale=True, points=20, ax=ax),
        "contours": lambda: plot.contours(TABLE[["x", "y"]], points=20, ax=ax),
        "histogram": lambda: plot.anomalies(LINE, hue=KIND, log_counts=True, ax=ax),
    }
    calls[name]()
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    corners = []
    for line in ax.lines:
        if len(line.get_xdata()) and line.get_marker() != "|":
            corners.append(line.get_transform().transform(line.get_xydata()))
    for each in [*ax.collections, *ax.patches]:
        path = each.get_paths() if hasattr(each, "get_paths") else [each.get_path()]
        transform = each.get_transform()
        corners += [transform.transform(one.vertices) for one in path if len(one.vertices)]
    points = np.concatenate(corners)
    assert len(points) > 10
    assert not box.count_contains(points)
    assert Bbox.intersection(box, ax.get_window_extent()) is not None


def test_a_limit_of_the_caller_stays() -> None:
    ax = new()
    ax.set_ylim(0, 3)
    plot.density(LINE, ax=ax, **FEW)
    assert ax.get_ylim() == (0, 3)


# --- random numbers and errors -------------------------------------------------------------------------------


def test_random_state_and_seed_are_one() -> None:
    def marks(**options: Any) -> Any:
        X = np.arange(3000.0)
        ax = plot.density(X, 50.0, band=None, points=5, ax=new(), **options)
        return next(line.get_xdata() for line in ax.lines if line.get_marker() == "|")

    np.testing.assert_array_equal(marks(), marks(random_state=0))
    np.testing.assert_array_equal(marks(seed=3), marks(random_state=np.int64(3)))
    for kind in (np.random.default_rng, np.random.RandomState):
        source = kind(1)
        first, second = marks(random_state=source), marks(random_state=source)
        assert (first != second).any()
        np.testing.assert_array_equal(first, marks(random_state=kind(1)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot.density(LINE, hue="kind"), TypeError, "hue must be labels.*got 'kind'"),
        (lambda: plot.density(TABLE[["x", "kind"]], hue="knd"), ValueError, r"one of \['x', 'kind'\]; got 'knd'"),
        (lambda: plot.density(LINE, hue=KIND[1:]), ValueError, r"hue must have shape \(90,\)"),
        (lambda: plot.density(LINE, hue=np.arange(90)), ValueError, "1 to 7 different labels.*got 90"),
        (lambda: plot.density(LINE, hue=[None] * 90), ValueError, r"^hue\b.*1.*7.*0"),
        (lambda: plot.density([1.0, 2, 3], hue=[0, 1, 2]), ValueError, "2 rows.* in a group of hue to draw; got 1"),
        (lambda: plot.density([1.0, 1, 1, 1], hue=[0, 0, 1, 1]), ValueError, "constant.*in every group of hue"),
        (lambda: plot.density(LINE, bw_adjust=0), ValueError, r"^bw_adjust\b"),
        (lambda: plot.density(LINE, common_norm="yes"), ValueError, r"^common_norm\b"),
        (lambda: plot.density(LINE, log_scale=True), ValueError, r"positive for log_scale; \d+ of 90 rows of 'x' are"),
        (lambda: plot.density(SPREAD, log_scale=True, limits=(0, 1)), ValueError, "limits must be positive"),
        (lambda: plot.contours(TABLE[["x", "y"]], log_scale=[True]), ValueError, "2 of them, one for each column"),
        (lambda: plot.density(LINE, random_state=1, seed=1), TypeError, "must not both be given"),
        (lambda: plot.density(LINE, random_state=0, seed=1), TypeError, "must not both be given"),
        (lambda: plot.density(LINE, random_state="a"), TypeError, r"^random_state\b.*'a'"),
        (lambda: plot.density(LINE, random_state=True), TypeError, r"^random_state\b"),
    ],
)
def test_bad_arguments_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
