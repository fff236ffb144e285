"""A single evaluation of a piecewise polynomial, and conversions between the two layouts of its coefficients."""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry.over_arrays import over_arrays
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike
from cukde.piecewise import check, cost
from cukde.piecewise.evaluator import Evaluator
from cukde.piecewise.pieces import Pieces

LAYOUTS = ("aos", "soa")
ORIGINS = ("global", "local")

_FLOAT64 = np.dtype(np.float64)

# Cached tables, and the most bytes of one in float64: they stay in memory, and every call compares them.
_KEPT, _LARGEST_KEPT = 8, 2**20


@declare(cost.pwpa, cost.of_raw)
@over_arrays
@over_dask("cukde.piecewise.dask")
def pwpa(
    x: ArrayLike,
    coefficients: ArrayLike,
    knots: ArrayLike,
    *,
    layout: Literal["aos", "soa"] = "aos",
    origin: Literal["global", "local"] = "global",
    extrapolate: bool | Literal["periodic", "clamp", "raise"] = "clamp",
    out: ArrayLike | None = None,
) -> Array:
    r"""Evaluate a piecewise polynomial of P pieces of degree D at each x.

    With the coefficients :math:`a_{i,0}, \ldots, a_{i,D}` of piece i, the leading one first,

    .. math:: y = \sum_{j=0}^{D} a_{i,j} \, x^{D-j}, \qquad knots_i \le x < knots_{i+1}

    Parameters
    ----------
    x : array_like
        Points, of any shape. NaN gives NaN. A GPU array is evaluated on the GPU; a Dask array lazily, block by block.
    coefficients : array_like (P, D + 1) or (D + 1, P)
        One row for each piece ("aos", array of structures) or one column ("soa", structure of arrays).
    knots : array_like (P + 1,)
        Strictly increasing. The last piece includes its end.
    layout : {"aos", "soa"}
        Shape of the coefficients.
    origin : {"global", "local"}
        Whether powers are of x ("global") or of x - knots[i] ("local"), which is accurate also far from 0.
    extrapolate : {"clamp", True, False, "periodic", "raise"}
        Values beyond the knots: "clamp" gives the value at the nearer end; with True the polynomials of the first and
        the last piece go on, with their limits at infinite x; False gives NaN; "periodic" repeats the range of the
        knots; "raise" is a ValueError, for which a GPU call waits, as in :class:`PiecewisePolynomial`.
    out : ndarray, optional
        Array for the result, of the shape and dtype of x; it must not overlap another argument. Not for Dask arrays.

    Returns
    -------
    ndarray
        Of the shape and dtype of x (integers become float64), for a Dask array with the same blocks; or ``out``.

    Raises
    ------
    ValueError
        For knots that are not in order, incompatible shapes, entries that are not finite, unknown options, an ``out``
        of another shape or that overlaps, and knots or coefficients out of the range of the dtype of x.
    TypeError
        For arrays that do not hold real numbers of at most 64 bits, an ``out`` that is not an array of the kind of x,
        and coefficients or knots on the GPU with x on the CPU.

    Examples
    --------
    >>> import cukde
    >>> cukde.pwpa([-1.0, 0.5, 1.5, 9.0], [[1, 0, 0], [0, 2, -1]], [0, 1, 2])  # x^2, then 2 x - 1
    array([0.  , 0.25, 2.  , 3.  ])

    See Also
    --------
    PiecewisePolynomial : Prepares repeated evaluation, and has derivatives and integrals.

    Notes
    -----
    The arguments are those of torchPACE's ``pwpa``, which, unlike this function, evaluates the first piece at NaN and
    at all x outside the knots. The arithmetic is in the dtype of x; float16 is computed in float32 and rounded once.
    Accuracy is that of :class:`PiecewisePolynomial`. The cost is one pass over x.

    Every call copies coefficients and knots to the host. The prepared tables of the last eight polynomials of at most 1
    MiB in float64 are cached. They are found by their contents, so arrays may be changed in place.

    References
    ----------
    - Sangiorgi, M. (2025). "CUDAification" of PACE: optimization of PwPA kernels. University of Bologna.
    """
    core_check.option("layout", layout, LAYOUTS)
    core_check.option("origin", origin, ORIGINS)
    beyond = check.extrapolate(extrapolate)
    backend = dispatch.backend(x, "x", coefficients=coefficients, knots=knots)
    with backend.device_of(x):
        points = core_check.floating("x", x, backend)
        if out is not None:
            check.output(out, points, backend, coefficients=coefficients, knots=knots)
        tables = coefficients, knots
        if backend.name == "gpu":
            tables = backend.asnumpy_together(*tables)
        a, ends = _on_host("coefficients", tables[0]), _on_host("knots", tables[1])
        small = a.nbytes + ends.nbytes <= _LARGEST_KEPT
        evaluator = (_kept_evaluator if small else _evaluator)(
            a.tobytes(), a.shape, ends.tobytes(), ends.shape, layout, origin
        )
        return evaluator(points, beyond, backend, out)


def _on_host(name: str, table: Any) -> np.ndarray:
    if type(table) is np.ndarray and table.dtype == _FLOAT64:
        return table
    return check.on_host(name, table).astype(np.float64, copy=False)


def _evaluator(
    coefficients: bytes, shape: tuple[int, ...], knots: bytes, knots_shape: tuple[int, ...], layout: str, origin: str
) -> Evaluator:
    """Check tables of float64 given by their bytes, and return their evaluator."""
    a, ends = np.ndarray(shape, buffer=coefficients), np.ndarray(knots_shape, buffer=knots)
    check.finite("coefficients", a)
    check.finite("knots", ends)
    check.knots("knots", ends, decreasing=False)
    check.raw_coefficients(a, len(ends) - 1, layout)
    c = (a.T if layout == "aos" else a)[:, :, None]
    return Evaluator(Pieces(c, ends, local=origin == "local"))


_kept_evaluator = functools.lru_cache(_KEPT)(_evaluator)


@declare(cost.turned, cost.of_rows)
@over_arrays
def aos_to_soa(coefficients: ArrayLike) -> Array:
    """Copy ``coefficients`` (P, D + 1), one row for each piece, to (D + 1, P), one column for each piece.

    The copy is exact; it costs one pass over the coefficients.

    Raises TypeError for anything but real numbers, and ValueError for other than two dimensions.

    Examples
    --------
    >>> import cukde
    >>> cukde.aos_to_soa([[1, 0, 0], [0, 2, -1]])
    array([[ 1,  0],
           [ 0,  2],
           [ 0, -1]])
    """
    return _transposed(coefficients)


@declare(cost.turned, cost.of_columns)
@over_arrays
def soa_to_aos(coefficients: ArrayLike) -> Array:
    """Copy ``coefficients`` (D + 1, P), one column for each piece, to (P, D + 1), one row for each piece.

    The copy is exact; it costs one pass over the coefficients.

    Raises TypeError for anything but real numbers, and ValueError for other than two dimensions.

    Examples
    --------
    >>> import cukde
    >>> cukde.soa_to_aos([[1, 0], [0, 2], [0, -1]])
    array([[ 1,  0,  0],
           [ 0,  2, -1]])
    """
    return _transposed(coefficients)


def _transposed(coefficients: Any) -> Any:
    backend = dispatch.backend(coefficients, "coefficients")
    with backend.device_of(coefficients):
        a = core_check.array("coefficients", coefficients, backend, rounded=True, points="")
        if a.ndim != 2:
            raise ValueError(f"coefficients must have two dimensions; got shape {a.shape}")
        return a.T.copy(order="C")
