"""The soak benchmark: what it counts, and that it finds what it is for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import soak
from benchmarks.soak import Sample, Soak
from cukde import perf
from tests.public_calls import CALLS, Call, sandbox


def run(names: list[str], seconds: float = 0.3) -> Soak:
    with sandbox():
        made = Soak(seconds, gpu=False, names=names)
        made.run()
    return made


def test_good_and_malformed_calls_from_several_threads() -> None:
    made = run(["kde", "pwpa", "bandwidth.scott", "PiecewisePolynomial"])
    assert made.failures == {}
    assert made.drifted == 0
    assert made.calls > made.errors > 0
    assert {name for name, _ in made._answers} == {"kde", "pwpa", "bandwidth.scott", "PiecewisePolynomial"}


def test_other_bits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()
    monkeypatch.setitem(CALLS, "kde", lambda a: Call(lambda *_, **__: np.float64(next(count))))
    made = run(["kde"], 0.1)
    assert made.drifted > 0
    assert "other bits than the first answer" in made.verdicts()[0]


def test_failures_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setitem(CALLS, "kde", lambda a: Call(fails))
    made = run(["kde"], 0.1)
    assert sum(made.failures.values()) == made.calls > 0
    assert set(made.failures) == {"kde: ZeroDivisionError: by zero"}


def test_memory_that_grows_is_found() -> None:
    made = Soak(10.0, gpu=False)
    made.device_growth_mb = 0.0
    made.samples = [Sample(t, 100.0 + (20 if t > 6 else 0), 0.0) for t in range(10)]
    assert made.halves() == (100.0, 120.0)
    assert made.verdicts() == ["resident memory grew from 100.0 to 120.0 MB"]
    made.samples = [Sample(t, 300.0 if t < 2 else 100.0, 0.0) for t in range(10)]  # what compiles is not counted
    assert made.verdicts() == []
    made.device_growth_mb = 1.0
    assert made.verdicts() == ["1.000 MB of the device are still in use"]


def test_answers_are_told_apart_by_their_bits() -> None:
    a = np.arange(3.0)
    same = [a, a.copy(), a[::-1][::-1]]
    assert len({soak.digest(each) for each in same}) == 1
    others = [a, a.astype(np.float32), a[:, None], np.nextafter(a, 9), (a, a), {"a": a}, 1.0, None, ValueError("a")]
    assert len({soak.digest(each) for each in others}) == len(others)


def test_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Soak.__init__, "__kwdefaults__", Soak.__init__.__kwdefaults__ | {"names": ("kde", "score")})
    path = tmp_path / "soak.json"
    assert soak.main(["--minutes", "0.005", "--record", str(path)]) == 0
    assert "nothing failed" in capsys.readouterr().out
    row = perf.read_record(path)["rows"][0]
    assert row["op"] == "soak"
    assert row["calls"] > 0
    assert row["failures"] == {}
