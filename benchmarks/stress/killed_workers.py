"""Random calls on a Dask cluster of two workers, one of which is killed in the middle, beside plain arrays.

    python -m benchmarks.stress.killed_workers --cases 30

Calls are those of ``benchmarks/density/any_case.py`` in blocks. Each is computed three times: the second time tells how
long it takes, the third time a worker gets SIGKILL after a part of that, drawn at random. Each case has a new cluster.
The exit status is 0 if all results are those of plain arrays in memory.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from benchmarks import record
from benchmarks.density import any_case

_PAIRS, _LARGEST, _BLOCKS = 1e7, 60_000, 6
_LIMIT_S = 120.0


def difference(lazy: Any, plain: Any) -> float:
    """The largest difference of two results, over what is promised of either."""
    worst = 0.0
    for a, b in zip(*((each if isinstance(each, tuple | list) else (each,)) for each in (lazy, plain)), strict=True):
        scale = 2e-5 if b.dtype == np.float32 else 2e-12
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))  # infinite ones, too
        off = np.where(same, 0.0, abs(a - b)) / (scale * (1 + abs(b) + np.abs(b[np.isfinite(b)]).max(initial=0.0)))
        worst = max(worst, float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)))
    return worst


def row(client: Client, number: int) -> dict[str, Any]:
    """One case."""
    case = any_case.case(number, _PAIRS, _LARGEST)
    X, Y, h, options = any_case.arrays(case)
    rng, plain = np.random.default_rng([number, 9]), any_case.call(case, X, Y, h, options, log=True)()

    def made() -> Any:
        x = da.from_array(X, chunks=(-(-len(X) // _BLOCKS), -1), name=False)  # a name of its own: computed anew
        y = x if Y is X else da.from_array(Y, chunks=(-(-len(Y) // 2), -1), name=False)
        return client.persist(any_case.call(case, x, y, h, options, log=True)())

    workers = sorted(client.run(os.getpid).values())
    wait(made(), timeout=_LIMIT_S)  # which may compile
    begun = time.perf_counter()
    lazy = made()
    wait(lazy, timeout=_LIMIT_S)
    seconds = time.perf_counter() - begun
    worst = difference(client.gather(client.compute(lazy)), plain)
    after = float(rng.uniform(0, seconds))
    lazy = made()
    time.sleep(after)
    running = any(future.status == "pending" for future in client.futures_of(lazy))
    os.kill(int(rng.choice(workers)), signal.SIGKILL)
    worst_killed = difference(client.gather(client.compute(lazy), errors="raise"), plain)
    found = {"case": case._asdict(), "seconds": seconds, "killed_after": after, "was_running": running}
    return found | {"difference": worst, "difference_killed": worst_killed}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = record.arguments("stress.killed_workers", __doc__)
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the first case; otherwise by the time of day")
    options = parser.parse_args(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    rows: list[dict[str, Any]] = []
    quiet: dict[str, Any] = {"dashboard_address": None, "silence_logs": logging.CRITICAL + 1}
    for number in range(seed, seed + options.cases):
        with suppress(KeyError), LocalCluster(2, threads_per_worker=1, **quiet) as cluster, Client(cluster) as client:
            rows.append(found := row(client, number))
            print(f"{number} {found}", flush=True)  # KeyError: of a cluster that closes while a worker starts
    wrong = [each for each in rows if max(each["difference"], each["difference_killed"]) > 1]
    running = sum(each["was_running"] for each in rows)
    print(f"{len(rows)} of {options.cases} cases, {running} killed before they were done, {len(wrong)} wrong")
    made: dict[str, Any] = {"op": "killed workers", "backend": "cpu", "shape": {"cases": len(rows), "seed": seed}}
    made |= {"dtype": "any", "precision": "any", "running": running, "wrong": wrong, "rows": rows}
    record.kept([made], options.record, lambda each: "")
    return int(bool(wrong) or len(rows) < options.cases)


if __name__ == "__main__":
    raise SystemExit(main())
