"""Rows of the benchmarks, as they are printed and kept."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record
from benchmarks.record import named
from benchmarks.tools import calibration, records
from tests.benchmarks import untimed

ROW = {
    "op": "sd_kde",
    "backend": "cpu",
    "shape": {"n": 20, "m": 10, "d": 2},
    "dtype": "float32",
    "precision": "float32",
    "rel_err_max": 1e-5,
    "bound_ms": 1.0,
    "bound": "a bound",
}
TIMES = untimed.TIMES.row()

beside = functools.partial(record._beside, gpu=False, calls=1, seconds=0.01)


def test_a_line_says_what_was_measured() -> None:
    row = ROW | TIMES | {"timing": "graph", "peak_mb": 2048.4}
    line = record.line(row | {"peer": {"name": "Rival", "rel_err_max": None} | TIMES})
    for part in (
        "sd_kde",
        "n=20 m=10 d=2",
        "graph",
        "peak 2048 MB",
        "4.000 ms [3.000, 5.000] x7",
        "25% of a bound",
        "1.0 times Rival",
    ):
        assert part in line


def test_a_peer_that_fails_has_a_row_that_says_so() -> None:
    def broken() -> None:
        raise ValueError("no /usr/lib/x86_64/libthing.so\n  of any kind")

    peer = beside("Rival", (broken, 0.0))
    assert peer == {"name": "Rival", "reason": "ValueError: no libthing.so of any kind"}
    row = named(ROW) | {"peer": peer}
    assert "median_ms" not in row
    assert record.line(row).endswith("no row of Rival: ValueError: no libthing.so of any kind")
    assert beside("Other", "absent") == {"name": "Other", "reason": "absent"}


def test_a_peer_that_works_has_its_times() -> None:
    peer = beside("Rival", (lambda: None, 0.5))
    assert peer["rel_err_max"] == 0.5
    assert peer["median_ms"] >= 0
    assert "Rival" in record.line(ROW | TIMES | {"peer": peer})


def test_a_peer_of_some_queries_has_the_times_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    untimed.use(monkeypatch)
    peer = beside("Rival", (lambda: None, 0.5, 0.01))
    assert peer == {"name": "Rival (from 1.00% of the queries)", "rel_err_max": 0.5, "runs": 7} | {
        "median_ms": 400.0,
        "q1_ms": 300.0,
        "q3_ms": 500.0,
        "low_ms": 350.0,
        "high_ms": 450.0,
    }


class TestSession:
    """What the machine is able to do is measured around the rows of a record."""

    def test_before_and_after(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        given: list[Any] = []

        def calibrate(before: Any = None) -> Any:
            given.append(before)
            return {"cpu": {"copy": {"median_ms": 2.0 + len(given)}}}

        monkeypatch.setattr(calibration, "calibrate", calibrate)
        session = record.Session(tmp_path / "run.json")
        assert given == [None]
        session.write([ROW | TIMES])
        assert given == [None, {"cpu": {"copy": {"median_ms": 3.0}}}]
        run = records.read(tmp_path / "run.json")
        assert run["calibration"] == {"cpu": {"copy": {"median_ms": 4.0}}}
        assert run["rows"] == [ROW | TIMES]
