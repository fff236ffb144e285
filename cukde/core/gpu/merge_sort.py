"""Sorts of the rows of a matrix: launchers of ``kernels_cu/core/merge_sort.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core import merge_tiles
from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Launch, Specialisation

UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
_C_TYPE = {UINT32: "unsigned int", UINT64: "unsigned long long"}


def sort(keys: Any) -> Any:
    """Return the rows of ``keys``, shape (rows, n), uint64, in order. ``keys`` is overwritten."""
    return _sort(keys, None, None)[0]


def argsort(keys: Any) -> tuple[Any, Any]:
    """The same, of uint32 too, and the position in its row that each came from, uint32; equal keys keep their order."""
    return _sort(keys, cp.empty(keys.shape, np.uint32), None)


def in_order(keys: Any) -> tuple[Any, Any]:
    """Return ``keys``, shape (n,), uint32, in order, and the position that each came from, int64.

    ``keys`` is overwritten. Equal keys keep their order. Launches follow from n alone, 10 of 10^6 keys, and nothing
    waits. Memory beside the result: 16 bytes a key.
    """
    sorted_keys, order = argsort(keys[None])
    if core_compile.is_rehearsal():
        order.fill(0)  # nothing has been written to it, and callers take these rows
    return sorted_keys[0], order[0].astype(np.int64)


def kernels_of_order(n: int) -> tuple[Specialisation, ...]:
    """What :func:`in_order` launches."""
    sort_tiles, merges = _launches(1, n, UINT32, True, False)
    return tuple(launch.kernel for launch in (sort_tiles, *merges[:1]))


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
    threads = merge_tiles.threads(n, _most_bytes(dtype, order))
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
    of_sort, of_argsort, of_count = (False, False), (True, False), (False, True)
    for dtype, forms in (UINT64, (of_sort, of_argsort)), (UINT32, (of_argsort, of_count)):
        for order, count in forms:
            choices = merge_tiles.THREADS[_most_bytes(dtype, order)]
            for threads in choices:
                yield _kernel("sort_tiles", dtype, order, count, threads)
            yield _kernel("merge_runs", dtype, order, count, choices[-1])


def _most_bytes(dtype: np.dtype, order: bool) -> int:
    """Bytes of a key in shared memory, which is by its size: 4 bytes and their positions do not fit as 4 alone do."""
    return 8 if order else dtype.itemsize


_TYPES = {"sort_tiles": "3P q i", "merge_runs": "5P q 2i"}


@functools.cache
def _kernel(name: str, dtype: np.dtype, order: bool, count: bool, threads: int) -> Specialisation:
    defines = core_compile.macros(KEY=_C_TYPE[dtype], ORDER=order, COUNT=count, THREADS=threads)
    return Specialisation("core/merge_sort", name, defines, _TYPES[name])
