"""``pytest benchmarks --record FILE`` writes the run's rows as one JSON record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record, timing

_ROWS = pytest.StashKey[list[dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="write the measured rows to this JSON file")


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
        record.write(path, rows)
        terminalreporter.write_line(f"written to {path}")


@pytest.fixture
def compare(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Time a call through pytest-benchmark, its peers beside it in the same run, and keep a row for each."""

    def run(
        call: Callable[[], Any], row: dict[str, Any], peers: dict[str, tuple[Callable[[], Any], float | None]]
    ) -> None:
        gpu = row["backend"] == "gpu"
        ours = timing.measure(call, gpu=gpu)
        ours["pairs_per_s"] = 1e3 * row["shape"]["n"] * row["shape"]["m"] / ours["median_ms"]
        # pytest-benchmark's own clock sees no more than the launch on a GPU: events go into extra_info.
        benchmark.pedantic(call, rounds=3, warmup_rounds=0)
        benchmark.extra_info.update(row | ours)
        rows = request.config.stash[_ROWS]
        if not peers:
            rows.append(row | ours)
        for name, (peer, error) in peers.items():
            theirs = timing.measure(peer, gpu=gpu and not name.startswith(("scikit-learn", "SciPy")), most=10)
            rows.append(row | ours | {"peer": {"name": name, "rel_err_max": error} | theirs})

    return run
