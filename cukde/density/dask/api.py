"""The density family on Dask arrays: blocks of data by blocks of queries, merged by a tree of exact log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np

from cukde.core import check as core_check, dispatch, warnings as core_warnings
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, array, crossed, each, unordered
from cukde.core.over_dask import dask_form, is_dask
from cukde.core.quiet import quiet
from cukde.core.types import ArrayLike, Bandwidth
from cukde.density import (
    check as density_check,
    kernels,
    leave_one_out as density_leave_one_out,
    metric_density as density_metric_density,
    results,
    sums as density_sums,
)
from cukde.density.dask import blocks as dask_blocks
from cukde.density.dask.arguments import Arguments, arguments
from cukde.density.dask.certificate import Needed
from cukde.density.dask.leave_one_out import without_own_weight
from cukde.density.kernels import KERNELS, Kernel
from cukde.density.problem import Problem, score_whitening
from cukde.density.sums import Output, PartialSums
from cukde.density.whitening import Whitening


@dask_form(boxes=None)
def kde(X: ArrayLike, Y: ArrayLike, h: Bandwidth, *, log: bool = False, **options: Any) -> da.Array:
    """Compute :func:`cukde.kde` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Parameters
    ----------
    boxes : BlockBoxes, or a pair of them, optional
        Boxes of ``X``, or of ``X`` and ``Y``, by :func:`cukde.dask.block_boxes`; None for a plain array, whose boxes
        are computed at once. Pairs of blocks that cannot matter are then left out, and blocks that no query needs are
        not read. ``rtol`` still holds; a 64th of it is for these blocks. With a tolerance of 0, with ``local_factors``
        and with ``leave_one_out``, all pairs are taken.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> cukde.dask.kde(X, np.array([0.5]), 1.0).compute().round(4)
    array([0.3521])
    """
    inputs = arguments(X, Y, h, **options)
    data, sums = sums_of(inputs, "sum")
    return density_of(inputs, data, sums, log=log)


@dask_form(boxes=None)
def score(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Any) -> da.Array:
    """Compute :func:`cukde.score` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> cukde.dask.score(X, np.array([0.0]), 1.0).compute().round(4)
    array([0.3775])
    """
    inputs = arguments(X, Y, h, **options)
    _, sums = sums_of(inputs, "moments", ratio=True, of_gradient=True)
    return of_queries(inputs, results.gradient, sums)


@dask_form(boxes=None)
def density_and_score(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Any) -> tuple[da.Array, da.Array]:
    """Compute :func:`cukde.density_and_score` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> log_p, s = cukde.dask.density_and_score(X, np.array([0.0]), 1.0)
    >>> log_p.compute().round(4), s.compute().round(4)
    (array([-1.138]), array([0.3775]))
    """
    inputs = arguments(X, Y, h, **options)
    data, sums = sums_of(inputs, "moments", of_gradient=True)
    return density_of(inputs, data, sums, log=True), of_queries(inputs, results.gradient, sums)


@dask_form(boxes=None)
def debias(
    X: ArrayLike,
    h: Bandwidth,
    *,
    score_bandwidth: Bandwidth | None = None,
    steps: int = 1,
    own_point: bool = True,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.debias` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64. Each unordered pair of blocks is one pass if that is
    faster; the cost is at most n^2 exponentials. Each of the ``steps`` after the first takes all pairs of blocks, and
    so does the first without ``own_point``.

    Parameters
    ----------
    boxes
        Boxes of ``X``: see :func:`cukde.dask.kde`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([-1.0, 1.0]), chunks=1)
    >>> cukde.dask.debias(X, 1.0).compute().round(4)
    array([-0.8808,  0.8808])
    """
    inputs = arguments(X, X, h, **options)
    own_point = core_check.flag("own_point", own_point)
    data, sums, _ = _sums_at_data(inputs, score_bandwidth, density_check.steps(steps), own_point=own_point)
    return of_queries(inputs, _moved, data, sums)


