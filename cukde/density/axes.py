"""Coordinates along the axes of a product grid, as a user gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host

_MOST_NUMBERS = 2**40


def checked(value: Any, d: int) -> list[np.ndarray]:
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


def _axis(name: str, a: Any) -> np.ndarray:
    out: np.ndarray = core_check.array(name, dispatch.to_host(a), host)
    return out


def _is_number(a: Any) -> bool:
    return isinstance(a, int | float | np.number)
