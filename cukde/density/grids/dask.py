"""Densities on product grids of Dask arrays: the densities of blocks, averaged by their shares of the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, by_tree, each
from cukde.core.over_dask import is_dask, meta
from cukde.core.quiet import quiet
from cukde.core.types import ArrayLike, Bandwidth, Domain
from cukde.density import axes as density_axes, check as density_check, results
from cukde.density.arguments import checked
from cukde.density.dask import blocks as dask_blocks
from cukde.density.dask.arguments import beside
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import domain_of
from cukde.density.grids import check
from cukde.density.grids.api import unrounded


class _Share(NamedTuple):
    """The density of a block of rows on the grid, float64, or its logarithm; None of a block without weight."""

    log_mass: float
    density: Any


@quiet
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
    bounds: Domain | None = None,
    periods: Domain | None = None,
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
    log = core_check.flag("log", log)
    check.plain(axes=axes, h=h)
    density_check.no_rule("h", h)
    deterministic = core_check.flag("deterministic", deterministic)
    check_finite = core_check.flag("check_finite", check_finite)
    x, w = _rows("X", X), None if weights is None else _rows("weights", weights, X)
    dispatch.backend(meta(x), weights=meta(w))
    if not is_dask(x):
        of_weights: Any = w
        rows = of_weights.chunks[0] if is_dask(w) and of_weights.shape[:1] == x.shape[:1] else -1
        x = da.from_array(x, chunks=(rows, *x.shape[1:]))
    unknown = unknown_rows(x, w)
    d = density_check.data(stand_in(x, unknown), core_arrays)[0].shape[1]
    grid = density_axes.checked(axes, d)
    check.algorithm(algorithm, d, log=log)
    corner = np.zeros((1, d), density_check.result_dtype(*grid))
    forms = checked(core_arrays, stand_in(x, unknown), corner, h, stand_in(w, unknown), precision=precision)
    domain = domain_of(bounds, periods, d)
    if domain is not None:
        domains_check.bandwidth(forms.whitening.bandwidth, domain.bounded)
    x = x.rechunk({1: -1}) if x.ndim == 2 and x.numblocks[1] > 1 else x
    w = beside("weights", w, x)

    options: dict[str, Any] = {"axes": grid, "h": forms.whitening.bandwidth, "log": log, "algorithm": algorithm}
    options |= {"precision": forms.precision, "deterministic": deterministic, "check_finite": check_finite}
    options |= {"bounds": bounds, "periods": periods}
    arrays = [x] if w is None else [x, w]
    tasks = [
        (partial(_evaluated, number=i, **options), *((a.name, i, *[0] * (a.ndim - 1)) for a in arrays))
        for i in range(x.numblocks[0])
    ]
    shares = Blocks("grid", tasks, arrays, [a.name for a in arrays], options)
    whole = each(
        "grid", _rounded, by_tree(shares, partial(_averaged, log=log)), dtype=forms.dtype, weighted=w is not None
    )
    name = f"{whole.name}-array"
    graph = HighLevelGraph.from_collections(name, {(name, *[0] * d): whole.keys[0]}, [whole])
    kind = type(x._meta) if dispatch.is_gpu_array(x._meta) else np.ndarray
    return da.Array(
        graph,
        name,
        tuple((len(g),) for g in grid),
        dtype=forms.dtype,
        meta=kind((0,) * d, dtype=forms.dtype),
    )


def _evaluated(
    points: Any,
    weights: Any = None,
    *,
    number: int,
    axes: list[np.ndarray],
    h: np.ndarray,
    log: bool,
    algorithm: str,
    precision: str,
    deterministic: bool,
    check_finite: bool,
    bounds: Any,
    periods: Any,
) -> _Share:
    """What a task does with a block of rows."""
    with computing(points) as backend, dask_check.of_block("X", number):
        log_mass = dask_blocks.log_rows(len(points))
        if weights is not None and len(points):
            w = density_check.weights(weights, len(points), backend)
            if check_finite:
                core_check.finite({"weights": bool(backend.xp.isfinite(w).all())})
                density_check.weight_range(float(w.min()), math.inf)
            largest = float(w.max())
            total = float((w / largest).sum(dtype=np.float64)) if largest > 0 else 0.0
            log_mass = math.log(total) + math.log(largest) if largest > 0 else -math.inf
        if log_mass == -math.inf:
            return _Share(log_mass, None)
        options = weights, precision, deterministic, check_finite, bounds, periods
        return _Share(log_mass, unrounded(points, axes, h, *options, log=log, algorithm=algorithm))


def _averaged(shares: list[_Share], *, log: bool) -> _Share:
    """Average the densities of several blocks of rows, on the device of the first."""
    some = [share for share in shares if share.density is not None]
    if not some:
        return _Share(-math.inf, None)
    largest = max(share.log_mass for share in some)
    log_mass = largest + math.log(math.fsum(math.exp(share.log_mass - largest) for share in some))
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


def _rows(name: str, a: Any, rows_of: Any = None) -> Any:
    """A Dask array of rows, or a plain one."""
    a = collected(name, a, rows_of)
    if is_dask(a):
        dask_check.dimensions(name, a)
    return a