@dask_form(boxes=None)
def sd_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    score_bandwidth: Bandwidth | None = None,
    steps: int = 1,
    own_point: bool = True,
    log: bool = False,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.sd_kde` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64. It costs :func:`debias`, once, and the density of the
    moved points. Only blocks that the queries need are debiased; with more than one step, or without ``own_point``, all
    are.

    Parameters
    ----------
    boxes
        As in :func:`cukde.dask.kde`, widened by a bound of how far points move.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([-1.0, 1.0]), chunks=1)
    >>> cukde.dask.sd_kde(X, np.array([0.0]), 1.0).compute().round(4)
    array([0.2707])
    """
    inputs = arguments(X, Y, h, **options, debiases=True)
    steps, own_point = density_check.steps(steps), core_check.flag("own_point", own_point)
    data, sums, shifts = _sums_at_data(inputs, score_bandwidth, steps, own_point=own_point)
    whitening = inputs.forms.whitening
    layout = inputs.layout(whitening)
    moved = each("debiased", inputs.tasks.debiased, data, sums, layout=layout)
    queries = inputs.query_blocks(layout)
    if inputs.leave_one_out:
        sums = pass_over(inputs, queries, moved, "sum", None, leave_one_out=True)
        sums = without_own_weight(data, sums, weighted=inputs.weights is not None)
    else:
        needed = inputs.needed(whitening, "sum", moved=shifts) if steps == 1 and own_point else None
        sums = pass_over(inputs, queries, moved, "sum", needed)
    return density_of(inputs, moved, sums, log=log)


@dask_form(boxes=None)
def laplace_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    negative: Literal["keep", "clip"] = "keep",
    log: bool = False,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.laplace_kde` of Dask arrays, lazily.

    Clipped values are reported for each block of queries, when it is computed. The result equals that of plain arrays,
    to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0]), chunks=1)
    >>> cukde.dask.laplace_kde(X, np.array([0.0, 3.0]), 1.0).compute().round(4)
    array([ 0.5984, -0.0133])
    """
    density_check.negative(negative)
    inputs = arguments(X, Y, h, **options)
    data, sums = sums_of(inputs, "laplace")
    return density_of(inputs, data, sums, partial(_laplace, clip=negative == "clip"), log=log)


@dask_form()
def kernel_sum(
    X: ArrayLike, V: ArrayLike, Y: ArrayLike, h: Bandwidth, *, log: bool = False, **options: Any
) -> da.Array:
    """Compute :func:`cukde.kernel_sum` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed. All pairs of
    blocks are taken, because values of any size may cancel.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> cukde.dask.kernel_sum(X, np.array([1.0, -1.0]), np.array([0.0]), 1.0).compute().round(4)
    array([0.3935])
    """
    core_check.given("V", V)
    inputs = arguments(X, Y, h, V=V, **options)
    values: Any = inputs.forms.v
    if core_check.flag("log", log):
        return _log_values(X, collected("V", V), Y, h, inputs, options)
    _, sums = sums_of(inputs, "values")
    k = None if values.ndim == 1 else values.shape[1]
    return result_of(inputs, each("values", _values, sums, dtype=inputs.forms.dtype, flat=k is None), k)


def _log_values(X: Any, V: Any, Y: Any, h: Any, inputs: Arguments, options: Any) -> da.Array:
    """Logarithms of densities whose weights are values of one sign, of their sums, and of the density's constant."""
    V, unit, dtype = da.asarray(V), inputs.forms.whitening.log_norm, inputs.forms.dtype
    out = []
    for v in [V] if V.ndim == 1 else V.T:
        v = v.astype(np.float64)
        log_sum = da.map_blocks(_log_sum, v.sum(), abs(v).sum(), dtype=np.float64)
        density = kde(X, Y, h, weights=abs(v), log=True, **options).astype(np.float64)
        out.append((density + (log_sum - unit)).astype(dtype))
    return out[0] if V.ndim == 1 else da.stack(out, axis=1)


def _log_sum(total: Any, absolute: Any) -> Any:
    density_check.one_sign(np.atleast_1d(abs(total) != absolute))
    return np.log(absolute)


@quiet
def kernel_density(
    X: Any,
    Y: Any,
    h: Any,
    *,
    kernel: Kernel,
    weights: Any = None,
    rtol: float | None = None,
    log: bool = False,
    check_finite: bool = True,
) -> da.Array:
    """See :func:`cukde.density.kernel_density.kernel_density`."""
    core_check.option("kernel", kernel, KERNELS)
    inputs = arguments(X, Y, h, weights=weights, check_finite=check_finite, rtol=rtol)
    data, sums = sums_of(inputs, "sum", summed=partial(_sums_of_kernel, kernel=kernel))
    return density_of(inputs, data, sums, log=log, log_unit=kernels.log_constant(kernel, inputs.forms.x.shape[1]))


