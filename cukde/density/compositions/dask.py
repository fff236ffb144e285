"""Functions made of densities on Dask arrays: of some columns, of some given others, and of one sample over another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected, empty_like, rows, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, single
from cukde.core.over_dask import dask_form, is_dask, meta
from cukde.core.types import ArrayLike, Bandwidth, Columns, Domain
from cukde.density import check as density_check, results
from cukde.density.api import kde
from cukde.density.compositions import check, columns as compositions_columns, regions
from cukde.density.compositions.columns import Widths
from cukde.density.dask.arguments import beside, columns as columns_of
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE, NotNegative


@dask_form()
def marginal(
    X: ArrayLike,
    columns: Columns,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    log: bool = False,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.marginal` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([[0.0, 5.0], [1.0, 7.0]]), chunks=(1, 2))
    >>> cukde.dask.marginal(X, [0], np.array([0.5]), [1.0, 2.0]).compute().round(4)
    array([0.3521])
    """
    dask_check.plain("h", is_dask(h))
    dask_check.plain("columns", is_dask(columns))
    x, y = rows("X", X), rows("Y", Y)
    d = columns_of(x)
    chosen = check.positions("columns", columns, compositions_columns.labels(X, d), d)
    _queries(y, len(chosen), "one for each of columns")
    of_columns = Widths.of(dispatch.to_host(h), bounds, periods, d).of_columns(chosen)
    return kde(_of(x, chosen), y, log=log, **of_columns, **options)


