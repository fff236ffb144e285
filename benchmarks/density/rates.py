"""The rates of passes over all pairs, measured: what the plans of ``cukde/density/plan`` compare.

    python -m benchmarks.density.rates --backend cpu
    python -m benchmarks.density.rates --backend gpu --write

Each pass is asked for by name (``cukde.core.plan.only``), for sums and for moments, at the numbers of columns of the
table. A rate is the time of a call over its pairs, less what a call of few pairs takes. It is printed beside that of
the table; ``--write`` puts it there. Normal data; of the centred pass Student's t, which it is for. Rates of other
passes stay as they are: what leaves out pairs is fitted to calls of many shares.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cukde
from cukde.core import dispatch
from cukde.core.cpu import meanwhile
from cukde.core.plan import only
from cukde.density.plan import rates as plan_rates

_SIZES = {"cpu": (20_000, 1_000), "gpu": (200_000, 20_000)}
_AT_DATA = {"cpu": 9_000, "gpu": 60_000}
_FEW = 50
_RUNS = 5
_UNIT = {"cpu": 1e9, "gpu": 1e12}  # nanoseconds, picoseconds
_AT_THEMSELVES = "each pair once", "f16_symmetric"


class Runner:
    """Measures rates of one backend."""

    def __init__(self, backend: str) -> None:
        self.name, self.backend = backend, dispatch.named(backend)

    def rate(self, name: str, output: str, d: int) -> float:
        """The rate of a pass."""
        dtype = "float64" if "64" in name else "float32"
        of = name.removesuffix(" float64").removesuffix(" float32")
        with only(name if self.name == "gpu" and of == name else of):
            if of in _AT_THEMSELVES:
                n = m = _AT_DATA[self.name]
                many, few = (self._seconds(self._at_data(rows, d, dtype)) for rows in (n, _FEW))
            else:
                n, m = _SIZES[self.name]
                many, few = (self._seconds(self._at_queries(of, output, rows, m, d, dtype)) for rows in (n, _FEW))
        return _UNIT[self.name] * (many - few) / (n * m)

    def _at_queries(self, of: str, output: str, n: int, m: int, d: int, dtype: str) -> Callable[[], Any]:
        rng = np.random.default_rng([n, d])
        draw = (lambda size: rng.standard_t(3, size)) if of == "centred" else rng.standard_normal
        X, Y = (self.backend.asarray(draw((rows, d)).astype(dtype)) for rows in (n, m))
        h = _silverman(n, d)
        return lambda: (cukde.kde if output == "sum" else cukde.score)(X, Y, h, rtol=0)

    def _at_data(self, n: int, d: int, dtype: str) -> Callable[[], Any]:
        X = self.backend.asarray(np.random.default_rng([n, d]).standard_normal((n, d)).astype(dtype))
        h = _silverman(n, d)
        return lambda: cukde.debias(X, h, rtol=0)

    def _seconds(self, call: Callable[[], Any]) -> float:
        taken = []
        for _ in range(_RUNS + 2):
            while meanwhile.compiles():
                time.sleep(0.01)
            self.backend.synchronize()
            start = time.perf_counter()
            call()
            self.backend.synchronize()
            taken.append(time.perf_counter() - start)
        return min(taken[2:])


def _silverman(n: int, d: int) -> float:
    return float((4 / (d + 2) / n) ** (1 / (d + 4)))


def entries(table: Any) -> Iterator[tuple[str, str, int]]:
    """Passes, outputs and numbers of columns of a table."""
    for name, outputs in table["all pairs"].items():
        if isinstance(outputs, dict):
            for output in outputs.keys() & {"sum", "moments"}:
                yield from ((name, output, d) for d in outputs[output])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density.rates", description=__doc__)
    parser.add_argument("--backend", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--only", nargs="*", help="passes")
    parser.add_argument("--write", action="store_true", help="put the rates into the table")
    asked = parser.parse_args(arguments)
    runner, table = Runner(asked.backend), json.loads(json.dumps(plan_rates.table(asked.backend)))
    for name, output, d in sorted(entries(plan_rates.table(asked.backend))):
        if asked.only and name not in asked.only:
            continue
        before = table["all pairs"][name][output][str(d)]
        rate = float(f"{runner.rate(name, output, d):.2g}")
        print(f"{name:<20} {output:<8} d={d:<4} {before:>8.3g} {rate:>8.3g}  {rate / before:.2f}", flush=True)
        table["all pairs"][name][output][str(d)] = rate
    if asked.write:
        path = Path(plan_rates.__file__).with_name(f"rates_{asked.backend}.json")
        path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
