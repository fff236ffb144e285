"""Random calls for hours: wrong sums, and growth of memory or of the time of one call.

    python -m benchmarks.stress.soak --seconds 7200
    python -m benchmarks.stress.soak --seconds 7200 --on cpu gpu all --record benchmarks/results/soak_h200.json

Calls are those of ``benchmarks/density/any_case.py``, on the CPU, on a GPU, and on all GPUs where there are several,
with fresh seeds. Each is held against sums in float64 at some queries. After each call the state of the process is
noted: its memory, that of CuPy's pools on all devices, its threads, the objects that Python holds, and the time and the
bits of one and the same call. The exit status is 1 for a wrong sum, changed inputs or bits, or growth: the median of
the last tenth of the run beside that of the second, as code is compiled in the first, beyond ``MAY_GROW``.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import cukde
from benchmarks import record, rounds
from benchmarks.density import any_case
from benchmarks.density.bench_any import oracle
from cukde.core import dispatch

PAIRS = {"cpu": 2e7, "gpu": 4e9, "all": 2e10}
"""Most pairs of a case."""

MAY_GROW = {"host_mb": (1.05, 100.0), "device_mb": (1.0, 64.0), "threads": (1.0, 2.0), "objects": (1.05, 20_000.0)}
MAY_GROW |= {"cpu_ms": (1.5, 1.0), "gpu_ms": (1.5, 0.5), "all_ms": (1.5, 0.5)}
"""By how much a state may grow: a factor and a summand. Captured calls keep memory of devices, up to a number."""


def places() -> list[str]:
    """Where calls can run here."""
    if dispatch.why_no_gpu() is not None:
        return ["cpu"]
    import cupy

    return ["cpu", "gpu", "all"][: 3 if cupy.cuda.runtime.getDeviceCount() > 1 else 2]


class Fixed:
    """One call, made again and again in one place."""

    def __init__(self, place: str) -> None:
        rng = np.random.default_rng(0)
        n = 4_000 if place == "cpu" else 100_000
        self._backend = dispatch.named("cpu" if place == "cpu" else "gpu")
        self._X = self._backend.asarray(rng.standard_normal((n, 8), np.float32))
        self._options: dict[str, Any] = {"devices": "all"} if place == "all" else {}
        self._first: np.ndarray | None = None

    def __call__(self) -> tuple[float, bool]:
        """Milliseconds, the least of three, and whether the result has the bits of the first time.

        On the CPU they are of its threads, so that other processes do not count.
        """
        taken = []
        for _ in range(3):
            begun = time.process_time()
            ms, result = rounds.once(self._call, self._backend)
            taken.append(1e3 * (time.process_time() - begun) if self._backend.xp is np else ms)
        result = self._backend.asnumpy(result)
        self._first = result if self._first is None else self._first
        return min(taken), bool((result == self._first).all())

    def _call(self) -> Any:
        return cukde.sd_kde(self._X, self._X[:2000], 0.5, deterministic=True, **self._options)


def checked(number: int, place: str, largest: int) -> dict[str, Any]:
    """A random call: its case, its error over what is promised, and whether its inputs are as before."""
    backend = dispatch.named("cpu" if place == "cpu" else "gpu")
    case = any_case.case(number, PAIRS[place], largest)
    X, Y, *_ = made = any_case.arrays(case)
    A, B, h, options = any_case.moved(made, backend.asarray)
    more = {"devices": "all"} if place == "all" else {}
    begun = time.perf_counter()
    result = any_case.call(case, A, B, h, options | more, log=True)()
    seconds = time.perf_counter() - begun
    kept = all(np.array_equal(backend.asnumpy(a), b) for a, b in ((A, X), (B, Y)))
    wrong = oracle(case, A, B, h, options, backend.xp)(result)
    return {"place": place, "case": case._asdict(), "seconds": seconds, "error": wrong, "inputs_kept": kept}


class State:
    """What a process holds, and how long the fixed calls take."""

    def __init__(self, where: Sequence[str]) -> None:
        self._fixed = {place: Fixed(place) for place in where}
        self._gpu = where != ["cpu"]

    def now(self) -> tuple[dict[str, float], bool]:
        """Figures, and whether all fixed calls have the bits of their first time."""
        made = {place: fixed() for place, fixed in self._fixed.items()}
        gc.collect()
        figures = {f"{place}_ms": ms for place, (ms, _) in made.items()}
        figures |= {"threads": threading.active_count(), "objects": len(gc.get_objects()), "host_mb": host_mb()}
        if self._gpu:
            figures["device_mb"] = device_mb()
        return figures, all(same for _, same in made.values())


def host_mb() -> float:
    """Memory of this process, in MB of 2^20 bytes; what ended is not given back before the allocator is asked to."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # of the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def device_mb() -> float:
    """What arrays hold of CuPy's pools, of all devices."""
    import cupy

    held, pool = 0, cupy.get_default_memory_pool()
    for number in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(number):
            held += pool.used_bytes()
    return held / 2**20


