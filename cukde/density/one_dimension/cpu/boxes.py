"""Points of a line in the boxes of a plan, a box after the other; see :mod:`cukde.density.one_dimension.plan`."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.one_dimension.plan import Plan

NOWHERE = -1  # place of a query that no box of the data reaches


class Boxes(NamedTuple):
    """Points box by box."""

    ids: np.ndarray  # (boxes,) int64, ascending: those that hold points
    starts: np.ndarray  # (boxes + 1,) int64: the points of box b are x[starts[b]:starts[b + 1]]
    x: np.ndarray  # (n,) float64
    order: np.ndarray | None  # (n,): the rows they come from; None if not asked for


class Places(NamedTuple):
    """Queries by the box they fall in."""

    ids: np.ndarray  # (boxes,) int64, ascending: all boxes that hold queries and that the data may reach
    counts: np.ndarray  # (boxes,) int64: queries
    box: np.ndarray  # (m,) int64: index of a query's box, or NOWHERE


def chunks(n: int, least: int = 4096) -> list[slice]:
    """Cut rows into some pieces for each thread."""
    pieces = max(1, min(4 * threads.count(), -(-n // least)))
    return [slice(n * i // pieces, n * (i + 1) // pieces) for i in range(pieces)]


def edges(x: np.ndarray, plan: Plan) -> tuple[int, int] | None:
    """First and last box of the points; None where they are too far out for boxes, or not numbers."""
    low, high = float(x.min()), float(x.max())
    most = plan.width * one_dimension_plan.MOST_BOXES
    if not (-most < low <= high < most):
        return None
    return int(low // plan.width), int(high // plan.width)


def bucket(x: np.ndarray, plan: Plan, first: int, last: int, *, ordered: bool) -> Boxes:
    """Bring the points of a line together by box; ``ordered`` asks for the rows they come from."""
    n, size = len(x), last - first + 3  # floor of a product may be off by one at an edge
    if size > one_dimension_plan.few_boxes(n):  # boxes that hold none would cost time: not where points are sorted
        return _sort(x, plan, ordered)
    low, rows = first - 1, chunks(n)
    counts = np.zeros((len(rows), size), np.int64)
    threads.run(lambda i: _count(x[rows[i]], 1 / plan.width, low, counts[i]), range(len(rows)))
    starts, places = stretches(counts)
    out, order = np.empty(n), np.empty(n if ordered else 0, np.int64)
    threads.run(
        lambda i: _scatter(x, rows[i].start, rows[i].stop, 1 / plan.width, low, places[i], out, order),
        range(len(rows)),
    )
    held = np.flatnonzero(np.diff(starts))
    return Boxes(low + held, np.append(starts[held], n), out, order if ordered else None)


def stretches(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each box begins, and the end, and where in each box each piece has a stretch of its own, of its counts.

    They are in the order of the pieces: the same however many threads run.
    """
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    return starts, starts[:-1] + np.cumsum(counts, axis=0) - counts


def place(y: np.ndarray, plan: Plan, boxes: Boxes) -> Places:
    """Find the box of each query, among those within reach of the data."""
    low, high = int(boxes.ids[0]) - plan.reach, int(boxes.ids[-1]) + plan.reach
    where = np.empty(len(y), np.int64)
    threads.run(lambda rows: _locate(y[rows], 1 / plan.width, low, high, where[rows]), chunks(len(y)))
    if high - low < one_dimension_plan.few_boxes(len(y)):
        counts = np.bincount(where - NOWHERE, minlength=high - low + 2)[1:]
        return Places(np.arange(low, high + 1), counts, where)
    held, inverse, counts = np.unique(where, return_inverse=True, return_counts=True)
    outside = int(held[0] == NOWHERE)
    return Places(held[outside:] + low, counts[outside:], inverse.reshape(-1) - outside)


def _sort(x: np.ndarray, plan: Plan, ordered: bool) -> Boxes:
    order = np.argsort(x, kind="stable") if ordered else None
    x = np.sort(x).astype(np.float64, copy=False) if order is None else x[order].astype(np.float64, copy=False)
    boxes = np.empty(len(x), np.int64)
    _locate(x, 1 / plan.width, -(2**62), 2**62, boxes)
    boxes -= 2**62
    starts = np.concatenate([[0], np.flatnonzero(np.diff(boxes)) + 1, [len(x)]])
    return Boxes(boxes[starts[:-1]], starts, x, order)


def shares(weights: np.ndarray, pieces: int) -> list[slice]:
    """Cut a list into pieces of about equal weight."""
    total = np.concatenate([[0], np.cumsum(weights)])
    cuts = np.searchsorted(total, total[-1] * np.arange(1, pieces) / pieces)
    bounds = np.unique(np.concatenate([[0], cuts, [len(weights)]]))
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(bounds)]


@njit(**_JIT)
def _count(x: Any, inverse: Any, low: Any, counts: Any) -> None:
    for i in range(x.size):
        counts[np.int64(np.floor(np.float64(x[i]) * inverse)) - low] += 1


@njit(**_JIT)
def _scatter(x: Any, first: Any, last: Any, inverse: Any, low: Any, places: Any, out: Any, order: Any) -> None:
    """Write points to the place of their box, which moves on; and where they stood, if there is room for it."""
    for i in range(first, last):
        v = np.float64(x[i])
        box = np.int64(np.floor(v * inverse)) - low
        position = places[box]
        places[box] = position + 1
        out[position] = v
        if order.size:
            order[position] = i


@njit(**_JIT)
def _locate(y: Any, inverse: Any, low: Any, high: Any, where: Any) -> None:
    """Write the box of each query above ``low``, or NOWHERE outside of ``low`` to ``high``."""
    for i in range(y.size):
        box = np.floor(np.float64(y[i]) * inverse)
        # As floating-point numbers: the box of a query may be beyond any integer.
        where[i] = np.int64(box) - low if low <= box <= high else NOWHERE
