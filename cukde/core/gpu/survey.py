"""What is asked of the data before a pass: launchers of ``kernels_cu/core/survey.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, Specialisation
from cukde.core.gpu.scratch import Spec

# Entries that one block adds up: so few that small data take one launch, so many that a second one is soon done.
_ENTRIES_OF_PART = 2**16
_PARTS_OF_MULTIPROCESSOR = 2

_BLOCKS_OF_MULTIPROCESSOR = 8  # of points of a line

_THREADS_OF_MEANS = 1024
_THREADS_OF_SURVEY = 128


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
        memory = [None if spec is None else cp.empty(*spec) for spec in specs_of_mean(n, d, multiprocessors)]
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


def look(X: Any, Y: Any | None, centre: Any | None, others: Sequence[Any] = ()) -> tuple[float, list[bool]]:
    """Largest squared distance of the points to ``centre``, and of each array whether all entries are finite.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Points of one dtype, float32 or float64, C-contiguous.
    centre : array, shape (d,), optional
        Float64; without it the distance is 0.
    others : sequence of arrays
        More arrays to look for NaN and infinity in.

    Notes
    -----
    Waits for the device: everything comes back to the host in one copy.
    """
    figures = cp.zeros(2, np.uint64)
    _survey(X, Y, centre, figures, 0)
    for i, other in enumerate(others):
        _survey(_column(other), None, None, figures, 2 + i)
    largest, flags = cp.asnumpy(figures)
    bits = [0, *([] if Y is None else [1]), *range(2, 2 + len(others))]
    return float(largest.view(np.float64)), [not int(flags) >> bit & 1 for bit in bits]


def ends(ascending: Any, points: Any) -> tuple[float, float, float]:
    """First and last of data of a line in ascending order, and the largest absolute value of points.

    Arrays are (n,) and (m,), of one dtype, float32 or float64, C-contiguous. NaN among the data is their last; NaN and
    infinity among the points make the third infinite. Waits for the device.
    """
    figures = cp.zeros(3, np.uint64)
    n, m = ascending.size, points.size
    blocks = max(1, min(-(-m // _THREADS_OF_SURVEY), _BLOCKS_OF_MULTIPROCESSOR * device.multiprocessors()))
    kernel = _kernel("ends", ascending.dtype)
    kernel.launch((blocks,), (_THREADS_OF_SURVEY,), ascending, points, figures, n, m)
    low, high, most = cp.asnumpy(figures).view(np.float64).tolist()
    return low, high, most


def _survey(X: Any, Y: Any | None, centre: Any | None, figures: Any, bit: int) -> None:
    n, d = X.shape
    m = 0 if Y is None else Y.shape[0]
    lanes = 32 if d >= 32 else 1  # of a row
    grid = -(-max(n, m) * lanes // _THREADS_OF_SURVEY), 1 if Y is None else 2
    kernel = _kernel("survey", X.dtype)
    kernel.launch(grid, (_THREADS_OF_SURVEY,), X, Y, centre, figures, n, m, d, lanes, bit)


def _column(a: Any) -> Any:
    """All entries in one column, of a dtype that the kernel reads."""
    return cp.ascontiguousarray(a, dtype=np.float32 if a.dtype == np.float32 else np.float64).reshape(-1, 1)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    return (_kernel(name, storage) for name in _TYPES for storage in C_TYPE)


_TYPES = {"column_means": "2P q i q d", "survey": "4P 2q 3i", "ends": "3P 2q"}


@functools.cache
def _kernel(name: str, dtype: np.dtype) -> Specialisation:
    return Specialisation("core/survey", name, core_compile.macros(STORAGE=C_TYPE[dtype]), _TYPES[name])
