"""The density family on Dask arrays: blocks of data by blocks of queries, merged by a tree of exact log-sum-exp."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np

from cukde.core import check as core_check, dispatch, warnings as core_warnings
from cukde.core.dask import check as dask_check
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, array, crossed, each, unordered
from cukde.core.over_dask import is_dask
from cukde.core.quiet import quiet
from cukde.core.types import ArrayLike, Bandwidth, Domain
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
from cukde.density.domains import check as domains_check
from cukde.density.kernels import KERNELS, Kernel
from cukde.density.problem import Problem, score_whitening
from cukde.density.sums import Output, PartialSums
from cukde.density.whitening import Whitening


@quiet
def kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: ArrayLike | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
) -> da.Array:
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
    inputs = arguments(
        X,
        Y,
        h,
        weights,
        precision,
        deterministic,
        check_finite,
        local_factors=local_factors,
        rtol=rtol,
        boxes=boxes,
        bounds=bounds,
        periods=periods,
        leave_one_out=leave_one_out,
    )
    data, sums = sums_of(inputs, "sum")
    return result_of(inputs, with_total(inputs, data, sums, _density, log=core_check.flag("log", log)))


@quiet
def score(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: ArrayLike | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
) -> da.Array:
    """Compute :func:`cukde.score` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.
    ``boxes`` are those of :func:`cukde.dask.kde`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> cukde.dask.score(X, np.array([0.0]), 1.0).compute().round(4)
    array([0.3775])
    """
    inputs = arguments(
        X,
        Y,
        h,
        weights,
        precision,
        deterministic,
        check_finite,
        local_factors=local_factors,
        rtol=rtol,
        boxes=boxes,
        bounds=bounds,
        periods=periods,
        leave_one_out=leave_one_out,
    )
    _, sums = sums_of(inputs, "moments", ratio=True, of_gradient=True)
    return of_queries(inputs, _score_of(inputs, sums))


@quiet
def density_and_score(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: ArrayLike | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
) -> tuple[da.Array, da.Array]:
    """Compute :func:`cukde.density_and_score` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.
    ``boxes`` are those of :func:`cukde.dask.kde`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 1.0]), chunks=1)
    >>> log_p, s = cukde.dask.density_and_score(X, np.array([0.0]), 1.0)
    >>> log_p.compute().round(4), s.compute().round(4)
    (array([-1.138]), array([0.3775]))
    """
    inputs = arguments(
        X,
        Y,
        h,
        weights,
        precision,
        deterministic,
        check_finite,
        local_factors=local_factors,
        rtol=rtol,
        boxes=boxes,
        bounds=bounds,
        periods=periods,
        leave_one_out=leave_one_out,
    )
    data, sums = sums_of(inputs, "moments", of_gradient=True)
    log_density = with_total(inputs, data, sums, _log_density)
    return result_of(inputs, log_density), of_queries(inputs, _score_of(inputs, sums))


@quiet
def debias(
    X: ArrayLike,
    h: Bandwidth,
    *,
    score_bandwidth: Bandwidth | None = None,
    steps: int = 1,
    own_point: bool = True,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: ArrayLike | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
) -> da.Array:
    """Compute :func:`cukde.debias` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64. Each unordered pair of blocks is one pass if that is
    faster; the cost is at most n^2 exponentials. ``boxes`` are those of ``X``; see :func:`cukde.dask.kde`. Each of the
    ``steps`` after the first takes all pairs of blocks, and so does the first without ``own_point``.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([-1.0, 1.0]), chunks=1)
    >>> cukde.dask.debias(X, 1.0).compute().round(4)
    array([-0.8808,  0.8808])
    """
    inputs = arguments(
        X,
        X,
        h,
        weights,
        precision,
        deterministic,
        check_finite,
        local_factors=local_factors,
        rtol=rtol,
        boxes=boxes,
        bounds=bounds,
        periods=periods,
    )
    own_point = core_check.flag("own_point", own_point)
    data, sums, _ = _sums_at_data(inputs, score_bandwidth, density_check.steps(steps), own_point=own_point)
    return of_queries(inputs, each("debiased", _moved, data, sums, **shape_of(inputs)))


@quiet
def sd_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    score_bandwidth: Bandwidth | None = None,
    steps: int = 1,
    own_point: bool = True,
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: ArrayLike | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
) -> da.Array:
    """Compute :func:`cukde.sd_kde` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64. It costs :func:`debias`, once, and the density of the
    moved points. ``boxes`` are those of :func:`cukde.dask.kde`, widened by a bound of how far points move. Only blocks
    that the queries need are debiased; with more than one step, or without ``own_point``, all are.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([-1.0, 1.0]), chunks=1)
    >>> cukde.dask.sd_kde(X, np.array([0.0]), 1.0).compute().round(4)
    array([0.2707])
    """
    inputs = arguments(
        X,
        Y,
        h,
        weights,
        precision,
        deterministic,
        check_finite,
        local_factors=local_factors,
        rtol=rtol,
        debiases=True,
        boxes=boxes,
        bounds=bounds,
        periods=periods,
        leave_one_out=leave_one_out,
    )
    steps, own_point = density_check.steps(steps), core_check.flag("own_point", own_point)
    data, sums, shifts = _sums_at_data(inputs, score_bandwidth, steps, own_point=own_point)
    whitening = inputs.forms.whitening
    layout = inputs.layout(whitening)
    moved = each("debiased", inputs.tasks.debiased, data, sums, layout=layout)
    queries = inputs.query_blocks(layout)
    if leave_one_out:
        sums = pass_over(inputs, queries, moved, "sum", None, leave_one_out=True)
        sums = without_own_weight(data, sums, weighted=weights is not None)
    else:
        needed = inputs.needed(whitening, "sum", moved=shifts) if steps == 1 and own_point else None
        sums = pass_over(inputs, queries, moved, "sum", needed)
    return result_of(inputs, with_total(inputs, moved, sums, _density, log=core_check.flag("log", log)))


@quiet
def laplace_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    negative: Literal["keep", "clip"] = "keep",
    weights: ArrayLike | None = None,
    local_factors: ArrayLike | None = None,
    rtol: float | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: ArrayLike | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = False,
) -> da.Array:
    """Compute :func:`cukde.laplace_kde` of Dask arrays, lazily.

    Clipped values are reported for each block of queries, when it is computed. The result equals that of plain arrays,
    to 1e-12 in float64, and costs as much when it is computed. ``boxes`` are those of :func:`cukde.dask.kde`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0]), chunks=1)
    >>> cukde.dask.laplace_kde(X, np.array([0.0, 3.0]), 1.0).compute().round(4)
    array([ 0.5984, -0.0133])
    """
    density_check.negative(negative)
    inputs = arguments(
        X,
        Y,
        h,
        weights,
        precision,
        deterministic,
        check_finite,
        local_factors=local_factors,
        rtol=rtol,
        boxes=boxes,
        bounds=bounds,
        periods=periods,
        leave_one_out=leave_one_out,
    )
    data, sums = sums_of(inputs, "laplace")
    clip = negative == "clip"
    return result_of(inputs, with_total(inputs, data, sums, _laplace, log=core_check.flag("log", log), clip=clip))


@quiet
def kernel_sum(
    X: ArrayLike,
    V: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    rtol: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
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
    inputs = arguments(X, Y, h, None, precision, deterministic, check_finite, V=V, rtol=rtol)
    _, sums = sums_of(inputs, "values")
    values: Any = inputs.forms.v
    k = None if values.ndim == 1 else values.shape[1]
    return result_of(inputs, each("values", _values, sums, dtype=inputs.forms.dtype, flat=k is None), k)


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
    log_unit = kernels.log_constant(kernel, inputs.forms.x.shape[1])
    return result_of(
        inputs, with_total(inputs, data, sums, _kernel_density, log_unit=log_unit, log=core_check.flag("log", log))
    )


def metric_density(
    X: Any, Y: Any, h: float, *, distance: Any, kernel: Kernel | Literal["gaussian"], weights: Any = None
) -> da.Array:
    """Logarithm of a kernel density by one of scikit-learn's distances, with the constant of the euclidean one."""
    inputs = arguments(X, Y, h, weights=weights)
    data, sums = sums_of(inputs, "sum", summed=partial(_sums_by_distance, distance=distance, h=h, kernel=kernel))
    d = inputs.forms.x.shape[1]
    log_unit = -0.5 * d * math.log(2 * math.pi) if kernel == "gaussian" else kernels.log_constant(kernel, d)
    return result_of(inputs, with_total(inputs, data, sums, _kernel_density, log_unit=log_unit, log=True))


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
        factors = inputs.local_factors is not None
        whitening = score_whitening(
            score_bandwidth, inputs.forms.x.shape[1], factors=factors, single=inputs.forms.whitening.single
        )
        if inputs.domain is not None:
            domains_check.bandwidth(whitening.bandwidth, inputs.domain.bounded, "score_bandwidth")
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
    inputs: Arguments, queries: Blocks, data: Blocks, output: Output, needed: Needed | None, **options: Any
) -> Blocks:
    """One pass over the pairs of blocks that are ``needed``; options are those of a pair.

    Where ``queries`` are the data, the kernel of two points is the same both ways, and an unordered pair of blocks is
    taken once; not with weights or local factors, nor where every run is to give the same bits, nor by the fast
    transform of one dimension, which takes no pairs, nor in a domain with images, nor without own terms, nor where the
    data stay on the host.
    """
    several_columns = inputs.forms.x.shape[1] > 1
    pairs = None if needed is None else needed.pairs
    if (
        queries is data
        and output == "moments"
        and several_columns
        and inputs.weights is None
        and inputs.local_factors is None
        and not inputs.deterministic
        and inputs.domain is None
        and not options.get("leave_one_out")
        and not inputs.streamed
    ):
        return unordered(
            "sums",
            dask_blocks.among,
            dask_blocks.between,
            dask_blocks.merge,
            data,
            pairs,
            precision=inputs.forms.precision,
            ratio=options.get("ratio", False),
            rtol=inputs.tolerance_of_pass,
        )
    return crossed(
        "sums",
        inputs.tasks.pairs,
        dask_blocks.merge,
        queries,
        data,
        pairs,
        output=output,
        precision=inputs.forms.precision,
        deterministic=inputs.deterministic,
        rtol=inputs.tolerance_of_pass,
        itself=queries is data,
        **options,
    )


