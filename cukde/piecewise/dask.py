"""Piecewise polynomials at points of Dask arrays, block by block."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected, empty_like, stand_in
from cukde.core.dask.devices import computing
from cukde.core.over_dask import dask_form, is_dask, meta, plain
from cukde.core.types import ArrayLike
from cukde.piecewise import check

if TYPE_CHECKING:
    from cukde.piecewise.evaluator import Extrapolate


@dask_form(out=None)
def pwpa(
    x: ArrayLike, coefficients: ArrayLike, knots: ArrayLike, *, out: ArrayLike | None = None, **options: Any
) -> da.Array:
    """Compute :func:`cukde.pwpa` of Dask arrays, lazily.

    Every value has the same bits as with plain arrays; a block of points costs one evaluation.

    Parameters
    ----------
    out
        Must be None.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> x = da.from_array(np.array([0.5, 1.5]), chunks=1)
    >>> cukde.dask.pwpa(x, np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([0.0, 1.0, 2.0])).compute()
    array([2., 3.])
    """
    dask_check.plain("coefficients", is_dask(coefficients))
    dask_check.plain("knots", is_dask(knots))
    dask_check.no_output(out)
    points = _points(x)
    dispatch.backend(meta(points), "x", coefficients=coefficients, knots=knots)
    evaluate: Any = partial(
        _evaluated,
        coefficients=check.on_host("coefficients", coefficients).copy(),
        knots=check.on_host("knots", knots).copy(),
        **options,
    )
    like = _empty(points)
    evaluate(np.empty(0, like.dtype))  # raises now for wrong coefficients, knots and options
    return points.map_blocks(evaluate, dtype=like.dtype, meta=like, token="cukde-pwpa")


def _evaluated(x: Any, **options: Any) -> Any:
    with computing(x):
        return plain("pwpa")(x, **options)


def values(polynomial: Any, x: Any, nu: int, extrapolate: Extrapolate) -> da.Array:
    """Evaluate a polynomial or a derivative; the further axes of the coefficients follow those of the points."""
    points = _points(x)
    evaluate = partial(_values, polynomial=polynomial, nu=nu, extrapolate=extrapolate)
    like = evaluate(_empty(points))
    further = polynomial.c.shape[2:]
    return points.map_blocks(
        evaluate,
        dtype=like.dtype,
        meta=like,
        chunks=(*points.chunks, *((size,) for size in further)),
        new_axis=list(range(points.ndim, points.ndim + len(further))) or None,
        token="cukde-piecewise",
    )


def _values(x: Any, *, polynomial: Any, nu: int, extrapolate: Extrapolate) -> Any:
    with computing(x):
        return polynomial(x, nu, extrapolate)


def _points(x: Any) -> da.Array:
    """Return points as a Dask array; a plain array is cut by Dask's own rule."""
    points = collected("x", x)
    return points if is_dask(points) else da.from_array(points, chunks="auto")


def _empty(points: Any) -> Any:
    """Return an array of no points, of the dtype and on the device of the result."""
    dtype = core_check.floating("x", stand_in(points), host).dtype
    return empty_like(points, points.ndim, dtype)
