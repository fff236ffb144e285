"""Coverage of intervals for a density, at points and over a grid, and their time, beside other intervals.

python -m benchmarks.density.bench_intervals --processes 2 --six --rows 500 --record benchmarks/results/NAME.json
python -m benchmarks.density.bench_intervals --backend gpu --processes 14 --six --record benchmarks/results/NAME.json

Six densities in one to three dimensions; every sample chooses its bandwidth by the rule that the guide names: "isj" in
one dimension, least-squares cross-validation in more. Points are drawn from the density and lie where it is among the
highest 80%. A row has the share of samples whose interval of the level 0.95 holds the density: the mean over the
points, and the lowest of one. Beside ours, with the same bandwidth:

- "wald": our estimate, plus and minus 1.96 standard errors;
- "naive": the plain kernel estimate, plus and minus 1.96 of its own, with its bias;
- "rbc": robust bias correction by the Epanechnikov kernel and the best kernel of its second derivative, with rho = 1,
  as the R package nprobust has it, from the formulas of Calonico, Cattaneo and Farrell (2018), with the bandwidth of
  the same leading squared error; in one dimension.

"more" densities are correlated, or have peaks so narrow that few rows tell a bandwidth of them.
"""

from __future__ import annotations

import argparse
import importlib
import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import cukde
from benchmarks import record
from benchmarks.bandwidth.normal_mixtures import MARRON_WAND, Mixture, balls

LEVEL, POINTS, INSIDE = 0.95, 12, 0.8
GRID, DRAWS_OF_SUP = 64, 500  # of simultaneous intervals, in one dimension
Z = float(stats.norm.ppf(0.5 + LEVEL / 2))
_TO_EPANECHNIKOV = (0.6 / 0.2**2 * 2 * math.sqrt(math.pi)) ** 0.2  # 2.21 standard deviations of the normal kernel


class Density(NamedTuple):
    """A density in d dimensions."""

    name: str
    sample: Callable[[int, np.random.Generator], np.ndarray]  # (n, d)
    at: Callable[[np.ndarray], np.ndarray]  # at the rows of (m, d)
    six: bool


def densities(d: int) -> Iterator[Density]:
    """The six, and more."""
    scales = Mixture("two scales", np.array([2 / 3, 1 / 3]), np.zeros((2, 1)), np.array([[1.0], [0.25]]))
    of = {each.name: each for each in (*MARRON_WAND, scales)}
    six = ("normal", "skewed unimodal", "bimodal", "separated bimodal", "two scales")
    for name in (*six, "skewed bimodal", "trimodal", *(["claw"] if d == 1 else [])):
        one = balls(of[name], d)
        yield Density(name, one.sample, one.density, name in six)
    student = stats.multivariate_t(np.zeros(d), np.eye(d), df=5)
    yield Density("Student, 5 degrees", _rows(student, d), lambda y: np.reshape(student.pdf(y), -1), six=True)
    if d > 1:
        normal = stats.multivariate_normal(np.zeros(d), 0.2 * np.eye(d) + 0.8)
        yield Density("correlated normal", _rows(normal, d), normal.pdf, six=False)


def _rows(of: Any, d: int) -> Callable[[int, np.random.Generator], np.ndarray]:
    return lambda n, rng: np.reshape(of.rvs(n, random_state=rng), (n, d))


def bandwidth(X: Any) -> Any:
    """The bandwidth by the rule of the guide, on the host."""
    if X.shape[1] == 1:
        return cukde.bandwidth.isj(X)
    return cukde.bandwidth.cross_validate(X, objective="least_squares").bandwidth


def naive(X: Any, Y: Any, h: Any, xp: ModuleType) -> tuple[Any, Any]:
    """The plain estimate and its standard error: the square of the kernel is one of h / sqrt(2)."""
    n, d = X.shape
    p = cukde.kde(X, Y, h)
    square = cukde.kde(X, Y, h / math.sqrt(2)) / ((4 * math.pi) ** (d / 2) * h.prod())
    return p, xp.sqrt(xp.maximum(square - p * p, 0) / (n - 1))


