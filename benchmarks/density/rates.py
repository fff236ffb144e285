"""The rates of passes over all pairs, measured: what the plans of ``cukde/density/plan`` compare.

    python -m benchmarks.density.rates --backend cpu
    python -m benchmarks.density.rates --backend gpu --write

Each pass is asked for by name (``cukde.core.plan.only``), for sums and for moments, at the numbers of columns of the
table. A rate is the time of a call over its pairs, less what a call of few pairs takes. It is printed beside that of
the table; ``--write`` puts it there. Normal data; of the centred pass Student's t, which it is for. ``--skipping``
prints those of the CPU's pass that leaves out pairs, fitted to calls of many shares; other rates stay as they are.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import cukde
from benchmarks import rounds
from benchmarks.density import any_case
from cukde.core import dispatch
from cukde.core.plan import only, traced
from cukde.density.plan import rates as plan_rates

_SIZES = {"cpu": (20_000, 1_000), "gpu": (200_000, 20_000)}
_SMALL = 5_000, 5_000  # of the one launch for few pairs
_AT_DATA = {"cpu": 9_000, "gpu": 60_000}
_FEW = 50
_RUNS = 5
_COLUMNS, _KINDS = (2, 3, 4, 6, 8, 16, 32, 64), ("normal", "clusters of unequal widths", "a curve")
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
                many, few = (self.seconds(self._at_data(output, rows, d, dtype)) for rows in (n, _FEW))
            else:
                n, m = _SMALL if of == "small" else _SIZES[self.name]
                many, few = (self.seconds(self._at_queries(of, output, rows, m, d, dtype)) for rows in (n, _FEW))
        return _UNIT[self.name] * (many - few) / (n * m)

    def _at_queries(self, of: str, output: str, n: int, m: int, d: int, dtype: str) -> Callable[[], Any]:
        rng = np.random.default_rng([n, d])
        draw = (lambda size: rng.standard_t(3, size)) if of == "centred" else rng.standard_normal
        X, Y = (self.backend.asarray(draw((rows, d)).astype(dtype)) for rows in (n, m))
        h = self._bandwidth(n, d)
        return lambda: (cukde.kde if output == "sum" else cukde.score)(X, Y, h, rtol=0)

    def _at_data(self, output: str, n: int, d: int, dtype: str) -> Callable[[], Any]:
        X = self.backend.asarray(np.random.default_rng([n, d]).standard_normal((n, d)).astype(dtype))
        h = self._bandwidth(n, d)
        return lambda: cukde.kde(X, X, h, rtol=0) if output == "sum" else cukde.debias(X, h, rtol=0)

    def _bandwidth(self, n: int, d: int) -> float:
        """Silverman's; on the CPU one at which all pairs matter, and no query is taken again in double."""
        return _silverman(n, d) if self.name == "gpu" else 0.5 * d**0.5

    def seconds(self, call: Callable[[], Any]) -> float:
        """The least time of a call."""
        return 1e-3 * min([rounds.once(call, self.backend)[0] for _ in range(_RUNS + 2)][2:])


def skipping(runner: Runner) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Rates of passes that leave out pairs, by least squares, and quantiles of fitted times over those measured.

    Of a query, of a box and a column; of pairs that are summed and of these and a column, of moments besides; and of
    pairs that are screened, likewise.
    """
    from scipy.optimize import nnls

    from cukde.density.pairs.cpu.skipping import passes

    rng = np.random.default_rng(0)
    for dtype, once in itertools.product(("float32", "float64"), (False, True)):
        rows = []
        for d, kind, output in itertools.product(_COLUMNS, _KINDS, ("moments",) if once else ("sum", "moments")):
            n, m = (6_000, 6_000) if once else (12_000, 1_500)
            X, Y = (any_case.DATA[kind](k, d, np.random.default_rng(1), rng).astype(dtype) for k in (n, m))
            h = float(np.median(X.std(axis=0)) * _silverman(n, d) * np.exp(rng.uniform(-2.3, 0)))
            call = functools.partial(cukde.kde if output == "sum" else cukde.score, X, X if once else Y, h)
            with only("skipping"), mock.patch.object(passes, "run", wraps=passes.run) as run:
                call()
                task = run.call_args[0][0] if run.called else None
            if task is None:
                continue
            with traced() as ran:
                seconds = runner.seconds(lambda task=task: passes.run(task))
            share, screened = ran[-1].found["share"](), ran[-1].found["screened"]
            of_moments = n * share * (output == "moments" and not once)
            pairs = n * share, n * share * d, of_moments, of_moments * d, n * screened, n * screened * d
            rows.append((1e9 * seconds / m, 1.0, n / 64 * d, *pairs))
        table = np.array(rows)
        scaled = table[:, 1:] / table[:, :1]
        rates, _ = nnls(scaled, np.ones(len(rows)))
        yield f"{dtype}{' once' if once else ''}", rates, np.quantile(scaled @ rates, (0, 0.1, 0.5, 0.9, 1))


def _silverman(n: int, d: int) -> float:
    return float((4 / (d + 2) / n) ** (1 / (d + 4)))


def entries(table: Any) -> Iterator[tuple[str, str, str, int]]:
    """Passes, outputs and numbers of columns of a table, and the part of it in which they stand."""
    for part in ("few pairs", "all pairs"):
        for name, outputs in table.get(part, {}).items():
            if isinstance(outputs, dict):
                for output in outputs.keys() & {"sum", "moments"}:
                    yield from ((part, name, output, d) for d in outputs[output])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density.rates", description=__doc__)
    parser.add_argument("--backend", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--only", nargs="*", help="passes")
    parser.add_argument("--skipping", action="store_true", help="of passes that leave out pairs alone")
    parser.add_argument("--write", action="store_true", help="put the rates into the table")
    asked = parser.parse_args(arguments)
    runner, table = Runner(asked.backend), json.loads(json.dumps(plan_rates.table(asked.backend)))
    if asked.skipping:
        for name, rates, errors in skipping(runner):
            print(f"{name:<14} {rates.round(4).tolist()}  fitted / measured {errors.round(2).tolist()}", flush=True)
        return
    for part, name, output, d in sorted(entries(plan_rates.table(asked.backend))):
        if asked.only and name not in asked.only:
            continue
        before = table[part][name][output][str(d)]
        rate = float(f"{runner.rate(name, output, d):.2g}")
        print(f"{name:<20} {output:<8} d={d:<4} {before:>8.3g} {rate:>8.3g}  {rate / before:.2f}", flush=True)
        table[part][name][output][str(d)] = rate
    if asked.write:
        path = Path(plan_rates.__file__).with_name(f"rates_{asked.backend}.json")
        path.write_text(text_of(table), encoding="utf-8")


def text_of(table: Any) -> str:
    """A table as its file has it: what holds only numbers takes a line."""
    return re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda part: " ".join(part[0].split()), json.dumps(table, indent=1)) + "\n"


if __name__ == "__main__":
    main()
