"""Sizes of calls of the density family, and the calls that SD-KDE is made of.

Arrays are asked for their shape and dtype, and neither copied nor moved where they have these.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Sizes = dict[str, Any]


def of_queries(
    X: Any,
    Y: Any,
    h: Any = None,
    *,
    weights: Any = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    **others: Any,
) -> Sizes:
    """Sizes of a call with data and queries; of the other arguments none changes them.

    Images of data over bounds and periods are not counted: how many matter is known when the data are.
    """
    sizes = _sizes(X, Y, precision=precision, deterministic=deterministic, check_finite=check_finite)
    return sizes | {"weighted": weights is not None}


def of_kde(X: Any, Y: Any, h: Any = None, *, local_factors: Any = None, **options: Any) -> Sizes:
    """Sizes of a call of the density."""
    return of_queries(X, Y, h, **options) | {"local": local_factors is not None}


def of_data(X: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with the data alone."""
    sizes = of_queries(X, None, h, **options)
    return {name: size for name, size in sizes.items() if name not in ("m", "at_data")}


def of_modes(
    X: Any,
    h: Any = None,
    *,
    weights: Any = None,
    seeds: Any = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    **search: Any,
) -> Sizes:
    """Sizes of a search for modes; how long it takes depends on the data beside them."""
    sizes = _sizes(X, seeds, precision=precision, deterministic=deterministic, check_finite=check_finite)
    return sizes | {"weighted": weights is not None}


def of_values(
    X: Any,
    V: Any,
    Y: Any,
    h: Any = None,
    *,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
) -> Sizes:
    """Sizes of a call with values."""
    shape = _shape(V)
    sizes = _sizes(X, Y, V, precision=precision, deterministic=deterministic, check_finite=check_finite)
    return sizes | {"k": shape[1] if len(shape) > 1 else 1}


def of_marginal(X: Any, columns: Any, Y: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call for some of the columns."""
    shape = _shape(Y)
    sizes = of_queries(X, Y, h, **options)
    return sizes | {"d": int(shape[1]) if len(shape) > 1 else 1, "m": _rows(Y)[0], "at_data": False}


def of_conditional(X: Any, given: Any, Y: Any, h: Any = None, **options: Any) -> Sizes:
    """Sizes of a call with values of some of the columns."""
    sizes = of_queries(X, Y, h, **options)
    each = any(len(_shape(value)) for value in given.values())
    del sizes["at_data"]
    return sizes | {"m": _rows(Y)[0], "given": len(given), "each": each}


def of_threshold(X: Any, h: Any = None, mass: Any = None, *, method: str = "kde", **options: Any) -> Sizes:
    """Sizes of a call for levels of the density at the data."""
    return of_data(X, h, **options) | {"method": method}


def of_ratio(
    X: Any,
    Z: Any,
    Y: Any,
    h: Any = None,
    *,
    denominator_bandwidth: Any = None,
    denominator_weights: Any = None,
    **options: Any,
) -> Sizes:
    """Sizes of a call with the data of two densities."""
    sizes = of_queries(X, Y, h, **options)
    del sizes["at_data"]
    weighted = sizes["weighted"] or denominator_weights is not None
    dtype = str(np.result_type(*map(_dtype, (X, Z, Y))))
    return sizes | {"k": _rows(Z)[0], "m": _rows(Y)[0], "dtype": dtype, "weighted": weighted}


def of_bandwidth(X: Any, *, weights: Any = None) -> Sizes:
    """Sizes of a call of a rule for the bandwidth."""
    n, d = _rows(X)
    return {"n": n, "d": d, "dtype": str(_dtype(X)), "weighted": weights is not None}


def of_abramson(X: Any, h: Any = None, *, alpha: float = 0.5, weights: Any = None) -> Sizes:
    """Sizes of a call of the rule for local factors."""
    return of_bandwidth(X, weights=weights)


def of_grid(
    X: Any,
    axes: Any,
    h: Any = None,
    *,
    weights: Any = None,
    log: bool = False,
    method: str = "auto",
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
) -> Sizes:
    """Sizes of a call on a product grid."""
    n, d = _rows(X)
    one = len(_shape(axes)) == 1 if hasattr(axes, "shape") else not any(len(_shape(g)) for g in axes)
    parts = [axes] if one else list(axes)
    return {
        "n": n,
        "m": math.prod(math.prod(_shape(g)) for g in parts),
        "d": d,
        "dtype": str(np.result_type(_dtype(X), *map(_dtype, parts))),
        "precision": precision,
        "weighted": weights is not None,
        "log": bool(log),
        "method": method,
        "check_finite": bool(check_finite),
    }


def _sizes(X: Any, Y: Any, *others: Any, **options: Any) -> Sizes:
    n, d = _rows(X)
    at_data = Y is None or Y is X
    arrays = (X, *(() if at_data else (Y,)), *others)
    return {
        "n": n,
        "m": n if at_data else _rows(Y, "Y")[0],
        "d": d,
        "dtype": str(np.result_type(*map(_dtype, arrays))),
        "at_data": at_data,
        **{name: bool(value) if name != "precision" else value for name, value in options.items()},
    }


def _rows(a: Any, name: str = "X") -> tuple[int, int]:
    shape = _shape(a)
    no_model(name, shape)
    return int(shape[0]), int(shape[1]) if len(shape) > 1 else 1


def _shape(a: Any) -> tuple[int, ...]:
    if hasattr(a, "shape"):
        return tuple(a.shape)
    interface = getattr(a, "__cuda_array_interface__", None)
    return np.shape(a) if interface is None else tuple(interface["shape"])


def _dtype(a: Any) -> np.dtype:
    if hasattr(a, "dtype"):
        return np.dtype(a.dtype)
    interface = getattr(a, "__cuda_array_interface__", None)
    return np.asarray(a).dtype if interface is None else np.dtype(interface["typestr"])


def no_model(name: str, shape: tuple[int, ...]) -> None:
    """Raise where the performance model is asked about a stack."""
    if len(shape) > 2:
        raise ValueError(
            f"{name} must have shape (rows, columns) for the performance model, which has no stacks; got {shape}: "
            f"ask about one member, {name}[0]"
        )
