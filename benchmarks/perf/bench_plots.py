"""Pictures of cukde.plot, computed, drawn and written as PNG, each checked before it is timed.

python -m pytest benchmarks/perf/bench_plots.py --record benchmarks/results/NAME.json

Columns are normal with a common factor, float64 as data frames hold them. The error is that of the densities drawn, at
some points of the picture, to sums over all pairs in float64.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import plot
from cukde.plot import numbers
from tests import reference
from tests.conftest import why_no_gpu

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

if why_no_gpu() is None:
    import cupy as cp

_TOLERANCE = 3e-5
_CHECKED = 20  # points of a picture
_CASES = [("cpu", 100_000), pytest.param("gpu", 1_000_000, marks=pytest.mark.gpu)]
_D = 5  # columns of the pair plot

pytestmark = pytest.mark.filterwarnings("ignore")


@functools.lru_cache(maxsize=1)
def _columns(n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, _D)) + rng.standard_normal((n, 1))


def _on(backend: str, X: np.ndarray) -> Any:
    if backend == "cpu":
        return X
    if why_no_gpu() is not None:
        pytest.skip(str(why_no_gpu()))
    return cp.asarray(X)


def _written(draw: Callable[[Any], Any], size: tuple[int, ...]) -> int:
    """Draw on new axes and write a PNG; return its length."""
    figure = Figure(figsize=(9, 9) if size else (6.4, 4.4), layout="constrained")
    draw(figure.subplots(*size))
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return len(file.getvalue())


def _curve_error(X: Any, x: np.ndarray) -> float:
    """Of the density of one column at some points of its curve."""
    curve = numbers.curve(numbers.sample(*numbers.checked(X, None, "kde"), None, "kde"), 512)
    some = slice(0, None, 512 // _CHECKED)
    h = float(cukde.bandwidth.silverman(x)[0])
    return float(abs(curve.density[some] / np.exp(reference.log_kde(x, curve.x[some], h)) - 1).max())


def _regions_error(X: Any, pair: np.ndarray) -> float:
    """Of the density of two columns at some points of the grid where it is not negligible."""
    of = numbers.sample(*numbers.checked(X, None, "kde"), None, "kde")
    found = numbers.regions(of, [0.95], 64, 2000, 0)
    inside = np.argwhere(found.density >= found.levels[0])
    rows, columns = inside[:: max(1, len(inside) // _CHECKED)].T
    at = np.stack([found.x[columns], found.y[rows]], axis=1)
    h = cukde.bandwidth.silverman(pair)
    exact = np.exp(reference.log_kde(pair / h, at / h, 1.0)) / h.prod()
    return float(abs(found.density[rows, columns] / exact - 1).max())


def _row(op: str, backend: str, shape: dict[str, int], error: float, precision: str) -> dict[str, Any]:
    assert error <= _TOLERANCE
    return {
        "op": op,
        "backend": backend,
        "shape": shape,
        "dtype": "float64",
        "precision": precision,
        "rel_err_max": error,
    }


@pytest.mark.parametrize(("backend", "n"), _CASES)
def bench_density(compare: Callable[..., None], backend: str, n: int) -> None:
    x = _columns(n)[:, 0]
    X = _on(backend, x)
    row = _row("plot.density", backend, {"n": n, "resamples": 200}, _curve_error(X, x), "float64")
    compare(lambda: _written(lambda ax: plot.density(X, ax=ax), ()), row, {})


@pytest.mark.parametrize(("backend", "n"), _CASES)
def bench_contours(compare: Callable[..., None], backend: str, n: int) -> None:
    pair = _columns(n)[:, :2]
    X = _on(backend, pair)
    row = _row("plot.contours", backend, {"n": n}, _regions_error(X, pair), "float32")
    compare(lambda: _written(lambda ax: plot.contours(X, ax=ax), ()), row, {})


@pytest.mark.parametrize(("backend", "n"), _CASES)
def bench_pairs(compare: Callable[..., None], backend: str, n: int) -> None:
    whole = _columns(n)
    X = _on(backend, whole)
    row = _row("plot.pairs", backend, {"n": n, "d": _D}, _regions_error(X[:, :2], whole[:, :2]), "float32")
    compare(lambda: _written(lambda ax: plot.pairs(X, ax=ax), (_D, _D)), row, {})
