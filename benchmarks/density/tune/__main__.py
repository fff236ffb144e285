"""``python -m benchmarks.density.tune [--out FILE] [--only ENGINE] [--n N] [--m M]``."""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.density.tune import choice, engines
from benchmarks.density.tune.building import build_all, build_everywhere
from cukde.core.gpu import compile as core_compile, device
from cukde.density.pairs.gpu import tiles as pairs_tiles

N = M = 65_536
_FEW = 256  # queries, that one shape of a task is chosen for
_REPEATS = 7  # of candidates that a first look leaves

Build = Callable[[Sequence[core_compile.Kernel]], Mapping[core_compile.Kernel, str | None]]
Clock = Callable[[Callable[[], Any], Callable[[], Any], int], float]
Say = Callable[[str], None]

Asked = dict[tuple[Any, Any], tuple[core_compile.Kernel, ...]]  # by task and tile
Times = dict[Any, list[choice.Timed[Any]]]  # by task


def tuned(
    engine: engines.Engine,
    n: int,
    m: int,
    shared_of_multiprocessor: int,
    build: Build,
    build_everywhere: Build,
    clock: Clock,
    say: Say,
) -> list[choice.Choice]:
    """Measure the candidates of every task of an engine, each checked against the current choice, and choose.

    ``build`` says what is wrong with kernels on this device, ``build_everywhere`` on any; ``clock(call, ahead,
    repeats)`` times a call, and ``ahead`` is what may keep the device at work until the call has been launched.
    """
    asked: Asked = {}
    for task in engine.tasks():
        tiles = [*map(choice.plain, engine.current(task)), *engine.candidates(task, shared_of_multiprocessor)]
        for tile in tiles:
            asked.setdefault((task, tile), engines.kernels(engine, task, tile))
    kernels = list(dict.fromkeys(itertools.chain(*asked.values())))
    useless = {kernel for kernel, reason in build(kernels).items() if reason is not None}
    say(f"{engine.name}: {len(kernels)} kernels, of which {len(useless)} spill or do not compile")

    timed: Times = {}
    for task in dict.fromkeys(task for task, _ in asked):
        useful = [tile for of, tile in asked if of == task and useless.isdisjoint(asked[of, tile])]
        if not useful:
            raise RuntimeError(f"no candidate for {task} is of any use")
        timed[task] = _measured(engine, task, useful, n, m, clock)
    choices = _settled(engine, timed, asked, build_everywhere)
    for one in choices:
        say(choice.line(engine.name, one))
    return choices


def _measured(
    engine: engines.Engine, task: Any, tiles: Sequence[Any], n: int, m: int, clock: Clock
) -> list[choice.Timed[Any]]:
    """Check every candidate and look at it once; return the times of those that deserve more."""
    busy, rare, ahead = (engine.passed(task, n, queries) for queries in (m, min(_FEW, m), max(1, m // 2)))

    def times(tile: Any, repeats: int) -> choice.Timed[Any]:
        calls = (functools.partial(each.run, tile) for each in (busy, rare))
        return choice.Timed(tile, *(clock(call, functools.partial(ahead.run, tiles[0]), repeats) for call in calls))

    known = busy.run(tiles[0])
    for tile in tiles:
        engines.check(task, tile, busy.run(tile), known)
    close = choice.close([times(tile, 1) for tile in tiles], engine.current(task))
    return [times(tile, _REPEATS) for tile in close]


def _settled(engine: engines.Engine, timed: Times, asked: Asked, build_everywhere: Build) -> list[choice.Choice]:
    """Choose, and again without what some architecture has no registers for, until there is nothing of that."""
    while True:
        choices = {task: engine.choose(engine.of(task), engine.current(task), times) for task, times in timed.items()}
        new = {
            (task, tile): asked[task, tile]
            for task, one in choices.items()
            for tile in map(choice.plain, one.after)
            if tile not in map(choice.plain, one.before)
        }
        kernels = list(dict.fromkeys(itertools.chain(*new.values())))
        useless = {kernel for kernel, reason in build_everywhere(kernels).items() if reason is not None}
        dropped = {of for of, its in new.items() if not useless.isdisjoint(its)}
        if not dropped:
            return list(choices.values())
        timed = {task: [one for one in times if (task, one.tile) not in dropped] for task, times in timed.items()}


def _milliseconds(call: Callable[[], Any], ahead: Callable[[], Any], repeats: int) -> float:
    """Time on the device: with something to do before, it waits for no launch of the call.

    Not by ``cukde.perf.measure``, which warms up and runs a call thrice at least: of many candidates most
    deserve one look.
    """
    import cupy as cp

    start, stop = cp.cuda.Event(), cp.cuda.Event()
    times = []
    for _ in range(repeats):
        ahead()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, stop))
    return statistics.median(times)


def main() -> None:
    import cupy as cp

    parser = argparse.ArgumentParser(prog="python -m benchmarks.density.tune", description=__doc__)
    names = [engine.name for engine in engines.ENGINES]
    parser.add_argument("--out", type=Path, help="the table to write; default that of the GPU's architecture")
    parser.add_argument("--only", choices=names, help="tune one engine and leave the others as they are")
    parser.add_argument("--n", type=int, default=N, help="data rows")
    parser.add_argument("--m", type=int, default=M, help="queries that keep the GPU busy")
    wanted = parser.parse_args()

    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.runtime.getDevice())
    shared = int(properties["sharedMemPerMultiprocessor"])
    table = dict(pairs_tiles.table().engines)
    for engine in engines.ENGINES:
        if wanted.only in (None, engine.name):
            choices = tuned(engine, wanted.n, wanted.m, shared, build_all, build_everywhere, _milliseconds, print)
            table[engine.name] = [choice.entry(one) for one in choices]
    major, minor = device.capability()
    path = wanted.out or pairs_tiles.FOLDER / f"sm_{major}{minor}.json"
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    path.write_text(choice.dumps(properties["name"].decode(), date, table))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
