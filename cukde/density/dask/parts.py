"""Parts of the blocks of an array: boxes around them, and how their rows are spread."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import dispatch, reprs

# Most parts of a block, and of all blocks where there are no more blocks than that: pairs of parts are looked at when a
# graph is made, 2^20 of 64 x 64 blocks in some tenths of a second.
_MOST_PARTS, _MOST_OF_ALL = 16, 4096

_SAMPLE = 4096  # rows of a block that say where it is divided
_ROWS_AT_ONCE = 2**18  # of a block, in copies


@reprs.readable
class BlockBoxes(NamedTuple):
    """Boxes around the rows of each block of a Dask array; made by :func:`cukde.dask.block_boxes`.

    A block is divided into up to 16 parts of rows that are near each other. All fields are NumPy arrays:
    ``np.savez(file, **boxes._asdict())`` stores them, and ``BlockBoxes(**np.load(file))`` restores them exactly.

    Attributes
    ----------
    rows : array, shape (blocks,)
        Number of rows of each block, int64.
    block : array, shape (parts,)
        Number of the block of each part, int64, in order.
    low, high : array, shape (parts, d)
        Least and largest coordinates of the rows of each part, float64.
    mean, variance : array, shape (parts, d)
        Mean and variance of the coordinates of the rows of each part, with the weights if there are any, float64.
    log_mass : array, shape (parts,)
        Logarithm of the number of rows, or of the sum of their weights.
    weighted : bool
        Whether there are weights.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> cukde.dask.block_boxes(da.from_array(np.array([[0.0], [2.0], [9.0]]), chunks=(2, 1))).rows
    array([2, 1])
    """

    rows: np.ndarray
    block: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_mass: np.ndarray
    weighted: Any

    @property
    def log_total(self) -> float:
        """Logarithm of the number of all rows, or of the sum of their weights."""
        largest = self.log_mass.max(initial=-math.inf)
        if largest == -math.inf:
            return -math.inf
        return float(largest + np.log(np.exp(self.log_mass - largest).sum()))


def of_plain(a: Any, chunks: tuple[int, ...], weights: Any = None) -> BlockBoxes:
    """Boxes of a plain array in blocks of so many rows; values are unchecked, and NaN stays NaN."""
    ends = np.cumsum([0, *chunks])
    parts = parts_of_block(len(chunks))
    measured = []
    for start, end in itertools.pairwise(ends):
        w = None if weights is None else dispatch.to_host(weights[start:end])
        measured.append(measure(a[start:end], w, parts))
    return together(measured, 1 if a.ndim == 1 else a.shape[1], weighted=weights is not None)


class Measured(NamedTuple):
    """What :class:`BlockBoxes` says of one block."""

    rows: int
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_mass: np.ndarray


def parts_of_block(blocks: int) -> int:
    return 2 ** int(math.log2(min(_MOST_PARTS, max(1, _MOST_OF_ALL // max(1, blocks)))))


def together(measured: Sequence[Measured], d: int, *, weighted: bool) -> BlockBoxes:
    """Put the measured blocks of an array together."""

    def joined(field: str) -> np.ndarray:
        return np.concatenate([getattr(of, field) for of in (nothing(d), *measured)])

    rows = np.array([of.rows for of in measured], np.int64)
    block = np.repeat(np.arange(len(measured)), [len(of.log_mass) for of in measured])
    low, high, mean, variance, log_mass = map(joined, ("low", "high", "mean", "variance", "log_mass"))
    return BlockBoxes(rows, block, low, high, mean, variance, log_mass, np.bool_(weighted))


def nothing(d: int) -> Measured:
    """What is measured of no rows of ``d`` columns."""
    none = np.empty((0, d))
    return Measured(0, none, none, none, none, np.empty(0))


@np.errstate(all="ignore")  # of unchecked points, and of those near the ends of the range
def measure(x: Any, w: np.ndarray | None, parts: int) -> Measured:
    """Divide rows, on any device, by medians of a sample into parts, and measure those that have rows."""
    n = len(x)
    d = 1 if x.ndim == 1 else x.shape[1]
    if not n:
        return nothing(d)
    sample = _on_host(x[:: -(-n // _SAMPLE)])
    tree = _tree(sample, int(math.log2(parts)))
    places = _places(tree, sample)
    # Sums are taken about these, so that nothing cancels where the data lie far from the origin.
    abouts = [sample[places == part] for part in range(parts)]
    about = np.stack([(some if len(some) else sample).mean(axis=0) for some in abouts])
    largest = 1.0 if w is None else float(w.max())
    count, mass = np.zeros(parts, np.int64), np.zeros(parts)
    low, high = np.full((parts, d), np.inf), np.full((parts, d), -np.inf)
    first, second = np.zeros((parts, d)), np.zeros((parts, d))
    for start in range(0, n, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        piece = _on_host(x[rows])
        of_part = _places(tree, piece)
        order = np.argsort(of_part, kind="stable")
        here = np.bincount(of_part, minlength=parts)
        some = np.flatnonzero(here)
        starts = (np.cumsum(here) - here)[some]
        piece = piece[order]
        low[some] = np.minimum(low[some], np.minimum.reduceat(piece, starts))
        high[some] = np.maximum(high[some], np.maximum.reduceat(piece, starts))
        count += here
        piece -= about[of_part[order]]
        weighted = piece
        if w is None:
            mass += here
        else:
            share = w[rows][order].astype(np.float64) / largest if largest > 0 else np.zeros(len(order))
            mass[some] += np.add.reduceat(share, starts)
            weighted = piece * share[:, None]
        first[some] += np.add.reduceat(weighted, starts)
        second[some] += np.add.reduceat(weighted * piece, starts)
    some = np.flatnonzero(count)
    low, high, about, first, second, mass = (a[some] for a in (low, high, about, first, second, mass))
    log_mass = np.log(mass) + (math.log(largest) if largest > 0 else 0.0)
    mass = np.where(mass > 0, mass, 1.0)[:, None]
    shift = first / mass
    return Measured(n, low, high, about + shift, np.maximum(second / mass - shift * shift, 0.0), log_mass)


def _on_host(x: Any) -> np.ndarray:
    """A copy, (n, d) float64."""
    out = np.array(dispatch.to_host(x), np.float64)
    return out[:, None] if out.ndim == 1 else out


_Tree = list[tuple[np.ndarray, np.ndarray]]
"""Of each level the column that divides each part, and where."""


def _tree(sample: np.ndarray, levels: int) -> _Tree:
    tree: _Tree = []
    for level in range(levels):
        places = _places(tree, sample)
        columns, medians = np.zeros(2**level, np.int64), np.full(2**level, np.inf)
        for part in range(2**level):
            some = sample[places == part]
            if len(some) > 1:
                columns[part] = some.std(axis=0).argmax()
                medians[part] = np.median(some[:, columns[part]])
        tree.append((columns, medians))
    return tree


def _places(tree: _Tree, x: np.ndarray) -> np.ndarray:
    """Number of the part of each row."""
    out, rows = np.zeros(len(x), np.int64), np.arange(len(x))
    for columns, medians in tree:
        out = 2 * out + (x[rows, columns[out]] > medians[out])
    return out
