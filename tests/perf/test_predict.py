"""Costs, their registry, and the two rules for a time, each term against a hand computation."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest

from cukde import perf
from cukde.perf import Counted, Part, Peaks
from cukde.perf._predict import PartTime
from tests.perf import toys as perf_toys
from tests.perf.toys import GPU, Doubler, X, half, whole
from tests.private import by_name, called, found, predicted

# Work that takes a second of each: so many bytes, multiply-adds' operations, exponentials.
MEMORY, FMA, EXPONENTIAL = 1e12, 2e13, 1e12

PLAIN = dataclasses.replace(GPU, rates={"memory": MEMORY, "fma": FMA, "exponential": EXPONENTIAL})
"""A cache that was not measured takes no time."""


def predict(*parts: Part, on: Peaks = PLAIN, textbook: tuple[float, float] | None = None, **assumptions):
    flops, traffic = textbook or (None, None)
    counted = Counted(parts, "by hand", pairs=1e9, textbook_flops=flops, textbook_bytes=traffic)
    return predicted(counted.cost("toy", {}), on, **assumptions)


# --- the better rule -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("overlap", "seconds"), [(1.0, 3.5), (2.0, 2.5), (math.inf, 2.0)])
def test_units_work_at_the_same_time(overlap, seconds):
    part = Part("all", bytes=2 * MEMORY, work={"fma": 1.5 * FMA})
    found = predict(part, overlap=overlap)
    assert found.seconds == pytest.approx(seconds)
    assert found.parts[0].units == pytest.approx({"memory": 2, "fma": 1.5, "cache": 0})
    assert (found.binds, found.bound) == ("memory", pytest.approx(2))


def test_parts_follow_each_other_and_the_bound_is_of_one_unit_in_all():
    found = predict(Part("a", bytes=3 * MEMORY, work={"fma": 4 * FMA}), Part("b", bytes=2 * MEMORY))
    assert [part.seconds for part in found.parts] == pytest.approx([5, 2])
    assert [part.binds for part in found.parts] == ["fma", "memory"]
    assert found.seconds == pytest.approx(7)
    assert (found.binds, found.bound) == ("memory", pytest.approx(5))


@pytest.mark.parametrize(("blocks", "slower"), [(100, 1), (150, 2 / 1.5), (1, 100), (1001, 11 / 10.01), (math.inf, 1)])
def test_the_slowest_multiprocessor_has_whole_blocks(blocks, slower):
    assert predict(Part("all", work={"fma": FMA}, blocks=blocks)).seconds == pytest.approx(slower)


@pytest.mark.parametrize(("blocks", "waves"), [(1, 1), (200, 1), (201, 2), (450, 3), (math.inf, 1)])
def test_a_wave_takes_its_longest_chain(blocks, waves):
    part = Part("all", bytes=1, blocks=blocks, resident=2, cycles=1e9)
    found = predict(part)
    assert found.parts[0].units["latency"] == pytest.approx(waves)
    assert (found.binds, found.seconds) == ("latency", pytest.approx(waves))


@pytest.mark.parametrize(
    ("moved", "cold", "memory"),
    [
        (GPU.cache_bytes, True, 1),  # read once, then found
        (GPU.cache_bytes, False, 0),  # found from the call before
        (2 * GPU.cache_bytes, True, 5),  # all that is asked for comes from memory
        (2 * GPU.cache_bytes, False, 5),
    ],
)
def test_memory_serves_what_the_cache_cannot_keep(moved, cold, memory):
    on = dataclasses.replace(PLAIN, rates={**PLAIN.rates, "memory": moved})
    part = Part("all", bytes=moved, requested=5 * moved)
    assert predict(part, on=on, cold=cold).parts[0].units.get("memory", 0) == pytest.approx(memory)


def test_a_cache_takes_its_own_time():
    found = predict(Part("all", bytes=1e5, requested=8e12), on=GPU)
    assert found.parts[0].units["cache"] == pytest.approx(2)
    assert found.binds == "cache"


def test_launches_are_hidden_behind_work():
    many = Part("all", bytes=1e-3 * MEMORY, launches=100)
    assert (predict(many).seconds, predict(many).binds) == (pytest.approx(1e-3), "memory")
    more = dataclasses.replace(many, launches=1000)
    assert (predict(more).seconds, predict(more).binds) == (pytest.approx(5e-3), "launch")
    assert predict(more, launch_seconds=1e-7).seconds == pytest.approx(1e-3)


def test_what_a_sensitivity_analysis_perturbs():
    part = Part("all", bytes=MEMORY, requested=3 * MEMORY, work={"instruction": FMA}, reduction=FMA / 4)
    base = predict(part).parts[0].units
    assert (base["memory"], base["instruction"]) == (pytest.approx(3), pytest.approx(2))
    assert predict(part, hit_rate=0.75).parts[0].units["memory"] == pytest.approx(1.5)
    assert predict(part, reduction=3.0).parts[0].units["instruction"] == pytest.approx(3)
    assert predict(part, throughput={"instruction": 0.5}).parts[0].units["instruction"] == pytest.approx(4)


def test_nothing_takes_no_time():
    assert predict(Part("none", launches=0)).seconds == 0
    assert PartTime("none", 0.0, {}).binds == "launch"


# --- the report's rule -----------------------------------------------------------------------------------


def test_the_reports_rule_takes_the_larger_of_two_and_a_launch():
    found = predict(textbook=(2 * FMA, MEMORY))
    assert (found.report_compute, found.report_memory) == (pytest.approx(2), pytest.approx(1))
    assert found.report_seconds == pytest.approx(2 + 5e-6)
    assert predict(textbook=(FMA, 3 * MEMORY)).report_seconds == pytest.approx(3 + 5e-6)


def test_the_reports_rule_counts_the_parts_where_its_source_counts_nothing():
    part = Part("all", bytes=4 * MEMORY, requested=9 * MEMORY, work={"fma": FMA, "exponential": 7 * EXPONENTIAL})
    assert (predict(part).report_compute, predict(part).report_memory) == (pytest.approx(1), pytest.approx(4))


def test_the_reports_assumptions_are_arguments():
    found = predict(textbook=(1, 1), flops_per_pair=4e4, bytes_per_pair=16, launch_seconds=0.25)
    assert found.report_compute == pytest.approx(1e9 * 4e4 / FMA)
    assert found.report_memory == pytest.approx(16e9 / MEMORY)
    assert found.report_seconds == pytest.approx(2.25)


@pytest.mark.parametrize(
    ("assumption", "says"),
    [
        ({"bytes_per_pair": -1}, r"^bytes_per_pair\b.*0.*1"),
        ({"flops_per_pair": math.nan}, r"^flops_per_pair\b.*0"),
        ({"launch_seconds": -1e-6}, "launch_seconds must be at least 0; got -1e-06"),
        ({"overlap": 0.5}, r"^overlap\b.*1.*0.*5"),
    ],
)
def test_assumptions_that_make_no_sense_are_refused(assumption, says):
    with pytest.raises(ValueError, match=says):
        predict(Part("all"), **assumption)


def test_overlap_must_be_a_number():
    with pytest.raises(TypeError, match="overlap must be a number; got None"):
        predict(Part("all"), overlap=None)


@pytest.fixture
def toys(monkeypatch):
    perf_toys.declare_all(monkeypatch)


@pytest.mark.usefixtures("toys")
def test_what_is_no_work_over_pairs_takes_no_assumptions_of_pairs():
    with pytest.raises(ValueError, match="half is no operation over pairs"):
        perf.predict("half", GPU, n=10, bytes_per_pair=16)
    assert perf.predict("whole", GPU, n=10, bytes_per_pair=16).report_memory == pytest.approx(1600 / 1e12)


# --- the registry ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("toys")
def test_a_call_is_found_whatever_it_is_made_of():
    for fn, args, kwargs in (
        (half, (X,), {}),
        (functools.partial(half, X), (), {}),
        (functools.partial(functools.partial(half), X), (), {}),
        (half, (), {"x": X}),
    ):
        operation, shapes = called(fn, args, kwargs)
        assert (operation.name, shapes) == ("half", {"n": 1000})
    assert called(Doubler(), (X,), {})[0].name == "Doubler"
    assert called(functools.partial(whole, precision="tf32"), (X,), {})[1]["precision"] == "tf32"


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self):
        pass


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("fn", [Unhashable(), lambda: None, Doubler])  # to make an object is no call of it
def test_a_call_that_is_not_known_says_which_are(fn):
    assert found(fn, (), {}) is None
    with pytest.raises(ValueError, match=r"^fn\b"):
        called(fn, (), {})


@pytest.mark.usefixtures("toys")
def test_stages_get_the_arguments_of_the_call():
    call = found(functools.partial(whole, X), (), {"precision": "tf32"})
    assert list(call.stages) == ["half", "rest", "unknown"]
    assert call.stages["half"]() is X
    assert found(half, (X,), {}).stages == {}


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("op", "shapes", "says"),
    [
        ("quarter", {"n": 1}, r"op must be one of .*half.*got 'quarter': declare the cost"),
        (["half"], {"n": 1}, r"op must be one of .*got \['half'\]"),
        ("half", {}, r"^half\b"),
        ("half", {"m": 1}, r"^half\b"),
        ("whole", {"n": 1, "m": 1}, r"whole takes the sizes n \(and dtype, precision\); got n, m"),
        ("half", {"n": -1}, r"^n\b.*1"),
        ("half", {"n": math.nan}, r"^n\b"),
    ],
)
def test_operations_and_sizes_that_are_not_known_are_refused(op, shapes, says):
    with pytest.raises(ValueError, match=says):
        perf.cost(op, GPU, **shapes)
    with pytest.raises(ValueError, match=says):
        perf.predict(op, GPU, **shapes)


@pytest.mark.usefixtures("toys")
def test_the_work_is_that_of_the_processor():
    @perf.declare(
        lambda on, *, n: Counted((Part(on.backend, bytes=n),), "by hand"), lambda x: {"n": x.size}, name="s.t"
    )
    def engines(x):
        return x

    assert [perf.cost("s.t", on, n=3).parts[0].name for on in (GPU, perf_toys.CPU)] == ["gpu", "cpu"]
    assert "s.t" in perf.operations()
    assert by_name("s.t").target is engines
    assert engines(X) is X


def test_a_cost_adds_up_its_parts():
    parts = (
        Part("a", bytes=10, work={"fma": 6, "float64": 3, "exponential": 1, "instruction": 100}, launches=2),
        Part("b", bytes=5, work={"tensor_f16": 20, "gemm_f32": 7, "tensor_b1": 50, "exponential_f64": 4}),
    )
    cost = Counted(parts, "by hand", pairs=9).cost("toy", {"n": 1})
    assert (cost.bytes, cost.launches, cost.pairs, cost.shapes) == (15, 3, 9, {"n": 1})
    assert (cost.exponentials, cost.scalar_flops, cost.tensor_flops) == (5, 9, 77)
    assert cost.flops == 6 + 3 + 20 + 7  # bits and instructions are no floating-point operations
    assert cost.intensity == pytest.approx(36 / 15)
    assert (cost.textbook_flops, cost.textbook_bytes) == (36, 15)
    assert cost.work("fma") == 6
    assert Counted((Part("c", work={"fma": 1}),), "by hand").cost("toy", {}).intensity == math.inf
    assert (parts[0].asked, Part("d", bytes=1, requested=3).asked, Part("e", bytes=1, work={"cache": 8}).asked) == (
        10,
        3,
        8,
    )


def test_units_that_were_not_measured_have_what_stands_in_for_them():
    assert PLAIN.rate("instruction") == FMA / 2
    assert PLAIN.rate("gemm_f32") == FMA
    assert PLAIN.rate("cache") == math.inf
    with pytest.raises(
        ValueError, match="Toy GPU have no rate for tensor_s8, only for exponential, fma, memory: measure"
    ):
        PLAIN.rate("tensor_s8")


def test_sizes_are_numbers():
    with pytest.raises(TypeError, match=r"^m\b"):
        perf.cost("kde", n=10, m=np.ones((2, 2)), d=2)
    with pytest.raises(ValueError, match=r"^n\b"):
        perf.cost("kde", n=float("nan"), m=1, d=2)
    sizes = {"n": np.int8(100), "m": np.int8(100), "d": np.int8(2)}
    assert perf.cost("kde", **sizes) == perf.cost("kde", n=100, m=100, d=2)


def test_assumptions_are_numbers():
    with pytest.raises(TypeError, match=r"^flops_per_pair\b"):
        perf.predict("kde", "H100", n=10, m=10, d=2, flops_per_pair=np.ones(2))
    with pytest.raises(ValueError, match=r"^launch_seconds\b.*0"):
        perf.predict("kde", "H100", n=10, m=10, d=2, launch_seconds=float("nan"))
