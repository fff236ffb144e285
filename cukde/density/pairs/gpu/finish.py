"""Results in double precision: where the blocks of a launch write, and how the splits of the data merge."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, scratch
from cukde.core.gpu.launch import DOUBLE, Specialisation
from cukde.core.gpu.scratch import Spec
from cukde.density.sums import Output, PartialSums

# Blocks a multiprocessor should have before the data are no longer split over more of them.
_BLOCKS_PER_MULTIPROCESSOR = 4

TILES_PER_SPLIT = 4
"""Data tiles a split has at least: below it, merging costs more than the split gains."""

# Queries of a block, and data rows of a tile.
_TILE = 64

DensityForm = Literal["kde", "laplace", "positive"]
"""What sums become: the total, the Laplace-corrected density, or the positive one of the same sums."""

OUTPUT_OF: dict[DensityForm, Output] = {"kde": "sum", "laplace": "laplace", "positive": "laplace"}

FINISH_THREADS = 128  # of a block of a kernel of finish.cu
_FINISH_QUERIES = FINISH_THREADS // 32  # one a warp


def wanted(form: DensityForm, *, log: bool) -> int:
    """What is wanted of a density, as ``density_forms.cuh`` takes it."""
    return log + 2 * (form == "positive")


class Density(NamedTuple):
    """Densities as an output: sums times exp(log_constant + reference), or the logarithm of that.

    The logarithm of a negative density is NaN.
    """

    out: Any  # (m,) float32 or float64
    log_constant: float
    log: bool
    form: DensityForm = "kde"

    @property
    def arguments(self) -> tuple[Any, float, int]:
        """As kernels take it."""
        return self.out, self.log_constant, wanted(self.form, log=self.log)


class Splits(NamedTuple):
    """A row of results for each split of the data."""

    blocks: tuple[int, int]  # over queries and columns
    parts: int
    rows: int  # of the data, a split
    reference: Any  # (parts, m); (m,) where there is one
    total: Any  # likewise
    moments: Any | None  # (parts, m, k); (m, k) where there is one

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks over queries, columns and splits."""
        return (*self.blocks, self.parts)

    @property
    def sums(self) -> tuple[Any, Any, Any | None]:
        """Where a kernel writes."""
        return self.reference, self.total, self.moments


def empty(m: int, k: int) -> PartialSums:
    """Uninitialised results of ``m`` queries with ``k`` moments each, or none."""
    return PartialSums(cp.empty(m), cp.empty(m), cp.empty((m, k)) if k else None)


def specs(m: int, k: int, parts: int | None = None) -> list[Spec | None]:
    """What results are made of, of one pass or of so many splits; None of one split, which writes to the results."""
    if parts == 1:
        return [None, None, None]
    shape = (m,) if parts is None else (parts, m)
    return [(shape, DOUBLE), (shape, DOUBLE), ((*shape, k), DOUBLE) if k else None]


def splits(
    n: int,
    m: int,
    columns: int,
    out: PartialSums,
    *,
    tiles: int = TILES_PER_SPLIT,
    one_split: bool = False,
    memory: Sequence[Any] | None = None,
) -> Splits:
    """Split ``n`` data rows so that the device is busy; a single split writes to ``out``.

    A split has so many ``tiles`` at least. ``memory`` are pieces by :func:`specs`; by default there will be new arrays.
    """
    k = 0 if out.moments is None else out.moments.shape[1]
    multiprocessors = 0 if one_split else device.multiprocessors()
    return split_by(n, _rows_of_split(n, m, k, columns, tiles, multiprocessors), blocks(m, k, columns), out, memory)


def parts(n: int, m: int, k: int, columns: int, tiles: int, multiprocessors: int) -> int:
    """Number of the splits that :func:`splits` makes."""
    return -(-n // _rows_of_split(n, m, k, columns, tiles, multiprocessors))


def split_by(
    n: int, rows: int, blocks: tuple[int, int], out: PartialSums, memory: Sequence[Any] | None = None
) -> Splits:
    """Split ``n`` data rows into splits of ``rows``, as :func:`splits` does."""
    parts = -(-n // rows)
    if parts == 1:
        return Splits(blocks, parts, rows, *out)
    if memory is None:
        memory = scratch.arrays(specs(out.total.shape[0], 0 if out.moments is None else out.moments.shape[1], parts))
    return Splits(blocks, parts, rows, *memory)


def blocks(m: int, k: int, columns: int) -> tuple[int, int]:
    """Blocks of the kernels that own 64 queries, over queries and columns."""
    return -(-m // _TILE), -(-k // columns) if k else 1


@functools.lru_cache(maxsize=1024)
def _rows_of_split(n: int, m: int, k: int, columns: int, least: int, multiprocessors: int) -> int:
    """Rows of a split of so many tiles at least; no multiprocessors ask for one split."""
    tiles = -(-n // _TILE)
    target_splits = _BLOCKS_PER_MULTIPROCESSOR * multiprocessors // math.prod(blocks(m, k, columns))
    return -(-tiles // max(1, min(target_splits, tiles // least))) * _TILE


def merge(split_sums: Splits, out: PartialSums) -> PartialSums:
    """Merge the splits into ``out``, in one launch at most, and return it."""
    if split_sums.parts > 1:
        m = split_sums.reference.shape[1]
        k = 0 if split_sums.moments is None else split_sums.moments.shape[2]
        _kernel(k > 0).launch(finish_grid(m), (FINISH_THREADS,), *split_sums.sums, *out, m, k, split_sums.parts)
    return out


def kernels_of_merge(parts: int, k: int) -> tuple[Specialisation, ...]:
    """What :func:`merge` launches of so many splits and moments."""
    return (_kernel(k > 0),) if parts > 1 else ()


@core_compile.specialised((False, True))
def _kernel(moments: bool) -> Specialisation:
    defines = core_compile.macros(OUTPUT="MOMENTS" if moments else "SUM", COLUMNS=0)
    return Specialisation("density/finish", "merge_splits", defines, "6P q 2i")


def finish_grid(m: int) -> tuple[int]:
    """Blocks of a kernel of ``finish.cu``."""
    return (-(-m // _FINISH_QUERIES),)


def contiguous(a: Any, dtype: np.dtype) -> Any:
    """Return ``a`` in row-major order and of a dtype."""
    return cp.ascontiguousarray(a, dtype=dtype)
