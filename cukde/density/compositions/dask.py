"""Functions made of densities on Dask arrays: of some columns, of some given others, and of one sample over another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected, empty_like, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks
from cukde.core.over_dask import is_dask, meta
from cukde.core.quiet import quiet
from cukde.core.types import ArrayLike, Bandwidth, Columns, Domain
from cukde.density import check as density_check, results
from cukde.density.api import kde, sd_kde
from cukde.density.compositions import check, columns as compositions_columns, regions
from cukde.density.dask.arguments import beside
from cukde.density.positive.api import positive_kde


@quiet
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
    _only_options(options)
    dask_check.plain("h", is_dask(h))
    dask_check.plain("columns", is_dask(columns))
    x, y = _rows("X", X), _rows("Y", Y)
    d = density_check.data(stand_in(x, unknown_rows(x)), core_arrays)[0].shape[1]
    chosen = check.positions("columns", columns, compositions_columns.labels(X, d), d)
    _queries(y, len(chosen), "one for each of columns")
    width = check.bandwidth(dispatch.to_host(h), d)
    domain = compositions_columns.domain(bounds, periods, width, d)
    marginal_h = compositions_columns.marginal_bandwidth(width, chosen)
    return kde(_of(x, chosen), y, marginal_h, log=log, **compositions_columns.ends(domain, chosen), **options)


@quiet
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
    _only_options(options)
    log = core_check.flag("log", log)
    dask_check.plain("h", is_dask(h))
    x, y = _rows("X", X), _rows("Y", Y)
    d = density_check.data(stand_in(x, unknown_rows(x)), core_arrays)[0].shape[1]
    labels = compositions_columns.labels(X, d)
    conditions = check.conditions(given, labels, d)
    rest = compositions_columns.others(conditions, d)
    _queries(y, len(rest), check.left(rest, labels))
    width = check.bandwidth(dispatch.to_host(h), d)
    domain = compositions_columns.domain(bounds, periods, width, d)
    values = {column: _condition(column, value, labels, y) for column, value in conditions.items()}
    numbers = {column: value for column, value in values.items() if isinstance(value, float)}
    check.given_inside(numbers, domain, labels, core_arrays)
    arrays = [value for value in values.values() if not isinstance(value, float)]
    dtype = density_check.result_dtype(x, y, *arrays)
    whole = _with_given(y, values, rest, labels)
    options["precision"] = density_check.precision(precision, dtype)
    log_p = kde(x, whole, width, log=True, **compositions_columns.ends(domain, range(d)), **options)
    columns = list(values)
    marginal_h = compositions_columns.marginal_bandwidth(width, columns)
    of_given = whole[:, columns] if arrays else np.array([[*values.values()]])
    of_columns = compositions_columns.ends(domain, columns)
    log_q = kde(_of(x, columns), of_given, marginal_h, log=True, **of_columns, **options)
    return _quotient(log_p, log_q, log, dtype)


@quiet
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
    _only_options(options)
    log = core_check.flag("log", log)
    x, z, y = _rows("X", X), _rows("Z", Z), _rows("Y", Y)
    dispatch.backend(meta(x), Z=meta(z), denominator_weights=meta(denominator_weights))
    d = density_check.data(stand_in(x, unknown_rows(x)), core_arrays)[0].shape[1]
    check.denominator(stand_in(z, unknown_rows(z)), d, core_arrays)
    dask_check.plain("denominator_bandwidth", is_dask(denominator_bandwidth))
    width = check.denominator_bandwidth(h, dispatch.to_host(denominator_bandwidth), d)
    dtype = density_check.result_dtype(x, z, y)
    options |= {"precision": density_check.precision(precision, dtype), "bounds": bounds, "periods": periods}
    y = y.astype(np.float64)  # of the logarithms
    log_p = kde(x, y, h, weights=weights, log=True, **options)
    log_q = kde(z, y, width, weights=denominator_weights, log=True, **options)
    return _quotient(log_p, log_q, log, dtype)


@quiet
def hdr_threshold(
    X: ArrayLike,
    h: Bandwidth,
    mass: ArrayLike = 0.95,
    *,
    method: Literal["kde", "sd", "positive"] = "kde",
    weights: ArrayLike | None = None,
    log: bool = False,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    leave_one_out: bool = True,
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
    core_check.option("method", method, check.METHODS)
    dask_check.plain("mass", is_dask(mass))
    shares = check.mass(dispatch.to_host(mass))
    options: dict[str, Any] = {"precision": precision, "deterministic": deterministic, "check_finite": check_finite}
    options |= {"bounds": bounds, "periods": periods}
    options["leave_one_out"] = core_check.flag("leave_one_out", leave_one_out)
    density = _at_rows(X, h, method, weights=weights, log=log, **options)
    w = None if weights is None else beside("weights", collected("weights", weights), density)
    arrays = [density] if w is None else [density, w]
    keys = [[(a.name, i) for i in range(a.numblocks[0])] for a in arrays]
    level = Blocks("level", [(partial(_levels, shares=shares), *keys)], arrays, [a.name for a in arrays], shares)
    name = f"{level.name}-array"
    graph = HighLevelGraph.from_collections(name, {(name, *[0] * shares.ndim): level.keys[0]}, [level])
    chunks = tuple((size,) for size in shares.shape)
    return da.Array(graph, name, chunks, dtype=density.dtype, meta=empty_like(density, shares.ndim, density.dtype))


def _at_rows(X: Any, h: Any, method: str, **options: Any) -> da.Array:
    """Densities at the rows, whose level is looked for."""
    functions: dict[str, Any] = {"kde": kde, "sd": sd_kde, "positive": positive_kde}
    density: da.Array = functions[method](X, X, h, **options)
    return density


def _levels(densities: list[Any], weights: list[Any] | None = None, *, shares: np.ndarray) -> Any:
    with computing(densities[0]) as backend:
        density, w = (
            None if parts is None else backend.xp.concatenate([backend.asarray(part) for part in parts])
            for parts in (densities, weights)
        )
        return regions.levels(density, shares, w, backend)


def _only_options(options: Mapping[str, Any]) -> None:
    """Raise for options of :func:`kde` that functions of some columns do not have."""
    if "leave_one_out" in options:
        raise TypeError("unexpected keyword argument 'leave_one_out': these densities take none")


def _rows(name: str, a: Any) -> Any:
    """A Dask array or a plain one, of points."""
    a = collected(name, a)
    if is_dask(a):
        dask_check.dimensions(name, a)
    return a


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
