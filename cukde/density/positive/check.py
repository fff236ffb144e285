"""Argument checks of the positive estimate."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.density import axes as density_axes
from cukde.density.stacks.check import is_stack


def mass(value: Any) -> float:
    """Return a mass as a number."""
    number = getattr(value, "value", value)
    if not isinstance(number, Real) or isinstance(number, bool | np.bool_) or not 1 - 1e-6 <= float(number) < math.inf:
        raise ValueError(f"mass must be a number of at least 1, or a Mass of positive_mass; got {value!r}")
    return float(number)


def one_number(mass: Any) -> None:
    """Raise for a lazy mass with dimensions."""
    if mass.shape != ():
        raise ValueError(f"mass must be one number, a Dask array of shape (); got {mass.shape}")


def samples(value: Any) -> int:
    """Return a number of points that has a standard error."""
    out = core_check.count("samples", value, most=core_check.MOST)
    if out < 2:
        raise ValueError(f"samples must be at least 2, for an error; got {out}")
    return out


def axes(value: Any, d: int) -> list[np.ndarray]:
    """Return the axes of a rule that can leave out every second node."""
    out = density_axes.checked(value, d)
    for k, axis in enumerate(out):
        if len(axis) < 3 or len(axis) % 2 == 0 or not (np.diff(axis) > 0).all():
            raise ValueError(
                f"axes[{k}] must hold an odd number of coordinates, 3 at least, that rise; got {len(axis)}"
                + ("" if len(axis) % 2 else ": write np.linspace(low, high, 2 * k + 1)")
            )
    return out


def no_stack(X: Any) -> None:
    """Raise for a stack of data."""
    if is_stack(X):
        raise ValueError("X must have shape (n, d) or (n,) beside this estimate; got a stack: loop over members")