def metric_density(
    X: Any, Y: Any, h: float, *, distance: Any, kernel: Kernel | Literal["gaussian"], weights: Any = None
) -> da.Array:
    """Logarithm of a kernel density by one of scikit-learn's distances, with the constant of the euclidean one."""
    inputs = arguments(X, Y, h, weights=weights)
    data, sums = sums_of(inputs, "sum", summed=partial(_sums_by_distance, distance=distance, h=h, kernel=kernel))
    d = inputs.forms.x.shape[1]
    log_unit = -0.5 * d * math.log(2 * math.pi) if kernel == "gaussian" else kernels.log_constant(kernel, d)
    return density_of(inputs, data, sums, log=True, log_unit=log_unit)


def sums_of(inputs: Arguments, output: Output, **options: Any) -> tuple[Blocks, Blocks]:
    """Blocks of data, and sums over all of them for each block of queries; options of :func:`pass_over`."""
    whitening = inputs.forms.whitening
    layout = inputs.layout(whitening)
    data = inputs.data_blocks(layout)
    queries = data if inputs.Y is None else inputs.query_blocks(layout)
    if not inputs.leave_one_out:
        return data, pass_over(inputs, queries, data, output, inputs.needed(whitening, output), **options)
    sums = pass_over(inputs, queries, data, output, None, leave_one_out=True, **options)
    return data, without_own_weight(data, sums, weighted=inputs.weights is not None)


def _sums_at_data(
    inputs: Arguments, score_bandwidth: Any, steps: int, *, own_point: bool
) -> tuple[Blocks, Blocks, np.ndarray | None]:
    """Blocks of data, and their mean shift by self-interaction (Y = X); all of it is computed once.

    After several ``steps`` it is that of the points of the last step but one, at the data. And how far the first may
    move them, see :func:`cukde.density.dask.certificate.shifts`; None where that is not asked.
    """
    dask_check.plain("score_bandwidth", is_dask(score_bandwidth))
    density_check.no_rule("score_bandwidth", score_bandwidth)
    whitening = inputs.forms.whitening
    if score_bandwidth is not None:
        d, factors = inputs.forms.x.shape[1], inputs.local_factors is not None
        whitening = score_whitening(score_bandwidth, d, inputs.domain, factors=factors, single=whitening.single)
    data = inputs.data_blocks(inputs.layout(whitening))
    if not own_point and inputs.streamed:
        raise ValueError(
            "own_point=False needs X where Y is; got X on the host and Y on the GPU: move the blocks of X there, or Y "
            "to the host"
        )
    needed = inputs.needed(whitening, "moments", queries_are_data=True) if own_point else None

    def shifted(points: Blocks, needed: Needed | None) -> Blocks:
        if own_point:
            return pass_over(inputs, data, points, "moments", needed, ratio=True, everywhere=True)
        sums = pass_over(inputs, data, points, "moments", None, everywhere=True, leave_one_out=True)
        return each("limited", _limited, sums, h=whitening.h)

    sums = shifted(data, needed)
    for _ in range(steps - 1):
        by = inputs.forms.whitening
        points = each("debiased", inputs.tasks.debiased, data, sums, layout=inputs.layout(whitening), by=by)
        sums = shifted(points, None)
    return data, sums, inputs.shifts(needed, whitening)


def pass_over(
    inputs: Arguments,
    queries: Blocks,
    data: Blocks,
    output: Output,
    needed: Needed | None,
    *,
    of_gradient: bool = False,
    **options: Any,
) -> Blocks:
    """One pass over the pairs of blocks that are ``needed``; other options are those of a pair.

    Where ``queries`` are the data, the kernel of two points is the same both ways, and an unordered pair of blocks is
    taken once; not with weights or local factors, nor where every run is to give the same bits, nor by the fast
    transform of one dimension, which takes no pairs, nor in a domain with images, nor without own terms, nor where the
    data stay on the host.
    """
    pairs, passes = None if needed is None else needed.pairs, inputs.options._replace(of_gradient=of_gradient)
    each_once = queries is data and output == "moments" and inputs.forms.x.shape[1] > 1 and inputs.domain is None
    plain = inputs.weights is None and inputs.local_factors is None and not inputs.options.deterministic
    if each_once and plain and not (options.get("leave_one_out") or inputs.streamed):
        steps = dask_blocks.among, dask_blocks.between, dask_blocks.merge
        return unordered("sums", *steps, data, pairs, options=passes, ratio=options.get("ratio", False))
    options |= {"output": output, "options": passes, "itself": queries is data}
    return crossed("sums", inputs.tasks.pairs, dask_blocks.merge, queries, data, pairs, **options)


