"""Benchmarks without their times: what they call is called, and what they would record is kept."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import timing


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make up the times of one test's benchmarks; what is timed is called once."""

    def measure(call: Any, **_: Any) -> dict[str, Any]:
        call()
        return {"median_ms": 4.0, "q1_ms": 3.0, "q3_ms": 5.0, "runs": 7}

    monkeypatch.setattr(timing, "measure", measure)


class Rows(list[dict[str, Any]]):
    """What the fixture ``compare`` makes of calls, each made for all buffers."""

    def __call__(self, call: Any, row: dict[str, Any], peers: dict[str, Any], calls: int = 1) -> None:
        timed = {name: peer for name, peer in peers.items() if not isinstance(peer, str)}
        for one in (call, *(peer[0] for peer in timed.values())):
            for _ in range(calls):
                one()
        times = timing.measure(call, gpu=True)
        self.extend(row | times | {"peer": {"name": name, "rel_err_max": of[1]} | times} for name, of in timed.items())
        self.extend([] if timed else [row | times])
