"""``python -m benchmarks.tune [--out FILE] [--only ENGINE] [--n N] [--m M]``."""

from __future__ import annotations

import argparse
import datetime
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tune import choice, engines
from benchmarks.tune.building import build_all
from cukde import _compile
from cukde.gpu import _device, _tiles

N = M = 65_536
_FEW = 256  # queries, that one shape of a task is chosen for
_REPEATS = 5

Build = Callable[[Sequence[_compile.Kernel]], Mapping[_compile.Kernel, str | None]]
Clock = Callable[[Callable[[], Any], Callable[[], Any]], float]
Say = Callable[[str], None]


def tuned(
    engine: engines.Engine, n: int, m: int, shared_of_multiprocessor: int, build: Build, clock: Clock, say: Say
) -> list[choice.Choice]:
    """Measure the candidates of every task of an engine, each checked against the current choice, and choose.

    ``build`` says what is wrong with kernels; ``clock(call, ahead)`` times a call, and ``ahead`` is what may keep the
    device at work until the call has been launched.
    """
    wanted: dict[Any, dict[Any, tuple[_compile.Kernel, ...]]] = {}
    for task in engine.tasks():
        tiles = [*map(choice.plain, engine.current(task)), *engine.candidates(task, shared_of_multiprocessor)]
        wanted[task] = {tile: engines.kernels(engine, task, tile) for tile in dict.fromkeys(tiles)}
    asked = list(dict.fromkeys(kernel for tiles in wanted.values() for of in tiles.values() for kernel in of))
    useless = {kernel for kernel, reason in build(asked).items() if reason is not None}
    say(f"{engine.name}: {len(asked)} kernels, of which {len(useless)} spill or do not compile")

    choices = []
    for task, tiles in wanted.items():
        useful = [tile for tile, of in tiles.items() if useless.isdisjoint(of)]
        if not useful:
            raise RuntimeError(f"no candidate for {task} is of any use")
        busy, rare = engine.passed(task, n, m), engine.passed(task, n, min(_FEW, m))
        known = busy.run(useful[0])
        ahead = functools.partial(busy.run, useful[0])
        timed = []
        for tile in useful:
            engines.check(task, tile, busy.run(tile), known)
            calls = (functools.partial(each.run, tile) for each in (busy, rare))
            timed.append(choice.Timed(tile, *(clock(call, ahead) for call in calls)))
        choices.append(engine.choose(engine.of(task), engine.current(task), timed))
        say(choice.line(engine.name, choices[-1]))
    return choices


def _milliseconds(call: Callable[[], Any], ahead: Callable[[], Any]) -> float:
    """Time on the device: with something to do before, it waits for no launch of the call."""
    import cupy as cp

    start, stop = cp.cuda.Event(), cp.cuda.Event()
    times = []
    for _ in range(_REPEATS):
        ahead()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, stop))
    return statistics.median(times)


def main() -> None:
    import cupy as cp

    parser = argparse.ArgumentParser(prog="python -m benchmarks.tune", description=__doc__)
    names = [engine.name for engine in engines.ENGINES]
    parser.add_argument("--out", type=Path, help="the table to write; default that of the GPU's architecture")
    parser.add_argument("--only", choices=names, help="tune one engine and leave the others as they are")
    parser.add_argument("--n", type=int, default=N, help="data rows")
    parser.add_argument("--m", type=int, default=M, help="queries that keep the GPU busy")
    wanted = parser.parse_args()

    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.runtime.getDevice())
    shared = int(properties["sharedMemPerMultiprocessor"])
    table = dict(_tiles.table().engines)
    for engine in engines.ENGINES:
        if wanted.only in (None, engine.name):
            choices = tuned(engine, wanted.n, wanted.m, shared, build_all, _milliseconds, print)
            table[engine.name] = [choice.entry(one) for one in choices]
    major, minor = _device.capability()
    path = wanted.out or _tiles.FOLDER / f"sm_{major}{minor}.json"
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    path.write_text(choice.dumps(properties["name"].decode(), date, table))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
