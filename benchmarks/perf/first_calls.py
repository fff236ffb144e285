"""The first call of each public function on the CPU, in a process of its own: nothing cached, and caches filled.

python -m benchmarks.perf.first_calls [--cases CASE ...] [--runs N] [--record benchmarks/results/NAME.json]

A case has a few dozen to a thousand rows, as in a test, a notebook or an online detector: what a first call takes
beyond that is imports, compilers and caches. NumPy is imported and the arrays are made before the clock starts. Each
case has a cache folder of its own, which its first process finds empty and the following ones filled. Peers, where
SciPy or scikit-learn have a like call, are timed from their import on, as ours is.
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

BARS_MS = {"compiled": 2000.0, "cached": 500.0}
"""At most, of import and first call together."""


class Arrays(NamedTuple):
    """Small arrays of all the shapes that calls take."""

    X: np.ndarray
    Y: np.ndarray
    line: np.ndarray
    at_line: np.ndarray
    axes: list[np.ndarray]
    weights: np.ndarray
    pair: np.ndarray
    knots: np.ndarray
    coefficients: np.ndarray
    signal: np.ndarray
    taps: np.ndarray


def arrays() -> Arrays:
    """The same arrays in every process."""
    rng = np.random.default_rng(0)
    return Arrays(
        X=rng.standard_normal((200, 3)),
        Y=rng.standard_normal((10, 3)),
        line=rng.standard_normal(1000),
        at_line=rng.standard_normal(100),
        axes=[np.linspace(-2, 2, 20)] * 3,
        weights=rng.uniform(0.5, 2, 200),
        pair=rng.standard_normal((2, 1000)),
        knots=np.linspace(-3, 3, 17),
        coefficients=rng.standard_normal((16, 4)),
        signal=rng.standard_normal((2, 8, 64)).astype("f4"),
        taps=rng.standard_normal((8, 4)).astype("f4"),
    )


CASES: dict[str, Callable[[Any, Arrays], Any]] = {
    "kde": lambda cukde, a: cukde.kde(a.X, a.Y, 0.5),
    "kde float32": lambda cukde, a: cukde.kde(a.X.astype("f4"), a.Y.astype("f4"), 0.5),
    "kde weights": lambda cukde, a: cukde.kde(a.X, a.Y, 0.5, weights=a.weights),
    "kde rtol": lambda cukde, a: cukde.kde(a.X, a.Y, 0.5, rtol=1e-4),
    "kde bounds": lambda cukde, a: cukde.kde(a.X, a.Y, 0.5, bounds=[(-9, 9), None, None]),
    "kde 1-D": lambda cukde, a: cukde.kde(a.line, a.at_line, 0.3),
    "score": lambda cukde, a: cukde.score(a.X, a.Y, 0.5),
    "score 1-D": lambda cukde, a: cukde.score(a.line, a.at_line, 0.3),
    "density_and_score": lambda cukde, a: cukde.density_and_score(a.X, a.Y, 0.5),
    "debias": lambda cukde, a: cukde.debias(a.X, 0.5),
    "sd_kde": lambda cukde, a: cukde.sd_kde(a.X, a.Y, 0.5),
    "sd_kde 1-D": lambda cukde, a: cukde.sd_kde(a.line, a.at_line, 0.3),
    "laplace_kde": lambda cukde, a: cukde.laplace_kde(a.X, a.Y, 0.5),
    "positive_kde": lambda cukde, a: cukde.positive_kde(a.X, a.Y, 0.5),
    "positive_score": lambda cukde, a: cukde.positive_score(a.X, a.Y, 0.5),
    "positive_mass": lambda cukde, a: cukde.positive_mass(a.X, 0.5),
    "kernel_sum": lambda cukde, a: cukde.kernel_sum(a.X, a.weights, a.Y, 0.5),
    "marginal": lambda cukde, a: cukde.marginal(a.X, [0, 1], a.Y[:, :2], 0.5),
    "conditional": lambda cukde, a: cukde.conditional(a.X, {0: 0.5}, a.Y[:, 1:], 0.5),
    "density_ratio": lambda cukde, a: cukde.density_ratio(a.X, a.X[:50] + 0.1, a.Y, 0.5),
    "hdr_threshold": lambda cukde, a: cukde.hdr_threshold(a.X, 0.5, 0.9),
    "evaluate_grid": lambda cukde, a: cukde.evaluate_grid(a.X, a.axes, 0.5),
    "evaluate_grid 1-D": lambda cukde, a: cukde.evaluate_grid(a.line, a.axes[:1], 0.3),
    "cdf": lambda cukde, a: cukde.cdf(a.line, a.at_line, 0.3),
    "log_cdf": lambda cukde, a: cukde.log_cdf(a.line, a.at_line, 0.3),
    "modes": lambda cukde, a: cukde.modes(a.X, 0.5),
    "modes 1-D": lambda cukde, a: cukde.modes(a.line, 0.3),
    "stack": lambda cukde, a: cukde.kde(a.X[:180].reshape(9, 20, 3), a.Y[:9].reshape(9, 1, 3), 0.5),
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
    "pwpa": lambda cukde, a: cukde.pwpa(a.at_line, a.coefficients, a.knots),
    "PiecewisePolynomial": lambda cukde, a: cukde.PiecewisePolynomial(a.coefficients.T, a.knots)(a.at_line[:10]),
    "fit_piecewise": lambda cukde, a: cukde.fit_piecewise(np.exp, (-1.0, 1.0), pieces=4, degree=3),
    "functions.gelu": lambda cukde, a: cukde.functions.gelu(a.at_line),
    "functions.exp": lambda cukde, a: cukde.functions.exp(a.at_line),
    "bandwidth.scott": lambda cukde, a: cukde.bandwidth.scott(a.X),
    "bandwidth.sd": lambda cukde, a: cukde.bandwidth.sd(a.X),
    "bandwidth.isj": lambda cukde, a: cukde.bandwidth.isj(a.line),
    "bandwidth.cross_validate": lambda cukde, a: cukde.bandwidth.cross_validate(a.X),
    "bandwidth.cross_validate 1-D": lambda cukde, a: cukde.bandwidth.cross_validate(a.line),
    "bandwidth.abramson": lambda cukde, a: cukde.bandwidth.abramson(a.X, 0.5),
    "KernelDensity.score_samples": lambda cukde, a: cukde.KernelDensity(bandwidth=0.5).fit(a.X).score_samples(a.Y),
    "KernelDensity tophat": lambda cukde, a: (
        cukde.KernelDensity(bandwidth=0.5, kernel="tophat").fit(a.X).score_samples(a.Y)
    ),
    "plot.density": lambda cukde, a: cukde.plot.density(a.line, 0.3),
    "plot.contours": lambda cukde, a: cukde.plot.contours(a.X[:, :2], 0.5),
}
"""By its name, a call of the imported package."""


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


def child(name: str, peer: bool) -> dict[str, float]:
    """Milliseconds of the import, of the first call and of the next one, in this process."""
    a = arrays()
    if peer:
        _, call = PEERS[name]
        return {"import_ms": 0.0, "first_ms": _clock(lambda: call(a)), "next_ms": _clock(lambda: call(a))}
    times = {"import_ms": _clock(_import_cukde)}
    import cukde

    times["first_ms"] = _clock(lambda: CASES[name](cukde, a))
    times["next_ms"] = min(_clock(lambda: CASES[name](cukde, a)) for _ in range(5))
    return times


def _import_cukde() -> None:
    import cukde  # noqa: F401


def _clock(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def fresh(name: str, cache: str, *, peer: bool = False) -> dict[str, float]:
    """:func:`child` in a new process."""
    command = [sys.executable, "-m", "benchmarks.perf.first_calls", "--child", name, *(["--peer"] if peer else [])]
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "MPLBACKEND": "agg"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    times: dict[str, float] = json.loads(done.stdout)
    return times


def rows(name: str, runs: int) -> list[dict[str, Any]]:
    """The rows of a case: nothing cached, and cached."""
    from cukde import perf  # here, so that a child can time its import

    timings: dict[str, list[dict[str, float]]] = {"compiled": [], "cached": []}
    peers = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            for found in timings.values():
                found.append(fresh(name, cache))
            if name in PEERS:
                peers.append(fresh(name, cache, peer=True))
    out = []
    for timing, found in timings.items():
        row = {
            "op": name,
            "backend": "cpu",
            "shape": {},
            "dtype": "float64",
            "precision": "float64",
            "timing": timing,
            **perf.Times.of(run["import_ms"] + run["first_ms"] for run in found).row(),
            **{key: float(np.median([run[key] for run in found])) for key in ("import_ms", "next_ms")},
        }
        if peers:
            row["peer"] = {"name": PEERS[name][0], **perf.Times.of(run["first_ms"] for run in peers).row()}
        out.append(row)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perf.first_calls", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all of them")
    parser.add_argument("--runs", type=int, default=RUNS, help="processes of each kind for each case")
    parser.add_argument("--record", type=record.target, help="write the rows to this JSON file")
    parser.add_argument("--child", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child, given.peer)))
        return
    session = record.Session(given.record)
    out = []
    for name in given.cases:
        for row in rows(name, given.runs):
            missed = "" if row["median_ms"] <= BARS_MS[row["timing"]] else "  BAR MISSED"
            print(
                f"{record.line(row)}  (import {row['import_ms']:.0f}, next call {row['next_ms']:.2f}){missed}",
                flush=True,
            )
            out.append(row)
    session.write(out)


if __name__ == "__main__":
    main()
