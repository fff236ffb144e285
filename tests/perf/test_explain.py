"""What a call took, what binds it, and how the verdict moves with the model's assumptions."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cukde
from cukde import perf
from cukde.core.cost.cost import UNITS
from cukde.perf import _text
from tests.perf import toys as perf_toys
from tests.perf.toys import CPU, GPU, Doubler, OnGPU, X, half, whole
from tests.private import perf_explain as _explain

EVERY = dataclasses.replace(CPU, rates=dict.fromkeys(UNITS, 1e9))

# Of the operation `whole` on the toy CPU, n = 1000: seconds of each unit by itself.
MEMORY = 12e6 / 1e10 + 12e6 / 1e10  # least bytes, and what is asked for again and does not fit
EXPONENTIAL = 1e6 / 1e9
FMA = 3e6 / 1e11
HALF = math.hypot(8e6 / 1e10, 1e6 / 1e9)  # the cache takes no time to speak of


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    perf_toys.declare_all(monkeypatch)


@pytest.fixture
def asked(monkeypatch):
    """Four milliseconds for the whole and one for its stages."""
    return perf_toys.time_by(monkeypatch, lambda call: 4.0 if getattr(call, "func", None) is whole else 1.0)


def test_numbers_of_a_call(asked):
    found = perf.explain(whole, X, on=CPU)
    assert (found.op, found.on, found.seconds) == ("whole", CPU, 4e-3)
    assert found.requested == 8e6 + 16e6
    assert found.effective_bandwidth == pytest.approx(12e6 / 4e-3)
    assert found.intensity == pytest.approx(3e6 / 12e6)
    rates = {rate.unit: rate for rate in found.rates}
    assert list(rates) == ["memory", "cache", "fma", "instruction", "exponential"]
    assert rates["exponential"].achieved == pytest.approx(1e6 / 4e-3)
    assert rates["exponential"].percent == pytest.approx(25)
    assert rates["exponential"].alone == pytest.approx(EXPONENTIAL)
    assert rates["memory"].alone == pytest.approx(MEMORY)
    assert rates["fma"].alone == pytest.approx(FMA)
    assert found.binds == "memory"
    assert found.bound_seconds == pytest.approx(MEMORY)
    assert found.percent_of_bound == pytest.approx(100 * MEMORY / 4e-3)
    assert found.measured_over_predicted == pytest.approx(4e-3 / found.prediction.seconds)
    assert found.measured_over_report == pytest.approx(4e-3 / (1e8 / 1e11 + 5e-6))


def test_what_binds_may_be_a_unit_a_chain_or_launches(asked):
    assert perf.explain(whole, X, on=CPU).verdict.startswith("memory binds: 3.00 GB/s of 10.0 GB/s (30%), and the call")

    def chain(on, *, n):
        return perf.Counted((perf.Part("all", bytes=n, cycles=1e7, launches=n),), "by hand")

    @perf.declare(chain, lambda x: {"n": x.size})
    def slow(x):
        return x

    assert perf.explain(slow, X[:1], on=CPU).verdict.startswith("latency binds: the longest chain of dependent steps")
    many = perf.explain(slow, np.zeros(2000), on=CPU)
    assert many.binds == "launch"
    assert many.verdict.startswith("launches bind: 2000 take 20.0 ms")


@pytest.mark.parametrize(("milliseconds", "says"), [(1e3, "does not count"), (0.01, "more than the call does")])
def test_a_verdict_says_that_model_and_clock_disagree(monkeypatch, milliseconds, says):
    perf_toys.time_by(monkeypatch, lambda call: milliseconds)
    assert says in perf.explain(half, X, on=CPU).verdict
    assert ("other work on its cores" in perf.explain(half, X, on=CPU).verdict) == (milliseconds > 1)  # neighbours'


def test_a_verdict_says_nothing_where_they_agree(monkeypatch):
    perf_toys.time_by(monkeypatch, lambda call: 1e3 * HALF)
    found = perf.explain(half, X, on=CPU)
    assert found.measured_over_predicted == pytest.approx(1)
    assert found.verdict.endswith("of that bound.")


def test_stages_have_their_own_models_or_the_parts_of_their_name(asked):
    found = perf.explain(whole, X, on=CPU, seconds=3.0)
    first, rest, unknown = found.stages
    assert [stage.name for stage in found.stages] == ["half", "rest", "unknown"]
    assert first.predicted == pytest.approx(perf.predict("half", CPU, n=1000, cold=False).seconds)
    assert rest.predicted == pytest.approx(found.prediction.parts[1].seconds)
    assert rest.binds == "memory"
    assert (unknown.predicted, unknown.binds) == (None, None)
    assert [options["seconds"] for options in asked] == [3.0, 1.0, 1.0, 1.0]
    assert "together" in str(found)
    assert "0.75 of the whole call" in str(found)  # three stages of 1 ms of 4 ms


def test_cold_caches_are_measured_and_modelled(asked):
    small = np.zeros(10)  # 80 kB fit
    warm, cold = (perf.explain(half, small, on=CPU, cold=cold) for cold in (False, True))
    assert [options["cold"] for options in asked] == [False, True]
    assert "memory" not in warm.prediction.parts[0].units
    assert cold.prediction.parts[0].units["memory"] == pytest.approx(8e4 / 1e10)
    assert cold.sensitivity.base.seconds == cold.prediction.seconds
    unmeasured = dataclasses.replace(CPU, rates={**CPU.rates, "cache": math.inf})
    assert perf.explain(half, small, on=unmeasured).prediction.seconds == pytest.approx(cold.prediction.seconds)


def test_the_processor_is_where_the_arrays_are(monkeypatch, asked):
    monkeypatch.setattr(_explain, "peaks", {None: GPU, "cpu": CPU}.__getitem__)
    assert perf.explain(half, X).on is CPU
    assert perf.explain(half, OnGPU()).on is GPU
    assert perf.explain(functools.partial(half, OnGPU())).on is GPU
    assert perf.explain(functools.partial(whole, precision="tf32"), OnGPU()).on is GPU
    assert perf.explain(Doubler(held=OnGPU()), X).on is GPU  # as a polynomial that is held on the GPU
    assert {options["gpu"] for options in asked[:1]} == {False}
    assert {options["gpu"] for options in asked[1:]} == {True}


def test_a_processor_of_the_other_kind_is_refused(asked):
    with pytest.raises(ValueError, match="on must be a CPU, where the arrays of the call are; got Toy GPU"):
        perf.explain(half, X, on=GPU)
    with pytest.raises(ValueError, match=r"^on\b"):
        perf.explain(half, OnGPU(), on=CPU)
    assert asked == []


def test_a_call_that_is_not_known_is_refused_before_it_runs(asked):
    with pytest.raises(ValueError, match=r"one of the operations .*half.*got <built-in.*declare its cost"):
        perf.explain(len, X, on=CPU)
    with pytest.raises(ValueError, match="seconds must be positive and finite; got 0"):
        perf.explain(half, X, on=CPU, seconds=0)
    assert asked == []


def test_a_row_is_one_of_a_record(asked):
    row = perf.explain(whole, X, on=CPU, precision="tf32").row()
    assert json.loads(json.dumps(row)) == row
    assert (row["op"], row["backend"], row["shape"]) == ("whole", "cpu", {"n": 1000})
    assert (row["dtype"], row["precision"]) == ("float64", "tf32")
    assert (row["median_ms"], row["low_ms"], row["runs"]) == (4.0, 3.8, 7)
    assert (row["bound_ms"], row["bound"]) == (pytest.approx(1e3 * MEMORY), "memory")
    assert row["report_ms"] == pytest.approx(1.005)


def test_a_report_fits_a_terminal_and_has_every_part(asked):
    text = str(perf.explain(whole, X, on=CPU))
    assert max(map(len, text.splitlines())) <= 100
    for words in (
        "whole n=1,000 float64 on Toy CPU (CPU)",
        "4.00 ms  quartiles 3.60 ms to 4.80 ms",
        "12.0 MB at least, 24.0 MB asked of the cache",
        "rest: sums",
        "cache hit rate",
        "reduction overhead",
        "of instruction",
    ):
        assert words in text


def test_a_call_is_really_timed():
    found = perf.explain(half, X, on=CPU, seconds=0.01)
    assert 0 < found.times.q1_ms <= found.times.median_ms <= found.times.q3_ms < 100


@pytest.mark.parametrize(
    ("observed", "says"),
    [
        (0.25, "taken      25% of the pairs;"),
        ((0.0625, None), "taken      6.25% and all of the pairs;"),
        (None, None),
    ],
)
def test_the_share_of_pairs_that_a_run_takes_is_told_and_predicted(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, observed: Any, says: str | None
) -> None:
    runs: list[None] = []

    def count(on: perf.Peaks, *, n: int, share: Any = None) -> perf.Counted:
        first = share[0] if isinstance(share, tuple) else share
        return perf.Counted((perf.Part("pass", work={"fma": 1e6 * n * (1 if first is None else first)}),), "here")

    def call(x: Any) -> Any:
        runs.append(None)
        return x

    def observe(call: Callable[[], Any], *, gpu: bool) -> dict[str, Any]:
        call()
        return {"share": observed if gpu else None}

    perf.declare(count, lambda x: {"n": x.size}, name="shared", observed=observe)(call)
    found = perf.explain(call, OnGPU(), on=GPU)
    assert len(runs) == 2
    assert found.share == (observed if observed is None or isinstance(observed, tuple) else (observed,))
    first = 1 if found.share is None else found.share[0]
    work = 1e9 * first
    assert found.cost.work("fma") == work
    text = str(found)
    assert "shared n=1,000 on" in text
    assert says in text if says else "taken" not in text
    row = found.row()
    assert row["shape"] == {"n": 1000}
    assert row.get("share") == (None if found.share is None else list(found.share))
    on_cpu = perf.explain(call, X, on=CPU)
    assert len(runs) == 4
    assert on_cpu.share is None
    assert on_cpu.cost.work("fma") == 1e9


# --- sensitivity -----------------------------------------------------------------------------------------


def rows(found: perf.Sensitivity, assumption: str) -> dict[float, tuple[float, str]]:
    return {row.value: (row.seconds, row.binds) for row in found.rows if row.assumption == assumption}


def test_every_assumption_is_perturbed_over_its_range():
    found = perf.sensitivity("whole", CPU, n=1000)
    ranges: dict[str, list[float]] = {}
    for row in found.rows:
        ranges.setdefault(row.assumption, []).append(row.value)
    rates = [0.5, 0.75, 1, 1.5, 2]
    assert ranges == {
        "cache hit rate": [0, 0.25, 0.5, 0.75, 1],
        "reduction overhead": [0.5, 1, 2, 4],
        "instruction throughput": rates,
        "throughput of exponential": rates,
        "throughput of fma": rates,
        "throughput of instruction": rates,
    }
    assert found.range == (min(row.seconds for row in found.rows), max(row.seconds for row in found.rows))


def test_hits_take_what_is_read_again_off_memory():
    found = rows(perf.sensitivity("whole", CPU, n=1000), "cache hit rate")
    for rate, (seconds, _) in found.items():
        memory = (4e6 + 12e6 * (1 - rate)) / 1e10
        sums = math.hypot(memory, 2e6 / 5e10)
        assert seconds == pytest.approx(HALF + sums + FMA)


def test_overhead_multiplies_the_reducing_instructions_alone():
    found = rows(perf.sensitivity("whole", CPU, n=1000), "reduction overhead")
    for factor, (seconds, _) in found.items():
        sums = math.hypot(16e6 / 1e10, (1e6 + factor * 1e6) / 5e10)
        assert seconds == pytest.approx(HALF + sums + FMA)


def test_a_verdict_that_holds_and_one_that_moves():
    # Exponentials take 1 ms and memory 0.8: with 1.5 times the exponentials a second memory takes longer.
    held = perf.sensitivity("half", CPU, n=1000)
    assert held.base.binds == "exponential"
    assert not held.stable
    assert {(row.binds, row.value) for row in held.changed} == {("memory", 1.5), ("memory", 2)}
    assert "memory binds at instruction throughput 1.5, 2" in held.verdict
    assert "*" in str(held)

    slow = dataclasses.replace(CPU, rates={**CPU.rates, "exponential": 1e8})
    firm = perf.sensitivity("half", slow, n=1000)
    assert firm.stable
    assert firm.verdict == "stable: exponential binds in all 14 perturbed models"
    assert "reduction overhead     does not enter" in str(firm)
    assert max(map(len, str(firm).splitlines())) <= 100


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999.6, "1.00 kB"), (4.2e12, "4.20 TB"), (1e-3, "1.00 mB"), (2e19, "20000 PB"), (math.inf, "inf")],
)
def test_numbers_have_three_digits(number, text):
    assert _text.si(number, "B") == text


@pytest.mark.parametrize("queries", ["text", [object()], 3.0])
def test_arguments_without_sizes_are_errors_of_the_call(queries):
    with pytest.raises((TypeError, ValueError), match=r"^Y\b"):
        perf.explain(cukde.kde, np.ones((5, 2)), queries, 1.0, on=CPU, seconds=0.001)


@pytest.mark.parametrize("library", ["torch", "pandas", "nullable", "polars", "arrow"])
@pytest.mark.parametrize("function", [cukde.kde, cukde.sd_kde])
def test_tensors_frames_and_series_have_sizes(library: str, function: Callable[..., Any]) -> None:
    x = np.linspace(0, 1, 40) ** 2
    containers: dict[str, Callable[[], Any]] = {
        "torch": lambda: pytest.importorskip("torch").tensor(x),
        "pandas": lambda: pd.Series(x),
        "nullable": lambda: pd.Series(x).convert_dtypes(),
        "polars": lambda: pytest.importorskip("polars").Series(x),
        "arrow": lambda: pytest.importorskip("pyarrow").array(x),
    }
    X = containers[library]()
    shapes = perf.explain(function, X, X, 0.5, on=EVERY, seconds=0.001).cost.shapes
    assert (shapes["n"], shapes["m"], shapes["d"], shapes["dtype"]) == (40, 40, 1, "float64")


def test_stages_take_names_and_leave_out_rows() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, np.nan, 3.0], "b": [0.0, 2.0, 1.0, 5.0]})
    options: dict[str, Any] = {"nan_policy": "omit", "weights": pd.Series(np.ones(4))}
    found = perf.explain(cukde.sd_kde, frame, frame, {"b": 1.0, "a": 2.0}, on=EVERY, seconds=0.001, **options)
    assert [stage.name for stage in found.stages] == ["score", "shift", "kde"]


def test_dask_collections_are_computed_first() -> None:
    dask_array = pytest.importorskip("dask.array")
    data = dask_array.from_array(np.arange(12.0).reshape(6, 2), chunks=(3, 2))
    for call in (functools.partial(cukde.kde, data), functools.partial(cukde.kde, np.ones((3, 2)))):
        with pytest.raises(TypeError, match=r"^explain\b"):
            perf.explain(call, data, 0.5, on=CPU)
    assert perf.measure(lambda: cukde.kde(data, data, 0.5).compute(), seconds=0.001).median_ms > 0
