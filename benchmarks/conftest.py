"""``pytest benchmarks --record FILE`` writes the run's rows as one JSON record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tests.conftest  # noqa: F401  where no GPU works it sets up Numba, before a benchmark loads it
from benchmarks import record, rounds
from benchmarks.peers import Peer
from cukde.core.cpu import meanwhile

_ROWS = pytest.StashKey[list[dict[str, Any]]]()
_SESSION = pytest.StashKey[record.Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=record.target, help="write the measured rows to this JSON file")
    parser.addoption("--scaling", default="", help="sizes of bench_scaling.py, such as n=100000,workers=1+2")


def pytest_configure(config: pytest.Config) -> None:
    meanwhile.enabled = False
    config.stash[_ROWS] = []


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """``n=100``, ``shape=512x100x4``, ``names=SciPy+pandas``: a number alone does not say what it is."""
    if isinstance(val, tuple) and all(isinstance(part, int | str) for part in val):
        between = "+" if any(isinstance(part, str) for part in val) else "x"
        return f"{argname}={between.join(map(str, val)) or 'none'}"
    return f"{argname}={val}" if val is None or isinstance(val, int | float) else None


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Saved runs name the GPU, as records do."""
    from benchmarks.tools import records

    machine_info |= {name: value for name, value in records.machine().items() if name in ("gpu", "driver")}


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

    The row's times are those of pytest-benchmark's rounds. A peer is its call and its error, or the reason why there is
    none; a peer that fails leaves its reason too. A time is a part of that of ``calls`` in a row.
    """
    option = request.config.getoption

    def run(call: Callable[[], Any], row: dict[str, Any], peers: dict[str, Peer | str], calls: int = 1) -> None:
        rounds.describe(benchmark, row)
        least, longest = option("benchmark_min_rounds"), float(option("benchmark_max_time"))
        gpu = row["backend"] == "gpu"
        times = rounds.timed(benchmark, call, gpu=gpu, calls=calls, fewest=least, seconds=longest)
        if times is None:
            return
        rows = record.compared(call, row, peers, calls=calls, times=times)
        benchmark.extra_info.update({name: value for name, value in rows[0].items() if name != "peer"})
        request.config.stash[_ROWS].extend(rows)

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
