"""Benchmarks without their times: what they call is called, and what they would record is kept."""

from __future__ import annotations

from typing import Any

import pytest

from cukde import perf

TIMES = perf.Times(median_ms=4.0, q1_ms=3.0, q3_ms=5.0, low_ms=3.5, high_ms=4.5, runs=7)


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make up the times of one test's benchmarks; what is timed is called once."""

    def measure(call: Any, *args: Any, rotate: Any = ((),), **_: Any) -> perf.Times:
        call(*args, *rotate[0])
        return TIMES

    monkeypatch.setattr(perf, "measure", measure)


class Rows(list[dict[str, Any]]):
    """What the fixture ``compare`` makes of calls, each made for all buffers."""

    def __call__(self, call: Any, row: dict[str, Any], peers: dict[str, Any], calls: int = 1) -> None:
        timed = {name: peer for name, peer in peers.items() if not isinstance(peer, str)}
        for one in (call, *(peer[0] for peer in timed.values())):
            for _ in range(calls):
                one()
        times = perf.measure(call, gpu=True).row()
        self.extend(row | times | {"peer": {"name": name, "rel_err_max": of[1]} | times} for name, of in timed.items())
        self.extend([] if timed else [row | times])
