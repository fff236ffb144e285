"""Both sides of the seams of the plan: sizes, drawn by seeds, at which another pass is asked first.

    python -m benchmarks.density.bench_seams --cases 40
    python -m benchmarks.density.bench_seams --backend cpu --cases 40 --seed 7000 --record benchmarks/results/NAME.json

A density, a score or SD-KDE (of two passes), columns, queries for each point, precision and bandwidth are drawn; then
the number of points at which the plan's first pass changes is found by bisection, for each pair of passes that follow
one another. A row has the time of a call just below and just above that number, and there of each of both passes alone
(``cukde.core.plan.only``; where a pass does not serve there, those that take any data do). What is lost at the seam is
the longer time of the calls beside it over that of the faster pass. Results of both passes agree to what is promised.
The rows with the largest loss are printed last.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

import cukde
from benchmarks import record, rounds
from cukde import perf
from cukde.core import dispatch
from cukde.core.plan import only
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu
from cukde.density.plan.shape import Device, Shape
from cukde.density.sums import Output

_POINTS, _MOST_PAIRS = (30, 3_000_000), {"gpu": 3e11, "cpu": 2e9}
_WORST = 10
_BESIDE = 0.02  # of the points at a seam, that the sizes on its sides are away from it
_TOLERANCE = {"float32": 1e-4, "float64": 1e-10}


class Seam(NamedTuple):
    """Sizes at which another pass is asked first."""

    seed: int
    op: Literal["kde", "score", "sd_kde"]
    n: int  # the least at which it is
    ratio: float  # queries for each point
    d: int
    dtype: str
    factor: float  # of Silverman's bandwidth
    below: str
    above: str

    def shapes(self, n: int, device: Device | None) -> list[Shape]:
        """The passes of ``n`` points; moved points are in double."""
        m, size = max(1, int(self.ratio * n)), 4 if self.dtype == "float32" else 8
        of = functools.partial(Shape, d=self.d, precision=self.dtype, device=device)
        if self.op != "sd_kde":
            output: Output = "sum" if self.op == "kde" else "moments"
            return [of(output, n, m, itemsize=size)]
        return [of("moments", n, n, itemsize=size, itself=True, ratio=True), of("sum", n, m, itemsize=8)]


def first(shapes: Sequence[Shape]) -> str:
    """Name of the pass that is asked first, or of both passes."""
    names = ((plan_cpu if shape.device is None else plan_gpu).plan(shape).names[0] for shape in shapes)
    return "+".join(dict.fromkeys(names))


def seams(seed: int, backend: str, device: Device | None) -> Iterator[Seam]:
    """The seams of drawn calls, by the number of points."""
    rng = random.Random(seed)
    low, high = _POINTS
    drawn = Seam(
        seed,
        rng.choice(("kde", "score", "sd_kde")),
        0,
        10 ** rng.uniform(-2, 1),
        round(2 ** rng.uniform(0, 8)),
        rng.choice(("float32", "float32", "float64")),
        math.exp(rng.uniform(math.log(0.2), math.log(2))),
        "",
        "",
    )
    high = min(high, int(math.sqrt(_MOST_PAIRS[backend] / drawn.ratio / max(1, drawn.d / 32))), int(4e8 / drawn.d))
    sizes = np.unique(np.geomspace(low, high, 60).astype(int)).tolist()
    names = [first(drawn.shapes(n, device)) for n in sizes]
    for i in range(1, len(sizes)):
        if names[i] == names[i - 1]:
            continue
        below, above = sizes[i - 1], sizes[i]
        while above - below > 1:
            middle = (below + above) // 2
            if first(drawn.shapes(middle, device)) == names[i - 1]:
                below = middle
            else:
                above = middle
        yield drawn._replace(n=above, below=names[i - 1], above=first(drawn.shapes(above, device)))


class Runner:
    """Times calls at seams."""

    def __init__(self, backend: str) -> None:
        self.backend = dispatch.named(backend)
        self.gpu = backend == "gpu"

    def row(self, of: Seam) -> dict[str, Any]:
        """The row of a seam."""
        below, above = (max(2, round(of.n * (1 + side))) for side in (-_BESIDE, _BESIDE))
        times = {name: self._timed(self._call(of, n)) for name, n in (("below", below), ("above", above))}
        call, results = self._call(of, of.n), {}
        for name in (of.below, of.above):
            with only(*name.split("+")):
                times[name] = self._timed(call)
                results[name] = np.asarray(self.backend.asnumpy(call()), np.float64)
        a, b = results[of.below], results[of.above]
        scale = np.abs(a).max() if of.op == "score" else np.abs(a)
        agree = float((np.abs(a - b) / np.maximum(scale, 1e-300)).max())
        alone = min(times[name].median_ms for name in (of.below, of.above))
        lost = max(times[side].median_ms for side in ("below", "above")) / alone
        return {
            "op": of.op,
            "backend": "gpu" if self.gpu else "cpu",
            "shape": {"n": of.n, "m": max(1, int(of.ratio * of.n)), "d": of.d},
            "dtype": of.dtype,
            **{name: getattr(of, name) for name in ("seed", "factor", "below", "above")},
            "ms": {name: taken.median_ms for name, taken in times.items()},
            "lost": lost,
            "differ": agree / _TOLERANCE[of.dtype],
        }

    def _call(self, of: Seam, n: int) -> Callable[[], Any]:
        rng, m = np.random.default_rng([of.seed, n]), max(1, int(of.ratio * n))
        X, Y = (self.backend.asarray(rng.standard_normal((rows, of.d)).astype(of.dtype)) for rows in (n, m))
        h = of.factor * (4 / (of.d + 2) / n) ** (1 / (of.d + 4))
        if of.op == "score":
            return lambda: cukde.score(X, Y, h)
        return lambda: (cukde.kde if of.op == "kde" else cukde.sd_kde)(X, Y, h, log=True)

    def _timed(self, call: Callable[[], Any]) -> perf.Times:
        taken: list[float] = []
        rounds.once(call, self.backend)
        while len(taken) < 5 or (len(taken) < 15 and sum(taken) < 100):
            taken.append(rounds.once(call, self.backend)[0])
        return perf.Times.of(taken)


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    shape, ms = row["shape"], row["ms"]
    return (
        f"{row['op']:<6} {shape['n']:>8} / {shape['m']:<7} d={shape['d']:<4} {row['dtype']} x{row['factor']:<5.2f} "
        f"{row['below']:>15} {ms[row['below']]:>8.3f}  {row['above']:>15} {ms[row['above']]:>8.3f} ms; calls "
        f"{ms['below']:.3f} | {ms['above']:.3f}; lost {row['lost']:.2f}, differ {row['differ']:.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = record.arguments("density.bench_seams", __doc__)
    parser.add_argument("--backend", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--cases", type=int, default=40, help="seams")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    wanted = parser.parse_args(arguments)
    session, runner, device = record.Session(wanted.record), Runner(wanted.backend), None
    if wanted.backend == "gpu":
        from cukde.density.pairs.gpu.shape import current

        device = current()
    rows: list[dict[str, Any]] = []
    seed, until = wanted.seed, time.monotonic() + wanted.seconds
    while len(rows) < wanted.cases and time.monotonic() < until:
        for seam in seams(seed, wanted.backend, device):
            rows.append(runner.row(seam))
            print(line(rows[-1]), flush=True)
        seed += 1
    print(f"\nseeds {wanted.seed} to {seed - 1}; {len(rows)} seams; the most that is lost:")
    for row in sorted(rows, key=lambda row: -row["lost"])[:_WORST]:
        print(line(row))
    session.write(rows)


if __name__ == "__main__":
    main()
