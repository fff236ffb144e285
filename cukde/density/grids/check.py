"""Errors of the coordinates that densities on product grids are asked at, and of how they are to be computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host
from cukde.core.over_dask import is_dask

ALGORITHMS = ("auto", "exact", "fft")
MOST_COLUMNS = 3  # of a grid that is transformed

_MOST_NUMBERS = 2**40


def plain(**arrays: Any) -> None:
    """Raise for collections of Dask's among arguments of which no block can do without the whole."""
    for name, a in arrays.items():
        if is_dask(a) or (isinstance(a, list | tuple) and any(map(is_dask, a))):
            raise TypeError(f"{name} must be a plain array; got a Dask collection: write {name}.compute()")


def axes(value: Any, d: int) -> list[np.ndarray]:
    """Return the coordinates of each axis on the host; for data of one column one array may be given."""
    if isinstance(value, list | tuple) and not (d == 1 and value and all(map(_is_number, value))):
        parts: Sequence[Any] = value
    else:
        whole = _axis("axes", value)
        parts = list(whole) if whole.ndim == 2 else [whole]
    if len(parts) != d:
        raise ValueError(f"axes must hold {d} arrays of coordinates, one for each column of X; got {len(parts)}")
    out = [_axis(f"axes[{k}]", part) for k, part in enumerate(parts)]
    for k, g in enumerate(out):
        if g.ndim != 1:
            raise ValueError(f"axes[{k}] must have one dimension; got shape {g.shape}")
        if not np.isfinite(g).all():
            raise ValueError(f"axes[{k}] must be finite; it holds NaN or infinity")
    if np.prod([float(len(g)) for g in out]) > _MOST_NUMBERS:
        sizes = " x ".join(str(len(g)) for g in out)
        raise ValueError(f"axes must span a grid that fits in memory; got {sizes}: take fewer coordinates along each")
    return out


def algorithm(name: Any, d: int, *, log: bool) -> None:
    """Raise for an unknown way to compute, and for what transforms do not do."""
    core_check.option("algorithm", name, ALGORITHMS)
    if name == "fft" and d > MOST_COLUMNS:
        raise ValueError(
            f'algorithm="fft" takes data of up to {MOST_COLUMNS} columns; got {d}: write algorithm="exact"'
        )
    if name == "fft" and log:
        raise ValueError(
            'log must be False beside algorithm="fft", whose errors are relative to the largest density: '
            'write algorithm="exact"'
        )


def planned(choice: Any) -> None:
    """Raise where no transform was planned that was asked for."""
    if choice is None:
        raise ValueError(
            'algorithm="fft" needs a grid of a few cells a bandwidth over all coordinates, and few images of the data '
            "over bounds and periods, and one of them is too large here: write "
            'algorithm="exact", or take axes that span fewer bandwidths'
        )


def _axis(name: str, a: Any) -> np.ndarray:
    out: np.ndarray = core_check.array(name, dispatch.to_host(a), host)
    return out


def _is_number(a: Any) -> bool:
    return isinstance(a, int | float | np.number)
