"""Calls under their roofs: numbers, table and picture."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import operator
import sys

import numpy as np
import pytest

import cukde
from cukde import perf
from cukde.perf import Counted, Part, RooflinePoint
from tests.perf import toys as perf_toys
from tests.perf.toys import CPU, GPU, X, half
from tests.private import WORKLOADS, called, counted, found as found_of

POINT = RooflinePoint("copy", {}, 1.0, "memory", "fma", 1e12, "memory", 5e11, 2e13, 1e12, 0.5)


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    perf_toys.declare_all(monkeypatch)


def under(counted: Counted, seconds: float = 1.0, on: perf.Peaks = GPU, **options) -> RooflinePoint:
    """The point of an operation of this count."""

    @perf.declare(lambda on: counted, dict)
    def one():
        return None

    return perf.roofline([("one", {}, seconds)], on, **options).points[0]


def test_the_roof_is_that_of_the_unit_that_binds():
    point = under(Counted((Part("all", bytes=1e10, work={"exponential": 1e12, "fma": 1e12}),), "by hand"), 4.0)
    assert (point.binds, point.unit, point.slope) == ("exponential", "exponential", "memory")
    assert (point.intensity, point.rate) == (100, 2.5e11)
    assert (point.roof, point.percent) == (1e12, 25)
    assert point.percent_of_bound == pytest.approx(25)


def test_under_the_slope_of_memory_the_unit_is_the_one_that_computes_the_longest():
    point = under(Counted((Part("all", bytes=1e12, work={"tensor_f16": 1e13, "fma": 1e13}),), "by hand"), 2.0)
    assert (point.binds, point.unit) == ("memory", "fma")  # 0.1 s on tensor cores, 0.5 s of multiply-adds
    assert (point.intensity, point.roof, point.percent) == (10, 1e13, 50)


def test_what_the_cache_holds_is_under_its_slope():
    part = Part("all", bytes=1e9, requested=1e13, work={"fma": 1e13})
    missing = under(Counted((part,), "by hand"), 25.0, GPU)
    assert (missing.binds, missing.slope) == ("memory", "memory")  # what is asked for again does not fit
    small = Counted((Part("all", bytes=1e5, requested=1e12, work={"fma": 1e10}),), "by hand")
    held = under(small)
    assert (held.binds, held.slope, held.bytes, held.intensity) == ("cache", "cache", 1e12, 0.01)
    assert held.roof == pytest.approx(0.01 * 4e12)
    unmeasured = perf.Peaks(**{**vars(GPU), "rates": {**GPU.rates, "cache": math.inf}})
    assert under(small, on=unmeasured).slope == "memory"


def test_what_computes_nothing_is_beside_the_bandwidth():
    point = under(Counted((Part("all", bytes=1e12),), "by hand"), 2.0)
    assert (point.unit, point.rate, point.roof, point.percent) == ("memory", 5e11, 1e12, 50)


def test_explanations_triples_and_rows_are_the_same_point(monkeypatch):
    perf_toys.time_by(monkeypatch, lambda call: 4.0)
    explanation = perf.explain(half, X, on=CPU)
    row = explanation.row()
    of_rows = perf.roofline([row, ("half", {"n": 1000}, 4e-3)], CPU)
    assert of_rows.points == (*perf.roofline([explanation]).points, of_rows.points[0])
    assert json.loads(json.dumps(of_rows.points[0].row()))["percent"] == pytest.approx(25)

    sized = perf.roofline([{"op": "whole", "shape": {"n": 9}, "dtype": "float64", "median_ms": 1.0}], CPU).points[0]
    assert sized.shapes == {"dtype": "float64", "n": 9}


@pytest.mark.parametrize(
    ("points", "error", "says"),
    [
        ([], ValueError, "points must hold at least one call; got none"),
        ([("half", {"n": 1}, 0.0)], ValueError, "the time of half must be positive and finite; got 0.0 s"),
        ([("quarter", {"n": 1}, 1.0)], ValueError, "op must be one of .*got 'quarter'"),
        ([{"op": "half", "shape": {"n": 1}}], ValueError, "without median_ms"),
        ([{"op": "half", "shape": {"n": 1}, "median_ms": 1, "backend": "cpu"}], ValueError, "row of the cpu backend"),
        (["half"], TypeError, r"points must be explanations, \(op, sizes, seconds\), rows .*; got str"),
    ],
)
def test_points_that_are_none_are_refused(points, error, says):
    with pytest.raises(error, match=says):
        perf.roofline(points, GPU)


def test_explanations_of_another_processor_are_refused(monkeypatch):
    perf_toys.time_by(monkeypatch, lambda call: 4.0)
    with pytest.raises(ValueError, match="points must be of one processor, Toy GPU; got half on Toy CPU"):
        perf.roofline([perf.explain(half, X, on=CPU)], GPU)


def test_the_table_has_a_line_for_each_point():
    head, names, first, second = str(perf.roofline([("half", {"n": 1000}, 0.1), POINT], GPU)).splitlines()
    assert "Toy GPU" in head
    assert names.split() == ["operation", "time", "binds", "intensity", "attained", "roof", "of", "it"]
    assert first.split() == ["1", "half", "n=1,000", "100", "ms", "memory", "0.125", "10.0", "Mexp/s", "125", "G", "0%"]
    assert second.split() == ["2", "copy", "1.00", "s", "memory", "2", "1.00", "Tflop/s", "2.00", "T", "50%"]
    assert max(map(len, (head, names, first, second))) <= 100


def conv(**sizes) -> RooflinePoint:
    shapes = {"batch": 64, "channels": 256, "length": 2048, "layout": "BCL", "dtype": "float32"} | sizes
    return RooflinePoint(**{**vars(POINT), "op": "depthwise_conv1d", "shapes": shapes})


def test_the_table_says_what_tells_rows_apart_and_cuts_none_of_it():
    points = [
        conv(taps=4, variant="a" * 20),
        POINT,
        conv(taps=31, variant="b" * 20, length=1_048_576, dtype="float16"),
    ]
    lines = str(perf.roofline(points, GPU)).splitlines()
    assert lines[2] == "    depthwise_conv1d batch=64 channels=256"  # its layout goes without saying
    assert [line[:40].split() for line in lines[3:]] == [
        ["1", "f32", "length=2,048", "taps=4"],
        ["a" * 20],
        ["2", "f16", "length=1,048,576", "taps=31"],
        ["b" * 20],
        ["3", "copy"],
    ]
    assert max(map(len, lines)) <= 100


def test_rows_that_are_alike_say_all_sizes():
    lines = str(perf.roofline([conv(precision="float32"), conv(precision="float32", layout="BCL")], GPU)).splitlines()
    assert lines[2].split()[:4] == ["1", "depthwise_conv1d", "f32", "batch=64"]
    assert lines[4].split()[:4] == ["2", "depthwise_conv1d", "f32", "batch=64"]


def test_a_precision_is_told_beside_its_dtype():
    lines = str(perf.roofline([conv(precision="float32"), conv(precision="tf32")], GPU)).splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["depthwise_conv1d", "f32"], ["1", "f32"], ["2", "tf32"]]


@pytest.mark.parametrize(
    ("op", "family", "study"),
    [
        ("sd_kde", "density", False),
        ("kendall_matrix", "Kendall", False),
        ("soa_to_aos", "piecewise", False),
        ("depthwise_conv1d", "convolution", False),
        ("study.density_wmma", "density", True),
        ("study.conv1d_forward", "convolution", True),
        ("half", "other", False),
    ],
)
def test_a_point_knows_its_family(op, family, study):
    point = RooflinePoint(**{**vars(POINT), "op": op})
    assert (point.family, point.study) == (family, study)


def test_the_picture_shows_every_point_and_its_roof(tmp_path):
    from matplotlib.image import imread

    points = [
        POINT,
        RooflinePoint(**{**vars(POINT), "op": "study.kde", "unit": "tensor_f16", "peak": 1e14}),
        RooflinePoint(**{**vars(POINT), "op": "kendalltau", "unit": "exponential", "peak": 1e12}),
        RooflinePoint(**{**vars(POINT), "op": "aos_to_soa", "unit": "memory"}),  # in the list alone
    ]
    perf.roofline(points, GPU, tmp_path / "a.png")
    image = imread(tmp_path / "a.png")[..., :3]
    for colour in ("#7a7a7a", "#d1662f"):  # of the first, of Kendall's tau
        wanted = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert (abs(image - wanted).max(axis=-1) < 0.02).any(), colour


def many(count: int) -> list[RooflinePoint]:
    """Points of all families and panels, some in one place."""
    rng = np.random.default_rng(5)
    units = {"instruction": 3e13, "tensor_f16": 1e14, "exponential_f64": 1e12, "shared": 3.1e13, "fma": 2e13}
    found = []
    for i in range(count):
        op = ("kde", "kendalltau", "aos_to_soa", "study.conv1d_forward", "copy")[i % 5]
        unit = list(units)[(i // 5) % 5]
        work = 10 ** rng.uniform(9, 12)
        of = {"op": op, "unit": unit, "peak": units[unit], "binds": ("memory", unit)[i % 2], "work": work}
        if i % 4 == 3:
            of |= {"slope": "cache", "bandwidth": 2e12}
        of |= {"bytes": 1e9 * (i % 7), "shapes": {"n": i, "layout": "x" * (i % 70), "dtype": "float32"}}
        found.append(RooflinePoint(**{**vars(POINT), **of}))
    return found


@pytest.mark.parametrize("count", [1, 5, 120])
def test_all_that_a_picture_says_is_within_it(count):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from cukde.perf import _roofline_figure

    points = list(enumerate(many(count), 1))
    figure = _roofline_figure.figure_of("Roofline", points, str(perf.roofline(many(count), GPU)).splitlines())
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in figure.texts] + [axes.get_tightbbox() for axes in figure.axes]
    for box in boxes:
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width, box
        assert 0 <= box.y0 < box.y1 <= figure.bbox.height, box
    written = {text.get_text() for axes in figure.axes for text in axes.texts}
    assert {str(number) for number, _ in points} <= written


def test_names_of_near_roofs_are_apart():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from cukde.perf import _roofline_figure

    near = {"fma": 2e13, "float64": 2.01e13, "instruction": 2.02e13}
    points = [RooflinePoint(**{**vars(POINT), "unit": unit, "peak": peak}) for unit, peak in near.items()]
    figure = _roofline_figure.figure_of("Roofline", list(enumerate(points, 1)), [])
    FigureCanvasAgg(figure).draw()
    names = [text for text in figure.axes[0].texts if not text.get_text().isdigit()]
    heights = sorted((text.get_window_extent().y0, text.get_window_extent().y1) for text in names)
    assert len(heights) == 3
    assert all(below[1] <= above[0] for below, above in itertools.pairwise(heights))


def test_a_picture_of_nothing_that_computes(tmp_path):
    perf.roofline([RooflinePoint(**{**vars(POINT), "unit": "memory"})], GPU, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_picture_needs_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"needs Matplotlib: pip install 'matplotlib>=3.8'"):
        perf.roofline([], GPU, tmp_path / "a.png")
    assert "50%" in str(perf.roofline([POINT], GPU))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_a_call_of_the_function_it_is_named_after(name):
    call = WORKLOADS[name].call("cpu")
    inspect.signature(call.func).bind(*call.args, **call.keywords)
    assert operator.attrgetter(name)(cukde) in (call.func, type(call.func))
    assert {array.dtype for array in call.args if isinstance(array, np.ndarray)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_cost_formula_of_a_workload_takes_its_sizes(name):
    operation, sizes = called(WORKLOADS[name].call("cpu"), (), {})
    assert counted(operation, CPU, sizes).parts


def test_every_public_operation_has_a_workload():
    calls = (workload.call("cpu") for workload in WORKLOADS.values())
    found = [found_of(call, (), {}) for call in calls]
    covered = {call.operation.name for call in found if call is not None}
    toys = {"half", "whole", "Doubler"}
    assert covered == {op for op in perf.operations() if not op.startswith("study.")} - toys
