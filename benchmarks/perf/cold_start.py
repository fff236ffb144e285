"""The first call of a process, with the kernels in caches on disk: what a script waits for beside its work.

python -m benchmarks.perf.cold_start [--cases CASE ...] [--record benchmarks/results/NAME.json]

Each run is a process of its own, in which the arrays are where the call takes them before the clock starts, and CuPy
has its context if that is on the device: a first call cannot be repeated, so the wall clock of each process has its
time, not ``cukde.perf.measure``. A first process, which is not counted, fills the caches. One dimension is by
Numba, whose import is part of the first call.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import record

RUNS = 5

_IMPORTS = {"cukde": "import_ms", "CuPy after it": "import_cupy_ms"}


class Case(NamedTuple):
    backend: str
    n: int
    m: int
    d: int
    h: float
    bar_ms: float
    not_needed: frozenset[str]  # packages that take time to import


CASES = {
    "gpu": Case("gpu", 2048, 256, 16, 0.7, 300.0, frozenset({"numba", "scipy", "sklearn"})),
    "gpu-1d": Case("gpu", 2**20, 2**17, 1, 0.1, 1500.0, frozenset({"sklearn"})),
    "cpu-1d": Case("cpu", 2**20, 2**17, 1, 0.1, 1500.0, frozenset({"cupy", "sklearn"})),
}


def child(case: Case) -> dict[str, float]:
    """Milliseconds of the imports, of the first call and of the next one, in this process."""
    times = {"import_ms": _clock(_import_cukde)}
    if case.backend == "gpu":
        times["import_cupy_ms"] = _clock(_import_cupy)
    import cukde

    x, y, synchronize = _placed(case)
    synchronize()

    def call() -> None:
        cukde.sd_kde(x, y, case.h)
        synchronize()

    times["first_ms"] = _clock(call)
    loaded = case.not_needed & sys.modules.keys()
    assert not loaded, f"the call imports {', '.join(sorted(loaded))}"
    return times | {"next_ms": _clock(call)}


def _data(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, case.d), dtype=np.float32) for rows in (case.n, case.m)]


def _placed(case: Case) -> tuple[Any, Any, Callable[[], None]]:
    """Data and queries where the call takes them, and what waits for it."""
    X, Y = _data(case)
    if case.backend == "cpu":
        return X, Y, lambda: None
    import cupy as cp

    return cp.asarray(X), cp.asarray(Y), cp.cuda.Device().synchronize


def _import_cupy() -> None:
    import cupy  # noqa: F401


def _import_cukde() -> None:
    import cukde  # noqa: F401


def _clock(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def fresh(name: str) -> dict[str, float]:
    """:func:`child` in a new process."""
    command = [sys.executable, "-m", "benchmarks.perf.cold_start", "--child", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


def row(case: Case, runs: Sequence[dict[str, float]], error: float | None) -> dict[str, Any]:
    """The record's row: times of the first call, and medians of what surrounds it."""
    from cukde import perf  # here, so that a child can time its import

    beside = {name: float(np.median([run[name] for run in runs])) for name in sorted(runs[0]) if name != "first_ms"}
    return {
        "op": "sd_kde",
        "backend": case.backend,
        "shape": {"n": case.n, "m": case.m, "d": case.d},
        "dtype": "float32",
        "precision": "float32",
        "rel_err_max": error,
        "timing": "cold",
        **perf.Times.of(run["first_ms"] for run in runs).row(),
        **beside,
    }


def _error(case: Case) -> float:
    """Worst relative error of the same call at some queries, in this process."""
    import cukde
    from tests import reference

    X, Y = _data(case)
    x, y, _ = _placed(case)
    got = np.asarray(cukde.sd_kde(x, y[:64], case.h, log=True).tolist())
    # All pairs of as many points as one dimension has are too many: there the oracle begins with debiased points.
    moved = reference.debias(X, case.h) if case.n < 2**14 else cukde.debias(X.astype("f8"), case.h)
    return float(np.abs(np.expm1(got - reference.log_kde(moved, Y[:64], case.h))).max())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perf.cold_start", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all of them")
    parser.add_argument("--record", type=record.target, help="write the rows to this JSON file")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        print(json.dumps(child(CASES[wanted.child])))
        return
    session = record.Session(wanted.record)
    rows = []
    for name in wanted.cases:
        case = CASES[name]
        fresh(name)
        found = row(case, [fresh(name) for _ in range(RUNS)], _error(case))
        print(record.line(found))
        imports = "".join(f", import of {name} {found[key]:.0f} ms" for name, key in _IMPORTS.items() if key in found)
        print(
            f"the next call {found['next_ms']:.2f} ms{imports}; "
            f"the bar of {case.bar_ms:.0f} ms for the first call is "
            f"{'met' if found['median_ms'] < case.bar_ms else 'MISSED'}"
        )
        rows.append(found)
    session.write(rows)


if __name__ == "__main__":
    main()
