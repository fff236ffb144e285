"""The first call of each public function, in a process of its own: nothing cached, and caches filled.

python -m benchmarks.perf.first_calls [--cases CASE ...] [--sizes N ...] [--backend gpu] [--record NAME.json]

A case has 1,000 rows, as in a test or a notebook, or 10,000, or 200,000 where its work does not grow with their square;
queries are a tenth of them. NumPy is imported and the arrays are made before the clock starts; on a GPU CuPy is
imported, too, and the arrays are there. Each case has a cache folder of its own, which its first process finds empty
and the following ones filled (CuPy's, of compiled kernels, is the user's). The bar is for what the first call takes
beyond the next one, by the clock or in time of the processor, whichever is less: others may use the machine at the same
time, which the clock counts, and the library compiles in the background, which the processor counts. Peers, where SciPy
or scikit-learn have a like call, are timed from their import on, as ours is, at the smallest size.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import record

RUNS = 3
_NEXT = 3

SIZES = 1000, 10_000, 200_000

BARS_MS = {"compiled": 2000.0, "cached": 500.0}
"""At most, of import and first call together, beyond the next call."""


class Arrays:
    """The same arrays in every process, for so many rows: of each number of columns data, queries and Scott's rule."""

    def __init__(self, n: int, asarray: Callable[[np.ndarray], Any] = np.asarray) -> None:
        rng = np.random.default_rng(0)
        self.n = n

        def normal(*shape: int, dtype: str = "f8") -> Any:
            return asarray(rng.standard_normal(shape).astype(dtype))

        self.of = {d: (normal(n, d), normal(n // 10, d), float(n ** (-1 / (d + 4)))) for d in (1, 2, 3, 16)}
        self.x, self.y, self.h = self.of[1][0][:, 0], self.of[1][1][:, 0], self.of[1][2]
        self.X, self.Y, self.h3 = self.of[3]
        self.plane, self.at_plane, self.h2 = self.of[2]
        self.axes = [np.linspace(-2, 2, 20)] * 3
        self.weights, self.pair = asarray(rng.uniform(0.5, 2, n)), normal(2, n)
        self.knots, self.coefficients = asarray(np.linspace(-3, 3, 17)), normal(16, 4)
        self.signal, self.taps = normal(2, 8, n // 16, dtype="f4"), normal(8, 4, dtype="f4")


Call = Callable[[Any, Arrays], Any]


def _density(name: str, d: int, of_data_alone: bool = False, **options: Any) -> Call:
    def call(cukde: Any, a: Arrays) -> Any:
        X, Y, h = a.of[d]
        return getattr(cukde, name)(*((X, h) if of_data_alone else (X, Y, h)), **options)

    return call


def _densities(*of: tuple[str, int]) -> dict[str, Call]:
    return {f"{name} {d}-D": _density(name, d, name in ("debias", "positive_mass")) for name, d in of}


_LINEAR: dict[str, Call] = {
    **_densities(*(("kde", d) for d in (1, 2, 3, 16)), ("score", 1), ("score", 2), ("density_and_score", 1)),
    **_densities(("debias", 1), ("debias", 2), ("sd_kde", 1), ("laplace_kde", 1), ("laplace_kde", 3)),
    **_densities(("positive_kde", 1), ("positive_score", 1), ("positive_mass", 1)),
    "kde float32": lambda cukde, a: cukde.kde(a.X.astype("f4"), a.Y.astype("f4"), a.h3),
    "kde 1-D float32": lambda cukde, a: cukde.kde(a.x.astype("f4"), a.y.astype("f4"), a.h),
    "kde 1-D weights": lambda cukde, a: cukde.kde(a.x, a.y, a.h, weights=a.weights),
    "kde weights": lambda cukde, a: cukde.kde(a.X, a.Y, a.h3, weights=a.weights),
    "kde rtol": _density("kde", 3, rtol=1e-4),
    "kde 1-D bounds": _density("kde", 1, bounds=[(-9, 9)]),
    "kde 2-D bounds": _density("kde", 2, bounds=[(-9, 9), None]),
    "kernel_sum 1-D": lambda cukde, a: cukde.kernel_sum(a.x, a.weights, a.y, a.h),
    "marginal": lambda cukde, a: cukde.marginal(a.X, [0], a.Y[:, :1], a.h3),
    "conditional": lambda cukde, a: cukde.conditional(a.plane, {0: 0.5}, a.at_plane[:, 1:], a.h2),
    "conditional_cdf": lambda cukde, a: cukde.conditional_cdf(a.plane, {0: a.at_plane[:, 0]}, a.at_plane[:, 1], a.h2),
    "conditional_quantile": lambda cukde, a: cukde.conditional_quantile(a.plane, {0: a.at_plane[:, 0]}, 0.5, a.h2),
    "conditional_sample": lambda cukde, a: cukde.conditional_sample(a.plane, {0: 0.5}, a.h2, random_state=0),
    "density_ratio 1-D": lambda cukde, a: cukde.density_ratio(a.x, a.x[: a.n // 2] + 0.1, a.y, a.h),
    "density_interval 1-D": _density("density_interval", 1),
    "entropy 1-D": _density("entropy", 1, of_data_alone=True),
    "mutual_information": lambda cukde, a: cukde.mutual_information(a.plane, [0], [1], a.h2),
    "kl_divergence 1-D": lambda cukde, a: cukde.kl_divergence(a.x, a.x[: a.n // 2] + 0.1, a.h),
    "hessian": _density("hessian", 3),
    "hdr_threshold 1-D": lambda cukde, a: cukde.hdr_threshold(a.x, a.h, 0.9),
    "evaluate_grid": lambda cukde, a: cukde.evaluate_grid(a.X, a.axes, a.h3),
    "evaluate_grid 1-D": lambda cukde, a: cukde.evaluate_grid(a.x, a.axes[:1], a.h),
    "evaluate_grid 2-D": lambda cukde, a: cukde.evaluate_grid(a.plane, a.axes[:2], a.h2),
    "cdf": lambda cukde, a: cukde.cdf(a.x, a.y, a.h),
    "log_cdf": lambda cukde, a: cukde.log_cdf(a.x, a.y, a.h),
    "modes 1-D": lambda cukde, a: cukde.modes(a.x, a.h, seeds=a.y[:50]),
    "stack": lambda cukde, a: cukde.kde(a.x.reshape(-1, 20, 1), a.x[: a.n // 20].reshape(-1, 1, 1), 0.5),
    "kendalltau": lambda cukde, a: cukde.kendalltau(*a.pair),
    "kendalltau ties": lambda cukde, a: cukde.kendalltau(*a.pair.round()),
    "kendall_matrix": lambda cukde, a: cukde.kendall_matrix(a.X),
    "kendall_matrix pvalue": lambda cukde, a: cukde.kendall_matrix(a.X, pvalue=True),
    "concordance": lambda cukde, a: cukde.concordance(a.X),
    "depthwise_conv1d": lambda cukde, a: cukde.depthwise_conv1d(a.signal, a.taps),
    "depthwise_conv1d silu": lambda cukde, a: cukde.depthwise_conv1d(a.signal, a.taps, activation="silu"),
    "depthwise_conv1d_input_grad": lambda cukde, a: cukde.depthwise_conv1d_input_grad(a.signal, a.taps),
    "depthwise_conv1d_weight_grad": lambda cukde, a: cukde.depthwise_conv1d_weight_grad(a.signal, a.signal, 4),
    "activation_grad": lambda cukde, a: cukde.activation_grad("gelu", a.signal),
    "pwpa": lambda cukde, a: cukde.pwpa(a.x, a.coefficients, a.knots),
    "PiecewisePolynomial": lambda cukde, a: cukde.PiecewisePolynomial(a.coefficients.T, a.knots)(a.x),
    "fit_piecewise": lambda cukde, a: cukde.fit_piecewise(np.exp, (-1.0, 1.0), pieces=4, degree=3),
    "functions.gelu": lambda cukde, a: cukde.functions.gelu(a.x),
    "functions.exp": lambda cukde, a: cukde.functions.exp(a.x),
    "bandwidth.scott": lambda cukde, a: cukde.bandwidth.scott(a.X),
    "bandwidth.sd": lambda cukde, a: cukde.bandwidth.sd(a.X),
    "bandwidth.isj": lambda cukde, a: cukde.bandwidth.isj(a.x),
    "bandwidth.cross_validate 1-D": lambda cukde, a: cukde.bandwidth.cross_validate(a.x),
    "bandwidth.select 1-D": lambda cukde, a: cukde.bandwidth.select(a.x),
    "bandwidth.abramson 1-D": lambda cukde, a: cukde.bandwidth.abramson(a.x, a.h),
    "KernelDensity": lambda cukde, a: cukde.KernelDensity(bandwidth=0.5).fit(a.plane).score_samples(a.at_plane),
    "gaussian_kde 1-D": lambda cukde, a: cukde.gaussian_kde(a.x)(a.y),
    "gaussian_kde.cdf": lambda cukde, a: cukde.gaussian_kde(a.x).cdf(a.y),
    "gaussian_kde.quantile": lambda cukde, a: cukde.gaussian_kde(a.x).quantile(np.linspace(0.1, 0.9, 9)),
    "plot.density": lambda cukde, a: cukde.plot.density(a.x, a.h),
    "plot.contours": lambda cukde, a: cukde.plot.contours(a.plane, a.h2),
    "plot.anomalies": lambda cukde, a: cukde.plot.anomalies(a.x),
}
"""By its name, a call of the imported package whose work grows with the rows."""

_QUADRATIC: dict[str, Call] = {
    **_densities(("score", 3), ("debias", 3), ("sd_kde", 3), ("sd_kde", 16), ("positive_kde", 3)),
    "kernel_sum": lambda cukde, a: cukde.kernel_sum(a.X, a.weights, a.Y, a.h3),
    "kde bounds": _density("kde", 3, bounds=[(-9, 9), None, None]),
    "hdr_threshold": lambda cukde, a: cukde.hdr_threshold(a.X, a.h3, 0.9),
    "regions": lambda cukde, a: cukde.regions(a.plane, a.h2),
    "modes": lambda cukde, a: cukde.modes(a.X, a.h3, seeds=a.Y[:50]),
    "kendall_matrix 16 columns": lambda cukde, a: cukde.kendall_matrix(a.of[16][0]),
    "bandwidth.cross_validate": lambda cukde, a: cukde.bandwidth.cross_validate(a.X),
    "bandwidth.abramson": lambda cukde, a: cukde.bandwidth.abramson(a.X, a.h3),
    "KernelDensity tophat": lambda cukde, a: (
        cukde.KernelDensity(bandwidth=0.5, kernel="tophat").fit(a.X).score_samples(a.Y)
    ),
    "gaussian_kde": lambda cukde, a: cukde.gaussian_kde(a.X.T)(a.Y.T),
    "plot.pairs": lambda cukde, a: cukde.plot.pairs(a.X, a.h3),
}
"""The same, of calls whose work grows with the square of the rows: not at the largest size."""

CASES = _LINEAR | _QUADRATIC

PEERS: dict[str, tuple[str, str, Call]] = {
    "kde 3-D": ("SciPy gaussian_kde", "scipy.stats", lambda stats, a: stats.gaussian_kde(a.X.T)(a.Y.T)),
    "KernelDensity": (
        "scikit-learn KernelDensity",
        "sklearn.neighbors",
        lambda neighbors, a: neighbors.KernelDensity(bandwidth=0.5).fit(a.X).score_samples(a.Y),
    ),
    "kendalltau": ("SciPy kendalltau", "scipy.stats", lambda stats, a: stats.kendalltau(*a.pair)),
    "PiecewisePolynomial": (
        "SciPy PPoly",
        "scipy.interpolate",
        lambda interpolate, a: interpolate.PPoly(a.coefficients.T, a.knots)(a.y[:10]),
    ),
    "depthwise_conv1d": (
        "SciPy correlate1d",
        "scipy.ndimage",
        lambda ndimage, a: [ndimage.correlate1d(x, w, axis=-1) for x, w in zip(a.signal[0], a.taps, strict=True)],
    ),
}
"""Names of cases: the peer, the module that its call is given, and the call."""


def child(name: str, n: int, backend: str, peer: bool) -> dict[str, float]:
    """Milliseconds of the import, of the first call and of the next one, in this process.

    Those of the processor, too: of import and first call, and of the next call when all is compiled.
    """
    asarray, wait = _placed(backend)
    a = Arrays(n, asarray)
    wait()
    if peer:
        _, module, of_peer = PEERS[name]
        calls = [_clock(lambda: of_peer(importlib.import_module(module), a)) for _ in range(2)]
        return {"import_ms": 0.0, "first_ms": calls[0], "next_ms": calls[1]}
    begun = time.process_time()
    times = {"import_ms": _clock(lambda: importlib.import_module("cukde"))}
    import cukde
    from cukde.core.cpu import meanwhile

    def call() -> None:
        CASES[name](cukde, a)
        wait()

    times["first_ms"] = _clock(call)
    times["processor_ms"] = 1e3 * (time.process_time() - begun)
    with meanwhile.within(meanwhile.WAITING):  # for the compiler
        call()
        while meanwhile.compiles():
            time.sleep(0.01)
        begun = time.process_time()
        times["next_ms"] = min(_clock(call) for _ in range(_NEXT))
        times["next_processor_ms"] = 1e3 * (time.process_time() - begun) / _NEXT
    return times


def _placed(backend: str) -> tuple[Callable[[np.ndarray], Any], Callable[[], None]]:
    """What brings an array where the call takes it, and what waits for the device."""
    if backend == "cpu":
        return np.asarray, lambda: None
    import cupy

    return cupy.asarray, cupy.cuda.Device().synchronize


def _clock(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def fresh(name: str, n: int, backend: str, cache: str, *, peer: bool = False) -> dict[str, float]:
    """:func:`child` in a new process."""
    command = [sys.executable, "-m", "benchmarks.perf.first_calls", "--child", name, "--sizes", str(n)]
    command += ["--backend", backend, *(["--peer"] if peer else [])]
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "MPLBACKEND": "agg"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    times: dict[str, float] = json.loads(done.stdout)
    return times


EXTRA = "import_ms", "next_ms", "processor_ms", "next_processor_ms"


def beyond(row: dict[str, Any]) -> float:
    """Milliseconds that import and first call take beyond the next call, by the clock or the processor."""
    return float(min(row["median_ms"] - row["next_ms"], row["processor_ms"] - row["next_processor_ms"]))


def rows(name: str, n: int, runs: int, backend: str = "cpu") -> list[dict[str, Any]]:
    """The rows of a case of so many rows: nothing cached, and cached."""
    from cukde import perf  # here, so that a child can time its import

    timings: dict[str, list[dict[str, float]]] = {"compiled": [], "cached": []}
    peers = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            for found in timings.values():
                found.append(fresh(name, n, backend, cache))
            if name in PEERS and n == SIZES[0] and backend == "cpu":
                peers.append(fresh(name, n, backend, cache, peer=True))
    out = []
    for timing, found in timings.items():
        row = {
            "op": name,
            "backend": backend,
            "shape": {"n": n},
            "dtype": "float64",
            "precision": "float64",
            "timing": timing,
            **perf.Times.of(run["import_ms"] + run["first_ms"] for run in found).row(),
            **{key: float(np.median([run[key] for run in found])) for key in EXTRA},
        }
        if peers:
            row["peer"] = {"name": PEERS[name][0], **perf.Times.of(run["first_ms"] for run in peers).row()}
        out.append(row)
    return out


def main() -> None:
    parser = record.arguments("perf.first_calls", __doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all of them")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="rows; default: all sizes")
    parser.add_argument("--runs", type=int, default=RUNS, help="processes of each kind for each case")
    parser.add_argument("--backend", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child, given.sizes[0], given.backend, given.peer)))
        return
    session = record.Session(given.record)
    out = []
    for name, n in ((name, n) for name in given.cases for n in given.sizes if n < SIZES[-1] or name in _LINEAR):
        for row in rows(name, n, given.runs, given.backend):
            missed = "" if beyond(row) <= BARS_MS[row["timing"]] else "  BAR MISSED"
            print(f"{record.line(row)}  (beyond the next call {beyond(row):.0f} ms){missed}", flush=True)
            out.append(row)
    session.write(out)


if __name__ == "__main__":
    main()
