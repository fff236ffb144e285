"""The cost of Kendall's tau: the report's table, counts by hand, and times recorded on an H200."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf
from cukde.core.plan import only
from tests.perf.processors import H200
from tests.private import NO_TIES, called, matrix_on_gpu, merge_tiles, sign_chunks

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

CPU = perf.Peaks(
    "two cores", "cpu", {"memory": 1.4e10, "fma": 1.4e11, "scalar": 4.3e9}, 0, 2, 3e9, 2**25, (0, 0), "measured"
)


@pytest.mark.parametrize(
    ("gpu", "compute", "memory", "whole"),
    [
        ("TITAN Black", 0.24, 5.89, 10.89),
        ("TITAN X", 0.20, 5.88, 10.88),
        ("TITAN V", 0.08, 3.03, 8.03),
        ("RTX 2080 Ti", 0.09, 3.21, 8.21),
        ("RTX 4070", 0.04, 3.93, 8.93),
    ],
)
def test_the_report_s_table_to_its_digits(gpu: str, compute: float, memory: float, whole: float) -> None:
    of = perf.predict("kendall_matrix", gpu, n=100, p=5, q=5)
    assert (of.cost.pairs, of.cost.textbook_flops, of.cost.textbook_bytes) == (123_750, 1_237_500, 1_980_000)
    got = (of.report_compute, of.report_memory, of.report_seconds)
    assert [f"{1e6 * seconds:.2f}" for seconds in got] == [f"{x:.2f}" for x in (compute, memory, whole)]


def test_the_textbook_visits_all_pairs_of_columns_and_ours_half_of_them() -> None:
    own, other = (
        perf.cost("kendall_matrix", H200, n=1000, p=512),
        perf.cost("kendall_matrix", H200, n=1000, p=512, q=512),
    )
    assert own.pairs == other.pairs == 512**2 * 1000 * 999 / 2
    tiles = 4 * 5 / 2, 4 * 4  # of 128 x 128; 32 blocks of 32 samples
    pairs = 32 * 33 / 2 * 32**2
    assert [of.work("tensor_b1") for of in (own, other)] == [2 * 128**2 * count * pairs for count in tiles]


def test_ties_take_three_products_of_bits_and_two_of_bytes() -> None:
    blackwell = perf.Peaks(**{**vars(H200), "capability": (10, 0)})
    for on, unit, times in ((H200, "tensor_b1", 3), (blackwell, "tensor_s8", 2)):
        once, twice = (perf.cost("kendall_matrix", on, n=1000, p=600, ties=ties) for ties in (False, True))
        assert 0 < times * once.work(unit) == twice.work(unit)  # type: ignore[arg-type]


def test_the_way_is_that_of_the_library() -> None:
    """Products where they pay; sorting elsewhere, and on devices without products of integers."""
    for p, n, capability in ((1000, 1000, (9, 0)), (2, 32_000, (9, 0)), (1000, 1000, (7, 5)), (64, 70_000, (8, 0))):
        on = perf.Peaks(**{**vars(H200), "capability": capability})
        names = [part.name for part in perf.cost("kendall_matrix", on, n=n, p=p).parts]
        plan = matrix_on_gpu(p, p, n, symmetric=True, wide=True, capability=capability)
        multiplied = plan.first(NO_TIES) == "products"
        assert ("products" in names, "inversions: tiles" in names) == (multiplied, not multiplied)


def test_sorting_passes_over_memory_once_a_merge() -> None:
    """Of 10^6 float64: 4,096 keys of 8 bytes a tile with their order of 4, 245 tiles, and so eight merges."""
    assert merge_tiles.threads(10**6, 8) * merge_tiles.ITEMS == 4096
    merges = next(part for part in perf.cost("kendalltau", H200, n=10**6).parts if part.name == "sort of keys: merges")
    assert (merges.launches, merges.bytes) == (8, 8 * 2 * 10**6 * 2 * 12)


def test_signs_that_the_cache_holds_are_not_in_memory() -> None:
    def memory(n: int) -> list[float]:
        return [part.bytes for part in perf.cost("kendall_matrix", H200, n=n, p=64).parts if part.name == "products"]

    assert memory(1000) == [0]
    assert memory(10_000) == [64 * sum(count for _, count in sign_chunks(10_000, 64, True)) * 1024 / 8]


def test_calls_are_read_without_a_copy() -> None:
    class OnDevice:
        """Has what an array on a GPU has, and no contents."""

        shape, dtype = (500, 7), np.dtype(np.int32)

    def sizes(f: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        return called(f, arguments, options)[1]

    a = OnDevice()
    assert sizes(cukde.kendall_matrix, a) == {"n": 500, "p": 7, "q": None, "dtype": "int32", "ties": True}
    assert sizes(cukde.concordance, a, OnDevice())["q"] == 7
    assert sizes(cukde.kendalltau, a, a) == {"n": 3500, "batch": 1, "dtype": "int32", "ties": True}
    assert sizes(cukde.kendalltau, a, a, axis=0)["batch"] == 7
    assert sizes(cukde.kendalltau, [1.0, 2.0], [2.0, 1.0]) == {"n": 2, "batch": 1, "dtype": "float64", "ties": False}


def _ratio(op: str, on: perf.Peaks, milliseconds: float, **sizes: Any) -> float:
    return 1e3 * perf.predict(op, on, **sizes).seconds / milliseconds


def test_times_recorded_on_an_h200() -> None:
    """Rows above a millisecond, of which host time is little: within 1.25, together within 1.15."""
    pytest.importorskip("cupy", reason="the study's launcher needs CuPy: install the test extra")
    import benchmarks.kendall.study_pairs  # noqa: F401, declares its cost

    ratios = {}
    for row in json.loads((RESULTS / "kendall_h200.json").read_text())["rows"]:
        ties, peer = "ties" in row["shape"], row.get("peer", {})
        sizes = {name: size for name, size in row["shape"].items() if name != "ties"}
        op = "kendall_matrix" if row["op"] == "matrix" else row["op"]
        if row["median_ms"] > 1.08:
            ratios[op, str(row["shape"])] = _ratio(op, H200, row["median_ms"], ties=ties, **sizes)
        if peer.get("name") == "source kernel" and peer["median_ms"] > 1.08:
            of_study = _ratio("study.kendall_pairs", H200, peer["median_ms"], q=sizes["p"], **sizes)
            ratios["study.kendall_pairs", str(row["shape"])] = of_study
    assert len(ratios) == 10
    assert all(0.8 < ratio < 1.25 for ratio in ratios.values())
    assert math.exp(np.mean(np.abs(np.log([*ratios.values()])))) < 1.15


@pytest.mark.parametrize(
    ("products", "n", "p", "milliseconds"),
    [(False, 2000, 512, 13.1), (False, 8000, 512, 57.6), (False, 32_000, 128, 19.6), (True, 32_000, 512, 58.1)],
)
def test_times_of_either_way(products: bool, n: int, p: int, milliseconds: float) -> None:
    """Cells of the table of ``cukde/kendall/plan.py``."""
    with only("products" if products else "sorting"):
        assert 0.8 < _ratio("kendall_matrix", H200, milliseconds, n=n, p=p) < 1.25


def test_a_cpu_counts_by_bits_or_trees_and_pairs_of_one_thread_one_after_the_other() -> None:
    names = [[part.name for part in perf.cost("kendall_matrix", CPU, n=n, p=64).parts] for n in (500, 5000)]
    assert names == [["ranks", "bits", "statistics"], ["ranks", "inversions", "statistics"]]
    one, two = (perf.predict("kendalltau", CPU, n=10**5, batch=batch).parts[-1].seconds for batch in (1, 2))
    assert one == pytest.approx(two, rel=0.01)


def test_bits_take_the_place_of_bytes_where_their_rate_is_not_known() -> None:
    rates = {unit: rate for unit, rate in H200.rates.items() if unit != "tensor_b1"}
    assert perf.Peaks(**{**vars(H200), "rates": rates}).rate("tensor_b1") == 8 * rates["tensor_s8"]
