"""Operations on arrays in host memory, the CPU twin of ``cukde.core.gpu.arrays``. It does not load Numba."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

name = "cpu"
xp = np


def asarray(a: Any) -> np.ndarray:
    """Return anything array-like (lists, pandas, polars, DLPack in host memory) as a NumPy array."""
    if not hasattr(a, "__array__") and hasattr(a, "__dlpack__"):
        return np.from_dlpack(a)
    return np.asarray(a)


def asnumpy(a: Any) -> np.ndarray:
    """Return the array itself, which is on the host."""
    return np.asarray(a)


def device_of(a: Any) -> contextlib.AbstractContextManager[Any]:
    """Do nothing: there is one CPU."""
    return contextlib.nullcontext()


def device_key() -> Hashable:
    """Return a key of the current device for caches."""
    return "cpu"


def synchronize() -> None:
    """Do nothing: calls return when their work is done."""


def erfcx(a: Any) -> Any:
    """Return the scaled complementary error function, exp(a^2) erfc(a)."""
    from scipy import special

    return special.erfcx(a)


def release_memory() -> None:
    """Do nothing: NumPy keeps no pool of memory."""


def mean(A: np.ndarray) -> np.ndarray:
    """Return the mean of the rows, float64."""
    out: np.ndarray = A.mean(axis=0, dtype=np.float64)
    return out


def look(
    X: np.ndarray, Y: np.ndarray | None, centre: np.ndarray | None, others: Sequence[np.ndarray] = ()
) -> tuple[float, list[bool]]:
    """Compute pre-pass reductions: the largest squared distance to ``centre``, and whether each array is finite.

    Without a centre the distance is 0. The flags are those of X, of Y if there is one, and of the others.
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