def _quiet() -> Any:
    """Of unchecked data NumPy warns no more than CuPy does of what comes of NaN and infinities."""
    return np.errstate(divide="ignore", invalid="ignore")


def with_total(inputs: Arguments, data: Blocks, sums: Blocks, finish: Any, **options: Any) -> Blocks:
    """Call ``finish`` on merged sums and on the logarithm of all weights."""
    options |= {"whitening": inputs.forms.whitening, "dtype": inputs.forms.dtype}
    total = inputs.log_total(data)
    if isinstance(total, Blocks):
        return each("density", finish, sums, extra=total, **options)
    return each("density", finish, sums, log_total=total, **options)


def shape_of(inputs: Arguments) -> dict[str, Any]:
    """How gradients and points are returned."""
    return {"whitening": inputs.forms.whitening, "dtype": inputs.forms.dtype, "flat": inputs.queries.ndim == 1}


def of_queries(inputs: Arguments, blocks: Blocks) -> da.Array:
    """A result of the shape of the queries."""
    return result_of(inputs, blocks, *inputs.queries.shape[1:])


def result_of(inputs: Arguments, blocks: Blocks, columns: int | None = None) -> da.Array:
    """A result with a row for each query."""
    on_gpu = (a._meta for a in (inputs.X, inputs.queries) if dispatch.is_gpu_array(a._meta))
    meta = next(on_gpu, np.empty(0))
    return array(blocks, inputs.queries.chunks[0], columns, inputs.forms.dtype, meta)


