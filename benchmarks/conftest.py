"""``pytest benchmarks --record FILE`` writes the run's rows as one JSON record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.conftest  # noqa: F401  where no GPU works it sets up Numba, before a benchmark loads it
from benchmarks import record
from benchmarks.peers import Peer
from cukde import perf

_ROWS = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="write the measured rows to this JSON file")
    parser.addoption("--scaling", default="", help="sizes of bench_scaling.py, such as n=100000,m=20000,workers=1+2")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ROWS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[_ROWS]
    if not rows:
        return
    terminalreporter.section("cukde")
    for row in rows:
        terminalreporter.write_line(record.line(row))
    path = config.getoption("--record")
    if path:
        perf.write_record(path, rows)
        terminalreporter.write_line(f"written to {path}")


@pytest.fixture
def compare(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Time a call through pytest-benchmark, its peers beside it in the same run, and keep a row for each.

    A peer is its call and its error, or the reason why there is none; a peer that fails leaves its reason too. A time
    is a part of that of ``calls`` in a row.
    """

    def run(call: Callable[[], Any], row: dict[str, Any], peers: dict[str, Peer | str], calls: int = 1) -> None:
        gpu = row["backend"] == "gpu"
        ours = perf.measure(call, gpu=gpu, calls=calls).row()
        if "m" in row["shape"]:
            ours["pairs_per_s"] = 1e3 * row["shape"]["n"] * row["shape"]["m"] / ours["median_ms"]
        if row.get("bound_ms"):
            ours["bound_fraction"] = row["bound_ms"] / ours["median_ms"]
        # pytest-benchmark's own clock sees no more than the launch on a GPU: events go into extra_info.
        benchmark.pedantic(call, rounds=3, warmup_rounds=0)
        benchmark.extra_info.update(row | ours)
        rows = request.config.stash[_ROWS]
        beside = {name: _beside(name, peer, gpu, calls) for name, peer in peers.items()}
        timed = [measured for measured in beside.values() if "median_ms" in measured]
        if not timed:
            rows.append(row | ours)
        for measured in timed:
            rows.append(row | ours | {"peer": measured})
        for measured in beside.values():
            if measured not in timed:
                rows.append(_named(row) | {"peer": measured})

    return run


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], None]:
    """Keep a row that was measured as it is, of calls too long for the runs of ``compare``."""
    return request.config.stash[_ROWS].append


@pytest.fixture
def without(request: pytest.FixtureRequest) -> Callable[[dict[str, Any], str], None]:
    """Keep a row that says why there is no measurement."""

    def run(row: dict[str, Any], reason: str) -> None:
        request.config.stash[_ROWS].append(_named(row) | {"reason": reason})

    return run


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """What a row is about, without results."""
    return {key: row[key] for key in ("op", "backend", "shape", "dtype", "precision")}


def _beside(name: str, peer: Peer | str, gpu: bool, calls: int = 1) -> dict[str, Any]:
    """A peer's part of a row: its error and times, or the reason why it has none."""
    if isinstance(peer, str):
        return {"name": name, "reason": peer}
    call, error, *part = peer
    try:
        on_gpu = gpu and not name.startswith(("scikit-learn", "SciPy", "pandas"))
        times = perf.measure(call, gpu=on_gpu, most=10, calls=calls).row()
    except Exception as reason:  # ours is measured all the same
        return {"name": name, "reason": record.reason(reason)}
    for taken in part:
        times |= {key: value / taken for key, value in times.items() if key.endswith("_ms")}
        name = f"{name} (from {taken:.2%} of the queries)"
    return {"name": name, "rel_err_max": error} | times
