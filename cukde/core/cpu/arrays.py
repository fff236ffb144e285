"""Arrays in host memory, by the names that ``cukde.core.gpu.arrays`` has for those on a device. It loads no Numba."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

name = "cpu"
xp = np


def asarray(a: Any) -> np.ndarray:
    """Take anything array-like (lists, pandas, polars, DLPack in host memory) as a NumPy array."""
    if not hasattr(a, "__array__") and hasattr(a, "__dlpack__"):
        return np.from_dlpack(a)
    return np.asarray(a)


def asnumpy(a: Any) -> np.ndarray:
    """Return the array itself: it is on the host."""
    return np.asarray(a)


def device_of(a: Any) -> contextlib.AbstractContextManager[Any]:
    """Nothing to choose: there is one CPU."""
    return contextlib.nullcontext()


def device_key() -> Hashable:
    """Key of what was made for the current device: there is one CPU."""
    return "cpu"


def synchronize() -> None:
    """Nothing to wait for: a call returns when its work is done."""


def erfcx(a: Any) -> Any:
    """Scaled complementary error function, exp(a^2) erfc(a)."""
    from scipy import special

    return special.erfcx(a)


def release_memory() -> None:
    """Nothing to give back: NumPy keeps no memory for later."""


def mean(A: np.ndarray) -> np.ndarray:
    """Mean of the rows, float64."""
    out: np.ndarray = A.mean(axis=0, dtype=np.float64)
    return out


def look(
    X: np.ndarray, Y: np.ndarray | None, centre: np.ndarray | None, others: Sequence[np.ndarray] = ()
) -> tuple[float, list[bool]]:
    """Largest squared distance of the points to ``centre``, and of each array whether all entries are finite.

    Without a centre the distance is 0. The flags are those of X, of Y where there is one, and of the others.
    """
    from cukde.core.cpu import survey  # which loads Numba

    radius, flags = 0.0, []
    for A in [X] if Y is None else [X, Y]:
        if centre is None:
            flags.append(bool(np.isfinite(A).all()))
            continue
        distance, finite = survey.look(A, centre)
        radius = max(radius, distance)
        flags.append(bool(finite))
    return radius, flags + [bool(np.isfinite(a).all()) for a in others]
