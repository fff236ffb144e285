"""Sorts of the rows of a matrix: launchers of ``kernels_cu/kendall/merge_sort.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Launch, Specialisation
from cukde.kendall import merge_tiles

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
    if keys.size == 0:
        return keys, order
    sort_tiles, merges = _launches(*keys.shape, keys.dtype, order is not None, inversions is not None)
    sort_tiles(keys, order, inversions)
    if not merges:
        return keys, order
    merged, merged_order = cp.empty_like(keys), None if order is None else cp.empty_like(order)
    for merge in merges:
        merge(keys, order, merged, merged_order, inversions)
        keys, merged, order, merged_order = merged, keys, merged_order, order
    return keys, order


@functools.lru_cache(maxsize=1024)
def _launches(rows: int, n: int, dtype: np.dtype, order: bool, count: bool) -> tuple[Launch, tuple[Launch, ...]]:
    """The launch that sorts tiles, and those that merge runs of 1, 2, 4, .. of them."""
    threads = merge_tiles.threads(n, dtype.itemsize)
    tiles = -(-n // (threads * merge_tiles.ITEMS))
    grid, block, scalars = (rows * tiles,), (threads,), (n, tiles)
    specialised = dtype, order, count, threads
    merges = tuple(
        Launch(_kernel("merge_runs", *specialised), grid, block, (*scalars, 2**level))
        for level in range((tiles - 1).bit_length())
    )
    return Launch(_kernel("sort_tiles", *specialised), grid, block, scalars), merges


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for dtype, order, count in ((UINT64, False, False), (UINT64, True, False), (UINT32, False, True)):
        for threads in merge_tiles.THREADS[dtype.itemsize]:
            yield _kernel("sort_tiles", dtype, order, count, threads)
        yield _kernel("merge_runs", dtype, order, count, merge_tiles.THREADS[dtype.itemsize][-1])


_TYPES = {"sort_tiles": "3P q i", "merge_runs": "5P q 2i"}


@functools.cache
def _kernel(name: str, dtype: np.dtype, order: bool, count: bool, threads: int) -> Specialisation:
    defines = core_compile.macros(KEY=_C_TYPE[dtype], ORDER=order, COUNT=count, THREADS=threads)
    return Specialisation("kendall/merge_sort", name, defines, _TYPES[name])
