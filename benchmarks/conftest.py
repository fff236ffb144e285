"""``pytest benchmarks --record FILE`` writes the run's rows as one JSON record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tests.conftest  # noqa: F401  where no GPU works it sets up Numba, before a benchmark loads it
from benchmarks import record
from benchmarks.peers import Peer

_ROWS = pytest.StashKey[list[dict[str, Any]]]()
_SESSION = pytest.StashKey[record.Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=record.target, help="write the measured rows to this JSON file")
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
    config.stash[_SESSION].write(rows)


@pytest.fixture(scope="session", autouse=True)
def begun(request: pytest.FixtureRequest) -> None:
    """Measure what the machine is able to do, before the first benchmark."""
    request.config.stash[_SESSION] = record.Session(request.config.getoption("--record"))


@pytest.fixture
def compare(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Time a call through pytest-benchmark, its peers beside it in the same run, and keep a row for each.

    A peer is its call and its error, or the reason why there is none; a peer that fails leaves its reason too. A time
    is a part of that of ``calls`` in a row.
    """

    def run(call: Callable[[], Any], row: dict[str, Any], peers: dict[str, Peer | str], calls: int = 1) -> None:
        def once(ours: dict[str, Any]) -> None:
            # pytest-benchmark's own clock sees no more than the launch on a GPU: events go into extra_info.
            benchmark.pedantic(call, rounds=3, warmup_rounds=0)
            benchmark.extra_info.update(ours)

        request.config.stash[_ROWS].extend(record.compared(call, row, peers, calls=calls, timed=once))

    return run


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], None]:
    """Keep a row that was measured as it is, of calls too long for the runs of ``compare``."""
    return request.config.stash[_ROWS].append


@pytest.fixture
def without(request: pytest.FixtureRequest) -> Callable[[dict[str, Any], str], None]:
    """Keep a row that says why there is no measurement."""

    def run(row: dict[str, Any], reason: str) -> None:
        request.config.stash[_ROWS].append(record.named(row) | {"reason": reason})

    return run
