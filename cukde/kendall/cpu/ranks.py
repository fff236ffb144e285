"""Ranks of columns and sums over their ties, computed once for each column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.kendall.counts import Ties

# Samples in a task of a thread, which takes about a millisecond: long beside its start.
_SAMPLES = 2**17

# Samples that take less time than it takes to wake a second thread.
_FEW_SAMPLES = 2**13

# Bits of a digit of the radix sort. Digits of 11 bits take fewer passes, but 2,048 bins are too many to write to at
# once: 1e6 samples take 62 ms, and 38 ms with 8 bits (1e5: 2.5 and 2.4 ms; one core of an EPYC 7003).
_DIGIT = 8
_DIGITS = 64 // _DIGIT
_BINS = 2**_DIGIT

_LARGEST = np.iinfo(np.int64).max

_NO_TIES = Ties(0, 0.0, 0.0, 0)


class Columns(NamedTuple):
    """Orders and ranks of columns of n samples."""

    order: Any  # (p, n): indices of samples by value, NaN last
    rank: Any  # (p, n): number of samples with smaller values; -1 for NaN
    valid: Any  # (p,): number of samples that are not NaN
    ties: Ties  # arrays (p,)

    def rows(self, rows: slice) -> Columns:
        """Return some of the columns, without a copy."""
        return Columns(self.order[rows], self.rank[rows], self.valid[rows], Ties(*(t[rows] for t in self.ties)))


def ranked(*arrays: np.ndarray) -> list[Columns]:
    """Rank the rows of arrays of shape (p, n)."""
    columns = [_empty(*A.shape) for A in arrays]

    def rank(task: tuple[int, slice]) -> None:
        array, rows = task
        out = columns[array].rows(rows)
        _rank(*_bits(arrays[array][rows]), out)

    tasks = [(array, rows) for array, A in enumerate(arrays) for rows in blocks(*A.shape)]
    if sum(A.size for A in arrays) <= _FEW_SAMPLES:
        for task in tasks:
            rank(task)
    else:
        threads.run(rank, tasks)
    return columns


def blocks(count: int, n: int) -> list[slice]:
    """Cut ``count`` columns, or pairs of columns, of n samples into tasks."""
    step = max(1, _SAMPLES // max(n, 1))
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]


def _empty(p: int, n: int) -> Columns:
    index = np.int32 if n < 2**31 else np.int64
    return Columns(np.empty((p, n), index), np.empty((p, n), index), np.empty(p, np.int64), Ties.none(np, (p,)))


def _bits(A: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Return integers in the order of the values, 0 and 0; or bits of floating-point values, of infinity and -0.0."""
    A = np.ascontiguousarray(A, A.dtype.newbyteorder("="))
    if A.dtype.kind == "f":
        signed = np.dtype(f"i{A.itemsize}")
        infinity = int(np.array(np.inf, A.dtype).view(signed))
        return A.view(signed).astype(np.int64, copy=False), infinity, np.iinfo(signed).min
    if A.dtype == np.uint64:
        return A.view(np.int64) ^ np.iinfo(np.int64).min, 0, 0
    return A.astype(np.int64, copy=False), 0, 0


@njit(**_JIT)
def _rank(bits: Any, infinity: Any, negative_zero: Any, out: Any) -> None:
    """Sort the rows of the bits of :func:`_bits`, rank them, and sum over their ties."""
    p, n = bits.shape
    keys = np.empty((2, n), np.uint64)
    other = np.empty(n, out.order.dtype)
    for c in range(p):
        out.valid[c] = _keys(bits[c], infinity, negative_zero, keys[0])
        ordered = _sort(keys[0], keys[1], out.order[c], other)
        write(_number(ordered, out.order[c], out.valid[c], out.rank[c]), c, out.ties)


