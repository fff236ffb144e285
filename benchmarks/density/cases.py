"""Densities beside their rivals, on the CPU and on a GPU: calls, and checked rows.

Data are a standardised mixture of eight normals in ``d`` columns, or that of the oracle study in one. The error of a
row is against float64 (:class:`benchmarks.sources.truth.Truth`), unless a function says otherwise.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cukde
from benchmarks import memory, peers
from benchmarks.density import points, variants
from benchmarks.peers import Peer
from benchmarks.record import Case, checked
from benchmarks.sources import measured, oracle_study
from benchmarks.sources.estimates import laplace_in_two_passes
from benchmarks.sources.truth import Task, Truth
from cukde import perf
from cukde.core.dispatch import named, to_host
from tests import reference
from tests.tolerances import DENSITY, GRID

_EXPONENTIALS = 4.18e12  # of an H200 in a second
_BOUND = "one exponential an ordered pair, H200"
_CHECKED = 200  # queries, where NumPy sums over all rows

HOW: dict[str, dict[str, Any]] = {
    "": {},
    "deterministic": {"deterministic": True},
    "all pairs": {"rtol": 0},
    "graph": {"check_finite": False},
}
"""Options of a call, by what a row says of them."""

OWN: dict[str, Callable[..., Any]] = {
    "two passes": variants.laplace_kde_in_two_passes,
    "kernel sums": lambda X, Y, h: laplace_in_two_passes(X[:, None], Y[:, None], h, precision="ieee"),
    "cukde sd_kde": lambda X, Y, h: cukde.sd_kde(X, Y, h, precision="ieee"),
    "cukde kde": cukde.kde,
}
"""Other ways of this library that stand beside a call."""


def density(
    backend: str,
    op: str,
    n: int,
    m: int,
    d: int,
    precision: str = "float32",
    names: tuple[str, ...] = (),
    how: str = "",
    factor: float = 1.0,
) -> Case:
    """A density or score at a multiple of Silverman's bandwidth; in one dimension of the rivals' own."""
    task = _task(n, m, d, "float64" if precision == "float64" else "float32", factor)
    truth = Truth(task, gpu=backend == "gpu")
    here = task.on_gpu() if backend == "gpu" else task
    call = functools.partial(getattr(cukde, op), *here, precision=precision, **HOW[how])
    row = measured.empty(op, task, backend, f"{precision} {how}".strip()) | {"dtype": str(task.X.dtype)}
    row["rel_err_max"] = truth.check(op, call(), backend, precision)
    if backend == "gpu":
        pairs = n * m + (n * n if op == "sd_kde" else 0)
        row |= {"bound_ms": 1e3 * pairs / _EXPONENTIALS, "bound": _BOUND, "peak_mb": memory.peak_mb(call)}
    others = tuple(name for name in names if name not in OWN)
    beside: dict[str, Peer | str] = peers.rivals(op, others, *here, error=functools.partial(truth.error, op))
    for name in set(names) & OWN.keys():
        of = functools.partial(OWN[name], *here)
        beside[name] = of, truth.error({"cukde sd_kde": "sd_kde", "cukde kde": "kde"}.get(name, op), of())
    if how == "graph":
        return Case(_replayed(call), row | {"timing": "graph"}, {"launched from Python": (call, row["rel_err_max"])})
    return Case(call, row, beside)


def debias(backend: str, n: int, d: int, precision: str, how: str) -> Case:
    """Data that are moved."""
    task = _task(n, _CHECKED, d, "float32", 1.0)
    X = named(backend).asarray(task.X)
    call = functools.partial(cukde.debias, X, task.h, precision=precision, **HOW[how])
    row = measured.empty("debias", task, backend, f"{precision} {how}") | {"shape": {"n": n, "d": d}}
    row["rel_err_max"] = Truth(task, gpu=backend == "gpu").check("debias", call(), backend, precision)
    return Case(call, row, {})


def _task(n: int, m: int, d: int, dtype: str, factor: float) -> Task:
    if d > 1:
        X, Y, h = points.mixture(n, m, d)
    else:
        X, Y = oracle_study.sample(n, 0), oracle_study.sample(m, 1)
        h = 0.4 * float(X.std()) * n ** (-1 / 9)
    return Task(X.astype(dtype), Y.astype(dtype), round(factor * h, 5))


def _replayed(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same call from a CUDA graph, captured with a pool of its own, where its replays write."""
    import cupy as cp

    stream = cp.cuda.Stream(non_blocking=True)
    with stream, cp.cuda.using_allocator(cp.cuda.MemoryPool().malloc):
        call()  # compiles the kernels and fills the pool, neither of which a capture may do
        stream.synchronize()
        stream.begin_capture()
        kept = call()
        graph = stream.end_capture()

    def replay() -> Any:
        graph.launch(cp.cuda.get_current_stream())
        return kept

    return replay


