"""Numba kernels of the fast Gauss transform: bounds of the boxes, their moments, and the expansions about targets.

The data are in ascending order: a box is a stretch of them. What is added up is added in one order, without atomics.
The data of a box are cut where a *chunk* of the data ends: a block of :func:`moments` takes a chunk, so boxes that hold
nearly everything, and boxes that hold one point, keep as many blocks busy. As chunk and rank of a box only grow along
the data, chunk + rank numbers the pieces.

Ranks count the boxes from the first; with ``listed`` the array ``ids`` says which box each is, and otherwise they
follow each other from ``first``. Ids are floats: they are whole, exact, and products with the width need no conversion.

Kernels take the number of their threads from the launch. Device functions and kernels that share them are in one file:
Numba's cache on disk looks at that one alone.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from numba import float64, int64

from cukde.core.gpu.numba_cuda import cuda

THREADS = 128  # of a block, at most
MOST_REACH = 24  # boxes to each side of a target

_SOURCES = 2 * MOST_REACH + 1

# Boxes that a chunk may touch for its block to take them one after another, all threads at each; of more boxes every
# thread takes some.
_TOGETHER = 32

# Parts in which a sum over threads, or of a target over its sources, is formed: 8 of 18 powers keep 128 threads busy.
_PARTS = 8

_SURELY = 1 - 4 * 2.0**-52  # of a mass that was added up in double precision


@functools.cache
def bounds(points: str) -> Any:
    """Make the kernel that finds where the boxes begin, ``starts[rank]``; the last entry is the number of data.

    A thread searches the edge of a box among the data. Searches along the same way make starts that ascend even where
    a few neighbours are out of order by a rounding, as moved data are; and what rounding puts outside of all boxes is
    in the first or the last.
    """

    @cuda.jit(cache=True)
    def bounds(x, ids, starts, boxes, first, width, listed):  # type: ignore[no-untyped-def]
        rank = cuda.grid(1)
        if rank > boxes:
            return
        low, high = int64(0), int64(x.size)
        if rank == 0:
            high = low
        elif rank == boxes:
            low = high
        else:
            edge = (ids[rank] if listed else first + rank) * width
            while low < high:
                middle = (low + high) >> 1
                if float64(x[middle]) < edge:
                    low = middle + 1
                else:
                    high = middle
        starts[rank] = low

    return bounds


@functools.cache
def moments(order: int, points: str) -> Any:
    """Make the kernel that sums powers of the data of a chunk about the centres of their boxes.

    S[column, chunk + rank, k] = sum v alpha^k over the data of the chunk in the box; the entry behind the last power is
    the sum of |v|. Columns: 0 is the weight, c + 1 the weight times values[:, c]. A block takes a chunk of a column.
    """
    powers = order
    entries = order + 1
    row = THREADS + 1  # of shared memory: so that threads adding up rows use different banks
    size = entries * row
    items = entries * _PARTS

    @cuda.jit(cache=True)
    def moments(x, log_weights, values, ids, starts, S, chunk, boxes, first, width, weighted, listed):  # type: ignore[no-untyped-def]
        shared = cuda.shared.array(size, float64)
        parts = cuda.shared.array(items, float64)
        sums = cuda.local.array(entries, float64)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        column = cuda.blockIdx.y
        begin = int64(cuda.blockIdx.x) * chunk
        end = min(begin + chunk, int64(x.size))
        per_unit = 2.0 / width
        rank = _rank_of(starts, boxes, begin)
        last = _rank_of(starts, boxes, end - 1)
        together = last - rank < _TOGETHER
        step = int64(1)
        offset, stride = int64(thread), int64(threads)
        if not together:
            rank += thread
            step = int64(threads)
            offset, stride = int64(0), int64(1)
        while rank <= last:
            low, high = max(starts[rank], begin), min(starts[rank + 1], end)
            if low < high:
                centre = ((ids[rank] if listed else first + rank) + 0.5) * width
                slot = cuda.blockIdx.x + rank
                for k in range(entries):
                    sums[k] = 0.0
                for i in range(low + offset, high, stride):
                    alpha = (float64(x[i]) - centre) * per_unit
                    term = 1.0
                    if weighted:
                        term = math.exp(log_weights[i])
                    if column > 0:
                        term *= values[i, column - 1]
                    sums[powers] += abs(term)
                    for k in range(powers):
                        sums[k] += term
                        term *= alpha
                if together:
                    for k in range(entries):
                        shared[k * row + thread] = sums[k]
                    cuda.syncthreads()
                    for item in range(thread, items, threads):
                        k = item // _PARTS
                        total = 0.0
                        for i in range(item - k * _PARTS, threads, _PARTS):
                            total += shared[k * row + i]
                        parts[item] = total
                    cuda.syncthreads()
                    for k in range(thread, entries, threads):
                        total = 0.0
                        for part in range(_PARTS):
                            total += parts[k * _PARTS + part]
                        S[column, slot, k] = total
                else:
                    for k in range(entries):
                        S[column, slot, k] = sums[k]
            rank += step

    return moments


@cuda.jit(device=True, inline="always")
def _rank_of(starts, boxes, i):  # type: ignore[no-untyped-def]
    """Rank of the box of datum i."""
    low, high = int64(0), int64(boxes)  # starts[low] <= i < starts[high]
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= i:
            low = middle
        else:
            high = middle
    return low


@cuda.jit(device=True, inline="always")
def _first_from(ids, boxes, least):  # type: ignore[no-untyped-def]
    """First rank of a listed box with at least this id."""
    low, high = int64(0), int64(boxes)
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@functools.cache
def translate(order: int) -> Any:
    """Make the kernel that turns moments into expansions B[sum, target, l] about targets; a block takes one.

    Sums are those of the columns; of one column there may be a second one, by another translation.

    A target that is not accepted, see :mod:`cukde.density.one_dimension.plan`, gets NaN. Targets are the boxes
    ``target_ids``, or follow each other from ``first_target``. ``table`` holds error, least and, with l last, the
    translations of a plan; ``masses`` those of the columns, but for the first without weights, which is n. With
    ``cumulative``, of the distribution function, what lies to the left of all sources counts whole, and ``masses``
    (n + 1,) are those left of each datum.
    """
    powers = order
    entries = order + 1
    items = order * _PARTS
    size = _SOURCES * entries

    @cuda.jit(cache=True)
    def translate(  # type: ignore[no-untyped-def]
        S,
        ids,
        starts,
        target_ids,
        masses,
        table,
        B,
        n,
        chunk,
        boxes,
        first,
        first_target,
        reach,
        tolerance,
        beyond,
        weighted,
        listed,
        cumulative,
    ):
        gathered = cuda.shared.array(size, float64)
        offsets = cuda.shared.array(_SOURCES, int64)
        parts = cuda.shared.array(items, float64)
        accepted = cuda.shared.array(1, int64)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        target, number = cuda.blockIdx.x, int64(cuda.blockIdx.y)  # of the sum
        column = min(number, int64(S.shape[0]) - 1)
        id_of_target = target_ids[target] if listed else first_target + target
        if listed:
            low = _first_from(ids, boxes, id_of_target - reach)
            high = _first_from(ids, boxes, id_of_target + reach + 1)
        else:
            low = max(int64(0), int64(id_of_target - reach - first))
            high = min(int64(boxes), int64(id_of_target + reach + 1 - first))
        sources = max(int64(0), high - low)
        for item in range(thread, sources * entries, threads):
            source = item // entries
            k = item - source * entries
            rank = low + source
            start, stop = starts[rank], starts[rank + 1]
            total = 0.0
            if start < stop:
                for piece in range(start // chunk, (stop - 1) // chunk + 1):
                    total += S[column, piece + rank, k]
            gathered[item] = total
            if k == 0:
                offsets[source] = int64(id_of_target - (ids[rank] if listed else first + rank)) + reach
        cuda.syncthreads()

        width = 2 * reach + 1  # of a row of the table
        translation = 2 * width + (number - column) * width * powers * powers
        for item in range(thread, items, threads):
            part = item // powers
            power = item - part * powers
            total = 0.0
            for source in range(part, sources, _PARTS):
                row = translation + offsets[source] * powers * powers + power
                for k in range(powers):
                    total += table[row + k * powers] * gathered[source * entries + k]
            parts[item] = total
        to_left = 0.0
        if cumulative:
            before = starts[min(low, int64(boxes))]
            to_left = masses[before] if weighted else float64(before)
        if thread == 0:
            inside, error, least = 0.0, 0.0, to_left
            for source in range(sources):
                mass = gathered[source * entries + powers]
                inside += mass
                error += mass * table[offsets[source]]
                least += mass * table[width + offsets[source]]
            whole = float64(n)
            if weighted or column > 0:
                whole = masses[n] if cumulative else masses[column]
            outside = max(0.0, whole - inside * _SURELY)
            accepted[0] = 1 if error + outside * beyond <= tolerance * least else 0
        cuda.syncthreads()
        for power in range(thread, powers, threads):
            total = to_left if power == 0 else 0.0
            for part in range(_PARTS):
                total += parts[part * powers + power]
            B[number, target, power] = total if accepted[0] else math.nan

    return translate
