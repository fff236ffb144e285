"""Pictures called as users of seaborn and Matplotlib call theirs: taken, or answered by advice that works."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from cukde import plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

RNG = np.random.default_rng(3)
N = 40
FRAME = pd.DataFrame(
    {
        "height": RNG.normal(170, 8, N),
        "weight": RNG.normal(70, 9, N),
        "sex": np.array(["f", "m"])[RNG.integers(0, 2, N)],
        "score": RNG.normal(size=N),
        "w": RNG.exponential(size=N),
    }
)
DRAWN = {"density": ["height"], "contours": ["height", "weight"]}
FEW: dict[str, Any] = {"points": 9}


def new(name: str = "density") -> Any:
    return Figure().subplots(2, 2) if name == "pairs" else Figure().subplots()


def numbers_of(ax: Any) -> list[np.ndarray]:
    """What is drawn: lines, and corners of regions and of histograms."""
    panels = np.ravel(ax)
    lines = [line.get_xydata() for each in panels for line in each.lines]
    paths = [path.vertices for each in panels for c in each.collections for path in c.get_paths()]
    return [*lines, *paths, *(patch.get_path().vertices for each in panels for patch in each.patches)]


def same(one: Any, other: Any) -> None:
    first, second = numbers_of(one), numbers_of(other)
    assert len(first) == len(second) > 0
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(np.asarray(a, float), np.asarray(b, float))
    assert [ax.get_xlabel() for ax in np.ravel(one)] == [ax.get_xlabel() for ax in np.ravel(other)]


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(["density", "contours"]),
    library=st.sampled_from(["pandas", "polars"]),
    hue=st.sampled_from([None, "sex"]),
    weighted=st.booleans(),
    first=st.booleans(),
)
def test_columns_by_name_are_the_columns(name: str, library: str, hue: Any, weighted: bool, first: bool) -> None:
    """Of a frame as data, or as the first argument."""
    frame: Any = FRAME if library == "pandas" else pl.from_pandas(FRAME)
    columns, options = DRAWN[name], {**FEW, "hue": hue}
    call = getattr(plot, name)
    want = call(
        FRAME[[*columns, *([hue] if hue else [])]], weights=FRAME["w"] if weighted else None, ax=new(), **options
    )
    options |= dict(zip("xy", columns, strict=False), weights="w" if weighted else None, ax=new())
    same(call(frame, **options) if first else call(data=frame, **options), want)


def test_data_and_vectors() -> None:
    pair = FRAME[["height", "weight"]]
    same(plot.density(x=FRAME["height"], ax=new(), **FEW), plot.density(FRAME["height"], ax=new(), **FEW))
    same(plot.contours(data=pair, ax=new(), **FEW), plot.contours(pair, ax=new(), **FEW))
    same(plot.pairs(data=pair, ax=new("pairs"), **FEW), plot.pairs(pair, ax=new("pairs"), **FEW))
    named = plot.anomalies(data=FRAME, x="score", hue="sex", ax=new())
    same(named, plot.anomalies(FRAME["score"], hue=FRAME["sex"], ax=new()))
    assert named.get_legend().get_title().get_text() == "sex"
    same(plot.anomalies(FRAME[["score"]], ax=new()), plot.anomalies(FRAME["score"], ax=new()))


@pytest.mark.parametrize(
    ("color", "colours"),
    [
        (["C1", (0, 0, 0)], ["C1", (0, 0, 0)]),
        (np.array([[1, 0, 0], [0, 1, 0]]), [(1, 0, 0), (0, 1, 0)]),
        ({"m": "blue", "f": "0.5", "x": "red"}, ["0.5", "blue"]),
        (matplotlib.colormaps["Set2"].colors, matplotlib.colormaps["Set2"].colors[:2]),
    ],
)
def test_colours_of_groups(color: Any, colours: Any) -> None:
    want = [matplotlib.colors.to_rgb(each) for each in colours]
    ax = plot.density(data=FRAME, x="height", hue="sex", color=color, rug=False, ax=new(), **FEW)
    assert [matplotlib.colors.to_rgb(line.get_color()) for line in ax.lines] == want
    ax = plot.contours(data=FRAME, x="height", y="weight", hue="sex", color=color, ax=new(), **FEW)
    handles = ax.get_legend().legend_handles[:2]
    assert [tuple(np.round(handle.get_facecolor()[:3], 9)) for handle in handles] == [
        tuple(np.round(c, 9)) for c in want
    ]
    grid = plot.pairs(FRAME[["height", "weight", "sex"]], hue="sex", color=color, ax=new("pairs"), **FEW)
    assert [matplotlib.colors.to_rgb(text.get_color()) for text in grid[0, 1].texts] == want
    ax = plot.anomalies(FRAME["score"], hue=FRAME["sex"], color=color, ax=new())
    assert [matplotlib.colors.to_rgb(patch.get_edgecolor()) for patch in ax.patches[1::2]] == want


def test_one_colour() -> None:
    assert plot.density(FRAME["height"], color="C3", ax=new(), **FEW).lines[0].get_color() == "C3"
    ax = plot.contours(FRAME[["height", "weight"]], color="red", mass=0.5, outside=False, ax=new(), **FEW)
    red, green, blue = ax.collections[0].get_facecolor()[0][:3]
    assert red == 1
    assert 0 < green == blue < 1
    for wrong, hue in (("reddish", None), (["C0"], None), ("C0", "sex"), (["C0"], "sex"), ({"f": "C0"}, "sex")):
        with pytest.raises(ValueError, match="color must be a"):
            plot.density(data=FRAME, x="height", hue=hue, color=wrong, ax=new())


CALLS: dict[str, Any] = {
    "density": (FRAME["height"],),
    "contours": (FRAME[["height", "weight"]],),
    "pairs": (FRAME[["height", "weight"]],),
    "anomalies": (FRAME["score"],),
}
TRIED = [
    ("fill", True), ("alpha", 0.5), ("linewidth", 2), ("lw", 2), ("ls", ":"), ("legend", False), ("title", "mine"),
    ("xlim", (0, 1)), ("figsize", (3, 3)), ("cmap", "viridis"), ("palette", "Set2"), ("c", "red"),
    ("bw_method", "scott"), ("bandwidth", 2), ("gridsize", 50), ("levels", 5), ("thresh", 0.1),
    ("n_boot", 9), ("vars", ["height"]),
    ("log", True), ("clip", (0, 1)), ("bw_ajdust", 2), ("nonsense", 1),
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("option", "value"), TRIED, ids=[option for option, _ in TRIED])
def test_advice_works(name: str, option: str, value: Any) -> None:
    """Whatever a message says to write is an option of the picture, or runs on what it returns."""
    call = getattr(plot, name)
    figures = pyplot.get_fignums()
    with pytest.raises(TypeError, match=f"cukde.plot.{name} has no option {option}: ") as caught:
        call(*CALLS[name], **{option: value})
    assert pyplot.get_fignums() == figures
    message = str(caught.value)
    if code := re.search(r"write (\S.*[)\]]) for the axes that it returns", message):
        ax = call(*CALLS[name]) if name == "pairs" else call(*CALLS[name], ax=new())
        eval(code[1].replace("=...", f"={value!r}"), {"ax": ax, "matplotlib": matplotlib})
        pyplot.close("all")
        return
    written = re.search(r"write (\w+), |did you mean (\w+)\?|its options are (.+)", message)
    assert written
    own = inspect.signature(call).parameters
    assert all(each in own for each in re.findall(r"\w+", next(filter(None, written.groups()))))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot.density(), TypeError, "needs X: write cukde.plot.density"),
        (lambda: plot.density(x="height"), TypeError, "needs X: write cukde.plot.density"),
        (lambda: plot.density(FRAME, data=FRAME), TypeError, "X and data must not both be given"),
        (lambda: plot.density(data=FRAME, x="size"), ValueError, r"one column of data, of \['height'.*; got 'size'"),
        (lambda: plot.density(data=FRAME, x="height", weights="v"), ValueError, "one column of data.*got 'v'"),
        (lambda: plot.density(data=FRAME, x="height", hue="v"), ValueError, "one column of data.*got 'v'"),
        (lambda: plot.density(data=FRAME, x=FRAME["height"]), ValueError, "one column of data"),
        (lambda: plot.density(data=FRAME.to_numpy(), x="height"), TypeError, "data must be a data frame"),
        (lambda: plot.density(data=FRAME, x="height", y="weight"), TypeError, "write cukde.plot.contours"),
        (lambda: plot.density(FRAME["height"], weights="w"), TypeError, "weights must be numbers"),
        (lambda: plot.contours(x=FRAME["height"], y=FRAME["weight"]), TypeError, r"column_stack\(\[x, y\]\)"),
        (lambda: plot.contours(data=FRAME, x="height"), TypeError, "needs x and y beside data"),
        (lambda: plot.contours(FRAME["height"], FRAME["weight"]), ValueError, r"column_stack\(\[x, y\]\)"),
        (lambda: plot.pairs(data=FRAME, x="height"), TypeError, "write columns="),
    ],
)
def test_what_is_missing_is_said(call: Any, error: type[Exception], message: str) -> None:
    figures = pyplot.get_fignums()
    with pytest.raises(error, match=message):
        call()
    assert pyplot.get_fignums() == figures
