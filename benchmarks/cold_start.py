"""The first call of a process, with the kernels in CuPy's cache on disk: what a script waits for beside its work.

python -m benchmarks.cold_start [--record benchmarks/results/NAME.json]

Each run is a process of its own, in which CuPy has its context and the arrays are on the device before the clock
starts. A first process, which is not counted, fills the cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record

N, M, D, H = 2048, 256, 16, 0.7
RUNS = 5
BAR_MS = 300.0

_NOT_NEEDED = {"numba", "scipy", "sklearn"}


def child() -> dict[str, float]:
    """Milliseconds of the imports, of the first call and of the next one, in this process."""
    times = {"import_ms": _clock(_import_cukde), "import_cupy_ms": _clock(_import_cupy)}
    import cupy as cp

    import cukde

    rng = np.random.default_rng(0)
    x, y = (cp.asarray(rng.standard_normal((rows, D), dtype=np.float32)) for rows in (N, M))
    synchronize = cp.cuda.Device().synchronize
    synchronize()

    def call() -> None:
        cukde.sd_kde(x, y, H)
        synchronize()

    times["first_ms"] = _clock(call)
    loaded = _NOT_NEEDED & sys.modules.keys()
    assert not loaded, f"a call on the GPU imports {', '.join(sorted(loaded))}"
    return times | {"next_ms": _clock(call)}


def _import_cupy() -> None:
    import cupy  # noqa: F401


def _import_cukde() -> None:
    import cukde  # noqa: F401


def _clock(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def fresh() -> dict[str, float]:
    """:func:`child` in a new process."""
    command = [sys.executable, "-m", "benchmarks.cold_start", "--child"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


def row(runs: Sequence[dict[str, float]], error: float | None) -> dict[str, Any]:
    """The record's row: times of the first call, and medians of what surrounds it."""
    q1, median, q3 = np.percentile([run["first_ms"] for run in runs], [25, 50, 75])
    beside = {
        name: float(np.median([run[name] for run in runs])) for name in ("import_cupy_ms", "import_ms", "next_ms")
    }
    return {
        "op": "sd_kde",
        "backend": "gpu",
        "shape": {"n": N, "m": M, "d": D},
        "dtype": "float32",
        "precision": "float32",
        "rel_err_max": error,
        "timing": "cold",
        "median_ms": float(median),
        "q1_ms": float(q1),
        "q3_ms": float(q3),
        "runs": len(runs),
        **beside,
    }


def _error() -> float:
    """Worst relative error of the same call, in this process."""
    import cupy as cp

    import cukde
    from tests import reference

    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((rows, D), dtype=np.float32) for rows in (N, M))
    got = cukde.sd_kde(cp.asarray(X), cp.asarray(Y), H, log=True).get()
    return float(np.abs(np.expm1(got.astype(np.float64) - reference.sd_kde(X, Y, H, log=True))).max())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold_start", description=__doc__)
    parser.add_argument("--record", type=Path, help="write the row to this JSON file")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        print(json.dumps(child()))
        return
    fresh()
    found = row([fresh() for _ in range(RUNS)], _error())
    print(record.line(found))
    print(
        f"import of cukde {found['import_ms']:.0f} ms, then of CuPy {found['import_cupy_ms']:.0f} ms, "
        f"the next call {found['next_ms']:.2f} ms; "
        f"the bar of {BAR_MS:.0f} ms for the first call is {'met' if found['median_ms'] < BAR_MS else 'MISSED'}"
    )
    if wanted.record:
        record.write(wanted.record, [found])
        print(f"written to {wanted.record}")


if __name__ == "__main__":
    main()