def _density(sums: PartialSums, log_total: float, *, log: bool, whitening: Whitening, dtype: np.dtype) -> Any:
    with computing(sums.total) as backend, _quiet():
        return density_sums.to_density(sums, whitening.log_norm - log_total, log, dtype, backend.xp)


def _log_density(sums: PartialSums, log_total: float, *, whitening: Whitening, dtype: np.dtype) -> Any:
    return _density(sums, log_total, log=True, whitening=whitening, dtype=dtype)


def _laplace(
    sums: PartialSums, log_total: float, *, log: bool, clip: bool, whitening: Whitening, dtype: np.dtype
) -> Any:
    with computing(sums.total) as backend, _quiet():
        out, report = results.laplace(sums, whitening.log_norm - log_total, log, dtype, backend.xp, clip=clip)
    if report is not None:
        core_warnings.from_task(f"{report} of this block", core_warnings.NegativeDensityWarning)
    return out


def _sums_of_kernel(problem: Problem, *, kernel: Kernel) -> PartialSums:
    return problem.kernel_sums(kernel)


def _sums_by_distance(problem: Problem, *, distance: Any, h: float, kernel: str) -> PartialSums:
    X, Y = problem.X, problem.X if problem.Y is None else problem.Y
    weights = None if problem.options.log_weights is None else np.exp(problem.options.log_weights)
    logs = density_metric_density.log_sums(distance, X, Y, h, kernel, weights)
    return density_sums.of_logarithms(logs if weights is not None else logs + np.log(len(X)), np)


