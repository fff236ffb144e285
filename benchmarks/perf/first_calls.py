"""The first call of each public function on the CPU, in a process of its own: nothing cached, and caches filled.

python -m benchmarks.perf.first_calls [--cases CASE ...] [--sizes N ...] [--runs N] [--record benchmarks/results/N.json]

A case has 1,000 rows, as in a test or a notebook, or 10,000, or 200,000 where its work does not grow with their square;
queries are a tenth of them. NumPy is imported and the arrays are made before the clock starts. Each case has a cache
folder of its own, which its first process finds empty and the following ones filled. The bar is for what the first call
takes beyond the next one, by the clock or in time of the processor, whichever is less: others may use the machine at
the same time, which the clock counts, and the library compiles in the background, which the processor counts. Peers,
where SciPy or scikit-learn have a like call, are timed from their import on, as ours is, at the smallest size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import record

RUNS = 3
_NEXT = 3

SIZES = 1000, 10_000, 200_000

BARS_MS = {"compiled": 2000.0, "cached": 500.0}
"""At most, of import and first call together, beyond the next call."""


class Arrays(NamedTuple):
    """Arrays of all the shapes that calls take, for so many rows."""

    n: int
    X: np.ndarray
    Y: np.ndarray
    plane: np.ndarray
    at_plane: np.ndarray
    wide: np.ndarray
    at_wide: np.ndarray
    line: np.ndarray
    at_line: np.ndarray
    axes: list[np.ndarray]
    weights: np.ndarray
    pair: np.ndarray
    knots: np.ndarray
    coefficients: np.ndarray
    signal: np.ndarray
    taps: np.ndarray

    def h(self, d: int) -> float:
        """A bandwidth of standard normal points: Scott's."""
        return float(self.n ** (-1 / (d + 4)))


