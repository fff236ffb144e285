"""What is asked of the data before a pass: launchers of ``kernels_cu/core/survey.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, scratch
from cukde.core.gpu.launch import C_TYPE, DOUBLE, Specialisation
from cukde.core.gpu.scratch import Spec
from cukde.core.looks import Look

# Entries that one block adds up: so few that small data take one launch, so many that a second one is soon done.
_ENTRIES_OF_PART = 2**16
_PARTS_OF_MULTIPROCESSOR = 2

_BLOCKS_OF_MULTIPROCESSOR = 8  # of numbers
_BLOCKS_OF_ROWS = 32

_THREADS_OF_MEANS = 1024
_THREADS_OF_SURVEY = 128

_SIGN = np.uint64(1 << 63)


def mean(A: Any, memory: Sequence[Any] | None = None) -> Any:
    """Mean of the rows, float64, in one launch or two; the same bits on every run.

    ``memory`` are pieces by :func:`specs_of_mean`, the last of them for the mean; default new arrays.
    """
    return _column_sums(A, 1 / A.shape[0], memory)


def total(A: Any) -> Any:
    """Sum of the rows, likewise."""
    return _column_sums(A, 1.0)


def specs_of_mean(n: int, d: int, multiprocessors: int) -> list[Spec | None]:
    """What a mean takes: sums of parts of the rows, where there are several, and the mean."""
    parts = -(-n // _rows_of_part(n, d, multiprocessors))
    return [((parts, d), DOUBLE) if parts > 1 else None, ((d,), DOUBLE)]


def _column_sums(A: Any, factor: float, memory: Sequence[Any] | None = None) -> Any:
    n, d = A.shape
    multiprocessors = device.multiprocessors()
    if memory is None:
        memory = scratch.arrays(specs_of_mean(n, d, multiprocessors))
    sums, out = memory
    if sums is not None:
        _column_means(A, _rows_of_part(n, d, multiprocessors), 1.0, sums)
        A, n = sums, sums.shape[0]
    _column_means(A, n, factor, out)
    return out


@functools.lru_cache(maxsize=1024)
def _rows_of_part(n: int, d: int, multiprocessors: int) -> int:
    parts = -(-n * d // _ENTRIES_OF_PART)
    return -(-n // max(1, min(parts, n, _PARTS_OF_MULTIPROCESSOR * multiprocessors)))


def _column_means(A: Any, part_rows: int, factor: float, out: Any) -> None:
    """Sums of so many rows at a time, times a factor."""
    n, d = A.shape
    parts = -(-n // part_rows)
    _kernel("column_means", A.dtype).launch((parts,), (_THREADS_OF_MEANS,), A, out, n, d, part_rows, factor)


def look(X: Any, Y: Any | None, centre: Any | None, others: Sequence[Any] = (), ranged: Sequence[Any] = ()) -> Look:
    """Largest squared distance of the points to ``centre``, of each array whether all entries are finite, and ranges.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Points of one dtype, float32 or float64, C-contiguous.
    centre : array, shape (d,), optional
        Float64; without it the distance is 0.
    others : sequence of arrays
        More arrays to look for NaN and infinity in.
    ranged : sequence of arrays, shape (n,)
        More whose ranges are wanted, too.

    Notes
    -----
    Waits for the device: everything comes back to the host in one copy.
    """
    figures = cp.zeros((1 + len(ranged), 2), np.uint64)
    _survey(X, Y, centre, figures, 0)
    for i, other in enumerate(others):
        _survey(numbers(other).reshape(-1, 1), None, None, figures, 2 + i)
    for i, a in enumerate(ranged):
        kernel, grid = _kernel("range", (entries := numbers(a)).dtype), (_blocks(a.size),)
        kernel.launch(grid, (_THREADS_OF_SURVEY,), entries, figures[1 + i], a.size)
    (largest, flags), *places = cp.asnumpy(figures)
    bits = [0, *([] if Y is None else [1]), *range(2, 2 + len(others))]
    ranges = [(-_number_at(negative), _number_at(most)) for most, negative in places]
    finite = [not int(flags) >> bit & 1 for bit in bits]
    return Look(
        float(largest.view(np.float64)), finite + [math.isfinite(a) and math.isfinite(b) for a, b in ranges], ranges
    )


def within(A: Any, centre: Any, squared: float) -> np.ndarray:
    """Which rows of ``A`` lie within a squared distance of a centre, (n,) bool, on the host; waits for the device."""
    near = cp.empty(len(A), np.uint8)
    _survey(A, None, centre, cp.zeros(2, np.uint64), 0, near, squared)
    return cp.asnumpy(near).view(bool)


def _number_at(place: np.uint64) -> float:
    """The double at a place in the order of all; 0 at none."""
    if not place:
        return 0.0
    bits = place ^ _SIGN if place & _SIGN else ~place
    return float(bits.view(np.float64))


def ends(ascending: Any, points: Any) -> tuple[float, float, float]:
    """First and last of data of a line in ascending order, and the largest absolute value of points.

    Arrays are (n,) and (m,), of one dtype, float32 or float64, C-contiguous. NaN among the data is their last; NaN and
    infinity among the points make the third infinite. Waits for the device.
    """
    figures = cp.zeros(3, np.uint64)
    n, m = ascending.size, points.size
    kernel = _kernel("ends", ascending.dtype)
    kernel.launch((_blocks(m),), (_THREADS_OF_SURVEY,), ascending, points, figures, n, m)
    low, high, most = cp.asnumpy(figures).view(np.float64).tolist()
    return low, high, most


def _blocks(size: int) -> int:
    """Blocks over so many numbers."""
    return max(1, min(-(-size // _THREADS_OF_SURVEY), _BLOCKS_OF_MULTIPROCESSOR * device.multiprocessors()))


def _survey(
    X: Any, Y: Any | None, centre: Any | None, figures: Any, bit: int, near: Any | None = None, within: float = 0.0
) -> None:
    n, d = X.shape
    m = 0 if Y is None else Y.shape[0]
    lanes = 8 if d >= 32 else 1  # of a row
    blocks = min(-(-max(n, m) * lanes // _THREADS_OF_SURVEY), _BLOCKS_OF_ROWS * device.multiprocessors())
    grid = max(1, blocks), 1 if Y is None else 2
    kernel = _kernel("survey", X.dtype)
    kernel.launch(grid, (_THREADS_OF_SURVEY,), X, Y, centre, figures, near, n, m, d, lanes, bit, within)


def numbers(a: Any) -> Any:
    """The same, C-contiguous and of a dtype that kernels read."""
    return cp.ascontiguousarray(a, dtype=np.float32 if a.dtype == np.float32 else np.float64)


def kernel_of_mean(dtype: np.dtype) -> Specialisation:
    """What :func:`mean` launches."""
    return _kernel("column_means", dtype)


_TYPES = {"column_means": "2P q i q d", "survey": "5P 2q 3i d", "range": "2P q", "ends": "3P 2q"}


@core_compile.specialised(_TYPES, C_TYPE)
def _kernel(name: str, dtype: np.dtype) -> Specialisation:
    return Specialisation("core/survey", name, core_compile.macros(STORAGE=C_TYPE[dtype]), _TYPES[name])
