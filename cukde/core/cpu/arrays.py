"""Operations on arrays in host memory, the CPU twin of ``cukde.core.gpu.arrays``. It does not load Numba."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from cukde.core.looks import Look

name = "cpu"
xp = np

_HERE = contextlib.nullcontext()

# Entries of an array up to which NumPy's reductions take less time than it takes to load a compiled loop. A warm-up has
# more, if the calls that follow do.
_FEW = 2**12

_OF_ONE_THREAD = 2**13  # entries whose product BLAS takes in the caller's thread: others may be busy for milliseconds

_LINE = 2**10  # entries that NumPy adds to others at a time: in lines of few, a sum takes 20 times as long


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
    return _HERE


def several(devices: str | tuple[int, ...]) -> tuple[int, ...]:
    """Return none, as a call works on all of the CPU anyway; raise for numbers, which are those of GPUs."""
    if not isinstance(devices, str):
        raise ValueError(
            f'devices must be "all" or None for arrays on the CPU, which has no others; got {devices}: '
            "write cupy.asarray(X) to compute on GPUs"
        )
    return ()


def device_key() -> Hashable:
    """Return a key of the current device for caches."""
    return "cpu"


def place() -> Hashable:
    """Return None: calls return when their work is done, so that any other can read what they leave."""
    return None


def synchronize() -> None:
    """Do nothing: calls return when their work is done."""


def erfcx(a: Any) -> Any:
    """Return the scaled complementary error function, exp(a^2) erfc(a)."""
    return special().erfcx(a)


def special() -> Any:
    """Return the module of special functions."""
    from scipy import special

    return special


def release_memory() -> None:
    """Do nothing: NumPy keeps no pool of memory."""


def mean(A: np.ndarray) -> np.ndarray:
    """Return the mean of the rows, float64."""
    n, d = A.shape
    rows = _LINE // d
    if d == 1 or n <= 2 * rows or rows < 2:
        total = np.add.reduce(A, axis=0, dtype=np.float64)
    else:
        whole = n - n % rows
        lines = np.add.reduce(A[:whole].reshape(-1, rows * d), axis=0, dtype=np.float64)
        total = lines.reshape(rows, d).sum(axis=0) + np.add.reduce(A[whole:], axis=0, dtype=np.float64)
    out: np.ndarray = total / n
    return out


def look(
    X: np.ndarray,
    Y: np.ndarray | None,
    centre: np.ndarray | None,
    others: Sequence[np.ndarray] = (),
    ranged: Sequence[np.ndarray] = (),
) -> Look:
    """Compute pre-pass reductions: the largest squared distance to ``centre``, whether arrays are finite, and ranges.

    Without a centre the distance is 0. The flags are those of X, of Y if there is one, of the others, and of arrays,
    (n,), whose ranges are wanted.
    """
    radius, flags = 0.0, []
    for A in [X] if Y is None else [X, Y]:
        if centre is None:
            flags.append(bool(np.isfinite(A).all()))
            continue
        distance, finite = _furthest(A, centre)
        radius = max(radius, distance)
        flags.append(finite)
    ranges = [range_of(a) for a in ranged]
    flags += [bool(np.isfinite(a).all()) for a in others]
    return Look(radius, flags + [math.isfinite(least) and math.isfinite(most) for least, most in ranges], ranges)


def range_of(a: np.ndarray) -> tuple[float, float]:
    """Least and largest entry, both NaN where there is one."""
    return float(a.min()), float(a.max())


def radius_bound(A: np.ndarray, centre: np.ndarray) -> float:
    """Return a squared distance to ``centre`` that no row exceeds; infinite or NaN where an entry is not finite.

    It is at most as many times too large as there are rows, and of few takes a third of the time of :func:`look`.
    """
    steps = (A - centre).reshape(-1)
    parts = (steps[start : start + _OF_ONE_THREAD] for start in range(0, steps.size, _OF_ONE_THREAD))
    return float(sum(np.vdot(part, part) for part in parts))


def _furthest(A: np.ndarray, centre: np.ndarray) -> tuple[float, bool]:
    """Return the largest squared distance of a row to ``centre``, 0 without rows, and whether all are finite."""
    if A.size > _FEW:
        from cukde.core.cpu import survey  # which loads Numba

        distance, finite = survey.look(A, centre)
        return distance, bool(finite)
    if len(A) == 0:
        return 0.0, True
    with np.errstate(over="ignore", invalid="ignore"):
        steps = A - centre
    squares = np.einsum("ik,ik->i", steps, steps)
    distance = float(np.maximum.reduce(squares))
    # The square of finite entries may overflow: then the entries themselves are tested.
    return (distance, True) if math.isfinite(distance) else (math.inf, bool(np.isfinite(A).all()))
