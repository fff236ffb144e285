"""Two runs beside each other: which rows are the same, what counts as a change, and how it is printed."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.tools import comparison
from benchmarks.tools.comparison import Comparison

RUN: dict[str, Any] = {
    "date": "2026-01-01",
    "commit": "abc",
    "machine": {"gpu": "a GPU", "sm_clock_mhz": 1980},
    "versions": {"numpy": "2.0"},
    "command": "python -m pytest benchmarks",
}


def row(op: str = "kde", median: float = 4.0, spread: float = 0.125, **others: Any) -> dict[str, Any]:
    named = {"op": op, "backend": "gpu", "shape": {"n": 8, "d": 2}, "dtype": "float32", "precision": "float32"}
    return named | {"median_ms": median, "q1_ms": median - spread, "q3_ms": median + spread, "runs": 9} | others


def compare(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Comparison:
    return comparison.compare(RUN | {"rows": old}, RUN | {"rows": new})


def test_a_change_exceeds_the_spread_of_both_runs() -> None:
    old = [row("same"), row("slower"), row("faster"), row("just")]
    new = [row("same", 4.15), row("slower", 4.3), row("faster", 2.0), row("just", 4.25)]
    found = compare(old, new)
    assert [change.op for change in found.rows] == ["same", "slower", "faster", "just"]
    assert [change.op for change in found.slower] == ["slower"]
    assert [change.op for change in found.faster] == ["faster"]
    assert found.faster[0].ratio == 0.5
    assert (found.faster[0].old_ms, found.faster[0].new_ms) == (4.0, 2.0)
    assert (found.only_old, found.only_new, found.warnings, found.peer_ratio) == ((), (), (), None)


def test_neither_quartiles_nor_intervals_may_overlap() -> None:
    """Of three runs the interval is wider than the quartiles; of fifty narrower. Old records have none."""
    wide = {"low_ms": 3.0, "high_ms": 5.0}
    narrow = {"low_ms": 3.99, "high_ms": 4.01}
    assert not compare([row(**wide)], [row(median=4.5)]).slower
    assert not compare([row(**narrow)], [row(median=4.15)]).slower
    (slower,) = compare([row(**narrow)], [row(median=4.5)]).slower
    assert slower.old_spread == (3.875, 4.125)
    assert compare([row(**wide)], [row(median=5.5)]).slower[0].old_spread == (3.0, 5.0)


@pytest.mark.parametrize("other", ["op", "backend", "dtype", "precision", "timing", "shape"])
def test_rows_are_of_the_same_measurement_where_all_names_are(other: str) -> None:
    new = row() | {other: {"n": 9, "d": 2} if other == "shape" else "another"}
    found = compare([row()], [new])
    assert found.rows == ()
    assert found.only_old == ("kde gpu n=8 d=2 float32",)
    assert len(found.only_new) == 1
    assert "no measurement is in both runs" in str(found)


def test_a_measurement_beside_several_rivals_counts_once() -> None:
    def rows(median: float, of_rivals: float) -> list[dict[str, Any]]:
        peers = [{"name": name, "median_ms": times * of_rivals} for name, times in (("A", 1), ("B", 3))]
        return [row(median=median, peer=peer) for peer in (*peers, {"name": "C", "reason": "absent"})]

    found = compare(rows(4.0, 1.0), rows(8.0, 1.1))
    assert len(found.rows) == len(found.slower) == 1
    assert found.peer_ratio == pytest.approx(1.1)
    assert "the rivals in both runs: new / old 1.100" in str(found)


def test_measurements_of_one_name_are_matched_only_where_there_are_as_many() -> None:
    several = [row(median=1.0), row(median=2.0)]
    assert [change.ratio for change in compare(several, [row(median=3.0), row(median=4.0)]).rows] == [3.0, 2.0]
    found = compare(several, [row(median=2.0)])
    assert found.rows == ()
    assert found.warnings == ("2 rows of the old run and 1 of the new are kde gpu n=8 d=2 float32",)
