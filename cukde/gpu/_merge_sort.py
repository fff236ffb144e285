"""Sorts of the rows of a matrix: launchers of ``kernels_cu/merge_sort.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde import _compile, _merge_tiles
from cukde.gpu._operands import or_null

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
_C_TYPE = {UINT32: "unsigned int", UINT64: "unsigned long long"}


def sort(keys: Any) -> Any:
    """Return the rows of ``keys``, shape (rows, n), uint64, in order. ``keys`` is overwritten."""
    return _sort(keys, None, None)[0]


def argsort(keys: Any) -> tuple[Any, Any]:
    """The same, and the position in its row that each came from, uint32."""
    return _sort(keys, cp.empty(keys.shape, np.uint32), None)


def count_inversions(keys: Any, inversions: Any) -> Any:
    """Return the rows of ``keys``, uint32, in order. ``keys`` is overwritten.

    Pairs i < j with ``keys[row, i] > keys[row, j]`` are added to ``inversions``, shape (rows,), uint64.
    """
    return _sort(keys, None, inversions)[0]


def _sort(keys: Any, order: Any | None, inversions: Any | None) -> tuple[Any, Any]:
    rows, n = keys.shape
    if keys.size == 0:
        return keys, order
    threads = _merge_tiles.threads(n, keys.itemsize)
    tiles = -(-n // (threads * _merge_tiles.ITEMS))
    grid, block = (rows * tiles,), (threads,)
    specialised = keys.dtype, order is not None, inversions is not None, threads
    _compile.kernel(*_kernel("sort_tiles", *specialised))(
        grid, block, (keys, or_null(order), or_null(inversions), n, np.int32(tiles))
    )
    if tiles == 1:
        return keys, order
    merge = _compile.kernel(*_kernel("merge_runs", *specialised))
    merged, merged_order = cp.empty_like(keys), None if order is None else cp.empty_like(order)
    run = 1
    while run < tiles:
        merge(
            grid,
            block,
            (
                keys,
                or_null(order),
                merged,
                or_null(merged_order),
                or_null(inversions),
                n,
                np.int32(tiles),
                np.int32(run),
            ),
        )
        keys, merged, order, merged_order = merged, keys, merged_order, order
        run *= 2
    return keys, order


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    for dtype, order, count in ((UINT64, False, False), (UINT64, True, False), (UINT32, False, True)):
        for threads in _merge_tiles.THREADS[dtype.itemsize]:
            yield _kernel("sort_tiles", dtype, order, count, threads)
        yield _kernel("merge_runs", dtype, order, count, _merge_tiles.THREADS[dtype.itemsize][-1])


@functools.cache
def _kernel(name: str, dtype: np.dtype, order: bool, count: bool, threads: int) -> tuple[str, str, _compile.Defines]:
    defines = (
        ("KEY", _C_TYPE[dtype]),
        ("ORDER", str(int(order))),
        ("COUNT", str(int(count))),
        ("THREADS", str(threads)),
    )
    return "merge_sort", name, defines