def arrays(n: int) -> Arrays:
    """The same arrays in every process."""
    rng = np.random.default_rng(0)
    m = n // 10
    return Arrays(
        n=n,
        X=rng.standard_normal((n, 3)),
        Y=rng.standard_normal((m, 3)),
        plane=rng.standard_normal((n, 2)),
        at_plane=rng.standard_normal((m, 2)),
        wide=rng.standard_normal((n, 16)),
        at_wide=rng.standard_normal((m, 16)),
        line=rng.standard_normal(n),
        at_line=rng.standard_normal(m),
        axes=[np.linspace(-2, 2, 20)] * 3,
        weights=rng.uniform(0.5, 2, n),
        pair=rng.standard_normal((2, n)),
        knots=np.linspace(-3, 3, 17),
        coefficients=rng.standard_normal((16, 4)),
        signal=rng.standard_normal((2, 8, n // 16)).astype("f4"),
        taps=rng.standard_normal((8, 4)).astype("f4"),
    )


_LINEAR: dict[str, Callable[[Any, Arrays], Any]] = {
    "kde": lambda cukde, a: cukde.kde(a.X, a.Y, a.h(3)),
    "kde 2-D": lambda cukde, a: cukde.kde(a.plane, a.at_plane, a.h(2)),
    "kde 16-D": lambda cukde, a: cukde.kde(a.wide, a.at_wide, a.h(16)),
    "kde 1-D": lambda cukde, a: cukde.kde(a.line, a.at_line, a.h(1)),
    "kde float32": lambda cukde, a: cukde.kde(a.X.astype("f4"), a.Y.astype("f4"), a.h(3)),
    "kde 1-D float32": lambda cukde, a: cukde.kde(a.line.astype("f4"), a.at_line.astype("f4"), a.h(1)),
    "kde 1-D weights": lambda cukde, a: cukde.kde(a.line, a.at_line, a.h(1), weights=a.weights),
    "kde weights": lambda cukde, a: cukde.kde(a.X, a.Y, a.h(3), weights=a.weights),
    "kde rtol": lambda cukde, a: cukde.kde(a.X, a.Y, a.h(3), rtol=1e-4),
    "kde 1-D bounds": lambda cukde, a: cukde.kde(a.line, a.at_line, a.h(1), bounds=[(-9, 9)]),
    "kde 2-D bounds": lambda cukde, a: cukde.kde(a.plane, a.at_plane, a.h(2), bounds=[(-9, 9), None]),
    "score 1-D": lambda cukde, a: cukde.score(a.line, a.at_line, a.h(1)),
    "score 2-D": lambda cukde, a: cukde.score(a.plane, a.at_plane, a.h(2)),
    "density_and_score 1-D": lambda cukde, a: cukde.density_and_score(a.line, a.at_line, a.h(1)),
    "debias 1-D": lambda cukde, a: cukde.debias(a.line, a.h(1)),
    "debias 2-D": lambda cukde, a: cukde.debias(a.plane, a.h(2)),
    "sd_kde 1-D": lambda cukde, a: cukde.sd_kde(a.line, a.at_line, a.h(1)),
    "laplace_kde 1-D": lambda cukde, a: cukde.laplace_kde(a.line, a.at_line, a.h(1)),
    "laplace_kde": lambda cukde, a: cukde.laplace_kde(a.X, a.Y, a.h(3)),
    "positive_kde 1-D": lambda cukde, a: cukde.positive_kde(a.line, a.at_line, a.h(1)),
    "positive_score 1-D": lambda cukde, a: cukde.positive_score(a.line, a.at_line, a.h(1)),
    "positive_mass 1-D": lambda cukde, a: cukde.positive_mass(a.line, a.h(1)),
    "kernel_sum 1-D": lambda cukde, a: cukde.kernel_sum(a.line, a.weights, a.at_line, a.h(1)),
    "marginal": lambda cukde, a: cukde.marginal(a.X, [0], a.Y[:, :1], a.h(3)),
    "conditional": lambda cukde, a: cukde.conditional(a.plane, {0: 0.5}, a.at_plane[:, 1:], a.h(2)),
    "density_ratio 1-D": lambda cukde, a: cukde.density_ratio(a.line, a.line[: a.n // 2] + 0.1, a.at_line, a.h(1)),
    "hdr_threshold 1-D": lambda cukde, a: cukde.hdr_threshold(a.line, a.h(1), 0.9),
    "evaluate_grid": lambda cukde, a: cukde.evaluate_grid(a.X, a.axes, a.h(3)),
    "evaluate_grid 1-D": lambda cukde, a: cukde.evaluate_grid(a.line, a.axes[:1], a.h(1)),
    "evaluate_grid 2-D": lambda cukde, a: cukde.evaluate_grid(a.plane, a.axes[:2], a.h(2)),
    "cdf": lambda cukde, a: cukde.cdf(a.line, a.at_line, a.h(1)),
    "log_cdf": lambda cukde, a: cukde.log_cdf(a.line, a.at_line, a.h(1)),
    "modes 1-D": lambda cukde, a: cukde.modes(a.line, a.h(1), seeds=a.at_line[:50]),
    "stack": lambda cukde, a: cukde.kde(a.line.reshape(-1, 20, 1), a.line[: a.n // 20].reshape(-1, 1, 1), 0.5),
    "kendalltau": lambda cukde, a: cukde.kendalltau(*a.pair),
    "kendalltau ties": lambda cukde, a: cukde.kendalltau(*np.round(a.pair)),
    "kendall_matrix": lambda cukde, a: cukde.kendall_matrix(a.X),
    "kendall_matrix pvalue": lambda cukde, a: cukde.kendall_matrix(a.X, pvalue=True),
    "concordance": lambda cukde, a: cukde.concordance(a.X),
    "depthwise_conv1d": lambda cukde, a: cukde.depthwise_conv1d(a.signal, a.taps),
    "depthwise_conv1d silu": lambda cukde, a: cukde.depthwise_conv1d(a.signal, a.taps, activation="silu"),
    "depthwise_conv1d_input_grad": lambda cukde, a: cukde.depthwise_conv1d_input_grad(a.signal, a.taps),
    "depthwise_conv1d_weight_grad": lambda cukde, a: cukde.depthwise_conv1d_weight_grad(a.signal, a.signal, 4),
    "activation_grad": lambda cukde, a: cukde.activation_grad("gelu", a.signal),
    "pwpa": lambda cukde, a: cukde.pwpa(a.line, a.coefficients, a.knots),
    "PiecewisePolynomial": lambda cukde, a: cukde.PiecewisePolynomial(a.coefficients.T, a.knots)(a.line),
    "fit_piecewise": lambda cukde, a: cukde.fit_piecewise(np.exp, (-1.0, 1.0), pieces=4, degree=3),
    "functions.gelu": lambda cukde, a: cukde.functions.gelu(a.line),
    "functions.exp": lambda cukde, a: cukde.functions.exp(a.line),
    "bandwidth.scott": lambda cukde, a: cukde.bandwidth.scott(a.X),
    "bandwidth.sd": lambda cukde, a: cukde.bandwidth.sd(a.X),
    "bandwidth.isj": lambda cukde, a: cukde.bandwidth.isj(a.line),
    "bandwidth.cross_validate 1-D": lambda cukde, a: cukde.bandwidth.cross_validate(a.line),
    "bandwidth.select 1-D": lambda cukde, a: cukde.bandwidth.select(a.line),
    "bandwidth.abramson 1-D": lambda cukde, a: cukde.bandwidth.abramson(a.line, a.h(1)),
    "KernelDensity.score_samples": lambda cukde, a: (
        cukde.KernelDensity(bandwidth=0.5).fit(a.plane).score_samples(a.at_plane)
    ),
    "gaussian_kde 1-D": lambda cukde, a: cukde.gaussian_kde(a.line)(a.at_line),
    "gaussian_kde.cdf": lambda cukde, a: cukde.gaussian_kde(a.line).cdf(a.at_line),
    "gaussian_kde.quantile": lambda cukde, a: cukde.gaussian_kde(a.line).quantile(np.linspace(0.1, 0.9, 9)),
    "plot.density": lambda cukde, a: cukde.plot.density(a.line, a.h(1)),
    "plot.contours": lambda cukde, a: cukde.plot.contours(a.plane, a.h(2)),
    "plot.anomalies": lambda cukde, a: cukde.plot.anomalies(a.line),
}
"""By its name, a call of the imported package whose work grows with the rows."""

_QUADRATIC: dict[str, Callable[[Any, Arrays], Any]] = {
    "score": lambda cukde, a: cukde.score(a.X, a.Y, a.h(3)),
    "debias": lambda cukde, a: cukde.debias(a.X, a.h(3)),
    "sd_kde": lambda cukde, a: cukde.sd_kde(a.X, a.Y, a.h(3)),
    "sd_kde 16-D": lambda cukde, a: cukde.sd_kde(a.wide, a.at_wide, a.h(16)),
    "positive_kde": lambda cukde, a: cukde.positive_kde(a.X, a.Y, a.h(3)),
    "kernel_sum": lambda cukde, a: cukde.kernel_sum(a.X, a.weights, a.Y, a.h(3)),
    "kde bounds": lambda cukde, a: cukde.kde(a.X, a.Y, a.h(3), bounds=[(-9, 9), None, None]),
    "hdr_threshold": lambda cukde, a: cukde.hdr_threshold(a.X, a.h(3), 0.9),
    "modes": lambda cukde, a: cukde.modes(a.X, a.h(3), seeds=a.Y[:50]),
    "kendall_matrix 16 columns": lambda cukde, a: cukde.kendall_matrix(a.wide),
    "bandwidth.cross_validate": lambda cukde, a: cukde.bandwidth.cross_validate(a.X),
    "bandwidth.abramson": lambda cukde, a: cukde.bandwidth.abramson(a.X, a.h(3)),
    "KernelDensity tophat": lambda cukde, a: (
        cukde.KernelDensity(bandwidth=0.5, kernel="tophat").fit(a.X).score_samples(a.Y)
    ),
    "gaussian_kde": lambda cukde, a: cukde.gaussian_kde(a.X.T)(a.Y.T),
    "plot.pairs": lambda cukde, a: cukde.plot.pairs(a.X, a.h(3)),
}
"""The same, of calls whose work grows with the square of the rows: not at the largest size."""

CASES = _LINEAR | _QUADRATIC


def _scipy_kde(a: Arrays) -> Any:
    from scipy.stats import gaussian_kde

    return gaussian_kde(a.X.T)(a.Y.T)


def _scikit_learn_kde(a: Arrays) -> Any:
    from sklearn.neighbors import KernelDensity

    return KernelDensity(bandwidth=0.5).fit(a.X).score_samples(a.Y)


def _scipy_kendalltau(a: Arrays) -> Any:
    from scipy.stats import kendalltau

    return kendalltau(*a.pair)


def _scipy_polynomial(a: Arrays) -> Any:
    from scipy.interpolate import PPoly

    return PPoly(a.coefficients.T, a.knots)(a.at_line[:10])


def _scipy_correlate(a: Arrays) -> Any:
    from scipy.ndimage import correlate1d

    return [correlate1d(rows, taps, axis=-1) for rows, taps in zip(a.signal[0], a.taps, strict=True)]


PEERS: dict[str, tuple[str, Callable[[Arrays], Any]]] = {
    "kde": ("SciPy gaussian_kde", _scipy_kde),
    "KernelDensity.score_samples": ("scikit-learn KernelDensity", _scikit_learn_kde),
    "kendalltau": ("SciPy kendalltau", _scipy_kendalltau),
    "PiecewisePolynomial": ("SciPy PPoly", _scipy_polynomial),
    "depthwise_conv1d": ("SciPy correlate1d", _scipy_correlate),
}


def child(name: str, n: int, peer: bool) -> dict[str, float]:
    """Milliseconds of the import, of the first call and of the next one, in this process.

    Those of the processor, too: of import and first call, and of the next call when all is compiled.
    """
    a = arrays(n)
    if peer:
        _, call = PEERS[name]
        return {"import_ms": 0.0, "first_ms": _clock(lambda: call(a)), "next_ms": _clock(lambda: call(a))}
    begun = time.process_time()
    times = {"import_ms": _clock(_import_cukde)}
    import cukde
    from cukde.core.cpu import meanwhile

    times["first_ms"] = _clock(lambda: CASES[name](cukde, a))
    times["processor_ms"] = 1e3 * (time.process_time() - begun)
    with meanwhile.within(meanwhile.WAITING):  # for the compiler
        CASES[name](cukde, a)
        while meanwhile.compiles():
            time.sleep(0.01)
        begun = time.process_time()
        times["next_ms"] = min(_clock(lambda: CASES[name](cukde, a)) for _ in range(_NEXT))
        times["next_processor_ms"] = 1e3 * (time.process_time() - begun) / _NEXT
    return times


def _import_cukde() -> None:
    import cukde  # noqa: F401


def _clock(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def fresh(name: str, n: int, cache: str, *, peer: bool = False) -> dict[str, float]:
    """:func:`child` in a new process."""
    command = [sys.executable, "-m", "benchmarks.perf.first_calls", "--child", name, "--sizes", str(n)]
    command += ["--peer"] if peer else []
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "MPLBACKEND": "agg"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    times: dict[str, float] = json.loads(done.stdout)
    return times


EXTRA = "import_ms", "next_ms", "processor_ms", "next_processor_ms"


def beyond(row: dict[str, Any]) -> float:
    """Milliseconds that import and first call take beyond the next call, by the clock or the processor."""
    return float(min(row["median_ms"] - row["next_ms"], row["processor_ms"] - row["next_processor_ms"]))


def rows(name: str, n: int, runs: int) -> list[dict[str, Any]]:
    """The rows of a case of so many rows: nothing cached, and cached."""
    from cukde import perf  # here, so that a child can time its import

    timings: dict[str, list[dict[str, float]]] = {"compiled": [], "cached": []}
    peers = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            for found in timings.values():
                found.append(fresh(name, n, cache))
            if name in PEERS and n == SIZES[0]:
                peers.append(fresh(name, n, cache, peer=True))
    out = []
    for timing, found in timings.items():
        row = {
            "op": name,
            "backend": "cpu",
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perf.first_calls", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all of them")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="rows; default: all sizes")
    parser.add_argument("--runs", type=int, default=RUNS, help="processes of each kind for each case")
    parser.add_argument("--record", type=record.target, help="write the rows to this JSON file")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child, given.sizes[0], given.peer)))
        return
    session = record.Session(given.record)
    out = []
    for name, n in ((name, n) for name in given.cases for n in given.sizes if n < SIZES[-1] or name in _LINEAR):
        for row in rows(name, n, given.runs):
            missed = "" if beyond(row) <= BARS_MS[row["timing"]] else "  BAR MISSED"
            print(f"{record.line(row)}  (beyond the next call {beyond(row):.0f} ms){missed}", flush=True)
            out.append(row)
    session.write(out)


if __name__ == "__main__":
    main()
