"""The model of calls on Dask arrays: its limits, its parts by hand, and its counts beside the graph that runs."""

from __future__ import annotations

import heapq
import math
import re
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.tools import dask_stages, scaling as tools_scaling
from benchmarks.tools.dask_stages import Blocks, Pass, Stage
from cukde import perf
from tests.perf import toys
from tests.perf.processors import H200

FREE: dict[str, Any] = {"bandwidth": math.inf, "latency": 0, "overhead": 0}
LARGE: dict[str, Any] = {"n": 2**22, "m": 2**20, "d": 16}


def scaling(op: str, workers: int = 1, on: perf.Peaks = H200, **options: Any) -> tools_scaling.Scaling:
    return tools_scaling.scaling(op, on, workers=workers, **options)


def sizes_of(op: str) -> dict[str, Any]:
    return {"n": 2**20, "d": 16} if op == "debias" else LARGE


# --- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", dask_stages.OPERATIONS)
def test_one_worker_with_one_block_takes_as_long_as_plain_arrays(op: str) -> None:
    queries = {} if op == "debias" else {"query_blocks": 1}
    found = scaling(op, blocks=1, **queries, **FREE, **sizes_of(op))
    # What comes after a pass of its own, such as the shift of debiased data, is no part of the model.
    assert found.seconds == pytest.approx(found.single, rel=0.01)
    assert (found.transfer, found.imbalance, found.moved, found.merge) == (0, 0, 0, 0)
    assert found.single == perf.predict(op, H200, **sizes_of(op)).seconds


@pytest.mark.parametrize("op", ["sd_kde", "kde", "score"])
@pytest.mark.parametrize("workers", [2, 4, 7])
def test_with_free_transfers_only_the_last_worker_is_waited_for(op: str, workers: int) -> None:
    found = scaling(op, workers, blocks=8, query_blocks=8, **FREE, **LARGE)
    assert found.transfer == found.scheduling == 0
    assert found.seconds == pytest.approx(found.compute + found.imbalance + found.merge)
    assert found.compute == pytest.approx(scaling(op, blocks=8, query_blocks=8, **FREE, **LARGE).compute / workers)
    assert found.speedup <= 1.01 * workers  # blocks are no faster than the whole
    if workers != 7:  # as many diagonal pairs, and pairs of different blocks, for each
        assert found.imbalance == pytest.approx(0, abs=1e-9)
        assert found.efficiency > 0.98


def test_no_queries() -> None:
    found = scaling("sd_kde", 2, n=2**16, m=0, d=16)
    assert found.single == perf.predict("sd_kde", H200, n=2**16, m=0, d=16).seconds > 0
    assert found.query_blocks == 1


def test_two_thousand_workers_are_no_faster_than_the_longest_pass() -> None:
    found = scaling("kde", 2000, blocks=8, query_blocks=8, **FREE, **LARGE)
    of_pair = perf.predict("kde", H200, n=2**19, m=2**17, d=16).seconds
    assert found.compute + found.imbalance == pytest.approx(of_pair)


@pytest.mark.parametrize("op", ["sd_kde", "density_and_score"])
def test_nothing_gets_faster_by_slower_links_or_more_to_do(op: str) -> None:
    def seconds(**changed: Any) -> float:
        options = {"workers": 4, "blocks": 16, "query_blocks": 8, "bandwidth": 1e9, "latency": 1e-3, "overhead": 1e-3}
        return scaling(op, **(options | LARGE | changed)).seconds

    for name, values in {
        "bandwidth": (math.inf, 1e11, 1e10, 1e9, 1e8, 1e7),
        "latency": (0, 1e-4, 1e-2, 1.0),
        "overhead": (0, 1e-4, 1e-2),
        "n": (2**20, 2**21, 2**22),
        "m": (2**18, 2**20, 2**21),
        "workers": (16, 8, 4, 2, 1),
    }.items():
        times = [seconds(**{name: value}) for value in values]
        assert times == sorted(times), name
        assert times[-1] > times[0], name


def test_transfers_hide_behind_passes() -> None:
    """But for what the last pass of each stage leaves."""
    found = scaling("sd_kde", 2, blocks=8, query_blocks=8, bandwidth=1e10, latency=0, **LARGE)
    of_score, of_density = 2**19 * 2 * (8 + 17 * 4), 2**17 * 16
    assert found.transfer == pytest.approx((of_score + of_density) / 1e10)


def test_in_one_dimension_every_block_is_passed_over_again() -> None:
    sizes: dict[str, Any] = {"n": 10**8, "m": 10**8, "d": 1, "dtype": "float64"}
    found = scaling("kde", blocks=20, query_blocks=20, **FREE, **sizes)
    assert found.compute > 5 * found.single


