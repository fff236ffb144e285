"""Whether a pass leaves out pairs: by what a few queries would take, beside what all pairs take."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.density.options import Options
from cukde.density.pairs.gpu.skipping import frame as skipping_frame, passes, points as skipping_points
from cukde.density.sums import Output

# Picoseconds a pair on an H200, by dimensions: measured by benchmarks/density/bench_map.py and its kin. Only their
# ratios matter, to within a third.
_DENSE = {
    "f16_symmetric": {16: 0.28, 32: 0.45, 64: 0.9},
    "f16": {16: 0.36, 32: 0.55, 64: 1.0},
    "wide": {128: 2.2},
    "f64": {16: 2.2, 32: 3.5, 64: 6.0},
    "wide_f64": {64: 6.0, 128: 9.0},
    "difference": {2: 1.35, 3: 1.5, 8: 4.7, 16: 5.4, 32: 10.0, 64: 20.0, 128: 60.0},
}
_DENSE_DOUBLE = {3: 4.0, 8: 7.0, 16: 9.8, 32: 19.0, 64: 38.0, 128: 80.0}  # differences in double
_BOXES = {2: 0.41, 3: 0.53, 4: 0.62, 5: 0.72}
_SCREEN = {16: 0.06, 32: 0.13, 64: 0.30, 128: 0.66}
_PRODUCTS = {16: 0.75, 32: 2.0, 64: 2.2, 128: 8.0}  # of pairs that are summed
_DIFFERENCES = {8: 3.0, 16: 4.5, 32: 12.0, 64: 30.0, 128: 80.0}
_DOUBLE = 4.0  # times as much in double

_ORDER_MS = 2.5  # for order, bounds and the look itself
_LEAST_MS = 5.0  # below it, looking is not worth it,
_LEAST_OF_FAST_MS = 25.0  # and below this where the tensor cores take all pairs
_GAIN = 0.9  # of the time of all pairs, at most
_QUERIES_OF_SAMPLE, _DATA_OF_SAMPLE = 128, 1024
_MOST_SHARE = 0.5  # of pairs of a sample that count: then nothing is looked at further
_PROBES = 8  # blocks of queries


def posed(
    X: Any, Y: Any | None, h: float, output: Output, options: Options, engine: str, *, ratio: bool
) -> passes.Posed | None:
    """Pose the pass that leaves out pairs where it is faster than ``engine``, which takes all; else None.

    Waits for the device where the time of all pairs makes it worth a look.
    """
    tolerance = passes.tolerance_of(options)
    n, d = X.shape
    m = n if Y is None else len(Y)
    dense = 1e-9 * n * m * _dense(engine, options.precision, d)
    fast = engine != "difference"
    if (
        dense < (_LEAST_OF_FAST_MS if fast else _LEAST_MS)
        or tolerance <= 0
        or options.squared_radius is None
        or not passes.serves(output, options.precision, d)
        or device.capturing()
    ):
        return None
    if core_compile.is_rehearsal():
        _rehearse(X, Y, h, output, options, tolerance, ratio=ratio)
        return None
    sample = skipping_frame.sample(X)
    if fast and _counting(sample, X if Y is None else Y, h, tolerance / n, itself=Y is None) > _MOST_SHARE:
        return None
    frame = skipping_frame.frame(sample)
    whole = passes.pose(X, Y, h, output, options, frame, tolerance, ratio=ratio)
    products = whole.plan.products
    most = _cost(1.0, 0.0, options.precision, d, products=False)
    if _ORDER_MS + 1e-9 * n * m * most > _GAIN * dense:
        most = _cost(*_share(whole, frame), options.precision, d, products=products)
    return whole if _ORDER_MS + 1e-9 * n * m * most < _GAIN * dense else None


def _rehearse(
    X: Any, Y: Any | None, h: float, output: Output, options: Options, tolerance: float, *, ratio: bool
) -> None:
    """Ask for every kernel that the look and the pass may launch; what is in the arrays does not matter."""
    frame = skipping_frame.frame(np.random.default_rng(0).standard_normal((300, X.shape[1])))
    whole = passes.pose(X, Y, h, output, options, frame, tolerance, ratio=ratio)
    _share(whole, frame)
    passes.run(whole)


def _cost(taken: float, tight: float, precision: str, d: int, *, products: bool) -> float:
    """Picoseconds a pair, of a share of units that are taken and a share of blocks that products are good for."""
    survivors = _at(_BOXES if d <= skipping_points.FEW_DIMENSIONS else _DIFFERENCES, d)
    if products and d > skipping_points.FEW_DIMENSIONS:
        survivors = tight * _at(_PRODUCTS, d) + (1 - tight) * survivors
    cost = taken * survivors * (_DOUBLE if precision == "float64" else 1)
    return cost if d <= skipping_points.FEW_DIMENSIONS else cost + _at(_SCREEN, d)


def _dense(engine: str, precision: str, d: int) -> float:
    if engine == "difference" and precision == "float64":
        return _at(_DENSE_DOUBLE, d)
    return _at(_DENSE.get(engine, _DENSE["f16"]), d)


def _at(rates: dict[int, float], d: int) -> float:
    """The rate of the first number of dimensions that is not below ``d``, else of the last."""
    return next((rate for most, rate in rates.items() if d <= most), list(rates.values())[-1])


def _counting(sample: np.ndarray, Y: Any, h: float, least: float, *, itself: bool) -> float:
    """Share of pairs of a sample whose exponents are not below log(least), relative to the query's largest."""
    queries = skipping_frame.sample(Y, _QUERIES_OF_SAMPLE)[:_QUERIES_OF_SAMPLE]
    data = sample[:: max(1, len(sample) // _DATA_OF_SAMPLE)].astype(np.float32)
    centre = data.mean(axis=0)
    x, y = (data - centre) / h, ((queries - centre) / h).astype(np.float32)
    exponents = y @ x.T - 0.5 * (x * x).sum(axis=1) - 0.5 * (y * y).sum(axis=1)[:, None]
    top = 0.0 if itself else exponents.max(axis=1, keepdims=True)
    return float((exponents >= top + np.log(least)).mean())


def _share(whole: passes.Posed, frame: skipping_frame.Frame) -> tuple[float, float]:
    """Share of units that a few blocks of queries take, and of blocks that products are good for."""
    m = len(whole.queries.order)
    size = skipping_points.BLOCK
    starts = np.linspace(0, max(0, m - size), _PROBES).astype(np.int64)
    rows = cp.asarray((starts[:, None] + np.arange(size)).ravel().clip(0, m - 1))
    few = cp.ascontiguousarray(whole.queries.given[whole.queries.order[rows]])
    options = whole.options
    output: Output = "laplace" if whole.output == "laplace" else "sum"
    probe = passes.pose(whole.data.given, few, whole.h, output, options, frame, whole.tolerance, data=whole.data)
    taken = passes.share(probe)
    tight = float((whole.data.kinds > 0).mean())
    return min(taken, 1.0), tight
