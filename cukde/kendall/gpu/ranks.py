"""Ranks of the samples of variables, and their ties: launchers of ``order_keys.cu`` and ``ranks.cu``."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core import merge_tiles
from cukde.core.gpu import compile as core_compile, merge_sort
from cukde.core.gpu.launch import Launch, Specialisation
from cukde.kendall.counts import Ties

# Unsigned types of the sizes that samples may have.
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_UNSIGNED = {size: np.dtype(f"u{size}") for size in _WORDS}

KINDS = {"f": 0, "i": 1, "u": 2, "b": 2}

THREADS = 256
PART = 2048  # samples of a block

_FIGURES = 5  # of a variable, see ranks.cu


class Ranks(NamedTuple):
    """Ranks of p variables of n samples, and what their ties add up to."""

    values: Any  # (p, n) uint32, number of smaller samples; all ones for NaN
    integers: Any  # (3, p) int64: samples that are no NaN, and of those the pairs that are tied and distinct values
    reals: Any  # (2, p) float64: of those the other two sums of Ties

    @property
    def down(self) -> tuple[Any, Ties]:
        """Samples that are no NaN and sums over ties, arrays of shape (p, 1)."""
        samples, pairs, classes = self.integers[:, :, None]
        triples, variance = self.reals[:, :, None]
        return samples, Ties(pairs, triples, variance, classes)


def ranks(columns: Any, integers: Any | None = None) -> Ranks:
    """Rank the samples of variables, one a row.

    Parameters
    ----------
    columns : array, shape (p, n)
        Any dtype of kind f, i, u or b of at most 8 bytes; n below 2^32.
    integers : array, shape (3, p), optional
        Where to write these, int64.

    Notes
    -----
    Waits for nothing. Memory: beside the ranks, 24 bytes a sample of the variables that are sorted at a time.
    """
    values, figures = _ranked(columns)
    p = len(values)
    reals, integers = cp.empty((2, p)), cp.empty((3, p), np.int64) if integers is None else integers
    if p > 0:
        _adding(p)(figures, integers, reals)
    return Ranks(values, integers, reals)


def values_of(*matrices: Any) -> Any:
    """Ranks alone, (p, n), of the rows of matrices of one dtype and width, those of one below those of another."""
    return _ranked(*matrices)[0]


def _ranked(*matrices: Any) -> tuple[Any, Any]:
    """Ranks, and the figures of ``ranks.cu``."""
    p, n = sum(map(len, matrices)), matrices[0].shape[1]
    matrices = tuple(map(cp.ascontiguousarray, matrices))
    values = cp.empty((p, n), np.uint32)
    figures = cp.zeros((p, _FIGURES), np.uint64)
    if n > 0:
        for rows in merge_tiles.batches(p, n):
            _rank(_of_all(matrices, rows), merge_tiles.of_batch(values, rows), merge_tiles.of_batch(figures, rows))
    return values, figures


def _of_all(matrices: tuple[Any, ...], rows: slice) -> list[Any]:
    """What matrices have of some rows of all of them together."""
    parts, begin = [], 0
    for matrix in matrices:
        part_rows = slice(max(rows.start - begin, 0), min(rows.stop - begin, len(matrix)))
        begin += len(matrix)
        if part_rows.start < part_rows.stop:
            parts.append(merge_tiles.of_batch(matrix, part_rows))
    return parts


def _rank(matrices: list[Any], values: Any, figures: Any) -> None:
    p, n = values.shape
    dtype = matrices[0].dtype
    keys, begin = cp.empty((p, n), np.uint64), 0
    for matrix in matrices:
        rows = slice(begin, begin + len(matrix))
        _keying(len(matrix), n, dtype)(matrix.view(_UNSIGNED[dtype.itemsize]), merge_tiles.of_batch(keys, rows))
        begin = rows.stop
    keys, order = merge_sort.argsort(keys) if dtype.itemsize == 8 else (merge_sort.sort(keys), None)
    _ranking(p, n, dtype)(keys, order, values, figures)


@functools.lru_cache(maxsize=1024)
def _keying(rows: int, n: int, dtype: np.dtype) -> Launch:
    """The launch that makes keys of samples."""
    infinity = int(np.asarray(np.inf, dtype).view(_UNSIGNED[dtype.itemsize])) if dtype.kind == "f" else 0
    parts = -(-n // PART)
    scalars = n, parts, KINDS[dtype.kind], infinity
    return Launch(_key_kernel(dtype.itemsize), (rows * parts,), (THREADS,), scalars)


@functools.lru_cache(maxsize=1024)
def _ranking(p: int, n: int, dtype: np.dtype) -> Launch:
    """The launch that makes ranks and figures of keys in order."""
    parts = -(-n // PART)
    scalars = n, parts, dtype.kind == "f", 2 ** (8 * dtype.itemsize) - 1
    return Launch(_RANK_RUNS, (p * parts,), (THREADS,), scalars)


@functools.lru_cache(maxsize=1024)
def _adding(p: int) -> Launch:
    """The launch that computes the results from the figures."""
    return Launch(_COLUMN_TIES, (-(-p // THREADS),), (THREADS,), (p,))


@core_compile.specialised(_WORDS)
def _key_kernel(size: int) -> Specialisation:
    return Specialisation("kendall/order_keys", "order_keys", core_compile.macros(WORD=_WORDS[size]), "2P q 2i Q")


_RANK_RUNS = Specialisation("kendall/ranks", "rank_runs", (), "4P q 2i Q")
_COLUMN_TIES = Specialisation("kendall/ranks", "column_ties", (), "3P q")
core_compile.listed(lambda: (_RANK_RUNS, _COLUMN_TIES))