def _row(op: str, backend: str, shape: dict[str, Any], dtype: str, error: float, most: float) -> dict[str, Any]:
    about = {"op": op, "backend": backend, "shape": shape, "dtype": dtype, "precision": dtype, "rel_err_max": error}
    return checked(about, most)


def _off(got: Any, want: np.ndarray) -> float:
    """Worst relative error."""
    return float(np.abs(to_host(got) / want - 1).max())


def distribution(backend: str, op: str, n: int, dtype: str) -> Case:
    """``cdf`` or ``log_cdf`` of a million points, beside SciPy's normal distribution function of some queries."""
    from scipy import special

    X, Y = (oracle_study.sample(n, seed).astype(dtype) for seed in (0, 1))
    h, some = 0.067 * float(X.std()), np.argsort(Y)[:: n // 20]
    below, above = reference.log_distribution(X, Y[some], h)
    want = np.exp(below) if op == "cdf" else np.where(below < -math.log(2), below, np.log1p(-np.exp(above)))
    x, y = (named(backend).asarray(a) for a in (X, Y))
    call = functools.partial(getattr(cukde, op), x, y, h)
    row = _row(op, backend, {"n": n, "m": n, "d": 1}, dtype, _off(call()[some], want), DENSITY["cpu", dtype].value)

    def of_pairs() -> np.ndarray:
        return np.asarray(special.ndtr((Y[some, None] - X) / h).mean(axis=1))

    scipy = {"SciPy ndtr": (of_pairs, _off(of_pairs(), want), len(some) / n)}
    return Case(call, row, scipy if (backend, op) == ("cpu", "cdf") else {})


def kernel_sum(backend: str, n: int, m: int, d: int, dtype: str, names: tuple[str, ...] = ()) -> Case:
    """Sums of one value a point, of either sign; ``m`` of 0 takes the points as queries.

    Errors are relative to the sum of the absolute terms.
    """
    X, Y, h = points.mixture(n, max(m, 1), d)
    V = np.random.default_rng(0).standard_normal(n).astype(dtype)
    X, Y = X.astype(dtype), (Y if m else X).astype(dtype)
    x, v = (named(backend).asarray(a) for a in (X, V))
    y = named(backend).asarray(Y) if m else x
    some = slice(None, None, max(1, len(Y) // _CHECKED))
    want, size = (each[:, 0] for each in reference.kernel_sum(X, V, Y[some], h))

    def error(got: Any) -> float:
        return float((np.abs(to_host(got)[some] - want) / size).max())

    call = functools.partial(cukde.kernel_sum, x, v, y, h)
    most = DENSITY[backend, dtype].value
    row = _row("kernel_sum", backend, {"n": n, "m": len(Y), "d": d, "own": not m}, dtype, error(call()), most)
    return Case(call, row, peers.rivals("kernel_sum", names, x, v, y, h, error=error))


def stack(backend: str, op: str, shape: tuple[int, int, int, int], dtype: str) -> Case:
    """A stack of densities beside a loop of calls; errors are those of its first and last member."""
    b, n, m, d = shape
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(b, n, d)).astype(dtype), rng.normal(size=(b, m, d)).astype(dtype)
    h = rng.uniform(0.8, 1.2, b) * n ** (-1 / (d + 4))
    function, (x, y) = getattr(cukde, op), (named(backend).asarray(a) for a in (X, Y))

    def loop() -> list[Any]:
        return [function(x[i], y[i], float(h[i])) for i in range(b)]

    def error(results: Any) -> float:
        worst = 0.0
        for i in (0, b - 1):
            got, want = to_host(results[i]).astype(np.float64), getattr(reference, op)(X[i], Y[i], h[i])
            of = np.abs(got - want) * h[i] if op == "score" else np.abs(got / want - 1)
            worst = max(worst, float(of.max()))
        return worst

    most = DENSITY["gpu", dtype].value * (30 if op == "sd_kde" else 10 if op == "score" else 1)
    sizes = dict(zip("bnmd", shape, strict=True))
    row = _row(f"{op} of a stack", backend, sizes, dtype, error(function(x, y, h)), most)
    return Case(lambda: function(x, y, h), row, {"a loop of calls": (loop, error(loop()))})


def grid(
    backend: str, n: int, d: int, g: int, dtype: str, names: tuple[str, ...] = (), algorithm: str = "auto"
) -> Case:
    """A product grid from -6 to 6; the error is relative to the largest density."""
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    axes, h = [np.linspace(-6, 6, g).astype(dtype)] * d, float(n ** (-1 / (d + 4)))
    rng = np.random.default_rng(1)
    some = np.concatenate([rng.integers(0, g, (20, d)), rng.integers(2 * g // 5, 3 * g // 5, (20, d))])
    exact = reference.kde(X, np.stack([axes[k][some[:, k]] for k in range(d)], axis=1), h)

    def error(got: Any) -> float:
        return float(np.abs(to_host(got)[tuple(some.T)] - exact).max() / exact.max())

    x = named(backend).asarray(X)
    call = functools.partial(cukde.evaluate_grid, x, axes, h, algorithm=algorithm)
    shape = {"n": n, "m": g**d, "d": d, "algorithm": algorithm}
    row = _row("evaluate_grid", backend, shape, dtype, error(call()), GRID[dtype].value)
    return Case(call, row, peers.rivals("evaluate_grid", names, x, axes, h, error=error))


def tolerance(backend: str, n: int, d: int, dtype: str) -> Case:
    """A density to ``rtol`` 1e-5 beside all pairs; on the CPU those of some queries."""
    rng = np.random.default_rng(d)
    X, Y = (rng.standard_normal((n, d)).astype(dtype) for _ in range(2))
    h, rtol = float((4 / ((d + 2) * n)) ** (1 / (d + 4))), 1e-5
    some = np.argsort((Y * Y).sum(axis=1))[:: n // 100]  # from the middle of the data to the last outside
    want = np.exp(reference.log_kde(X, Y[some], h))
    x, y = (named(backend).asarray(a) for a in (X, Y))
    call = functools.partial(cukde.kde, x, y, h, rtol=rtol)
    most = rtol + DENSITY[backend, dtype].value
    row = _row("kde with rtol", backend, {"n": n, "m": n, "d": d}, dtype, _off(call()[some], want), most)
    part = 1.0 if backend == "gpu" else 4096 / n
    pairs = functools.partial(cukde.kde, x, y[: int(part * n)], h, rtol=0)
    return Case(call, row, {"all pairs": (pairs, _off(cukde.kde(x, y[some], h, rtol=0), want), part)})


def modes(backend: str, n: int, d: int, theirs: bool = False) -> Case:
    """Modes of six normal groups by Silverman's bandwidth, float32, and scikit-learn's ``MeanShift`` once.

    All labels of the first 2,000 rows are those of plain mean shift in float64, a step at a time. The error is the
    largest distance of a mode to where that ends, in bandwidths.
    """
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((6, d))
    X = (centres[rng.integers(6, size=n)] + rng.standard_normal((n, d))).astype(np.float32)
    x, h = named(backend).asarray(X), float(cukde.bandwidth.silverman(X).mean())
    few, found = cukde.modes(x[:2000], h), cukde.modes(x, h)
    z = X[:2000].astype(np.float64)
    left = np.arange(len(z))
    while len(left):
        step = h * h * cukde.score(X[:2000], z[left], h, precision="float64")
        z[left] += step
        left = left[np.linalg.norm(step, axis=1) > 1e-6 * h]
    off = np.linalg.norm(z - to_host(few.points)[to_host(few.labels)], axis=1) / h
    shape = {"n": n, "d": d, "modes": len(found.points), "iterations": found.iterations}
    row = _row("modes", backend, shape, "float32", float(off.max()), 1e-2)
    if theirs:
        from sklearn.cluster import MeanShift

        of = MeanShift(bandwidth=h * np.sqrt(d + 2))  # a flat kernel of the same variance a column
        begun = time.perf_counter()
        of.fit(X)
        taken = perf.Times.of([1e3 * (time.perf_counter() - begun)]).row()
        row["once"] = {"name": f"scikit-learn MeanShift, {len(of.cluster_centers_)} modes"} | taken
    return Case(lambda: cukde.modes(x, h), row, {})


def fitted(backend: str, n: int) -> Case:
    """``KernelDensity`` in three dimensions, fit and score of 1,000 rows, beside scikit-learn's tree; float64."""
    from sklearn.neighbors import KernelDensity

    X, Y, h = points.mixture(n, 1000, 3)
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    x, y = (named(backend).asarray(a) for a in (X, Y))
    want = np.exp(reference.log_kde(X, Y[:_CHECKED], h))

    def error(got: Any) -> float:
        return _off(got[:_CHECKED], want)

    def call() -> Any:
        return cukde.KernelDensity(bandwidth=h).fit(x).score_samples(y)

    logs = to_host(call())
    shape = {"n": n, "m": len(Y), "d": 3}
    row = _row("KernelDensity", backend, shape, "float64", error(np.exp(logs)), DENSITY[backend, "float64"].value)
    row["difference_max"] = float(abs(logs - KernelDensity(bandwidth=h).fit(X).score_samples(Y)).max())
    return Case(call, row, peers.rivals("kde", ("scikit-learn", "scikit-learn, rtol=1e-4"), X, Y, h, error=error))


def search(dtype: str, n: int = 5000, d: int = 8) -> Case:
    """scikit-learn's ``GridSearchCV`` over our estimator and over its own: the best bandwidth must be the same one."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KernelDensity

    bandwidths, folds = [0.25, 0.35, 0.5, 0.7, 1.0], 5
    X = points.mixture(n, 0, d)[0].astype(dtype)

    def run(of: Any) -> Any:
        return GridSearchCV(of(), {"bandwidth": bandwidths}, cv=folds).fit(X)

    def error(of: Any) -> float:
        data, y = X[n // folds :], X[:_CHECKED]
        off = (of(bandwidth=h).fit(data).score_samples(y) - reference.log_kde(data, y, h) for h in bandwidths)
        return max(float(np.abs(each).max()) for each in off)

    ours, theirs = (run(of).best_params_["bandwidth"] for of in (cukde.KernelDensity, KernelDensity))
    if ours != theirs or ours in (bandwidths[0], bandwidths[-1]):
        raise ArithmeticError(f"the searches must find one bandwidth within their range; got {ours} and {theirs}")
    shape = {"n": n, "d": d, "bandwidths": len(bandwidths), "folds": folds}
    row = _row("GridSearchCV", "cpu", shape, dtype, error(cukde.KernelDensity), DENSITY["cpu", dtype].value)
    peer = {"scikit-learn KernelDensity": (lambda: run(KernelDensity), error(KernelDensity))}
    return Case(lambda: run(cukde.KernelDensity), row, peer)


def leave_one_out(
    backend: str, n: int, count: int, dtype: str, method: str = "kde", objective: str = "likelihood"
) -> Case:
    """Scores of bandwidths in four dimensions, beside what a user of SciPy, or of CuPy in blocks of rows, writes.

    The error is that of kde's likelihood of the first 2,000 rows, against sums of NumPy.
    """
    from scipy.spatial.distance import pdist, squareform

    d, few = 4, min(n, 2000)
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    x = named(backend).asarray(X)

    def bandwidths(rows: int) -> np.ndarray:
        return np.geomspace(0.25, 2.0, count) * (rows * (d + 2) / 4) ** (-1 / (d + 4))

    def scores(of: Any, rows: int, *how: str) -> np.ndarray:
        found = cukde.bandwidth.cross_validate(of, how[0], bandwidths(rows), objective=how[1]).scores
        return np.asarray(to_host(found))

    def by_scipy(of: np.ndarray) -> np.ndarray:
        squares = squareform(pdist(of, "sqeuclidean"))
        np.fill_diagonal(squares, np.inf)
        log_c = -0.5 * d * np.log(2 * np.pi * bandwidths(len(of)) ** 2) - math.log(len(of) - 1)
        sums = [np.exp(squares * (-0.5 / h**2)).sum(axis=1) for h in bandwidths(len(of))]
        return np.log(sums).mean(axis=1) + log_c

    def by_blocks(of: Any) -> np.ndarray:
        xp, norms, step = named(backend).xp, (of * of).sum(axis=1), max(1, 2**27 // len(of))
        means = np.zeros(count)
        for start in range(0, len(of), step):
            y, rows = of[start : start + step], xp.arange(start, min(start + step, len(of)))
            squares = norms[rows, None] + norms - 2 * (y @ of.T)
            squares[rows - start, rows] = np.inf
            for k, h in enumerate(bandwidths(len(of))):
                means[k] += float(xp.log(xp.exp(squares * (-0.5 / h**2)).sum(axis=1)).sum()) / len(of)
        return means - 0.5 * d * np.log(2 * np.pi * bandwidths(len(of)) ** 2) - math.log(len(of) - 1)

    exact = by_scipy(X[:few].astype("f8"))
    off = float(np.abs(scores(x[:few], few, "kde", "likelihood") - exact).max())
    op = "LOO kde" if (method, objective) == ("kde", "likelihood") else f"LOO {method} {objective}"
    row = _row(op, backend, {"n": n, "d": d, "bandwidths": count}, dtype, off, 10 * DENSITY["cpu", dtype].value)
    # Of 10,000 rows the matrix of distances alone is 0.8 GB, and a call takes a minute.
    peer: dict[str, Peer | str] = {}
    if op == "LOO kde" and backend == "gpu":
        peer["CuPy"] = lambda: by_blocks(x), float(np.abs(by_blocks(x[:few]) - exact).max())
    elif op == "LOO kde" and n <= few:
        peer["SciPy pdist, NumPy exp"] = lambda: by_scipy(X), None
    return Case(lambda: scores(x, n, method, objective), row, peer)


def picture(backend: str, name: str, n: int) -> Case:
    """A picture of ``cukde.plot``, computed, drawn and written as PNG; its densities have tests of their own."""
    import io

    from matplotlib.figure import Figure

    from cukde import plot

    columns, panels = {"density": (1, 1), "contours": (2, 1), "pairs": (5, 5)}[name]
    rng = np.random.default_rng(n)
    X = named(backend).asarray(rng.standard_normal((n, columns)) + rng.standard_normal((n, 1)))

    def drawn() -> bytes:
        figure = Figure(figsize=(9, 9) if panels > 1 else (6.4, 4.4), layout="constrained")
        getattr(plot, name)(X[:, 0] if columns == 1 else X, ax=figure.subplots(panels, panels))
        file = io.BytesIO()
        figure.savefig(file, format="png")
        return file.getvalue()

    about = {"op": f"plot.{name}", "backend": backend, "shape": {"n": n, "d": columns}, "dtype": "float64"}
    return Case(drawn, about | {"precision": "float64", "rel_err_max": None}, {})
