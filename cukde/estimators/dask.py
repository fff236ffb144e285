"""``KernelDensity`` on Dask collections: arrays stay lazy, and only few numbers are computed at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import dask
import dask.array as da
import numpy as np
from sklearn.utils.validation import validate_data

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host
from cukde.core.dask import check as dask_check, chunks as dask_chunks
from cukde.core.dask.arrays import collected, empty_like, stand_in, whole_rows
from cukde.core.dask.devices import computing
from cukde.core.over_dask import is_dask, meta
from cukde.density import check as density_check, rows_by_weight
from cukde.density.dask import api as density_dask
from cukde.density.domains.domain import Domain
from cukde.density.estimates import ESTIMATES
from cukde.estimators import check

_LEAST_EXPONENT = -1100  # of the power of two about a number of float64


def points(estimator: Any, X: Any, backend: ModuleType, *, reset: bool) -> da.Array:
    """Check the shape of points and the names of their columns; return them in blocks of the backend."""
    a = collected("X", X)
    standing_in = check.rows_and_columns(stand_in(a), host)
    dask_check.dimensions("X", a)
    a = whole_rows(a)
    # Scikit-learn checks names, which a frame without rows has too, and the number of columns.
    validate_data(estimator, X._meta if hasattr(X, "columns") else standing_in, reset=reset, skip_check_array=True)
    estimator._keep_or_check_names(X, reset=reset)
    return _moved(a, backend)


def taken(
    estimator: Any, X: Any, sample_weight: Any, metric: Any | None, backend: ModuleType, rows_of: Any
) -> tuple[da.Array, Any, Any, None, np.dtype, Domain | None]:
    """Return what a fit to checked points has: centres, bandwidth, weights, no local factors, dtype and domain.

    If a rule for the bandwidth needs the unknown number of rows, it is computed now. ``rows_of`` is what X was.
    """
    dask_check.plain("bandwidth", is_dask(estimator.bandwidth))
    check.no_rule(estimator.bandwidth)
    n, d = X.shape
    if not is_dask(X):
        rows = dask_chunks.rows_of_block(n, n, d, gpu=backend.xp is not np)
        X = da.from_array(backend.xp.array(X), chunks=(rows, d))
    if math.isnan(n) and isinstance(estimator.bandwidth, str):
        n = int(sum(_lengths(X)))
    parameters = estimator._by_column(d)
    h = check.fit(parameters, metric, np.zeros((1, d)), n)
    domain = check.domain(parameters, h, d)
    weights = None if sample_weight is None else _weights(sample_weight, X, backend, rows_of)
    dtype = density_check.result_dtype(X)
    if X.dtype.kind != "f":
        X = X.map_blocks(_floating, dtype=np.float64, meta=X._meta.astype(np.float64))
    centres = X.astype(dtype)
    if ESTIMATES[estimator.method].moves:
        # Points in float64, so that an offset costs no accuracy; pairs in the precision of the data.
        precision = dtype.name if estimator.precision is None else estimator.precision
        double, ends = X.astype(np.float64), {}
        if domain is not None:
            double, ends = X.map_blocks(_within, domain, dtype=np.float64, meta=double._meta), domain.arguments
        options = {"steps": estimator.steps, "own_point": estimator.own_point, "precision": precision}
        centres = density_dask.debias(double, h, weights=weights, **options, **ends)
    return centres, h, weights, None, dtype, domain


def _floating(block: Any) -> Any:
    """Return integers in double precision, or raise where it does not have them."""
    with computing(block) as backend:
        return core_check.floating("X", block, backend)


def _within(block: Any, domain: Domain) -> Any:
    """Points in double precision, those on a bound that their dtype has rounded brought onto it; others as they are."""
    with computing(block) as backend:
        xp = backend.xp
        low, high = (xp.asarray(end) for end in (domain.low, domain.high))
        double = block.astype(np.float64)
        return xp.where(domain.outside(block, xp), double, xp.minimum(xp.maximum(double, low), high))


def _weights(sample_weight: Any, X: da.Array, backend: ModuleType, rows_of: Any) -> Any:
    """Return checked weights aligned with X; of a Dask array only the shape is checked."""
    name = "sample_weight"
    known = not math.isnan(X.shape[0])
    if not is_dask(sample_weight):
        dask_check.alignable(name, known, None, X.numblocks[0])
        moved = sample_weight if backend.xp is not np else dispatch.to_host(sample_weight)
        return check.weights(moved, X.shape[0], backend)
    w = collected(name, sample_weight, rows_of)
    known &= not any(math.isnan(size) for size in w.shape)
    density_check.weights(stand_in(w, not known), X.shape[0] if known else 1, host, name)
    dask_check.alignable(name, known, w.numblocks[0], X.numblocks[0])
    return _moved(w, backend).astype(np.float64)


def drawn(points: Any, weights: Any | None, u: np.ndarray, backend: ModuleType) -> Any:
    """Compute rows of the data, float64, chosen by their weights from uniform random numbers."""
    if not is_dask(points):
        points = da.from_array(points, chunks=-1)
    block_weights = _block_weights(points, weights)
    if weights is None:
        masses = np.array(_lengths(points))
    else:
        sums, exponents = map(
            np.array, zip(*dask.compute(*(dask.delayed(_sum)(w) for w in block_weights)), strict=True)
        )
        core_check.finite({"sample_weight": bool(np.isfinite(sums).all())})
        masses = np.ldexp(sums, exponents - exponents[sums > 0].max(initial=_LEAST_EXPONENT))
        density_check.weight_range(masses.min(), masses.max(), "sample_weight")
    ends = np.cumsum(masses)
    dask_check.some_data(ends[-1])
    # Without weights the middle of a row, so that rounding stays within it; with weights as in rows_by_weight.
    places = np.floor(u * ends[-1]) + 0.5 if weights is None else np.minimum(u * ends[-1], np.nextafter(ends[-1], 0))
    block = np.searchsorted(ends, places, side="right")
    chosen = np.unique(block).tolist()
    within = (places - np.append(0, ends)[block]) / masses[block]
    tasks = [dask.delayed(_rows)(points.blocks[i], block_weights[i], within[block == i]) for i in chosen]
    out = backend.xp.empty((len(u), points.shape[1]))
    for i, rows in zip(chosen, dask.compute(*tasks), strict=True):
        out[backend.xp.asarray(np.flatnonzero(block == i))] = backend.asarray(rows)
    return out


def on_host(a: da.Array) -> da.Array:
    """Return the array in NumPy blocks."""
    if not dispatch.is_gpu_array(meta(a)):
        return a
    return a.map_blocks(dispatch.to_host, dtype=a.dtype, meta=np.empty((0,) * a.ndim, a.dtype))


def _moved(a: Any, backend: ModuleType) -> da.Array:
    """Return the array in blocks of the backend."""
    if backend.xp is np:
        return on_host(a)
    if dispatch.is_gpu_array(meta(a)):
        return a
    like = backend.asarray(empty_like(a, a.ndim, a.dtype))
    return a.map_blocks(_copied, copy=backend.asarray, wait=backend.synchronize, dtype=a.dtype, meta=like)


def _copied(block: Any, *, copy: Callable[[Any], Any], wait: Callable[[], None]) -> Any:
    out = copy(block)
    wait()
    return out


def _lengths(a: da.Array) -> tuple[int, ...]:
    """Return the number of rows of each block, computed if unknown."""
    if not math.isnan(a.shape[0]):
        return tuple(a.chunks[0])
    return tuple(dask.compute(*(dask.delayed(len)(a.blocks[i]) for i in range(a.numblocks[0]))))


def _block_weights(points: da.Array, weights: Any | None) -> list[Any]:
    """Return the weights of each block of points, lazy for a Dask array."""
    if weights is None:
        return [None] * points.numblocks[0]
    if is_dask(weights):
        if not math.isnan(points.shape[0]) and not math.isnan(weights.shape[0]):
            weights = weights.rechunk((points.chunks[0],))
        return [weights.blocks[i] for i in range(weights.numblocks[0])]
    return np.split(dispatch.to_host(weights), np.cumsum(points.chunks[0])[:-1])


def _sum(weights: Any) -> tuple[float, int]:
    """Return the sum of a block's weights as a number and the exponent of a power of two by which it is multiplied."""
    if not len(weights):
        return 0.0, 0
    with computing(weights) as backend:
        density_check.weight_range(float(weights.min()), math.inf, "sample_weight")
        some, exponent = rows_by_weight.scaled(weights, backend.xp)
        return float(some.sum()), exponent


def _rows(points: Any, weights: Any | None, u: np.ndarray) -> Any:
    """Return rows of one block, float64, chosen by their weights."""
    with computing(points) as backend:
        xp = backend.xp
        return points[xp.asarray(rows_by_weight.rows(len(points), weights, u))].astype(np.float64)
