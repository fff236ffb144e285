"""``python -m benchmarks.tune [--out FILE] [--only ENGINE] [--n N] [--m M]``."""

from __future__ import annotations

import argparse
import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import timing
from benchmarks.tune import choice, engines
from benchmarks.tune.building import Kernel, build_all
from cukde.gpu import _device, _tiles

N = M = 65_536
_FEW = 256  # queries, that one shape a task is chosen for

Build = Callable[[Sequence[Kernel]], Mapping[Kernel, str | None]]
Clock = Callable[[Callable[[], None]], float]
Say = Callable[[str], None]


def tuned(
    engine: engines.Engine,
    n: int,
    m: int,
    few: int,
    shared_of_multiprocessor: int,
    build: Build,
    clock: Clock,
    say: Say,
) -> list[choice.Choice]:
    """Measure the candidates of every task of an engine, each checked against the current choice, and choose."""
    wanted = {}
    for task in engine.tasks():
        plain = {tile: None for tile in engine.candidates(task, shared_of_multiprocessor)}
        wanted[task] = list(dict.fromkeys([*map(choice.plain, engine.current(task)), *plain]))
    kernels = dict.fromkeys(k for task, tiles in wanted.items() for tile in tiles for k in engine.kernels(task, tile))
    useless = {kernel for kernel, reason in build(list(kernels)).items() if reason is not None}
    say(f"{engine.name}: {len(kernels)} kernels, of which {len(useless)} spill or do not compile")

    choices = []
    for task, tiles in wanted.items():
        tiles = [tile for tile in tiles if useless.isdisjoint(engine.kernels(task, tile))]
        if not tiles:
            raise RuntimeError(f"no candidate for {task} is of any use")
        busy, rare = engine.passed(task, n, m), engine.passed(task, n, few)
        known = busy.sums(tiles[0])
        timed = []
        for tile in tiles:
            engines.check(task, tile, busy.sums(tile), known)
            timed.append(
                choice.Timed(
                    tile,
                    clock(functools.partial(busy.launch, tile)),
                    clock(functools.partial(rare.launch, tile)),
                )
            )
        choices.append(engine.choose(engine.of(task), engine.current(task), timed))
        say(choice.line(engine.name, choices[-1]))
    return choices


def _milliseconds(call: Callable[[], None]) -> float:
    return float(timing.measure(call, gpu=True, seconds=0.02, most=7)["median_ms"])


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
            choices = tuned(engine, wanted.n, wanted.m, _FEW, shared, build_all, _milliseconds, print)
            table[engine.name] = [choice.entry(one) for one in choices]
    major, minor = _device.capability()
    path = wanted.out or _tiles.FOLDER / f"sm_{major}{minor}.json"
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    path.write_text(choice.dumps(properties["name"].decode(), date, table))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