# --- by hand ---------------------------------------------------------------------------------------------


def by_hand(op: str, sizes: dict[str, Any]) -> float:
    """A second for two rows of data at two queries; half of that at their own."""
    return sizes["n"] * sizes["m"] / 4 / (2 if sizes.get("at_data") else 1)


def stages(op: str, of: Blocks, workers: int, **sizes: Any) -> list[Stage]:
    return dask_stages.stages(op, sizes, of, workers, by_hand)


def test_a_pass_over_all_pairs() -> None:
    (found,) = stages("kde", Blocks(4, 3, False), 2, n=8, m=6, d=5, dtype="float32")
    assert found.passes == (Pass(12, 1.0),)
    assert found.tasks == 4 + 3 + 12 + 3 + 3  # data, queries, passes, a merge and a density for each block of queries
    assert (found.blocks, found.bytes_of_blocks) == (4 + 3, 4 * 2 * 5 * 4 + 3 * 2 * 5 * 4)
    assert (found.sums, found.bytes_of_sums) == (12, 12 * 2 * 16)
    assert (found.merged, found.last) == (12 * 2 * 16, 2 * 16)


def test_data_against_themselves_take_a_pair_once() -> None:
    (found,) = stages("debias", Blocks(4, 4, True), 3, n=8, d=5, dtype="float32")
    # Four rows against themselves take two seconds, of which the two halves' own pairs take one.
    assert found.passes == (Pass(6, 1.0), Pass(4, 0.5))
    assert found.tasks == 4 + 4 + 6 * 3 + 4 * 2
    assert (found.blocks, found.bytes_of_blocks) == (4, 4 * 2 * 5 * 4)
    mine, of_pair = 2 * (8 + 6 * 8), 2 * (8 + 6 * 4)
    assert (found.sums, found.bytes_of_sums) == (4 + 12, 4 * mine + 12 * of_pair)
    assert found.merged == 4 * 4 * mine
    assert found.last == 2 * of_pair
    (double,) = stages("debias", Blocks(4, 4, True), 3, n=8, d=5, dtype="float64")
    assert double.bytes_of_sums == 16 * mine


def test_one_column_is_no_kernel_of_pairs() -> None:
    (found,) = stages("debias", Blocks(4, 4, True), 2, n=8, d=1)
    assert found.passes == (Pass(12, 1.0), Pass(4, 0.5))


@pytest.mark.parametrize("option", ["weighted", "deterministic"])
def test_pairs_that_must_be_taken_twice(option: str) -> None:
    (found,) = stages("debias", Blocks(4, 4, True), 2, n=8, d=5, **{option: True})
    assert found.passes == (Pass(12, 1.0), Pass(4, 0.5))
    assert found.sums == 16
    (kde,) = stages("kde", Blocks(4, 4, True), 2, n=8, m=8, d=5, at_data=True)
    assert kde.passes == (Pass(12, 1.0), Pass(4, 0.5))


def test_debiased_data_are_in_double_precision_and_no_queries() -> None:
    first, second = stages("sd_kde", Blocks(4, 4, True), 2, n=8, m=8, d=5, at_data=True)
    assert [stage.name for stage in (first, second)] == ["debias", "density"]
    assert first == stages("debias", Blocks(4, 4, True), 2, n=8, d=5)[0]._replace(name="debias")
    assert second.passes == (Pass(16, 1.0),)
    assert second.bytes_of_blocks == 4 * 2 * 5 * 8 + 4 * 2 * 5 * 4


@pytest.mark.parametrize(("width", "tasks", "taken"), [(1, 0, 0), (2, 1, 2), (8, 1, 8), (9, 3, 11), (64, 9, 72)])
def test_trees(width: int, tasks: int, taken: int) -> None:
    assert dask_stages._tree(width) == (tasks, taken)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 100])
def test_the_worker_with_most_to_do(workers: int) -> None:
    passes = [Pass(8, 1.0), Pass(28, 2.0), Pass(3, 0.25)]
    loads = [0.0] * workers
    for seconds in sorted((one.seconds for one in passes for _ in range(one.pairs)), reverse=True):
        heapq.heapreplace(loads, loads[0] + seconds)
    assert tools_scaling.longest(passes, workers) == pytest.approx(max(loads))


def test_parts_by_hand() -> None:
    stage = Stage("toy", (Pass(4, 1.0),), 10, 3, 300.0, 8, 800.0, 1e3, 50.0)
    # Two workers: half of what each takes lies elsewhere, 150 of blocks and 200 of sums, in 1.5 + 2 pieces.
    assert tools_scaling._late(stage, 2.0, 2, 100.0, 0.1) == pytest.approx((3.5 + 0.35 - 2) + (0.5 + 0.1))
    assert tools_scaling._late(stage, 9.0, 2, 100.0, 0.1) == pytest.approx(0.6)
    assert tools_scaling._late(stage, 0.0, 1, 100.0, 0.1) == 0


