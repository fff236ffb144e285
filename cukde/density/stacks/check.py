"""The errors a user of stacks can cause, raised before anything is summed. Each names the member that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check, keywords

_LISTS = (list, tuple)


def is_stack(a: Any) -> bool:
    """Whether ``a`` has three dimensions: an array of any library, or lists; nothing is converted."""
    return _dimensions(a) == 3


def _dimensions(a: Any) -> int:
    """Dimensions of an array-like, of lists by their first entries; 0 where it does not say."""
    deep = 0
    while isinstance(a, _LISTS) and a:
        a, deep = a[0], deep + 1
    dimensions = getattr(a, "ndim", None)
    if dimensions is None:
        dimensions = len(getattr(a, "__cuda_array_interface__", {}).get("shape", ()))
    return deep + dimensions if isinstance(dimensions, int) else deep


def in_memory(given: dict[str, Any]) -> None:
    """Raise for a stack, or what goes with it, that is a collection of Dask's, and for what Dask arrays do not take."""
    if is_stack(given.get("X")):
        for name, a in given.items():
            if is_dask(a):
                raise TypeError(
                    f"{name} must be a plain array where X has three dimensions, a stack of densities; got a Dask "
                    f"collection: write {name}.compute(), or call the function in dask.array.map_blocks"
                )
    keywords.before_dask(given)


def data(X: Any, backend: ModuleType) -> Any:
    """Check the data of a stack; return them with shape (b, n, d)."""
    out = core_check.array("X", X, backend)
    if out.ndim != 3:
        raise ValueError(f"X must have shape (members, rows, columns); got {out.shape}")
    if out.shape[1] == 0 or out.shape[2] == 0:
        raise ValueError(f"X must have at least one row and one column in each member; got shape {out.shape}")
    return out


def queries(Y: Any, shape: tuple[int, ...], backend: ModuleType) -> tuple[Any, tuple[int, ...]]:
    """Check the queries of a stack of a shape; return them as (b, m, d), or (1, m, d) where members share them.

    The second result is the shape of what has a number for each coordinate of each member's queries.
    """
    b, _, d = shape
    out = core_check.array("Y", Y, backend)
    column = out.ndim == 1 and d == 1
    if column:
        out = out[:, None]
    if out.ndim not in (2, 3) or out.shape[-1] != d or (out.ndim == 3 and out.shape[0] != b):
        raise ValueError(
            f"Y must have shape ({b}, m, {d}), or (m, {d}) for queries that all members share, beside X of shape "
            f"{tuple(shape)}; got {out.shape}"
        )
    query_shape = (b, *out.shape[-2:])
    return (out if out.ndim == 3 else out[None]), query_shape[:2] if column else query_shape


def weights(w: Any, shape: tuple[int, ...], backend: ModuleType) -> Any:
    """Check the form of the weights of a stack; return them as (b, n), or (1, n) where members share them."""
    b, n, _ = shape
    out = core_check.array("weights", w, backend, rounded=True)
    if out.shape not in ((n,), (b, n)):
        raise ValueError(
            f"weights must have shape ({b}, {n}), or ({n},) for weights that all members share, beside X of shape "
            f"{tuple(shape)}; got {out.shape}"
        )
    return out if out.ndim == 2 else out[None]


def bandwidths(h: Any, b: int, d: int, name: str = "h") -> np.ndarray:
    """Check bandwidths on the host: (b,) numbers, (b, d) deviations or (b, d, d) covariances, float64.

    One number is the bandwidth of all members.
    """
    out = density_check.real_numbers(name, h)
    if out.shape not in ((), (b,), (b, d), (b, d, d)):
        raise ValueError(
            f"{name} must be a number, or for a stack of {b} members {b} numbers of shape ({b},), standard deviations "
            f"of shape ({b}, {d}) or covariances of shape ({b}, {d}, {d}); got shape {out.shape}"
            + f": write numpy.broadcast_to({name}, {(b, *out.shape)}) to give it to every member"
            * _single(out, d)
        )
    if out.ndim == 0:
        density_check.bandwidth(out, d, name)
        return np.full(b, out)
    if not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinity in member {_first(~np.isfinite(out))}")
    if out.ndim < 3 and not (out > 0).all():
        raise ValueError(f"{name} must be positive; it is not in member {_first(~(out > 0))}")
    if out.ndim == 3:
        asymmetry = np.abs(out - out.transpose(0, 2, 1))
        for i in np.flatnonzero(asymmetry.any(axis=(1, 2))):
            density_check.bandwidth(out[i], d, f"{name}[{i}]")
    return out


def finite(flags: Mapping[str, np.ndarray]) -> None:
    """Raise for the first array that holds NaN or infinity: flags of members, or one where they share the array."""
    for name, of_members in flags.items():
        bad = np.flatnonzero(~np.asarray(of_members))
        if bad.size:
            core_check.finite({name if len(of_members) == 1 else f"{name}[{bad[0]}]": False})


def weight_ranges(least: np.ndarray, largest: np.ndarray) -> None:
    """Raise for members with negative weights, or with weights that are all zero."""
    bad = np.flatnonzero((least < 0) | (largest == 0))
    if bad.size:
        name = "weights" if len(least) == 1 else f"weights[{bad[0]}]"
        density_check.weight_range(float(least[bad[0]]), float(largest[bad[0]]), name)


def squared_radii(radii: np.ndarray, single: bool) -> None:
    """Raise where squared distances in bandwidths leave the range of the arithmetic that sums them."""
    if len(radii) == 0:
        return
    worst = int(np.argmax(np.where(np.isnan(radii), np.inf, radii)))
    try:
        density_check.squared_radius(float(radii[worst]), single)
    except ValueError as error:
        raise ValueError(f"{error} (member {worst} of the stack)") from None


def _single(h: np.ndarray, d: int) -> bool:
    """Whether a shape would be right for a single density."""
    return h.shape in ((d,), (d, d))


def _first(bad: np.ndarray) -> int:
    """First member that has an entry which is bad."""
    return int(np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))[0])