@dask_form()
def conditional(
    X: ArrayLike,
    given: Mapping[Any, Any],
    Y: ArrayLike,
    h: Bandwidth,
    *,
    log: bool = False,
    precision: str | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.conditional` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([[0.0, 5.0], [1.0, 7.0]]), chunks=(1, 2))
    >>> cukde.dask.conditional(X, {1: 6.0}, np.array([0.5]), [1.0, 2.0]).compute().round(4)
    array([0.3521])
    """
    log = core_check.flag("log", log)
    dask_check.plain("h", is_dask(h))
    x, y = rows("X", X), rows("Y", Y)
    d = columns_of(x)
    labels = compositions_columns.labels(X, d)
    conditions = check.conditions(given, labels, d)
    rest = compositions_columns.others(conditions, d)
    _queries(y, len(rest), check.left(rest, labels))
    widths = Widths.of(dispatch.to_host(h), bounds, periods, d)
    values = {column: _condition(column, value, labels, y) for column, value in conditions.items()}
    numbers = {column: value for column, value in values.items() if isinstance(value, float)}
    check.given_inside(numbers, widths.domain, labels, core_arrays)
    arrays = [value for value in values.values() if not isinstance(value, float)]
    dtype = density_check.result_dtype(x, y, *arrays)
    whole = _with_given(y, values, rest, labels)
    options["precision"] = density_check.precision(precision, dtype)
    log_p = kde(x, whole, log=True, **widths.of_columns(range(d)), **options)
    columns = list(values)
    of_given = whole[:, columns] if arrays else np.array([[*values.values()]])
    log_q = kde(_of(x, columns), of_given, log=True, **widths.of_columns(columns), **options)
    return _quotient(log_p, log_q, log, dtype)


@dask_form()
def density_ratio(
    X: ArrayLike,
    Z: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    denominator_bandwidth: Bandwidth | None = None,
    weights: ArrayLike | None = None,
    denominator_weights: ArrayLike | None = None,
    log: bool = False,
    precision: str | None = None,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.density_ratio` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0]), chunks=1)
    >>> cukde.dask.density_ratio(X, X + 1.0, np.array([0.5, 0.0]), 1.0).compute().round(4)
    array([1.    , 1.6487])
    """
    log = core_check.flag("log", log)
    x, z, y = rows("X", X), rows("Z", Z), rows("Y", Y)
    dispatch.backend(meta(x), Z=meta(z), denominator_weights=meta(denominator_weights))
    d = columns_of(x)
    check.denominator(stand_in(z, unknown_rows(z)), d, core_arrays)
    dask_check.plain("denominator_bandwidth", is_dask(denominator_bandwidth))
    width = check.denominator_bandwidth(h, dispatch.to_host(denominator_bandwidth), d)
    dtype = density_check.result_dtype(x, z, y)
    options |= {"precision": density_check.precision(precision, dtype), "bounds": bounds, "periods": periods}
    y = y.astype(np.float64)  # of the logarithms
    log_p = kde(x, y, h, weights=weights, log=True, **options)
    log_q = kde(z, y, width, weights=denominator_weights, log=True, **options)
    return _quotient(log_p, log_q, log, dtype)


@dask_form()
def hdr_threshold(
    X: ArrayLike,
    h: Bandwidth,
    mass: ArrayLike = 0.95,
    *,
    method: NotNegative = "kde",
    weights: ArrayLike | None = None,
    log: bool = False,
    leave_one_out: bool = True,
    **options: Any,
) -> da.Array:
    """Compute :func:`cukde.hdr_threshold` of Dask arrays, lazily.

    The result equals that of plain arrays, to 1e-12 in float64, and costs as much when it is computed. Densities at the
    rows are computed block by block; one task then takes all of them, 8 bytes a row (16 with weights).

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 0.1, 5.0]), chunks=2)
    >>> cukde.dask.hdr_threshold(X, 1.0, 0.6).compute().round(4)
    np.float64(0.1985)
    """
    log = core_check.flag("log", log)
    core_check.option("method", method, NOT_NEGATIVE)
    dask_check.plain("mass", is_dask(mass))
    shares = check.mass(dispatch.to_host(mass))
    options["leave_one_out"] = core_check.flag("leave_one_out", leave_one_out)
    X = X if is_dask(X) else da.from_array(rows("X", X), chunks=-1)  # or its density would be a plain array
    density = ESTIMATES[method].density(X, X, h, weights=weights, log=log, **options)
    w = None if weights is None else beside("weights", collected("weights", weights), density)
    arrays = [density] if w is None else [density, w]
    keys = [[(a.name, i) for i in range(a.numblocks[0])] for a in arrays]
    level = Blocks(
        "level", [(partial(_levels, shares=shares, log=log), *keys)], arrays, [a.name for a in arrays], shares
    )
    return single(level, shares.shape, empty_like(density, shares.ndim, density.dtype))


def _levels(densities: list[Any], weights: list[Any] | None = None, *, shares: np.ndarray, log: bool) -> Any:
    with computing(densities[0]) as backend:
        density, w = (
            None if parts is None else backend.xp.concatenate([backend.asarray(part) for part in parts])
            for parts in (densities, weights)
        )
        return regions.in_range(regions.levels(density, shares, w, backend), log)


def _of(x: Any, columns: Sequence[int]) -> Any:
    return x if x.ndim == 1 else x[:, list(columns)]


def _queries(y: Any, columns: int, which: str) -> None:
    check.queries(stand_in(y, unknown_rows(y)), columns, which, core_arrays)


def _condition(column: int, value: Any, labels: Sequence[Any] | None, y: Any) -> Any:
    """A float, or an array of Dask or a plain one with a number for each query."""
    name = check.condition_name(column, labels)
    value = collected(name, value)
    if is_dask(value) and value.ndim == 0:
        dask_check.plain(name, True)
    unknown = unknown_rows(value, y) if value.ndim == 1 else False
    m = stand_in(y, unknown).shape[0]
    checked = check.condition(
        column, stand_in(value, unknown) if value.ndim else value, labels, m, dispatch.backend(meta(value))
    )
    return checked if isinstance(checked, float) else value


def _with_given(y: Any, values: Mapping[int, Any], rest: Sequence[int], labels: Sequence[Any] | None) -> Any:
    """Queries in all columns, float64, which is then the dtype of the logarithms."""
    y = y[:, None] if y.ndim == 1 else y
    numbers = {column: value for column, value in values.items() if isinstance(value, float)}
    arrays = {column: value for column, value in values.items() if column not in numbers}
    lead = next((a for a in (y, *arrays.values()) if is_dask(a)), None)
    if lead is None:
        return _assembled(y, *arrays.values(), rest=rest, columns=list(arrays), numbers=numbers)
    y = beside("Y", y, lead, of="Y")
    lined = [beside(check.condition_name(column, labels), a, lead, of="Y") for column, a in arrays.items()]
    pairs = [each for a in lined for each in (a, "i")]
    return da.blockwise(
        _assembled,
        "ik",
        y.rechunk({1: -1}),
        "ij",
        *pairs,
        new_axes={"k": len(rest) + len(values)},
        concatenate=True,
        align_arrays=False,
        dtype=np.float64,
        meta=empty_like(y, 2, np.dtype(np.float64)),
        rest=rest,
        columns=list(arrays),
        numbers=numbers,
    )


def _assembled(y: Any, *arrays: Any, rest: Sequence[int], columns: Sequence[int], numbers: Mapping[int, float]) -> Any:
    with computing(y) as backend:
        out = backend.xp.empty((len(y), len(rest) + len(columns) + len(numbers)))
        out[:, rest] = y
        for column, value in (*zip(columns, map(backend.asarray, arrays), strict=True), *numbers.items()):
            out[:, column] = value
        return out


def _quotient(log_p: Any, log_q: Any, log: bool, dtype: np.dtype) -> da.Array:
    """Of as many queries, or of one denominator for all."""
    meta = empty_like(log_p, 1, dtype)
    return da.map_blocks(_divided, log_p, log_q, dtype=dtype, meta=meta, log=log, to=dtype)


def _divided(log_p: Any, log_q: Any, *, log: bool, to: np.dtype) -> Any:
    with computing(log_p) as backend, np.errstate(invalid="ignore"):
        return results.quotient(log_p, log_q, log=log, dtype=to, xp=backend.xp)
