"""The small set beside another commit: what is named slower, and what is not."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from benchmarks import against

BASE, HEAD = Path("base"), Path("head")
SECONDS = {"kde": 2e-3, "cdf": 5e-4, "gelu": 1e-3}
NOISE = 0.03  # of a process, as a part of its times


class Machine:
    """Made-up times: a machine that slows down as it goes on, with noise, and what is slower in the checkout."""

    def __init__(self, slower: dict[str, float], seed: int = 0) -> None:
        self._slower, self._rng = slower, np.random.default_rng(seed)
        self.runs: list[tuple[Path, list[str]]] = []

    def __call__(self, folder: Path, only: Collection[str]) -> dict[str, float]:
        self.runs.append((folder, list(only)))
        drift = 1 + 0.02 * len(self.runs)
        return {
            name: seconds * drift * (self._slower.get(name, 1.0) if folder == HEAD else 1.0) * self._noise()
            for name, seconds in SECONDS.items()
            if not only or name in only
        }

    def _noise(self) -> float:
        return float(np.exp(NOISE * self._rng.standard_normal()))


def compared(machine: against.Run) -> against.Comparison:
    return against.compared(machine, BASE, HEAD, count=6, threshold=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_slowdown_is_named(seed: int) -> None:
    found = compared(Machine({"cdf": 1.25}, seed))
    assert found.slower == ["cdf"]
    assert found.changes["cdf"].ratio == pytest.approx(1.25, rel=3 * NOISE)
    assert "slower than main: cdf" in against.report(found, "main", 0.05)


def test_no_slowdown_is_named_where_there_is_none() -> None:
    named = [name for seed in range(200) for name in compared(Machine({}, seed)).slower]
    assert len(named) <= 2  # of 600


def test_only_what_seems_slower_is_measured_again() -> None:
    machine = Machine({"gelu": 1.5})
    compared(machine)
    first, again = machine.runs[:12], machine.runs[12:]
    assert [folder for folder, _ in first[:4]] == [BASE, HEAD, HEAD, BASE]
    assert all(only == [] for _, only in first)
    assert len(again) == 12
    assert all(only == ["gelu"] for _, only in again)


def test_an_operation_is_slower_only_if_it_is_so_twice() -> None:
    def run(folder: Path, only: Collection[str]) -> dict[str, float]:
        return {"kde": 2.0 if folder == HEAD and not only else 1.0}

    found = compared(run)
    assert found.slower == []
    assert found.changes["kde"].ratio == 1.0


def test_exit_code_says_whether_something_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "unpacked", lambda commit, folder: folder)
    for factor, code in ((1.0, 0), (1.5, 1)):

        def run(folder: Path, only: Collection[str], *options: str, factor: float = factor) -> dict[str, float]:
            return {"kde": factor if folder == against.ROOT else 1.0}

        monkeypatch.setattr(against, "run_set", run)
        assert against.main(["HEAD"]) == code
