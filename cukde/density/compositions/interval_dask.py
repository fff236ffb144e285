"""Intervals of Dask arrays, from the lazy densities of several bandwidths."""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np

from cukde.core import dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected, rows, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.over_dask import dask_form, is_dask
from cukde.core.random_state import DEFAULT, RandomState
from cukde.core.types import ArrayLike, Bandwidth
from cukde.density import check as density_check
from cukde.density.api import kde
from cukde.density.compositions import check, jackknife
from cukde.density.compositions.interval import DensityInterval, normal_quantile
from cukde.density.compositions.jackknife import LogDensity
from cukde.density.dask.arguments import columns as columns_of
from cukde.density.whitening import whitening_of


@dask_form()
def density_interval(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    draws: int = 1000,
    random_state: RandomState = DEFAULT,
    weights: ArrayLike | None = None,
    n_eff: float | None = None,
    precision: str | None = None,
    **options: Any,
) -> DensityInterval:
    """Compute :func:`cukde.density_interval` of Dask arrays, lazily, but for simultaneous intervals.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0, 2.0]), chunks=2)
    >>> cukde.dask.density_interval(X, np.array([0.5]), 1.0).high.compute().round(4)
    array([1.3533])
    """
    level = check.level(level)
    check.not_simultaneous(simultaneous)
    dask_check.plain("h", is_dask(h))
    x, y = rows("X", X), rows("Y", Y)
    d, unknown = columns_of(x), unknown_rows(x)
    width = density_check.bandwidth(dispatch.to_host(h), d)
    density_check.rows_to_leave_out(2 if unknown else len(x), "density_interval")
    independent = density_check.effective_rows(n_eff, math.inf if unknown else len(x))
    dtype = density_check.result_dtype(x, y)
    options["precision"] = density_check.precision(precision, dtype)
    y, of_squares = y.astype(np.float64), None  # the variance is a difference
    if weights is None:
        column = x[:, :1] if x.ndim == 2 else x
        share = 1 / (column.map_blocks(_ones, dtype=np.float64).sum() if unknown else len(x))
    else:
        w = collected("weights", weights)
        if not unknown_rows(x, w):
            density_check.weights(stand_in(w), len(x), core_arrays)
        squares = (w / w.max()) ** 2
        share = squares.sum() / (w / w.max()).sum() ** 2
        share = share.map_blocks(_of_several, dtype=np.float64) if is_dask(w) else _of_several(share)
        of_squares = _log_densities(x, y, width, options | {"weights": squares})
        options["weights"] = w
    density, log_norm = _log_densities(x, y, width, options), whitening_of(width, d).log_norm
    found = jackknife.estimated(density, of_squares, share, log_norm, d, da, independent)
    quantile = normal_quantile(level)
    low, high, estimate, error = (a.astype(dtype) for a in jackknife.result(found, quantile, log_norm, da))
    return DensityInterval(low, high, estimate, error, quantile)


def _log_densities(x: Any, y: Any, h: np.ndarray, options: dict[str, Any]) -> LogDensity:
    """The log density of a bandwidth as many times as wide."""
    return lambda factor: kde(x, y, jackknife.wider(h, factor), log=True, **options)


def _of_several(share: Any) -> Any:
    """The sum of the squared shares, unless a single row has all of it."""
    check.several_rows(float(share))
    return share


def _ones(block: Any) -> Any:
    with computing(block) as backend:
        return backend.xp.ones(block.shape)