@njit(**_JIT)
def _keys(bits: Any, infinity: Any, negative_zero: Any, keys: Any) -> Any:
    """Write integers from 0 up in the order of the values, NaN last; return the number of values that are not NaN."""
    n = bits.size
    valid = n
    lowest = _LARGEST
    for i in range(n):
        key = bits[i]
        if infinity > 0:
            if key < 0:
                key = negative_zero - key  # the magnitude, negated: both zeros are 0
            if abs(key) > infinity:
                key = infinity + 1
                valid -= 1
        keys[i] = key
        lowest = key if key < lowest else lowest
    for i in range(n):
        keys[i] -= np.uint64(lowest)
    return valid


@njit(**_JIT)
def _sort(keys: Any, other_keys: Any, order: Any, other_order: Any) -> Any:
    """Write the order of the keys, and return the sorted keys, in one of their two arrays.

    It is a radix sort from the lowest digit up. Digits that all keys share are skipped: narrow types take few passes.
    """
    n = keys.size
    counts = np.zeros((_DIGITS, _BINS), np.int64)
    for i in range(n):
        order[i] = i
        key = keys[i]
        for d in range(_DIGITS):
            counts[d, np.uint8(key >> np.uint64(d * _DIGIT))] += 1
    swapped = False
    for d in range(_DIGITS):
        shift = np.uint64(d * _DIGIT)
        places = counts[d]
        if n == 0 or places[np.uint8(keys[0] >> shift)] == n:
            continue
        place = 0
        for digit in range(_BINS):
            count = places[digit]
            places[digit] = place
            place += count
        _scatter(keys, order, places, shift, other_keys, other_order)
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
        swapped = not swapped
    if swapped:
        for i in range(n):  # a slice assignment would take three seconds to compile
            other_order[i] = order[i]
    return keys


@njit(**_JIT)
def _scatter(keys: Any, order: Any, places: Any, shift: Any, out_keys: Any, out_order: Any) -> None:
    """Move each key and its sample to the next place of its digit."""
    for i in range(keys.size):
        key = keys[i]
        digit = np.uint8(key >> shift)
        place = np.uint64(places[digit])
        places[digit] += 1
        out_keys[place] = key
        out_order[place] = order[i]


@njit(**_JIT)
def _number(keys: Any, order: Any, valid: Any, rank: Any) -> Any:
    """Rank samples by sorted keys; return sums over ties."""
    ties = _NO_TIES
    start = 0
    for k in range(valid):
        if keys[k] != keys[start]:
            ties = _add(ties, k - start)
            start = k
        rank[order[k]] = start
    for k in range(valid, keys.size):
        rank[order[k]] = -1
    return _add(ties, valid - start)


@njit(**_JIT)
def restrict(order: Any, rank: Any, valid: Any, other: Any, new_order: Any, new_rank: Any) -> Any:
    """Rank a column over the samples that are not NaN in another column, whose ranks are ``other``, in O(n).

    Writes the order and the ranks of these samples; returns their number and sums over ties.
    """
    ties = _NO_TIES
    m = 0
    start = 0
    before = -1
    for k in range(valid):
        i = order[k]
        if other[i] >= 0:
            if rank[i] != before:
                before = rank[i]
                ties = _add(ties, m - start)
                start = m
            new_order[m] = i
            new_rank[i] = start
            m += 1
    return m, _add(ties, m - start)


@njit(**_JIT)
def _add(ties: Any, size: Any) -> Any:
    """Add a group of ties to sums; as numbers, since arrays would count references in the innermost loop."""
    t = float(size)  # its cube may overflow int64
    return Ties(
        ties.pairs + (size * (size - 1) >> 1),
        ties.triples + t * (t - 1) * (t - 2),
        ties.variance + t * (t - 1) * (2 * t + 5),
        ties.classes + (size > 0),
    )


@njit(**_JIT)
def write(ties: Any, place: Any, out: Any) -> None:
    """Write sums over ties into arrays."""
    out.pairs[place] = ties.pairs
    out.triples[place] = ties.triples
    out.variance[place] = ties.variance
    out.classes[place] = ties.classes


@njit(**_JIT)
def read(ties: Any, place: Any) -> Any:
    """Read sums over ties from arrays."""
    return Ties(ties.pairs[place], ties.triples[place], ties.variance[place], ties.classes[place])
