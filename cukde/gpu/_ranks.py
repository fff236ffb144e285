"""Ranks of the samples of variables, and their ties: launchers of ``kernels_cu/order_keys.cu`` and ``ranks.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde import _compile, _merge_tiles
from cukde._pair_counts import Ties
from cukde.gpu import _merge_sort
from cukde.gpu._operands import or_null

# Unsigned types of the sizes that samples may have.
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}

_KINDS = {"f": 0, "i": 1, "u": 2, "b": 2}

THREADS = 256
PART = 2048  # samples of a block

_FIGURES = 5  # of a variable, see ranks.cu


class Ranks(NamedTuple):
    """Ranks of p variables of n samples, and what their ties add up to."""

    values: Any  # (p, n) uint32, number of smaller samples; all ones for NaN
    samples: Any  # (p,) int64, those that are no NaN
    ties: Ties  # of those, arrays of shape (p,)


def ranks(columns: Any) -> Ranks:
    """Rank the samples of variables, one a row.

    Parameters
    ----------
    columns : array, shape (p, n)
        Any dtype of kind f, i, u or b of at most 8 bytes; n below 2^32.

    Notes
    -----
    Waits for nothing. Memory: beside the ranks, 24 bytes a sample of the variables that are sorted at a time.
    """
    p, n = columns.shape
    columns = cp.ascontiguousarray(columns)
    values = cp.empty((p, n), np.uint32)
    figures = cp.zeros((p, _FIGURES), np.uint64)
    integers, reals = cp.empty((3, p), np.int64), cp.empty((2, p))
    if n > 0:
        for rows in _merge_tiles.batches(p, n):
            _rank(columns[rows], values[rows], figures[rows])
    if p > 0:
        _compile.kernel(*_ranking("column_ties"))(blocks(p, THREADS), (THREADS,), (figures, integers, reals, p))
    samples, pairs, classes = integers
    return Ranks(values, samples, Ties(pairs, reals[0], reals[1], classes))


def _rank(columns: Any, values: Any, figures: Any) -> None:
    p, n = columns.shape
    size = columns.dtype.itemsize
    floating = columns.dtype.kind == "f"
    infinity = int(np.asarray(np.inf, columns.dtype).view(f"u{size}")) if floating else 0
    parts = -(-n // PART)
    grid, block = (p * parts,), (THREADS,)
    keys = cp.empty((p, n), np.uint64)
    kind = np.int32(_KINDS[columns.dtype.kind])
    _compile.kernel(*_keying(size))(
        grid, block, (columns.view(f"u{size}"), keys, n, np.int32(parts), kind, np.uint64(infinity))
    )
    keys, order = _merge_sort.argsort(keys) if size == 8 else (_merge_sort.sort(keys), None)
    _compile.kernel(*_ranking("rank_runs"))(
        grid,
        block,
        (keys, or_null(order), values, figures, n, np.int32(parts), np.int32(floating), np.uint64(2 ** (8 * size) - 1)),
    )


def blocks(count: int, each: int) -> tuple[int]:
    """A grid of blocks that take ``each`` of ``count``."""
    return (-(-count // each),)


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    for size in _WORDS:
        yield _keying(size)
    yield _ranking("rank_runs")
    yield _ranking("column_ties")


@functools.cache
def _keying(size: int) -> tuple[str, str, _compile.Defines]:
    return "order_keys", "order_keys", (("WORD", _WORDS[size]),)


def _ranking(name: str) -> tuple[str, str, _compile.Defines]:
    return "ranks", name, ()
