"""``KernelDensity`` fitted to Dask collections, and at queries in them: arrays stay lazy, few numbers are computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
from sklearn.utils.validation import validate_data

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host
from cukde.core.dask import check as dask_check, chunks as dask_chunks
from cukde.core.dask.arrays import collected, empty_like, stand_in
from cukde.core.dask.devices import computing
from cukde.core.over_dask import is_dask, meta
from cukde.density import check as density_check
from cukde.density.dask import api as density_dask
from cukde.estimators import check, sampling

if TYPE_CHECKING:
    pass


def points(estimator: Any, X: Any, backend: ModuleType, *, reset: bool) -> da.Array:
    """Check the form of points and the names of their columns; return them in blocks of the backend."""
    a = collected("X", X)
    form = check.rows_and_columns(stand_in(a), host)
    dask_check.dimensions("X", a)
    if a.numblocks[1] > 1:
        a = a.rechunk({1: -1})
    # Scikit-learn looks at names, which a frame without rows has too, and at the number of columns.
    validate_data(estimator, X._meta if hasattr(X, "columns") else form, reset=reset, skip_check_array=True)
    return _moved(a, backend)


def taken(
    estimator: Any, given: Any, sample_weight: Any, metric: Any | None, backend: ModuleType
) -> tuple[da.Array, Any, Any, np.dtype]:
    """Centres of the kernels, the bandwidth and the weights of a fit to checked points; and the dtype of the data.

    Where a rule for the bandwidth needs the number of rows and it is not known, rows are counted now.
    """
    dask_check.plain("bandwidth", is_dask(estimator.bandwidth))
    n, d = given.shape
    if not is_dask(given):
        rows = dask_chunks.rows_of_block(n, n, d, gpu=backend.xp is not np)
        given = da.from_array(backend.xp.array(given), chunks=(rows, d))
    if math.isnan(n) and isinstance(estimator.bandwidth, str):
        n = int(sum(_lengths(given)))
    h = check.fit(estimator.get_params(deep=False), metric, np.zeros((1, d)), n)
    weights = None if sample_weight is None else _weights(sample_weight, given, backend)
    dtype = density_check.result_dtype(given)
    centres = given.astype(dtype)
    if estimator.method == "sd":
        # In double precision, so that an offset costs no accuracy; pairs in that of the data.
        precision = dtype.name if estimator.precision is None else estimator.precision
        centres = density_dask.debias(given.astype(np.float64), h, weights=weights, precision=precision)
    return centres, h, weights, dtype


def _weights(sample_weight: Any, given: da.Array, backend: ModuleType) -> Any:
    """Weights beside points: those of a plain array are checked, of a Dask array the form."""
    name = "sample_weight"
    known = not math.isnan(given.shape[0])
    if not is_dask(sample_weight):
        dask_check.alignable(name, known, None, given.numblocks[0])
        to = sample_weight if backend.xp is not np else dispatch.to_host(sample_weight)
        return check.weights(to, given.shape[0], backend)
    w = collected(name, sample_weight)
    known &= not any(math.isnan(size) for size in w.shape)
    density_check.weights(stand_in(w, not known), given.shape[0] if known else 1, host, name)
    dask_check.alignable(name, known, w.numblocks[0], given.numblocks[0])
    return _moved(w, backend).astype(np.float64)


def log_likelihood(log_p: da.Array, *, signed: bool) -> float:
    """Sum of log densities, computed; ``signed`` densities must all be positive."""
    positive = log_p > -np.inf  # neither NaN, a negative density, nor -inf, zero
    total, above, below = dask.compute(log_p.sum(dtype=np.float64), positive.sum(), (~positive).sum())
    if signed:
        check.positive(int(below), int(above) + int(below))
    return float(total)


def drawn(points: Any, weights: Any | None, u: np.ndarray, backend: ModuleType) -> Any:
    """Rows of data by their weights, from numbers between 0 and 1, computed: float64, of the blocks that are hit."""
    if not is_dask(points):
        points = da.from_array(points, chunks=-1)
    of_block = _of_blocks(points, weights)
    if weights is None:
        masses = np.array(_lengths(points))
    else:
        masses = np.array(dask.compute(*(dask.delayed(_sum)(w) for w in of_block)))
        core_check.finite({"sample_weight": bool(np.isfinite(masses).all())})
        density_check.weight_range(masses.min(), masses.max(), "sample_weight")
    ends = np.cumsum(masses)
    dask_check.some_data(ends[-1])
    # The middle of a row, so that rounding does not leave it; of weights as rows are drawn from them.
    at = np.floor(u * ends[-1]) + 0.5 if weights is None else np.minimum(u * ends[-1], np.nextafter(ends[-1], 0))
    block = np.searchsorted(ends, at, side="right")
    hit = np.unique(block).tolist()
    within = (at - np.append(0, ends)[block]) / masses[block]
    tasks = [dask.delayed(_rows)(points.blocks[i], of_block[i], within[block == i]) for i in hit]
    out = backend.xp.empty((len(u), points.shape[1]))
    for i, rows in zip(hit, dask.compute(*tasks), strict=True):
        out[backend.xp.asarray(np.flatnonzero(block == i))] = backend.asarray(rows)
    return out


def on_host(a: da.Array) -> da.Array:
    """The same in blocks of NumPy."""
    if not dispatch.is_gpu_array(meta(a)):
        return a
    return a.map_blocks(dispatch.to_host, dtype=a.dtype, meta=np.empty((0,) * a.ndim, a.dtype))


def _moved(a: Any, backend: ModuleType) -> da.Array:
    """The same in blocks of the backend."""
    if backend.xp is np:
        return on_host(a)
    if dispatch.is_gpu_array(meta(a)):
        return a
    like = backend.asarray(empty_like(a, a.ndim, a.dtype))
    return a.map_blocks(_brought, bring=backend.asarray, wait=backend.synchronize, dtype=a.dtype, meta=like)


def _brought(block: Any, *, bring: Callable[[Any], Any], wait: Callable[[], None]) -> Any:
    out = bring(block)
    wait()
    return out


def _lengths(a: da.Array) -> tuple[int, ...]:
    """Rows of each block, computed where they are not known."""
    if not math.isnan(a.shape[0]):
        return tuple(a.chunks[0])
    return tuple(dask.compute(*(dask.delayed(len)(a.blocks[i]) for i in range(a.numblocks[0]))))


def _of_blocks(points: da.Array, weights: Any | None) -> list[Any]:
    """Weights of each block of points, lazy where they are a Dask array."""
    if weights is None:
        return [None] * points.numblocks[0]
    if is_dask(weights):
        if not math.isnan(points.shape[0]) and not math.isnan(weights.shape[0]):
            weights = weights.rechunk((points.chunks[0],))
        return [weights.blocks[i] for i in range(weights.numblocks[0])]
    return np.split(dispatch.to_host(weights), np.cumsum(points.chunks[0])[:-1])


def _sum(weights: Any) -> float:
    return float(weights.sum())


def _rows(points: Any, weights: Any | None, u: np.ndarray) -> Any:
    """Rows of one block by their weights, float64."""
    with computing(points) as backend:
        xp = backend.xp
        return points[xp.asarray(sampling.rows(len(points), weights, u))].astype(np.float64)