def _kernel_density(
    sums: PartialSums,
    log_total: float,
    *,
    log_unit: float,
    log: bool,
    whitening: Whitening,
    dtype: np.dtype,
) -> Any:
    """Density by a kernel whose constant has the logarithm ``log_unit`` at a bandwidth of 1."""
    with computing(sums.total) as backend, _quiet():  # nothing near a query: the logarithm is -inf
        return density_sums.to_density(sums, log_unit - whitening.log_det - log_total, log, dtype, backend.xp)


def _score_of(inputs: Arguments, sums: Blocks) -> Blocks:
    return each("score", _gradient, sums, weighted=inputs.weights is not None, **shape_of(inputs))


def _gradient(sums: PartialSums, *, weighted: bool, whitening: Whitening, dtype: np.dtype, flat: bool) -> Any:
    with computing(sums.total) as backend, _quiet():
        dask_blocks.some_weight(sums, weighted=weighted)
        out = results.cast(results.gradient(sums, whitening, backend.xp), dtype)
        return out[:, 0] if flat else out


def _moved(block: dask_blocks.Block, sums: PartialSums, *, whitening: Whitening, dtype: np.dtype, flat: bool) -> Any:
    with computing(block.points), _quiet():
        moved = dask_blocks.shift(block, sums, whitening=whitening)
        if block.domain is not None:
            moved = block.domain.restored(moved, dispatch.backend(moved).xp)
        out = results.cast(moved, dtype)
        return out[:, 0] if flat else out


def _limited(sums: PartialSums, *, h: float) -> PartialSums:
    with computing(sums.total) as backend, _quiet():
        return density_leave_one_out.limited(sums, h, backend.xp)


def _values(sums: PartialSums, *, dtype: np.dtype, flat: bool) -> Any:
    with computing(sums.total) as backend, _quiet():
        out = results.values(sums, dtype, backend.xp)
        return out[:, 0] if flat else out