def growth(states: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Medians of each tenth of the run, and whether the last is more than the second by more than it may be."""
    out = {}
    for name in states[0]:
        parts = np.array_split(np.array([state[name] for state in states]), 10)
        medians = [float(np.median(part)) for part in parts if part.size]
        factor, summand = MAY_GROW[name]
        grown = len(states) >= 100 and medians[-1] > factor * medians[1] + summand
        out[name] = {"tenths": [round(value, 3) for value in medians], "grew": grown}
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    parser = record.arguments("stress.soak", __doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="of the first case; otherwise by the time of day")
    parser.add_argument("--on", nargs="+", choices=tuple(PAIRS), default=None)
    parser.add_argument("--largest", type=int, default=1_000_000, help="most points of a case")
    options = parser.parse_args(arguments)
    where = options.on or places()
    seed, begun = int(time.time()) if options.seed is None else options.seed, time.monotonic()
    state, changed = State(where), 0
    states: list[dict[str, float]] = []
    rows: list[dict[str, Any]] = []
    tell: Callable[..., None] = print
    while time.monotonic() - begun < options.seconds:
        number = seed + len(rows)
        place = random.Random(number).choice(where)
        try:
            row = checked(number, place, options.largest)
        except Exception as failed:  # hours go on
            row = {"place": place, "case": number, "error": math.inf, "inputs_kept": True, "raised": repr(failed)}
        rows.append(row)
        figures, same = state.now()
        states.append(figures)
        changed += not same
        if not (row["error"] <= 1 and row["inputs_kept"]):
            tell(f"WRONG {row}", flush=True)
        if len(rows) % 50 == 0:
            tell(f"{time.monotonic() - begun:.0f} s, {len(rows)} cases", {k: round(v, 1) for k, v in figures.items()})
    grown, wrong = growth(states), [row for row in rows if not (row["error"] <= 1 and row["inputs_kept"])]
    for name, found in grown.items():
        tell(f"{name}: {found['tenths']}{' GREW' if found['grew'] else ''}")
    tell(
        f"{len(rows)} cases on {', '.join(where)} in {options.seconds:g} s: {len(wrong)} wrong, {changed} changed bits"
    )
    shape = {"cases": len(rows), "seed": seed, "largest": options.largest}
    made: dict[str, Any] = {
        "op": "soak",
        "backend": ", ".join(where),
        "shape": shape,
        "dtype": "any",
        "precision": "any",
    }
    made |= {"seconds": options.seconds, "wrong": wrong, "changed_bits": changed, "growth": grown}
    made["worst_error_over_promise"] = max(row["error"] for row in rows)
    record.kept(
        [made], options.record, lambda row: f"worst error: {row['worst_error_over_promise']:.2g} of the promise"
    )
    return int(bool(wrong or changed or any(found["grew"] for found in grown.values())))


if __name__ == "__main__":
    raise SystemExit(main())