def test_a_report_adds_up() -> None:
    found = scaling("sd_kde", 4, blocks=8, query_blocks=8, bandwidth=1e8, **LARGE)
    assert found.seconds == pytest.approx(sum(getattr(found, part) for part in tools_scaling.PARTS))
    assert found.speedup == pytest.approx(found.single / found.seconds)
    assert found.efficiency == pytest.approx(found.speedup / 4)
    lines = repr(found).splitlines()
    assert lines[0] == "sd_kde n=4,194,304 m=1,048,576 d=16 on 4 x an H200"
    assert "8 blocks of data, 8 of queries" in lines[1]
    assert [line.split()[0] for line in lines[2:]] == [*tools_scaling.PARTS, "together"]
    assert sum(float(found) for found in re.findall(r"([\d.]+)%$", "\n".join(lines[2:-1]), re.M)) == pytest.approx(
        100, abs=0.3
    )


# --- the rule for blocks, and what is refused ------------------------------------------------------------


def test_blocks_are_those_of_plain_arrays() -> None:
    found = scaling("sd_kde", **LARGE)
    assert (found.blocks, found.query_blocks) == (16, 4)
    found = scaling("score", on=toys.CPU, n=2**17, m=2**17, d=4, at_data=True)
    assert (found.blocks, found.query_blocks) == (4, 4)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"op": "kendalltau"}, ValueError, "op must be one of debias, .*sd_kde, which take Dask arrays; got 'kendallt"),
        ({"op": None}, ValueError, "op must be one of"),
        ({"workers": 0}, ValueError, "workers must be at least 1; got 0"),
        ({"workers": 2**62}, ValueError, "workers must be at most 65,536; got 4611686018427387904"),
        ({"blocks": 10**30}, ValueError, "blocks must be at most 100, a row each"),
        ({"overhead": 10**400}, ValueError, "overhead must be finite"),
        ({"n": 10**400}, ValueError, "n must be finite"),
        ({"n": 10**30}, ValueError, "blocks must be at most 65,536; got [0-9,]+ for [0-9,]+ rows: make them larger"),
        ({"workers": 1.5}, TypeError, "workers must be an integer"),
        ({"blocks": 0}, ValueError, "blocks must be at least 1"),
        ({"blocks": 101}, ValueError, "blocks must be at most 100, a row each; got 101"),
        ({"query_blocks": 11}, ValueError, "query_blocks must be at most 10, a row each"),
        (
            {"at_data": True, "m": 100, "blocks": 4, "query_blocks": 3},
            ValueError,
            "query_blocks must be left out, or 4",
        ),
        ({"bandwidth": 0}, ValueError, "bandwidth must be positive"),
        ({"bandwidth": math.nan}, ValueError, "bandwidth must be positive"),
        ({"latency": -1}, ValueError, "latency must be at least 0"),
        ({"overhead": math.inf}, ValueError, "overhead must be finite"),
        ({"overhead": "1 ms"}, TypeError, "overhead must be a number"),
        ({"k": 3}, ValueError, "kde takes the sizes d, m, n"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        tools_scaling.scaling(**({"op": "kde", "gpu": H200, "workers": 2, "n": 100, "m": 10, "d": 3} | options))


# --- beside the graph that runs --------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "q"), [(1, 1), (4, 3), (12, 5), (40, 30)])
def test_tasks_of_a_graph(k: int, q: int) -> None:
    da = pytest.importorskip("dask.array", reason="no Dask: install the dask extra")
    X, Y = (make((rows * 10, 3), chunks=(10, 3)) for make, rows in ((da.zeros, k), (da.ones, q)))
    layers = cukde.kde(X, Y, 1.0).__dask_graph__().layers
    tasks = sum(len(layer) for name, layer in layers.items() if name.startswith("cukde-"))
    assert scaling("kde", blocks=k, query_blocks=q, n=10 * k, m=10 * q, d=3).tasks == tasks


@pytest.mark.parametrize(("dtype", "columns"), [("float32", 0), ("float64", 0), ("float64", 3)])
def test_bytes_of_sums(dtype: str, columns: int) -> None:
    from cukde.density.arguments import prepare

    X = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype)
    problem, _ = prepare(X, X[:7], 1.0)
    sums = problem.sums("moments" if columns else "sum")
    held = sum(a.nbytes for a in sums if a is not None)
    op = "score" if columns else "kde"
    assert 7 * dask_stages._bytes_of_sums(op, {"d": 3, "dtype": dtype}) == held