def rbc(X: Any, Y: Any, h: Any, xp: ModuleType) -> tuple[Any, Any]:
    """The estimate by K - (mu_2 / 2) L'', of the Epanechnikov kernel K, and its standard error, for one column."""
    b = _TO_EPANECHNIKOV * h
    u = (Y - X.T) / b
    kernel = 0.75 * (1 - u * u) - 0.1 * 105 / 16 * (6 * u * u - 5 * u**4 - 1)
    terms = xp.where(abs(u) < 1, kernel, 0.0) / b
    return terms.mean(axis=1), terms.std(axis=1, ddof=1) / math.sqrt(len(X))


def coverage(of: Density, d: int, n: int, draws: int, xp: ModuleType) -> dict[str, Any]:
    """Shares of samples whose intervals hold the density."""
    rng = np.random.default_rng([51, d, n])
    pool = of.sample(4000, rng)
    p = of.at(pool)
    chosen = np.flatnonzero(p >= np.quantile(p, 1 - INSIDE))[:POINTS]
    Y, truth = xp.asarray(pool[chosen]), xp.asarray(p[chosen])
    held: dict[str, list[Any]] = {}
    widths, start = [], time.perf_counter()
    for _ in range(draws):
        X = xp.asarray(of.sample(n, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            h = bandwidth(X)
        found = cukde.density_interval(X, Y, h, LEVEL)
        held.setdefault("ours", []).append((found.low <= truth) & (truth <= found.high))
        widths.append((found.high - found.low) / truth)
        others = {"wald": (found.estimate, found.standard_error), "naive": naive(X, Y, h, xp)}
        if d == 1:
            others["rbc"] = rbc(X, Y, h, xp)
        for name, (estimate, error) in others.items():
            held.setdefault(name, []).append(abs(estimate - truth) <= Z * error)
    row: dict[str, Any] = {"op": "density_interval", "density": of.name, "six": of.six, "shape": [n, POINTS, d]}
    for name, each in held.items():
        share = xp.stack(each).mean(axis=0)
        row |= {name: float(share.mean()), f"{name}_lowest": float(share.min())}
    width = float(xp.median(xp.stack(widths)))
    return row | {"relative_width": width, "draws": draws, "seconds": round(time.perf_counter() - start, 1)}


def band(of: Density, n: int, draws: int, xp: ModuleType) -> dict[str, Any]:
    """The share of samples that have all densities over a grid within their intervals, in one dimension."""
    rng = np.random.default_rng([51, n])
    ends = np.quantile(of.sample(100_000, rng), [0.05, 0.95])
    grid = np.linspace(*ends, GRID)[:, None]
    Y, truth = xp.asarray(grid), xp.asarray(of.at(grid))
    all_held, each_held = 0, 0
    for _ in range(draws):
        X = xp.asarray(of.sample(n, rng))
        options = {"simultaneous": True, "draws": DRAWS_OF_SUP, "random_state": rng}
        h = bandwidth(X)
        found, pointwise = cukde.density_interval(X, Y, h, LEVEL, **options), cukde.density_interval(X, Y, h, LEVEL)
        all_held += bool(((found.low <= truth) & (truth <= found.high)).all())
        each_held += bool(((pointwise.low <= truth) & (truth <= pointwise.high)).all())
    row = {"op": "simultaneous intervals", "density": of.name, "six": of.six, "shape": [n, GRID, 1]}
    return row | {"ours": all_held / draws, "pointwise": each_held / draws, "draws": draws}


def plain(X: Any, Y: Any, h: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Estimates and standard errors as a user of NumPy or CuPy writes them, in blocks of queries."""
    d, out = X.shape[1], []
    for y in xp.array_split(Y, max(1, len(X) * len(Y) // 2**24)):
        exponents = ((((y[:, None] - X) / h) ** 2).sum(axis=2)) / 2
        narrow, wide = (
            xp.exp(-exponents / s**2) / ((2 * math.pi) ** (d / 2) * s**d * float(h.prod())) for s in (2**-0.25, 2**0.25)
        )
        terms = 2 * narrow - wide
        out.append((terms.mean(axis=1), terms.std(axis=1, ddof=1) / math.sqrt(len(X))))
    return tuple(map(xp.concatenate, zip(*out, strict=True)))  # type: ignore[return-value]


def timed(d: int, n: int, m: int, xp: ModuleType, wait: Callable[[], None]) -> dict[str, Any]:
    """Seconds of a call, and of the same by arrays; the best of three."""
    rng = np.random.default_rng(d)
    X, Y = xp.asarray(rng.normal(size=(n, d))), xp.asarray(rng.normal(size=(m, d)))
    h = cukde.bandwidth.silverman(X)
    calls = {"ours_s": lambda: cukde.density_interval(X, Y, h)[2:4], "plain_s": lambda: plain(X, Y, h, xp)}
    (p, e), (want, error) = (call() for call in calls.values())
    row: dict[str, Any] = {"op": "density_interval, time", "shape": [n, m, d]}
    row |= {"error": float(abs(p / want - 1).max()), "error_of_error": float(abs(e / error - 1).max())}
    for name, call in calls.items():
        best = math.inf
        for _ in range(3):
            wait()
            start = time.perf_counter()
            call()
            wait()
            best = min(best, time.perf_counter() - start)
        row[name] = best
    return row


class Cell(NamedTuple):
    """What makes a row: the time of a call, or shares at points or over a grid of a density, by its place in a list."""

    kind: str
    d: int
    n: int
    density: int
    draws: int
    backend: str

    def row(self) -> dict[str, Any]:
        """Run it."""
        xp = importlib.import_module("numpy" if self.backend == "cpu" else "cupy")
        also = {"backend": self.backend, "dtype": "float64", "precision": "float64"}
        if self.kind == "time":
            wait = (lambda: None) if self.backend == "cpu" else xp.cuda.Device().synchronize
            return timed(self.d, self.n, 1000, xp, wait) | also
        of = list(densities(self.d))[self.density]
        found = (
            band(of, self.n, self.draws, xp) if self.kind == "band" else coverage(of, self.d, self.n, self.draws, xp)
        )
        return found | also


def cells(chosen: argparse.Namespace) -> Iterator[Cell]:
    """All of a run; times only where nothing else runs beside them."""
    for d in chosen.dimensions:
        if chosen.processes == 1:
            yield Cell("time", d, 100_000, 0, 0, chosen.backend)
        wanted = [k for k, each in enumerate(densities(d)) if each.six or not chosen.six]
        for kind in ("band", "points") if d == 1 else ("points",):
            for n in chosen.rows:
                yield from (Cell(kind, d, n, k, chosen.draws, chosen.backend) for k in wanted)


def rows(of: list[Cell], processes: int) -> Iterator[dict[str, Any]]:
    """Run cells, in so many processes."""
    if processes == 1:
        yield from map(Cell.row, of)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(Cell.row, of)


def text(row: dict[str, Any]) -> str:
    """A row for people."""
    shown = (f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, float))
    return f"{row['op']}, {row.get('density', '')} {row['shape']}: {', '.join(shown)}"


def main() -> None:
    """Run from a shell."""
    parser = record.arguments("density.bench_intervals", __doc__)
    parser.add_argument("--backend", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--draws", type=int, default=2000, help="samples of a row; of 200 shares are good to 0.015")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2_000, 10_000], help="of the samples")
    parser.add_argument("--six", action="store_true", help="leave out the densities that are more than the six")
    parser.add_argument(
        "--processes", type=int, default=1, help="each with a thread; nothing is timed if more than one"
    )
    chosen = parser.parse_args()
    if chosen.processes > 1:  # which spawned processes read
        os.environ |= dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    record.kept(rows(list(cells(chosen)), chosen.processes), chosen.record, text)


if __name__ == "__main__":
    main()