def density_of(
    inputs: Arguments,
    data: Blocks,
    sums: Blocks,
    end: Callable[..., Any] = density_sums.to_density,
    *,
    log: Any,
    log_unit: float | None = None,
    log_mass: float = 0.0,
) -> da.Array:
    """Densities at the queries, or their logarithms, of merged sums by an ``end`` of :mod:`cukde.density.results`.

    ``log_unit`` is the logarithm of the constant of a kernel of bandwidth 1, by default that of the Gaussian.
    ``log_mass`` is that of a mass by which densities are divided.
    """
    whitening, total = inputs.forms.whitening, inputs.log_total(data)
    log_constant = whitening.log_norm if log_unit is None else log_unit - whitening.log_det
    options: dict[str, Any] = {"end": end, "log": core_check.flag("log", log), "dtype": inputs.forms.dtype}
    options |= {"log_constant": log_constant, "log_mass": log_mass}
    extra = {"extra": total} if isinstance(total, Blocks) else {"log_total": total}
    return result_of(inputs, each("density", _density, sums, **extra, **options))


def of_queries(inputs: Arguments, end: Callable[..., Any], *blocks: Blocks) -> da.Array:
    """A result of the shape of the queries, of what ``end`` makes of blocks, (rows, columns)."""
    options: dict[str, Any] = {"whitening": inputs.forms.whitening, "weighted": inputs.weights is not None}
    options |= {"dtype": inputs.forms.dtype, "flat": inputs.queries.ndim == 1}
    return result_of(inputs, each("rows", _rows, *blocks, end=end, **options), *inputs.queries.shape[1:])


def result_of(inputs: Arguments, blocks: Blocks, columns: int | None = None) -> da.Array:
    """A result with a row for each query."""
    on_gpu = (a._meta for a in (inputs.X, inputs.queries) if dispatch.is_gpu_array(a._meta))
    meta = next(on_gpu, np.empty(0))
    return array(blocks, inputs.queries.chunks[0], columns, inputs.forms.dtype, meta)


def _density(
    sums: PartialSums,
    log_total: float,
    *,
    end: Callable[..., Any],
    log_constant: float,
    log_mass: float,
    log: bool,
    dtype: np.dtype,
) -> Any:
    with computing(sums.total) as backend:
        return end(sums, log_constant - log_total - log_mass, log, dtype, backend.xp)


def _laplace(sums: PartialSums, log_constant: float, log: bool, dtype: np.dtype, xp: Any, *, clip: bool) -> Any:
    out, report = results.laplace(sums, log_constant, log, dtype, xp, clip=clip)
    if report is not None:
        core_warnings.from_task(f"{report} of this block", core_warnings.NegativeDensityWarning)
    return out


def _rows(
    *blocks: Any, end: Callable[..., Any], weighted: bool, whitening: Whitening, dtype: np.dtype, flat: bool
) -> Any:
    first = blocks[0]
    with computing(first.total if isinstance(first, PartialSums) else first.points) as backend:
        sums = dask_blocks.here(blocks[-1], backend)
        dask_blocks.some_weight(sums, weighted=weighted)
        out = results.cast(end(*blocks[:-1], sums, whitening, backend.xp), dtype)
        return out[:, 0] if flat else out


def _moved(block: dask_blocks.Block, sums: PartialSums, whitening: Whitening, xp: Any) -> Any:
    moved = dask_blocks.shift(block, sums, whitening=whitening)
    return moved if block.domain is None else block.domain.restored(moved, xp)


def _sums_of_kernel(problem: Problem, *, kernel: Kernel) -> PartialSums:
    return problem.kernel_sums(kernel)


def _sums_by_distance(problem: Problem, *, distance: Any, h: float, kernel: str) -> PartialSums:
    X, Y = problem.X, problem.X if problem.Y is None else problem.Y
    weights = None if problem.options.log_weights is None else np.exp(problem.options.log_weights)
    logs = density_metric_density.log_sums(distance, X, Y, h, kernel, weights)
    return density_sums.of_logarithms(logs if weights is not None else logs + np.log(len(X)), np)


def _limited(sums: PartialSums, *, h: float) -> PartialSums:
    with computing(sums.total) as backend:
        return density_leave_one_out.limited(sums, h, backend.xp)


def _values(sums: PartialSums, *, dtype: np.dtype, flat: bool) -> Any:
    with computing(sums.total) as backend:
        out = results.values(sums, dtype, backend.xp)
        return out[:, 0] if flat else out
