"""Boxes that a call is given: their checks, which pairs of blocks they leave, and what tasks find of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from cukde.core.dask.arrays import unknown_rows
from cukde.core.over_dask import is_dask
from cukde.density.dask import parts as dask_parts
from cukde.density.dask.parts import BlockBoxes

# Logarithms of weights, summed in another order, agree to this.
_SAME_MASS = 1e-9


class Declared(NamedTuple):
    """What boxes say of one block of a call."""

    rows: int
    low: np.ndarray  # (d,)
    high: np.ndarray
    log_mass: float | None  # None: without weights
    whole: bool  # and not part of a block with a box, of whose weight it may have less

    def holds(self, name: str, number: int, points: Any, backend: Any) -> bool:
        """Whether the box holds the points of a block, as it does not hold NaN; raise for another number of rows."""
        if len(points) != self.rows:
            raise ValueError(f"{_fit(name)}: block {number} has {len(points)} rows, and its box {self.rows}")
        if not len(points):
            return True
        low, high = (backend.asnumpy(of(axis=0)) for of in (points.min, points.max))
        return bool((low >= self.low).all() and (high <= self.high).all())

    def refuse_mass(self, number: int, log_mass: float) -> None:
        """Raise unless a block of data has the weight that its boxes were made with."""
        if self.log_mass is None:
            return
        more = log_mass - self.log_mass if log_mass > -math.inf or self.log_mass > -math.inf else 0.0
        if more > _SAME_MASS or (self.whole and more < -_SAME_MASS):
            raise ValueError(f"{_fit('X')}: the weights of block {number} are not those that they were made with")


def outside(name: str, number: int) -> ValueError:
    """An error for rows of a block that lie beyond its box."""
    return ValueError(f"{_fit(name)}: rows of block {number} lie outside")


def _fit(name: str) -> str:
    return f"boxes must be those of {name}, made by cukde.dask.block_boxes of the same rows in the same order"


class Given(NamedTuple):
    """Boxes as a call has them; None of plain arrays, and of queries that are the data."""

    data: BlockBoxes | None
    queries: BlockBoxes | None


def given(boxes: Any, X: Any, Y: Any, *, itself: bool) -> Given:
    """Check that each Dask array, and no other, has its boxes."""
    both = (boxes, None) if isinstance(boxes, BlockBoxes) else boxes
    if not (isinstance(both, tuple) and len(both) == 2 and all(isinstance(b, BlockBoxes | None) for b in both)):
        raise TypeError(
            "boxes must be of X, by cukde.dask.block_boxes(X), or a pair of those of X and Y, None for a plain array; "
            f"got {type(boxes).__name__}"
        )
    of_data, of_queries = both
    arrays = [("X", X, of_data)] if itself else [("X", X, of_data), ("Y", Y, of_queries)]
    for name, a, of in arrays:
        if is_dask(a) and of is None:
            raise ValueError(
                f"boxes must have those of {name}, a Dask array: write boxes=(boxes of X, boxes of Y), each by "
                "cukde.dask.block_boxes, None for a plain array"
            )
        if of is not None and not is_dask(a):
            raise ValueError(f"boxes must be None for {name}, a plain array, whose boxes are computed")
    return Given(of_data, None if itself else of_queries)


def fitting(name: str, boxes: BlockBoxes, a: Any, *, weighted: bool) -> BlockBoxes:
    """Check that boxes can be those of a Dask array, of ``weighted`` data."""
    d = 1 if a.ndim == 1 else a.shape[1]
    if boxes.low.shape[1] != d:
        raise ValueError(f"{_fit(name)}: it has {d} columns, and boxes {boxes.low.shape[1]}")
    if unknown_rows(a):
        if a.numblocks[0] != len(boxes.rows):
            raise ValueError(f"{_fit(name)}: it has {a.numblocks[0]} blocks, and there are boxes of {len(boxes.rows)}")
    elif a.shape[0] != boxes.rows.sum():
        raise ValueError(f"{_fit(name)}: it has {a.shape[0]} rows, and boxes {boxes.rows.sum()}")
    if name == "X" and bool(boxes.weighted) != weighted:
        made, wanted = ("with", "without") if boxes.weighted else ("without", "with")
        example = "cukde.dask.block_boxes(X, weights=weights)" if weighted else "cukde.dask.block_boxes(X)"
        raise ValueError(f"boxes were made {made} weights, for a call {wanted} them: write {example}")
    return boxes


class Shared(NamedTuple):
    """Boxes of an array, and the blocks that a call has of it."""

    boxes: BlockBoxes
    overlaps: np.ndarray  # (blocks, blocks with boxes), bool: they have rows in common
    rows: np.ndarray  # (blocks,)

    def declared(self) -> list[Declared]:
        """What the boxes say of each block."""
        out = []
        boxes = self.boxes
        for overlap, rows in zip(self.overlaps, self.rows, strict=True):
            of = overlap[boxes.block]
            low, high = boxes.low[of].min(axis=0, initial=math.inf), boxes.high[of].max(axis=0, initial=-math.inf)
            log_mass = float(np.logaddexp.reduce(boxes.log_mass[of], initial=-math.inf)) if boxes.weighted else None
            out.append(Declared(int(rows), low, high, log_mass, bool(boxes.rows[overlap].sum() == rows)))
        return out


def shared(boxes: BlockBoxes, a: da.Array) -> Shared:
    """Bring boxes together with the blocks of a call, which may be cut and joined."""
    if unknown_rows(a):
        return Shared(boxes, np.eye(len(boxes.rows), dtype=bool), boxes.rows)
    rows = np.array(a.chunks[0], np.int64)
    ends, with_boxes = np.cumsum(rows), np.cumsum(boxes.rows)
    begins, begins_with = ends - rows, with_boxes - boxes.rows
    overlaps = (begins[:, None] < with_boxes) & (begins_with < ends[:, None])
    return Shared(boxes, overlaps & (rows[:, None] > 0) & (boxes.rows > 0), rows)


def plain(a: da.Array, source: Any, weights: Any = None) -> Shared:
    """Boxes of a plain array in the blocks of a call."""
    boxes = dask_parts.of_plain(source, a.chunks[0], weights)
    return Shared(boxes, np.eye(len(boxes.rows), dtype=bool), boxes.rows)
