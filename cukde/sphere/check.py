"""The errors a user of the sphere can cause, raised before anything is summed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch

# Of a norm; beyond a widest bandwidth the density is uniform, to rounding of float32.
_NORM = 1e-5
LEAST, MOST = 1e-8, 1e8


def columns(d: int) -> None:
    """Raise for points that are no vectors."""
    if d < 2:
        raise ValueError(
            "X must have at least two columns, the coordinates of unit vectors; got one: write "
            "cukde.sphere.from_degrees(lon, lat) for degrees, or numpy.stack([cos(a), sin(a)], axis=1) for angles"
        )


def unit_rows(name: str, A: Any, backend: ModuleType) -> None:
    """Raise unless rows are unit vectors, up to rounding of float32."""
    if len(A) == 0:
        return
    squares = backend.xp.einsum("ij,ij->i", A, A)
    low, high = (float(a) ** 0.5 for a in (squares.min(), squares.max()))
    if not (abs(low - 1) <= _NORM and abs(high - 1) <= _NORM):
        raise ValueError(
            f"{name} must hold unit vectors; got norms from {low:.6g} to {high:.6g}: divide each row by its norm, or "
            "write cukde.sphere.from_degrees(lon, lat) for degrees"
        )


def bandwidth(h: Any, name: str = "h") -> float:
    """Check a bandwidth; return it as a float."""
    given = dispatch.to_host(h)
    number = core_check.number(name, given.item() if getattr(given, "size", 0) == 1 else given, above=True)
    if not LEAST <= number <= MOST:
        raise ValueError(f"{name} must be from {LEAST:g} to {MOST:g} radians; got {number:g}")
    return number


def bandwidths(values: np.ndarray) -> np.ndarray:
    """Check candidates on the host; return them as floats."""
    try:
        out = np.asarray(values)
    except ValueError:
        raise ValueError("bandwidths must be a sequence of numbers; got rows of several lengths") from None
    if out.dtype.kind not in "fiu" or out.ndim != 1 or not out.size:
        raise ValueError(f"bandwidths must be a sequence of numbers; got shape {out.shape} of {out.dtype}")
    return np.array([bandwidth(each, "bandwidths") for each in out.tolist()])


def varies(spread: float) -> None:
    """Raise for data that are one point, which determine no bandwidth."""
    if not spread > 0:
        raise ValueError("X must hold different rows, or it determines no bandwidth; got a single direction: give h")
