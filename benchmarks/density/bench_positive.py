"""The positive estimate beside the Laplace-corrected one and the plain one: what its factor costs.

python -m benchmarks.density.bench_positive --record benchmarks/results/NAME.json [--backend gpu]

All three are timed in turns, each by its median; the mass is given. Densities are checked against a float64 oracle
first. ``positive_score`` stands beside ``score``, and ``positive_mass`` by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cukde
from benchmarks.record import Session, line, target
from cukde import perf
from cukde.core import dispatch
from tests import reference

SIZES = {
    "gpu": [(2_048, 256), (65_536, 8_192), (1_048_576, 131_072)],
    "cpu": [(200, 50), (20_000, 2_000)],
}
DIMENSIONS = {"gpu": (1, 2, 3, 8, 16, 64), "cpu": (1, 2, 16)}
_MOST_PAIRS = {"float64": 2**30, "float32": 2**37}
_ROUNDS = 3


def rows(backend: str) -> Iterator[dict[str, Any]]:
    for dtype in ("float32", "float64"):
        for n, m in SIZES[backend]:
            for d in DIMENSIONS[backend]:
                if backend == "cpu" or n * m <= _MOST_PAIRS[dtype]:
                    yield from _case(backend, dtype, n, m, d)


def _case(backend: str, dtype: str, n: int, m: int, d: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng([n, d])
    X, Y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)
    h = float(cukde.bandwidth.positive(X).mean())
    data, queries = (dispatch.named(backend).asarray(a) for a in (X, Y))
    some = slice(None, 8 if n > 2**18 else 64)  # the oracle takes its time
    want = reference.positive(X, Y[some], h).log
    error = np.abs(
        np.expm1(dispatch.to_host(cukde.positive_kde(data, queries, h, mass=1, log=True))[some] - want)
    ).max()
    calls: dict[str, Callable[[], Any]] = {
        "positive_kde": lambda: cukde.positive_kde(data, queries, h, mass=1),
        "laplace_kde": lambda: cukde.laplace_kde(data, queries, h),
        "kde": lambda: cukde.kde(data, queries, h),
    }
    times = in_turns(calls, backend)
    shape = {"n": n, "m": m, "d": d}
    common = {"backend": backend, "shape": shape, "dtype": dtype, "precision": dtype}
    own = common | {"op": "positive_kde", "rel_err_max": float(error)} | times["positive_kde"]
    for name in ("laplace_kde", "kde"):
        yield own | {"peer": {"name": name} | times[name]}
    if n * m <= 2**30:
        others: dict[str, Callable[[], Any]] = {
            "positive_score": lambda: cukde.positive_score(data, queries, h),
            "score": lambda: cukde.score(data, queries, h),
            "positive_mass": lambda: cukde.positive_mass(data, h),
        }
        times = in_turns(others, backend)
        yield common | {"op": "positive_score"} | times["positive_score"] | {"peer": {"name": "score"} | times["score"]}
        yield common | {"op": "positive_mass", "shape": {"n": n, "d": d}} | times["positive_mass"]


def in_turns(calls: dict[str, Callable[[], Any]], backend: str) -> dict[str, dict[str, Any]]:
    """Times of the round with the median of the medians, of some rounds in which the calls take their turns."""
    rounds: dict[str, list[perf.Times]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            rounds[name].append(perf.measure(call, gpu=backend == "gpu", seconds=0.06))
    chosen = {name: sorted(times, key=lambda one: one.median_ms)[_ROUNDS // 2] for name, times in rounds.items()}
    return {
        name: {"median_ms": one.median_ms, "q1_ms": one.q1_ms, "q3_ms": one.q3_ms, "runs": one.runs}
        for name, one in chosen.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=SIZES, default="cpu")
    parser.add_argument("--record", type=target)
    args = parser.parse_args()
    session = Session(args.record)
    done = []
    for row in rows(args.backend):
        print(line(row), flush=True)
        done.append(row)
    session.write(done)


if __name__ == "__main__":
    main()
