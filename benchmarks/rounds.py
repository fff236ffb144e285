"""Rounds of pytest-benchmark: by its own clock on the CPU, by that of the device on a GPU; and calls one by one.

Its options ``--benchmark-min-rounds`` and ``--benchmark-max-time`` hold for both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks import device_clock

if TYPE_CHECKING:
    from cukde import perf

_WARM_UP = 0.2  # of the rounds: a GPU slows down when it waits
_MOST = 1000  # rounds on a GPU, as far as it needs no more
_BEHIND = 3.0  # how long the device is kept busy, in times of launching
_PLAIN = (str, int, float, bool, type(None))


def describe(benchmark: Any, row: Mapping[str, Any]) -> None:
    """Give a benchmark the group and the parameters of its row, by which pytest-benchmark groups and prints."""
    benchmark.group = f"{row['op']}, {row['backend']}"
    given = {name: value for name, value in (benchmark.params or {}).items() if isinstance(value, _PLAIN)}
    how = {name: row[name] for name in ("dtype", "precision", "timing") if row.get(name)}
    benchmark.params = given | dict(row["shape"]) | how


def timed(
    benchmark: Any, call: Callable[[], Any], *, gpu: bool, calls: int, fewest: int, seconds: float
) -> perf.Times | None:
    """Time a call, and return what the rounds come to; None where benchmarks are disabled: then it is called once.

    On a GPU a round is ``calls`` calls in a row, which begin together if they are several, and ends when the device is
    done. On the CPU pytest-benchmark says how many it takes until its clock can tell.
    """
    if benchmark.disabled:
        benchmark(call)
        return None
    call()  # may compile
    if gpu:
        _on_gpu(benchmark, call, calls, fewest, seconds)
    else:
        benchmark(call)
    from cukde import perf

    return perf.Times.of(1e3 * taken for taken in benchmark.stats.stats.data)


def _on_gpu(benchmark: Any, call: Callable[[], Any], calls: int, fewest: int, seconds: float) -> None:
    from cukde.perf import _clocks

    def some() -> None:
        for _ in range(calls):
            call()

    now = device_clock.clock(_BEHIND * _clocks.launching(some) if calls > 1 else 0.0)
    start = now()
    some()
    taken = now() - start
    rounds = max(fewest, min(_MOST, math.ceil(seconds / max(taken, 1e-6))))
    # A mark would set the clock before the test knows its backend.
    benchmark._timer = now
    benchmark.pedantic(call, rounds=rounds, warmup_rounds=math.ceil(_WARM_UP * rounds), iterations=calls)


def once(call: Callable[[], Any], backend: Any) -> tuple[float, Any]:
    """Milliseconds of a call from Python, until its device has nothing to do, and its result.

    It begins when all is compiled that an earlier call lacked.
    """
    from cukde.core.cpu import meanwhile

    while meanwhile.compiles():
        time.sleep(0.01)
    backend.synchronize()
    start = time.perf_counter()
    result = call()
    backend.synchronize()
    return 1e3 * (time.perf_counter() - start), result
