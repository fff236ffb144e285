"""Densities on product grids of Dask arrays: the densities of blocks, averaged by their shares of the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import empty_like, rows, stand_in, unknown_rows, whole_rows
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, by_tree, each, single
from cukde.core.over_dask import dask_form, is_dask, meta
from cukde.core.types import ArrayLike, Bandwidth
from cukde.density import axes as density_axes, check as density_check, results
from cukde.density.arguments import checked
from cukde.density.dask import blocks as dask_blocks
from cukde.density.dask.arguments import beside, columns
from cukde.density.grids import check
from cukde.density.grids.api import evaluated
from cukde.density.sums import log_sum


class _Share(NamedTuple):
    """The density of a block of rows on the grid, float64, or its logarithm; None of a block without weight."""

    log_mass: float
    density: Any


@dask_form()
def evaluate_grid(
    X: ArrayLike,
    axes: Sequence[ArrayLike] | ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    log: bool = False,
    algorithm: Literal["auto", "exact", "fft"] = "auto",
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    **ends: Any,
) -> da.Array:
    """Compute :func:`cukde.evaluate_grid` of Dask arrays, lazily.

    The result has one chunk. With "exact" it equals that of plain arrays, to 1e-12 in float64; the error of "fft" is
    relative to the largest density of each block. It costs a call for each block, when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> cukde.dask.evaluate_grid(X, [0.0, 0.5], 1.0).compute().round(4)
    array([0.3205, 0.3521])
    """
    check.plain(axes=axes, h=h)
    density_check.no_rule("h", h)
    flags = {"log": log, "deterministic": deterministic, "check_finite": check_finite}
    options: dict[str, Any] = {name: core_check.flag(name, value) for name, value in flags.items()}
    x, w = rows("X", X), None if weights is None else rows("weights", weights, X)
    dispatch.backend(meta(x), weights=meta(w))
    if not is_dask(x):
        of_weights: Any = w
        like_weights = is_dask(w) and of_weights.shape[:1] == x.shape[:1]
        x = da.from_array(x, chunks=(of_weights.chunks[0] if like_weights else -1, *x.shape[1:]))
    unknown, d = unknown_rows(x, w), columns(x)
    grid = density_axes.checked(axes, d)
    check.algorithm(algorithm, d, log=log)
    corner = np.zeros((1, d), density_check.result_dtype(*grid))
    forms = checked(core_arrays, stand_in(x, unknown), corner, h, stand_in(w, unknown), precision=precision, **ends)
    x = whole_rows(x)
    w = beside("weights", w, x)

    options |= ends | {"axes": grid, "h": forms.whitening.bandwidth, "algorithm": algorithm}
    options |= {"precision": forms.precision}
    arrays = [x] if w is None else [x, w]
    tasks = [
        (partial(_evaluated, number=i, **options), *((a.name, i, *[0] * (a.ndim - 1)) for a in arrays))
        for i in range(x.numblocks[0])
    ]
    shares = Blocks("grid", tasks, arrays, [a.name for a in arrays], options)
    options = {"dtype": forms.dtype, "weighted": w is not None}
    whole = each("grid", _rounded, by_tree(shares, partial(_averaged, log=bool(log))), **options)
    return single(whole, tuple(map(len, grid)), empty_like(x, d, forms.dtype))


def _evaluated(
    points: Any, weights: Any = None, *, number: int, axes: Any, h: Any, log: bool, algorithm: str, **options: Any
) -> _Share:
    """What a task does with a block of rows."""
    with computing(points) as backend, dask_check.of_block("X", number):
        log_mass = dask_blocks.log_rows(len(points))
        if weights is not None and len(points):
            w = density_check.weights(weights, len(points), backend)
            if options["check_finite"]:
                core_check.finite({"weights": bool(backend.xp.isfinite(w).all())})
                density_check.weight_range(float(w.min()), math.inf)
            log_mass = dask_blocks.log_weight(w)
        if log_mass == -math.inf:
            return _Share(log_mass, None)
        exact = np.dtype(np.float64)
        options["weights"] = weights
        return _Share(log_mass, evaluated(points, axes, h, options, log=log, algorithm=algorithm, dtype=exact))


def _averaged(shares: list[_Share], *, log: bool) -> _Share:
    """Average the densities of several blocks of rows, on the device of the first."""
    some = [share for share in shares if share.density is not None]
    if not some:
        return _Share(-math.inf, None)
    log_mass = log_sum([share.log_mass for share in some])
    with computing(some[0].density) as backend, np.errstate(invalid="ignore"):
        xp = backend.xp
        total: Any = None
        for log_share, density in some:
            density = backend.asarray(density)
            if log:
                part = density + (log_share - log_mass)
                total = part if total is None else xp.logaddexp(total, part)
            else:
                part = density * math.exp(log_share - log_mass)
                total = part if total is None else total + part
        return _Share(log_mass, total)


def _rounded(share: _Share, *, dtype: np.dtype, weighted: bool) -> Any:
    if share.density is None:
        dask_blocks.log_total([-math.inf], weighted=weighted)  # raises
    with computing(share.density):
        return results.cast(share.density, dtype)
